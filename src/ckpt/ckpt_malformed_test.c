/* Replays tests/data/malformed (and the full set under $MLXCEL_GOLDEN/malformed): every broken
 * file is refused with a message, every odd but valid one is accepted, and no case takes memory
 * by what a file claims. The kinds are those of its index: safetensors, gguf, json by the
 * readers alone; config and checkpoint as far as opening goes. What only the loader can see
 * (shapes, names, architectures) is listed and must open here. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "ckpt/checkpoint.h"
#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"

/* Sanitizers keep freed memory, so the process's size says nothing there. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

enum { MAX_TEST_PATH = 2048, MAX_GROWTH_MIB = 64 };

/* Refused by the loader, not by what is tested here. */
static const char *const loader_cases[] = {
    "gguf/tokens_short.gguf",        "gguf/missing_tensor.gguf",   "gguf/shape_wrong.gguf",
    "config/heads_indivisible.json", "config/kv_indivisible.json", "config/layers_2.json",
    "config/vocab_small.json",       "config/rope_unknown.json",   "config/rope_no_factor.json",
    "config/act_unknown.json",       "config/arch_unknown.json",   "config/quant_unknown.json",
    "config/quant_bits_7.json",      "config/quant_group_0.json",  "checkpoint/missing_tensor",
    "checkpoint/extra_tensor",
};

static bool is_loader_case(Str file) {
    for (size_t i = 0; i < sizeof loader_cases / sizeof *loader_cases; i++) {
        if (str_eqc(file, loader_cases[i])) return true;
    }
    return false;
}

static bool read_safetensors(const char *path, Err *err) {
    Safetensors *st;
    if (!safetensors_open(path, &st, err)) return false;
    safetensors_close(st);
    return true;
}

static bool read_json(const char *path, Err *err) {
    Buf text = {0};
    bool ok = os_read_file(path, 1 << 24, &text, err) && json_check(buf_str(&text), NULL, err);
    buf_deinit(&text);
    return ok;
}

/* The look-ups any decoder makes. */
static bool read_shapes(const Config *c, Err *err) {
    static const char *const ints[] = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                       "intermediate_size", "vocab_size"};
    int64_t i;
    double d;
    for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) {
        int64_t max = k == 1 ? 4096 : 1 << 24;
        if (!config_int(c, ints[k], CONFIG_REQUIRED, 1, max, &i, err)) return false;
    }
    return config_int(c, "num_key_value_heads", 1, 1, 4096, &i, err) &&
           config_float(c, "rms_norm_eps", 1e-6, 0, 1, &d, err) &&
           config_float(c, "rope_theta", 1e4, 1, 1e12, &d, err);
}

static bool open_checkpoint(const char *path, Err *err) {
    Checkpoint *ck;
    if (!checkpoint_open(path, &ck, err)) return false;
    bool ok = read_shapes(&ck->config, err);
    for (size_t i = 0; ok && i < ck->n_tensors; i++) {
        const CkptTensor *t = &ck->tensors[i];
        Buf bytes = {0};
        ok = buf_reserve(&bytes, t->n_bytes) && checkpoint_read(ck, t, 0, bytes.p, t->n_bytes, err);
        ok = ok && checkpoint_find(ck, t->name) == t;
        buf_deinit(&bytes);
    }
    checkpoint_close(ck);
    return ok;
}

/* "dir/name" */
static void path_join(char out[MAX_TEST_PATH], const char *dir, Str name) {
    int n = snprintf(out, MAX_TEST_PATH, "%s/%.*s", dir, (int)name.n, name.p);
    assert_true(n > 0 && n < MAX_TEST_PATH);
}

static void copy_file(const char *from, const char *to) {
    Buf data = {0};
    Err err = {0};
    if (!os_read_file(from, 1 << 24, &data, &err) || !os_write_file(to, buf_str(&data), &err))
        fail_msg("%s", err.msg);
    buf_deinit(&data);
}

static void copy_dir(const char *from, const char *to) {
    char a[MAX_TEST_PATH], b[MAX_TEST_PATH];
    DIR *d = opendir(from);
    assert_non_null(d);
    mkdir(to, 0777);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        path_join(a, from, str_c(e->d_name));
        path_join(b, to, str_c(e->d_name));
        if (os_is_dir(a))
            copy_dir(a, b);
        else
            copy_file(a, b);
    }
    closedir(d);
}

