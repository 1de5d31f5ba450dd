#include "cli/npy_write.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static bool failed(const NpyOut *o, Err *err) {
    return err_set(err, ERR_IO, "cannot write %s: %s", o->path, strerror(errno));
}

/* Magic, version, length, and a Python dictionary padded so that the data begins at a multiple of
 * 64. */
static bool put_header(NpyOut *o, const uint64_t *shape, int n_dims, Err *err) {
    Buf h = {0};
    buf_put(&h, STR("{'descr': '<f4', 'fortran_order': False, 'shape': ("));
    for (int i = 0; i < n_dims; i++)
        buf_putf(&h, "%llu%s", (unsigned long long)shape[i],
                 i + 1 < n_dims ? ", "
                 : n_dims == 1  ? ","
                                : "");
    buf_put(&h, STR("), }"));
    while ((10 + h.n + 1) % 64) buf_putc(&h, ' ');
    buf_putc(&h, '\n');
    unsigned char lead[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)h.n, (unsigned char)(h.n >> 8)};
    bool ok = !h.failed && fwrite(lead, 1, sizeof lead, o->f) == sizeof lead &&
              fwrite(h.p, 1, h.n, o->f) == h.n;
    buf_deinit(&h);
    return ok || failed(o, err);
}

bool npy_create(NpyOut *o, const char *path, const uint64_t *shape, int n_dims, Arena *a,
                Err *err) {
    *o = (NpyOut){.path = path, .n_left = 1};
    for (int i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(o->n_left, shape[i], &o->n_left))
            return err_set(err, ERR_LIMIT, "%s: too large", path);
    if (!os_exists(path) || os_is_file(path)) {
        Buf b = {0};
        buf_putf(&b, "%s.%ld.part", path, (long)getpid());
        o->temporary = arena_dupz(a, buf_str(&b));
        buf_deinit(&b);
        if (!o->temporary) return err_nomem(err, "path");
    }
    o->f = fopen(o->temporary ? o->temporary : path, "wbe");
    return o->f ? put_header(o, shape, n_dims, err) : failed(o, err);
}

bool npy_put(NpyOut *o, const float *x, size_t n, Err *err) {
    if (n > o->n_left)
        return err_set(err, ERR_INTERNAL, "%s: more values than its shape has", o->path);
    o->n_left -= n;
    return fwrite(x, sizeof *x, n, o->f) == n || failed(o, err);
}

bool npy_finish(NpyOut *o, Err *err) {
    if (o->n_left)
        return err_set(err, ERR_INTERNAL, "%s: %llu values are missing", o->path,
                       (unsigned long long)o->n_left);
    FILE *f = o->f;
    o->f = NULL;
    if (fclose(f) != 0 || (o->temporary && rename(o->temporary, o->path) != 0))
        return failed(o, err);
    o->temporary = NULL;
    return true;
}

void npy_drop(NpyOut *o) {
    if (o->f) fclose(o->f);
    if (o->temporary) unlink(o->temporary);
    *o = (NpyOut){0};
}

/* 'shape': (3, 5) of the header's dictionary. */
static bool parse_shape(Str h, uint64_t shape[2]) {
    size_t at = str_find(h, STR("'shape'"), 0),
           open = str_find_char(h, '(', at == STR_NPOS ? h.n : at);
    size_t close = open == STR_NPOS ? STR_NPOS : str_find_char(h, ')', open);
    if (close == STR_NPOS) return false;
    Str list = str_slice(h, open + 1, close), part;
    int n = 0;
    while (str_split(&list, ',', &part)) {
        part = str_trim(part);
        if (!part.n) continue;
        if (n == 2 || !str_to_u64(part, &shape[n++])) return false;
    }
    return n == 2;
}

static bool read_header(NpyIn *in, const char *path, Err *err) {
    unsigned char lead[12] = {0};
    char text[4096];
    uint64_t size = in->file.size_bytes, shape[2], bytes;
    if (size < 12 || !os_file_read_at(&in->file, 0, lead, 12, err) ||
        memcmp(lead, "\x93NUMPY", 6) != 0)
        return err_set(err, ERR_CORRUPT, "%s is no .npy file", path);
    bool wide = lead[6] >= 2;
    uint64_t n = lead[8] | (uint64_t)lead[9] << 8, at = wide ? 12 : 10;
    if (wide) n |= (uint64_t)lead[10] << 16 | (uint64_t)lead[11] << 24;
    if (n > sizeof text || at + n > size)
        return err_set(err, ERR_CORRUPT, "%s: a header of %llu bytes", path, (unsigned long long)n);
    if (!os_file_read_at(&in->file, at, text, n, err)) return false;
    Str h = {text, n};
    if (str_find(h, STR("'<f4'"), 0) == STR_NPOS ||
        str_find(h, STR("'fortran_order': False"), 0) == STR_NPOS || !parse_shape(h, shape))
        return err_set(err, ERR_UNSUPPORTED, "%s: a float32 matrix in C order is accepted", path);
    in->data_at = at + n;
    in->rows = shape[0];
    in->cols = shape[1];
    if (__builtin_mul_overflow(shape[0], shape[1], &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes) || bytes > size - in->data_at)
        return err_set(err, ERR_CORRUPT, "%s: the file is shorter than its shape [%llu, %llu]",
                       path, (unsigned long long)shape[0], (unsigned long long)shape[1]);
    return true;
}

bool npy_open(NpyIn *in, const char *path, Err *err) {
    *in = (NpyIn){0};
    if (!os_file_open(&in->file, path, err)) return false;
    in->open = true;
    if (read_header(in, path, err)) return true;
    npy_close(in);
    return false;
}

bool npy_row(const NpyIn *in, uint64_t row, float *out, Err *err) {
    return os_file_read_at(&in->file, in->data_at + row * in->cols * sizeof *out, out,
                           in->cols * sizeof *out, err);
}

void npy_close(NpyIn *in) {
    if (in->open) os_file_close(&in->file);
    in->open = false;
}
