/* The engine on a tiny golden checkpoint: several jobs share the cache, a dry pool preempts and
 * loses nothing, cancels and limits end jobs as they should, prefixes are reused. The model is
 * ref's, so every number is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"

enum { MAX_IDS = 128 };

typedef struct Seen {
    uint32_t ids[MAX_IDS];
    size_t n;
    bool done, failed, stop_listening;
    Finish finish;
    EventTimings times;
    atomic_bool cancel;
} Seen;

static bool watch(void *ctx, const Event *e) {
    Seen *s = ctx;
    for (size_t i = 0; i < e->n_tokens && s->n < MAX_IDS; i++) s->ids[s->n++] = e->tokens[i].id;
    if (e->kind == EVENT_DONE) s->finish = e->finish;
    if (e->kind == EVENT_ERROR) s->failed = true;
    if (e->kind == EVENT_DONE || e->kind == EVENT_ERROR) s->done = true, s->times = *e->timings;
    return !s->stop_listening;
}

static void open_golden(Model **m, const char *name, ModelOptions *mo) {
    Err err = {0};
    char path[4096];
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    snprintf(path, sizeof path, "%s/decoder/%s", dir ? dir : "build/goldens", name);
    mo->backend = "ref";
    mo->be.n_threads = 1;
    if (!model_open(path, mo, m, &err)) fail_msg("%s", err.msg);
}

static void open_model(Model **m) {
    ModelOptions mo = {0};
    open_golden(m, "llama", &mo);
}

static void open_engine(Model *m, Engine **e, uint64_t n_ctx, uint32_t n_slots) {
    Err err = {0};
    EngineOptions eo = engine_options();
    eo.n_ctx = n_ctx;
    eo.n_slots = n_slots;
    if (!engine_open(m, &eo, e, &err)) fail_msg("%s", err.msg);
}

static void submit_sampled(Engine *e, const Model *m, uint32_t seed, size_t n, int64_t n_new,
                           double temperature, Seen *s) {
    Err err = {0};
    Job *job;
    uint32_t tokens[MAX_IDS];
    for (size_t i = 0; i < n; i++) tokens[i] = rng_u32(seed, 0, i, 0) % m->arch.vocab;
    *s = (Seen){0};
    JobParams p = {.tokens = tokens,
                   .n_tokens = n,
                   .n_predict = n_new,
                   .sample = params_cli(),
                   .ignore_eos = true,
                   .sink = {watch, s},
                   .cancel = &s->cancel};
    p.sample.temperature = temperature;
    p.sample.seed = 7;
    if (!job_new(m, engine_n_ctx(e), &p, &job, &err)) fail_msg("%s", err.msg);
    engine_submit(e, job);
}

static void submit(Engine *e, const Model *m, uint32_t seed, size_t n, int64_t n_new, Seen *s) {
    submit_sampled(e, m, seed, n, n_new, 0, s);
}

/* What each of eight jobs gives alone. */
static void alone(Model *m, Seen want[8]) {
    Engine *e;
    open_engine(m, &e, 128, 1);
    for (uint32_t i = 0; i < 8; i++) {
        submit(e, m, i, 20 + i, 60, &want[i]);
        while (engine_step(e)) {
        }
        assert_int_equal(want[i].n, 60);
        assert_int_equal(want[i].finish, FINISH_BUDGET);
        engine_drop_prefixes(e);
    }
    engine_close(e);
}

/* Eight jobs of 87 tokens on a pool that holds about three of them: some must wait, some give their
 * pages back. */
static void a_dry_pool_loses_nothing(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen want[8], got[8];
    open_model(&m);
    alone(m, want);
    open_engine(m, &e, 128, 8);
    for (uint32_t i = 0; i < 8; i++) submit(e, m, i, 20 + i, 60, &got[i]);
    for (int steps = 0; engine_step(e); steps++) assert_true(steps < 10000);
    for (int i = 0; i < 8; i++) {
        assert_true(got[i].done && !got[i].failed);
        assert_int_equal(got[i].n, 60);
        assert_memory_equal(got[i].ids, want[i].ids, 60 * sizeof(uint32_t));
    }
    assert_true(engine_stats(e)->n_preempted > 0);
    engine_close(e);
    model_close(m);
}

