#include "ckpt/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/os.h"
#include "ckpt/ckpt_index.h"
#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_PATH = 4096, MAX_ARCH_NAME = 64 };

struct CheckpointPrivate {
    Arena arena;         /* configs, paths */
    Safetensors **parts; /* n_files of one kind or the other; NULL until opened */
    Gguf **ggufs;
    const OsFile **fds;
    CkptStream *stream; /* while the weights are loaded; or NULL */
    Str *files;
    size_t n_open;
    CkptTensor *tensors;
    Map index;
};

static bool join(const Checkpoint *ck, const char *name, char out[MAX_PATH], Err *err) {
    int n = snprintf(out, MAX_PATH, "%s/%s", ck->dir.p, name);
    if (n > 0 && n < MAX_PATH) return true;
    return err_set(err, ERR_LIMIT, "path too long: " STR_F "/%s", STR_A(ck->dir), name);
}

static bool parse_json_file(Checkpoint *ck, const char *name, const Json **out, Err *err) {
    Buf text = {.max = MAX_CONFIG_BYTES};
    JsonOptions opt = {.python_numbers = true};
    Json *doc = NULL;
    bool ok = checkpoint_read_file(ck, name, MAX_CONFIG_BYTES, &text, err);
    if (ok && !json_parse(buf_str(&text), &opt, &ck->priv->arena, &doc, err))
        ok = err_wrap(err, STR_F "/%s", STR_A(ck->dir), name);
    if (ok && doc->type != JSON_OBJECT) {
        ok = err_set(err, ERR_INPUT, STR_F "/%s: the outermost value is %s %s, an object is needed",
                     STR_A(ck->dir), name, doc->type == JSON_ARRAY ? "an" : "a",
                     jsontype_name(doc->type));
    }
    if (ok && doc->n > CONFIG_MAX_KEYS)
        ok = err_set(err, ERR_LIMIT, STR_F "/%s has %zu keys, at most %d are accepted",
                     STR_A(ck->dir), name, doc->n, CONFIG_MAX_KEYS);
    buf_deinit(&text);
    *out = doc;
    return ok;
}

/* "quantization" and "quantization_config" hold the same when both are there. NULL: neither is. */
static bool quantization_of(const Json *config, const Json **out, Err *err) {
    static const char *const keys[] = {"quantization", "quantization_config"};
    *out = NULL;
    for (size_t i = 0; i < 2 && !*out; i++) {
        const Json *q = json_get(config, keys[i]);
        if (!q || q->type == JSON_NULL) continue;
        if (q->type != JSON_OBJECT) {
            return err_set(err, ERR_INPUT, "config: %s is a %s, an object is needed", keys[i],
                           jsontype_name(q->type));
        }
        *out = q;
    }
    return true;
}

static bool find_quantization(Checkpoint *ck, const Str *names, size_t n_names, Err *err) {
    static const char *const others[] = {"hf_quant_config.json", "quantize_config.json",
                                         "quant_config.json"};
    if (!quantization_of(ck->config.json, &ck->quantization, err)) return false;
    if (!ck->quantization &&
        !quantization_of(json_get(ck->config.json, "text_config"), &ck->quantization, err))
        return false;
    ck->quantization_file = ck->quantization ? "config.json" : NULL;
    for (size_t i = 0; !ck->quantization && i < sizeof others / sizeof *others; i++) {
        if (!ckpt_has_name(names, n_names, others[i])) continue;
        const Json *doc;
        if (!parse_json_file(ck, others[i], &doc, err)) return false;
        const Json *inner = json_get(doc, "quantization");
        ck->quantization = json_is(inner, JSON_OBJECT) ? inner : doc;
        ck->quantization_file = others[i];
    }
    return true;
}

