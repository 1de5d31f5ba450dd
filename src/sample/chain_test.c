/* The whole chain: against vectors made by an obvious implementation
 * (tools/make_sample_vectors.py), that draws follow the distribution, depend on nothing but seed,
 * choice and position, can be taken back, and cost no allocation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "sample/chain.h"
#include "sample/params_json.h"

static Str piece_of(const void *ctx, uint32_t token) {
    const bool *is_break = ctx;
    return is_break && is_break[token] ? STR("a\n") : STR("word");
}

static SampleVocab vocab_of(uint32_t n, const bool *is_break) {
    return (SampleVocab){.n_vocab = n, .piece = piece_of, .ctx = is_break};
}

/* ---- vectors ---- */

enum { MOST = 512 };

typedef struct Vector {
    float logits[MOST];
    uint32_t history[MOST];
    uint64_t allowed[MOST / 64];
    bool breaks[MOST];
    size_t n, n_history;
    bool masked;
} Vector;

static int64_t whole(const Json *j) {
    int64_t v = 0;
    assert_true(json_i64(j, &v));
    return v;
}

static void read_vector(const Json *c, Vector *v) {
    *v = (Vector){0};
    const Json *x = json_get(c, "logits"), *h = json_get(c, "history"), *a = json_get(c, "allowed");
    v->n = x->n;
    v->n_history = h->n;
    assert_true(x->n <= MOST && h->n <= MOST);
    for (size_t i = 0; i < x->n; i++) {
        double d = 0;
        assert_true(json_f64(json_at(x, i), &d));
        v->logits[i] = (float)d;
    }
    for (size_t i = 0; i < h->n; i++) v->history[i] = (uint32_t)whole(json_at(h, i));
    v->masked = a != NULL;
    for (size_t i = 0; a && i < a->n; i++) {
        uint64_t t = (uint64_t)whole(json_at(a, i));
        v->allowed[t / 64] |= (uint64_t)1 << t % 64;
    }
    const Json *b = json_get(c, "breakers");
    for (size_t i = 0; i < b->n; i++) v->breaks[whole(json_at(b, i))] = true;
}

enum { NOTHING_EXP = -30 }; /* probabilities below 1e-30 may round to nothing */

/* Next expected entry from *n on that holds anything. */
static bool next_expected(const Json *ids, const Json *ps, size_t *n, uint32_t *token, double *p) {
    for (; *n < ids->n; (*n)++) {
        assert_true(json_f64(json_at(ps, *n), p));
        if (*p < pow(10, NOTHING_EXP)) continue;
        *token = (uint32_t)whole(json_at(ids, (*n)++));
        return true;
    }
    return false;
}

static void check_vector(const Json *c, size_t i_case, SampleWork *w, Arena *a) {
    Err err = {0};
    Vector v;
    read_vector(c, &v);
    SampleParams p = params_cli();
    p.seed = 7;
    if (!params_from_json(&p, json_get(c, "params"), NULL, a, &err))
        fail_msg("case %zu: %s", i_case, err.msg);
    SampleVocab vocab = vocab_of((uint32_t)v.n, v.breaks);
    Sampler s;
    assert_true(sampler_init(&s, &p, &vocab, 4096, 0, &err));
    sampler_prompt(&s, v.history, v.n_history);
    uint32_t token;
    Cands dist;
    if (!sampler_sample_dist(&s, w, v.logits, v.masked ? v.allowed : NULL, 3, &token, &dist, &err))
        fail_msg("case %zu: %s", i_case, err.msg);
    const Json *ids = json_get(c, "ids"), *ps = json_get(c, "p");
    size_t n = 0;
    bool found = false;
    for (size_t i = 0; i < dist.n; i++) {
        uint32_t id = cands_id(&dist, i), want_id = 0;
        double got = (double)w->weight[i] / dist.weight, want = 0;
        if (got < pow(10, NOTHING_EXP)) continue;
        if (!next_expected(ids, ps, &n, &want_id, &want) || id != want_id)
            fail_msg("case %zu: token %u stays, %u expected", i_case, id, want_id);
        if (fabs(got - want) > 2e-5)
            fail_msg("case %zu: token %u has %g, not %g", i_case, id, got, want);
        found |= id == token;
    }
    uint32_t missing;
    double p_missing;
    if (next_expected(ids, ps, &n, &missing, &p_missing))
        fail_msg("case %zu: token %u is gone", i_case, missing);
    assert_true(found);
    sampler_deinit(&s);
}

