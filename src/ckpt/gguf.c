#include "ckpt/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"
#include "base/map.h"
#include "base/mem.h"

enum { FIRST_READ = 256 << 10, DEFAULT_ALIGNMENT = 32 };
enum { MIN_KEY_BYTES = 8 + 4 + 1, MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8 };

struct GgufPrivate {
    char *path;
    unsigned char *meta; /* the file's beginning; keys and names point into it */
    size_t n_meta;
    GgufValue *keys;
    CkptTensor *tensors;
    size_t cap_keys, cap_tensors;
    Map key_index, tensor_index;
};

/* The parse runs over what has been read so far. When that is too little though the file has
 * more, it stops with `want` set and no error; more is read and the parse starts over. Reads
 * grow by half, so the repeats cost little. */
typedef struct Parse {
    Gguf *g;
    Cursor c;
    uint64_t want; /* bytes from the file's start */
    Err *err;
} Parse;

static bool need(Parse *p, uint64_t n, const char *what) {
    if (n <= cursor_left(&p->c)) return true;
    uint64_t left = p->g->file.size_bytes - p->c.at;
    if (n > left) {
        return err_set(p->err, ERR_CORRUPT,
                       "%s at byte %zu needs %" PRIu64 " bytes, the file has %" PRIu64 " left",
                       what, p->c.at, n, left);
    }
    p->want = p->c.at + n;
    return false;
}

/* Context in front of a true error; a call for more bytes passes as it is. */
static bool fail_in(Parse *p, const char *what, Str name) {
    return p->want ? false : err_wrap(p->err, "%s " STR_F, what, STR_A(name));
}

static bool parse_string(Parse *p, uint64_t max, const char *what, Str *out) {
    if (!need(p, 8, what)) return false;
    uint64_t n = cursor_u64(&p->c);
    if (n > max && n <= p->g->file.size_bytes) {
        return err_set(p->err, ERR_LIMIT,
                       "%s has %" PRIu64 " bytes, at most %" PRIu64 " are accepted", what, n, max);
    }
    if (!need(p, n, what)) return false;
    *out = cursor_bytes(&p->c, n);
    return true;
}

