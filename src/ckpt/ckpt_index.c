#include "ckpt/ckpt_index.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "ckpt/checkpoint.h"
#include "json/json_reader.h"

enum { MAX_INDEX_BYTES = 256 << 20, INDEX_DEPTH = 32 };
static const char index_name[] = "model.safetensors.index.json";

bool ckpt_has_name(const Str *names, size_t n_names, const char *name) {
    for (size_t i = 0; i < n_names; i++) {
        if (str_eqc(names[i], name)) return true;
    }
    return false;
}

/* Shards lie in the same directory; what leads elsewhere is an attack or a mistake. */
static bool is_plain_name(Str name) {
    if (!str_ends(name, STR(".safetensors")) || name.n > 255 || name.p[0] == '.') return false;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '/' || name.p[i] == '\\' || (unsigned char)name.p[i] < 0x20) return false;
    }
    return true;
}

/* The position of a file name, which is appended when new. files_of maps names to positions. */
static bool file_position(Map *files_of, Str name, CkptIndex *out, Arena *a, uint64_t *position,
                          Err *err) {
    if (map_get(files_of, name, position)) return true;
    if (!is_plain_name(name)) {
        return err_set(err, ERR_CORRUPT,
                       "weight_map names the file \"" STR_F
                       "\", a plain *.safetensors name is needed",
                       STR_A(name));
    }
    if (out->n_files == CKPT_MAX_FILES)
        return err_set(err, ERR_LIMIT, "weight_map names more than %d files", CKPT_MAX_FILES);
    Str copy = arena_dup(a, name);
    if (!copy.p || !map_put(files_of, copy, out->n_files)) return err_nomem(err, "index of shards");
    *position = out->n_files;
    out->files[out->n_files++] = copy;
    return true;
}

static bool parse_weight_map(JsonReader *r, Map *files_of, Arena *a, CkptIndex *out, Err *err) {
    JsonToken t;
    Str name, file;
    if (!json_expect(r, &t, JSON_EV_OBJECT, "weight_map", err)) return false;
    while (json_next(r, &t, err)) {
        uint64_t position;
        if (t.event == JSON_EV_OBJECT_END) return true;
        if (!json_token_str(&t, a, &name, err)) return false;
        if (!json_expect(r, &t, JSON_EV_STRING, "the file of a tensor in weight_map", err))
            return false;
        if (!json_token_str(&t, a, &file, err)) return false;
        if (!file_position(files_of, file, out, a, &position, err)) return false;
        if (map_find(&out->tensor_file, name)) {
            return err_set(err, ERR_CORRUPT, "weight_map has tensor " STR_F " twice", STR_A(name));
        }
        if (!map_put(&out->tensor_file, name, position)) return err_nomem(err, "index of shards");
    }
    return false;
}

static bool parse_root(JsonReader *r, Map *files_of, Arena *a, CkptIndex *out, Err *err) {
    JsonToken t;
    bool seen = false;
    if (!json_expect(r, &t, JSON_EV_OBJECT, "index", err)) return false;
    while (json_next(r, &t, err) && t.event != JSON_EV_END) {
        if (t.event == JSON_EV_OBJECT_END) continue;
        if (!str_eqc(t.raw, "weight_map")) {
            if (!json_skip(r, &t, err)) return false;
            continue;
        }
        if (seen) return err_set(err, ERR_CORRUPT, "weight_map is there twice");
        seen = true;
        if (!parse_weight_map(r, files_of, a, out, err)) return false;
    }
    if (r->failed) return false;
    if (!seen) return err_set(err, ERR_CORRUPT, "weight_map is missing");
    if (!out->n_files) return err_set(err, ERR_CORRUPT, "weight_map is empty");
    return true;
}

