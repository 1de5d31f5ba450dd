/* Requests with images among others: what an answer depends on (promise P1) and what prefixes may be
 * shared. Two wrapped models, one whose images see back only and one whose images see both ways;
 * the images are noise, the prompts longer than a page. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "golden_run.h"

enum { N_NEW = 6, MAX_PROMPT = 120, PLACEHOLDER = 250, FIRST = 11, BETWEEN = 5, LAST = 20 };

typedef struct Kind {
    const char *golden;
    uint32_t pixels, rows; /* of an image: a side; placeholders */
} Kind;

static const Kind KINDS[] = {{"llava", 20, 25}, {"gemma3", 24, 9}};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

typedef struct Run {
    uint32_t ids[N_NEW];
    double logprobs[N_NEW];
    size_t n, n_cached;
    bool done;
    Err err;
    Media *media;
    float *pixels;
    uint32_t tokens[MAX_PROMPT], n_tokens;
} Run;

static bool collect(void *ctx, const Event *ev) {
    Run *r = ctx;
    for (size_t i = 0; i < ev->n_tokens && r->n < N_NEW; i++, r->n++) {
        r->ids[r->n] = ev->tokens[i].id;
        r->logprobs[r->n] = ev->tokens[i].logprob;
    }
    if (ev->kind == EVENT_ERROR) r->err = *ev->err;
    if (ev->kind == EVENT_DONE) r->n_cached = ev->timings->n_cached;
    if (ev->kind == EVENT_DONE || ev->kind == EVENT_ERROR) r->done = true;
    return true;
}

/* Text, the images apart from each other, text. */
static void prompt_make(const Kind *k, Run *r, uint32_t n_images) {
    r->n_tokens = 0;
    for (uint32_t i = 0; i < FIRST; i++) r->tokens[r->n_tokens++] = 3 + i;
    for (uint32_t image = 0; image < n_images; image++) {
        for (uint32_t i = 0; i < k->rows; i++) r->tokens[r->n_tokens++] = PLACEHOLDER;
        for (uint32_t i = 0; i < BETWEEN; i++) r->tokens[r->n_tokens++] = 40 + i;
    }
    for (uint32_t i = 0; i < LAST; i++) r->tokens[r->n_tokens++] = 60 + i;
}

/* n_images of them, the i-th drawn from seeds[i]. */
static void request_make(const Model *m, const Kind *k, Run *r, const uint32_t *seeds,
                         uint32_t n_images) {
    Err err = {0};
    size_t n = (size_t)3 * k->pixels * k->pixels;
    *r = (Run){0};
    prompt_make(k, r, n_images);
    r->pixels = mem_resize_array(NULL, n * n_images, sizeof(float));
    for (size_t i = 0; i < n * n_images; i++)
        r->pixels[i] = (float)(rng_uniform(seeds[i / n], 0, i % n, 0) * 2 - 1);
    const MediaTensor in = {.name = "pixel_values",
                            .type = MEDIA_F32,
                            .n_dims = 4,
                            .dims = {n_images, 3, k->pixels, k->pixels},
                            .data = r->pixels};
    if (!media_new(m, &in, 1, r->tokens, r->n_tokens, &r->media, &err)) fail_msg("%s", err.msg);
}

static void request_free(Run *r) {
    media_free(r->media);
    mem_free(r->pixels);
}

static void submit(Engine *e, const Model *m, Run *r) {
    Err err = {0};
    Job *job;
    JobParams p = {.tokens = r->tokens,
                   .n_tokens = r->n_tokens,
                   .n_predict = N_NEW,
                   .sample = params_cli(),
                   .ignore_eos = true,
                   .media = r->media,
                   .sink = {collect, r}};
    p.sample.n_logprobs = 0;
    if (!job_new(m, engine_n_ctx(e), &p, &job, &err)) fail_msg("%s", err.msg);
    engine_submit(e, job);
}

static void drive(Engine *e, const Run *r) {
    while (!r->done && engine_step(e)) {
    }
    if (r->err.kind) fail_msg("%s", r->err.msg);
    assert_int_equal(r->n, N_NEW);
}

static void same(const Run *a, const Run *b) {
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
}

static Model *model_for(const Kind *k, const char *backend) {
    Model *m;
    Err err = {0};
    char path[4096];
    ModelOptions mo = {.backend = backend, .be = {.n_threads = 2}};
    snprintf(path, sizeof path, "%s/multimodal/%s", golden_dir(), k->golden);
    if (!model_open(path, &mo, &m, &err)) fail_msg("%s", err.msg);
    return m;
}

