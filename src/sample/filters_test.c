/* Every filter against a sorted float64 version, on vocabularies from 1 to 200k tokens and on
 * inputs made to be awkward (ties, runs already sorted, masks); the engine may differ only where a
 * probability lies on the threshold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sample/filters.h"
#include "sample/mirostat.h"

typedef struct Item {
    double logit, p, score;
    uint32_t id;
} Item;

typedef struct Naive { /* what is left, in whatever order the last sort gave */
    Item *item;
    size_t n;
} Naive;

static int by_logit(const void *a, const void *b) {
    const Item *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_score(const void *a, const void *b) {
    const Item *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void naive_from(Naive *v, const float *x, size_t n) {
    v->item = mem_calloc(n, sizeof *v->item);
    v->n = 0;
    for (size_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) v->item[v->n++] = (Item){.logit = x[i], .id = (uint32_t)i};
    qsort(v->item, v->n, sizeof *v->item, by_logit);
}

static void naive_softmax(Naive *v) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < v->n; i++) max = fmax(max, v->item[i].logit);
    for (size_t i = 0; i < v->n; i++) sum += v->item[i].p = exp(v->item[i].logit - max);
    for (size_t i = 0; i < v->n; i++) v->item[i].p /= sum;
}

static void naive_cumulative(Naive *v, double p, size_t min_keep) {
    double sum = 0;
    size_t n = 0;
    while (n < v->n) {
        sum += v->item[n++].p;
        if (sum >= p && n >= min_keep) break;
    }
    v->n = n;
}

/* The two sets may differ by tokens that hold almost nothing, or sit on the edge: at most slack of
 * probability. */
static void same_set(const char *what, const Cands *c, const Naive *v, const float *x,
                     double slack) {
    double max = -INFINITY, sum = 0, wrong = 0;
    for (size_t i = 0; i < v->n; i++) max = fmax(max, v->item[i].logit);
    for (size_t i = 0; i < v->n; i++) sum += exp(v->item[i].logit - max);
    uint32_t n_vocab = 0;
    for (size_t i = 0; i < v->n; i++)
        n_vocab = v->item[i].id >= n_vocab ? v->item[i].id + 1 : n_vocab;
    for (size_t i = 0; i < c->n; i++)
        n_vocab = cands_id(c, i) >= n_vocab ? cands_id(c, i) + 1 : n_vocab;
    uint8_t *in = mem_calloc(n_vocab + 1, 1);
    for (size_t i = 0; i < v->n; i++) in[v->item[i].id] |= 1;
    for (size_t i = 0; i < c->n; i++) {
        in[cands_id(c, i)] |= 2;
        assert_true(i == 0 || cands_id(c, i) > cands_id(c, i - 1));
        assert_true(c->logit[i] == x[cands_id(c, i)]);
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        if ((in[i] == 1 || in[i] == 2) && x[i] > -INFINITY) wrong += exp((double)x[i] - max) / sum;
    mem_free(in);
    if (wrong > slack)
        fail_msg("%s: %zu tokens left, %zu expected; they differ by probability %g", what, c->n,
                 v->n, wrong);
    if (v->n) assert_true(c->n > 0);
}

typedef enum Shape { BELL, TIES, RISING, FALLING, MASKED, SHARP, SHAPES } Shape;

static void fill(float *x, size_t n, Shape shape, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        double z = 0;
        for (uint32_t j = 0; j < 4; j++) z += rng_uniform(seed, 1, i, j) - 0.5;
        switch (shape) {
        case BELL:
            z *= 4;
            break;
        case TIES:
            z = floor(z * 3);
            break;
        case RISING:
            z = (double)i * 6 / (double)n + z * 1e-4;
            break;
        case FALLING:
            z = -(double)i * 6 / (double)n;
            break;
        case MASKED:
            z = z > 0.4 && i ? -INFINITY : z * 5;
            break;
        case SHARP:
            z *= 14;
            break;
        case SHAPES:
            break;
        }
        x[i] = (float)z;
    }
}

