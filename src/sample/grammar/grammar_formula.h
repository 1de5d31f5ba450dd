/* grammar_formula.h: JSON Schemas as boolean formulas over atoms.
 *
 * An atom constrains values of one type and lets all others pass ("minLength 2", "member a, if
 * present, satisfies g"). A schema is the conjunction of its keywords; allOf, anyOf, oneOf, not,
 * if/then/else and $ref are boolean structure. Below a member or an element the formula stops at
 * F_SCHEMA, a reference that is looked up when needed, so recursive schemas stay finite. Formulas
 * are hash-consed: equal ones have equal numbers, and goals are found again by number. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_FORMULA_H
#define MLXCEL_SAMPLE_GRAMMAR_FORMULA_H

#include "json/json.h"
#include "sample/grammar/grammar_dfa.h"
#include "sample/grammar/grammar_table.h"

typedef uint32_t Fid; /* formula number */
enum { F_NEVER = 0, F_ALWAYS = 1, F_ERROR = UINT32_MAX };

typedef enum FKind { FK_CONST, FK_AND, FK_OR, FK_NOT, FK_ATOM, FK_SCHEMA } FKind;

typedef enum TypeBit {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* numbers that are not integers */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
} TypeBit;

typedef enum AtomKind {
    ATOM_TYPE,          /* a: mask of TypeBit */
    ATOM_ENUM,          /* values[0..n) */
    ATOM_STRING,        /* dfa */
    ATOM_LENGTH,        /* min..max code points */
    ATOM_NUMBER,        /* dfa over plain decimal numbers */
    ATOM_COUNT_ITEMS,   /* min..max */
    ATOM_ITEM,          /* element `index`, if there, satisfies goal */
    ATOM_ITEMS,         /* elements from `index` on satisfy goal */
    ATOM_CONTAINS,      /* min..max of the elements from `index` on satisfy goal */
    ATOM_UNIQUE,        /* elements differ */
    ATOM_COUNT_MEMBERS, /* min..max */
    ATOM_REQUIRED,      /* key is there */
    ATOM_KEY,           /* member key, if there, satisfies goal */
    ATOM_PATTERN,       /* members whose name is in dfa satisfy goal */
    ATOM_REST,          /* members that none of `but` covers satisfy goal */
    ATOM_NAMES,         /* names are in dfa */
    /* some member that atom `of` covers (PATTERN, REST; NAMES: violates) satisfies goal */
    ATOM_EXISTS,
} AtomKind;

typedef struct
    KeyCover { /* names spelled and patterns, as additionalProperties sees its neighbours */
    const Str *keys;
    const Dfa **patterns;
    uint32_t n_keys, n_patterns;
} KeyCover;

typedef struct Atom {
    AtomKind kind;
    uint32_t mask, index;
    uint64_t min, max; /* max UINT64_MAX: none */
    const Json *values;
    size_t n_values;
    const Dfa *dfa;
    Str key;
    Fid goal;
    uint32_t of;
    const KeyCover *but;
    const char *keyword; /* for messages */
} Atom;

typedef struct Formulas {
    GrammarWork *w;
    WordTable nodes; /* {FKind, kids or number} */
    Atom *atoms;
    uint32_t n_atoms, cap_atoms;
} Formulas;

bool formulas_init(Formulas *f, GrammarWork *w);
void formulas_deinit(Formulas *f);
Fid formula_atom(Formulas *f, Atom a);
Fid formula_schema(Formulas *f, uint32_t schema);
Fid formula_not(Formulas *f, Fid x);
Fid formula_and(Formulas *f, Fid a, Fid b);
Fid formula_or(Formulas *f, Fid a, Fid b);
Fid formula_all(Formulas *f, FKind and_or, const Fid *kids, uint32_t n);
FKind formula_kind(const Formulas *f, Fid x);
uint32_t formula_n(const Formulas *f, Fid x); /* kids of AND, OR */
uint32_t formula_kid(const Formulas *f, Fid x,
                     uint32_t i);                      /* of AND, OR, NOT; atom or schema number */
const Atom *formula_atom_of(const Formulas *f, Fid x); /* of an FK_ATOM */

#endif
