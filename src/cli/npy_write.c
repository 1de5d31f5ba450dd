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
    buf_putf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (",
             o->type == MLXCEL_I64 ? "<i8" : "<f4");
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

bool npy_create(NpyOut *o, const char *path, int type, const uint64_t *shape, int n_dims, Arena *a,
                Err *err) {
    *o = (NpyOut){.path = path, .type = type, .n_left = 1};
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

bool npy_put(NpyOut *o, const void *x, size_t n, Err *err) {
    size_t size = o->type == MLXCEL_I64 ? sizeof(int64_t) : sizeof(float);
    if (n > o->n_left)
        return err_set(err, ERR_INTERNAL, "%s: more values than its shape has", o->path);
    o->n_left -= n;
    return fwrite(x, size, n, o->f) == n || failed(o, err);
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

bool npy_write(const char *path, const mlxcel_tensor *t, Arena *a, Err *err) {
    NpyOut o;
    bool ok = npy_create(&o, path, t->type, t->dims, (int)t->n_dims, a, err) &&
              npy_put(&o, t->data, o.n_left, err) && npy_finish(&o, err);
    npy_drop(&o);
    return ok;
}
