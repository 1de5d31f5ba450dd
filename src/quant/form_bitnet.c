/* BitNet: weight U8 [N/4, K], bits 2i and 2i+1 of row r are code + 1 of row r + i * N/4: quarters
 * of the matrix lie over each other. weight_scale has one element and divides (linear class
 * "bitlinear") or multiplies ("autobitlinear"). */
#include "quant/forms.h"

bool form_bitnet(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_U8, DTYPE_U8, DTYPE_U8, err) ||
        !qpart_is(m, QPART_SCALE, DTYPE_F16, DTYPE_BF16, DTYPE_F32, err))
        return false;
    uint64_t rows = qpart_rows(w);
    if (!form_set_n_k(m, m->n ? m->n : rows * 4, qpart_cols(w), err)) return false;
    if (form_ceil_div(m->n, 4) != rows)
        return qpart_shaped(m, QPART_WEIGHT, form_ceil_div(m->n, 4), m->k, err);
    if (!qpart_shaped(m, QPART_SCALE, 1, 1, err)) return false;
    wf->bits = 2;
    wf->zero = 1;
    wf->row_acts = true;
    /* A quotient needs all of f32. */
    wf->scale_dtype = m->bitnet_multiplies ? m->part[QPART_SCALE].dtype : DTYPE_F32;
    form_scales_at(wf, m, m->k, 1, 0, 0);
    return true;
}

void form_bitnet_codes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                       uint64_t n1, uint8_t *codes) {
    (void)perm;
    uint64_t rows = qpart_rows(&m->part[QPART_WEIGHT]);
    for (uint64_t n = n0; n < n1; n++, codes += wf->k) {
        const uint8_t *b = qpart_at(m, QPART_WEIGHT, n % rows * wf->k);
        for (uint64_t k = 0; k < wf->k; k++) codes[k] = b[k] >> 2 * (n / rows) & 3;
    }
}
