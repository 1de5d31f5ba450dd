/* grammar_machine.h: runs a GrammarIr over bytes. A nondeterministic pushdown automaton,
 * determinized lazily.
 *
 * A position says where we are within one lexer, object or array. A stack is what to return to when
 * that is finished; a stack node holds a set of (return position, rest of the stack), so one node
 * stands for many stacks at once and ambiguity costs no more than its distinct positions (a
 * graph-structured stack, Tomita 1985, kept in canonical form). A state is a set of (position,
 * stack). Positions, stacks and states are interned: equal ones have equal ids, so transitions and
 * token masks can be cached per id. States are numbers; a matcher forks, saves and rolls back by
 * copying one.
 *
 *     uint32_t s = machine_start(m);
 *     s = machine_step(m, s, 'a');           MACHINE_DEAD: not accepted
 *     if (machine_may_end(m, s)) ...
 *     if (m->failed) ...                     memory or budget ran out: sticky, states are unreliable from then on
 *
 * One thread at a time. The caller owns the IR; memory of the machine is capped (machine_collect
 * makes room). */
#ifndef MLXCEL_SAMPLE_GRAMMAR_MACHINE_H
#define MLXCEL_SAMPLE_GRAMMAR_MACHINE_H

#include "sample/grammar/grammar_ir.h"
#include "sample/grammar/grammar_table.h"

enum { MACHINE_DEAD = 0, MACHINE_UNKNOWN_STACK = 1 };
/* Nesting: of rules, and of JSON values (json_parse reads 128 deep). A bracket is only opened with
 * MACHINE_HEADROOM left. */
enum { MACHINE_MAX_DEPTH = 1500, MACHINE_MAX_JSON_DEPTH = 124, MACHINE_HEADROOM = 4 };

typedef enum PosKind {
    POS_FINISHED, /* the root is complete */
    POS_ESCAPE,   /* a: label. Left the unknown stack: what follows depends on the caller's stack */
    /* a: lexer, b: sub-state and bytes left, c: state, d, e: range of code points being spelled */
    POS_LEX,
    POS_LENGTH,     /* a: string position, b: code points still needed, c: still allowed */
    POS_GOAL,       /* a: goal */
    POS_OBJECT,     /* a: phase, b: object state */
    POS_KEY,        /* a: object state, b: position in the key lexer */
    POS_KEY_RETURN, /* a: object state; the label popped with is the class */
    POS_MEMBER,     /* a: phase, b: object state (with the member), c: goal */
    POS_ARRAY,      /* a: phase, b: array state */
    POS_DONE,       /* behind the closing bracket */
} PosKind;

typedef struct Pos {
    uint32_t kind, a, b, c, d, e;
} Pos;

typedef struct Config {
    uint32_t pos, stack;
} Config;

typedef struct Machine {
    const GrammarIr *ir;
    WordTable positions; /* keys are Pos */
    WordTable stacks;    /* {flags, (return position, stack)*}, sorted by position */
    WordTable states;    /* Config*, sorted */
    WordTable unions;    /* (stack, stack) -> union_of[] */
    WordTable objects;   /* {object form, members counted, name set words} */
    WordTable arrays;    /* {array form, IrArrayState} */
    uint32_t *union_of;
    uint16_t *depth;               /* per stack */
    uint32_t *lex_row, *state_row; /* per position / state: row number + 1; 0 = none yet */
    uint32_t n_union_of, cap_depth, cap_lex_row, cap_state_row;
    uint32_t *rows; /* rows of 256 targets; ROW_UNKNOWN = not computed yet */
    uint32_t n_rows, cap_rows;
    /* closure under construction */
    Config *work, *out;
    uint32_t n_work, cap_work, n_out, cap_out;
    Config *seen; /* hash set of this closure */
    uint32_t *seen_stamp, stamp;
    uint32_t n_seen;
    uint32_t *key;
    uint32_t cap_key;
    uint32_t start;
    uint32_t space_pos, done_pos; /* start of the blanks; a finished object or array */
    uint32_t max_depth;
    uint32_t growth; /* deepest stack made since the caller last zeroed it */
    ErrKind failed;  /* sticky: ERR_NOMEM or ERR_LIMIT */
} Machine;

