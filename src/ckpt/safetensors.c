#include "ckpt/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "json/json_reader.h"

enum { HEADER_DEPTH = 8 };

struct SafetensorsPrivate {
    char *path;
    char *header; /* the JSON; names without escapes point into it */
    Arena text;   /* names that had escapes */
    CkptTensor *tensors;
    SafetensorsPair *metadata;
    size_t cap_tensors, cap_metadata;
    Map names;
};

typedef struct Header {
    Safetensors *st;
    JsonReader json;
    uint64_t data_bytes;
    Err *err;
} Header;

static bool read_u64(Header *h, const char *what, uint64_t *out) {
    JsonToken t;
    if (!json_expect(&h->json, &t, JSON_EV_NUMBER, what, h->err)) return false;
    if (str_to_u64(t.raw, out)) return true;
    return err_set(h->err, ERR_CORRUPT,
                   "%s holds " STR_F ", an integer from 0 to 2^64 - 1 is needed", what,
                   STR_A(t.raw));
}

static bool read_shape(Header *h, CkptTensor *t) {
    JsonToken tok;
    if (!json_expect(&h->json, &tok, JSON_EV_ARRAY, "shape", h->err)) return false;
    while (json_next(&h->json, &tok, h->err)) {
        if (tok.event == JSON_EV_ARRAY_END) return true;
        if (t->n_dims == CKPT_MAX_DIMS) {
            return err_set(h->err, ERR_LIMIT, "shape has more than %d dimensions", CKPT_MAX_DIMS);
        }
        if (tok.event != JSON_EV_NUMBER || !str_to_u64(tok.raw, &t->shape[t->n_dims])) {
            return err_set(h->err, ERR_CORRUPT,
                           "shape holds %s " STR_F ", integers from 0 to 2^64 - 1 are needed",
                           jsonevent_name(tok.event), STR_A(tok.raw));
        }
        t->n_dims++;
    }
    return false;
}

/* data_offsets: [begin, end), counted from the data's start. */
static bool read_offsets(Header *h, CkptTensor *t) {
    JsonToken tok;
    uint64_t end;
    if (!json_expect(&h->json, &tok, JSON_EV_ARRAY, "data_offsets", h->err) ||
        !read_u64(h, "data_offsets", &t->offset) || !read_u64(h, "data_offsets", &end) ||
        !json_expect(&h->json, &tok, JSON_EV_ARRAY_END, "third value of data_offsets", h->err)) {
        return false;
    }
    if (t->offset > end || end > h->data_bytes) {
        return err_set(h->err, ERR_CORRUPT,
                       "data_offsets are [%" PRIu64 ", %" PRIu64 "], the file has %" PRIu64
                       " bytes of data",
                       t->offset, end, h->data_bytes);
    }
    t->n_bytes = end - t->offset;
    return true;
}

static bool read_dtype(Header *h, CkptTensor *t) {
    JsonToken tok;
    if (!json_expect(&h->json, &tok, JSON_EV_STRING, "dtype", h->err)) return false;
    Str name;
    if (!json_token_str(&tok, &h->st->priv->text, &name, h->err)) return false;
    t->dtype = dtype_from_safetensors(name);
    if (t->dtype != DTYPE_NONE) return true;
    return err_set(h->err, ERR_UNSUPPORTED, "dtype \"" STR_F "\" is not supported", STR_A(name));
}

/* A shape whose other dimensions overflow is refused even if one is 0: whoever multiplies it
 * later need not care. */
static bool check_size(Header *h, const CkptTensor *t) {
    uint64_t bytes = dtype_info(t->dtype)->block_bytes;
    bool overflow = false, empty = false;
    for (int i = 0; i < t->n_dims; i++) {
        if (!t->shape[i])
            empty = true;
        else if (!overflow)
            overflow = __builtin_mul_overflow(bytes, t->shape[i], &bytes);
    }
    char shape[200];
    ckpt_shape_text(t, shape, sizeof shape);
    if (overflow) {
        return err_set(h->err, ERR_CORRUPT, "shape %s has more bytes than 64 bits can count",
                       shape);
    }
    if (empty) bytes = 0;
    if (bytes == t->n_bytes) return true;
    return err_set(h->err, ERR_CORRUPT,
                   "shape %s of %s takes %" PRIu64 " bytes, data_offsets span %" PRIu64, shape,
                   dtype_info(t->dtype)->name, bytes, t->n_bytes);
}

