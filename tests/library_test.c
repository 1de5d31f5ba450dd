/* The library as a product, through include/mlxcel.h alone: two engines of one model and one of
 * another in one process, each in a thread of its own, give what they give alone; a cancel from
 * another thread ends a request and nothing else; every failure comes back as a value; tensors that
 * go in stay the caller's. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mlxcel.h"

enum { N_NEW = 24, N_ROUNDS = 5 };

static const char *golden(const char *name, char out[4096]) {
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    snprintf(out, 4096, "%s/decoder/%s", dir ? dir : "build/goldens", name);
    return out;
}

static mlxcel_model *model_of(const char *name) {
    char path[4096];
    mlxcel_error err;
    mlxcel_model *m;
    mlxcel_model_options o = mlxcel_model_options_default();
    o.threads = 2;
    if (!mlxcel_model_open(golden(name, path), &o, &m, &err)) fail_msg("%s", err.message);
    return m;
}

static mlxcel_engine *engine_of(mlxcel_model *m) {
    mlxcel_error err;
    mlxcel_engine *e;
    if (!mlxcel_engine_open(m, NULL, &e, &err)) fail_msg("%s", err.message);
    return e;
}

typedef struct Answer {
    mlxcel_engine *engine;
    uint32_t first; /* of the prompt's ids */
    uint32_t ids[N_ROUNDS][N_NEW];
    size_t n;
    bool ok;
    mlxcel_error err;
} Answer;

typedef struct Round {
    uint32_t *ids;
    size_t n;
} Round;

static bool collect(void *ctx, const mlxcel_event *ev) {
    Round *r = ctx;
    if (ev->has_token && r->n < N_NEW) r->ids[r->n++] = ev->token;
    return true;
}

/* Greedy answers to a few prompts, one after the other. Runs in any thread: no cmocka in here. */
static void *answer(void *arg) {
    Answer *a = arg;
    a->ok = true;
    for (uint32_t i = 0; i < N_ROUNDS && a->ok; i++) {
        const uint32_t prompt[3] = {a->first, a->first + i, 5};
        Round r = {.ids = a->ids[i]};
        mlxcel_request *q = NULL;
        char n[16];
        snprintf(n, sizeof n, "%d", N_NEW);
        a->ok = mlxcel_request_new(a->engine, prompt, 3, &q, &a->err) &&
                mlxcel_request_set(q, "n_predict", n, &a->err) &&
                mlxcel_request_set(q, "temperature", "0", &a->err) &&
                mlxcel_request_set(q, "ignore_eos", "true", &a->err) &&
                mlxcel_request_run(q, collect, &r, &a->err);
        a->n += r.n;
        mlxcel_request_free(q);
    }
    return NULL;
}