static size_t scalar_bytes(GgufType t) {
    static const unsigned char sizes[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return sizes[t];
}

static bool parse_type(Parse *p, const char *what, GgufType *out) {
    if (!need(p, 4, what)) return false;
    uint32_t t = cursor_u32(&p->c);
    if (t >= GGUF_TYPE_COUNT) {
        return err_set(p->err, ERR_CORRUPT, "%s is %" PRIu32 ", types are 0 to %d", what, t,
                       GGUF_TYPE_COUNT - 1);
    }
    *out = (GgufType)t;
    return true;
}

static bool parse_array(Parse *p, GgufType *element, uint64_t *n, int depth);

/* Passes over n elements of one type. A count that the rest of the file cannot hold is refused
 * before the walk. */
static bool skip_elements(Parse *p, GgufType t, uint64_t n, int depth) {
    bool scalar = t != GGUF_STRING && t != GGUF_ARRAY;
    size_t each = scalar ? scalar_bytes(t) : 8;
    uint64_t left = p->g->file.size_bytes - p->c.at;
    if (n > left / each) {
        return err_set(p->err, ERR_CORRUPT,
                       "array at byte %zu claims %" PRIu64 " elements of type %s, %" PRIu64
                       " bytes are left",
                       p->c.at, n, gguftype_name(t), left);
    }
    if (scalar) return need(p, n * each, "array") && cursor_skip(&p->c, n * each);
    for (uint64_t i = 0; i < n; i++) {
        Str s;
        GgufType inner;
        uint64_t count;
        if (t == GGUF_STRING && !parse_string(p, GGUF_MAX_META_BYTES, "string in an array", &s))
            return false;
        if (t == GGUF_ARRAY && !parse_array(p, &inner, &count, depth + 1)) return false;
    }
    return true;
}

/* Recursion is bounded by GGUF_MAX_NESTING. */
static bool parse_array(Parse *p, GgufType *element, uint64_t *n, int depth) {
    if (depth >= GGUF_MAX_NESTING) {
        return err_set(p->err, ERR_LIMIT, "arrays are nested deeper than %d levels",
                       GGUF_MAX_NESTING);
    }
    if (!parse_type(p, "array element type", element) || !need(p, 8, "array length")) return false;
    *n = cursor_u64(&p->c);
    return skip_elements(p, *element, *n, depth);
}

static bool parse_value(Parse *p, GgufValue *v) {
    if (!parse_type(p, "value type", &v->type)) return false;
    v->n = 1;
    if (v->type == GGUF_STRING) return parse_string(p, GGUF_MAX_META_BYTES, "string", &v->bytes);
    if (v->type != GGUF_ARRAY) {
        size_t n = scalar_bytes(v->type);
        if (!need(p, n, "value")) return false;
        v->bytes = cursor_bytes(&p->c, n);
        return true;
    }
    size_t from = p->c.at;
    if (!parse_array(p, &v->element, &v->n, 0)) return false;
    size_t elements = from + 4 + 8;
    v->bytes = (Str){(const char *)p->c.p + elements, p->c.at - elements};
    return true;
}

static bool parse_keys(Parse *p, uint64_t n) {
    struct GgufPrivate *priv = p->g->priv;
    for (p->g->n_keys = 0; p->g->n_keys < n; p->g->n_keys++) {
        if (p->g->n_keys == priv->cap_keys) {
            size_t cap = priv->cap_keys ? priv->cap_keys * 2 : 64;
            GgufValue *keys = mem_resize_array(priv->keys, cap, sizeof *keys);
            if (!keys) return err_nomem(p->err, "GGUF keys");
            p->g->keys = priv->keys = keys;
            priv->cap_keys = cap;
        }
        GgufValue *v = &priv->keys[p->g->n_keys];
        *v = (GgufValue){0};
        if (!parse_string(p, GGUF_MAX_KEY, "key", &v->key)) return false;
        if (!parse_value(p, v)) return fail_in(p, "key", v->key);
    }
    return true;
}

/* Dimensions come innermost first; the table holds them outermost first. */
static bool parse_dims(Parse *p, CkptTensor *t) {
    if (!need(p, 4, "number of dimensions")) return false;
    uint32_t n = cursor_u32(&p->c);
    if (n < 1 || n > GGUF_MAX_DIMS) {
        return err_set(p->err, ERR_CORRUPT, "has %" PRIu32 " dimensions, 1 to %d are accepted", n,
                       GGUF_MAX_DIMS);
    }
    if (!need(p, 8 * (uint64_t)n + 4 + 8, "tensor entry")) return false;
    t->n_dims = (int)n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t d = cursor_u64(&p->c);
        if (!d) return err_set(p->err, ERR_CORRUPT, "dimension %" PRIu32 " is 0", i);
        t->shape[n - 1 - i] = d;
    }
    return true;
}

static bool parse_tensor(Parse *p, CkptTensor *t) {
    if (!parse_dims(p, t)) return false;
    uint32_t type = cursor_u32(&p->c);
    t->offset = cursor_u64(&p->c);
    t->dtype = dtype_from_ggml(type);
    if (t->dtype == DTYPE_NONE) {
        return err_set(p->err, ERR_UNSUPPORTED,
                       "has type %" PRIu32 ", which is not a GGUF type of today", type);
    }
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (__builtin_mul_overflow(n, t->shape[i], &n)) {
            return err_set(p->err, ERR_CORRUPT, "has more elements than 64 bits can count");
        }
    }
    return dtype_bytes(t->dtype, n, t->shape[t->n_dims - 1], &t->n_bytes, p->err);
}

static bool parse_tensors(Parse *p, uint64_t n) {
    struct GgufPrivate *priv = p->g->priv;
    for (p->g->n_tensors = 0; p->g->n_tensors < n; p->g->n_tensors++) {
        if (p->g->n_tensors == priv->cap_tensors) {
            size_t cap = priv->cap_tensors ? priv->cap_tensors * 2 : 256;
            CkptTensor *tensors = mem_resize_array(priv->tensors, cap, sizeof *tensors);
            if (!tensors) return err_nomem(p->err, "GGUF tensor table");
            p->g->tensors = priv->tensors = tensors;
            priv->cap_tensors = cap;
        }
        CkptTensor *t = &priv->tensors[p->g->n_tensors];
        *t = (CkptTensor){0};
        if (!parse_string(p, GGUF_MAX_NAME, "tensor name", &t->name)) return false;
        if (!parse_tensor(p, t)) return fail_in(p, "tensor", t->name);
    }
    return true;
}

