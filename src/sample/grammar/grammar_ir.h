/* grammar_ir.h: what every front end compiles to, and what the matcher (grammar_machine.c) runs.
 * Immutable after compiling.
 *
 * Lexers are automata read as bytes: LEX_RAW spells its code points in UTF-8 (GBNF rules, regexes,
 * numbers, literals); LEX_JSON reads a JSON string whose decoded characters are the automaton's
 * input, escapes included. A raw lexer may call other lexers by number (GBNF rules); so a set of
 * raw lexers is a recursive transition network.
 *
 * JSON values are goals: the ways a value may be written, each a lexer, a string with a bounded
 * length, an object form or an array form. Object forms allow their members in any order: the
 * matcher keeps the set of names already used. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_IR_H
#define MLXCEL_SAMPLE_GRAMMAR_IR_H

#include "sample/grammar/grammar_dfa.h"

#define IR_NONE UINT32_MAX
#define IR_UNBOUNDED UINT32_MAX

typedef enum LexMode { LEX_RAW, LEX_JSON } LexMode;

typedef struct IrLexer {
    const Dfa *dfa;
    LexMode mode;
    uint8_t *
        /* per state: how many plain characters (see GrammarVocab) surely keep it alive; capped */
        plain;
} IrLexer;

typedef struct IrLength { /* a string of min..max code points, all characters allowed */
    uint32_t min, max;    /* max IR_UNBOUNDED */
} IrLength;

typedef struct IrGoal {
    uint32_t *lexers, *objects, *arrays; /* indices */
    IrLength *lengths;
    uint32_t n_lexers, n_objects, n_arrays, n_lengths;
} IrGoal;

/* A class of member names: one name that the schema spells, or a region (pattern, all others). Only
 * usable ones are kept. */
typedef struct IrClass {
    uint32_t goal;  /* of the value */
    uint32_t named; /* bit of the name in the set of names used; IR_NONE for a region */
} IrClass;

typedef struct IrObject {
    uint32_t key_lexer; /* labels are classes */
    IrClass *classes;
    uint32_t n_classes, n_named;
    uint32_t n_words;   /* of a name set, 32 bits each */
    uint32_t *required; /* name set */
    uint32_t *usable;   /* name set: those whose values exist */
    uint32_t n_required;
    uint32_t *reach; /* per state of the key automaton: name set that can still be completed */
    uint8_t *reach_region; /* per state: some region can still be completed */
    uint8_t *no_region;    /* as many zeros */
    uint32_t min, max;     /* members */
    bool has_region;
} IrObject;

enum { IR_MAX_CONTAINS = 3 };

typedef struct IrContains {
    uint32_t min, max, from; /* elements at index >= from that match: min..max of them */
} IrContains;

/* An element at one index may be written in 2^n_contains ways: bit c set means it matches contains
 * c and is counted. goals[choice], IR_NONE where impossible. */
typedef struct IrElement {
    uint32_t goals[1 << IR_MAX_CONTAINS];
} IrElement;

typedef struct IrArray {
    IrElement *elements; /* n_prefix + 1; the last is for all further indices */
    uint32_t n_prefix, n_contains;
    IrContains contains[IR_MAX_CONTAINS];
    uint32_t min, max;
    uint32_t clip; /* indices from here on behave alike */
    uint8_t *
        /* with contains: per state (ir_array_slot), whether it can still be closed validly */
        finish;
} IrArray;

typedef struct GrammarIr {
    IrLexer *lexers;
    IrGoal *goals;
    IrObject *objects;
    IrArray *arrays;
    uint32_t n_lexers, n_goals, n_objects, n_arrays;
    uint32_t space_lexer;  /* blanks between JSON tokens; IR_NONE for plain grammars */
    uint32_t string_lexer; /* any JSON string, for IrLength; IR_NONE for plain grammars */
    bool root_is_goal;
    uint32_t root;    /* goal or lexer */
    bool uses_tokens; /* some lexer names whole tokens */
} GrammarIr;

enum { IR_PLAIN_MAX = 64 }; /* cap of IrLexer.plain: means any number */

/* Fills lexer->plain; alive[q] false marks states that do not count (NULL: all count). */
bool ir_lexer_analyze(GrammarWork *w, IrLexer *lexer, const uint8_t *alive);

/* Array bookkeeping shared by the compiler (is the form empty?) and the matcher (may it close, may
 * it go on?). */
typedef struct IrArrayState {
    uint32_t index, counts[IR_MAX_CONTAINS];
} IrArrayState;

const IrElement *ir_array_element(const IrArray *a, const IrArrayState *s);
bool ir_array_may_close(const IrArray *a, const IrArrayState *s);
bool ir_array_advance(const IrArray *a, const IrArrayState *s, uint32_t choice,
                      IrArrayState *out); /* false: not allowed */
bool ir_array_can_finish(const IrArray *a, const IrArrayState *s);
bool ir_array_prepare(
    GrammarWork *w,
    IrArray *a); /* fills clip and finish; ERR_LIMIT where contains counts too much */

#endif
