/* Plain elements and GGUF blocks: rows as they lie in the file. */
#include <string.h>

#include "quant/blocks.h"
#include "quant/forms.h"

bool form_rows(WForm *wf, QMatrix *m, Arena *a, Err *err) {
    (void)a;
    const QPart *w = &m->part[QPART_WEIGHT];
    const DTypeInfo *d = dtype_info(w->dtype);
    if (w->dtype == DTYPE_NONE) return err_set(err, ERR_CORRUPT, "rows: weight is missing");
    if (qpart_there(m, QPART_GLOBAL) && w->dtype != DTYPE_NVFP4)
        return err_set(err, ERR_UNSUPPORTED, "a second scale beside %s rows; accepted is NVFP4",
                       d->name);
    if (!form_set_n_k(m, qpart_rows(w), qpart_cols(w), err)) return false;
    wf->stored.row_bytes = m->k / d->block_elements * d->block_bytes;
    const BlockLayout *l = block_layout(w->dtype);
    if (!l) {
        wf->kind =
            w->dtype == DTYPE_F8_E4M3 || w->dtype == DTYPE_F8_E5M2 ? WFORM_FLOAT8 : WFORM_PLAIN;
        wf->plain = w->dtype;
        if (wf->kind == WFORM_PLAIN) return true;
        m->format = QFORMAT_FP8; /* one-byte floats without scales */
        return form_fp8(wf, m, a, err);
    }
    wf->kind = l->kind;
    wf->bits = l->bits;
    wf->offset = l->offset;
    wf->zero = l->zero;
    wf->scale_dtype = l->has_d || l->sub == WSUB_NONE ? DTYPE_F16 : DTYPE_NONE;
    wf->sub = l->sub;
    wf->sub_bits = l->sub_bits;
    wf->unit = l->unit;
    wf->super = l->has_d ? 256 : 0;
    for (int c = 0; l->table && c < 1 << l->bits; c++) {
        wf->has_table = true;
        wf->table[c] = l->table[c];
        wf->values[c] = l->table[c];
    }
    form_scales_at(wf, m, l->group, m->k / l->group, 0, 0);
    return form_global(wf, m, 1, err);
}

/* Blocks with one scale (and bias): most of what is loaded, so without the questions of below. */
static void flat_rows(const WForm *wf, const QMatrix *m, const BlockLayout *l, uint64_t n0,
                      uint64_t n1, const WRows *out) {
    const DTypeInfo *t = dtype_info(m->part[QPART_WEIGHT].dtype);
    uint64_t n_blocks = wf->k / t->block_elements, at = 0;
    bool biased = l->offset == WOFFSET_BIAS;
    uint8_t scratch[256];
    for (uint64_t n = n0; n < n1; n++) {
        const uint8_t *b = qpart_at(m, QPART_WEIGHT, n * wf->stored.row_bytes);
        for (uint64_t i = 0; i < n_blocks; i++, at++, b += t->block_bytes) {
            BlockScales s;
            l->unpack(b, out->codes ? out->codes + at * t->block_elements : scratch, &s);
            if (out->scale) out->scale[at] = (float)(l->unit * (double)s.d);
            if (out->zero) out->zero[at] = (int16_t)l->zero;
            if (out->bias) out->bias[at] = biased ? s.dmin : 0;
        }
    }
}

/* Where the scales of one block go. */
static void put_block_scales(const WForm *wf, const QMatrix *m, const BlockLayout *l,
                             const BlockScales *s, uint64_t n, unsigned n_groups, uint64_t at,
                             const WRows *out) {
    double d = l->has_d || l->sub == WSUB_NONE ? s->d : form_second_scale(wf, m, n);
    bool two = l->sub != WSUB_NONE;
    for (unsigned g = 0; g < n_groups; g++) {
        double sub = two ? wform_widen(l->sub, s->sub[g]) : 1;
        if (out->scale) out->scale[at + g] = (float)(l->unit * sub * d);
        if (out->sub && two) out->sub[at + g] = s->sub[g];
        if (out->sub_min && two && l->offset == WOFFSET_BIAS) out->sub_min[at + g] = s->sub_min[g];
        if (out->zero) out->zero[at + g] = (int16_t)l->zero;
        if (out->bias)
            out->bias[at + g] = l->offset != WOFFSET_BIAS ? 0
                                : two                     ? -(s->dmin * s->sub_min[g])
                                                          : s->dmin;
    }
}

void form_block_rows(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1,
                     const WRows *out) {
    const BlockLayout *l = block_layout(m->part[QPART_WEIGHT].dtype);
    const DTypeInfo *t = dtype_info(m->part[QPART_WEIGHT].dtype);
    uint64_t n_blocks = wf->k / t->block_elements;
    unsigned n_groups = t->block_elements / l->group;
    uint8_t scratch[256];
    if (l->sub == WSUB_NONE && n_groups == 1) {
        flat_rows(wf, m, l, n0, n1, out);
        return;
    }
    for (uint64_t n = n0; n < n1; n++) {
        const uint8_t *b = qpart_at(m, QPART_WEIGHT, n * wf->stored.row_bytes);
        for (uint64_t i = 0; i < n_blocks; i++, b += t->block_bytes) {
            BlockScales s = {.d = 1};
            l->unpack(b,
                      out->codes ? out->codes + (n - n0) * wf->k + i * t->block_elements : scratch,
                      &s);
            put_block_scales(wf, m, l, &s, n, n_groups, (n - n0) * wf->n_scales + i * n_groups,
                             out);
            if (l->has_d && out->d) out->d[(n - n0) * n_blocks + i] = s.d;
            if (l->has_d && out->dmin) out->dmin[(n - n0) * n_blocks + i] = s.dmin;
        }
    }
}
