/* Frequencies against the published formulas written out with pow and log, and the rules of length
 * classes and coordinate sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "op/rope.h"

static void close_to(float got, double want) {
    if (fabs(got - want) > 2e-6 * fabs(want)) fail_msg("%.9g instead of %.9g", (double)got, want);
}

static void plain_and_linear(void **state) {
    (void)state;
    float f[4], m;
    RopeSpec s = {.kind = ROPE_PLAIN, .rot_dim = 8, .freq_dim = 8, .theta = 10000, .factor = 1};
    rope_inv_freq(&s, 0, f, &m);
    close_to(f[0], 1), close_to(f[1], 0.1), close_to(f[2], 0.01), close_to(f[3], 0.001);
    assert_true(m == 1);
    s.kind = ROPE_LINEAR, s.factor = 4;
    rope_inv_freq(&s, 0, f, &m);
    close_to(f[0], 0.25), close_to(f[3], 0.00025);
}

static void dynamic_follows_the_class(void **state) {
    (void)state;
    float f[4], m;
    RopeSpec s = {.kind = ROPE_DYNAMIC,
                  .rot_dim = 8,
                  .freq_dim = 8,
                  .theta = 10000,
                  .factor = 2,
                  .orig_context = 32};
    assert_int_equal(rope_length_class(&s, 32), 0);
    assert_int_equal(rope_length_class(&s, 40), 40);
    rope_inv_freq(&s, 0, f, &m);
    close_to(f[1], 0.1);
    /* base = 10000 * (2 * 40 / 32 - 1)^(8 / 6) = 10000 * 1.5^(4/3) */
    rope_inv_freq(&s, 40, f, &m);
    close_to(f[1], pow(10000 * pow(1.5, 4.0 / 3), -0.25));
}

static void llama3_keeps_short_waves(void **state) {
    (void)state;
    float f[32], m;
    RopeSpec s = {.kind = ROPE_LLAMA3,
                  .rot_dim = 64,
                  .freq_dim = 64,
                  .theta = 500000,
                  .factor = 32,
                  .orig_context = 8192,
                  .low_freq_factor = 1,
                  .high_freq_factor = 4};
    rope_inv_freq(&s, 0, f, &m);
    close_to(f[0], 1);
    close_to(f[10], pow(500000, -20.0 / 64));
    close_to(f[31], pow(500000, -62.0 / 64) / 32);
    assert_true(f[16] < pow(500000, -32.0 / 64) && f[16] > pow(500000, -32.0 / 64) / 32);
}

static void yarn_ramps_between_its_ends(void **state) {
    (void)state;
    float f[32], m;
    RopeSpec s = {.kind = ROPE_YARN,
                  .rot_dim = 64,
                  .freq_dim = 64,
                  .theta = 10000,
                  .factor = 4,
                  .orig_context = 2048,
                  .beta_fast = 32,
                  .beta_slow = 1,
                  .truncate = true};
    rope_inv_freq(&s, 0, f, &m);
    close_to(m, 0.1 * log(4) + 1);
    close_to(f[0], 1);
    close_to(f[31], pow(10000, -62.0 / 64) / 4);
}

static void long_factors_go_by_class(void **state) {
    (void)state;
    const double brief[2] = {1, 2}, extended[2] = {4, 8};
    float f[2], m;
    RopeSpec s = {.kind = ROPE_LONG,
                  .rot_dim = 4,
                  .freq_dim = 4,
                  .theta = 10000,
                  .orig_context = 4096,
                  .max_context = 131072,
                  .short_factor = brief,
                  .long_factor = extended};
    assert_int_equal(rope_length_class(&s, 4096), 0);
    assert_int_equal(rope_length_class(&s, 4097), 1);
    rope_inv_freq(&s, 0, f, &m);
    close_to(f[1], 0.01 / 2);
    rope_inv_freq(&s, 1, f, &m);
    close_to(f[1], 0.01 / 8);
    close_to(m, sqrt(1 + log(32) / log(4096)));
}

static void sections_choose_the_coordinate(void **state) {
    (void)state;
    RopeSpec s = {.rot_dim = 16, .sections = {4, 2, 2}};
    static const uint32_t SPLIT[8] = {0, 0, 0, 0, 1, 1, 2, 2}, TURNS[8] = {0, 1, 2, 0, 1, 2, 0, 0};
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(rope_section(&s, i), SPLIT[i]);
    s.sections_interleaved = true;
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(rope_section(&s, i), TURNS[i]);
}

/* Two coordinates of a picture: each half of a head turns by one, with the same frequencies. */
static void sections_may_begin_anew(void **state) {
    (void)state;
    float f[4], m;
    RopeSpec s = {
        .rot_dim = 8, .freq_dim = 4, .theta = 10000, .sections = {2, 2}, .sections_restart = true};
    rope_inv_freq(&s, 0, f, &m);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rope_section(&s, i), i / 2);
        close_to(f[i], i % 2 ? 0.01 : 1);
    }
}

static void positions_are_rounded_and_turned_back(void **state) {
    (void)state;
    const int32_t pos[4] = {23, 5};
    RopeSpec s = {.rot_dim = 8};
    assert_true(rope_position(&s, pos, 3) == 23);
    s.pos_step = 8;
    assert_true(rope_position(&s, pos, 3) == 16);
    s.backward = true;
    assert_true(rope_position(&s, pos, 3) == -16);
    s.pos_step = 1;
    assert_true(rope_position(&s, pos, 3) == -23);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_linear),
        cmocka_unit_test(dynamic_follows_the_class),
        cmocka_unit_test(llama3_keeps_short_waves),
        cmocka_unit_test(yarn_ramps_between_its_ends),
        cmocka_unit_test(long_factors_go_by_class),
        cmocka_unit_test(sections_choose_the_coordinate),
        cmocka_unit_test(sections_may_begin_anew),
        cmocka_unit_test(positions_are_rounded_and_turned_back),
    };
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
