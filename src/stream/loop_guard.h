/* loop_guard.h: has a model fallen into repeating itself? It has when the newest tokens are one
 * pattern of min_pattern to max_pattern tokens, min_count times in a row. For each pattern length
 * the guard counts how many tokens in a row equal the one that many places before: max_pattern
 * comparisons per token, nothing else is kept.
 *
 *     LoopGuard g;  loop_init(&g, (LoopRule){.min_pattern = 1, .max_pattern = 20, .min_count = 12},
 * err); if (loop_push(&g, token)) finish; */
#ifndef MLXCEL_STREAM_LOOP_GUARD_H
#define MLXCEL_STREAM_LOOP_GUARD_H

#include <stdint.h>

#include "base/err.h"

enum { LOOP_PATTERN_MAX = 128, LOOP_COUNT_MAX = 1 << 20 };

typedef struct LoopRule { /* names as clients send them: min_pattern_size, max_pattern_size,
                             min_count */
    uint32_t min_pattern;
    uint32_t max_pattern; /* 0: off */
    uint32_t min_count;
} LoopRule;

typedef struct LoopGuard {
    LoopRule rule;
    uint64_t n;                       /* tokens so far */
    uint32_t token[LOOP_PATTERN_MAX]; /* ring: token i at i % LOOP_PATTERN_MAX */
    uint64_t
        run[LOOP_PATTERN_MAX + 1]; /* run[s]: newest tokens in a row that equal the one s before */
} LoopGuard;

bool loop_init(LoopGuard *g, LoopRule rule, Err *err) MUST_CHECK;
bool loop_push(LoopGuard *g, uint32_t token); /* true: the tokens so far end in a loop */

#endif
