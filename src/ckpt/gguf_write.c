#include "ckpt/gguf_write.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };

void gguf_write_init(GgufOut *o, Arena *a) {
    *o = (GgufOut){.a = a, .file = FILEOUT_NONE, .keys = {.max = GGUF_MAX_META_BYTES}};
}

static void put_le(Buf *b, uint64_t v, int n) {
    for (int i = 0; i < n; i++) buf_putc(b, (char)(v >> 8 * i));
}

static void put_text(Buf *b, Str s) {
    put_le(b, s.n, 8);
    buf_put(b, s);
}

static void put_key(GgufOut *o, Str key, GgufType type) {
    put_text(&o->keys, key);
    put_le(&o->keys, type, 4);
    o->n_keys++;
}

static void put_array(GgufOut *o, const char *key, GgufType element, size_t n) {
    put_key(o, str_c(key), GGUF_ARRAY);
    put_le(&o->keys, element, 4);
    put_le(&o->keys, n, 8);
}

static void put_f32(Buf *b, float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    put_le(b, u, 4);
}

void gguf_write_u32(GgufOut *o, const char *key, uint32_t v) {
    put_key(o, str_c(key), GGUF_U32);
    put_le(&o->keys, v, 4);
}

void gguf_write_f32(GgufOut *o, const char *key, float v) {
    put_key(o, str_c(key), GGUF_F32);
    put_f32(&o->keys, v);
}

void gguf_write_bool(GgufOut *o, const char *key, bool v) {
    put_key(o, str_c(key), GGUF_BOOL);
    buf_putc(&o->keys, (char)v);
}

void gguf_write_str(GgufOut *o, const char *key, Str v) {
    put_key(o, str_c(key), GGUF_STRING);
    put_text(&o->keys, v);
}

