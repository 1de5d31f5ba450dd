/* grammar_work.h: what every step of compiling a grammar carries: an arena with a cap, an operation
 * budget, and a sticky error. A function that fails returns NULL (or false) after the first cause
 * was written to err; callers may go on a little and check once. The budget makes hostile grammars
 * end in ERR_LIMIT instead of in time. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_WORK_H
#define MLXCEL_SAMPLE_GRAMMAR_WORK_H

#include "base/arena.h"
#include "base/err.h"

typedef struct GrammarWork {
    Arena *arena;
    uint64_t left;       /* operations still allowed */
    uint32_t max_states; /* of one automaton */
    Err *err;
    bool failed; /* sticky: err is set */
} GrammarWork;

bool work_fail(GrammarWork *w, ErrKind kind, const char *fmt, ...)
    PRINTF_LIKE(3, 4); /* false; keeps the first cause */
void *work_alloc(GrammarWork *w, size_t n,
                 size_t size); /* zeroed, in the arena; NULL after setting err */
void *work_grow(GrammarWork *w, void *old, size_t n_old, size_t n_new,
                size_t size);                /* a larger copy in the arena */
bool work_spend(GrammarWork *w, uint64_t n); /* false once the budget is gone */
#define work_new(w, T) ((T *)work_alloc((w), 1, sizeof(T)))
#define work_array(w, T, n) ((T *)work_alloc((w), (n), sizeof(T)))

#endif