static bool read_configs(Checkpoint *ck, const Str *names, size_t n_names, Err *err) {
    if (!ckpt_has_name(names, n_names, "config.json")) {
        return err_set(err, ERR_NOT_FOUND, STR_F " has no config.json", STR_A(ck->dir));
    }
    if (!parse_json_file(ck, "config.json", &ck->config.json, err)) return false;
    (void)json_str(json_get(ck->config.json, "model_type"), &ck->config.model_type);
    if (ckpt_has_name(names, n_names, "generation_config.json") &&
        !parse_json_file(ck, "generation_config.json", &ck->generation.json, err)) {
        return false;
    }
    ck->generation.model_type = ck->config.model_type;
    return find_quantization(ck, names, n_names, err);
}

/* Room for n weight files. */
static bool files_reserve(Checkpoint *ck, size_t n, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    p->parts = arena_array(&p->arena, Safetensors *, n);
    p->ggufs = arena_array(&p->arena, Gguf *, n);
    p->fds = arena_array(&p->arena, const OsFile *, n);
    ck->files = p->files = arena_array(&p->arena, Str, n);
    return (p->parts && p->ggufs && p->fds && p->files) || err_nomem(err, "list of weight files");
}

/* Takes the tables of the opened files together. */
static bool merge_tensors(Checkpoint *ck, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    size_t total = 0;
    for (size_t i = 0; i < ck->n_files; i++)
        total += p->parts[i] ? p->parts[i]->n_tensors : p->ggufs[i]->n_tensors;
    ck->tensors = p->tensors = mem_alloc(total * sizeof *p->tensors + 1);
    if (!p->tensors || !map_reserve(&p->index, total)) return err_nomem(err, "tensor table");
    for (size_t i = 0; i < ck->n_files; i++) {
        const CkptTensor *from = p->parts[i] ? p->parts[i]->tensors : p->ggufs[i]->tensors;
        size_t n = p->parts[i] ? p->parts[i]->n_tensors : p->ggufs[i]->n_tensors;
        for (size_t k = 0; k < n; k++) {
            CkptTensor *t = &p->tensors[ck->n_tensors];
            *t = from[k];
            t->i_file = (int)i;
            uint64_t other;
            if (map_get(&p->index, t->name, &other)) {
                return err_set(
                    err, ERR_CORRUPT, "tensor " STR_F " is both in " STR_F " and in " STR_F,
                    STR_A(t->name), STR_A(p->files[p->tensors[other].i_file]), STR_A(p->files[i]));
            }
            if (!map_put(&p->index, t->name, ck->n_tensors)) return err_nomem(err, "tensor table");
            ck->n_tensors++;
            ck->tensor_bytes += t->n_bytes;
        }
    }
    return true;
}

/* What the index says of each tensor must be so. */
static bool check_index(const Checkpoint *ck, const CkptIndex *index, Err *err) {
    for (size_t i = 0; i < index->tensor_file.n; i++) {
        const MapEntry *e = &index->tensor_file.entries[i];
        const CkptTensor *t = checkpoint_find(ck, e->key);
        if (!t || t->i_file != (int)e->value) {
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " is not in " STR_F ", where the index has it",
                           STR_A(e->key), STR_A(ck->files[e->value]));
        }
    }
    return true;
}

static bool open_safetensors(Checkpoint *ck, const CkptIndex *index, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    char path[MAX_PATH];
    if (!files_reserve(ck, index->n_files, err)) return false;
    for (size_t i = 0; i < index->n_files; i++) {
        char *name = arena_dupz(&p->arena, index->files[i]);
        if (!name) return err_nomem(err, "list of weight files");
        if (!join(ck, name, path, err)) return false;
        if (!safetensors_open(path, &p->parts[i], err)) {
            if (err && err->kind == ERR_NOT_FOUND)
                err_wrap(err, "a link that leads nowhere (an unfinished download?)");
            return false;
        }
        ck->n_files = p->n_open = i + 1;
        p->files[i] = p->parts[i]->path;
        p->fds[i] = &p->parts[i]->file;
    }
    return merge_tensors(ck, err) && check_index(ck, index, err);
}

