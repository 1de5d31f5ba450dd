/* Every storage format on whole models: quantized checkpoints as hubs have them, against logits of
 * the reference, which decodes the stored bytes to f32. On ref the logits must agree; on cpu, whose
 * activations are rounded to int8, they may move as far as the reference itself moves under such
 * rounding (golden.json says how far), twice at most. Reads $MLXCEL_GOLDEN_DIR/quantized
 * (tests/data/quantized.tar.xz: one checkpoint per format) and $MLXCEL_GOLDEN/quantized. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "golden_run.h"
#include "npy.h"

#define REF_TOLERANCE 1e-3 /* of max |difference| / rms */
#define MAX_MEAN_KL 1e-3

typedef struct Case {
    char dir[2048];
    Str name;
    const Json *golden;
    const char *backend;
    bool rounds;               /* the backend rounds activations to int8 */
    double max_diff, rms_diff; /* how far the reference moves under that */
    Arena *a;
} Case;

static bool engine_for(const Case *c, Model **m, Engine **e, Err *err) {
    char path[4200];
    Str file = STR_NONE;
    (void)json_str(json_get(c->golden, "file"), &file);
    snprintf(path, sizeof path, "%s%s%.*s", c->dir, file.n ? "/" : "", (int)file.n,
             file.n ? file.p : "");
    ModelOptions mo = {.backend = c->backend, .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = PLANE_F32;
    return model_open(path, &mo, m, err) && engine_open(*m, &eo, e, err);
}

static double row_rms(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sqrt(sum / (double)n);
}

/* KL(softmax(want) || softmax(got)) */
static double row_kl(const float *want, const float *got, size_t n) {
    double mw = -INFINITY, mg = -INFINITY, sw = 0, sg = 0, kl = 0;
    for (size_t i = 0; i < n; i++) {
        mw = fmax(mw, want[i]);
        mg = fmax(mg, got[i]);
    }
    for (size_t i = 0; i < n; i++) {
        sw += exp(want[i] - mw);
        sg += exp(got[i] - mg);
    }
    for (size_t i = 0; i < n; i++) {
        double lw = want[i] - mw - log(sw), lg = got[i] - mg - log(sg);
        kl += exp(lw) * (lw - lg);
    }
    return kl;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A near-tie in a router can flip one row of a mixture of experts; its median row must still be
 * right. */
static bool has_experts(const Case *c) {
    Str type = STR_NONE;
    (void)json_str(json_get(c->golden, "model_type"), &type);
    return str_find(type, STR("moe"), 0) != STR_NPOS || str_eqc(type, "gpt_oss");
}

/* Formats of one and two bits have wider bands: their weights are all noise. */
static bool is_coarse(const Case *c) {
    static const char *const NAMES[] = {"mlx_1bit", "mlx_2bit", "bitnet", "_q2_k", "_tq"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (str_find(c->name, str_c(NAMES[i]), 0) != STR_NPOS) return true;
    return false;
}

static bool judge(const Case *c, const float *got, const float *want, size_t n_rows, size_t vocab,
                  Err *err) {
    size_t n = n_rows * vocab;
    double rms = row_rms(got, want, n), kl = 0;
    if (!c->rounds) {
        double off = max_over_rms(got, want, n);
        return off <= REF_TOLERANCE ||
               err_set(err, ERR_INTERNAL, "logits are off by %.2e of rms", off);
    }
    double *rows = arena_array(c->a, double, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        rows[i] = row_rms(got + i * vocab, want + i * vocab, vocab);
        kl += row_kl(want + i * vocab, got + i * vocab, vocab) / (double)n_rows;
    }
    if (has_experts(c)) {
        qsort(rows, n_rows, sizeof *rows, by_size);
        rms = rows[n_rows / 2];
        kl = 0;
    }
    if (getenv("MLXCEL_SHOW"))
        print_message("%.*s %s: rms %.4f, band %.4f, KL %.5f\n", (int)c->name.n, c->name.p,
                      c->backend, rms, 2 * c->rms_diff, kl);
    if (!(rms <= 2 * c->rms_diff))
        return err_set(err, ERR_INTERNAL, "logits are off by %.4f (rms), %.4f is the band", rms,
                       2 * c->rms_diff);
    if (!(kl <= MAX_MEAN_KL) && !is_coarse(c))
        return err_set(err, ERR_INTERNAL, "the mean KL is %.5f", kl);
    return true;
}

/* BitNet: logits with the rounding of activations that the model was trained with, which is what
 * the cpu does: no band, but what a value on the edge of two codes moves. */
static bool check_trained(const Case *c, const float *got, const char *file, Err *err) {
    Npy want;
    if (!npy_load(file, &want, err)) return false;
    double off = max_over_rms(got, want.data, want.n);
    npy_free(&want);
    if (getenv("MLXCEL_SHOW")) print_message("%s: %.2e of rms\n", file, off);
    return off <= REF_TOLERANCE ||
           err_set(err, ERR_INTERNAL, "logits as trained are off by %.2e of rms (%s)", off,
                   c->backend);
}

static bool check_logits(const Case *c, Engine *e, const Model *m, Err *err) {
    char file[4200];
    Npy want;
    size_t n;
    const uint32_t *ids = ids_of(json_at(json_get(c->golden, "tokens"), 0), c->a, &n);
    snprintf(file, sizeof file, "%s/logits.npy", c->dir);
    if (!npy_load(file, &want, err)) return false;
    float *got = arena_array(c->a, float, want.n);
    bool ok =
        n * m->arch.vocab == want.n || err_set(err, ERR_INTERNAL, "logits.npy has another shape");
    ok =
        ok && run_logits(e, m, ids, n, got, err) && judge(c, got, want.data, n, m->arch.vocab, err);
    npy_free(&want);
    snprintf(file, sizeof file, "%s/logits_act8.npy", c->dir);
    return ok && (!c->rounds || !os_is_file(file) || check_trained(c, got, file, err));
}

static bool check_greedy(const Case *c, Engine *e, const Model *m, Err *err) {
    double gap = 0;
    size_t n, n_new;
    /* Two logits, each moved twice as far as the reference moves, may swap. */
    (void)json_f64(json_get(c->golden, "greedy_min_gap"), &gap);
    if (c->rounds && gap < 4 * c->max_diff) return true;
    const uint32_t *ids = ids_of(json_at(json_get(c->golden, "tokens"), 1), c->a, &n);
    const uint32_t *want = ids_of(json_get(c->golden, "greedy"), c->a, &n_new);
    uint32_t *got = arena_array(c->a, uint32_t, n_new + 1);
    if (!run_greedy(e, m, ids, n, n_new, got, err)) return false;
    for (size_t i = 0; i < n_new; i++)
        if (got[i] != want[i])
            return err_set(err, ERR_INTERNAL, "greedy token %zu is %u, not %u", i, got[i], want[i]);
    return true;
}

/* Promise P5, on the cpu (ref keeps doubles): 1.05 times the file's bytes, and what a page and a
 * tile not filled cost matrices as small as these. */
static bool check_bytes(const Case *c, const Model *m, Err *err) {
    enum { SMALL_BYTES = 4096 + 1024 };
    double file = 0;
    for (uint32_t i = 0; c->rounds && i < weights_count(m->arch.weights); i++) {
        const ArchWeight *w = weights_get(m->arch.weights, (int32_t)i);
        for (int p = 0; p < w->n_parts; p++) {
            const WeightSource *s = &w->parts[p];
            double bytes = 0;
            for (int id = 0; id < QPART_COUNT; id++)
                if (s->m.part[id].dtype != DTYPE_NONE) bytes += (double)s->m.part[id].n_bytes;
            file += bytes * s->n * s->k / ((double)s->form->n * (double)s->form->k) + SMALL_BYTES;
        }
    }
    return !c->rounds || (double)m->weight_bytes <= 1.05 * file ||
           err_set(err, ERR_INTERNAL, "%llu bytes packed, %.0f are allowed",
                   (unsigned long long)m->weight_bytes, 1.05 * file);
}

static bool check(const Case *c, Err *err) {
    Model *m = NULL;
    Engine *e = NULL;
    bool ok = engine_for(c, &m, &e, err) && check_bytes(c, m, err) && check_logits(c, e, m, err) &&
              check_greedy(c, e, m, err);
    engine_close(e);
    model_close(m);
    return ok;
}

/* Families that are not in the registry yet. */
static bool known(const char *dir, const Json *golden) {
    char path[4200];
    Err err = {0};
    Str file = STR_NONE;
    Checkpoint *ck;
    (void)json_str(json_get(golden, "file"), &file);
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)file.n, file.n ? file.p : "");
    if (!checkpoint_open(path, &ck, &err)) fail_msg("%s", err.msg);
    bool found = arch_find(ck) != NULL;
    checkpoint_close(ck);
    return found;
}

typedef struct Tally {
    size_t n_run, n_bad, n_unknown;
} Tally;

static void run_one(Case *c, Tally *t) {
    static const struct {
        const char *name;
        bool rounds;
    } BACKENDS[] = {{"ref", false}, {"cpu", true}};
    const char *only = getenv("MLXCEL_TEST_BACKEND");
    const Json *moves = json_get(c->golden, "int8_activations");
    (void)json_f64(json_get(moves, "max_abs_diff"), &c->max_diff);
    (void)json_f64(json_get(moves, "rms_diff"), &c->rms_diff);
    for (size_t b = 0; b < sizeof BACKENDS / sizeof *BACKENDS; b++) {
        Err err = {0};
        c->backend = BACKENDS[b].name;
        c->rounds = BACKENDS[b].rounds;
        if (only && !str_eqc(str_c(only), c->backend)) continue;
        t->n_run++;
        if (check(c, &err)) continue;
        t->n_bad++;
        print_error("%.*s on %s: %s\n", (int)c->name.n, c->name.p, c->backend, err.msg);
    }
}

static void run_all(const char *root, Tally *t) {
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n;
    char file[4200];
    if (!os_list_dir(root, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        Arena own = {0};
        Case c = {.name = names[i], .a = &own};
        snprintf(c.dir, sizeof c.dir, "%s/%.*s", root, (int)names[i].n, names[i].p);
        if (!os_is_dir(c.dir)) continue;
        snprintf(file, sizeof file, "%s/golden.json", c.dir);
        if (!(c.golden = json_of(file, &own, &err))) fail_msg("%s", err.msg);
        if (known(c.dir, c.golden))
            run_one(&c, t);
        else
            t->n_unknown++;
        arena_deinit(&own);
    }
    arena_deinit(&a);
    print_message("%s: %zu runs, %zu bad, %zu of families not known\n", root, t->n_run, t->n_bad,
                  t->n_unknown);
    assert_true(t->n_run > 0);
    assert_int_equal(t->n_bad, 0);
}

static void goldens_match(void **state) {
    (void)state;
    const char *dir = getenv("MLXCEL_GOLDEN_DIR"), *full = getenv("MLXCEL_GOLDEN");
    char root[2000];
    snprintf(root, sizeof root, "%s/quantized", dir ? dir : "build/goldens");
    if (!full || !os_is_dir(full)) {
        run_all(root, &(Tally){0});
        return;
    }
    snprintf(root, sizeof root, "%s/quantized", full);
    run_all(root, &(Tally){0});
}

/* dir with one byte of a tensor changed, in a new directory. */
static void copy_changed(const char *dir, const char *to, const char *tensor) {
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    char path[4200];
    Err err = {0};
    Checkpoint *ck;
    if (!checkpoint_open(dir, &ck, &err)) fail_msg("%s", err.msg);
    const CkptTensor *t = checkpoint_find(ck, str_c(tensor));
    assert_non_null(t);
    for (size_t i = 0; i < 2; i++) {
        Buf data = {0};
        snprintf(path, sizeof path, "%s/%s", dir, FILES[i]);
        if (!os_read_file(path, 1 << 26, &data, &err)) fail_msg("%s", err.msg);
        if (i == 1) data.p[t->offset + t->n_bytes - 1] ^= 0x3C;
        snprintf(path, sizeof path, "%s/%s", to, FILES[i]);
        if (!os_write_file(path, buf_str(&data), &err)) fail_msg("%s", err.msg);
        buf_deinit(&data);
    }
    checkpoint_close(ck);
}

/* GPTQ writers give layers zero biases that the architecture does not have; values there would be
 * lost. */
static void lost_biases_are_refused(void **state) {
    (void)state;
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    char from[2000], to[] = "/tmp/mlxcel_bias_XXXXXX", path[4200];
    ModelOptions mo = {.backend = "ref"};
    Model *m;
    Err err = {0};
    assert_non_null(mkdtemp(to));
    snprintf(from, sizeof from, "%s/quantized/gptq_4bit_g128_sym", dir ? dir : "build/goldens");
    copy_changed(from, to, "model.layers.0.self_attn.q_proj.bias");
    assert_false(model_open(to, &mo, &m, &err));
    assert_non_null(strstr(err.msg, "tensor model.layers.0.self_attn.q_proj.bias[127] is 1;"));
    const char *const files[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", to, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_match),
                                       cmocka_unit_test(lost_biases_are_refused)};
    return cmocka_run_group_tests_name("golden_quantized", tests, NULL, NULL);
}