static void remove_dir(const char *path) {
    char inner[MAX_TEST_PATH];
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

/* ["symlink", target, name], ["mkfifo", name], ["chmod", mode, name]. False: the case cannot be
 * set up here. */
static bool set_up(const Json *steps, const char *dir) {
    char path[MAX_TEST_PATH], target[MAX_TEST_PATH];
    for (size_t i = 0; steps && i < steps->n; i++) {
        const Json *s = &steps->items[i];
        Str what = s->items[0].text, name = s->items[s->n - 1].text;
        path_join(path, dir, name);
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

/* Runs one case; false: skipped. */
static bool run_case(const Json *line, const char *root, const char *temp, bool *ok, Err *err) {
    char path[MAX_TEST_PATH], base[MAX_TEST_PATH], work[MAX_TEST_PATH], as[MAX_TEST_PATH];
    Str kind = json_get(line, "kind")->text;
    path_join(path, root, json_get(line, "file")->text);
    if (str_eqc(kind, "safetensors")) {
        *ok = read_safetensors(path, err);
    } else if (str_eqc(kind, "json")) {
        *ok = read_json(path, err);
    } else if (str_eqc(kind, "gguf")) {
        *ok = open_checkpoint(path, err);
    } else if (str_eqc(kind, "config") || str_eqc(kind, "checkpoint")) {
        bool config = str_eqc(kind, "config");
        path_join(base, root, STR("base"));
        path_join(work, temp, STR("case"));
        copy_dir(config ? base : path, work);
        path_join(as, work, STR("config.json"));
        if (config) copy_file(path, as);
        bool ready = set_up(json_get(line, "setup"), work);
        if (ready) *ok = open_checkpoint(work, err);
        remove_dir(work);
        return ready;
    } else {
        return false;
    }
    return true;
}

static void check_case(const Json *line, const char *root, const char *temp, int *n_run) {
    Str file = json_get(line, "file")->text, must = json_get(line, "must")->text;
    Err err = {0};
    bool ok = false;
    if (!run_case(line, root, temp, &ok, &err)) return;
    ++*n_run;
    if (!ok && (err.kind == ERR_NONE || err.kind == ERR_INTERNAL || !err.msg[0]))
        fail_msg(STR_F ": no reason given", STR_A(file));
    bool accept = str_eqc(must, "accept") || is_loader_case(file);
    if (accept && !ok) fail_msg(STR_F ": refused: %s", STR_A(file), err.msg);
    if (!accept && str_eqc(must, "refuse") && ok) fail_msg(STR_F ": accepted", STR_A(file));
    if (getenv("MLXCEL_SHOW"))
        print_message(STR_F ": %s\n", STR_A(file), ok ? "accepted" : err.msg);
}

static void replay(const char *root) {
    char path[MAX_TEST_PATH], temp[] = "/tmp/mlxcel_malformed_XXXXXX";
    Buf text = {0};
    Err err = {0};
    int n_run = 0;
    path_join(path, root, STR("index.jsonl"));
    if (!os_read_file(path, 1 << 20, &text, &err)) fail_msg("%s", err.msg);
    assert_non_null(mkdtemp(temp));
    Str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        Arena a = {0};
        Json *doc;
        if (!line.n) continue;
        if (!json_parse(line, NULL, &a, &doc, &err)) fail_msg("%s", err.msg);
        check_case(doc, root, temp, &n_run);
        arena_deinit(&a);
    }
    remove_dir(temp);
    buf_deinit(&text);
    assert_true(n_run > 150);
}

static void verdicts_hold(void **state) {
    (void)state;
    char path[MAX_TEST_PATH];
    replay("tests/data/malformed");
    const char *golden = getenv("MLXCEL_GOLDEN");
    if (!golden) return;
    path_join(path, golden, STR("malformed"));
    if (os_is_dir(path)) replay(path);
}

static void memory_follows_the_bytes(void **state) {
    (void)state;
#if !defined(SANITIZED)
    assert_true(os_rss_peak_bytes() < (uint64_t)MAX_GROWTH_MIB << 20);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_hold),
        cmocka_unit_test(memory_follows_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
