#include "cli/npy_read.h"

#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"

typedef enum Element { F4, F2, F8, I8, I4, I2, I1, U8, U4, U2, U1, B1 } Element;

struct NpyKind {
    const char *descr;
    Element element;
    uint8_t bytes;
    bool is_float;
};

static const NpyKind KINDS[] = {
    {"<f4", F4, 4, true},  {"<f2", F2, 2, true},  {"<f8", F8, 8, true},  {"<i8", I8, 8, false},
    {"<i4", I4, 4, false}, {"<i2", I2, 2, false}, {"|i1", I1, 1, false}, {"<u8", U8, 8, false},
    {"<u4", U4, 4, false}, {"<u2", U2, 2, false}, {"|u1", U1, 1, false}, {"|b1", B1, 1, false},
};

/* --- the header: a dictionary of three keys, in any order --- */

typedef struct Dict {
    Str text;
    size_t at;
} Dict;

static bool broken(const Dict *d, const char *wanted, Err *err) {
    return err_set(err, ERR_CORRUPT, "header, byte %zu: %s is needed", d->at, wanted);
}

static char peek(Dict *d) {
    while (d->at < d->text.n && d->text.p[d->at] && strchr(" \t\r\n", d->text.p[d->at])) d->at++;
    return d->at < d->text.n ? d->text.p[d->at] : 0;
}

static bool take(Dict *d, char c) {
    if (peek(d) != c) return false;
    d->at++;
    return true;
}

static bool take_string(Dict *d, Str *out, Err *err) {
    char quote = peek(d);
    size_t from = d->at + 1;
    if (quote != '\'' && quote != '"') return broken(d, "a string", err);
    size_t end = str_find_char(d->text, quote, from);
    *out = str_slice(d->text, from, end);
    if (end == STR_NPOS || str_find_char(*out, '\\', 0) != STR_NPOS ||
        str_find_char(*out, '\n', 0) != STR_NPOS)
        return broken(d, "the string's end", err);
    d->at = end + 1;
    return true;
}

static bool take_bool(Dict *d, bool *out, Err *err) {
    peek(d);
    Str rest = str_from(d->text, d->at);
    *out = str_starts(rest, STR("True"));
    if (!*out && !str_starts(rest, STR("False"))) return broken(d, "True or False", err);
    d->at += *out ? 4 : 5;
    return true;
}

static bool take_number(Dict *d, uint64_t *out, Err *err) {
    peek(d);
    size_t from = d->at, to = from;
    while (to < d->text.n && d->text.p[to] >= '0' && d->text.p[to] <= '9') to++;
    Str digits = str_slice(d->text, from, to);
    if (!str_to_u64(digits, out) || (digits.n > 1 && digits.p[0] == '0'))
        return broken(d, "a whole number", err);
    d->at = to;
    return true;
}

/* (), (3,), (3, 5): one number without a comma is no tuple. */
static bool take_shape(Dict *d, NpyHeader *h, Err *err) {
    bool comma = false;
    if (!take(d, '(')) return broken(d, "a tuple", err);
    while (!take(d, ')')) {
        if (h->n_dims && !comma) return broken(d, "a comma or )", err);
        if (h->n_dims == MLXCEL_MAX_DIMS)
            return err_set(err, ERR_LIMIT, "more than %d dimensions", MLXCEL_MAX_DIMS);
        if (!take_number(d, &h->dims[h->n_dims++], err)) return false;
        comma = take(d, ',');
    }
    return h->n_dims != 1 || comma || broken(d, "a comma in a tuple of one", err);
}

static bool take_kind(Dict *d, NpyHeader *h, Err *err) {
    Str descr;
    if (peek(d) == '[')
        return err_set(err, ERR_UNSUPPORTED, "records of several fields; plain numbers are needed");
    if (!take_string(d, &descr, err)) return false;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (str_eqc(descr, KINDS[i].descr)) h->kind = &KINDS[i];
    return h->kind || err_set(err, ERR_UNSUPPORTED,
                              "elements of type '" STR_F "'; little-endian f2 f4 f8, i1 to i8, "
                              "u1 to u8 and b1 are accepted",
                              STR_A(descr));
}

static bool take_pair(Dict *d, NpyHeader *h, unsigned *seen, Err *err) {
    static const char *const KEYS[] = {"descr", "fortran_order", "shape"};
    Str key;
    unsigned k = 0;
    size_t at = d->at;
    if (!take_string(d, &key, err)) return false;
    while (k < 3 && !str_eqc(key, KEYS[k])) k++;
    if (k == 3 || *seen & 1u << k) {
        d->at = at;
        return broken(d, "each of descr, fortran_order and shape once", err);
    }
    *seen |= 1u << k;
    if (!take(d, ':')) return broken(d, "a colon", err);
    return k == 0   ? take_kind(d, h, err)
           : k == 1 ? take_bool(d, &h->fortran, err)
                    : take_shape(d, h, err);
}

