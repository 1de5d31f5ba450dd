/* prefill_plan.h: the one place that decides where a prompt is cut. Pieces are at most the chunk
 * size; a span that attends in both directions (an image) is never cut, a larger one makes its
 * piece larger. By promise P1 cuts change no token. */
#ifndef MLXCEL_ENGINE_PREFILL_PLAN_H
#define MLXCEL_ENGINE_PREFILL_PLAN_H

#include <stddef.h>
#include <stdint.h>

typedef struct PrefillSpan { /* rows [from, to) that see each other */
    uint32_t from, to;
} PrefillSpan;

/* Rows of the next piece of a prompt of n rows, of which `done` are in the cache: at most `budget`
 * unless a span begins at `done` and is larger; 0 when the budget is too small to take a whole span
 * now. spans ascending, disjoint. */
uint32_t prefill_next(uint32_t done, uint32_t n, uint32_t budget, const PrefillSpan *spans,
                      size_t n_spans);

#endif