static bool check_version(Parse *p, uint32_t version) {
    if (version == 2 || version == 3) return true;
    if ((version & 0xFFFF) == 0 && version) {
        return err_set(p->err, ERR_UNSUPPORTED,
                       "the file is big-endian, only little-endian GGUF is read");
    }
    return err_set(p->err, ERR_UNSUPPORTED, "GGUF version %" PRIu32 ", versions 2 and 3 are read",
                   version);
}

static bool check_count(Parse *p, uint64_t n, uint64_t max, unsigned each_bytes, const char *what) {
    uint64_t left = p->g->file.size_bytes - p->c.at;
    if (n > left / each_bytes) {
        return err_set(p->err, ERR_CORRUPT,
                       "the header claims %" PRIu64 " %s, %" PRIu64 " bytes are left for them", n,
                       what, left);
    }
    if (n > max)
        return err_set(p->err, ERR_LIMIT, "%" PRIu64 " %s, at most %" PRIu64 " are accepted", n,
                       what, max);
    return true;
}

static bool parse_file(Parse *p) {
    if (!need(p, 24, "GGUF header")) return false;
    Str magic = cursor_bytes(&p->c, 4);
    if (!str_eq(magic, STR("GGUF"))) {
        const unsigned char *m = (const unsigned char *)magic.p;
        return err_set(p->err, ERR_CORRUPT,
                       "starts with bytes %02X %02X %02X %02X, not with \"GGUF\"", m[0], m[1], m[2],
                       m[3]);
    }
    p->g->version = cursor_u32(&p->c);
    if (!check_version(p, p->g->version)) return false;
    uint64_t n_tensors = cursor_u64(&p->c), n_keys = cursor_u64(&p->c);
    return check_count(p, n_keys, GGUF_MAX_KEYS, MIN_KEY_BYTES, "keys") &&
           check_count(p, n_tensors, GGUF_MAX_TENSORS, MIN_TENSOR_BYTES, "tensors") &&
           parse_keys(p, n_keys) && parse_tensors(p, n_tensors);
}

static bool read_up_to(Gguf *g, uint64_t to, Err *err) {
    struct GgufPrivate *priv = g->priv;
    if (to > g->file.size_bytes) to = g->file.size_bytes;
    unsigned char *meta = mem_realloc(priv->meta, (size_t)to + 1);
    if (!meta) return err_nomem(err, "GGUF metadata");
    priv->meta = meta;
    if (!os_file_read_at(&g->file, priv->n_meta, meta + priv->n_meta, (size_t)to - priv->n_meta,
                         err))
        return false;
    priv->n_meta = (size_t)to;
    return true;
}

static bool parse_growing(Gguf *g, uint64_t *meta_end, Err *err) {
    for (uint64_t to = FIRST_READ;;) {
        if (!read_up_to(g, to, err)) return false;
        Parse p = {.g = g,
                   .c = cursor_over((Str){(const char *)g->priv->meta, g->priv->n_meta}),
                   .err = err};
        if (parse_file(&p)) {
            *meta_end = p.c.at;
            return true;
        }
        if (!p.want) return false;
        if (p.want > GGUF_MAX_META_BYTES) {
            return err_set(err, ERR_LIMIT, "metadata is longer than the limit of %" PRIu64 " bytes",
                           GGUF_MAX_META_BYTES);
        }
        to = p.want + (p.want / 2 > 1 << 20 ? p.want / 2 : 1 << 20);
        if (to > GGUF_MAX_META_BYTES) to = GGUF_MAX_META_BYTES;
    }
}

static bool index_names(Gguf *g, Err *err) {
    struct GgufPrivate *priv = g->priv;
    if (!map_reserve(&priv->key_index, g->n_keys) ||
        !map_reserve(&priv->tensor_index, g->n_tensors)) {
        return err_nomem(err, "GGUF index");
    }
    for (size_t i = 0; i < g->n_keys; i++) {
        Str key = g->keys[i].key;
        if (map_find(&priv->key_index, key))
            return err_set(err, ERR_CORRUPT, "key " STR_F " is there twice", STR_A(key));
        if (!map_put(&priv->key_index, key, i)) return err_nomem(err, "GGUF index");
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        Str name = g->tensors[i].name;
        if (map_find(&priv->tensor_index, name)) {
            return err_set(err, ERR_CORRUPT, "tensor " STR_F " is there twice", STR_A(name));
        }
        if (!map_put(&priv->tensor_index, name, i)) return err_nomem(err, "GGUF index");
    }
    return true;
}

