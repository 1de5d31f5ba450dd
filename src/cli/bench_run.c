#include "cli/bench_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "cli/term.h"

typedef struct Lane { /* one sequence */
    mlxcel_request *request;
    uint32_t *ids;                /* the depth, then the prompt */
    uint64_t first_ns, *token_ns; /* when its tokens came */
    size_t n_tokens;
    uint64_t n_cached;
} Lane;

typedef struct Round {
    Lane lanes[BENCH_MAX_BATCH];
    uint32_t n;
} Round;

void bench_name(BenchRow *row) {
    const BenchTest *t = &row->test;
    int n = 0;
    char *s = row->name;
    if (t->n_prompt) n += snprintf(s + n, sizeof row->name - (size_t)n, "pp%u", t->n_prompt);
    if (t->n_gen)
        n += snprintf(s + n, sizeof row->name - (size_t)n, "%stg%u", n ? "+" : "", t->n_gen);
    if (t->n_depth) n += snprintf(s + n, sizeof row->name - (size_t)n, " @ d%u", t->n_depth);
    if (t->n_batch > 1) snprintf(s + n, sizeof row->name - (size_t)n, " B%u", t->n_batch);
}

/* SplitMix64: the tokens of a benchmark mean nothing, they only must differ. */
static uint32_t random_token(BenchEngine *e) {
    uint64_t z = (e->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) % mlxcel_model_n_vocab(e->model));
}

static bool on_event(void *ctx, const mlxcel_event *ev) {
    Lane *l = ctx;
    if (ev->kind == MLXCEL_EVENT_DONE) l->n_cached = ev->timings.cached_n;
    if (!ev->has_token) return true;
    uint64_t now = os_now_ns();
    if (!l->first_ns) l->first_ns = now;
    l->token_ns[l->n_tokens++] = now;
    return true;
}

static bool set_all(mlxcel_request *r, uint32_t n_predict, bool cache, mlxcel_error *err) {
    char n[16];
    snprintf(n, sizeof n, "%u", n_predict);
    return mlxcel_request_set(r, "n_predict", n, err) &&
           mlxcel_request_set(r, "ignore_eos", "true", err) &&
           mlxcel_request_set(r, "cache_prompt", cache ? "true" : "false", err);
}

static void lanes_free(Round *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        mlxcel_request_free(r->lanes[i].request);
        r->lanes[i].request = NULL;
    }
}

/* All lanes' requests over the first n_ids ids, run to their ends. *t0: when they were
 * submitted. */
static bool run_lanes(BenchEngine *e, Round *r, uint32_t n_ids, uint32_t n_predict, bool cache,
                      uint64_t *t0, mlxcel_error *err) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->n; i++) {
        Lane *l = &r->lanes[i];
        l->first_ns = 0;
        l->n_tokens = 0;
        l->n_cached = 0;
        ok = mlxcel_request_new(e->engine, l->ids, n_ids, &l->request, err) &&
             set_all(l->request, n_predict, cache, err);
    }
    *t0 = os_now_ns();
    for (uint32_t i = 0; ok && i < r->n; i++)
        ok = mlxcel_request_submit(r->lanes[i].request, on_event, &r->lanes[i], err);
    interrupt_watch(r->lanes[0].request);
    while (ok && mlxcel_engine_step(e->engine)) {
    }
    interrupt_watch(NULL);
    for (uint32_t i = 0; ok && i < r->n; i++) ok = mlxcel_request_result(r->lanes[i].request, err);
    if (ok && interrupted()) {
        *err = (mlxcel_error){.kind = MLXCEL_CANCELLED, .message = "interrupted"};
        ok = false;
    }
    lanes_free(r);
    return ok;
}

/* Prompt and answer together, or the prompt alone: from submission to the last token. */
static void sample_prompt(const Round *r, const BenchTest *t, uint64_t t0, uint32_t n_ids,
                          double *ns, double *n_tokens) {
    uint64_t end = t0;
    *n_tokens = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const Lane *l = &r->lanes[i];
        uint64_t last = t->n_gen ? l->token_ns[l->n_tokens - 1] : l->first_ns;
        if (last > end) end = last;
        *n_tokens += (double)(n_ids - l->n_cached) + (t->n_gen ? (double)l->n_tokens - 1 : 0);
    }
    *ns = (double)(end - t0);
}

/* Answers: from the moment that all lanes have begun. */
static void sample_answer(const Round *r, double *ns, double *n_tokens) {
    uint64_t begin = 0, end = 0;
    *n_tokens = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->lanes[i].first_ns > begin) begin = r->lanes[i].first_ns;
    for (uint32_t i = 0; i < r->n; i++) {
        const Lane *l = &r->lanes[i];
        for (size_t k = 0; k < l->n_tokens; k++) *n_tokens += l->token_ns[k] > begin;
        if (l->token_ns[l->n_tokens - 1] > end) end = l->token_ns[l->n_tokens - 1];
    }
    *ns = (double)(end - begin);
}