typedef struct Rig {
    SampleWork w;
    float *x;
    size_t n;
    Cands c;
    Naive v;
} Rig;

static void rig_start(Rig *r) {
    float max;
    uint32_t at;
    assert_true(cands_scan(r->x, r->n, &max, &at));
    r->c = cands_over(r->x, r->n, max);
    mem_free(r->v.item);
    naive_from(&r->v, r->x, r->n);
    assert_int_equal(at, r->v.item[0].id);
    assert_true(max == r->x[at]);
}

static void check_top_k(Rig *r) {
    const size_t ks[] = {1, 2, 40, 255, 256, 257, 1000, 60000};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        rig_start(r);
        filter_top_k(&r->c, &r->w, (int)ks[i]);
        if (r->v.n > ks[i]) r->v.n = ks[i];
        same_set("top_k", &r->c, &r->v, r->x, 0);
    }
}

static void check_top_p(Rig *r) {
    const double ps[] = {0, 0.1, 0.5, 0.9, 0.95, 0.999};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        for (size_t keep = 0; keep < 9; keep += 4) {
            rig_start(r);
            filter_top_p(&r->c, &r->w, ps[i], keep);
            naive_softmax(&r->v);
            naive_cumulative(&r->v, ps[i], keep);
            same_set("top_p", &r->c, &r->v, r->x, 2e-5);
            assert_true(r->c.n >= (keep < r->v.n ? keep : r->v.n));
        }
    }
}

static void check_min_p(Rig *r) {
    const double ps[] = {1e-6, 0.05, 0.5, 1};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        for (size_t keep = 0; keep < 9; keep += 4) {
            rig_start(r);
            filter_min_p(&r->c, &r->w, ps[i], keep);
            size_t n = 0;
            while (n < r->v.n &&
                   (n < keep || exp(r->v.item[n].logit - r->v.item[0].logit) >= ps[i]))
                n++;
            r->v.n = n;
            same_set("min_p", &r->c, &r->v, r->x, 1e-4);
        }
    }
}

static void check_typical(Rig *r) {
    const double ps[] = {0.1, 0.5, 0.9};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        rig_start(r);
        filter_typical(&r->c, &r->w, ps[i], 1);
        naive_softmax(&r->v);
        double h = 0;
        for (size_t j = 0; j < r->v.n; j++)
            h -= r->v.item[j].p > 0 ? r->v.item[j].p * log(r->v.item[j].p) : 0;
        for (size_t j = 0; j < r->v.n; j++) r->v.item[j].score = fabs(-log(r->v.item[j].p) - h);
        qsort(r->v.item, r->v.n, sizeof *r->v.item, by_score);
        double total = 0;
        for (size_t j = 0; j < r->c.n; j++)
            total += exp((double)r->c.logit[j] - (double)r->x[r->v.item[0].id]);
        naive_cumulative(&r->v, ps[i], 1);
        double want = 0;
        for (size_t j = 0; j < r->v.n; j++)
            want += exp(r->v.item[j].logit - (double)r->x[r->v.item[0].id]);
        /* scores tie or nearly tie here (both sides of the entropy), so the mass is compared, not
         * the ids */
        double heaviest = 0;
        for (size_t j = 0; j < r->v.n; j++)
            heaviest = fmax(heaviest, exp(r->v.item[j].logit - (double)r->x[r->v.item[0].id]));
        if (fabs(total - want) > heaviest * 1.001 + 1e-3 * want)
            fail_msg("typical %g: mass %g, expected %g", ps[i], total, want);
    }
}