static bool count(NpyHeader *h, Err *err) {
    uint64_t bytes;
    h->n = 1;
    for (uint32_t i = 0; i < h->n_dims; i++)
        if (__builtin_mul_overflow(h->n, h->dims[i], &h->n) ||
            __builtin_mul_overflow(h->n, h->kind->bytes, &bytes))
            return err_set(err, ERR_LIMIT, "the shape has more elements than 64 bits can count");
    return true;
}

bool npy_parse_header(Str text, NpyHeader *out, Err *err) {
    Dict d = {.text = text};
    unsigned seen = 0;
    bool comma = true;
    *out = (NpyHeader){0};
    if (!take(&d, '{')) return broken(&d, "{", err);
    while (!take(&d, '}')) {
        if (!comma) return broken(&d, "a comma or }", err);
        if (!take_pair(&d, out, &seen, err)) return false;
        comma = take(&d, ',');
    }
    if (seen != 7) return broken(&d, "each of descr, fortran_order and shape once", err);
    peek(&d);
    if (d.at != text.n) return broken(&d, "the header's end", err);
    return count(out, err);
}

/* --- files --- */

/* Magic, version (two bytes), length of the header (two bytes, from version 2 on four). */
static bool read_header(const OsFile *f, const char *path, NpyHeader *h, uint64_t *data_at,
                        Err *err) {
    unsigned char lead[12] = {0};
    char text[NPY_HEADER_MAX];
    uint64_t size = f->size_bytes;
    if (size < sizeof lead) return err_set(err, ERR_CORRUPT, "%s is no .npy file", path);
    if (!os_file_read_at(f, 0, lead, sizeof lead, err)) return false;
    if (memcmp(lead, "\x93NUMPY", 6) != 0)
        return err_set(err, ERR_CORRUPT, "%s is no .npy file", path);
    if (lead[6] < 1 || lead[6] > 3 || lead[7] != 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: version %d.%d of the format; 1.0, 2.0 and 3.0 are accepted", path,
                       lead[6], lead[7]);
    uint64_t n = lead[8] | (uint64_t)lead[9] << 8, at = lead[6] == 1 ? 10 : 12;
    if (lead[6] > 1) n |= (uint64_t)lead[10] << 16 | (uint64_t)lead[11] << 24;
    if (n > size - at)
        return err_set(err, ERR_CORRUPT, "%s: the file ends within its header of %llu bytes", path,
                       (unsigned long long)n);
    if (n > sizeof text)
        return err_set(err, ERR_LIMIT, "%s: a header of %llu bytes; at most %d are accepted", path,
                       (unsigned long long)n, NPY_HEADER_MAX);
    if (!os_file_read_at(f, at, text, n, err)) return false;
    if (!npy_parse_header((Str){text, n}, h, err)) return err_wrap(err, "%s", path);
    *data_at = at + n;
    if (h->n * h->kind->bytes == size - *data_at) return true;
    return err_set(err, ERR_CORRUPT, "%s has %llu bytes of data, its shape and type need %llu",
                   path, (unsigned long long)(size - *data_at),
                   (unsigned long long)(h->n * h->kind->bytes));
}

#define EACH(T, target, value)                                                                     \
    for (size_t i = 0; i < n; i++) {                                                               \
        T v;                                                                                       \
        memcpy(&v, from + i * sizeof v, sizeof v);                                                 \
        (target)[i] = (value);                                                                     \
    }                                                                                              \
    return true

static bool from_f8(const unsigned char *from, size_t n, float *x, Err *err) {
    for (size_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        x[i] = (float)v;
        if (isinf(x[i]) && !isinf(v))
            return err_set(err, ERR_INPUT, "element %zu is %g, which no float32 holds", i, v);
    }
    return true;
}

static bool from_u8(const unsigned char *from, size_t n, int64_t *x, Err *err) {
    for (size_t i = 0; i < n; i++) {
        uint64_t v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        if (v > INT64_MAX)
            return err_set(err, ERR_INPUT, "element %zu is %llu, which no int64 holds", i,
                           (unsigned long long)v);
        x[i] = (int64_t)v;
    }
    return true;
}