void gguf_write_strs(GgufOut *o, const char *key, const Str *v, size_t n) {
    put_array(o, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(&o->keys, v[i]);
}

void gguf_write_i32s(GgufOut *o, const char *key, const int32_t *v, size_t n) {
    put_array(o, key, GGUF_I32, n);
    for (size_t i = 0; i < n; i++) put_le(&o->keys, (uint32_t)v[i], 4);
}

void gguf_write_f32s(GgufOut *o, const char *key, const float *v, size_t n) {
    put_array(o, key, GGUF_F32, n);
    for (size_t i = 0; i < n; i++) put_f32(&o->keys, v[i]);
}

void gguf_write_bools(GgufOut *o, const char *key, const bool *v, size_t n) {
    put_array(o, key, GGUF_BOOL, n);
    for (size_t i = 0; i < n; i++) buf_putc(&o->keys, (char)v[i]);
}

void gguf_write_bytes(GgufOut *o, const char *key, Str first, Str second) {
    put_array(o, key, GGUF_U8, first.n + second.n);
    buf_put(&o->keys, first);
    buf_put(&o->keys, second);
}

void gguf_write_value(GgufOut *o, const GgufValue *v) {
    put_key(o, v->key, v->type);
    if (v->type == GGUF_STRING) put_le(&o->keys, v->bytes.n, 8);
    if (v->type == GGUF_ARRAY) {
        put_le(&o->keys, v->element, 4);
        put_le(&o->keys, v->n, 8);
    }
    buf_put(&o->keys, v->bytes);
}

static bool grow(GgufOut *o) {
    if (o->n_tensors < o->cap) return true;
    size_t cap = o->cap ? 2 * o->cap : 256;
    CkptTensor *more = arena_array(o->a, CkptTensor, cap);
    if (!more) return false;
    if (o->n_tensors) memcpy(more, o->tensors, o->n_tensors * sizeof *more);
    o->tensors = more;
    o->cap = cap;
    return true;
}

bool gguf_write_tensor(GgufOut *o, const CkptTensor *t, Err *err) {
    uint64_t n = 1, k = t->n_dims ? t->shape[t->n_dims - 1] : 1, n_bytes;
    if (t->name.n > GGUF_MAX_NAME || t->n_dims > GGUF_MAX_DIMS)
        return err_set(err, ERR_LIMIT,
                       "tensor " STR_F " of %d dimensions: GGUF takes names of %d bytes and %d "
                       "dimensions",
                       STR_A(t->name), t->n_dims, GGUF_MAX_NAME, GGUF_MAX_DIMS);
    for (int d = 0; d < t->n_dims; d++)
        if (__builtin_mul_overflow(n, t->shape[d], &n))
            return err_set(err, ERR_LIMIT, "tensor " STR_F " is too large", STR_A(t->name));
    if (dtype_info(t->dtype)->ggml_type < 0)
        return err_set(err, ERR_UNSUPPORTED, "tensor " STR_F ": GGUF has no type %s",
                       STR_A(t->name), dtype_info(t->dtype)->name);
    if (!dtype_bytes(t->dtype, n, k, &n_bytes, err))
        return err_wrap(err, "tensor " STR_F, STR_A(t->name));
    if (!grow(o)) return err_nomem(err, "a tensor table");
    o->tensors[o->n_tensors] = *t;
    o->tensors[o->n_tensors++].n_bytes = n_bytes;
    return true;
}

/* Lays the tensors out one after the other, and writes everything in front of them. */
static bool put_head(GgufOut *o, Buf *b, uint64_t *data) {
    uint64_t at = 0;
    buf_put(b, STR("GGUF"));
    put_le(b, VERSION, 4);
    put_le(b, o->n_tensors, 8);
    put_le(b, o->n_keys, 8);
    buf_put(b, buf_str(&o->keys));
    for (size_t i = 0; i < o->n_tensors; i++) {
        CkptTensor *t = &o->tensors[i];
        put_text(b, t->name);
        put_le(b, (uint32_t)t->n_dims, 4);
        for (int d = t->n_dims; d-- > 0;) put_le(b, t->shape[d], 8);
        put_le(b, (uint32_t)dtype_info(t->dtype)->ggml_type, 4);
        put_le(b, at, 8);
        t->offset = at;
        at += (t->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    while (b->n % ALIGNMENT) buf_putc(b, 0);
    *data = b->n;
    return !b->failed && !o->keys.failed;
}

bool gguf_write_open(GgufOut *o, const char *path, Err *err) {
    Buf head = {.max = GGUF_MAX_META_BYTES};
    uint64_t data;
    o->written = arena_array(o->a, uint64_t, o->n_tensors + 1);
    bool ok = o->written || err_nomem(err, "a tensor table");
    if (ok && !put_head(o, &head, &data))
        ok = buf_check(&o->keys, "GGUF keys", err) && buf_check(&head, "a GGUF header", err);
    ok = ok && fileout_open(&o->file, path, o->a, err) &&
         fileout_put(&o->file, 0, head.p, head.n, err);
    for (size_t i = 0; ok && i < o->n_tensors; i++) o->tensors[i].offset += head.n;
    /* up to the padding behind the last one: the file has its length from the start */
    if (ok && o->n_tensors) {
        const CkptTensor *t = &o->tensors[o->n_tensors - 1];
        uint64_t end = (t->offset + t->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        ok = fileout_put(&o->file, end - 1, "", 1, err);
    }
    buf_deinit(&head);
    return ok;
}

bool gguf_write_put(GgufOut *o, size_t i, uint64_t at, const void *bytes, size_t n, Err *err) {
    const CkptTensor *t = &o->tensors[i];
    if (at > t->n_bytes || n > t->n_bytes - at)
        return err_set(err, ERR_INTERNAL, "more bytes than tensor " STR_F " has", STR_A(t->name));
    o->written[i] += n;
    return fileout_put(&o->file, t->offset + at, bytes, n, err);
}

bool gguf_write_finish(GgufOut *o, Err *err) {
    for (size_t i = 0; i < o->n_tensors; i++)
        if (o->written[i] != o->tensors[i].n_bytes)
            return err_set(err, ERR_INTERNAL, "tensor " STR_F " is not complete",
                           STR_A(o->tensors[i].name));
    return fileout_finish(&o->file, err);
}

void gguf_write_drop(GgufOut *o) {
    fileout_drop(&o->file);
    buf_deinit(&o->keys);
}