/* The number at the end of a GGUF part's name, "NAME-00001-of-00003.gguf"; stem gets "NAME". */
static bool split_name(Str path, Str *stem, uint64_t *no, uint64_t *count) {
    enum { TAIL = sizeof "-00001-of-00003.gguf" - 1 };
    if (path.n <= TAIL || !str_ends(path, STR(".gguf"))) return false;
    Str tail = str_from(path, path.n - TAIL);
    *stem = str_slice(path, 0, path.n - TAIL);
    return tail.p[0] == '-' && str_eq(str_slice(tail, 6, 10), STR("-of-")) &&
           str_to_u64(str_slice(tail, 1, 6), no) && str_to_u64(str_slice(tail, 10, 15), count);
}

static bool split_int(const Gguf *g, const char *key, int64_t dflt, int64_t *out, Err *err) {
    const GgufValue *v = gguf_get(g, key);
    *out = dflt;
    if (!v || gguf_int(v, out)) return true;
    return err_set(err, ERR_CORRUPT, STR_F ": %s is of type %s, an integer is needed",
                   STR_A(g->path), key, gguftype_name(v->type));
}

static bool open_gguf_part(Checkpoint *ck, const char *path, size_t i, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    if (!gguf_open(path, &p->ggufs[i], err)) return false;
    ck->n_files = p->n_open = i + 1;
    p->files[i] = p->ggufs[i]->path;
    p->fds[i] = &p->ggufs[i]->file;
    if (i) p->ggufs[i - 1]->next_part = p->ggufs[i];
    return true;
}

/* Opens parts 1 .. count - 1 of a split set whose first is open. */
static bool open_other_parts(Checkpoint *ck, int64_t count, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    Str stem, first = p->files[0];
    uint64_t no, of;
    if (!split_name(first, &stem, &no, &of) || no != 1 || of != (uint64_t)count) {
        return err_set(err, ERR_INPUT,
                       STR_F " is part 1 of %" PRId64
                             ", its name should end in -00001-of-%05" PRId64 ".gguf",
                       STR_A(first), count, count);
    }
    for (int64_t i = 1; i < count; i++) {
        char path[MAX_PATH];
        int64_t number, total;
        int n = snprintf(path, sizeof path, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)stem.n,
                         stem.p, i + 1, count);
        if (n < 0 || n >= MAX_PATH)
            return err_set(err, ERR_LIMIT, "path too long: " STR_F, STR_A(first));
        if (!open_gguf_part(ck, path, (size_t)i, err)) return false;
        if (!split_int(p->ggufs[i], "split.no", -1, &number, err)) return false;
        if (!split_int(p->ggufs[i], "split.count", -1, &total, err)) return false;
        if (number != i || total != count) {
            return err_set(err, ERR_CORRUPT,
                           "%s says it is part %" PRId64 " of %" PRId64
                           ", by its name it is part %" PRId64 " of %" PRId64,
                           path, number + 1, total, i + 1, count);
        }
    }
    return true;
}

static bool open_gguf_set(Checkpoint *ck, const char *path, Err *err) {
    struct CheckpointPrivate *p = ck->priv;
    int64_t no, count, n_tensors;
    if (!files_reserve(ck, CKPT_MAX_FILES, err) || !open_gguf_part(ck, path, 0, err)) return false;
    Gguf *g = p->ggufs[0];
    if (!split_int(g, "split.count", 1, &count, err) || !split_int(g, "split.no", 0, &no, err) ||
        !split_int(g, "split.tensors.count", -1, &n_tensors, err)) {
        return false;
    }
    if (count < 0 || count > CKPT_MAX_FILES) {
        return err_set(err, ERR_LIMIT, "%s: split.count is %" PRId64 ", up to %d is accepted", path,
                       count, CKPT_MAX_FILES);
    }
    if (no != 0) {
        return err_set(err, ERR_INPUT,
                       "%s is part %" PRId64 " of %" PRId64 ", the first part is needed", path,
                       no + 1, count);
    }
    if (count > 1 && !open_other_parts(ck, count, err)) return false;
    if (!merge_tensors(ck, err)) return false;
    if (n_tensors >= 0 && (uint64_t)n_tensors != ck->n_tensors) {
        return err_set(err, ERR_CORRUPT,
                       "%s: split.tensors.count is %" PRId64 ", the parts hold %zu tensors", path,
                       n_tensors, ck->n_tensors);
    }
    return true;
}

