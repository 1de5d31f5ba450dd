/* An encoder's rows beside a decoder's: two requests with different sound side by side get the bits
 * that each gets alone, whatever the pieces; one that gives its pages back and starts over gets them
 * again; a cancelled encoder ends its own request only; every page comes back; sound of another
 * shape, and none, are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine_private.h"

enum { PROMPT = 20, NEW = 12, VOCAB = 256, N = PROMPT + NEW };

typedef struct Seen {
    uint32_t ids[NEW];
    size_t n;
    float logits[PROMPT][VOCAB];
    bool done, failed;
    Finish finish;
    atomic_bool cancel;
} Seen;

typedef struct Heard { /* a model, and sound for it */
    Model *m;
    float *sound[2];
    uint64_t dims[3];
    uint32_t tokens[2][PROMPT];
    Media *media[2];
} Heard;

static bool watch(void *ctx, const Event *e) {
    Seen *s = ctx;
    for (size_t i = 0; i < e->n_tokens && s->n < NEW; i++) s->ids[s->n++] = e->tokens[i].id;
    if (e->kind == EVENT_DONE) s->finish = e->finish;
    if (e->kind == EVENT_ERROR) s->failed = true;
    if (e->kind == EVENT_DONE || e->kind == EVENT_ERROR) s->done = true;
    return true;
}

static bool keep_logits(void *ctx, uint32_t position, const float *logits) {
    memcpy(((Seen *)ctx)->logits[position], logits, sizeof((Seen *)ctx)->logits[0]);
    return true;
}

static void model_get(Heard *h, const char *backend) {
    Err err = {0};
    char path[4096];
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    snprintf(path, sizeof path, "%s/multimodal/whisper", dir ? dir : "build/goldens");
    ModelOptions mo = {.backend = backend, .be = {.n_threads = 2}};
    *h = (Heard){0};
    if (!model_open(path, &mo, &h->m, &err)) fail_msg("%s", err.msg);
    const ArchModel *a = &h->m->arch;
    assert_int_equal(a->vocab, VOCAB);
    h->dims[0] = 1, h->dims[1] = a->tower->inputs[0].cols, h->dims[2] = 2 * a->cross_rows;
    size_t n = (size_t)(h->dims[1] * h->dims[2]);
    for (uint32_t s = 0; s < 2; s++) {
        assert_non_null(h->sound[s] = mem_calloc(2 * n, sizeof(float))); /* room for more */
        for (uint32_t i = 0; i < n; i++)
            h->sound[s][i] = (float)(rng_u32(s, 1, i, 0) % 4096) / 1024 - 2;
        for (uint32_t i = 0; i < PROMPT; i++) h->tokens[s][i] = rng_u32(s, 2, i, 0) % VOCAB;
    }
}

static MediaTensor tensor(const Heard *h, int which) {
    MediaTensor t = {.name = "input_features", .type = MEDIA_F32, .n_dims = 3};
    memcpy(t.dims, h->dims, sizeof h->dims);
    t.data = h->sound[which];
    return t;
}

static void media_get(Heard *h, int which) {
    Err err = {0};
    MediaTensor t = tensor(h, which);
    if (!media_new(h->m, &t, 1, h->tokens[which], PROMPT, &h->media[which], &err))
        fail_msg("%s", err.msg);
}

static void heard_free(Heard *h) {
    for (int s = 0; s < 2; s++) {
        media_free(h->media[s]);
        mem_free(h->sound[s]);
    }
    model_close(h->m);
}

static Engine *engine_get(Heard *h, uint32_t n_slots, uint32_t chunk) {
    Err err = {0};
    Engine *e;
    EngineOptions eo = engine_options();
    eo.n_slots = n_slots;
    eo.prefill_chunk = chunk;
    if (!engine_open(h->m, &eo, &e, &err)) fail_msg("%s", err.msg);
    return e;
}

