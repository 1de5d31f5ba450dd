/* GPTQ and AWQ: stored [K, N], against everything else.
 *
 *   GPTQ  qweight I32 [K*bits/32, N]   bit stream down each column; 3 bits straddle words
 *         qzeros  I32 [groups, N*bits/32]   bit stream along each row; v1 files hold zero - 1
 *         scales [groups, N] | g_idx I32 [K], the group of every input column
 *   AWQ   qweight I32 [K, N/8]   nibble i of word c is column 8c + (0 2 4 6 1 3 5 7)[i]
 *         qzeros  I32 [K/G, N/8] the same | scales [K/G, N] */
#include <string.h>

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

enum { GPTQ_RUN = 32, GPTQ_ROWS = 16 };

/* Columns [k, k + 32) of output n: `bits` whole words down a column. */
static void gptq_run(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t k, uint8_t *codes) {
    uint8_t b[GPTQ_RUN + 8] = {0};
    for (unsigned j = 0; j < wf->bits; j++)
        memcpy(b + 4 * j, qpart_word(m, QPART_WEIGHT, k * wf->bits / 32 + j, wf->n, n), 4);
    bitstream_unpack(b, wf->bits, GPTQ_RUN, codes);
}

static unsigned gptq_code(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t k) {
    unsigned bits = wf->bits, shift = (unsigned)(k * bits % 32);
    uint64_t word = k * bits / 32;
    uint32_t v = load_u32(qpart_word(m, QPART_WEIGHT, word, wf->n, n)) >> shift;
    if (shift + bits > 32)
        v |= load_u32(qpart_word(m, QPART_WEIGHT, word + 1, wf->n, n)) << (32 - shift);
    return v & ((1u << bits) - 1);
}

/* A few outputs side by side, which stand in one cache line of each stored row. */
void form_gptq_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                     uint64_t n1, uint8_t *codes) {
    const uint64_t whole = perm ? 0 : wf->k / GPTQ_RUN * GPTQ_RUN;
    for (uint64_t from = n0; from < n1; from += GPTQ_ROWS) {
        uint64_t to = n1 - from < GPTQ_ROWS ? n1 : from + GPTQ_ROWS;
        uint8_t *out = codes + (from - n0) * wf->k;
        for (uint64_t k = 0; k < whole; k += GPTQ_RUN)
            for (uint64_t n = from; n < to; n++)
                gptq_run(wf, m, n, k, out + (n - from) * wf->k + k);
        for (uint64_t p = whole; p < wf->k; p++)
            for (uint64_t n = from; n < to; n++)
                out[(n - from) * wf->k + p] = (uint8_t)gptq_code(wf, m, n, perm ? perm[p] : p);
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

/* Eight inputs of the eight outputs of word c: a word each. */
static void awq_square(const WForm *wf, const QMatrix *m, uint64_t c, uint64_t k, uint64_t n_k,
                       uint64_t out[8]) {
    memset(out, 0, 8 * sizeof *out);
    for (uint64_t i = 0; i < n_k; i++) {
        uint32_t v = load_u32(qpart_word(m, QPART_WEIGHT, k + i, wf->n / 8, c));
        for (int j = 0; j < 8; j++) out[j] |= (uint64_t)(v >> awq_shift[j] & 15) << 8 * i;
    }
}

void form_awq_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                    uint64_t n1, uint8_t *codes) {
    (void)perm;
    for (uint64_t c = n0 / 8; c * 8 < n1; c++)
        for (uint64_t k = 0; k < wf->k; k += 8) {
            uint64_t out[8], n_k = wf->k - k < 8 ? wf->k - k : 8;
            uint8_t bytes[8];
            awq_square(wf, m, c, k, n_k, out);
            for (uint64_t n = c * 8 < n0 ? n0 : c * 8; n < n1 && n < c * 8 + 8; n++) {
                store_u64(bytes, out[n % 8]);
                memcpy(codes + (n - n0) * wf->k + k, bytes, n_k);
            }
        }
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
