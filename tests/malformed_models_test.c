/* Broken and odd models, loaded whole: every GGUF file, config and checkpoint directory of
 * tests/data/malformed (and of $MLXCEL_GOLDEN/malformed) is opened, packed and asked for a few
 * tokens. What must be refused is, with a message; what must load does; cases marked "same" give
 * the logits of the sound model they were made from. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "golden_run.h"
#include "npy.h"

enum { PATH_BYTES = 2048, N_NEW = 3 };

#define SAME_TOLERANCE 1e-3 /* of max |difference| / rms */

typedef struct Replay {
    const char *root;
    char temp[64];
    const Json *golden; /* of base/ */
    Npy logits;
    Arena a;
    size_t n_run, n_bad, n_skipped;
} Replay;

static void path_join(char out[PATH_BYTES], const char *dir, Str name) {
    int n = snprintf(out, PATH_BYTES, "%s/%.*s", dir, (int)name.n, name.p);
    assert_true(n > 0 && n < PATH_BYTES);
}

static void copy_dir(const char *from, const char *to) {
    char a[PATH_BYTES], b[PATH_BYTES];
    DIR *d = opendir(from);
    assert_non_null(d);
    mkdir(to, 0777);
    for (struct dirent *e; (e = readdir(d));) {
        Buf data = {0};
        Err err = {0};
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        path_join(a, from, str_c(e->d_name));
        path_join(b, to, str_c(e->d_name));
        if (os_is_dir(a)) {
            copy_dir(a, b);
            continue;
        }
        if (!os_read_file(a, 1 << 24, &data, &err) || !os_write_file(b, buf_str(&data), &err))
            fail_msg("%s", err.msg);
        buf_deinit(&data);
    }
    closedir(d);
}

static void remove_dir(const char *path) {
    char inner[PATH_BYTES];
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        path_join(inner, path, str_c(e->d_name));
        if (unlink(inner)) remove_dir(inner);
    }
    closedir(d);
    rmdir(path);
}

/* ["symlink", target, name], ["mkfifo", name], ["chmod", mode, name]; false: not possible here. */
static bool set_up(const Json *steps, const char *dir) {
    char path[PATH_BYTES], target[PATH_BYTES];
    for (size_t i = 0; steps && i < steps->n; i++) {
        const Json *s = &steps->items[i];
        Str what = s->items[0].text;
        path_join(path, dir, s->items[s->n - 1].text);
        snprintf(target, sizeof target, STR_F, STR_A(s->items[1].text));
        if (str_eqc(what, "symlink"))
            assert_int_equal(symlink(target, path), 0);
        else if (str_eqc(what, "mkfifo"))
            assert_int_equal(mkfifo(path, 0666), 0);
        else if (str_eqc(what, "chmod") && geteuid() != 0)
            assert_int_equal(chmod(path, 0), 0);
        else
            return false;
    }
    return true;
}

/* Loads the model and uses it; same: its logits must be those of base/. */
static bool run_model(Replay *r, const char *path, bool same, bool *loaded, Err *err) {
    ModelOptions mo = {.backend = "ref", .be = {.n_threads = 1}};
    EngineOptions eo = engine_options();
    Model *m = NULL;
    Engine *e = NULL;
    size_t n;
    uint32_t out[N_NEW];
    eo.k = eo.v = PLANE_F32;
    const uint32_t *ids = ids_of(json_at(json_get(r->golden, "tokens"), 0), &r->a, &n);
    float *got = arena_array(&r->a, float, r->logits.n);
    assert_true(ids && got);
    bool ok = model_open(path, &mo, &m, err) && engine_open(m, &eo, &e, err) &&
              run_greedy(e, m, ids, 3, N_NEW, out, err);
    *loaded = ok;
    if (ok && same) {
        ok = n * m->arch.vocab == r->logits.n ||
             err_set(err, ERR_INTERNAL, "the vocabulary is another");
        ok = ok && run_logits(e, m, ids, n, got, err);
        double off = ok ? max_over_rms(got, r->logits.data, r->logits.n) : 0;
        if (ok && !(off <= SAME_TOLERANCE))
            ok = err_set(err, ERR_INTERNAL, "logits are off by %.2e of rms", off);
    }
    engine_close(e);
    model_close(m);
    return ok;
}