static bool convert(const NpyKind *kind, const unsigned char *from, size_t n, void *to, Err *err) {
    float *x = to;
    int64_t *k = to;
    switch (kind->element) {
    case F4:
        EACH(float, x, v);
    case F2:
        EACH(uint16_t, x, fp_f16_to_f32(v));
    case F8:
        return from_f8(from, n, x, err);
    case I8:
        EACH(int64_t, k, v);
    case I4:
        EACH(int32_t, k, v);
    case I2:
        EACH(int16_t, k, v);
    case I1:
        EACH(int8_t, k, v);
    case U8:
        return from_u8(from, n, k, err);
    case U4:
        EACH(uint32_t, k, v);
    case U2:
        EACH(uint16_t, k, v);
    case U1:
        EACH(uint8_t, k, v);
    case B1:
        EACH(uint8_t, k, v != 0);
    }
    return err_set(err, ERR_INTERNAL, "a type of elements without a conversion");
}

/* Elements in file order, first dimension innermost, into C order. */
static void transpose(const NpyHeader *h, const char *from, size_t size, char *to) {
    uint64_t index[MLXCEL_MAX_DIMS] = {0}, stride[MLXCEL_MAX_DIMS], at = 0, step = 1;
    for (uint32_t i = 0; i < h->n_dims; step *= h->dims[i++]) stride[i] = step;
    for (uint64_t i = 0; i < h->n; i++) {
        memcpy(to + i * size, from + at * size, size);
        for (uint32_t k = h->n_dims; k-- > 0;) {
            at += stride[k];
            if (++index[k] < h->dims[k]) break;
            at -= stride[k] * h->dims[k];
            index[k] = 0;
        }
    }
}

static bool read_data(const OsFile *f, const NpyHeader *h, uint64_t at, Arena *a, void **out,
                      Err *err) {
    size_t size = h->kind->is_float ? sizeof(float) : sizeof(int64_t), n = (size_t)h->n;
    bool turn = h->fortran && h->n_dims > 1;
    unsigned char *raw = mem_alloc(n * h->kind->bytes);
    char *plain = turn ? mem_alloc(n * size) : NULL;
    *out = arena_alloc_n(a, n ? n : 1, size);
    bool ok = (raw && *out && (plain || !turn)) || err_nomem(err, "array");
    ok = ok && os_file_read_at(f, at, raw, n * h->kind->bytes, err) &&
         convert(h->kind, raw, n, turn ? (void *)plain : *out, err);
    if (ok && turn) transpose(h, plain, size, *out);
    mem_free(raw);
    mem_free(plain);
    return ok;
}

bool npy_read(const char *path, Arena *a, mlxcel_tensor *out, Err *err) {
    OsFile f;
    NpyHeader h;
    uint64_t data_at;
    void *data;
    if (!os_file_open(&f, path, err)) return false;
    bool ok = read_header(&f, path, &h, &data_at, err);
    if (ok && h.n > NPY_ELEMENTS_MAX)
        ok = err_set(err, ERR_LIMIT, "%s has %llu elements; at most %d are accepted", path,
                     (unsigned long long)h.n, NPY_ELEMENTS_MAX);
    if (ok && !read_data(&f, &h, data_at, a, &data, err)) ok = err_wrap(err, "%s", path);
    os_file_close(&f);
    if (!ok) return false;
    out->type = h.kind->is_float ? MLXCEL_F32 : MLXCEL_I64;
    out->n_dims = h.n_dims;
    memcpy(out->dims, h.dims, sizeof h.dims);
    out->data = data;
    return true;
}

bool npy_open(NpyIn *in, const char *path, Err *err) {
    NpyHeader h;
    *in = (NpyIn){0};
    if (!os_file_open(&in->file, path, err)) return false;
    in->open = true;
    bool ok = read_header(&in->file, path, &h, &in->data_at, err);
    if (ok && (h.kind->element != F4 || h.fortran || h.n_dims != 2))
        ok = err_set(err, ERR_UNSUPPORTED,
                     "%s: elements of type '%s' in %u dimensions%s; a float32 matrix in C order is "
                     "accepted",
                     path, h.kind->descr, h.n_dims, h.fortran ? " in Fortran order" : "");
    if (!ok) {
        npy_close(in);
        return false;
    }
    in->rows = h.dims[0];
    in->cols = h.dims[1];
    return true;
}

bool npy_row(const NpyIn *in, uint64_t row, float *out, Err *err) {
    return os_file_read_at(&in->file, in->data_at + row * in->cols * sizeof *out, out,
                           in->cols * sizeof *out, err);
}

void npy_close(NpyIn *in) {
    if (in->open) os_file_close(&in->file);
    in->open = false;
}
