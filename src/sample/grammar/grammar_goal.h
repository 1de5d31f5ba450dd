/* grammar_goal.h: from formulas to the IR; for this folder only.
 *
 * A goal is a formula that a value has to satisfy. It is split by type: strings and numbers are
 * closed under and, or, not, so they become one automaton; arrays and objects become a disjunction
 * of conjunctions of positive atoms, each an array or object form. Member and element goals are
 * conjunctions of references, looked up by number, so recursion ends. At last goals that no finite
 * value satisfies are found (least fixpoint) and cut off: what remains can always be completed. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_GOAL_H
#define MLXCEL_SAMPLE_GRAMMAR_GOAL_H

#include "sample/grammar/grammar_ir.h"
#include "sample/grammar/grammar_schema.h"

typedef struct Conj { /* atoms that hold together */
    uint32_t *atoms;  /* numbers, ascending */
    uint32_t n;
} Conj;

typedef struct Dnf {
    Conj *conj;
    uint32_t n, cap;
} Dnf;

typedef struct GoalObject { /* an object form before dead goals are known */
    IrObject ir;
    const Dfa *keys; /* labels are classes */
    bool live;
} GoalObject;

typedef struct GoalArray {
    IrArray ir;
    bool live;
} GoalArray;

typedef struct Goals {
    Schema s;
    GrammarWork *w;
    WordTable ids; /* formula -> goal */
    IrGoal *goals;
    Fid *formulas; /* per goal */
    bool *live;    /* per goal */
    uint32_t cap_goals;
    GoalObject *objects;
    GoalArray *arrays;
    uint32_t n_objects, cap_objects, n_arrays, cap_arrays;
    IrLexer *lexers;
    uint32_t n_lexers, cap_lexers;
    WordTable lexer_ids; /* content -> lexer */
    WordTable text_ids;  /* formula -> text_dfas */
    const Dfa **text_dfas;
    uint32_t cap_text_dfas;
    const Dfa *any_text, *plain_number, *any_number, *integer;
    uint32_t literal[8]; /* lexer of each subset of null, true, false; IR_NONE = not made yet */
} Goals;

uint32_t goal_of(Goals *g, Fid f); /* IR_NONE for F_NEVER or on failure */
bool goal_lexer(Goals *g, const Dfa *d, LexMode mode, uint32_t *out);
bool goal_dnf(Goals *g, Fid x, bool negated, TypeBit type, Dnf *out);
bool goal_surely_empty(Schema *s, Fid x);

/* Types of one value. goal_text: the strings of x; goal_number: the spellings of its numbers. */
const Dfa *goal_text(Goals *g, Fid x);
bool goal_lengths_only(Goals *g, Fid x);
bool goal_length_holds(Goals *g, Fid x, uint64_t length);
bool goal_length_cuts(Goals *g, Fid x, uint64_t **cuts, uint32_t *n, uint32_t *cap);
const Dfa *goal_number(Goals *g, Fid x, bool *any); /* any: no constraint on the value */
bool goal_literal_holds(Goals *g, Fid x, JsonType literal);
bool goal_add_array(Goals *g, IrGoal *goal, const Conj *conj);
bool goal_add_object(Goals *g, IrGoal *goal, const Conj *conj, int depth);
Fid goal_key_formula(Goals *g, const Conj *conj,
                     Str key); /* what a member of that name has to satisfy */
bool goal_array_live(Goals *g, GoalArray *a);
bool goal_object_live(const Goals *g, const GoalObject *o);
bool goal_object_finish(Goals *g, GoalObject *o);
bool goal_array_finish(Goals *g, GoalArray *a);
const Atom *goal_atom(const Goals *g, uint32_t number);

#endif