bool machine_init(Machine *m, const GrammarIr *ir, Err *err) MUST_CHECK;
void machine_deinit(Machine *m);
static inline uint32_t machine_start(const Machine *m) { return m->start; }
uint32_t machine_step(Machine *m, uint32_t state, uint8_t byte);
uint32_t machine_step_token(Machine *m, uint32_t state,
                            uint32_t token);                /* by <[id]> references only */
uint32_t machine_union(Machine *m, uint32_t a, uint32_t b); /* follows both */
bool machine_may_end(const Machine *m, uint32_t state);
bool machine_is_done(const Machine *m, uint32_t state); /* may end and nothing else */
size_t machine_bytes(const Machine *m);
/* Drops everything but what the given states need; their numbers are replaced by new ones. */
bool machine_collect(Machine *m, uint32_t **states, size_t n, Err *err) MUST_CHECK;

/* For the mask walker. */
uint32_t machine_n_configs(const Machine *m, uint32_t state);
Config machine_config(const Machine *m, uint32_t state, uint32_t i);
uint32_t machine_state_of(Machine *m, Config c); /* closure of one configuration */
uint32_t machine_pop(Machine *m, uint32_t stack,
                     uint32_t label); /* state after leaving into stack */
bool machine_tokens(Machine *m, uint32_t state, bool (*each)(void *arg, uint32_t lo, uint32_t hi),
                    void *arg);

/* Shared by the machine's own files. */
enum { ROW_UNKNOWN = UINT32_MAX };
enum { SUB_CHAR, SUB_UTF8, SUB_OPEN, SUB_ESC, SUB_HEX, SUB_LOW, SUB_END };
enum { LENGTH_FREE = UINT32_MAX };
Pos machine_pos(const Machine *m, uint32_t id);
uint32_t machine_intern_pos(Machine *m, Pos p); /* id + 1 shifted: 0 is "no position" */
bool machine_fail(Machine *m, ErrKind kind);
uint32_t pos_step(Machine *m, uint32_t pos, uint8_t byte); /* 0: dead */
uint32_t lex_step(Machine *m, uint32_t pos, uint8_t byte); /* 0: dead */
uint32_t lex_start(Machine *m, uint32_t lexer);
bool lex_alive(const Machine *m, const Pos *lex, const uint8_t *region, const uint32_t *reach,
               uint32_t n_words,
               const uint32_t *unused);              /* can a class still be completed from here */
int32_t lex_label(const Machine *m, const Pos *lex); /* -1: not accepting here */
void closure_add(Machine *m, uint32_t pos, uint32_t stack);
bool stack_has_room(Machine *m, uint32_t stack, uint32_t n);
void closure_scan(Machine *m, uint32_t pos, uint32_t stack); /* a position that reads bytes */
void closure_pop(Machine *m, uint32_t stack, uint32_t label);
uint32_t stack_push(Machine *m, uint32_t stack, uint32_t ret); /* TABLE_NONE: too deep or failed */
bool json_pos_names_form(Pos p); /* its b is a form of the IR, not a state */
uint32_t stack_intern(Machine *m, const uint32_t *key, uint32_t n, uint32_t depth);
uint32_t state_intern(Machine *m, const uint32_t *key, uint32_t n);
void json_closure(Machine *m, uint32_t id, Pos p, uint32_t stack); /* kinds above POS_LENGTH */
uint32_t json_step(Machine *m, Pos p, uint8_t byte);
bool json_key_free(const Machine *m, uint32_t object_state); /* may the next name be a free one */
uint32_t json_key_return(Machine *m, uint32_t object_state, uint32_t label);

#endif
