#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/prefill_plan.h"

static void pieces_fill_the_budget(void **state) {
    (void)state;
    assert_int_equal(prefill_next(0, 1000, 512, NULL, 0), 512);
    assert_int_equal(prefill_next(512, 1000, 512, NULL, 0), 488);
    assert_int_equal(prefill_next(999, 1000, 512, NULL, 0), 1);
}

static void spans_are_never_cut(void **state) {
    (void)state;
    const PrefillSpan spans[] = {{10, 40}, {60, 200}};
    assert_int_equal(prefill_next(0, 300, 30, spans, 2), 10);  /* stops before the span */
    assert_int_equal(prefill_next(10, 300, 30, spans, 2), 30); /* takes it whole */
    /* larger than the budget: still whole */
    assert_int_equal(prefill_next(10, 300, 20, spans, 2), 30);
    assert_int_equal(prefill_next(40, 300, 32, spans, 2), 20);
    assert_int_equal(prefill_next(60, 300, 32, spans, 2), 140);
    assert_int_equal(prefill_next(200, 300, 32, spans, 2), 32);
    for (uint32_t budget = 1; budget < 310; budget++) {
        uint32_t at = 0, n;
        while (at < 300) {
            n = prefill_next(at, 300, budget, spans, 2);
            assert_true(n > 0);
            for (int i = 0; i < 2; i++)
                assert_false(at + n > spans[i].from && at + n < spans[i].to);
            at += n;
        }
        assert_int_equal(at, 300);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_fill_the_budget),
                                       cmocka_unit_test(spans_are_never_cut)};
    return cmocka_run_group_tests_name("prefill_plan", tests, NULL, NULL);
}
