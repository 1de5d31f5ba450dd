/* A lane does all jobs, one at a time, in order, and waiting means that they are done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/lane.h"

enum { N_JOBS = 1000 };

typedef struct Note {
    uint32_t *list, *n, value;
} Note;

static void note(void *args) {
    const Note *a = args;
    a->list[(*a->n)++] = a->value;
}

static void jobs_are_done_in_order(void **state) {
    (void)state;
    Err err = {0};
    uint32_t list[N_JOBS], n = 0;
    Lane *l = lane_new(&err);
    assert_non_null(l);
    lane_wait(l); /* nothing to wait for */
    for (uint32_t i = 0; i < N_JOBS; i++) {
        Note a = {list, &n, i * 3};
        lane_put(l, note, &a, sizeof a);
        if (i % 100) continue;
        lane_wait(l);
        assert_int_equal(n, i + 1);
    }
    lane_free(l); /* waits */
    assert_int_equal(n, N_JOBS);
    for (uint32_t i = 0; i < N_JOBS; i++) assert_int_equal(list[i], i * 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_are_done_in_order)};
    return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