static bool read_tensor_fields(Header *h, CkptTensor *t) {
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    static bool (*const readers[])(Header *, CkptTensor *) = {read_dtype, read_shape, read_offsets};
    JsonToken tok;
    unsigned seen = 0;
    if (!json_expect(&h->json, &tok, JSON_EV_OBJECT, "its entry", h->err)) return false;
    for (;;) {
        if (!json_next(&h->json, &tok, h->err)) return false;
        if (tok.event == JSON_EV_OBJECT_END) break;
        unsigned i = 0;
        Str field;
        if (!json_token_str(&tok, &h->st->priv->text, &field, h->err)) return false;
        while (i < 3 && !str_eqc(field, fields[i])) i++;
        if (i == 3) { /* the format may grow fields; those three say everything today */
            if (!json_skip(&h->json, &tok, h->err)) return false;
            continue;
        }
        if (seen >> i & 1) return err_set(h->err, ERR_CORRUPT, "%s is there twice", fields[i]);
        seen |= 1u << i;
        if (!readers[i](h, t)) return false;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (!(seen >> i & 1)) return err_set(h->err, ERR_CORRUPT, "%s is missing", fields[i]);
    }
    return check_size(h, t);
}

static bool read_tensor(Header *h, Str name) {
    struct SafetensorsPrivate *priv = h->st->priv;
    if (h->st->n_tensors == priv->cap_tensors) {
        size_t cap = priv->cap_tensors ? priv->cap_tensors * 2 : 256;
        CkptTensor *tensors = mem_resize_array(priv->tensors, cap, sizeof *tensors);
        if (!tensors) return err_nomem(h->err, "tensor table");
        h->st->tensors = priv->tensors = tensors;
        priv->cap_tensors = cap;
    }
    CkptTensor *t = &priv->tensors[h->st->n_tensors];
    *t = (CkptTensor){.name = name};
    if (map_find(&priv->names, name))
        return err_set(h->err, ERR_CORRUPT, "tensor " STR_F " is there twice", STR_A(name));
    if (!map_put(&priv->names, name, h->st->n_tensors)) return err_nomem(h->err, "tensor table");
    if (!read_tensor_fields(h, t)) return err_wrap(h->err, "tensor " STR_F, STR_A(name));
    h->st->n_tensors++;
    return true;
}

static bool read_metadata(Header *h) {
    struct SafetensorsPrivate *priv = h->st->priv;
    JsonToken key, value;
    if (!json_next(&h->json, &key, h->err)) return false;
    if (key.event == JSON_EV_NULL) return true; /* as MLX writes none */
    if (key.event != JSON_EV_OBJECT)
        return err_set(h->err, ERR_CORRUPT, "__metadata__ is %s, not an object",
                       jsonevent_name(key.event));
    while (json_next(&h->json, &key, h->err)) {
        if (key.event == JSON_EV_OBJECT_END) return true;
        if (h->st->n_metadata == priv->cap_metadata) {
            size_t cap = priv->cap_metadata ? priv->cap_metadata * 2 : 8;
            SafetensorsPair *pairs = mem_resize_array(priv->metadata, cap, sizeof *pairs);
            if (!pairs) return err_nomem(h->err, "__metadata__");
            h->st->metadata = priv->metadata = pairs;
            priv->cap_metadata = cap;
        }
        SafetensorsPair *pair = &priv->metadata[h->st->n_metadata];
        if (!json_token_str(&key, &priv->text, &pair->key, h->err) ||
            !json_expect(&h->json, &value, JSON_EV_STRING, "a value of __metadata__", h->err) ||
            !json_token_str(&value, &priv->text, &pair->value, h->err)) {
            return false;
        }
        h->st->n_metadata++;
    }
    return false;
}

static bool read_header(Header *h) {
    JsonToken t;
    bool metadata = false;
    if (!json_expect(&h->json, &t, JSON_EV_OBJECT, "header", h->err)) return false;
    while (json_next(&h->json, &t, h->err)) {
        if (t.event == JSON_EV_OBJECT_END)
            return json_expect(&h->json, &t, JSON_EV_END, "text after the header", h->err);
        Str name;
        if (!json_token_str(&t, &h->st->priv->text, &name, h->err)) return false;
        if (!str_eq(name, STR("__metadata__"))) {
            if (!read_tensor(h, name)) return false;
            continue;
        }
        if (metadata) return err_set(h->err, ERR_CORRUPT, "__metadata__ is there twice");
        metadata = true;
        if (!read_metadata(h)) return false;
    }
    return false;
}