/* n_new 0: the logits of the prompt. */
static void submit(Engine *e, Heard *h, int which, int64_t n_new, Seen *s) {
    Err err = {0};
    Job *job;
    JobParams p = {.tokens = h->tokens[which],
                   .n_tokens = PROMPT,
                   .n_predict = n_new,
                   .sample = params_cli(),
                   .ignore_eos = true,
                   .media = h->media[which],
                   .sink = {watch, s},
                   .cancel = &s->cancel};
    if (!n_new) p.on_logits = keep_logits, p.on_logits_ctx = s;
    p.sample.temperature = 0;
    memset(s, 0, sizeof *s);
    if (!job_new(h->m, engine_n_ctx(e), &p, &job, &err)) fail_msg("%s", err.msg);
    engine_submit(e, job);
}

static void run_out(Engine *e) {
    for (int steps = 0; engine_step(e); steps++) assert_true(steps < 1000);
}

static void close_engine(Engine *e) {
    for (uint32_t g = 0; g < e->cache.pools.n_groups; g++) /* every page came back */
        assert_int_equal(e->cache.pools.pages[g].n_free, e->cache.pools.pages[g].n_pages);
    engine_close(e);
}

/* Logits and greedy tokens of both, each on an engine of its own. */
static void alone(Heard *h, Seen score[2], Seen greedy[2]) {
    for (int s = 0; s < 2; s++) {
        Engine *e = engine_get(h, 1, 512);
        media_get(h, s);
        submit(e, h, s, 0, &score[s]);
        run_out(e);
        submit(e, h, s, NEW, &greedy[s]);
        run_out(e);
        assert_true(score[s].done && !score[s].failed && greedy[s].n == NEW);
        close_engine(e);
        media_free(h->media[s]);
        h->media[s] = NULL;
    }
    assert_memory_not_equal(score[0].logits, score[1].logits, sizeof score[0].logits);
}

static void assert_same(const Seen *got, const Seen *want) {
    assert_true(got->done && !got->failed);
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->ids, want->ids, sizeof got->ids);
    assert_memory_equal(got->logits, want->logits, sizeof got->logits);
}

static void company_changes_no_bit(void **state) {
    (void)state;
    static const char *const BACKENDS[] = {"ref", "ref-delayed", "cpu"};
    static const uint32_t CHUNKS[] = {1, 7, 512};
    static Seen score[2], greedy[2], got[4];
    for (int b = 0; b < 3; b++) {
        Heard h;
        model_get(&h, BACKENDS[b]);
        alone(&h, score, greedy);
        for (int c = 0; c < 3; c++) {
            Engine *e = engine_get(&h, 2, CHUNKS[c]);
            for (int s = 0; s < 2; s++) media_get(&h, s);
            /* the last two wait for slots whose pages others have had */
            for (int s = 0; s < 2; s++) submit(e, &h, s, 0, &got[s]);
            for (int s = 0; s < 2; s++) submit(e, &h, 1 - s, NEW, &got[2 + s]);
            run_out(e);
            for (int s = 0; s < 2; s++) {
                assert_same(&got[s], &score[s]);
                assert_same(&got[2 + s], &greedy[1 - s]);
                media_free(h.media[s]);
                h.media[s] = NULL;
            }
            close_engine(e);
        }
        heard_free(&h);
    }
}

/* What a dry pool does to the youngest, at every point of its life. */
static void starting_over_fills_the_pages_again(void **state) {
    (void)state;
    static Seen score[2], greedy[2], got[2];
    Heard h;
    model_get(&h, "ref");
    alone(&h, score, greedy);
    for (int s = 0; s < 2; s++) media_get(&h, s);
    for (int at = 1; at < NEW; at += 3) {
        Engine *e = engine_get(&h, 2, 7);
        for (int s = 0; s < 2; s++) submit(e, &h, s, NEW, &got[s]);
        for (int i = 0; i < at; i++) engine_step(e);
        assert_int_equal(e->n_running, 2);
        engine_requeue(e, e->running[at % 2]);
        engine_requeue(e, e->running[0]); /* both: they change their pages */
        run_out(e);
        for (int s = 0; s < 2; s++) assert_same(&got[s], &greedy[s]);
        close_engine(e);
    }
    heard_free(&h);
}

