#include "quant/decode.h"

#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "quant/blocks.h"
#include "quant/forms.h"

enum {
    DECODE_TILE_ROWS = 16
}; /* transposed formats are read column by column: several rows at once save passes */

static float plain_element(DType t, const uint8_t *p) {
    double f64;
    uint64_t u = t == DTYPE_F64 ? load_u64(p) : 0;
    switch (t) {
    case DTYPE_F32:
        return fp_from_bits(load_u32(p));
    case DTYPE_F64:
        memcpy(&f64, &u, 8);
        return (float)f64;
    case DTYPE_I64:
        return (float)(int64_t)load_u64(p);
    case DTYPE_U64:
        return (float)load_u64(p);
    case DTYPE_I32:
        return (float)(int32_t)load_u32(p);
    case DTYPE_U32:
        return (float)load_u32(p);
    case DTYPE_I16:
        return (int16_t)load_u16(p);
    case DTYPE_U16:
        return load_u16(p);
    case DTYPE_I8:
        return (int8_t)*p;
    case DTYPE_U8:
        return *p;
    case DTYPE_BOOL:
        return *p != 0;
    case DTYPE_F8_E4M3:
        return fp_e4m3_to_f32(*p);
    case DTYPE_F8_E5M2:
        return fp_e5m2_to_f32(*p);
    case DTYPE_F8_E8M0:
        return fp_e8m0_to_f32(*p);
    default:
        return NAN; /* F16 and BF16 have loops of their own; blocks do not come here */
    }
}

static void decode_plain(DType t, const uint8_t *p, uint64_t n, float *out) {
    unsigned size = dtype_info(t)->block_bytes;
    if (t == DTYPE_F16)
        for (uint64_t i = 0; i < n; i++) out[i] = fp_f16_to_f32(load_u16(p + 2 * i));
    else if (t == DTYPE_BF16)
        for (uint64_t i = 0; i < n; i++) out[i] = fp_bf16_to_f32(load_u16(p + 2 * i));
    else
        for (uint64_t i = 0; i < n; i++) out[i] = plain_element(t, p + i * size);
}

/* n codes of one group. s is exact (or a correctly rounded double), so each branch rounds once: an
 * f16 or bf16 scale times sub-scale and code is exact in f32; a fused multiply-add; the product of
 * a double of at most 45 bits and a small value. */
static void decode_group(const WForm *wf, const uint8_t *codes, uint64_t n, double s, int zero,
                         float bias, float *out) {
    if (wf->offset == WOFFSET_BIAS && wf->scale_dtype != DTYPE_F32)
        for (uint64_t i = 0; i < n; i++) out[i] = (float)s * wf->values[codes[i]] + bias;
    else if (wf->offset == WOFFSET_BIAS)
        for (uint64_t i = 0; i < n; i++) out[i] = fmaf((float)s, wf->values[codes[i]], bias);
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = (float)(s * ((double)wf->values[codes[i]] - zero));
}

static void decode_blocks(const WForm *wf, const QMatrix *m, uint64_t n, float *out) {
    DType type = m->part[QPART_WEIGHT].dtype;
    const BlockLayout *l = block_layout(type);
    const DTypeInfo *t = dtype_info(type);
    const uint8_t *b = qpart_at(m, QPART_WEIGHT, n * wf->stored.row_bytes);
    double second = l->has_d ? 1 : form_second_scale(wf, m, n);
    for (uint64_t i = 0; i < wf->k / t->block_elements; i++, b += t->block_bytes) {
        uint8_t codes[256];
        BlockScales s = {.d = 1};
        l->unpack(b, codes, &s);
        for (unsigned g = 0; g < t->block_elements / l->group; g++, out += l->group) {
            double scale = s.d * second, bias = s.dmin;
            if (l->sub != WSUB_NONE) {
                scale *= l->unit * wform_widen(l->sub, s.sub[g]);
                bias *= -(double)s.sub_min[g];
            }
            decode_group(wf, codes + g * l->group, l->group, scale, l->zero, (float)bias, out);
        }
    }
}

