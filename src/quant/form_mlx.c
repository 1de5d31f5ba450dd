/* MLX's own formats, and everybody's fp4 (E2M1) groups: one little-endian bit stream per row.
 *
 *   affine   weight U32 [N, K*bits/32] | scales, biases [N, K/G]     w = scale * code + bias
 *   mxfp8    weight U32 [N, K/4]       | scales U8 (E8M0) [N, K/32]  w = scale * e4m3
 *   fp4      MLX U32 [N, K/8], others U8 [N, K/2], gpt-oss U8 [N, K/32, 16]; low nibble first
 *            scales E8M0 [N, K/32] (mx) or E4M3 [N, K/16] (nvfp4), often under the name U8
 *            nvfp4's second scale: MLX multiplies by x/2688, ModelOpt by x, compressed-tensors
 *            divides by x */
#include "base/fp.h"
#include "quant/forms.h"

void form_stream_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                       uint64_t n1, uint8_t *codes) {
    (void)perm; /* no format of this kind has g_idx */
    for (uint64_t n = n0; n < n1; n++)
        bitstream_unpack(qpart_at(m, QPART_WEIGHT, n * wf->stored.row_bytes), wf->bits, wf->k,
                         codes + (n - n0) * wf->k);
}

/* bits and k from the width of the stream and whichever of the two is known. */
static bool stream_width(QMatrix *m, uint64_t cols, Err *err) {
    if (!m->k && m->bits) m->k = cols * 32 / m->bits;
    if (!m->bits && m->k && cols * 32 % m->k == 0 && cols * 32 / m->k <= 8)
        m->bits = (unsigned)(cols * 32 / m->k);
    if (m->k && m->bits && cols * 32 == m->k * m->bits) return true;
    return err_set(err, ERR_CORRUPT,
                   "mlx: weight has %llu words per row, which is not %llu columns of %u bits",
                   (unsigned long long)cols, (unsigned long long)m->k, m->bits);
}

bool form_mlx_affine(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT], *s = &m->part[QPART_SCALE];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_U32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err) ||
        !qpart_is(m, QPART_ZERO, s->dtype, s->dtype, s->dtype, err))
        return false;
    uint64_t n = qpart_rows(w), n_groups = qpart_cols(s);
    if (!stream_width(m, qpart_cols(w), err) || !form_set_n_k(m, n, m->k, err)) return false;
    if (m->bits == 7 || m->bits > 8)
        return err_set(err, ERR_UNSUPPORTED, "mlx: %u bits; 1 2 3 4 5 6 8 are accepted", m->bits);
    if (!m->group && m->k % n_groups == 0) m->group = (unsigned)(m->k / n_groups);
    if (m->group != 32 && m->group != 64 && m->group != 128)
        return err_set(
            err, ERR_UNSUPPORTED,
            "mlx: group size %u (%llu columns, %llu scales per row); 32 64 128 are accepted",
            m->group, (unsigned long long)m->k, (unsigned long long)n_groups);
    if (m->k % m->group)
        return err_set(err, ERR_CORRUPT, "mlx: %llu columns are not whole groups of %u",
                       (unsigned long long)m->k, m->group);
    if (!qpart_shaped(m, QPART_SCALE, n, m->k / m->group, err)) return false;
    if (!qpart_shaped(m, QPART_ZERO, n, qpart_cols(s), err)) return false;
    wf->bits = m->bits;
    wf->offset = WOFFSET_BIAS;
    wf->scale_dtype = s->dtype;
    wf->stored.row_bytes = m->k * m->bits / 8;
    form_scales_at(wf, m, m->group, n_groups, n_groups, 1);
    return true;
}

