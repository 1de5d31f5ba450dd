#include "hub/hub_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "hub/hub_find.h"
#include "hub/hub_place.h"

bool hub_models_add(HubModels *m, HubModel model, Arena *a, Err *err) {
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 32;
        HubModel *more = arena_array(a, HubModel, cap);
        if (!more) return err_nomem(err, "the list of models");
        if (m->n) memcpy(more, m->items, m->n * sizeof *more);
        m->items = more;
        m->cap = cap;
    }
    m->items[m->n++] = model;
    return true;
}

/* Bytes of the cache's blobs, finished or not. */
static bool blob_bytes(Str folder, Arena *a, uint64_t *bytes, int64_t *modified, Err *err) {
    Str dir = hub_join(a, folder, "/blobs", STR_NONE), *names;
    struct stat st;
    size_t n;
    *bytes = 0;
    *modified = stat(folder.p, &st) == 0 ? (int64_t)st.st_mtime : 0;
    if (!os_is_dir(dir.p)) return true;
    if (!os_list_dir(dir.p, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        Str path = hub_join(a, dir, "/", names[i]);
        if (!path.p || lstat(path.p, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        *bytes += (uint64_t)st.st_size;
        if ((int64_t)st.st_mtime > *modified) *modified = (int64_t)st.st_mtime;
    }
    return true;
}

static bool list_cache(const HubEnv *env, Arena *a, HubModels *out, Err *err) {
    Str *names;
    size_t n;
    if (!os_is_dir(env->cache.p)) return true;
    if (!os_list_dir(env->cache.p, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        HubName name;
        HubModel m = {.store = "huggingface"};
        Err none;
        if (!hub_folder_name(names[i], &name)) continue;
        Str folder = hub_join(a, env->cache, "/", names[i]);
        if (!folder.p || !blob_bytes(folder, a, &m.size_bytes, &m.modified, err)) return false;
        m.name = name.owner.n ? hub_join(a, name.owner, "/", name.name) : name.name;
        m.own = os_is_file(hub_join(a, folder, "/" HUB_NOTES, STR_NONE).p);
        if (!hub_snapshot_path(folder, STR_NONE, STR_NONE, a, &m.path, &none)) m.path = STR_NONE;
        if (!hub_models_add(out, m, a, err)) return false;
    }
    return true;
}

static bool list_others(const HubEnv *env, Arena *a, HubModels *out, Err *err) {
    Str lmstudio = hub_lmstudio_root(env, a), ollama = hub_ollama_root(env, a);
    return (!env->models_dir.p || hub_folder_list(env->models_dir, "models_dir", a, out, err)) &&
           (!env->own_dir.p || hub_folder_list(env->own_dir, "mlxcel", a, out, err)) &&
           (!lmstudio.p || hub_folder_list(lmstudio, "lmstudio", a, out, err)) &&
           (!ollama.p || hub_ollama_list(ollama, a, out, err));
}

bool hub_store_list(const HubEnv *env, Arena *a, HubModels *out, Err *err) {
    *out = (HubModels){0};
    return list_cache(env, a, out, err) && list_others(env, a, out, err);
}

/* "llama3.2" is "llama3.2:latest" to Ollama; a bare name finds owner/name; a store's name in front
 * asks that one only. */
static bool means(const HubModel *m, Str name) {
    Str store = str_c(m->store), tail = name;
    if (str_starts(name, store) && name.n > store.n && name.p[store.n] == ':')
        tail = str_from(name, store.n + 1);
    if (str_eq(m->name, tail)) return true;
    if (str_eqc(store, "ollama"))
        return str_ends(m->name, STR(":latest")) &&
               str_eq(str_slice(m->name, 0, m->name.n - 7), tail);
    size_t slash = str_find_char(m->name, '/', 0);
    return slash != STR_NPOS && str_eq(str_from(m->name, slash + 1), tail);
}

bool hub_store_find(const HubEnv *env, Str name, Arena *a, Str *path, Err *err) {
    HubModels all = {0};
    *path = STR_NONE;
    if (!list_others(env, a, &all, err)) return false;
    for (size_t i = 0; i < all.n && !path->p; i++)
        if (means(&all.items[i], name)) *path = all.items[i].path;
    return true;
}