static void a_cancelled_encoder_ends_its_own_request(void **state) {
    (void)state;
    static Seen score[2], greedy[2], got[2], again;
    Heard h;
    model_get(&h, "ref");
    alone(&h, score, greedy);
    for (int s = 0; s < 2; s++) media_get(&h, s);
    Engine *e = engine_get(&h, 2, 512);
    submit(e, &h, 0, NEW, &got[0]);
    engine_step(e);
    submit(e, &h, 1, NEW, &got[1]);
    /* the flag as the tower finds it, not as a job's that still waits */
    const atomic_bool stop = true;
    Err err = {0};
    assert_false(media_encode(h.media[1], e->tower, &stop, &err));
    assert_int_equal(err.kind, ERR_CANCELLED);
    e->queue->p.cancel = NULL;
    atomic_store(&e->queue->own_cancel, true);
    run_out(e);
    assert_int_equal(got[1].finish, FINISH_CANCELLED);
    assert_int_equal(got[1].n, 0);
    assert_same(&got[0], &greedy[0]);
    submit(e, &h, 1, NEW, &again); /* the same media, run after all */
    run_out(e);
    assert_same(&again, &greedy[1]);
    close_engine(e);
    heard_free(&h);
}

/* Stopped while the cross program runs, with its pages taken: they come back. */
static void a_cancelled_cross_program_gives_its_pages_back(void **state) {
    (void)state;
    Heard h;
    SeqCache c;
    Err err = {0};
    const atomic_bool stop = true;
    model_get(&h, "cpu");
    media_get(&h, 0);
    Engine *e = engine_get(&h, 1, 512);
    assert_true(media_encode(h.media[0], e->tower, NULL, &err));
    assert_true(seqcache_init(&c, &e->cache, PROMPT, &err));
    assert_false(cross_run(e->cross, h.media[0], &c, &stop, &err));
    assert_int_equal(err.kind, ERR_CANCELLED);
    assert_int_equal(c.n_cross, h.m->arch.cross_rows);
    seqcache_deinit(&c);
    close_engine(e);
    heard_free(&h);
}

static void refuse(Heard *h, const MediaTensor *t, size_t n, const char *piece) {
    Err err = {0};
    Media *media;
    assert_false(media_new(h->m, t, n, h->tokens[0], PROMPT, &media, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    if (!strstr(err.msg, piece)) fail_msg("\"%s\" in: %s", piece, err.msg);
}

static void other_shapes_are_refused(void **state) {
    (void)state;
    Heard h;
    Job *job;
    Err err = {0};
    model_get(&h, "ref");
    MediaTensor t = tensor(&h, 0);
    refuse(&h, &t, 0, "input_features is missing");
    for (int k = 0; k < 3; k++)
        for (int d = -1; d <= 1; d += 2) {
            t = tensor(&h, 0);
            t.dims[k] += (uint64_t)d;
            refuse(&h, &t, 1, "must fill max_source_positions");
        }
    t = tensor(&h, 0);
    t.n_dims = 2, t.dims[0] = t.dims[1], t.dims[1] = t.dims[2];
    refuse(&h, &t, 1, "has 2 dimensions");
    MediaTensor two[2] = {tensor(&h, 0), tensor(&h, 1)};
    two[1].name = "pixel_values";
    refuse(&h, two, 2, "no input \"pixel_values\"");
    h.sound[0][h.dims[2] + 5] = NAN;
    t = tensor(&h, 0);
    refuse(&h, &t, 1, "input input_features is nan: not a finite number");
    JobParams p = {.tokens = h.tokens[0], .n_tokens = PROMPT, .sample = params_cli()};
    assert_false(job_new(h.m, 40, &p, &job, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.msg, "input_features"));
    heard_free(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(company_changes_no_bit),
        cmocka_unit_test(starting_over_fills_the_pages_again),
        cmocka_unit_test(a_cancelled_encoder_ends_its_own_request),
        cmocka_unit_test(a_cancelled_cross_program_gives_its_pages_back),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests_name("cross", tests, NULL, NULL);
}