static bool open_gguf(Checkpoint *ck, const char *path, Err *err) {
    if (!open_gguf_set(ck, path, err)) return false;
    Gguf *g = ck->priv->ggufs[0];
    Str arch;
    if (!gguf_str(gguf_get(g, "general.architecture"), &arch) || !arch.n ||
        arch.n > MAX_ARCH_NAME) {
        return err_set(err, ERR_CORRUPT,
                       "%s: general.architecture, a name of 1 to %d bytes, is missing", path,
                       MAX_ARCH_NAME);
    }
    ck->kind = CKPT_GGUF;
    ck->config = ck->generation = (Config){.gguf = g, .model_type = arch};
    return true;
}

/* A directory may hold a GGUF instead of safetensors with their config.json: one file, or one split
 * set. *out stays NULL if it does not; several are an error, since any choice would be a guess. */
static bool sole_gguf(const Checkpoint *ck, const Str *names, size_t n_names, const char **out,
                      Err *err) {
    bool config = ckpt_has_name(names, n_names, "config.json"), safetensors = false;
    for (size_t i = 0; i < n_names; i++) {
        safetensors |= str_find(names[i], STR(".safetensors"), 0) != STR_NPOS;
    }
    if (config && safetensors) return true;
    for (size_t i = 0; i < n_names; i++) {
        Str stem;
        uint64_t no, count;
        if (!str_ends(names[i], STR(".gguf")) || str_starts(names[i], STR("mmproj"))) continue;
        if (split_name(names[i], &stem, &no, &count) && no != 1) continue;
        if (*out) {
            return err_set(err, ERR_INPUT,
                           STR_F " holds several models, %s and %s among them: give one",
                           STR_A(ck->dir), *out, names[i].p);
        }
        *out = names[i].p;
    }
    return true;
}

static bool open_dir(Checkpoint *ck, Err *err) {
    Arena scratch = {0};
    Str *names;
    size_t n_names;
    CkptIndex index = {0};
    char path[MAX_PATH];
    bool ok = os_list_dir(ck->dir.p, &scratch, &names, &n_names, err);
    const char *gguf = NULL;
    ok = ok && sole_gguf(ck, names, n_names, &gguf, err);
    if (ok && gguf) {
        ok = join(ck, gguf, path, err) && open_gguf(ck, path, err);
    } else if (ok) {
        ok = read_configs(ck, names, n_names, err) &&
             ckpt_index_find(ck->dir.p, names, n_names, &scratch, &index, err) &&
             open_safetensors(ck, &index, err);
    }
    ckpt_index_deinit(&index);
    arena_deinit(&scratch);
    return ok;
}

static bool set_paths(Checkpoint *ck, const char *path, bool is_dir, Err *err) {
    Str whole = str_c(path), dir = whole;
    if (!is_dir) {
        size_t slash = str_rfind(whole, STR("/"));
        dir = slash == STR_NPOS ? STR(".") : str_slice(whole, 0, slash ? slash : 1);
    }
    ck->path = arena_dup(&ck->priv->arena, whole);
    ck->dir = arena_dup(&ck->priv->arena, dir);
    return (ck->path.p && ck->dir.p) || err_nomem(err, path);
}

