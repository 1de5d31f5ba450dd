/* Promise P2 on whole models: every decoder golden that the registry knows, on every backend,
 * against the reference logits and greedy ids. Goldens lie in $MLXCEL_GOLDEN_DIR (unpacked; the
 * Makefile does it from tests/data/models.tar.xz). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/os.h"
#include "golden_run.h"
#include "npy.h"

typedef struct Band {
    const char *backend;
    PlaneType kv;
    double tolerance; /* of max |difference| / rms */
} Band;

static const Band BANDS[] = {
    {"ref", PLANE_F32, 1e-3}, {"ref", PLANE_F16, 1e-2}, {"ref-delayed", PLANE_F32, 1e-3},
    {"cpu", PLANE_F32, 1e-3}, {"cpu", PLANE_F16, 1e-2},
};

/* Their scores are not scaled down, so that keys rounded to halves move the logits further: 1.1e-2 to
 * 3.4e-2 measured, against 3e-5 with a cache of floats and 1e-1 and more with bfloat16 keys. */
static const char *const LOOSE[] = {"gemma4_nested", "gemma4_text", "gemma4_text_moe"};

/* Their indexers give keys that no head likes the same score, 0. Where the choice ends among those, the
 * reference takes whichever its partial sort leaves in front, which changes with the number of keys
 * behind the row (P1 rules that out); here it is the lowest. What comes behind such a choice differs, so
 * that the middle one of all rows is held to the tolerance, and half the greedy tokens. Measured with
 * the reference's order put in: all rows within 5e-6. */
static const char *const INDEXED[] = {"deepseek_v32", "glm_moe_dsa"};
enum { N_INDEXED = sizeof INDEXED / sizeof *INDEXED };

static bool named(const Json *golden, const char *const *names, size_t n) {
    Str name = {0};
    json_str(json_get(golden, "name"), &name);
    for (size_t i = 0; i < n; i++)
        if (str_eqc(name, names[i])) return true;
    return false;
}

static double tolerance_of(Str name, const Band *b) {
    for (size_t i = 0; i < sizeof LOOSE / sizeof *LOOSE; i++)
        if (str_eqc(name, LOOSE[i]) && b->kv == PLANE_F16) return 5e-2;
    return b->tolerance;
}

static bool engine_for(const char *path, const Band *b, Model **m, Engine **e, Err *err) {
    ModelOptions mo = {.backend = b->backend, .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = b->kv;
    if (!model_open(path, &mo, m, err)) return false;
    return engine_open(*m, &eo, e, err);
}

static bool check_logits(Engine *e, const Model *m, const char *path, const Json *golden,
                         const Band *b, Arena *a, Err *err) {
    char file[4200];
    Npy want;
    size_t n;
    const uint32_t *ids = ids_of(json_at(json_get(golden, "tokens"), 0), a, &n);
    snprintf(file, sizeof file, "%s/logits.npy", path);
    if (!npy_load(file, &want, err)) return false;
    float *got = arena_array(a, float, want.n);
    bool ok = run_logits(e, m, ids, n, got, err);
    double off = ok ? max_over_rms(got, want.data, want.n) : 0;
    if (ok && named(golden, INDEXED, N_INDEXED))
        off = middle_over_rms(got, want.data, n, want.n / n, a);
    npy_free(&want);
    if (ok && !(off <= b->tolerance))
        ok = err_set(err, ERR_INTERNAL, "logits are off by %.2e of rms", off);
    return ok;
}

static bool check_greedy(Engine *e, const Model *m, const Json *golden, Arena *a, Err *err) {
    size_t n, n_new;
    const uint32_t *ids = ids_of(json_at(json_get(golden, "tokens"), 1), a, &n);
    const uint32_t *want = ids_of(json_get(golden, "greedy"), a, &n_new);
    if (named(golden, INDEXED, N_INDEXED)) n_new /= 2;
    uint32_t *got = arena_array(a, uint32_t, n_new + 1);
    if (!run_greedy(e, m, ids, n, n_new, got, err)) return false;
    for (size_t i = 0; i < n_new; i++)
        if (got[i] != want[i])
            return err_set(err, ERR_INTERNAL, "greedy token %zu is %u, not %u", i, got[i], want[i]);
    return true;
}

static bool check(const char *path, const Band *b, Err *err) {
    Arena a = {0};
    Model *m = NULL;
    Engine *e = NULL;
    char file[4200];
    snprintf(file, sizeof file, "%s/golden.json", path);
    const Json *golden = json_of(file, &a, err);
    bool ok = golden && engine_for(path, b, &m, &e, err) &&
              check_logits(e, m, path, golden, b, &a, err) && check_greedy(e, m, golden, &a, err);
    engine_close(e);
    model_close(m);
    arena_deinit(&a);
    return ok;
}

static void goldens_match(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_run = 0, n_bad = 0;
    char dir[2048], path[4096];
    snprintf(dir, sizeof dir, "%s/decoder", golden_dir());
    if (!os_list_dir(dir, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%.*s", dir, (int)names[i].n, names[i].p);
        if (!golden_known(path, NULL)) continue;
        for (size_t b = 0; b < sizeof BANDS / sizeof *BANDS; b++) {
            const char *only = getenv("MLXCEL_TEST_BACKEND");
            if (only && !str_eqc(str_c(only), BANDS[b].backend)) continue;
            err = (Err){0};
            n_run++;
            Band band = BANDS[b];
            band.tolerance = tolerance_of(names[i], &BANDS[b]);
            if (check(path, &band, &err)) continue;
            n_bad++;
            print_error("%.*s on %s, %s cache: %s\n", (int)names[i].n, names[i].p, BANDS[b].backend,
                        planetype_name(BANDS[b].kv), err.msg);
        }
    }
    print_message("%zu golden runs, %zu bad\n", n_run, n_bad);
    arena_deinit(&a);
    assert_true(n_run > 0);
    assert_int_equal(n_bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_match)};
    return cmocka_run_group_tests_name("golden_decoder", tests, NULL, NULL);
}