static Engine *engine_for(Model *m, uint32_t slots, uint32_t chunk, uint64_t n_ctx) {
    Engine *e;
    Err err = {0};
    EngineOptions eo = engine_options();
    eo.n_slots = slots;
    eo.prefill_chunk = chunk;
    eo.n_ctx = n_ctx;
    if (!engine_open(m, &eo, &e, &err)) fail_msg("%s", err.msg);
    return e;
}

/* The answer on an engine that has seen nothing. */
static void run_alone(Model *m, const Kind *k, const uint32_t *seeds, uint32_t n, Run *out) {
    Engine *e = engine_for(m, 1, 512, 0);
    request_make(m, k, out, seeds, n);
    submit(e, m, out);
    drive(e, out);
    engine_close(e);
    request_free(out);
}

/* The tokens are the same, the images are not: text before them is shared, nothing else; the same
 * images again are shared up to the last token; a conversation that goes on shares its images. */
static void prefixes_are_told_apart(void **state) {
    (void)state;
    static const uint32_t A[2] = {1, 2}, B[2] = {3, 2};
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const Kind *k = &KINDS[i / 2];
        Model *m = model_for(k, i % 2 ? "cpu" : "ref");
        Run want_a, want_b, want_one, a, b, again, one;
        run_alone(m, k, A, 2, &want_a);
        run_alone(m, k, B, 2, &want_b);
        run_alone(m, k, A, 1, &want_one);
        assert_true(memcmp(want_a.logprobs, want_b.logprobs, sizeof want_a.logprobs) != 0);
        Engine *e = engine_for(m, 1, 512, 1024);
        Run *const order[] = {&one, &a, &b, &again};
        for (int n = 0; n < 4; n++) {
            request_make(m, k, order[n], n == 2 ? B : A, n == 0 ? 1 : 2);
            submit(e, m, order[n]);
            drive(e, order[n]);
            request_free(order[n]);
        }
        engine_close(e);
        model_close(m);
        same(&one, &want_one);
        same(&a, &want_a);
        same(&b, &want_b);
        same(&again, &want_a);
        assert_int_equal(one.n_cached, 0);
        assert_int_equal(a.n_cached, FIRST + k->rows + BETWEEN); /* the image of `one` */
        assert_int_equal(b.n_cached, FIRST);
        assert_int_equal(again.n_cached, a.n_tokens - 1);
    }
}

/* The same tiles of an image that was `lines` of 40 pixels high, of which it gives `rows`. */
static void tiles_make(const Model *m, Run *r, int64_t lines, uint32_t rows) {
    Err err = {0};
    const int64_t size[2] = {lines, 40};
    const Kind k = {NULL, 20, rows};
    size_t n = (size_t)3 * 3 * 20 * 20;
    *r = (Run){0};
    prompt_make(&k, r, 1);
    r->pixels = mem_resize_array(NULL, n, sizeof(float));
    for (size_t i = 0; i < n; i++) r->pixels[i] = (float)(rng_uniform(1, 0, i, 0) * 2 - 1);
    const MediaTensor in[2] = {{"pixel_values", MEDIA_F32, 5, {1, 3, 3, 20, 20}, r->pixels},
                               {"image_sizes", MEDIA_I64, 2, {1, 2}, size}};
    if (!media_new(m, in, 2, r->tokens, r->n_tokens, &r->media, &err)) fail_msg("%s", err.msg);
}

/* Tiles are laid out as the image was large: five or three lines of ten patches. The first rows are
 * the same, but nothing behind the text before them is shared. */
static void pictures_of_the_same_tiles_are_told_apart(void **state) {
    (void)state;
    const Kind k = {"llava_next", 20, 0};
    enum { VIEW = 25, WHOLE = VIEW + 5 * 11, CUT = VIEW + 3 * 11 };
    Model *m = model_for(&k, "cpu");
    Run whole, cut, again;
    Engine *e = engine_for(m, 1, 512, 1024);
    tiles_make(m, &whole, 20, WHOLE);
    tiles_make(m, &cut, 12, CUT);
    tiles_make(m, &again, 20, WHOLE);
    Run *const order[] = {&whole, &cut, &again};
    for (int i = 0; i < 3; i++) {
        submit(e, m, order[i]);
        drive(e, order[i]);
    }
    engine_close(e);
    e = engine_for(m, 1, 512, 1024);
    Run alone;
    tiles_make(m, &alone, 12, CUT);
    submit(e, m, &alone);
    drive(e, &alone);
    engine_close(e);
    same(&cut, &alone);
    same(&again, &whole);
    assert_int_equal(cut.n_cached, FIRST);
    assert_int_equal(again.n_cached, again.n_tokens - 1);
    for (int i = 0; i < 3; i++) request_free(order[i]);
    request_free(&alone);
    model_close(m);
}

