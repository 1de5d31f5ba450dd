/* Penalties against a quadratic version, breakers across token borders, and windows that slide. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sample/penalties.h"

enum { VOCAB = 50, STEPS = 9000 };

static const char *const pieces[] = {
    "a", "b", "ab", "\n", "x:y", "##", "#", " #end", "e", "", "long piece of text"};

static Str piece_of(const void *ctx, uint32_t token) {
    (void)ctx;
    return token < sizeof pieces / sizeof pieces[0] ? str_c(pieces[token]) : STR("word");
}

static const SampleVocab vocab = {.n_vocab = VOCAB, .piece = piece_of};

/* The whole text so far, and for every token whether a breaker ends in it, found by looking
 * everywhere. */
typedef struct Told {
    uint32_t token[STEPS + 200];
    bool breaks[STEPS + 200];
    size_t n;
} Told;

static void tell(Told *t, const SampleParams *p, uint32_t token) {
    char text[2000];
    size_t n = 0, from = t->n > 40 ? t->n - 40 : 0;
    for (size_t i = from; i < t->n; i++) {
        Str s = piece_of(NULL, t->token[i]);
        memcpy(text + n, s.p, s.n);
        n += s.n;
    }
    Str s = piece_of(NULL, token);
    memcpy(text + n, s.p, s.n);
    bool breaks = false;
    for (size_t b = 0; b < p->n_dry_breakers; b++)
        for (size_t end = n + 1; end <= n + s.n; end++)
            breaks |= end >= p->dry_breakers[b].n && str_ends((Str){text, end}, p->dry_breakers[b]);
    t->breaks[t->n] = breaks;
    t->token[t->n++] = token;
}

static void naive(const SampleParams *p, const Told *t, float *x) {
    size_t last =
        p->repeat_last_n < 0 || (size_t)p->repeat_last_n > t->n ? t->n : (size_t)p->repeat_last_n;
    for (uint32_t id = 0; id < VOCAB; id++) {
        int n = 0;
        for (size_t i = t->n - last; i < t->n; i++) n += t->token[i] == id;
        if (n == 0) continue;
        x[id] = x[id] > 0 ? x[id] / (float)p->repeat_penalty : x[id] * (float)p->repeat_penalty;
        x[id] -= (float)(n * p->frequency_penalty + p->presence_penalty);
    }
    last = p->dry_penalty_last_n < 0 || (size_t)p->dry_penalty_last_n > t->n
               ? t->n
               : (size_t)p->dry_penalty_last_n;
    size_t run_of[VOCAB] = {0};
    for (size_t i = t->n - last; i < t->n; i++) {
        size_t run = 0;
        while (run < i - (t->n - last) && t->token[i - 1 - run] == t->token[t->n - 1 - run] &&
               !t->breaks[t->n - 1 - run])
            run++;
        if (run > run_of[t->token[i]]) run_of[t->token[i]] = run;
    }
    for (uint32_t id = 0; id < VOCAB; id++)
        if (run_of[id] && run_of[id] >= (size_t)p->dry_allowed_length && p->dry_multiplier > 0)
            x[id] -= (float)fmin(
                1e30, p->dry_multiplier *
                          pow(p->dry_base, (double)run_of[id] - (double)p->dry_allowed_length));
}

static void compare(const SampleParams *p, History *h, const Told *t, SampleWork *w) {
    float got[VOCAB], want[VOCAB];
    for (int i = 0; i < VOCAB; i++) got[i] = want[i] = (float)(i - 25) * 0.3f;
    penalties_apply(p, h, w, got);
    naive(p, t, want);
    for (int i = 0; i < VOCAB; i++) {
        assert_int_equal(w->count[i], 0);
        if (fabsf(got[i] - want[i]) > 1e-4f * (1 + fabsf(want[i])))
            fail_msg("after %zu tokens: token %d has %g, not %g", t->n, i, (double)got[i],
                     (double)want[i]);
    }
}

static void check(int32_t last_n, int32_t dry_last_n, uint32_t n_tokens, size_t n_steps) {
    const Str breakers[] = {STR("\n"), STR("a#"), STR("###end"), STR(":")};
    SampleParams p = params_cli();
    p.repeat_last_n = last_n;
    p.repeat_penalty = 1.4;
    p.presence_penalty = 0.25;
    p.frequency_penalty = 0.125;
    p.dry_multiplier = 0.5;
    p.dry_base = 1.2;
    p.dry_penalty_last_n = dry_last_n;
    p.dry_breakers = breakers;
    p.n_dry_breakers = 4;
    Err err = {0};
    History h;
    SampleWork w;
    static Told t;
    t.n = 0;
    assert_true(history_setup(&h, &p, 400, 16, &err) && sample_work_init(&w, VOCAB, &err));
    for (size_t i = 0; i < n_steps; i++) {
        uint32_t token = rng_u32(1, n_tokens, i, 0) % n_tokens;
        if (n_tokens > 11 && i % 3) token += 11 < VOCAB - n_tokens ? 11 : 0;
        tell(&t, &p, token);
        history_push(&h, &vocab, token);
        if (i % 5 == 0) { /* a draft of three, dropped */
            for (uint32_t d = 0; d < 3; d++) history_push(&h, &vocab, d);
            history_drop(&h, 3);
        }
        /* an unlimited window is cut at the context, which the naive version does not know */
        if ((last_n >= 0 && dry_last_n >= 0) || t.n <= 400)
            if (i % 41 == 0 || i < 300) compare(&p, &h, &t, &w);
    }
    history_deinit(&h);
    sample_work_deinit(&w);
}

static void test_against_naive(void **state) {
    (void)state;
    check(64, 64, 11, STEPS);
    check(-1, -1, 4, 400);
    check(5, 300, 2, 2000);
    check(0, 30, 40, 700);
    check(30, 0, 8, 700);
    check(64, 40, 1, 600); /* one token for ever: the longest runs there are */
}

static void test_off_remembers_nothing(void **state) {
    (void)state;
    Err err = {0};
    SampleParams p = params_server();
    History h;
    assert_false(penalties_active(&p));
    assert_true(history_setup(&h, &p, 1000000, 16, &err));
    history_push(&h, &vocab, 3);
    assert_int_equal(h.n, 0);
    history_drop(&h, 1);
    history_deinit(&h);
}

/* A huge run must not make every logit -inf or NaN. */
static void test_long_run_stays_finite(void **state) {
    (void)state;
    Err err = {0};
    SampleParams p = params_cli();
    p.dry_multiplier = 1000;
    p.dry_base = 1000;
    History h;
    SampleWork w;
    float x[VOCAB] = {0};
    assert_true(history_setup(&h, &p, 5000, 16, &err) && sample_work_init(&w, VOCAB, &err));
    for (int i = 0; i < 5000; i++) history_push(&h, &vocab, 30);
    penalties_apply(&p, &h, &w, x);
    assert_true(isfinite(x[30]) && x[30] < -1e29f && x[31] == 0);
    history_deinit(&h);
    sample_work_deinit(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_off_remembers_nothing),
        cmocka_unit_test(test_long_run_stays_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
