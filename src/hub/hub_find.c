#include "hub/hub_find.h"

#include <stdlib.h>

#include "base/os.h"

static const char *env(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* "a" "/" "b" ... as one NUL-terminated string of the arena. */
static Str join(Arena *a, const char *first, const char *second, Str third) {
    Buf b = {0};
    buf_put(&b, str_c(first));
    buf_put(&b, str_c(second));
    buf_put(&b, third);
    Str s = {arena_dupz(a, buf_str(&b)), b.n};
    if (b.failed) s.p = NULL;
    buf_deinit(&b);
    return s;
}

bool hub_cache_dir(Arena *a, Str *dir, Err *err) {
    const char *v;
    if ((v = env("HF_HUB_CACHE")))
        *dir = join(a, v, "", STR_NONE);
    else if ((v = env("HF_HOME")))
        *dir = join(a, v, "/hub", STR_NONE);
    else if ((v = env("XDG_CACHE_HOME")))
        *dir = join(a, v, "/huggingface/hub", STR_NONE);
    else if ((v = env("HOME")))
        *dir = join(a, v, "/.cache/huggingface/hub", STR_NONE);
    else
        return err_set(err, ERR_NOT_FOUND, "HOME is not set, so there is no cache of models");
    return dir->p || err_nomem(err, "path");
}

/* A plain part of a name: no way out of the cache's folder. */
static bool is_plain(Str s) {
    return s.n > 0 && s.n < 200 && s.p[0] != '.' && str_find_char(s, '/', 0) == STR_NPOS &&
           str_find_char(s, '\0', 0) == STR_NPOS;
}

/* The folder models--OWNER--NAME; owner empty: the only one with that name. *found.p NULL: there is
 * none. */
static bool repo_dir(Str cache, Str owner, Str name, Arena *a, Str *found, Err *err) {
    Str *names;
    size_t n, hits = 0;
    Str tail = join(a, owner.n ? "" : "--", "", name);
    *found = STR_NONE;
    if (!os_is_dir(cache.p)) return true;
    if (!os_list_dir(cache.p, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        Str repo = names[i];
        if (!str_starts(repo, STR("models--"))) continue;
        Str rest = str_from(repo, 8);
        bool same = owner.n ? rest.n == owner.n + 2 + name.n && str_starts(rest, owner) &&
                                  str_ends(rest, name) &&
                                  str_eqc(str_slice(rest, owner.n, owner.n + 2), "--")
                            : str_ends(rest, tail);
        if (!same) continue;
        if (hits++)
            return err_set(err, ERR_INPUT,
                           "\"" STR_F "\" is in the cache of several owners (" STR_F
                           ", ...); owner/name is accepted",
                           STR_A(name), STR_A(rest));
        *found = join(a, cache.p, "/", repo);
        if (!found->p) return err_nomem(err, "path");
    }
    return true;
}

/* The snapshot that refs/main names, else the only one there is. */
static bool snapshot_dir(Str repo, Arena *a, Str *dir, Err *err) {
    Buf rev = {0};
    Str ref = join(a, repo.p, "/refs/main", STR_NONE), *names;
    size_t n;
    bool named = os_is_file(ref.p) && os_read_file(ref.p, 256, &rev, err);
    Str id = str_trim(buf_str(&rev));
    if (named && is_plain(id)) *dir = join(a, repo.p, "/snapshots/", id);
    buf_deinit(&rev);
    if (named && dir->p && os_is_dir(dir->p)) return true;
    Str all = join(a, repo.p, "/snapshots", STR_NONE);
    if (!os_is_dir(all.p) || !os_list_dir(all.p, a, &names, &n, err) || n != 1)
        return err_set(err, ERR_NOT_FOUND,
                       "%s has no snapshot that refs/main names (an unfinished download?)", repo.p);
    *dir = join(a, all.p, "/", names[0]);
    return dir->p || err_nomem(err, "path");
}

static bool holds_word(Str s, Str word) {
    for (size_t i = 0; i + word.n <= s.n; i++)
        if (str_ieq(str_slice(s, i, i + word.n), word)) return true;
    return false;
}

/* A snapshot of GGUF files is one file (the first of a split set); one with a config.json is the
 * directory. */
static bool choose_file(Str dir, Str quant, Arena *a, Str *path, Err *err) {
    Str *names, first = STR_NONE, best = STR_NONE;
    size_t n;
    if (!os_list_dir(dir.p, a, &names, &n, err)) return false;
    Str want = quant.n ? quant : STR("Q4_K_M");
    for (size_t i = 0; i < n; i++) {
        if (!quant.n && str_eqc(names[i], "config.json")) return *path = dir, true;
        if (!str_ends(names[i], STR(".gguf")) || str_starts(names[i], STR("mmproj"))) continue;
        if (!first.p) first = names[i];
        if (!best.p && holds_word(names[i], want)) best = names[i];
    }
    if (!best.p && quant.n)
        return err_set(err, ERR_NOT_FOUND, "%s has no .gguf file named for \"" STR_F "\"", dir.p,
                       STR_A(quant));
    if (!best.p) best = first;
    *path = best.p ? join(a, dir.p, "/", best) : dir;
    return path->p || err_nomem(err, "path");
}

bool hub_find(Str name, Arena *a, Str *path, Err *err) {
    Str cache, repo, dir = STR_NONE, owner = STR_NONE, model = name, quant = STR_NONE;
    *path = (Str){arena_dupz(a, name), name.n};
    if (!path->p) return err_nomem(err, "path");
    if (os_exists(path->p)) return true;
    size_t colon = str_rfind(model, STR(":"));
    if (colon != STR_NPOS) {
        quant = str_from(model, colon + 1);
        model = str_slice(model, 0, colon);
    }
    size_t slash = str_find_char(model, '/', 0);
    if (slash != STR_NPOS) {
        owner = str_slice(model, 0, slash);
        model = str_from(model, slash + 1);
        if (!is_plain(owner)) owner.n = 0, model.n = 0;
    }
    if (!is_plain(model))
        return err_set(err, ERR_NOT_FOUND, "there is no file or directory \"" STR_F "\"",
                       STR_A(name));
    if (!hub_cache_dir(a, &cache, err) || !repo_dir(cache, owner, model, a, &repo, err))
        return false;
    if (!repo.p)
        return err_set(
            err, ERR_NOT_FOUND,
            "model \"" STR_F "\" is not on this machine: no such file or directory, "
            "and no such model in %s; a path, or a model that was downloaded before, is accepted",
            STR_A(name), cache.p);
    return snapshot_dir(repo, a, &dir, err) && choose_file(dir, quant, a, path, err);
}