bool ckpt_index_parse(Str text, Arena *a, CkptIndex *out, Err *err) {
    JsonOptions opt = {.max_depth = INDEX_DEPTH, .max_bytes = MAX_INDEX_BYTES};
    JsonReader r;
    Map files_of = {0};
    out->files = arena_array(a, Str, CKPT_MAX_FILES);
    if (!out->files) return err_nomem(err, "index of shards");
    Str own = arena_dup(a, text); /* names are views of it */
    if (!own.p && text.n) return err_nomem(err, "index of shards");
    bool ok = json_reader_open(&r, own, &opt, err) && parse_root(&r, &files_of, a, out, err);
    json_reader_deinit(&r);
    map_deinit(&files_of);
    return ok;
}

static bool read_index(const char *dir, const Str *names, size_t n_names, Arena *a, CkptIndex *out,
                       Err *err) {
    char path[4096];
    Buf text = {.max = MAX_INDEX_BYTES};
    snprintf(path, sizeof path, "%s/%s", dir, index_name);
    bool ok = os_read_file(path, MAX_INDEX_BYTES, &text, err);
    if (ok && !ckpt_index_parse(buf_str(&text), a, out, err)) ok = err_wrap(err, "%s", path);
    buf_deinit(&text);
    for (size_t i = 0; ok && i < out->n_files; i++) {
        if (ckpt_has_name(names, n_names, out->files[i].p)) continue;
        ok = err_set(err, ERR_NOT_FOUND,
                     "%s names " STR_F ", which is not there (an unfinished download?)", path,
                     STR_A(out->files[i]));
    }
    return ok;
}

/* NAME-00002-of-00005.safetensors: is every one of the five there? */
static bool check_numbered(const char *dir, const CkptIndex *index, Err *err) {
    for (size_t i = 0; i < index->n_files; i++) {
        Str name = index->files[i];
        uint64_t total;
        size_t of = str_rfind(name, STR("-of-"));
        if (of == STR_NPOS ||
            !str_to_u64(str_slice(name, of + 4, name.n - strlen(".safetensors")), &total))
            continue;
        Str stem = str_slice(name, 0, str_rfind(str_slice(name, 0, of), STR("-")));
        uint64_t same = 0;
        for (size_t k = 0; k < index->n_files; k++) {
            Str rest = str_from(index->files[k], stem.n);
            same += str_starts(index->files[k], stem) &&
                    str_find(rest, str_from(name, of), 0) != STR_NPOS;
        }
        if (same != total) {
            return err_set(err, ERR_NOT_FOUND,
                           "%s has %zu of the %llu files that " STR_F " belongs to", dir,
                           (size_t)same, (unsigned long long)total, STR_A(name));
        }
    }
    return true;
}

static size_t collect(const Str *names, size_t n, Str prefix, CkptIndex *out) {
    for (size_t i = 0; i < n && out->n_files < CKPT_MAX_FILES; i++) {
        bool adapter = str_starts(names[i], STR("adapter"));
        if (is_plain_name(names[i]) && str_starts(names[i], prefix) && !adapter)
            out->files[out->n_files++] = names[i];
    }
    return out->n_files;
}

bool ckpt_index_find(const char *dir, const Str *names, size_t n_names, Arena *a, CkptIndex *out,
                     Err *err) {
    if (!ckpt_has_name(names, n_names, "model.safetensors") &&
        ckpt_has_name(names, n_names, index_name)) {
        return read_index(dir, names, n_names, a, out, err);
    }
    out->files = arena_array(a, Str, CKPT_MAX_FILES);
    if (!out->files) return err_nomem(err, "list of shards");
    if (ckpt_has_name(names, n_names, "model.safetensors")) {
        out->files[out->n_files++] = STR("model.safetensors");
        return true;
    }
    if (collect(names, n_names, STR("model"), out) || collect(names, n_names, STR_NONE, out)) {
        return check_numbered(dir, out, err);
    }
    bool pickled = ckpt_has_name(names, n_names, "pytorch_model.bin") ||
                   ckpt_has_name(names, n_names, "pytorch_model.bin.index.json");
    return err_set(err, ERR_NOT_FOUND, "%s has no *.safetensors%s", dir,
                   pickled ? " (pytorch_model.bin is not read)" : "");
}

void ckpt_index_deinit(CkptIndex *index) { map_deinit(&index->tensor_file); }