static bool open_path(Checkpoint *ck, const char *path, Err *err) {
    bool is_dir = os_is_dir(path);
    if (!set_paths(ck, path, is_dir, err)) return false;
    if (is_dir) return open_dir(ck, err);
    if (str_ends(ck->path, STR(".safetensors")) || str_ends(ck->path, STR(".json"))) {
        return err_set(err, ERR_INPUT, "%s: give the directory that holds it, with config.json",
                       path);
    }
    return open_gguf(ck, path, err);
}

bool checkpoint_open(const char *path, Checkpoint **out, Err *err) {
    Checkpoint *ck = mem_calloc(1, sizeof *ck);
    if (!ck) return err_nomem(err, path);
    ck->priv = mem_calloc(1, sizeof *ck->priv);
    if (!ck->priv || !open_path(ck, path, err)) {
        if (!ck->priv) err_nomem(err, path);
        checkpoint_close(ck);
        return false;
    }
    *out = ck;
    return true;
}

void checkpoint_close(Checkpoint *ck) {
    if (!ck) return;
    struct CheckpointPrivate *p = ck->priv;
    if (p) {
        checkpoint_stream_end(ck);
        for (size_t i = 0; i < p->n_open; i++) {
            safetensors_close(p->parts[i]);
            gguf_close(p->ggufs[i]);
        }
        map_deinit(&p->index);
        mem_free(p->tensors);
        arena_deinit(&p->arena);
        mem_free(p);
    }
    mem_free(ck);
}

const CkptTensor *checkpoint_find(const Checkpoint *ck, Str name) {
    uint64_t i;
    return map_get(&ck->priv->index, name, &i) ? &ck->tensors[i] : NULL;
}

bool checkpoint_read(const Checkpoint *ck, const CkptTensor *t, uint64_t from, void *out, size_t n,
                     Err *err) {
    if (from > t->n_bytes || n > t->n_bytes - from) {
        return err_set(err, ERR_INTERNAL,
                       "bytes %" PRIu64 " to %" PRIu64 " of tensor " STR_F
                       " were asked for, it has %" PRIu64,
                       from, from + n, STR_A(t->name), t->n_bytes);
    }
    CkptStream *ahead = ck->priv->stream;
    if (ahead && ckpt_stream_take(ahead, t->i_file, t->offset + from, out, n)) return true;
    if (os_file_read_at(ck->priv->fds[t->i_file], t->offset + from, out, n, err)) return true;
    return err_wrap(err, STR_F ": tensor " STR_F, STR_A(ck->files[t->i_file]), STR_A(t->name));
}

bool checkpoint_stream_begin(Checkpoint *ck, const CkptRange *ranges, size_t n, bool keep_cached,
                             Err *err) {
    const CkptStreamOptions opt = {.keep_cached = keep_cached};
    checkpoint_stream_end(ck);
    ck->priv->stream = ckpt_stream_new(ck->priv->fds, ck->n_files, ranges, n, &opt, err);
    return ck->priv->stream != NULL;
}

void checkpoint_stream_pass(Checkpoint *ck, size_t i_range) {
    ckpt_stream_pass(ck->priv->stream, i_range);
}

void checkpoint_stream_end(Checkpoint *ck) {
    ckpt_stream_free(ck->priv->stream);
    ck->priv->stream = NULL;
}

void checkpoint_drop_cache(const Checkpoint *ck, const CkptRange *r) {
    os_file_drop_cache(ck->priv->fds[r->i_file], r->at, r->n);
}

static bool leads_outside(const char *name) {
    Str rest = str_c(name), part;
    if (!rest.n || name[0] == '/') return true;
    while (str_split(&rest, '/', &part)) {
        if (str_eqc(part, "..")) return true;
    }
    return false;
}

bool checkpoint_read_file(const Checkpoint *ck, const char *name, size_t max_bytes, Buf *out,
                          Err *err) {
    char path[MAX_PATH];
    if (leads_outside(name))
        return err_set(err, ERR_INPUT, "\"%s\" is not a name inside " STR_F, name, STR_A(ck->dir));
    return join(ck, name, path, err) && os_read_file(path, max_bytes, out, err);
}