static int by_offset(const void *a, const void *b) {
    const CkptTensor *x = *(const CkptTensor *const *)a, *y = *(const CkptTensor *const *)b;
    if (x->offset != y->offset) return x->offset > y->offset ? 1 : -1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* Tensors cover the data exactly: sorted by offset, each starts where the one before ended. */
static bool check_cover(const Safetensors *st, uint64_t data_bytes, Err *err) {
    const CkptTensor **order = mem_alloc(st->n_tensors * sizeof *order + 1);
    if (!order) return err_nomem(err, "tensor table");
    for (size_t i = 0; i < st->n_tensors; i++) order[i] = &st->tensors[i];
    qsort(order, st->n_tensors, sizeof *order, by_offset);
    uint64_t at = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < st->n_tensors; i++) {
        const CkptTensor *t = order[i];
        if (t->offset != at) {
            ok = err_set(err, ERR_CORRUPT,
                         "tensor " STR_F " starts at data byte %" PRIu64
                         ", the one before it ends at %" PRIu64,
                         STR_A(t->name), t->offset, at);
        }
        at = t->offset + t->n_bytes;
    }
    mem_free(order);
    if (ok && at != data_bytes) {
        ok = err_set(err, ERR_CORRUPT,
                     "tensors end at data byte %" PRIu64 ", the file has %" PRIu64 " bytes of data",
                     at, data_bytes);
    }
    return ok;
}

/* The length field against the file, before anything is allocated by it. */
static bool read_text(Safetensors *st, Str *text, Err *err) {
    uint64_t size = st->file.size_bytes, n;
    unsigned char field[8];
    if (size < 8)
        return err_set(err, ERR_CORRUPT, "the file has %" PRIu64 " bytes, a header starts with 8",
                       size);
    if (!os_file_read_at(&st->file, 0, field, sizeof field, err)) return false;
    if (!memcmp(field, "version ", 8)) {
        return err_set(err, ERR_CORRUPT,
                       "this is a Git LFS pointer, the file itself was not downloaded");
    }
    memcpy(&n, field, sizeof n);
    if (n > size - 8) {
        return err_set(err, ERR_CORRUPT,
                       "the header claims %" PRIu64 " bytes, the file has %" PRIu64 " left", n,
                       size - 8);
    }
    if (n > SAFETENSORS_MAX_HEADER_BYTES) {
        return err_set(err, ERR_LIMIT,
                       "the header has %" PRIu64 " bytes, at most %" PRIu64 " are accepted", n,
                       SAFETENSORS_MAX_HEADER_BYTES);
    }
    st->priv->header = mem_alloc((size_t)n + 1);
    if (!st->priv->header) return err_nomem(err, "safetensors header");
    st->data_offset = 8 + n;
    *text = (Str){st->priv->header, (size_t)n};
    if (!os_file_read_at(&st->file, 8, st->priv->header, (size_t)n, err)) return false;
    if (n && st->priv->header[0] == '{') return true;
    return err_set(err, ERR_CORRUPT, "the header does not start with '{'");
}

static bool parse_file(Safetensors *st, Err *err) {
    Header h = {.st = st, .err = err};
    JsonOptions opt = {.max_depth = HEADER_DEPTH, .max_bytes = SAFETENSORS_MAX_HEADER_BYTES};
    Str text;
    if (!read_text(st, &text, err)) return false;
    h.data_bytes = st->file.size_bytes - st->data_offset;
    bool ok = json_reader_open(&h.json, text, &opt, err) && read_header(&h);
    json_reader_deinit(&h.json);
    if (!ok) {
        if (err && err->kind == ERR_INPUT)
            err->kind = ERR_CORRUPT; /* JSON's own errors: here the file is at fault */
        return err_wrap(err, "header");
    }
    if (!check_cover(st, h.data_bytes, err)) return false;
    for (size_t i = 0; i < st->n_tensors; i++) st->priv->tensors[i].offset += st->data_offset;
    return true;
}

bool safetensors_open(const char *path, Safetensors **out, Err *err) {
    Safetensors *st = mem_calloc(1, sizeof *st);
    if (!st) return err_nomem(err, path);
    st->file.fd = -1;
    st->priv = mem_calloc(1, sizeof *st->priv);
    size_t n = strlen(path);
    if (!st->priv || !(st->priv->path = mem_alloc(n + 1))) {
        err_nomem(err, path);
        goto failed;
    }
    memcpy(st->priv->path, path, n + 1);
    st->path = (Str){st->priv->path, n};
    if (!os_file_open(&st->file, path, err)) goto failed;
    if (!parse_file(st, err)) {
        err_wrap(err, "%s", path);
        goto failed;
    }
    map_deinit(&st->priv->names);
    *out = st;
    return true;
failed:
    safetensors_close(st);
    return false;
}

void safetensors_close(Safetensors *st) {
    if (!st) return;
    if (st->priv) {
        map_deinit(&st->priv->names);
        arena_deinit(&st->priv->text);
        mem_free(st->priv->tensors);
        mem_free(st->priv->metadata);
        mem_free(st->priv->header);
        mem_free(st->priv->path);
        mem_free(st->priv);
    }
    os_file_close(&st->file);
    mem_free(st);
}