static void engines_do_not_disturb_each_other(void **state) {
    (void)state;
    mlxcel_model *llama = model_of("llama"), *qwen = model_of("qwen3");
    mlxcel_engine *e[3] = {engine_of(llama), engine_of(llama), engine_of(qwen)};
    Answer alone[3] = {0}, together[3] = {0};
    pthread_t thread[3];
    for (uint32_t i = 0; i < 3; i++) {
        alone[i].engine = together[i].engine = e[i];
        alone[i].first = together[i].first = 3 + 7 * i;
        answer(&alone[i]);
        if (!alone[i].ok) fail_msg("%s", alone[i].err.message);
        assert_int_equal(alone[i].n, N_ROUNDS * N_NEW);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, answer, &together[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) {
        if (!together[i].ok) fail_msg("%s", together[i].err.message);
        assert_memory_equal(together[i].ids, alone[i].ids, sizeof alone[i].ids);
        mlxcel_engine_close(e[i]);
    }
    mlxcel_model_close(llama);
    mlxcel_model_close(qwen);
}

typedef struct Watched {
    atomic_int n_tokens;
    char reason[32];
} Watched;

static bool watch(void *ctx, const mlxcel_event *ev) {
    Watched *w = ctx;
    if (ev->has_token) atomic_fetch_add(&w->n_tokens, 1);
    if (ev->kind == MLXCEL_EVENT_DONE)
        snprintf(w->reason, sizeof w->reason, "%s", ev->finish_reason);
    return true;
}

typedef struct Canceller {
    mlxcel_request *request;
    Watched *watched;
} Canceller;

static void *cancel_after_a_token(void *arg) {
    Canceller *c = arg;
    while (atomic_load(&c->watched->n_tokens) < 1) sched_yield();
    mlxcel_request_cancel(c->request);
    return NULL;
}

static void another_thread_may_cancel(void **state) {
    (void)state;
    mlxcel_model *m = model_of("llama_rope_dynamic"); /* no limit of its own */
    mlxcel_engine_options o = mlxcel_engine_options_default();
    mlxcel_error err;
    mlxcel_engine *e;
    o.n_ctx = 32768;
    if (!mlxcel_engine_open(m, &o, &e, &err)) fail_msg("%s", err.message);
    const uint32_t prompt[2] = {3, 4};
    mlxcel_request *q;
    Watched w = {0};
    if (!mlxcel_request_new(e, prompt, 2, &q, &err) ||
        !mlxcel_request_set(q, "n_predict", "-1", &err) ||
        !mlxcel_request_set(q, "ignore_eos", "true", &err))
        fail_msg("%s", err.message);
    Canceller c = {q, &w};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_after_a_token, &c), 0);
    bool ok = mlxcel_request_run(q, watch, &w, &err);
    pthread_join(thread, NULL);
    assert_true(ok);
    assert_string_equal(w.reason, "cancelled");
    assert_true(atomic_load(&w.n_tokens) < 30000);
    mlxcel_request_free(q);
    Answer after = {.engine = e, .first = 9};
    answer(&after); /* the engine goes on */
    assert_true(after.ok);
    assert_int_equal(after.n, N_ROUNDS * N_NEW);
    mlxcel_engine_close(e);
    mlxcel_model_close(m);
}

static void failures_are_values(void **state) {
    (void)state;
    char path[4096];
    mlxcel_error err;
    mlxcel_model *m;
    mlxcel_request *q;
    mlxcel_encoder *encoder;
    mlxcel_prompt *p;
    assert_false(mlxcel_model_open("no/such/model", NULL, &m, &err));
    assert_int_equal(err.kind, MLXCEL_NOT_FOUND);
    assert_false(mlxcel_model_open(golden("llama/golden.json", path), NULL, &m, &err));
    assert_true(err.kind != MLXCEL_OK && strlen(err.message) > 0);
    assert_false(mlxcel_model_open("no/such/model", NULL, &m, NULL)); /* nobody wants to know */
    m = model_of("llama");
    mlxcel_engine_options o = mlxcel_engine_options_default();
    mlxcel_engine *e;
    o.n_ctx = (uint64_t)1 << 50;
    assert_false(mlxcel_engine_open(m, &o, &e, &err));
    assert_int_equal(err.kind, MLXCEL_LIMIT);
    o.n_ctx = 0;
    o.cache_type_k = "f7";
    assert_false(mlxcel_engine_open(m, &o, &e, &err));
    assert_int_equal(err.kind, MLXCEL_INPUT);
    assert_false(mlxcel_encoder_open(m, NULL, &encoder, &err));
    assert_int_equal(err.kind, MLXCEL_UNSUPPORTED);
    assert_false(mlxcel_text_prompt(m, "a", 1, true, false, &p, &err)); /* it has no tokenizer */
    assert_int_equal(err.kind, MLXCEL_UNSUPPORTED);
    e = engine_of(m);
    const uint32_t wrong[1] = {UINT32_MAX};
    bool made = mlxcel_request_new(e, wrong, 1, &q, &err);
    if (made) { /* found when it is submitted, at the latest */
        assert_false(mlxcel_request_run(q, NULL, NULL, &err));
        mlxcel_request_free(q);
    }
    assert_int_equal(err.kind, MLXCEL_INPUT);
    mlxcel_engine_close(e);
    mlxcel_model_close(m);
}