/* Beside others, in pieces of any size, and waiting for others when the cache is too small for all. */
static void company_changes_nothing(void **state) {
    (void)state;
    static const uint32_t SEEDS[3][2] = {{1, 2}, {3, 4}, {5, 6}}, CHUNKS[] = {1, 7, 64};
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const Kind *k = &KINDS[i / 2];
        Model *m = model_for(k, i % 2 ? "cpu" : "ref");
        Run want[3], got[3];
        for (int j = 0; j < 3; j++) run_alone(m, k, SEEDS[j], 2, &want[j]);
        for (int c = 0; c < 3; c++) {
            Engine *e = engine_for(m, 3, CHUNKS[c], c == 1 ? 128 : 1024);
            for (int j = 0; j < 3; j++) {
                request_make(m, k, &got[j], SEEDS[j], 2);
                submit(e, m, &got[j]);
                engine_step(e);
            }
            for (int j = 0; j < 3; j++) drive(e, &got[j]);
            engine_close(e);
            for (int j = 0; j < 3; j++) {
                same(&got[j], &want[j]);
                request_free(&got[j]);
            }
        }
        model_close(m);
    }
}

static void refused(const Model *m, const MediaTensor *in, size_t n, const uint32_t *tokens,
                    size_t n_tokens, ErrKind kind, const char *says) {
    Media *media;
    Err err = {0};
    if (media_new(m, in, n, tokens, n_tokens, &media, &err)) fail_msg("taken: %s", says);
    if (err.kind != kind || !strstr(err.msg, says)) fail_msg("\"%s\", not: %s", err.msg, says);
}

static void bad_media_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        const Kind *k = &KINDS[i];
        Model *m = model_for(k, "ref");
        Run r = {0};
        static float pixels[2 * 3 * 24 * 24];
        MediaTensor t = {"pixel_values", MEDIA_F32, 4, {1, 3, k->pixels, k->pixels}, pixels};
        prompt_make(k, &r, 1);
        refused(m, NULL, 0, r.tokens, r.n_tokens, ERR_INPUT, "pixel_values is missing");
        refused(m, &t, 1, r.tokens, FIRST, ERR_INPUT, "the prompt has 0 placeholders");
        MediaTensor bad = t;
        bad.dims[2]--;
        refused(m, &bad, 1, r.tokens, r.n_tokens, ERR_INPUT, "pixel_values is [1, 3,");
        bad = t, bad.dims[0] = 0;
        refused(m, &bad, 1, r.tokens, r.n_tokens, ERR_INPUT, "pixel_values is [0, 3,");
        bad = t, bad.n_dims = 3;
        refused(m, &bad, 1, r.tokens, r.n_tokens, ERR_INPUT, "3 dimensions");
        bad = t, bad.type = MEDIA_I64, bad.dims[1] = 1;
        refused(m, &bad, 1, r.tokens, r.n_tokens, ERR_INPUT, "whole numbers");
        bad = t, bad.dims[0] = bad.dims[1] = bad.dims[2] = UINT64_MAX / 2;
        refused(m, &bad, 1, r.tokens, r.n_tokens, ERR_LIMIT, "too large");
        pixels[7] = NAN;
        refused(m, &t, 1, r.tokens, r.n_tokens, ERR_INPUT, "element 7 of input pixel_values is");
        pixels[7] = 0;
        const MediaTensor two[2] = {t, t};
        refused(m, two, 2, r.tokens, r.n_tokens, ERR_INPUT, "given twice");
        const MediaTensor more[2] = {t, {"pixels", MEDIA_F32, 1, {4}, pixels}};
        refused(m, more, 2, r.tokens, r.n_tokens, ERR_INPUT, "no input \"pixels\"");
        model_close(m);
    }
}

