#include "hub/hub_find.h"

#include "base/os.h"
#include "hub/hub_choose.h"
#include "hub/hub_store.h"

enum { MAX_DEPTH = 3, MAX_NAMES = 10000 };

bool hub_find_folder(const HubEnv *env, const HubName *n, Arena *a, Str *found, Err *err) {
    Str *names, other = STR_NONE;
    size_t count, hits = 0;
    *found = STR_NONE;
    if (!os_is_dir(env->cache.p)) return true;
    if (!os_list_dir(env->cache.p, a, &names, &count, err)) return false;
    for (size_t i = 0; i < count; i++) {
        HubName own;
        if (!hub_folder_name(names[i], &own) || !str_eq(own.name, n->name)) continue;
        bool exact = str_eq(own.owner, n->owner);
        bool preferred = !n->owner.n && str_eq(own.owner, env->default_org);
        if (n->owner.n && !exact) continue;
        Str path = hub_join(a, env->cache, "/", names[i]);
        if (!path.p) return err_nomem(err, "a path");
        *found = path;
        if (exact || preferred) return true;
        if (hits++) other = own.owner;
    }
    if (hits > 1)
        return err_set(err, ERR_INPUT,
                       "\"" STR_F "\" is in the cache of several owners (" STR_F
                       ", ...); owner/name is accepted",
                       STR_A(n->name), STR_A(other));
    return true;
}

/* The snapshot that refs/REVISION names, one of that name, or (no revision asked) the only one. */
static bool snapshot_dir(Str folder, Str revision, Arena *a, Str *dir, Err *err) {
    Buf rev = {0};
    Str asked = revision.n ? revision : STR("main"), *names;
    Str ref = hub_join(a, hub_join(a, folder, "/refs/", asked), "", STR_NONE);
    Str all = hub_join(a, folder, "/snapshots", STR_NONE);
    size_t n;
    *dir = STR_NONE;
    if (!ref.p || !all.p) return err_nomem(err, "a path");
    bool named = os_is_file(ref.p) && os_read_file(ref.p, 256, &rev, err);
    Str id = named ? str_trim(buf_str(&rev)) : asked;
    if (hub_is_blob_name(id)) *dir = hub_join(a, all, "/", id);
    buf_deinit(&rev);
    if (dir->p && os_is_dir(dir->p)) return true;
    if (!revision.n && os_is_dir(all.p) && os_list_dir(all.p, a, &names, &n, err) && n == 1) {
        *dir = hub_join(a, all, "/", names[0]);
        return dir->p || err_nomem(err, "a path");
    }
    return err_set(err, ERR_NOT_FOUND,
                   "%s has no snapshot of \"" STR_F "\" (an unfinished download?)", folder.p,
                   STR_A(asked));
}

/* Files below dir, with their folders in front. */
static bool list_files(Str dir, Str prefix, int depth, Arena *a, Str *out, size_t *n, Err *err) {
    Str *names;
    size_t count;
    if (!os_list_dir(dir.p, a, &names, &count, err)) return false;
    for (size_t i = 0; i < count && *n < MAX_NAMES; i++) {
        Str path = hub_join(a, dir, "/", names[i]), name = hub_join(a, prefix, "", names[i]);
        if (!path.p || !name.p) return err_nomem(err, "a path");
        if (os_is_file(path.p))
            out[(*n)++] = name;
        else if (depth < MAX_DEPTH && os_is_dir(path.p) &&
                 !list_files(path, hub_join(a, name, "/", STR_NONE), depth + 1, a, out, n, err))
            return false;
    }
    return true;
}

/* A folder with safetensors is a model; one of .gguf files holds several, of which one is meant. */
static bool choose_file(Str dir, Str quant, Arena *a, Str *path, Err *err) {
    Str *names = arena_array(a, Str, MAX_NAMES);
    size_t n = 0, best;
    bool config = false, plain = false;
    if (!names) return err_nomem(err, "the list of files");
    if (!list_files(dir, STR_NONE, 0, a, names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        config = config || str_eqc(names[i], "config.json");
        plain = plain || str_ends(names[i], STR(".safetensors"));
    }
    *path = dir;
    if (!quant.n && config && plain) return true;
    if (hub_gguf_pick(names, n, quant, &best))
        *path = hub_join(a, dir, "/", names[best]);
    else if (quant.n)
        return err_set(err, ERR_NOT_FOUND, "%s has no .gguf file named for \"" STR_F "\"", dir.p,
                       STR_A(quant));
    return path->p || err_nomem(err, "a path");
}

bool hub_snapshot_path(Str folder, Str revision, Str quant, Arena *a, Str *path, Err *err) {
    Str dir;
    return snapshot_dir(folder, revision, a, &dir, err) && choose_file(dir, quant, a, path, err);
}

static bool not_here(const HubEnv *env, Str name, bool is_name, Err *err) {
    if (!is_name)
        return err_set(err, ERR_NOT_FOUND, "there is no file or directory \"" STR_F "\"",
                       STR_A(name));
    return err_set(err, ERR_NOT_FOUND,
                   "model \"" STR_F "\" is not on this machine: no such file or directory, and no "
                   "such model in %s or another store (mlxcel list); \"mlxcel download " STR_F
                   "\" gets it",
                   STR_A(name), env->cache.p, STR_A(name));
}

bool hub_find(Str text, Arena *a, Str *path, Err *err) {
    HubEnv env;
    HubName n;
    Str folder;
    Err none;
    *path = (Str){arena_dupz(a, text), text.n};
    if (!path->p) return err_nomem(err, "path");
    if (text.n && os_exists(path->p)) return true;
    *path = STR_NONE;
    bool is_name = hub_name_parse(text, &n, &none);
    if (!is_name && str_find_char(text, '/', 0) == 0) return not_here(NULL, text, false, err);
    if (!hub_env_read(a, &env, err)) return false;
    if (is_name) {
        if (!hub_find_folder(&env, &n, a, &folder, err)) return false;
        if (folder.p && hub_snapshot_path(folder, n.revision, n.quant, a, path, err)) return true;
    }
    if (!hub_store_find(&env, text, a, path, &none)) *path = STR_NONE;
    if (path->p) return true;
    if (is_name && folder.p) return false; /* what is wrong with the cached one */
    return not_here(&env, text, is_name, err);
}