static bool find_alignment(Gguf *g, Err *err) {
    const GgufValue *v = gguf_get(g, "general.alignment");
    int64_t a = DEFAULT_ALIGNMENT;
    if (v && !gguf_int(v, &a)) {
        return err_set(err, ERR_CORRUPT, "general.alignment is of type %s, an integer is needed",
                       gguftype_name(v->type));
    }
    if (a < 1 || a > GGUF_MAX_ALIGNMENT || (a & (a - 1))) {
        return err_set(err, ERR_CORRUPT,
                       "general.alignment is %" PRId64 ", a power of two up to %d is accepted", a,
                       GGUF_MAX_ALIGNMENT);
    }
    g->alignment = (uint32_t)a;
    return true;
}

/* Offsets become positions in the file. Tensors follow each other in the order of the table, each
 * at the end of the one before, rounded up to the alignment: no holes, no shared bytes. */
static bool place_tensors(Gguf *g, uint64_t meta_end, Err *err) {
    uint64_t align = g->alignment, size = g->file.size_bytes, next = 0;
    g->data_offset = (meta_end + align - 1) / align * align;
    uint64_t data_bytes = size > g->data_offset ? size - g->data_offset : 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        CkptTensor *t = &g->priv->tensors[i];
        if (t->offset % align) {
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " has offset %" PRIu64
                           ", not a multiple of the alignment %" PRIu64,
                           STR_A(t->name), t->offset, align);
        }
        if (t->offset > data_bytes || t->n_bytes > data_bytes - t->offset) {
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " has %" PRIu64 " bytes at offset %" PRIu64
                           ", the file has %" PRIu64 " bytes of data",
                           STR_A(t->name), t->n_bytes, t->offset, data_bytes);
        }
        if (t->offset != next) {
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " has offset %" PRIu64
                           ", the one before it ends at %" PRIu64,
                           STR_A(t->name), t->offset, next);
        }
        next = (t->offset + t->n_bytes + align - 1) / align * align;
        t->offset += g->data_offset;
    }
    return true;
}

bool gguf_open(const char *path, Gguf **out, Err *err) {
    uint64_t meta_end = 0;
    Gguf *g = mem_calloc(1, sizeof *g);
    if (!g) return err_nomem(err, path);
    g->file.fd = -1;
    g->priv = mem_calloc(1, sizeof *g->priv);
    size_t n = strlen(path);
    if (!g->priv || !(g->priv->path = mem_alloc(n + 1))) {
        err_nomem(err, path);
        goto failed;
    }
    memcpy(g->priv->path, path, n + 1);
    g->path = (Str){g->priv->path, n};
    if (!os_file_open(&g->file, path, err)) goto failed;
    if (!parse_growing(g, &meta_end, err) || !index_names(g, err) || !find_alignment(g, err) ||
        !place_tensors(g, meta_end, err)) {
        err_wrap(err, "%s", path);
        goto failed;
    }
    *out = g;
    return true;
failed:
    gguf_close(g);
    return false;
}

void gguf_close(Gguf *g) {
    if (!g) return;
    if (g->priv) {
        map_deinit(&g->priv->key_index);
        map_deinit(&g->priv->tensor_index);
        mem_free(g->priv->keys);
        mem_free(g->priv->tensors);
        mem_free(g->priv->meta);
        mem_free(g->priv->path);
        mem_free(g->priv);
    }
    os_file_close(&g->file);
    mem_free(g);
}

const GgufValue *gguf_find(const Gguf *g, Str key) {
    uint64_t i;
    return map_get(&g->priv->key_index, key, &i) ? &g->keys[i] : NULL;
}

const GgufValue *gguf_get(const Gguf *g, const char *key) { return gguf_find(g, str_c(key)); }

const CkptTensor *gguf_tensor(const Gguf *g, Str name) {
    uint64_t i;
    for (; g; g = g->next_part) {
        if (map_get(&g->priv->tensor_index, name, &i)) return &g->tensors[i];
    }
    return NULL;
}
