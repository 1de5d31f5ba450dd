#include "quant/wform.h"

#include <string.h>

#include "base/fp.h"
#include "quant/blocks.h"
#include "quant/forms.h"

static FormInit *const inits[QFORMAT_COUNT] = {
    [QFORMAT_ROWS] = form_rows,
    [QFORMAT_MLX_AFFINE] = form_mlx_affine,
    [QFORMAT_MLX_MXFP4] = form_fp4,
    [QFORMAT_MLX_MXFP8] = form_mlx_mxfp8,
    [QFORMAT_MLX_NVFP4] = form_fp4,
    [QFORMAT_GPTQ] = form_gptq,
    [QFORMAT_AWQ] = form_awq,
    [QFORMAT_CT_PACKED] = form_ct_packed,
    [QFORMAT_CT_INT] = form_ct_int,
    [QFORMAT_CT_NVFP4] = form_fp4,
    [QFORMAT_CT_MXFP4] = form_fp4,
    [QFORMAT_FP8] = form_fp8,
    [QFORMAT_MODELOPT_NVFP4] = form_fp4,
    [QFORMAT_GPTOSS_MXFP4] = form_fp4,
    [QFORMAT_BITNET] = form_bitnet,
    [QFORMAT_BNB_NF4] = form_bnb,
    [QFORMAT_BNB_INT8] = form_bnb_int8,
};

double wform_widen(WSub sub, uint8_t b) {
    switch (sub) {
    case WSUB_INT:
        return (int8_t)b;
    case WSUB_E4M3:
        return fp_e4m3_to_f32(b);
    case WSUB_E8M0:
        return fp_e8m0_to_f32(b);
    case WSUB_E8M0_GGML:
        return b == 255 ? 0x1p128 : fp_e8m0_to_f32(b);
    case WSUB_NESTED: /* no number without its table */
    case WSUB_NONE:
        break;
    }
    return 1;
}

/* The largest group kernels know that divides every multiple of `size`; 0 if none. */
static uint64_t kernel_group(uint64_t size) {
    return size % 32 == 0 ? size : size % 16 == 0 ? 16 : 0;
}

/* Act-order: sort columns by group (stable), so that groups are runs again. counts[g] columns are
 * in group g. */
static bool sort_columns(WForm *wf, const uint64_t *counts, uint64_t piece, Arena *a, Err *err) {
    uint64_t n_stored = wf->stored.n_groups, at = 0;
    wf->group = piece;
    wf->n_groups = form_ceil_div(wf->k, piece);
    uint32_t *perm = arena_array(a, uint32_t, wf->k),
             *from = arena_array(a, uint32_t, wf->n_groups);
    uint64_t *next = arena_array(a, uint64_t, n_stored);
    if (!perm || !from || !next) return err_nomem(err, "column order");
    for (uint64_t g = 0; g < n_stored; g++) {
        next[g] = at;
        at += counts[g];
    }
    for (uint64_t k = 0; k < wf->k; k++) perm[next[wf->stored.g_idx[k]]++] = (uint32_t)k;
    wf->perm = perm;
    wf->scale_cols = counts[0] ? counts[0] : 1;
    for (uint64_t g = 0; g < wf->n_groups; g++) {
        from[g] = wf->stored.g_idx[perm[g * piece]];
        if (from[g] != g * piece / wf->scale_cols) wf->scale_of = from;
    }
    return true;
}

/* From stored groups to those of kernels, or to none. */
static bool regroup(WForm *wf, Arena *a, Err *err) {
    const struct WFormStored *s = &wf->stored;
    wf->n_scales = s->n_groups;
    if (!s->g_idx) {
        if (s->n_groups == 1) wf->stored.group = wf->k;
        wf->group = s->n_groups == 1 ? wf->k : kernel_group(s->group);
        wf->n_groups = wf->group ? form_ceil_div(wf->k, wf->group) : 0;
        wf->scale_cols = s->group;
        return true;
    }
    uint64_t *counts = arena_array(a, uint64_t, s->n_groups), last = 0, all = 0;
    if (!counts) return err_nomem(err, "quantization groups");
    for (uint64_t k = 0; k < wf->k; k++) counts[s->g_idx[k]]++;
    for (uint64_t g = 0; g < s->n_groups; g++)
        if (counts[g]) last = g;
    for (uint64_t g = 0; g < last; g++) all = form_gcd(all, counts[g]);
    uint64_t piece = all == 0 ? wf->k : kernel_group(all);
    if (piece) return sort_columns(wf, counts, piece, a, err);
    wf->scale_of = s->g_idx;
    return true;
}

bool wform_init(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    *wf = (WForm){.kind = WFORM_CODES, .unit = 1};
    if ((unsigned)m->format >= QFORMAT_COUNT)
        return err_set(err, ERR_INTERNAL, "unknown weight format %d", (int)m->format);
    for (int c = 0; c < 256; c++) wf->values[c] = (float)c;
    for (int id = 0; id < QPART_COUNT; id++)
        if (qpart_there(m, (QPartId)id) && !qpart_check(m, (QPartId)id, err)) return false;
    if (!inits[m->format](wf, m, a, err)) return false;
    wf->n = m->n;
    wf->k = m->k;
    if (wf->sub != WSUB_NONE && !wf->sub_bits) wf->sub_bits = 8;
    if (wf->kind == WFORM_PLAIN) return true;
    if (!regroup(wf, a, err)) return false;
    const struct WFormStored *s = &wf->stored;
    bool alone = wf->flat_scale || m->format == QFORMAT_ROWS;
    wf->share = (WShare){s->stack_rows, s->scale_rows, alone ? 1 : s->row_stride ? s->row_div : 0};
    wf->n_super = wf->super ? form_ceil_div(wf->k, wf->super) : 0;
    return true;
}