static bool measure(BenchEngine *e, Round *r, const BenchTest *t, double *ns, double *n_tokens,
                    mlxcel_error *err) {
    uint32_t n_ids = t->n_depth + (t->n_prompt ? t->n_prompt : t->n_depth ? 0 : 1);
    uint64_t t0;
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t k = t->n_depth; k < n_ids; k++) r->lanes[i].ids[k] = random_token(e);
    if (!run_lanes(e, r, n_ids, t->n_gen ? t->n_gen + 1 : 1, t->n_depth > 0, &t0, err))
        return false;
    if (t->n_prompt)
        sample_prompt(r, t, t0, n_ids, ns, n_tokens);
    else
        sample_answer(r, ns, n_tokens);
    return true;
}

static bool lanes_init(BenchEngine *e, Round *r, const BenchTest *t, Arena *a) {
    r->n = t->n_batch;
    for (uint32_t i = 0; i < r->n; i++) {
        Lane *l = &r->lanes[i];
        l->ids = arena_array(a, uint32_t, (size_t)t->n_depth + t->n_prompt + 1);
        l->token_ns = arena_array(a, uint64_t, (size_t)t->n_gen + 2);
        if (!l->ids || !l->token_ns) return false;
        for (uint32_t k = 0; k < t->n_depth; k++) l->ids[k] = random_token(e);
    }
    return true;
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void mean_of(const double *x, size_t n, double *mean, double *stddev) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *stddev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

static bool summarize(BenchRow *row, Arena *a) {
    size_t n = row->n_samples;
    double *sorted = arena_array(a, double, n);
    if (!sorted) return false;
    mean_of(row->ts, n, &row->avg_ts, &row->stddev_ts);
    mean_of(row->ns, n, &row->avg_ns, &row->stddev_ns);
    memcpy(sorted, row->ts, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    row->median_ts = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    return true;
}

bool bench_run(BenchEngine *e, BenchRow *row, size_t n_reps, bool warmup, Arena *a,
               mlxcel_error *err) {
    Round *r = arena_new(a, Round);
    uint64_t t0;
    row->ts = arena_array(a, double, n_reps);
    row->ns = arena_array(a, double, n_reps);
    bool ok = r && row->ts && row->ns && lanes_init(e, r, &row->test, a);
    if (!ok)
        return *err = (mlxcel_error){.kind = MLXCEL_NOMEM,
                                     .message = "out of memory for the benchmark"},
               false;
    mlxcel_engine_drop_cache(e->engine);
    /* The depth is computed once; every run then finds it in the cache. */
    if (row->test.n_depth && !run_lanes(e, r, row->test.n_depth, 1, true, &t0, err)) return false;
    for (size_t i = warmup ? 0 : 1; i <= n_reps; i++) {
        double ns, n_tokens;
        if (!measure(e, r, &row->test, &ns, &n_tokens, err)) return false;
        if (i == 0) continue;
        row->ts[row->n_samples] = ns > 0 ? n_tokens * 1e9 / ns : 0;
        row->ns[row->n_samples++] = ns;
    }
    return summarize(row, a) ||
           (*err = (mlxcel_error){.kind = MLXCEL_NOMEM, .message = "out of memory"}, false);
}

static bool is_float(const char *quantization) {
    return strcmp(quantization, "F32") == 0 || strcmp(quantization, "F16") == 0 ||
           strcmp(quantization, "BF16") == 0;
}

void bench_share(const BenchEngine *e, BenchRow *row, const mlxcel_machine *m,
                 uint64_t cache_per_token) {
    const BenchTest *t = &row->test;
    mlxcel_work w;
    mlxcel_model_work(e->model, &w);
    row->bound = NULL;
    row->share = 0;
    if (t->n_prompt && t->n_gen) return;
    if (t->n_prompt) {
        bool floats = is_float(mlxcel_model_quantization(e->model));
        double peak = (floats ? m->f32_gmacs : m->int8_gmacs) * 1e9;
        double macs = (double)(w.macs - w.head_macs) + (double)w.head_macs / t->n_prompt;
        row->bound = floats ? "f32" : "int8";
        if (peak > 0) row->share = row->avg_ts * macs / peak;
        return;
    }
    double steps = row->avg_ts / t->n_batch, mean_context = t->n_depth + t->n_gen / 2.0;
    double bytes = (double)w.weight_bytes + t->n_batch * mean_context * (double)cache_per_token;
    row->bound = "memory";
    if (m->read_gbs > 0) row->share = steps * bytes / (m->read_gbs * 1e9);
}