static void check_top_n_sigma(Rig *r) {
    const double ns[] = {0.2, 1, 2.5};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
        rig_start(r);
        filter_top_n_sigma(&r->c, &r->w, ns[i]);
        double sum = 0, square = 0;
        for (size_t j = 0; j < r->v.n; j++) sum += r->v.item[j].logit;
        double mean = sum / (double)r->v.n;
        for (size_t j = 0; j < r->v.n; j++) square += pow(r->v.item[j].logit - mean, 2);
        double least = r->v.item[0].logit - ns[i] * sqrt(square / (double)r->v.n);
        size_t n = 0;
        while (n < r->v.n && r->v.item[n].logit >= least) n++;
        r->v.n = n ? n : 1;
        same_set("top_n_sigma", &r->c, &r->v, r->x, 1e-3);
    }
}

static void check_xtc(Rig *r) {
    const double ts[] = {0.01, 0.1, 0.3, 0.6};
    for (size_t i = 0; i < sizeof ts / sizeof ts[0]; i++) {
        rig_start(r);
        filter_top_k(&r->c, &r->w, 20); /* as in use: the rest is renormalised first */
        cands_compact(&r->c, &r->w);
        if (r->v.n > 20) r->v.n = 20;
        naive_softmax(&r->v);
        size_t n_likely = 0;
        while (n_likely < r->v.n && r->v.item[n_likely].p >= ts[i]) n_likely++;
        filter_xtc(&r->c, &r->w, 0.5, ts[i], 0.5, 0);
        assert_int_equal(r->c.n, r->v.n); /* u >= probability: untouched */
        filter_xtc(&r->c, &r->w, 0.5, ts[i], 0.49, 0);
        if (ts[i] <= 0.5 && n_likely > 1) {
            r->v.item += n_likely - 1;
            r->v.n -= n_likely - 1;
            same_set("xtc", &r->c, &r->v, r->x, 1e-3);
            assert_true(r->c.max == (float)r->v.item[0].logit);
            r->v.item -= n_likely - 1;
        } else {
            assert_int_equal(r->c.n, r->v.n);
        }
    }
}

static void each_input(void (*check)(Rig *)) {
    const size_t sizes[] = {1, 2, 17, 300, 5000, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        Rig r = {.n = sizes[i]};
        Err err = {0};
        assert_true(sample_work_init(&r.w, (uint32_t)r.n, &err));
        r.x = mem_calloc(r.n, sizeof *r.x);
        for (Shape s = BELL; s < SHAPES; s++) {
            if (r.n > 5000 && s == SHARP) continue;
            fill(r.x, r.n, s, 77 + i);
            check(&r);
        }
        mem_free(r.v.item);
        mem_free(r.x);
        sample_work_deinit(&r.w);
    }
}

static void test_top_k(void **state) {
    (void)state;
    each_input(check_top_k);
}
static void test_top_p(void **state) {
    (void)state;
    each_input(check_top_p);
}
static void test_min_p(void **state) {
    (void)state;
    each_input(check_min_p);
}
static void test_typical(void **state) {
    (void)state;
    each_input(check_typical);
}
static void test_top_n_sigma(void **state) {
    (void)state;
    each_input(check_top_n_sigma);
}
static void test_xtc(void **state) {
    (void)state;
    each_input(check_xtc);
}

/* Ordered best first with ties to the lowest id, and exactly the n there are when k is larger. */
static void test_best(void **state) {
    (void)state;
    float x[3000];
    uint32_t got[CANDS_HEAP_MAX];
    for (Shape s = BELL; s < SHAPES; s++) {
        fill(x, 3000, s, 5);
        Naive v;
        naive_from(&v, x, 3000);
        for (size_t k = 1; k <= CANDS_HEAP_MAX; k += 93) {
            assert_int_equal(cands_best(x, 3000, k, got), k);
            for (size_t i = 0; i < k && i < v.n; i++) assert_int_equal(got[i], v.item[i].id);
        }
        mem_free(v.item);
    }
    assert_int_equal(cands_best(x, 5, 100, got), 5);
}