void wform_span(const WForm *wf, const QMatrix *m, QPartId id, uint64_t n0, uint64_t n1,
                uint64_t *from, uint64_t *n_bytes) {
    const QPart *p = &m->part[id];
    *from = 0;
    *n_bytes = 0;
    if (!qpart_there(m, id) || n0 >= n1) return;
    *n_bytes = qpart_bytes(p);
    if (id == QPART_WEIGHT && wf->stored.row_bytes) {
        *from = n0 * wf->stored.row_bytes;
        *n_bytes = (n1 - n0) * wf->stored.row_bytes;
        return;
    }
    if (id == QPART_WEIGHT && m->format == QFORMAT_BITNET &&
        n0 / qpart_rows(p) == (n1 - 1) / qpart_rows(p)) {
        *from = n0 % qpart_rows(p) * m->k; /* within one quarter, packed rows follow one another */
        *n_bytes = (n1 - n0) * m->k;
        return;
    }
    /* Scales, and zero points and biases stored like them, one row after another. */
    bool like_scales =
        id == QPART_SCALE ||
        (id == QPART_ZERO && (m->format == QFORMAT_MLX_AFFINE || m->format == QFORMAT_CT_INT));
    if (like_scales && wf->stored.group_stride == 1) {
        uint64_t size = dtype_info(p->dtype)->block_bytes;
        uint64_t first = wform_scale_index(wf, n0, 0),
                 last = wform_scale_index(wf, n1 - 1, wf->stored.n_groups - 1);
        *from = first * size;
        *n_bytes = (last - first + 1) * size;
    }
}

bool wform_columns(const WForm *wf, const QMatrix *m, QPartId id, uint64_t n0, uint64_t n1,
                   uint64_t *from, uint64_t *n_bytes, uint64_t *n_lines, uint64_t *line_bytes) {
    uint64_t per_word = m->format == QFORMAT_GPTQ ? 1 : 8;
    (void)wf;
    if (id != QPART_WEIGHT || (m->format != QFORMAT_GPTQ && m->format != QFORMAT_AWQ)) return false;
    *from = n0 / per_word * 4;
    *n_bytes = form_ceil_div(n1, per_word) * 4 - *from;
    *n_lines = qpart_rows(&m->part[id]);
    *line_bytes = qpart_cols(&m->part[id]) * 4;
    return true;
}

/* Scales of one row in canonical groups. `row` indexes the caller's arrays. */
static void put_row_scales(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t row,
                           const WRows *out) {
    for (uint64_t s = 0; out->d && s < wf->n_super; s++)
        out->d[row * wf->n_super + s] = (float)form_second_scale(wf, m, n);
    for (uint64_t g = 0; g < wf->n_scales; g++) {
        uint64_t at = row * wf->n_scales + g;
        if (out->scale) out->scale[at] = (float)form_scale(wf, m, n, g);
        if (out->sub && wf->sub != WSUB_NONE)
            out->sub[at] = *qpart_at(m, QPART_SCALE, wform_scale_index(wf, n, g));
        if (out->zero)
            out->zero[at] = (int16_t)(wf->offset == WOFFSET_BIAS ? 0 : form_zero(wf, m, n, g));
        if (out->bias) out->bias[at] = wf->offset == WOFFSET_BIAS ? form_bias(wf, m, n, g) : 0;
    }
}

bool wform_scales(const WForm *wf, const QMatrix *m, uint64_t n, const WRows *out, Err *err) {
    QMatrix sides = *m;
    sides.part[QPART_WEIGHT].dtype = DTYPE_NONE;
    if (!form_has_bytes(wf, &sides, n, n + 1, err)) return false;
    put_row_scales(wf, m, n, 0, out);
    return true;
}

void wform_flat_scale(const WForm *wf, const QMatrix *m, uint64_t i, const WRows *out) {
    if (out->scale) *out->scale = form_bnb_absmax(m, i);
    if (out->sub && wf->sub != WSUB_NONE) *out->sub = *qpart_at(m, QPART_SCALE, i);
}

float wform_flat_d(const WForm *wf, const QMatrix *m, uint64_t i) {
    return wf->sub == WSUB_NESTED ? form_bnb_nested(m, i)
                                  : (float)form_second_scale(wf, m, i * wf->stored.global_rows);
}

bool wform_rows(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, const WRows *out,
                Err *err) {
    if (wf->kind == WFORM_PLAIN)
        return err_set(err, ERR_INTERNAL, "canonical rows of a plain matrix asked for");
    if (!form_has_bytes(wf, m, n0, n1, err)) return false;
    if (m->format == QFORMAT_ROWS) {
        form_block_rows(wf, m, n0, n1, out);
        return true;
    }
    if (out->codes) form_codes(m->format)(wf, m, wf->perm, n0, n1, out->codes);
    for (uint64_t n = n0; n < n1; n++) put_row_scales(wf, m, n, n - n0, out);
    return true;
}
