#include "golden_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

typedef struct Outcome {
    Err err;
    bool done;
    uint32_t *ids;
    size_t n_ids;
    float *logits;
    size_t vocab;
} Outcome;

static bool on_event(void *ctx, const Event *ev) {
    Outcome *o = ctx;
    for (size_t i = 0; i < ev->n_tokens; i++) o->ids[o->n_ids++] = ev->tokens[i].id;
    if (ev->kind == EVENT_ERROR) o->err = *ev->err;
    if (ev->kind == EVENT_DONE || ev->kind == EVENT_ERROR) o->done = true;
    return true;
}

static bool on_logits(void *ctx, uint32_t position, const float *logits) {
    Outcome *o = ctx;
    memcpy(o->logits + position * o->vocab, logits, o->vocab * sizeof *logits);
    return true;
}

static bool finish(Engine *e, const Model *m, JobParams *p, Outcome *o, Err *err) {
    Job *job;
    p->sink = (Sink){on_event, o};
    if (!job_new(m, engine_n_ctx(e), p, &job, err)) return false;
    engine_submit(e, job);
    while (!o->done && engine_step(e)) {
    }
    if (o->err.kind) *err = o->err;
    return o->err.kind == ERR_NONE;
}

bool run_logits(Engine *e, const Model *m, const uint32_t *tokens, size_t n, float *out, Err *err) {
    return run_media_logits(e, m, NULL, tokens, n, out, err);
}

bool run_media_logits(Engine *e, const Model *m, Media *media, const uint32_t *tokens, size_t n,
                      float *out, Err *err) {
    Outcome o = {.logits = out, .vocab = m->arch.vocab};
    JobParams p = {.tokens = tokens,
                   .n_tokens = n,
                   .sample = params_cli(),
                   .media = media,
                   .on_logits = on_logits,
                   .on_logits_ctx = &o};
    return finish(e, m, &p, &o, err);
}

bool run_greedy(Engine *e, const Model *m, const uint32_t *tokens, size_t n, size_t n_new,
                uint32_t *out, Err *err) {
    return run_media_greedy(e, m, NULL, tokens, n, n_new, out, err);
}

bool run_media_greedy(Engine *e, const Model *m, Media *media, const uint32_t *tokens, size_t n,
                      size_t n_new, uint32_t *out, Err *err) {
    Outcome o = {.ids = out};
    JobParams p = {.tokens = tokens,
                   .n_tokens = n,
                   .n_predict = (int64_t)n_new,
                   .sample = params_cli(),
                   .media = media,
                   .ignore_eos = true};
    if (!finish(e, m, &p, &o, err)) return false;
    return o.n_ids == n_new ||
           err_set(err, ERR_INTERNAL, "%zu tokens instead of %zu", o.n_ids, n_new);
}

const uint32_t *ids_of(const Json *array, Arena *a, size_t *n) {
    *n = array ? array->n : 0;
    uint32_t *ids = arena_array(a, uint32_t, *n + 1);
    for (size_t i = 0; ids && i < *n; i++) {
        int64_t v = -1;
        if (!json_i64(json_at(array, i), &v)) return NULL;
        ids[i] = (uint32_t)v;
    }
    return ids;
}

const Json *json_of(const char *path, Arena *a, Err *err) {
    Buf text = {0};
    Json *doc = NULL;
    if (os_read_file(path, (size_t)1 << 28, &text, err) &&
        !json_parse(buf_str(&text), NULL, a, &doc, err))
        doc = NULL;
    buf_deinit(&text);
    return doc;
}

double max_over_rms(const float *a, const float *b, size_t n) {
    double worst = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= worst)) worst = d; /* a NaN is the worst */
        sum += (double)b[i] * b[i];
    }
    return worst / sqrt(sum / (double)n);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double middle_over_rms(const float *got, const float *want, size_t rows, size_t n, Arena *a) {
    double *off = arena_array(a, double, rows + 1), sum = 0;
    for (size_t i = 0; i < rows * n; i++) sum += (double)want[i] * want[i];
    for (size_t i = 0; i < rows * n; i++) {
        double d = fabs((double)got[i] - want[i]) / sqrt(sum / (double)(rows * n));
        if (!(d <= off[i / n])) off[i / n] = d;
    }
    qsort(off, rows, sizeof *off, by_size);
    return off[rows / 2];
}

bool golden_copy(const char *from, const char *to, void (*edit)(Buf *config, const void *ctx),
                 const void *ctx, Err *err) {
    Arena a = {0};
    Str *names;
    size_t n = 0;
    bool ok = os_make_dirs(to, err) && os_list_dir(from, &a, &names, &n, err);
    for (size_t i = 0; ok && i < n; i++) {
        char source[4096], target[4096];
        Buf text = {0};
        snprintf(source, sizeof source, "%s/%.*s", from, (int)names[i].n, names[i].p);
        snprintf(target, sizeof target, "%s/%.*s", to, (int)names[i].n, names[i].p);
        ok = os_read_file(source, (size_t)1 << 28, &text, err);
        if (ok && str_eqc(names[i], "config.json")) edit(&text, ctx);
        ok = ok && os_write_file(target, buf_str(&text), err);
        buf_deinit(&text);
    }
    arena_deinit(&a);
    return ok;
}

const char *golden_dir(void) {
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    return dir ? dir : "build/goldens";
}

bool golden_known(const char *path, const char *kind) {
    Err err = {0};
    Checkpoint *ck;
    if (!checkpoint_open(path, &ck, &err)) return false;
    const Arch *arch = arch_find(ck);
    bool found = arch && (!kind || strcmp(arch->kind, kind) == 0);
    checkpoint_close(ck);
    return found;
}