static void test_vectors(void **state) {
    (void)state;
    Err err = {0};
    Buf text = {0};
    Arena a = {0};
    Json *cases;
    SampleWork w;
    assert_true(sample_work_init(&w, MOST, &err));
    if (!os_read_file("tests/data/sample/chain.json", 1 << 24, &text, &err))
        fail_msg("%s", err.msg);
    if (!json_parse(buf_str(&text), NULL, &a, &cases, &err)) fail_msg("%s", err.msg);
    assert_true(cases->n >= 100);
    for (size_t i = 0; i < cases->n; i++) check_vector(json_at(cases, i), i, &w, &a);
    sample_work_deinit(&w);
    arena_deinit(&a);
    buf_deinit(&text);
}

/* ---- draws ---- */

/* chi-square of n draws against dist, merging what is expected fewer than 5 times; returns (chi2 -
 * df) / sqrt(2 df). */
static double excess(const size_t *seen, const double *p, size_t n_ids, size_t n) {
    double chi2 = 0, rest_want = 0, rest_seen = 0;
    int df = -1;
    for (size_t i = 0; i < n_ids; i++) {
        double want = p[i] * (double)n;
        if (want < 5) {
            rest_want += want;
            rest_seen += (double)seen[i];
            continue;
        }
        chi2 += ((double)seen[i] - want) * ((double)seen[i] - want) / want;
        df++;
    }
    if (rest_want >= 5) {
        chi2 += (rest_seen - rest_want) * (rest_seen - rest_want) / rest_want;
        df++;
    }
    assert_true(df > 0);
    return (chi2 - df) / sqrt(2.0 * df);
}

static void fill_random(float *x, size_t n, uint64_t seed, double spread) {
    for (size_t i = 0; i < n; i++) { /* a sum of uniforms is near enough to a bell */
        double z = 0;
        for (uint32_t j = 0; j < 6; j++) z += rng_uniform(seed, 9, i, j);
        x[i] = (float)((z - 3) * spread);
    }
}

static void check_draws(const SampleParams *p, const float *x, uint32_t n_vocab) {
    enum { DRAWS = 40000 };
    Err err = {0};
    SampleWork w;
    Sampler s;
    SampleVocab vocab = vocab_of(n_vocab, NULL);
    assert_true(sample_work_init(&w, n_vocab, &err));
    assert_true(sampler_init(&s, p, &vocab, 64, 0, &err));
    size_t *seen = mem_calloc(n_vocab, sizeof *seen);
    double *want = mem_calloc(n_vocab, sizeof *want);
    for (size_t i = 0; i < DRAWS; i++) {
        uint32_t token;
        Cands dist;
        assert_true(sampler_sample_dist(&s, &w, x, NULL, i, &token, &dist, &err));
        seen[token]++;
        for (size_t j = 0; i == 0 && j < dist.n; j++)
            want[cands_id(&dist, j)] = (double)w.weight[j] / dist.weight;
    }
    double e = excess(seen, want, n_vocab, DRAWS);
    if (!(e < 4 && e > -4)) fail_msg("draws are off by %g deviations of chi-square", e);
    mem_free(seen);
    mem_free(want);
    sampler_deinit(&s);
    sample_work_deinit(&w);
}

static void test_draws_follow_the_distribution(void **state) {
    (void)state;
    float x[300];
    fill_random(x, 300, 5, 2.0);
    SampleParams p = params_server();
    p.seed = 1234;
    check_draws(&p, x, 300);
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.temperature = 1.3;
    check_draws(&p, x, 300);
    p.seed = 99;
    p.typical_p = 0.7;
    check_draws(&p, x, 50);
}