/* One row of codes in file order. Columns of a group are neighbours unless there is a g_idx. */
static void decode_codes(const WForm *wf, const QMatrix *m, uint64_t n, const uint8_t *codes,
                         float *out) {
    const struct WFormStored *st = &wf->stored;
    bool bias = wf->offset == WOFFSET_BIAS;
    uint64_t step = st->g_idx ? 1 : st->group;
    for (uint64_t k = 0; k < wf->k; k += step) {
        uint64_t g = st->g_idx ? st->g_idx[k] : k / st->group,
                 len = wf->k - k < step ? wf->k - k : step;
        decode_group(wf, codes + k, len, form_scale(wf, m, n, g), bias ? 0 : form_zero(wf, m, n, g),
                     bias ? form_bias(wf, m, n, g) : 0, out + k);
    }
}

bool decode_with(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, float *out,
                 Err *err) {
    if (!form_has_bytes(wf, m, n0, n1, err)) return false;
    if (wf->kind == WFORM_PLAIN && m->format == QFORMAT_ROWS) {
        if (n0 < n1)
            decode_plain(wf->plain, qpart_at(m, QPART_WEIGHT, n0 * wf->stored.row_bytes),
                         (n1 - n0) * wf->k, out);
        return true;
    }
    if (m->format == QFORMAT_ROWS) {
        for (uint64_t n = n0; n < n1; n++) decode_blocks(wf, m, n, out + (n - n0) * wf->k);
        return true;
    }
    uint8_t *codes = mem_alloc((size_t)wf->k * DECODE_TILE_ROWS);
    if (!codes) return err_nomem(err, "a decoded tile");
    for (uint64_t n = n0; n < n1; n += DECODE_TILE_ROWS) {
        uint64_t end = n1 - n < DECODE_TILE_ROWS ? n1 : n + DECODE_TILE_ROWS;
        form_codes(m->format)(wf, m, NULL, n, end, codes);
        for (uint64_t r = n; r < end; r++)
            decode_codes(wf, m, r, codes + (r - n) * wf->k, out + (r - n0) * wf->k);
    }
    mem_free(codes);
    return true;
}

void decode_block(DType t, const uint8_t *block, float *out) {
    const BlockLayout *l = block_layout(t);
    unsigned n = dtype_info(t)->block_elements;
    uint8_t codes[256];
    BlockScales s = {.d = 1};
    l->unpack(block, codes, &s);
    for (unsigned i = 0; i < n; i++) {
        unsigned g = i / l->group;
        double scale = s.d;
        if (l->sub != WSUB_NONE) scale *= l->unit * wform_widen(l->sub, s.sub[g]);
        int value = l->table ? l->table[codes[i]] : codes[i] - l->zero;
        float bias = l->offset != WOFFSET_BIAS ? 0
                     : l->sub != WSUB_NONE     ? -(s.dmin * s.sub_min[g])
                                               : s.dmin;
        out[i] =
            l->offset == WOFFSET_BIAS ? (float)scale * (float)value + bias : (float)(scale * value);
    }
}

bool decode_matrix(const QMatrix *m, uint64_t n0, uint64_t n1, float *out, Err *err) {
    QMatrix copy = *m;
    Arena a = {0};
    WForm wf;
    bool ok = wform_init(&wf, &copy, &a, err) && decode_with(&wf, &copy, n0, n1, out, err);
    arena_deinit(&a);
    return ok;
}

bool decode_rows(DType t, const void *rows, uint64_t n_bytes, uint64_t n_rows, uint64_t k,
                 float *out, Err *err) {
    uint64_t need, elements;
    if (__builtin_mul_overflow(n_rows, k, &elements) || elements > QMATRIX_MAX_ELEMENTS)
        return err_set(err, ERR_LIMIT, "%llu rows of %llu elements are more than 2^48",
                       (unsigned long long)n_rows, (unsigned long long)k);
    if (!dtype_bytes(t, elements, k, &need, err)) return false;
    if (need != n_bytes)
        return err_set(err, ERR_CORRUPT,
                       "%llu bytes given, %llu rows of %llu %s elements have %llu",
                       (unsigned long long)n_bytes, (unsigned long long)n_rows,
                       (unsigned long long)k, dtype_info(t)->name, (unsigned long long)need);
    if (elements == 0) return true;
    if (!block_layout(t)) {
        decode_plain(t, rows, elements, out);
        return true;
    }
    const uint64_t shape[2] = {n_rows, k};
    QMatrix m = {.format = QFORMAT_ROWS};
    m.part[QPART_WEIGHT] = qpart_of(t, 2, shape, rows, n_bytes);
    return decode_matrix(&m, 0, n_rows, out, err);
}
