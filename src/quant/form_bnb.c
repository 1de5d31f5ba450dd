/* bitsandbytes 4 bit (nf4, fp4): weight U8 [N*K/2, 1], flat row-major, high nibble first; one
 * absmax per block of 64 along the flat order, over the ends of rows; a table of 16 floats. Double
 * quantization: absmax is U8, looked up in nested_quant_map, times nested_absmax per 256 blocks,
 * plus an offset (from the JSON tensor weight.quant_state.*, which the caller reads). */
#include <math.h>

#include "base/fp.h"
#include "quant/blocks.h"
#include "quant/forms.h"

static float f32_at(const QMatrix *m, QPartId id, uint64_t i) {
    return fp_from_bits(load_u32(qpart_at(m, id, i * 4)));
}

/* Scales stay the bytes they are. A nested block is a run along the flat order, which begins
 * anywhere in a row. */
static bool bnb_keep_bytes(WForm *wf, const QMatrix *m, uint64_t block, Arena *a, Err *err) {
    const QPart *t = &m->part[QPART_NESTED_TABLE];
    if (!t->data || t->from || t->n_bytes < 1024) return true; /* unknown yet: f32 scales */
    float *values = arena_array(a, float, 256);
    if (!values) return err_nomem(err, "nested scales");
    for (uint64_t i = 0; i < 256; i++) values[i] = f32_at(m, QPART_NESTED_TABLE, i);
    wf->sub = WSUB_NESTED;
    wf->nested = values;
    wf->nested_offset = m->bnb_nested_offset;
    wf->flat_super = block * m->bnb_nested_block;
    return true;
}

static bool bnb_nested(WForm *wf, QMatrix *m, uint64_t block, uint64_t n_blocks, Arena *a,
                       Err *err) {
    if (!m->bnb_nested_block) m->bnb_nested_block = 256;
    uint64_t n = form_ceil_div(n_blocks, m->bnb_nested_block);
    if (!qpart_is(m, QPART_NESTED_SCALE, DTYPE_F32, DTYPE_F32, DTYPE_F32, err) ||
        !qpart_is(m, QPART_NESTED_TABLE, DTYPE_F32, DTYPE_F32, DTYPE_F32, err))
        return false;
    if (qpart_count(&m->part[QPART_NESTED_SCALE]) != n ||
        qpart_count(&m->part[QPART_NESTED_TABLE]) != 256)
        return err_set(err, ERR_CORRUPT,
                       "bitsandbytes: nested_absmax has %llu and nested_quant_map %llu elements, "
                       "%llu and 256 are needed",
                       (unsigned long long)qpart_count(&m->part[QPART_NESTED_SCALE]),
                       (unsigned long long)qpart_count(&m->part[QPART_NESTED_TABLE]),
                       (unsigned long long)n);
    return bnb_keep_bytes(wf, m, block, a, err);
}

bool form_bnb(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    const QPart *t = &m->part[QPART_TABLE];
    if (!m->n || !m->k)
        return err_set(err, ERR_INTERNAL, "bitsandbytes: the shape of a flat weight must be given");
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_U8, DTYPE_U8, DTYPE_U8, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F32, DTYPE_U8, DTYPE_U8, err) ||
        !qpart_is(m, QPART_TABLE, DTYPE_F32, DTYPE_F32, DTYPE_F32, err))
        return false;
    uint64_t block = m->bnb_block ? m->bnb_block : 64, n_blocks = form_ceil_div(m->n * m->k, block);
    if (qpart_count(&m->part[QPART_WEIGHT]) != form_ceil_div(m->n * m->k, 2) ||
        qpart_count(t) != 16 || qpart_count(&m->part[QPART_SCALE]) != n_blocks)
        return err_set(err, ERR_CORRUPT,
                       "bitsandbytes: weight has %llu bytes, absmax %llu and quant_map %llu "
                       "elements; a [%llu, %llu] matrix needs %llu, %llu and 16",
                       (unsigned long long)qpart_count(&m->part[QPART_WEIGHT]),
                       (unsigned long long)qpart_count(&m->part[QPART_SCALE]),
                       (unsigned long long)qpart_count(t), (unsigned long long)m->n,
                       (unsigned long long)m->k, (unsigned long long)form_ceil_div(m->n * m->k, 2),
                       (unsigned long long)n_blocks);
    if (m->part[QPART_SCALE].dtype == DTYPE_U8 && !bnb_nested(wf, m, block, n_blocks, a, err))
        return false;
    if (!t->data || t->n_bytes < 64 || t->from)
        return err_set(err, ERR_CORRUPT, "bitsandbytes: quant_map must be read whole first");
    wf->kind = WFORM_LUT;
    wf->bits = 4;
    wf->scale_dtype = DTYPE_F32;
    wf->stored.row_bytes = m->k % 2 ? 0 : m->k / 2; /* odd rows begin within a byte */
    for (int c = 0; c < 16; c++) wf->values[c] = f32_at(m, QPART_TABLE, (uint64_t)c);
    if (m->k % block == 0) {
        form_scales_at(wf, m, block, m->k / block, m->k / block, 1);
    } else if (block % m->k == 0) {
        form_scales_at(wf, m, m->k, 1, 1, 1);
        wf->stored.row_div = block / m->k;
    } else { /* blocks go on in the next row: columns up to a common divisor share one */
        uint64_t group = form_gcd(block, m->k);
        form_scales_at(wf, m, group, m->k / group, m->k / group, 1);
        wf->flat_scale = block;
    }
    return true;
}

void form_bnb_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                    uint64_t n1, uint8_t *codes) {
    (void)perm;
    for (uint64_t i = n0 * wf->k, end = n1 * wf->k; i < end; i++)
        *codes++ = *qpart_at(m, QPART_WEIGHT, i / 2) >> (i % 2 ? 0 : 4) & 15;
}

float form_bnb_nested(const QMatrix *m, uint64_t i) { return f32_at(m, QPART_NESTED_SCALE, i); }

float form_bnb_absmax(const QMatrix *m, uint64_t i) {
    if (m->part[QPART_SCALE].dtype == DTYPE_F32) return f32_at(m, QPART_SCALE, i);
    float q = f32_at(m, QPART_NESTED_TABLE, *qpart_at(m, QPART_SCALE, i));
    return q * f32_at(m, QPART_NESTED_SCALE, i / m->bnb_nested_block) + m->bnb_nested_offset;
}

/* LLM.int8(): weight I8 [N, K], SCB F32 [N]; w = code * SCB / 127. The columns of outliers, which its
 * kernels multiply in halves, are a matter of the activations; all weights are stored so. */
bool form_bnb_int8(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_I8, DTYPE_I8, DTYPE_I8, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F32, DTYPE_F32, DTYPE_F32, err) ||
        !form_set_n_k(m, qpart_rows(w), qpart_cols(w), err))
        return false;
    if (qpart_count(&m->part[QPART_SCALE]) != m->n)
        return err_set(err, ERR_CORRUPT, "bitsandbytes int8: SCB has %llu elements for %llu rows",
                       (unsigned long long)qpart_count(&m->part[QPART_SCALE]),
                       (unsigned long long)m->n);
    m->group = 0;
    wf->bits = 8;
    wf->zero = 128;
    wf->scale_dtype = DTYPE_F32;
    wf->stored.row_bytes = m->k;
    return form_scales(wf, m, err);
}
