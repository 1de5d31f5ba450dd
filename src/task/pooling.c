/* How a sequence becomes one vector, as the checkpoint's files say. */
#include <stdio.h>

#include "base/os.h"
#include "json/json.h"
#include "task/encoder.h"

static const char *const NAMES[POOLING_COUNT] = {"auto", "mean", "cls", "last"};
enum { MAX_FILE_BYTES = 1 << 20 };

const char *pooling_name(Pooling p) { return NAMES[p]; }

bool pooling_parse(Str name, Pooling *out, Err *err) {
    for (int p = 0; p < POOLING_COUNT; p++) {
        if (!str_eqc(name, NAMES[p])) continue;
        *out = (Pooling)p;
        return true;
    }
    return err_set(err, ERR_INPUT, "pooling \"" STR_F "\"; mean, cls, last and auto are accepted",
                   STR_A(name));
}

/* dir/sub/name as JSON; *out NULL: there is no such file. */
static bool read_file(Str dir, Str sub, const char *name, Arena *a, const Json **out, Err *err) {
    char path[4096];
    Buf text = {0};
    *out = NULL;
    int n = snprintf(path, sizeof path, STR_F "/" STR_F "%s%s", STR_A(dir), STR_A(sub),
                     sub.n ? "/" : "", name);
    if (n < 0 || n >= (int)sizeof path)
        return err_set(err, ERR_LIMIT, "path of %s is too long", name);
    if (!os_is_file(path)) return true;
    bool ok = os_read_file(path, MAX_FILE_BYTES, &text, err);
    Str copy = ok ? arena_dup(a, buf_str(&text)) : STR_NONE;
    buf_deinit(&text);
    if (!ok) return false;
    Json *j;
    if (!json_parse(copy, NULL, a, &j, err)) return err_wrap(err, "%s", path);
    *out = j;
    return true;
}

static bool flag(const Json *config, const char *key) {
    bool on = false;
    return json_bool(json_get(config, key), &on) && on;
}

static bool pooling_module(const Json *config, Pooling *pooling, Err *err) {
    static const char *const OTHERS[] = {"pooling_mode_max_tokens",
                                         "pooling_mode_mean_sqrt_len_tokens",
                                         "pooling_mode_weightedmean_tokens"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (flag(config, OTHERS[i]))
            return err_set(err, ERR_UNSUPPORTED,
                           "the checkpoint pools by %s; mean, cls and last token are accepted",
                           OTHERS[i]);
    int n = 0;
    if (flag(config, "pooling_mode_cls_token")) *pooling = POOLING_CLS, n++;
    if (flag(config, "pooling_mode_mean_tokens")) *pooling = POOLING_MEAN, n++;
    if (flag(config, "pooling_mode_lasttoken")) *pooling = POOLING_LAST, n++;
    return n <= 1 ||
           err_set(err, ERR_UNSUPPORTED, "the checkpoint joins %d poolings; one is accepted", n);
}

static bool module_read(const Checkpoint *ck, const Json *module, Arena *a, Pooling *pooling,
                        bool *normalize, Err *err) {
    Str type, path;
    if (!json_str(json_get(module, "type"), &type) || !json_str(json_get(module, "path"), &path))
        return err_set(err, ERR_INPUT, "modules.json has an entry without type and path");
    if (str_ends(type, STR(".Transformer"))) return true;
    if (str_ends(type, STR(".Normalize"))) {
        *normalize = true;
        return true;
    }
    if (!str_ends(type, STR(".Pooling")))
        return err_set(err, ERR_UNSUPPORTED,
                       "module \"" STR_F
                       "\" of modules.json; Transformer, Pooling and Normalize are "
                       "accepted",
                       STR_A(type));
    const Json *config;
    if (str_find(path, STR(".."), 0) != STR_NPOS || str_starts(path, STR("/")))
        return err_set(err, ERR_INPUT, "modules.json names a path outside: \"" STR_F "\"",
                       STR_A(path));
    if (!read_file(ck->dir, path, "config.json", a, &config, err)) return false;
    return !config || pooling_module(config, pooling, err);
}

static bool from_gguf(const Checkpoint *ck, Pooling *pooling, Err *err) {
    static const Pooling TYPES[] = {POOLING_AUTO, POOLING_MEAN, POOLING_CLS, POOLING_LAST,
                                    POOLING_CLS /* rank: from the first row */};
    int64_t type;
    if (!config_int(&ck->config, "pooling_type", 0, 0, 4, &type, err)) return false;
    *pooling = TYPES[type];
    return true;
}

bool pooling_read(const Checkpoint *ck, Pooling *pooling, bool *normalize, Err *err) {
    *pooling = POOLING_AUTO;
    *normalize = true;
    if (ck->kind == CKPT_GGUF) return from_gguf(ck, pooling, err);
    Arena a = {0};
    const Json *modules;
    bool ok = read_file(ck->dir, STR_NONE, "modules.json", &a, &modules, err);
    if (ok && modules) {
        *normalize = false;
        if (!json_is(modules, JSON_ARRAY)) ok = err_set(err, ERR_INPUT, "modules.json is no array");
        for (size_t i = 0; ok && json_at(modules, i); i++)
            ok = module_read(ck, json_at(modules, i), &a, pooling, normalize, err);
    }
    arena_deinit(&a);
    return ok;
}