static mlxcel_request *image_request(mlxcel_engine *e, const mlxcel_tensor *pixels) {
    mlxcel_error err;
    mlxcel_request *q;
    uint32_t ids[27] = {1};
    for (int i = 1; i < 26; i++) ids[i] = 250;
    ids[26] = 2;
    if (!mlxcel_request_new(e, ids, 27, &q, &err) ||
        !mlxcel_request_set(q, "n_predict", "2", &err) || !mlxcel_request_input(q, pixels, &err))
        fail_msg("%s", err.message);
    return q;
}

/* Tensors belong to the caller again once they are given; what comes out is the request's. */
static void media_is_copied(void **state) {
    (void)state;
    enum { N = 3 * 20 * 20, N_EMBEDS = 25 * 64 };
    mlxcel_error err;
    mlxcel_model *m = model_of("../multimodal/llava");
    mlxcel_engine *e = engine_of(m);
    float pixels[N], first[N_EMBEDS];
    mlxcel_tensor in = {
        .name = "pixel_values", .n_dims = 4, .dims = {1, 3, 20, 20}, .data = pixels};
    for (int again = 0; again < 2; again++) {
        mlxcel_tensor out;
        for (int i = 0; i < N; i++) pixels[i] = (float)(i % 7) - 3;
        mlxcel_request *q = image_request(e, &in);
        if (again) memset(pixels, 0xff, sizeof pixels);
        assert_false(mlxcel_request_output(q, "image_embeds", &out, &err));
        assert_int_equal(err.kind, MLXCEL_BUSY);
        if (!mlxcel_request_run(q, NULL, NULL, &err)) fail_msg("%s", err.message);
        assert_false(mlxcel_request_input(q, &in, &err)); /* too late */
        assert_false(mlxcel_request_output(q, "image", &out, &err));
        assert_int_equal(err.kind, MLXCEL_NOT_FOUND);
        if (!mlxcel_request_output(q, "image_embeds", &out, &err)) fail_msg("%s", err.message);
        assert_string_equal(out.name, "image_embeds");
        assert_true(out.type == MLXCEL_F32 && out.n_dims == 3 && out.dims[1] == 25 &&
                    out.dims[2] == 64);
        if (again) assert_memory_equal(out.data, first, sizeof first);
        memcpy(first, out.data, sizeof first);
        mlxcel_request_free(q);
    }
    mlxcel_engine_close(e);
    mlxcel_model_close(m);
}

static void unsound_media_is_refused(void **state) {
    (void)state;
    mlxcel_error err;
    mlxcel_model *m = model_of("llama");
    mlxcel_engine *e = engine_of(m);
    const int64_t one = 1;
    const mlxcel_tensor good = {
        .name = "x", .type = MLXCEL_I64, .n_dims = 1, .dims = {1}, .data = &one};
    mlxcel_tensor bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].name = NULL;
    bad[1].name = "";
    bad[2].type = 7;
    bad[3].n_dims = MLXCEL_MAX_DIMS + 1;
    bad[4].data = NULL;
    bad[5].n_dims = 2, bad[5].dims[0] = bad[5].dims[1] = (uint64_t)1 << 40;
    mlxcel_request *q;
    const uint32_t ids[1] = {1};
    if (!mlxcel_request_new(e, ids, 1, &q, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < 6; i++) {
        assert_false(mlxcel_request_input(q, &bad[i], &err));
        assert_int_equal(err.kind, MLXCEL_INPUT);
    }
    assert_true(mlxcel_request_input(q, &good, &err));
    assert_false(mlxcel_request_input(q, &good, &err)); /* a second one of its name */
    assert_int_equal(err.kind, MLXCEL_INPUT);
    assert_false(mlxcel_request_run(q, NULL, NULL, &err)); /* the model takes text only */
    assert_int_equal(err.kind, MLXCEL_UNSUPPORTED);
    mlxcel_request_free(q);
    mlxcel_engine_close(e);
    mlxcel_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_do_not_disturb_each_other),
        cmocka_unit_test(another_thread_may_cancel), cmocka_unit_test(failures_are_values),
        cmocka_unit_test(media_is_copied), cmocka_unit_test(unsound_media_is_refused)};
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
