/* One-byte floats with a scale per tensor, per row, per block, or none; per item of an expert stack
 * where there is one.
 *
 *   weight F8_E4M3 or F8_E5M2 [N, K]
 *   scale  0-d or [1] | [N] or [N, 1] | [ceil(N/bn), ceil(K/bk)]
 *          F32, BF16, F16, or powers of two as F8_E8M0 or U8 ("ue8m0")
 *
 * The scale is multiplied, whatever "_inv" in its name suggests. The last blocks may be partial, so
 * the block size is the configured one and never derived from the shapes. */
#include "base/fp.h"
#include "quant/forms.h"

/* Block scales, or one per stack item. Rows of a stack item: n / E. */
static bool fp8_scales(WForm *wf, QMatrix *m, Err *err) {
    const QPart *w = &m->part[QPART_WEIGHT], *s = &m->part[QPART_SCALE];
    uint64_t items = w->n_dims == 3 ? w->shape[0] : 1, item_rows = m->n / items;
    bool by_rows = qpart_count(s) == 1 || qpart_count(s) == m->n || qpart_rows(s) == m->n,
         by_items = items > 1 && qpart_count(s) == items;
    if (m->block_n && m->block_k) {
        uint64_t rows = form_ceil_div(item_rows, m->block_n),
                 cols = form_ceil_div(m->k, m->block_k);
        bool blocks = qpart_rows(s) == items * rows && qpart_cols(s) == cols;
        /* single matrices may be scaled otherwise: the config speaks of most of them */
        if (blocks || (!by_rows && !by_items)) {
            if (!qpart_shaped(m, QPART_SCALE, items * rows, cols, err)) return false;
            form_scales_at(wf, m, m->block_k, cols, cols, 1);
            wf->stored.stack_rows = item_rows;
            wf->stored.scale_rows = rows;
            wf->stored.row_div = m->block_n;
            return true;
        }
    }
    if (by_items) {
        form_scales_at(wf, m, m->k, 1, 1, 1);
        wf->stored.stack_rows = wf->stored.row_div = item_rows;
        wf->stored.scale_rows = 1;
        return true;
    }
    return form_scales(wf, m, err);
}

bool form_fp8(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT], *s = &m->part[QPART_SCALE];
    if (!qpart_is(m, QPART_WEIGHT, DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_F8_E5M2, err) ||
        !form_set_n_k(m, qpart_rows(w), qpart_cols(w), err))
        return false;
    wf->kind = WFORM_FLOAT8;
    wf->plain = w->dtype;
    wf->bits = 8;
    for (int c = 0; c < 256; c++)
        wf->values[c] =
            w->dtype == DTYPE_F8_E4M3 ? fp_e4m3_to_f32((uint8_t)c) : fp_e5m2_to_f32((uint8_t)c);
    wf->stored.row_bytes = m->k;
    switch (s->dtype) {
    case DTYPE_NONE: /* plain fp8: the scale is 1 */
        wf->scale_dtype = DTYPE_F32;
        form_scales_at(wf, m, m->k, 1, 0, 0);
        return true;
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
        wf->scale_dtype = s->dtype;
        break;
    case DTYPE_F8_E8M0:
    case DTYPE_U8:
        wf->sub = WSUB_E8M0;
        break;
    default:
        return err_set(err, ERR_UNSUPPORTED,
                       "fp8: weight_scale has type %s, accepted are F32 BF16 F16 F8_E8M0 U8",
                       dtype_info(s->dtype)->name);
    }
    return fp8_scales(wf, m, err);
}