/* The tower's rows for n_images, drawn from 1 and 2 by turns. */
static float *rows_of_images(Model *m, const Kind *k, uint32_t n_images, size_t *n_floats) {
    size_t n = (size_t)3 * k->pixels * k->pixels, n_tokens = (size_t)n_images * k->rows;
    float *pixels = mem_resize_array(NULL, n * n_images, sizeof *pixels);
    uint32_t *tokens = mem_resize_array(NULL, 2 * n_tokens, sizeof *tokens);
    MediaTensor in = {"pixel_values", MEDIA_F32, 4, {n_images, 3, k->pixels, k->pixels}, pixels},
                got;
    Media *media;
    Tower *tower;
    Err err = {0};
    for (size_t i = 0; i < n * n_images; i++)
        pixels[i] = (float)(rng_uniform(1 + i / n % 2, 0, i % n, 0) * 2 - 1);
    for (size_t i = 0; i < n_tokens; i++) { /* a token between the images */
        size_t image = i / k->rows;
        if (i % k->rows == 0) tokens[i + image] = 3;
        tokens[i + image + 1] = PLACEHOLDER;
    }
    if (!model_load(m, &err) || !media_new(m, &in, 1, tokens, n_tokens + n_images, &media, &err) ||
        !tower_new(m, &tower, &err) || !media_encode(media, tower, NULL, &err) ||
        !media_output(media, "image_embeds", &got, &err))
        fail_msg("%s", err.msg);
    *n_floats = (size_t)media_elements(&got);
    float *rows = mem_resize_array(NULL, *n_floats, sizeof *rows);
    memcpy(rows, got.data, *n_floats * sizeof *rows);
    tower_free(tower);
    media_free(media);
    mem_free(tokens);
    mem_free(pixels);
    return rows;
}

/* More images than a step of the tower takes: each has the rows that it has in a request of two. */
static void steps_of_the_tower_change_nothing(void **state) {
    (void)state;
    enum { MANY = 251 }; /* of 25 to 36 rows in the tower, more than 4096 in all */
    for (int i = 0; i < N_KINDS; i++) {
        const Kind *k = &KINDS[i];
        Model *m = model_for(k, "cpu");
        size_t n_two, n_many;
        float *two = rows_of_images(m, k, 2, &n_two), *many = rows_of_images(m, k, MANY, &n_many);
        assert_int_equal(n_many, n_two / 2 * MANY);
        for (size_t at = 0; at < n_many; at += n_two / 2)
            assert_memory_equal(many + at, two + at % n_two, n_two / 2 * sizeof *two);
        mem_free(two);
        mem_free(many);
        model_close(m);
    }
}

/* Memory ends at each allocation in turn: in making the media, then in running them. That request
 * fails for want of memory, and leaves an engine on which the next one gets its answer. */
static void memory_may_end(void **state) {
    (void)state;
    enum { MOST = 400 };
    static const uint32_t SEEDS[2] = {1, 2};
    for (int i = 0; i < N_KINDS; i++) {
        const Kind *k = &KINDS[i];
        Model *m = model_for(k, "cpu");
        Run want, got;
        run_alone(m, k, SEEDS, 2, &want);
        bool made = false, ran = false;
        for (int n = 0; !made && n < MOST; n++) {
            Err err = {0};
            Media *again = NULL;
            request_make(m, k, &got, SEEDS, 2);
            const MediaTensor in = {
                "pixel_values", MEDIA_F32, 4, {2, 3, k->pixels, k->pixels}, got.pixels};
            mem_fail_after(n);
            made = media_new(m, &in, 1, got.tokens, got.n_tokens, &again, &err);
            mem_fail_after(-1);
            assert_true(made || err.kind == ERR_NOMEM);
            media_free(again);
            request_free(&got);
        }
        assert_true(made);
        for (int n = 0; !ran && n < MOST; n++) {
            Engine *e = engine_for(m, 1, 512, 1024);
            request_make(m, k, &got, SEEDS, 2);
            submit(e, m, &got);
            mem_fail_after(n);
            engine_step(e);
            mem_fail_after(-1);
            ran = !got.done;
            if (got.done) assert_int_equal(got.err.kind, ERR_NOMEM);
            if (ran) drive(e, &got);
            if (ran) same(&got, &want);
            request_free(&got);
            request_make(m, k, &got, SEEDS, 2);
            submit(e, m, &got);
            drive(e, &got);
            same(&got, &want);
            request_free(&got);
            engine_close(e);
        }
        assert_true(ran);
        model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_told_apart),
        cmocka_unit_test(pictures_of_the_same_tiles_are_told_apart),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(bad_media_are_refused),
        cmocka_unit_test(steps_of_the_tower_change_nothing),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests_name("media_jobs", tests, NULL, NULL);
}