/* The case's model, ready to open, in path; false: it cannot be made here. */
static bool prepare(Replay *r, const Json *line, char path[PATH_BYTES]) {
    char from[PATH_BYTES], as[PATH_BYTES];
    Str kind = json_get(line, "kind")->text;
    path_join(from, r->root, json_get(line, "file")->text);
    if (str_eqc(kind, "gguf")) {
        memcpy(path, from, PATH_BYTES);
        return true;
    }
    path_join(path, r->temp, STR("case"));
    if (str_eqc(kind, "config")) {
        Buf data = {0};
        Err err = {0};
        path_join(as, r->root, STR("base"));
        copy_dir(as, path);
        path_join(as, path, STR("config.json"));
        if (!os_read_file(from, 1 << 24, &data, &err) || !os_write_file(as, buf_str(&data), &err))
            fail_msg("%s", err.msg);
        buf_deinit(&data);
    } else {
        copy_dir(from, path);
    }
    return set_up(json_get(line, "setup"), path);
}

static void run_case(Replay *r, const Json *line) {
    Str file = json_get(line, "file")->text, must = json_get(line, "must")->text;
    const Json *same = json_get(line, "same");
    char path[PATH_BYTES];
    Err err = {0};
    bool loaded = false, ready = prepare(r, line, path), ok = ready;
    if (ready) {
        uint64_t t0 = os_now_ns();
        ok = run_model(r, path, json_is(same, JSON_TRUE), &loaded, &err);
        double ms = (double)(os_now_ns() - t0) * 1e-6;
        r->n_run++;
        bool reason =
            ok || (err.kind != ERR_NONE && err.msg[0] && (loaded || err.kind != ERR_INTERNAL));
        bool right = str_eqc(must, "accept")   ? ok
                     : str_eqc(must, "refuse") ? !ok && !loaded
                                               : ok || !loaded;
        if (getenv("MLXCEL_SHOW"))
            print_message(STR_F " (%.0f ms): %s\n", STR_A(file), ms, ok ? "loads" : err.msg);
        if (!right || !reason) {
            r->n_bad++;
            print_error(STR_F " (" STR_F "): %s\n", STR_A(file), STR_A(must),
                        ok ? "loads" : err.msg);
        }
    } else {
        r->n_skipped++;
    }
    path_join(path, r->temp, STR("case"));
    remove_dir(path);
}

static bool is_model(Str kind) {
    return str_eqc(kind, "gguf") || str_eqc(kind, "config") || str_eqc(kind, "checkpoint");
}

static void replay(const char *root) {
    Replay r = {.root = root, .temp = "/tmp/mlxcel_models_XXXXXX"};
    char path[PATH_BYTES];
    Buf text = {0};
    Err err = {0};
    assert_non_null(mkdtemp(r.temp));
    path_join(path, root, STR("base/golden.json"));
    if (!(r.golden = json_of(path, &r.a, &err))) fail_msg("%s", err.msg);
    path_join(path, root, STR("base/logits.npy"));
    if (!npy_load(path, &r.logits, &err)) fail_msg("%s", err.msg);
    path_join(path, root, STR("index.jsonl"));
    if (!os_read_file(path, 1 << 20, &text, &err)) fail_msg("%s", err.msg);
    Str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        Json *doc;
        if (!line.n) continue;
        if (!json_parse(line, NULL, &r.a, &doc, &err)) fail_msg("%s", err.msg);
        if (is_model(json_get(doc, "kind")->text)) run_case(&r, doc);
    }
    print_message("%s: %zu models, %zu wrong verdicts, %zu cannot be set up here\n", root, r.n_run,
                  r.n_bad, r.n_skipped);
    remove_dir(r.temp);
    npy_free(&r.logits);
    buf_deinit(&text);
    arena_deinit(&r.a);
    assert_true(r.n_run > 100);
    assert_int_equal(r.n_bad, 0);
}

static void verdicts_hold(void **state) {
    (void)state;
    char path[PATH_BYTES];
    const char *full = getenv("MLXCEL_GOLDEN");
    replay("tests/data/malformed");
    if (!full) return;
    path_join(path, full, STR("malformed"));
    if (os_is_dir(path)) replay(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts_hold)};
    return cmocka_run_group_tests_name("malformed_models", tests, NULL, NULL);
}
