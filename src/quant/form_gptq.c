/* GPTQ and AWQ: stored [K, N], against everything else.
 *
 *   GPTQ  qweight I32 [K*bits/32, N]   bit stream down each column; 3 bits straddle words
 *         qzeros  I32 [groups, N*bits/32]   bit stream along each row; v1 files hold zero - 1
 *         scales [groups, N] | g_idx I32 [K], the group of every input column
 *   AWQ   qweight I32 [K, N/8]   nibble i of word c is column 8c + (0 2 4 6 1 3 5 7)[i]
 *         qzeros  I32 [K/G, N/8] the same | scales [K/G, N] */
#include "quant/blocks.h"
#include "quant/forms.h"

static const unsigned awq_shift[8] = {0, 16, 4, 20, 8, 24, 12, 28}; /* of column n % 8 */

bool form_gptq(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    const QPart *w = &m->part[QPART_WEIGHT], *gi = &m->part[QPART_G_IDX];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_I32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_ZERO, DTYPE_I32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err))
        return false;
    uint64_t words = qpart_rows(w), n_groups = qpart_rows(&m->part[QPART_SCALE]);
    if (!m->k && qpart_there(m, QPART_G_IDX)) m->k = qpart_count(gi);
    if (!m->k && m->bits) m->k = words * 32 / m->bits;
    if (!m->bits && m->k && words * 32 % m->k == 0 && words * 32 / m->k <= 8)
        m->bits = (unsigned)(words * 32 / m->k);
    if (!form_set_n_k(m, qpart_cols(w), m->k, err)) return false;
    if (m->bits != 2 && m->bits != 3 && m->bits != 4 && m->bits != 8)
        return err_set(err, ERR_UNSUPPORTED,
                       "gptq: qweight has %llu words per column of %llu codes (%u bits); 2 3 4 8 "
                       "bits are accepted",
                       (unsigned long long)words, (unsigned long long)m->k, m->bits);
    if (!qpart_shaped(m, QPART_WEIGHT, form_ceil_div(m->k * m->bits, 32), m->n, err) ||
        !qpart_shaped(m, QPART_SCALE, n_groups, m->n, err) ||
        !qpart_shaped(m, QPART_ZERO, n_groups, form_ceil_div(m->n * m->bits, 32), err))
        return false;
    uint64_t group = m->group ? m->group : form_ceil_div(m->k, n_groups);
    if (form_ceil_div(m->k, group) != n_groups)
        return err_set(err, ERR_CORRUPT, "gptq: %llu groups of %llu do not make %llu columns",
                       (unsigned long long)n_groups, (unsigned long long)group,
                       (unsigned long long)m->k);
    wf->bits = m->bits;
    wf->offset = WOFFSET_ZERO;
    wf->zero_base = m->gptq_v2 ? 0 : 1;
    wf->scale_dtype = m->part[QPART_SCALE].dtype;
    form_scales_at(wf, m, group, n_groups, 1, m->n);
    return form_g_idx(wf, m, a, err);
}

void form_gptq_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                     uint64_t n1, uint8_t *codes) {
    const uint8_t *base = qpart_at(m, QPART_WEIGHT, 0);
    unsigned bits = wf->bits, mask = (1u << bits) - 1;
    for (uint64_t p = 0; p < wf->k; p++) {
        uint64_t bit = (perm ? perm[p] : p) * bits;
        unsigned shift = bit % 32;
        const uint8_t *row = base + bit / 32 * wf->n * 4, *next = row + wf->n * 4;
        for (uint64_t n = n0; n < n1; n++) {
            uint32_t v = load_u32(row + 4 * n) >> shift;
            if (shift + bits > 32) v |= load_u32(next + 4 * n) << (32 - shift);
            codes[(n - n0) * wf->k + p] = (uint8_t)(v & mask);
        }
    }
}

bool form_awq(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_I32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_ZERO, DTYPE_I32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err) ||
        !form_set_n_k(m, qpart_cols(w) * 8, qpart_rows(w), err))
        return false;
    if (m->bits && m->bits != 4)
        return err_set(err, ERR_UNSUPPORTED, "awq: %u bits; 4 are accepted", m->bits);
    uint64_t n_groups = qpart_rows(&m->part[QPART_SCALE]);
    if (m->k % n_groups || (m->group && m->group * n_groups != m->k))
        return err_set(err, ERR_CORRUPT,
                       "awq: scales has %llu rows for %llu columns in groups of %u",
                       (unsigned long long)n_groups, (unsigned long long)m->k, m->group);
    if (!qpart_shaped(m, QPART_SCALE, n_groups, m->n, err) ||
        !qpart_shaped(m, QPART_ZERO, n_groups, m->n / 8, err))
        return false;
    wf->bits = 4;
    wf->offset = WOFFSET_ZERO;
    wf->scale_dtype = m->part[QPART_SCALE].dtype;
    form_scales_at(wf, m, m->k / n_groups, n_groups, 1, m->n);
    return true;
}

void form_awq_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                    uint64_t n1, uint8_t *codes) {
    (void)perm;
    const uint8_t *base = qpart_at(m, QPART_WEIGHT, 0);
    for (uint64_t k = 0; k < wf->k; k++)
        for (uint64_t n = n0; n < n1; n++)
            codes[(n - n0) * wf->k + k] =
                (uint8_t)(load_u32(base + (k * (wf->n / 8) + n / 8) * 4) >> awq_shift[n % 8] & 15);
}

int form_gptq_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    uint64_t row_bytes = qpart_cols(&m->part[QPART_ZERO]) * 4;
    int stored = (int)bitstream_at(qpart_at(m, QPART_ZERO, g * row_bytes), wf->bits, n);
    return m->gptq_v2 ? stored : stored + 1;
}

int form_awq_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    return (int)(load_u32(qpart_at(m, QPART_ZERO, (g * (wf->n / 8) + n / 8) * 4)) >>
                     awq_shift[n % 8] &
                 15);
}