static void cancels_end_one_job_only(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen want[8], a, b, c;
    open_model(&m);
    alone(m, want);
    open_engine(m, &e, 512, 2);
    submit(e, m, 0, 20, 60, &a);
    submit(e, m, 1, 21, 60, &b);
    submit(e, m, 2, 22, 60, &c); /* waits for a slot */
    for (int i = 0; i < 10; i++) engine_step(e);
    atomic_store(&a.cancel, true);
    atomic_store(&c.cancel, true);
    while (engine_step(e)) {
    }
    assert_int_equal(a.finish, FINISH_CANCELLED);
    assert_int_equal(c.finish, FINISH_CANCELLED);
    assert_int_equal(c.n, 0);
    assert_true(a.n > 0 && a.n < 60);
    assert_int_equal(b.n, 60);
    assert_memory_equal(b.ids, want[1].ids, 60 * sizeof(uint32_t));
    engine_close(e);
    model_close(m);
}

static void nobody_listening_stops_it(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen a;
    open_model(&m);
    open_engine(m, &e, 128, 1);
    submit(e, m, 0, 20, 60, &a);
    a.stop_listening = true;
    while (engine_step(e)) {
    }
    assert_true(a.done && a.n <= 1);
    engine_close(e);
    model_close(m);
}

static void the_context_bounds_a_job(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    Job *job;
    Err err = {0};
    static Seen a;
    open_model(&m);
    open_engine(m, &e, 64, 1);
    assert_int_equal(engine_n_ctx(e), 64);
    submit(e, m, 0, 60, -1, &a);
    while (engine_step(e)) {
    }
    assert_int_equal(a.finish, FINISH_CONTEXT);
    assert_int_equal(a.n, 4);
    uint32_t tokens[MAX_IDS] = {0};
    JobParams p = {.tokens = tokens, .n_tokens = 64, .n_predict = 1, .sample = params_cli()};
    assert_false(job_new(m, 64, &p, &job, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    p.n_tokens = 1;
    tokens[0] = m->arch.vocab;
    assert_false(job_new(m, 64, &p, &job, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    p.n_tokens = 0;
    assert_false(job_new(m, 64, &p, &job, &err));
    engine_close(e);
    model_close(m);
}

static void prefixes_are_reused(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen a, b;
    open_model(&m);
    open_engine(m, &e, 128, 1);
    submit(e, m, 0, 100, 5, &a);
    while (engine_step(e)) {
    }
    assert_int_equal(a.times.n_cached, 0);
    submit(e, m, 0, 100, 5, &b);
    while (engine_step(e)) {
    }
    assert_int_equal(b.times.n_cached, 99); /* one token is always evaluated */
    assert_memory_equal(a.ids, b.ids, 5 * sizeof(uint32_t));
    engine_close(e);
    model_close(m);
}

/* Rule 10: a draw is a function of seed and position, so company changes no sampled token. */
static void draws_do_not_depend_on_company(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen alone_, together, other;
    open_model(&m);
    open_engine(m, &e, 512, 2);
    submit_sampled(e, m, 0, 20, 60, 1.0, &alone_);
    while (engine_step(e)) {
    }
    engine_drop_prefixes(e);
    submit_sampled(e, m, 5, 33, 60, 1.0, &other);
    for (int i = 0; i < 7; i++) engine_step(e);
    submit_sampled(e, m, 0, 20, 60, 1.0, &together);
    while (engine_step(e)) {
    }
    assert_int_equal(alone_.n, 60);
    assert_memory_equal(alone_.ids, together.ids, 60 * sizeof(uint32_t));
    assert_memory_not_equal(alone_.ids, other.ids, 60 * sizeof(uint32_t));
    engine_close(e);
    model_close(m);
}

/* Rule 7: with rope that depends on length, a stored prefix serves only requests of its own length class, and a request that
 * grows past the limit goes on as it began. */
static void length_classes_do_not_share_prefixes(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    static Seen brief, extended, again, cold;
    ModelOptions mo = {0};
    open_golden(&m, "llama_rope_dynamic", &mo);
    assert_non_null(m->arch.class_rope);
    size_t limit = m->arch.class_rope->orig_context;
    open_engine(m, &e, 128, 1);
    submit(e, m, 0, limit - 2, 20, &brief); /* ends beyond the limit */
    while (engine_step(e)) {
    }
    assert_int_equal(brief.n, 20);
    submit(e, m, 0, limit + 5, 5, &extended);
    while (engine_step(e)) {
    }
    assert_int_equal(extended.times.n_cached, 0);
    submit(e, m, 0, limit - 2, 20, &again);
    while (engine_step(e)) {
    }
    assert_true(again.times.n_cached > 0);
    assert_memory_equal(brief.ids, again.ids, 20 * sizeof(uint32_t));
    engine_drop_prefixes(e);
    submit(e, m, 0, limit + 5, 5, &cold);
    while (engine_step(e)) {
    }
    assert_memory_equal(extended.ids, cold.ids, 5 * sizeof(uint32_t));
    engine_close(e);
    model_close(m);
}

static void plans_that_do_not_fit_are_refused(void **state) {
    (void)state;
    Model *m;
    Engine *e;
    Err err = {0};
    open_model(&m);
    EngineOptions eo = engine_options();
    eo.n_ctx = (uint64_t)1 << 31;
    eo.k = eo.v = PLANE_F32;
    assert_false(engine_open(m, &eo, &e, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    assert_non_null(strstr(err.msg, "GiB"));
    eo.n_ctx = 128;
    eo.n_slots = 0;
    assert_false(engine_open(m, &eo, &e, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    model_close(m);
}

typedef struct Stops {
    uint64_t done, total;
    uint32_t n;
} Stops;

static bool stop_again(void *ctx, uint64_t done, uint64_t total) {
    Stops *s = ctx;
    assert_true(done > s->done && done <= total);
    *s = (Stops){done, total, s->n + 1};
    return false;
}

/* Stopped behind every weight and taken up again, loading reads each once, and the model is the same. */
static void loading_is_taken_up_again(void **state) {
    (void)state;
    static Seen want[8], got[8];
    Model *m;
    Stops stops = {0};
    ModelOptions mo = {.progress = stop_again, .progress_ctx = &stops};
    Err err = {0};
    open_model(&m);
    alone(m, want);
    model_close(m);
    open_golden(&m, "llama", &mo);
    uint32_t n = 0;
    for (; !model_load(m, &err); n++) {
        assert_int_equal(err.kind, ERR_CANCELLED);
        assert_true(n < weights_count(m->arch.weights));
    }
    assert_int_equal(n, weights_count(m->arch.weights));
    assert_int_equal(stops.n, n);
    assert_true(stops.done == stops.total && stops.total == m->weight_bytes);
    alone(m, got);
    for (int i = 0; i < 8; i++) assert_memory_equal(got[i].ids, want[i].ids, 60 * sizeof(uint32_t));
    model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dry_pool_loses_nothing),
        cmocka_unit_test(cancels_end_one_job_only),
        cmocka_unit_test(nobody_listening_stops_it),
        cmocka_unit_test(the_context_bounds_a_job),
        cmocka_unit_test(prefixes_are_reused),
        cmocka_unit_test(draws_do_not_depend_on_company),
        cmocka_unit_test(length_classes_do_not_share_prefixes),
        cmocka_unit_test(plans_that_do_not_fit_are_refused),
        cmocka_unit_test(loading_is_taken_up_again),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
