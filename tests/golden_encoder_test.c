/* Promises P1 and P2 on encoders: every golden that the registry knows, on every backend, as vectors
 * or scores against the reference; the same bits alone and in any company. Goldens lie in
 * $MLXCEL_GOLDEN_DIR (unpacked; the Makefile does it from tests/data/models.tar.xz). */
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
#include "golden_run.h"
#include "npy.h"
#include "task/encoder.h"

enum { MAX_INPUTS = 16 };

typedef struct Golden {
    Arena a;
    const Json *json;
    EncoderInput in[MAX_INPUTS];
    size_t n;
    EncoderOptions opt;
    Npy want;
} Golden;

static bool golden_open(Golden *g, const char *path, Err *err) {
    char file[4200];
    Str text;
    bool normalize = false;
    snprintf(file, sizeof file, "%s/golden.json", path);
    *g = (Golden){0};
    if (!(g->json = json_of(file, &g->a, err))) return false;
    const Json *tokens = json_get(g->json, "tokens"), *types = json_get(g->json, "token_type_ids");
    for (; g->n < tokens->n && g->n < MAX_INPUTS; g->n++) {
        size_t n, n_types;
        EncoderInput *in = &g->in[g->n];
        in->ids = ids_of(json_at(tokens, g->n), &g->a, &n);
        in->n = (uint32_t)n;
        if (json_is(types, JSON_ARRAY)) in->types = ids_of(json_at(types, g->n), &g->a, &n_types);
    }
    g->opt.scores = json_str(json_get(g->json, "mode"), &text) && str_eqc(text, "classifier");
    if (!g->opt.scores && json_str(json_get(g->json, "pooling"), &text) &&
        !pooling_parse(text, &g->opt.pooling, err))
        return false;
    json_bool(json_get(g->json, "normalize"), &normalize);
    g->opt.no_normalize = !normalize;
    snprintf(file, sizeof file, "%s/output.npy", path);
    return npy_load(file, &g->want, err);
}

static void golden_close(Golden *g) {
    npy_free(&g->want);
    arena_deinit(&g->a);
}

/* Cosine at least 0.99999 and scores within 1e-4, as the goldens' README has it. */
static bool near(const Golden *g, const float *rows, uint32_t width, Err *err) {
    for (size_t i = 0; i < g->n; i++) {
        const float *a = rows + i * width, *b = g->want.data + i * width;
        double ab = 0, aa = 0, bb = 0, most = 0;
        for (uint32_t c = 0; c < width; c++) {
            ab += (double)a[c] * b[c], aa += (double)a[c] * a[c], bb += (double)b[c] * b[c];
            most = fmax(most, fabs((double)a[c] - b[c]));
        }
        if (g->opt.scores && !(most <= 1e-4 * fmax(1, sqrt(bb / width))))
            return err_set(err, ERR_INTERNAL, "scores of input %zu are off by %.2e", i, most);
        if (!g->opt.scores && !(ab / sqrt(aa * bb) >= 0.99999 && fabs(aa / bb - 1) < 1e-3))
            return err_set(err, ERR_INTERNAL, "vector %zu: cosine %.7f, length %.6f of it", i,
                           ab / sqrt(aa * bb), sqrt(aa / bb));
    }
    return true;
}

static bool runs(Model *m, const Golden *g, Err *err) {
    Encoder *e = NULL;
    if (!encoder_open(m, &g->opt, &e, err)) return false;
    uint32_t width = encoder_width(e);
    if (g->want.n != g->n * width) {
        encoder_close(e);
        return err_set(err, ERR_INTERNAL, "width %u", width);
    }
    float *rows = mem_calloc(2 * g->n, width * sizeof *rows), *alone = rows + g->n * width;
    bool ok = encoder_run(e, g->in, g->n, rows, err) && near(g, rows, width, err);
    for (size_t i = 0; ok && i < g->n; i++)
        ok = encoder_run(e, &g->in[i], 1, alone + i * width, err);
    if (ok && memcmp(rows, alone, g->n * width * sizeof *rows))
        ok = err_set(err, ERR_INTERNAL, "alone and in company differ");
    mem_free(rows);
    encoder_close(e);
    return ok;
}

static bool check(const char *path, const char *backend, int threads, Err *err) {
    Golden g;
    Model *m = NULL;
    ModelOptions mo = {.backend = backend, .be = {.n_threads = threads}};
    bool ok = golden_open(&g, path, err) && model_open(path, &mo, &m, err) && runs(m, &g, err);
    model_close(m);
    golden_close(&g);
    return ok;
}

static void goldens_match(void **state) {
    (void)state;
    static const struct {
        const char *backend;
        int threads;
    } RUNS[] = {{"ref", 1}, {"ref-delayed", 1}, {"cpu", 1}, {"cpu", 3}};
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_run = 0, n_bad = 0;
    char dir[2048], path[4096];
    snprintf(dir, sizeof dir, "%s/encoder", golden_dir());
    if (!os_list_dir(dir, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%.*s", dir, (int)names[i].n, names[i].p);
        for (size_t k = 0; golden_known(path, "embedding") && k < sizeof RUNS / sizeof *RUNS;
             k++, n_run++) {
            err = (Err){0};
            if (check(path, RUNS[k].backend, RUNS[k].threads, &err)) continue;
            n_bad++;
            print_error("%.*s on %s: %s\n", (int)names[i].n, names[i].p, RUNS[k].backend, err.msg);
        }
    }
    print_message("%zu golden runs, %zu bad\n", n_run, n_bad);
    arena_deinit(&a);
    assert_true(n_run > 0);
    assert_int_equal(n_bad, 0);
}

/* What cannot be run is refused by name, and nothing is lost. */
static void bad_inputs_are_refused(void **state) {
    (void)state;
    static const uint32_t IDS[3] = {1, 2, 1u << 30}, TYPES[2] = {0, 77};
    char path[4096];
    Err err = {0};
    Model *m;
    Encoder *e;
    float row[4096];
    ModelOptions mo = {.backend = "ref"};
    EncoderOptions opt = {.max_length = 8};
    snprintf(path, sizeof path, "%s/encoder/bert_mean", golden_dir());
    if (!model_open(path, &mo, &m, &err)) fail_msg("%s", err.msg);
    assert_false(encoder_open(m, &(EncoderOptions){.scores = true}, &e, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
    if (!encoder_open(m, &opt, &e, &err)) fail_msg("%s", err.msg);
    assert_true(encoder_width(e) <= 4096);
    const struct {
        EncoderInput in;
        ErrKind kind;
    } BAD[] = {{{IDS, NULL, 0}, ERR_INPUT},
               {{IDS, NULL, 3}, ERR_INPUT},
               {{IDS, TYPES, 2}, ERR_INPUT},
               {{IDS, NULL, 9}, ERR_LIMIT}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_false(encoder_run(e, &BAD[i].in, 1, row, &err));
        assert_int_equal(err.kind, BAD[i].kind);
    }
    const EncoderInput good = {IDS, NULL, 2};
    assert_true(encoder_run(e, &good, 1, row, &err));
    encoder_close(e);
    model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_match),
                                       cmocka_unit_test(bad_inputs_are_refused)};
    return cmocka_run_group_tests_name("golden_encoder", tests, NULL, NULL);
}
