/* compressed-tensors, integers.
 *
 *   pack-quantized  weight_packed I32 [N, ceil(K*b/32)]    bit stream of code + 2^(b-1); releases
 *                   before the dense packer stored floor(32/b) codes per word: the columns tell
 *                   weight_scale [N, groups]
 *                   weight_zero_point I32 [ceil(N*b/32), groups], packed down the columns, or
 *                   plain I8 [N, groups] | weight_g_idx I32 [K] with activation order
 *   int-quantized   weight I8 [N, K], a byte a code however few its bits | weight_scale [N, 1], [1]
 *                   or [N, groups] | weight_zero_point I8 likewise
 *
 * w = scale * (code - zero); the offset cancels, so stored, unsigned codes and zero points are used
 * as they are. */
#include "quant/blocks.h"
#include "quant/forms.h"

static uint64_t words_for(uint64_t n, unsigned bits, unsigned per_word) {
    return per_word ? form_ceil_div(n, per_word) : form_ceil_div(n * bits, 32);
}

/* Dense (0) or codes per word; false if the number of words fits neither. */
static bool packing(uint64_t n, unsigned bits, uint64_t words, unsigned *per_word) {
    *per_word = 0;
    if (words == words_for(n, bits, 0)) return true;
    *per_word = 32 / bits;
    return words == words_for(n, bits, *per_word);
}

static bool ct_zero_shape(WForm *wf, QMatrix *m, Err *err) {
    if (!qpart_there(m, QPART_ZERO)) {
        wf->zero = 1 << (wf->bits - 1);
        return true;
    }
    wf->offset = WOFFSET_ZERO;
    const QPart *z = &m->part[QPART_ZERO];
    uint64_t n_groups = wf->stored.n_groups;
    if (!qpart_is(m, QPART_ZERO, DTYPE_I32, DTYPE_I8, DTYPE_I8, err)) return false;
    if (z->dtype == DTYPE_I8) return qpart_shaped(m, QPART_ZERO, m->n, n_groups, err);
    if (!packing(m->n, wf->bits, qpart_rows(z), &wf->stored.zero_per_word))
        wf->stored.zero_per_word = 0;
    return qpart_shaped(m, QPART_ZERO, words_for(m->n, wf->bits, wf->stored.zero_per_word),
                        n_groups, err);
}

bool form_ct_packed(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_I32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err))
        return false;
    uint64_t words = qpart_cols(w);
    if (!m->k && m->bits) m->k = words * 32 / m->bits;
    if (!m->bits && m->k && words * 32 / m->k <= 8) m->bits = (unsigned)(words * 32 / m->k);
    if (!form_set_n_k(m, qpart_rows(w), m->k, err)) return false;
    if (m->bits < 1 || m->bits > 8 || !packing(m->k, m->bits, words, &wf->stored.per_word))
        return err_set(err, ERR_CORRUPT,
                       "compressed-tensors: weight_packed has %llu words per row, which is not "
                       "%llu codes of %u bits",
                       (unsigned long long)words, (unsigned long long)m->k, m->bits);
    wf->bits = m->bits;
    wf->scale_dtype = m->part[QPART_SCALE].dtype;
    wf->stored.row_bytes = words * 4;
    return form_scales(wf, m, err) && ct_zero_shape(wf, m, err) &&
           (!qpart_there(m, QPART_G_IDX) || form_g_idx(wf, m, a, err));
}

void form_ct_packed_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                          uint64_t n1, uint8_t *codes) {
    unsigned bits = wf->bits, per = wf->stored.per_word;
    for (uint64_t n = n0; n < n1; n++, codes += wf->k) {
        const uint8_t *row = qpart_at(m, QPART_WEIGHT, n * wf->stored.row_bytes);
        if (!perm && !per) {
            bitstream_unpack(row, bits, wf->k, codes);
            continue;
        }
        for (uint64_t p = 0; p < wf->k; p++) {
            uint64_t k = perm ? perm[p] : p;
            codes[p] =
                (uint8_t)(per ? load_u32(row + k / per * 4) >> k % per * bits & ((1u << bits) - 1)
                              : bitstream_at(row, bits, k));
        }
    }
}

int form_ct_packed_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    const QPart *z = &m->part[QPART_ZERO];
    uint64_t cols = qpart_cols(z);
    unsigned bits = wf->bits, per = wf->stored.zero_per_word;
    if (z->dtype == DTYPE_I8)
        return (int8_t)*qpart_at(m, QPART_ZERO, n * cols + g) + (1 << (bits - 1));
    uint64_t bit = per ? n / per * 32 + n % per * bits : n * bits;
    unsigned shift = bit % 32;
    uint32_t v = load_u32(qpart_at(m, QPART_ZERO, (bit / 32 * cols + g) * 4)) >> shift;
    if (shift + bits > 32)
        v |= load_u32(qpart_at(m, QPART_ZERO, ((bit / 32 + 1) * cols + g) * 4)) << (32 - shift);
    return (int)(v & ((1u << bits) - 1));
}

bool form_ct_int(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_I8, DTYPE_I8, DTYPE_I8, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err) ||
        !form_set_n_k(m, qpart_rows(w), qpart_cols(w), err))
        return false;
    if (m->bits > 8)
        return err_set(err, ERR_UNSUPPORTED,
                       "compressed-tensors int-quantized: %u bits; 1 to 8 are accepted", m->bits);
    wf->bits = 8;
    wf->zero = 128;
    wf->scale_dtype = m->part[QPART_SCALE].dtype;
    wf->stored.row_bytes = m->k;
    if (!form_scales(wf, m, err)) return false;
    if (!qpart_there(m, QPART_ZERO)) return true;
    wf->offset = WOFFSET_ZERO;
    const QPart *s = &m->part[QPART_SCALE];
    return qpart_is(m, QPART_ZERO, DTYPE_I8, DTYPE_I8, DTYPE_I8, err) &&
           qpart_shaped(m, QPART_ZERO, qpart_rows(s), qpart_cols(s), err);
}

void form_ct_int_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                       uint64_t n1, uint8_t *codes) {
    (void)perm;
    const uint8_t *q = qpart_at(m, QPART_WEIGHT, n0 * wf->k);
    for (uint64_t i = 0; i < (n1 - n0) * wf->k; i++) codes[i] = q[i] ^ 0x80;
}

int form_ct_int_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    return (int8_t)*qpart_at(m, QPART_ZERO,
                             n * wf->stored.row_stride + g * wf->stored.group_stride) +
           128;
}
