#include "stream/loop_guard.h"

bool loop_init(LoopGuard *g, LoopRule rule, Err *err) {
    *g = (LoopGuard){.rule = rule};
    if (rule.max_pattern == 0) return true;
    if (rule.max_pattern > LOOP_PATTERN_MAX)
        return err_set(err, ERR_INPUT, "max_pattern_size is %u, 0 to %d are accepted",
                       rule.max_pattern, LOOP_PATTERN_MAX);
    if (rule.min_pattern < 1 || rule.min_pattern > rule.max_pattern)
        return err_set(err, ERR_INPUT,
                       "min_pattern_size is %u, 1 to max_pattern_size (%u) are accepted",
                       rule.min_pattern, rule.max_pattern);
    if (rule.min_count < 2 || rule.min_count > LOOP_COUNT_MAX)
        return err_set(err, ERR_INPUT, "min_count is %u, 2 to %d are accepted", rule.min_count,
                       LOOP_COUNT_MAX);
    return true;
}

bool loop_push(LoopGuard *g, uint32_t token) {
    bool found = false;
    for (uint32_t s = g->rule.min_pattern; s <= g->rule.max_pattern && g->rule.max_pattern; s++) {
        bool same = g->n >= s && g->token[(g->n - s) % LOOP_PATTERN_MAX] == token;
        g->run[s] = same ? g->run[s] + 1 : 0;
        found |= g->run[s] >= (uint64_t)s * (g->rule.min_count -
                                             1); /* the first copy has nothing before it to equal */
    }
    g->token[g->n++ % LOOP_PATTERN_MAX] = token;
    return found;
}
