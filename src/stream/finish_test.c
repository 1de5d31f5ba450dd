/* The order of the finish rules, and loop detection against a version that compares whole patterns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "stream/sink.h"

/* With every rule ready to fire, taking away the winner uncovers the next: that is the order. */
static void test_order(void **state) {
    (void)state;
    Err err = {0};
    FinishRules r = {.max_tokens = 1, .n_ctx = 10, .max_ms = 5};
    FinishStep step = {.token = 4,
                       .is_eog = true,
                       .stop_string = true,
                       .grammar_done = true,
                       .text = STR("a\n"),
                       .n_past = 10,
                       .elapsed_ms = 6};
    for (Finish want = FINISH_EOS; want <= FINISH_LOOP + 1; want++) {
        FinishState s = {0};
        assert_true(loop_init(&s.loop, (LoopRule){1, 4, 3}, &err));
        if (want > FINISH_EOS) step.is_eog = false;
        if (want > FINISH_STOP_STRING) step.stop_string = false;
        if (want > FINISH_TIME) step.elapsed_ms = 5;
        if (want > FINISH_GRAMMAR) step.grammar_done = false;
        if (want > FINISH_BUDGET) r.max_tokens = 100;
        if (want > FINISH_CONTEXT) step.n_past = 9;
        for (uint32_t i = 0; i < 2; i++) loop_push(&s.loop, want > FINISH_LOOP ? i : 4);
        Finish got = finish_check(&r, &s, &step);
        assert_int_equal(got, want > FINISH_LOOP ? FINISH_NONE : want);
        assert_int_equal(s.n_generated, want == FINISH_EOS ? 0 : 1);
    }
}

static void test_budget_and_context(void **state) {
    (void)state;
    FinishRules r = {.max_tokens = 3};
    FinishState s = {0};
    FinishStep step = {.token = 1};
    assert_int_equal(finish_check(&r, &s, &step), FINISH_NONE);
    assert_int_equal(finish_check(&r, &s, &step), FINISH_NONE);
    assert_int_equal(finish_check(&r, &s, &step), FINISH_BUDGET);
    r.max_tokens = 0;
    assert_int_equal(finish_before(&r), FINISH_BUDGET);
    r.max_tokens = -1;
    assert_int_equal(finish_before(&r), FINISH_NONE);
    assert_int_equal(finish_check(&r, &s, &step), FINISH_NONE);
    assert_true(finish_truncated(FINISH_CONTEXT) && !finish_truncated(FINISH_BUDGET));
    assert_false(finish_keeps_token(FINISH_EOS));
}

static void test_time_waits_for_a_line(void **state) {
    (void)state;
    FinishRules r = {.max_tokens = -1, .max_ms = 10};
    FinishState s = {0};
    FinishStep step = {.elapsed_ms = 1000, .text = STR("x")};
    assert_int_equal(finish_check(&r, &s, &step), FINISH_NONE);
    step.text = STR("\n");
    assert_int_equal(finish_check(&r, &s, &step), FINISH_TIME);
}

static void test_names(void **state) {
    (void)state;
    for (Finish f = FINISH_NONE; f < FINISH_COUNT; f++)
        assert_true(finish_name(f) && finish_stop_type(f) && finish_describe(f)[0]);
    assert_string_equal(finish_name(FINISH_EOS), "stop");
    assert_string_equal(finish_name(FINISH_CONTEXT), "length");
    assert_string_equal(finish_stop_type(FINISH_STOP_STRING), "word");
}

static bool naive_loop(const uint32_t *token, size_t n, LoopRule r) {
    for (uint32_t s = r.min_pattern; s <= r.max_pattern; s++) {
        if ((size_t)s * r.min_count > n) continue;
        bool same = true;
        for (size_t i = n - (size_t)s * (r.min_count - 1); i < n; i++)
            same &= token[i] == token[i - s];
        if (same) return true;
    }
    return false;
}

static void test_loops_against_naive(void **state) {
    (void)state;
    enum { N = 400 };
    size_t n_found = 0;
    for (uint64_t round = 0; round < 200; round++) {
        Err err = {0};
        uint32_t token[N];
        LoopRule r = {1 + rng_u32(round, 0, 0, 0) % 3, 0, 2 + rng_u32(round, 0, 1, 0) % 3};
        r.max_pattern = r.min_pattern + rng_u32(round, 0, 2, 0) % 5;
        LoopGuard g;
        assert_true(loop_init(&g, r, &err));
        for (uint32_t i = 0; i < N; i++) {
            token[i] = rng_u32(round, 1, i, 0) % 2;
            if (i > 8 && rng_u32(round, 2, i, 0) % 4) token[i] = token[i - 1 - round % 6];
            bool got = loop_push(&g, token[i]);
            assert_int_equal(got, naive_loop(token, i + 1, r));
            n_found += got;
        }
    }
    assert_true(n_found > 100);
}

static void test_loop_rules(void **state) {
    (void)state;
    Err err = {0};
    LoopGuard g;
    assert_true(loop_init(&g, (LoopRule){0}, &err)); /* off */
    for (int i = 0; i < 1000; i++) assert_false(loop_push(&g, 1));
    assert_true(loop_init(&g, (LoopRule){1, LOOP_PATTERN_MAX, 2}, &err));
    for (uint32_t i = 0; i < 2 * LOOP_PATTERN_MAX; i++)
        assert_int_equal(loop_push(&g, i % LOOP_PATTERN_MAX), i + 1 == 2 * LOOP_PATTERN_MAX);
    assert_false(loop_init(&g, (LoopRule){1, LOOP_PATTERN_MAX + 1, 2}, &err));
    assert_false(loop_init(&g, (LoopRule){5, 4, 2}, &err));
    assert_non_null(strstr(err.msg, "min_pattern_size is 5"));
    assert_false(loop_init(&g, (LoopRule){0, 4, 2}, &err));
    assert_false(loop_init(&g, (LoopRule){1, 4, 1}, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_budget_and_context),
        cmocka_unit_test(test_time_waits_for_a_line),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_loops_against_naive),
        cmocka_unit_test(test_loop_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
