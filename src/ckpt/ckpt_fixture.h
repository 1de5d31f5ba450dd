/* ckpt_fixture.h: builds small files for the tests of this folder. Not part of the library. */
#ifndef MLXCEL_CKPT_CKPT_FIXTURE_H
#define MLXCEL_CKPT_CKPT_FIXTURE_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/os.h"
#include "ckpt/gguf.h"

typedef struct GgufFixture {
    Buf keys, tensors, data;
    uint64_t n_keys, n_tensors;
} GgufFixture;

static inline void fx_put(Buf *b, const void *p, size_t n) { buf_put(b, (Str){p, n}); }
static inline void fx_u64(Buf *b, uint64_t v) { fx_put(b, &v, 8); }
static inline void fx_u32(Buf *b, uint32_t v) { fx_put(b, &v, 4); }
static inline void fx_text(Buf *b, const char *s) {
    fx_u64(b, strlen(s));
    buf_put(b, str_c(s));
}

static inline void fx_key(GgufFixture *f, const char *key, GgufType type, const void *value,
                          size_t n) {
    fx_text(&f->keys, key);
    fx_u32(&f->keys, type);
    fx_put(&f->keys, value, n);
    f->n_keys++;
}

static inline void fx_key_u32(GgufFixture *f, const char *key, uint32_t v) {
    fx_key(f, key, GGUF_U32, &v, 4);
}
static inline void fx_key_f32(GgufFixture *f, const char *key, float v) {
    fx_key(f, key, GGUF_F32, &v, 4);
}
static inline void fx_key_str(GgufFixture *f, const char *key, const char *v) {
    fx_key(f, key, GGUF_STRING, NULL, 0);
    fx_text(&f->keys, v);
}

static inline void fx_key_array(GgufFixture *f, const char *key, GgufType element, uint64_t n,
                                const void *p, size_t n_bytes) {
    fx_key(f, key, GGUF_ARRAY, NULL, 0);
    fx_u32(&f->keys, element);
    fx_u64(&f->keys, n);
    fx_put(&f->keys, p, n_bytes);
}

/* An f32 matrix [rows, cols]; rows 0 gives a vector. Elements count up from `first`. */
static inline void fx_tensor(GgufFixture *f, const char *name, uint64_t rows, uint64_t cols,
                             float first) {
    fx_text(&f->tensors, name);
    fx_u32(&f->tensors, rows ? 2 : 1);
    fx_u64(&f->tensors, cols);
    if (rows) fx_u64(&f->tensors, rows);
    fx_u32(&f->tensors, 0);
    fx_u64(&f->tensors, f->data.n);
    for (uint64_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        float v = first + (float)i;
        fx_put(&f->data, &v, 4);
    }
    while (f->data.n % 32) buf_putc(&f->data, 0);
    f->n_tensors++;
}

static inline void fx_gguf_bytes(const GgufFixture *f, Buf *out) {
    buf_clear(out);
    buf_put(out, STR("GGUF"));
    fx_u32(out, 3);
    fx_u64(out, f->n_tensors);
    fx_u64(out, f->n_keys);
    buf_put(out, buf_str(&f->keys));
    buf_put(out, buf_str(&f->tensors));
    while (out->n % 32) buf_putc(out, 0);
    buf_put(out, buf_str(&f->data));
}

static inline bool fx_gguf_write(GgufFixture *f, const char *path) {
    Buf out = {0};
    fx_gguf_bytes(f, &out);
    bool ok = os_write_file(path, buf_str(&out), NULL);
    buf_deinit(&out);
    buf_deinit(&f->keys);
    buf_deinit(&f->tensors);
    buf_deinit(&f->data);
    *f = (GgufFixture){0};
    return ok;
}

/* A .safetensors file of a header and n data bytes 0, 1, 2, ... */
static inline bool fx_safetensors_write(const char *path, const char *header, size_t n) {
    Buf out = {0};
    fx_text(&out, header);
    for (size_t i = 0; i < n; i++) buf_putc(&out, (char)i);
    bool ok = os_write_file(path, buf_str(&out), NULL);
    buf_deinit(&out);
    return ok;
}

/* "dir/name" in a ring of buffers, for calls that take several. */
static inline const char *fx_path(const char *dir, const char *name) {
    static char paths[4][512];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static inline void fx_remove_dir(const char *path) {
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char inner[512];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) >= (int)sizeof inner) continue;
        if (unlink(inner)) fx_remove_dir(inner);
    }
    closedir(d);
    rmdir(path);
}

#endif
