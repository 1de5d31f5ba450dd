/* Stores of other programs, read only. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "hub/hub_choose.h"
#include "hub/hub_store.h"
#include "json/json.h"

enum { MANIFEST_MAX = 4 << 20, DEPTH_MAX = 6 };

/* The files right in a folder: sizes of all, and whether it is a model. */
static bool look(Str dir, Arena *a, HubModel *m, Err *err) {
    Str *names;
    size_t n, best;
    struct stat st;
    bool config = false, plain = false;
    if (!os_list_dir(dir.p, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        Str path = hub_join(a, dir, "/", names[i]);
        if (!path.p || stat(path.p, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        m->size_bytes += (uint64_t)st.st_size;
        if ((int64_t)st.st_mtime > m->modified) m->modified = (int64_t)st.st_mtime;
        config = config || str_eqc(names[i], "config.json");
        plain = plain || str_ends(names[i], STR(".safetensors"));
    }
    m->path = STR_NONE;
    if (config && plain)
        m->path = dir;
    else if (hub_gguf_pick(names, n, STR_NONE, &best))
        m->path = hub_join(a, dir, "/", names[best]);
    return true;
}

static bool add_file(Str root, Str name, const char *store, Arena *a, HubModels *out, Err *err) {
    struct stat st;
    HubModel m = {.store = store, .name = str_slice(name, 0, name.n - 5)};
    m.path = hub_join(a, root, "/", name);
    if (!m.path.p || stat(m.path.p, &st) != 0 || !S_ISREG(st.st_mode)) return true;
    m.size_bytes = (uint64_t)st.st_size;
    m.modified = (int64_t)st.st_mtime;
    return hub_models_add(out, m, a, err);
}

/* prefix: "" at the root, "OWNER/" below it. */
static bool walk(Str dir, Str prefix, const char *store, Arena *a, HubModels *out, Err *err) {
    Str *names;
    size_t n;
    Err none;
    if (!os_list_dir(dir.p, a, &names, &n, &none)) return true; /* not ours to read */
    for (size_t i = 0; i < n; i++) {
        Str path = hub_join(a, dir, "/", names[i]);
        if (!path.p) return err_nomem(err, "a path");
        if (names[i].p[0] == '.') continue;
        if (hub_is_gguf_model(names[i]) && !prefix.n) {
            if (!add_file(dir, names[i], store, a, out, err)) return false;
        } else if (os_is_dir(path.p)) {
            HubModel m = {.store = store, .name = hub_join(a, prefix, "", names[i])};
            if (!look(path, a, &m, &none)) continue;
            if (m.path.p && !hub_models_add(out, m, a, err)) return false;
            Str below = hub_join(a, names[i], "/", STR_NONE);
            if (!m.path.p && !prefix.n && !walk(path, below, store, a, out, err)) return false;
        }
    }
    return true;
}

bool hub_folder_list(Str root, const char *store, Arena *a, HubModels *out, Err *err) {
    return !os_is_dir(root.p) || walk(root, STR_NONE, store, a, out, err);
}

/* One layer of a manifest is the model; its blob is named by a digest, which becomes a path only after it
 * was checked. */
static bool add_manifest(Str root, Str file, Str name, Arena *a, HubModels *out, Err *err) {
    Buf b = {0};
    Json *doc;
    Err none;
    HubModel m = {.store = "ollama", .name = name};
    struct stat st;
    if (stat(file.p, &st) == 0) m.modified = (int64_t)st.st_mtime;
    bool read = os_read_file(file.p, MANIFEST_MAX, &b, &none) &&
                json_parse(buf_str(&b), NULL, a, &doc, &none);
    buf_deinit(&b);
    const Json *layers = read ? json_get(doc, "layers") : NULL;
    for (size_t i = 0; layers && json_is(layers, JSON_ARRAY) && i < layers->n; i++) {
        Str type = STR_NONE, digest = STR_NONE;
        int64_t size = 0;
        json_str(json_get(&layers->items[i], "mediaType"), &type);
        json_str(json_get(&layers->items[i], "digest"), &digest);
        json_i64(json_get(&layers->items[i], "size"), &size);
        if (size > 0) m.size_bytes += (uint64_t)size;
        bool model = str_eqc(type, "application/vnd.ollama.image.model");
        if (!model || !str_starts(digest, STR("sha256:")) || !hub_is_hex(str_from(digest, 7), 64))
            continue;
        Str blob = hub_join(a, root, "/blobs/sha256-", str_from(digest, 7));
        if (blob.p && os_is_file(blob.p)) m.path = blob;
    }
    return !m.path.p || hub_models_add(out, m, a, err);
}

/* manifests/HOST/OWNER/NAME/TAG; the public host and its "library" are not part of a name. */
static Str ollama_name(Str path, Arena *a) {
    size_t slash = str_rfind(path, STR("/"));
    if (slash == STR_NPOS) return STR_NONE;
    Str model = str_slice(path, 0, slash);
    if (str_starts(model, STR("registry.ollama.ai/"))) model = str_from(model, 19);
    if (str_starts(model, STR("library/"))) model = str_from(model, 8);
    return hub_join(a, model, ":", str_from(path, slash + 1));
}

static bool walk_manifests(Str root, Str path, int depth, Arena *a, HubModels *out, Err *err) {
    Str *names, dir = hub_join(a, root, "/manifests", STR_NONE);
    size_t n;
    Err none;
    if (path.n) dir = hub_join(a, dir, "/", path);
    if (depth > DEPTH_MAX || !dir.p || !os_list_dir(dir.p, a, &names, &n, &none)) return true;
    for (size_t i = 0; i < n; i++) {
        Str file = hub_join(a, dir, "/", names[i]),
            below = path.n ? hub_join(a, path, "/", names[i]) : names[i];
        if (!file.p || !below.p) return err_nomem(err, "a path");
        if (os_is_dir(file.p)) {
            if (!walk_manifests(root, below, depth + 1, a, out, err)) return false;
        } else if (os_is_file(file.p)) {
            Str name = ollama_name(below, a);
            if (name.p && !add_manifest(root, file, name, a, out, err)) return false;
        }
    }
    return true;
}

bool hub_ollama_list(Str root, Arena *a, HubModels *out, Err *err) {
    return walk_manifests(root, STR_NONE, 0, a, out, err);
}

Str hub_ollama_root(const HubEnv *env, Arena *a) {
    const char *v = getenv("OLLAMA_MODELS");
    Str dir = v && *v ? hub_join(a, str_c(v), "", STR_NONE) : STR_NONE;
    if (!dir.p && env->home.p) dir = hub_join(a, env->home, "/.ollama/models", STR_NONE);
    if ((!v || !*v) && (!dir.p || !os_is_dir(dir.p)))
        dir = hub_join(a, STR("/usr/share/ollama/.ollama/models"), "", STR_NONE);
    return dir;
}

/* settings.json may name another folder for downloads. */
static Str lmstudio_setting(Str home, Arena *a) {
    Buf b = {0};
    Json *doc;
    Err none;
    Str dir = STR_NONE, file = hub_join(a, home, "/settings.json", STR_NONE);
    if (file.p && os_is_file(file.p) && os_read_file(file.p, MANIFEST_MAX, &b, &none) &&
        json_parse(buf_str(&b), NULL, a, &doc, &none))
        json_str(json_get(doc, "downloadsFolder"), &dir);
    buf_deinit(&b);
    return dir.n ? hub_join(a, dir, "", STR_NONE) : STR_NONE;
}

Str hub_lmstudio_root(const HubEnv *env, Arena *a) {
    if (!env->home.p) return STR_NONE;
    Str home = hub_join(a, env->home, "/.lmstudio", STR_NONE), set = lmstudio_setting(home, a);
    if (set.p && os_is_dir(set.p)) return set;
    Str dir = hub_join(a, home, "/models", STR_NONE);
    if (dir.p && os_is_dir(dir.p)) return dir;
    return hub_join(a, env->home, "/.cache/lm-studio/models", STR_NONE);
}
