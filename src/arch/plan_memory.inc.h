/* plan_memory.inc.h: for tests of media plans. plan_memory_may_end(make) lets the first allocation
 * of make fail, then the second, until it gets by without: each time but the last the error is that
 * there was no memory, and nothing is left over. */
#ifndef MLXCEL_ARCH_PLAN_MEMORY_INC_H
#define MLXCEL_ARCH_PLAN_MEMORY_INC_H

#include "arch/media.h"
#include "base/mem.h"

static void plan_memory_may_end(bool (*make)(Arena *a, MediaPlan *p, Err *err)) {
    for (int n = 0;; n++) {
        Arena a = {0};
        MediaPlan p;
        Err err = {0};
        mem_fail_after(n);
        bool ok = make(&a, &p, &err);
        mem_fail_after(-1);
        arena_deinit(&a);
        if (ok) {
            assert_true(n > 0);
            return;
        }
        assert_int_equal(err.kind, ERR_NOMEM);
    }
}

#endif
