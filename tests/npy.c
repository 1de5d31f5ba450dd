#include "npy.h"

#include <string.h>

#include "base/os.h"

/* The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (40, 256),
 * } */
bool npy_load(const char *path, Npy *out, Err *err) {
    *out = (Npy){0};
    if (!os_read_file(path, (size_t)1 << 30, &out->bytes, err)) return false;
    Str s = buf_str(&out->bytes);
    if (s.n < 10 || memcmp(s.p, "\x93NUMPY", 6) != 0)
        return err_set(err, ERR_CORRUPT, "%s is no npy file", path);
    size_t n = (unsigned char)s.p[8] | (size_t)(unsigned char)s.p[9] << 8;
    Str header = str_slice(s, 10, 10 + n);
    bool ints = str_find(header, STR("'<i4'"), 0) != STR_NPOS;
    if (!ints && str_find(header, STR("'<f4'"), 0) == STR_NPOS)
        return err_set(err, ERR_UNSUPPORTED, "%s is neither float32 nor int32", path);
    size_t at = str_find(header, STR("'shape': ("), 0);
    if (at == STR_NPOS) return err_set(err, ERR_CORRUPT, "%s has no shape", path);
    Str dims = str_from(header, at + 10), part;
    dims.n = str_find_char(dims, ')', 0);
    out->n = 1;
    while (out->n_dims < 8 && str_split(&dims, ',', &part)) {
        uint64_t v;
        if (!str_to_u64(str_trim(part), &v)) continue;
        out->shape[out->n_dims++] = v;
        out->n *= v;
    }
    if (s.n - 10 - n != out->n * sizeof(float))
        return err_set(err, ERR_CORRUPT, "%s has the wrong length", path);
    /* Headers are padded so that the data begins on a multiple of 64 (16 in old files). */
    const void *data = s.p + 10 + n;
    if (ints)
        out->ints = data;
    else
        out->data = data;
    return true;
}

void npy_free(Npy *a) { buf_deinit(&a->bytes); }