static void test_draws_of_a_mask(void **state) {
    (void)state;
    float x[70] = {0};
    uint64_t allowed[2] = {1ull << 3 | 1ull << 63, 1ull << 2};
    SampleParams p = params_cli();
    p.temperature = 1;
    p.seed = 3;
    Err err = {0};
    SampleWork w;
    Sampler s;
    SampleVocab vocab = vocab_of(70, NULL);
    assert_true(sample_work_init(&w, 70, &err));
    assert_true(sampler_init(&s, &p, &vocab, 64, 0, &err));
    size_t seen[70] = {0};
    for (uint64_t i = 0; i < 3000; i++) {
        uint32_t token;
        assert_true(sampler_sample(&s, &w, x, allowed, i, &token, &err));
        seen[token]++;
    }
    assert_int_equal(seen[3] + seen[63] + seen[66], 3000);
    assert_true(seen[3] > 850 && seen[63] > 850 && seen[66] > 850);
    uint64_t none[2] = {0};
    uint32_t token;
    assert_false(sampler_sample(&s, &w, x, none, 0, &token, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    sampler_deinit(&s);
    sample_work_deinit(&w);
}

/* ---- what a draw depends on ---- */

typedef struct Bench {
    SampleWork w;
    Sampler s;
    float x[200];
} Bench;

static void bench_open(Bench *b, const SampleParams *p, uint32_t choice) {
    Err err = {0};
    SampleVocab vocab = vocab_of(200, NULL);
    assert_true(sample_work_init(&b->w, 200, &err));
    if (!sampler_init(&b->s, p, &vocab, 1000, choice, &err)) fail_msg("%s", err.msg);
}

static void bench_close(Bench *b) {
    sampler_deinit(&b->s);
    sample_work_deinit(&b->w);
}

static uint32_t bench_sample(Bench *b, uint64_t position) {
    Err err = {0};
    uint32_t token;
    fill_random(b->x, 200, position, 2.0);
    if (!sampler_sample(&b->s, &b->w, b->x, NULL, position, &token, &err)) fail_msg("%s", err.msg);
    return token;
}

static SampleParams everything(int32_t mirostat) {
    SampleParams p = params_server();
    p.seed = 42;
    p.temperature = 1.1;
    p.repeat_penalty = 1.2;
    p.presence_penalty = 0.3;
    p.frequency_penalty = 0.2;
    p.dry_multiplier = 0.8;
    p.dry_penalty_last_n = -1;
    p.xtc_probability = 0.5;
    p.mirostat = mirostat;
    p.adaptive_target = mirostat ? -1 : 0.4;
    return p;
}

/* Drafts are accepted and taken back between the steps; the tokens must be those of the plain run.
 */
static void check_rollback(int32_t mirostat) {
    enum { STEPS = 120 };
    SampleParams p = everything(mirostat);
    Bench a, b;
    bench_open(&a, &p, 0);
    bench_open(&b, &p, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint32_t want = bench_sample(&a, i);
        sampler_accept(&a.s, want);
        size_t n_draft = i % 7 < (uint64_t)b.s.n_accepted ? i % 7 : 0;
        for (uint64_t d = 0; d < n_draft; d++) sampler_accept(&b.s, bench_sample(&b, i + d));
        assert_true(sampler_rollback(&b.s, n_draft));
        assert_int_equal(bench_sample(&b, i), want);
        sampler_accept(&b.s, want);
        assert_true(a.s.mood[a.s.n_accepted % (SAMPLER_ROLLBACK_MAX + 1)].mu ==
                    b.s.mood[b.s.n_accepted % (SAMPLER_ROLLBACK_MAX + 1)].mu);
    }
    assert_false(sampler_rollback(&b.s, SAMPLER_ROLLBACK_MAX + 1));
    bench_close(&a);
    bench_close(&b);
}

static void test_rollback(void **state) {
    (void)state;
    for (int32_t m = 0; m <= 2; m++) check_rollback(m);
}

static void test_sampling_twice_is_the_same(void **state) {
    (void)state;
    SampleParams p = everything(2);
    Bench a, b;
    bench_open(&a, &p, 0);
    bench_open(&b, &p, 1);
    size_t differ = 0;
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t t = bench_sample(&a, i);
        assert_int_equal(bench_sample(&a, i), t);
        differ += bench_sample(&b, i) != t;
        sampler_accept(&a.s, t);
        sampler_accept(&b.s, t);
    }
    assert_true(differ > 5); /* another choice has its own random numbers */
    bench_close(&a);
    bench_close(&b);
}

static void test_copy_continues_alike(void **state) {
    (void)state;
    Err err = {0};
    SampleParams p = everything(1);
    Bench a, b;
    bench_open(&a, &p, 0);
    bench_open(&b, &p, 0);
    for (uint64_t i = 0; i < 50; i++) sampler_accept(&a.s, bench_sample(&a, i));
    assert_true(sampler_copy(&b.s, &a.s, &err));
    for (uint64_t i = 50; i < 100; i++) {
        uint32_t t = bench_sample(&a, i);
        assert_int_equal(bench_sample(&b, i), t);
        sampler_accept(&a.s, t);
        sampler_accept(&b.s, t);
    }
    bench_close(&a);
    bench_close(&b);
}

static void test_no_allocation_after_init(void **state) {
    (void)state;
    SampleParams p = everything(0);
    Bench a;
    bench_open(&a, &p, 0);
    mem_guard_begin();
    for (uint64_t i = 0; i < 6000; i++)
        sampler_accept(&a.s, bench_sample(&a, i)); /* past the window's compaction */
    assert_int_equal(mem_guard_end(), 0);
    bench_close(&a);
}

/* ---- edges ---- */

static void test_greedy_ties_and_ignore_eos(void **state) {
    (void)state;
    Err err = {0};
    float x[] = {1, 5, 5, -0.0f, 0};
    const uint32_t eog[] = {1, 77};
    SampleVocab vocab = {.n_vocab = 5, .eog = eog, .n_eog = 2};
    SampleParams p = params_cli();
    SampleWork w;
    Sampler s;
    uint32_t token;
    assert_true(sample_work_init(&w, 5, &err));
    assert_true(sampler_init(&s, &p, &vocab, 64, 0, &err));
    assert_true(sampler_greedy(&s));
    assert_true(sampler_sample(&s, &w, x, NULL, 0, &token, &err));
    assert_int_equal(token, 1);
    sampler_deinit(&s);
    p.ignore_eos = true;
    assert_true(sampler_init(&s, &p, &vocab, 64, 0, &err));
    assert_true(sampler_sample(&s, &w, x, NULL, 0, &token, &err));
    assert_int_equal(token, 2);
    sampler_deinit(&s);
    sample_work_deinit(&w);
}

static void test_bad_logits_are_named(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        Err err = {0};
        float x[50] = {0};
        x[41] = bad[i];
        SampleVocab vocab = {.n_vocab = 50};
        SampleParams p = params_server();
        SampleWork w;
        Sampler s;
        uint32_t token;
        assert_true(sample_work_init(&w, 50, &err));
        assert_true(sampler_init(&s, &p, &vocab, 64, 0, &err));
        assert_false(sampler_sample(&s, &w, x, NULL, 0, &token, &err));
        assert_int_equal(err.kind, ERR_INTERNAL);
        assert_non_null(strstr(err.msg, "token 41"));
        sampler_deinit(&s);
        sample_work_deinit(&w);
    }
}

static void test_out_of_memory_is_an_error(void **state) {
    (void)state;
    SampleParams p = everything(0);
    LogitBias bias = {3, 1.0f};
    p.bias = &bias;
    p.n_bias = 1;
    SampleVocab vocab = vocab_of(100, NULL);
    for (int64_t i = 0;; i++) {
        Err err = {0};
        Sampler s;
        mem_fail_after(i);
        bool ok = sampler_init(&s, &p, &vocab, 100, 0, &err);
        mem_fail_after(-1);
        if (ok) {
            assert_true(i >= 4);
            sampler_deinit(&s);
            break;
        }
        assert_int_equal(err.kind, ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_draws_follow_the_distribution),
        cmocka_unit_test(test_draws_of_a_mask),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_sampling_twice_is_the_same),
        cmocka_unit_test(test_copy_continues_alike),
        cmocka_unit_test(test_no_allocation_after_init),
        cmocka_unit_test(test_greedy_ties_and_ignore_eos),
        cmocka_unit_test(test_bad_logits_are_named),
        cmocka_unit_test(test_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