/* Weights are e^x to a few units in the last place, -inf weighs nothing, and the sum is their sum.
 */
static void test_weights(void **state) {
    (void)state;
    enum { N = 20001 };
    Err err = {0};
    SampleWork w;
    float *x = mem_calloc(N, sizeof *x);
    assert_true(sample_work_init(&w, N, &err));
    for (int i = 0; i < N; i++) x[i] = (float)i * -0.005f;
    x[N - 1] = -INFINITY;
    Cands c = cands_over(x, N, 0);
    cands_weigh(&c, &w, 0.7f);
    double sum = 0;
    for (int i = 0; i + 1 < N; i++) {
        double y = (double)(x[i] * 0.7f), want = exp(y), got = (double)w.weight[i];
        if (y > -87)
            assert_true(fabs(got - want) <= 3e-7 * want);
        else
            assert_true(got == 0);
        sum += got;
    }
    assert_true(w.weight[N - 1] == 0);
    assert_true(fabs(c.weight - sum) < 1e-9 * sum);
    mem_free(x);
    sample_work_deinit(&w);
}

/* Mirostat 2 holds the mean surprise near tau on a distribution that would give far more. */
static void test_mirostat_reaches_its_goal(void **state) {
    (void)state;
    enum { N = 5000, STEPS = 3000 };
    Err err = {0};
    SampleWork w;
    float *x = mem_calloc(N, sizeof *x);
    assert_true(sample_work_init(&w, N, &err));
    for (int i = 0; i < N; i++) x[i] = -1.1f * logf((float)i + 1); /* Zipf */
    for (int version = 1; version <= 2; version++) {
        double mu = 6, total = 0;
        for (uint64_t i = 0; i < STEPS; i++) {
            Cands c = cands_over(x, N, 0);
            cands_weigh(&c, &w, 1);
            if (version == 1)
                mirostat_cut_v1(&c, &w, mu, N, 1);
            else
                mirostat_cut_v2(&c, &w, mu, 1);
            size_t at = cands_draw(&c, &w, rng_uniform(1, 0, i, 0));
            double p = (double)w.weight[at] / c.weight;
            total += -log2(p);
            mu = mirostat_next(mu, 3, 0.1, p);
        }
        if (fabs(total / STEPS - 3) > 0.15)
            fail_msg("mirostat %d: %g bits per token, 3 wanted", version, total / STEPS);
    }
    mem_free(x);
    sample_work_deinit(&w);
}

/* The adaptive sampler moves the chosen tokens' mean probability to the target, from either side.
 */
static void test_adaptive_reaches_its_goal(void **state) {
    (void)state;
    enum { N = 20, STEPS = 4000 };
    Err err = {0};
    SampleWork w;
    float x[N];
    assert_true(sample_work_init(&w, N, &err));
    const double targets[] = {0.15, 0.35};
    for (int g = 0; g < 2; g++) {
        AdaptiveState st = adaptive_start(targets[g], 0.9);
        double total = 0;
        for (uint64_t i = 0; i < STEPS; i++) {
            for (int j = 0; j < N; j++) x[j] = (float)j * -0.5f;
            Cands c = cands_over(x, N, 0);
            cands_compact(&c, &w);
            cands_weigh(&c, &w, 1);
            adaptive_shape(&c, &w, targets[g], st);
            size_t at = cands_draw(&c, &w, rng_uniform(2, 0, i, 0));
            double p = (double)w.score[at];
            total += p;
            st = adaptive_next(st, 0.9, p);
        }
        if (fabs(total / STEPS - targets[g]) > 0.05)
            fail_msg("mean probability %g, %g wanted", total / STEPS, targets[g]);
    }
    sample_work_deinit(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_typical),
        cmocka_unit_test(test_top_n_sigma),
        cmocka_unit_test(test_xtc),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_mirostat_reaches_its_goal),
        cmocka_unit_test(test_adaptive_reaches_its_goal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