bool form_mlx_mxfp8(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_U32, DTYPE_U32, DTYPE_U32, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_U8, DTYPE_F8_E8M0, DTYPE_F8_E8M0, err) ||
        !form_set_n_k(m, qpart_rows(w), qpart_cols(w) * 4, err))
        return false;
    if (m->k % 32 || (m->bits && m->bits != 8) || (m->group && m->group != 32))
        return err_set(
            err, ERR_CORRUPT,
            "mlx mxfp8: %llu columns, %u bits, group %u; whole groups of 32 at 8 bits are accepted",
            (unsigned long long)m->k, m->bits, m->group);
    if (!qpart_shaped(m, QPART_SCALE, m->n, m->k / 32, err)) return false;
    wf->kind = WFORM_FLOAT8;
    wf->plain = DTYPE_F8_E4M3;
    wf->bits = 8;
    wf->sub = WSUB_E8M0;
    for (int c = 0; c < 256; c++) wf->values[c] = fp_e4m3_to_f32((uint8_t)c);
    wf->stored.row_bytes = m->k;
    form_scales_at(wf, m, 32, m->k / 32, m->k / 32, 1);
    return true;
}

/* The weight tensor holds k/2 bytes per row, in the shape its format has. */
static bool fp4_shape(QMatrix *m, Err *err) {
    const QPart *w = &m->part[QPART_WEIGHT];
    bool mlx = m->format == QFORMAT_MLX_MXFP4 || m->format == QFORMAT_MLX_NVFP4;
    if (m->format == QFORMAT_GPTOSS_MXFP4) {
        if (w->n_dims < 3 || qpart_cols(w) != 16)
            return err_set(err, ERR_CORRUPT,
                           "gpt-oss mxfp4: blocks has %d dimensions, the last of %llu; [..., rows, "
                           "groups, 16] is accepted",
                           w->n_dims, (unsigned long long)qpart_cols(w));
        uint64_t groups = w->shape[w->n_dims - 2];
        return form_set_n_k(m, qpart_rows(w) / groups, groups * 32, err);
    }
    return form_set_n_k(m, qpart_rows(w), qpart_cols(w) * (mlx ? 8 : 2), err);
}

bool form_fp4(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    static const int8_t fp4x2[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    QFormat f = m->format;
    bool nv = f == QFORMAT_MLX_NVFP4 || f == QFORMAT_CT_NVFP4 || f == QFORMAT_MODELOPT_NVFP4;
    bool mlx = f == QFORMAT_MLX_MXFP4 || f == QFORMAT_MLX_NVFP4;
    DType words = mlx ? DTYPE_U32 : DTYPE_U8, bytes = nv ? DTYPE_F8_E4M3 : DTYPE_F8_E8M0;
    DType signed_words = f == QFORMAT_CT_MXFP4 ? DTYPE_I8 : words; /* DeepSeek's experts */
    unsigned group = nv ? 16 : 32;
    if (!qpart_is(m, QPART_WEIGHT, words, signed_words, signed_words, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_U8, bytes, bytes, err) || !fp4_shape(m, err))
        return false;
    if (m->k % group || (m->bits && m->bits != 4) || (m->group && m->group != group))
        return err_set(
            err, ERR_CORRUPT,
            "%s: %llu columns, %u bits, group %u; whole groups of %u at 4 bits are accepted",
            qformat_name(f), (unsigned long long)m->k, m->bits, m->group, group);
    if (!qpart_shaped(m, QPART_SCALE, m->n, m->k / group, err)) return false;
    if (nv && !mlx && !qpart_there(m, QPART_GLOBAL))
        return err_set(err, ERR_CORRUPT, "%s: %s is missing", qformat_name(f),
                       qpart_name(f, QPART_GLOBAL));
    if (nv && !form_global(wf, m,
                           f == QFORMAT_CT_NVFP4    ? -1
                           : f == QFORMAT_MLX_NVFP4 ? 448 * 6
                                                    : 1,
                           err))
        return false;
    wf->bits = 4;
    wf->unit = 0.5f;
    wf->sub = nv ? WSUB_E4M3 : WSUB_E8M0;
    wf->has_table = true;
    for (int c = 0; c < 16; c++) {
        wf->table[c] = fp4x2[c];
        wf->values[c] = 2 * fp_e2m1_to_f32((uint8_t)c); /* keeps -0 */
    }
    wf->stored.row_bytes = m->k / 2;
    form_scales_at(wf, m, group, m->k / group, m->k / group, 1);
    return true;
}
