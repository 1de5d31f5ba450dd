#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fenv.h>
#include <stdatomic.h>

#include "base/pool.h"

enum { N_ROUNDS = 50, N_STAGES = 10 };

typedef struct Work {
    Pool *pool;
    atomic_int hits[POOL_MAX_THREADS];
    atomic_int stage_sum;
    atomic_int wrong;
} Work;

static void stages(void *arg, int i_thread, int n_threads) {
    Work *w = arg;
    atomic_fetch_add(&w->hits[i_thread], 1);
    for (int s = 1; s <= N_STAGES; s++) {
        atomic_fetch_add(&w->stage_sum, 1);
        pool_barrier(w->pool);
        /* Between two barriers everybody has added exactly s times. */
        if (atomic_load(&w->stage_sum) != s * n_threads) atomic_fetch_add(&w->wrong, 1);
        pool_barrier(w->pool);
    }
}

static void every_thread_runs_and_barriers_hold(void **state) {
    (void)state;
    Err err = {0};
    for (int n = 1; n <= 5; n++) {
        Work w = {.pool = pool_new(n, &err)};
        assert_non_null(w.pool);
        for (int r = 0; r < N_ROUNDS; r++) {
            atomic_store(&w.stage_sum, 0);
            pool_run(w.pool, stages, &w);
        }
        for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&w.hits[i]), N_ROUNDS);
        assert_int_equal(atomic_load(&w.wrong), 0);
        pool_free(w.pool);
    }
}

static void check_rounding(void *arg, int i_thread, int n_threads) {
    (void)i_thread, (void)n_threads;
    if (fegetround() != FE_TONEAREST) atomic_fetch_add((atomic_int *)arg, 1);
}

/* Rule 11 of P1: what the caller's program did to its floating-point environment does not reach the work. */
static void the_callers_rounding_stays_outside(void **state) {
    (void)state;
    Err err = {0};
    for (int n = 1; n <= 3; n++) {
        atomic_int wrong = 0;
        Pool *pool = pool_new(n, &err);
        assert_non_null(pool);
        fesetround(FE_UPWARD);
        pool_run(pool, check_rounding, &wrong);
        int after = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(atomic_load(&wrong), 0);
        assert_int_equal(after, FE_UPWARD);
        pool_free(pool);
    }
}

static void bad_counts_are_refused(void **state) {
    (void)state;
    Err err = {0};
    assert_null(pool_new(0, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_null(pool_new(POOL_MAX_THREADS + 1, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_thread_runs_and_barriers_hold),
                                       cmocka_unit_test(the_callers_rounding_stays_outside),
                                       cmocka_unit_test(bad_counts_are_refused)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
