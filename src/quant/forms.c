#include "quant/forms.h"

#include <string.h>

#include "base/fp.h"
#include "quant/blocks.h"

uint64_t form_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

uint64_t form_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

bool form_set_n_k(QMatrix *m, uint64_t n, uint64_t k, Err *err) {
    if (!m->n) m->n = n;
    if (!m->k) m->k = k;
    if (n == 0 || k == 0 || n > QMATRIX_MAX_ELEMENTS / k || k > UINT32_MAX)
        return err_set(
            err, ERR_LIMIT,
            "%s: a [%llu, %llu] matrix; 1 to 2^48 elements in rows below 2^32 are accepted",
            qformat_name(m->format), (unsigned long long)n, (unsigned long long)k);
    if (m->n == n && m->k == k) return true;
    return err_set(err, ERR_CORRUPT,
                   "%s: the parts make a [%llu, %llu] matrix, [%llu, %llu] is needed",
                   qformat_name(m->format), (unsigned long long)n, (unsigned long long)k,
                   (unsigned long long)m->n, (unsigned long long)m->k);
}

void form_scales_at(WForm *wf, const QMatrix *m, uint64_t group, uint64_t n_groups,
                    uint64_t row_stride, uint64_t group_stride) {
    wf->stored.group = group;
    wf->stored.n_groups = n_groups;
    wf->stored.stack_rows = wf->stored.scale_rows = m->n;
    wf->stored.row_div = 1;
    wf->stored.row_stride = row_stride;
    wf->stored.group_stride = group_stride;
}

bool form_scales(WForm *wf, QMatrix *m, Err *err) {
    const QPart *s = &m->part[QPART_SCALE];
    uint64_t rows = qpart_rows(s), cols = qpart_cols(s), count = rows * cols;
    if (count == 1 && m->n > 1) {
        form_scales_at(wf, m, m->k, 1, 0, 0);
        return true;
    }
    if (s->n_dims == 1 && count == m->n) {
        rows = m->n;
        cols = 1;
    }
    uint64_t group = m->group && m->group < m->k ? m->group : form_ceil_div(m->k, cols);
    if (rows != m->n || form_ceil_div(m->k, group) != cols)
        return err_set(err, ERR_CORRUPT,
                       "%s: %s is %llu x %llu; 1 x 1, %llu x 1 or %llu x %llu is accepted",
                       qformat_name(m->format), qpart_name(m->format, QPART_SCALE),
                       (unsigned long long)rows, (unsigned long long)cols, (unsigned long long)m->n,
                       (unsigned long long)m->n, (unsigned long long)form_ceil_div(m->k, group));
    form_scales_at(wf, m, group, cols, cols, 1);
    return true;
}

bool form_global(WForm *wf, const QMatrix *m, double div, Err *err) {
    if (!qpart_there(m, QPART_GLOBAL)) return true;
    if (!qpart_is(m, QPART_GLOBAL, DTYPE_F32, DTYPE_F32, DTYPE_F32, err)) return false;
    uint64_t count = qpart_count(&m->part[QPART_GLOBAL]);
    if (m->n % count)
        return err_set(err, ERR_CORRUPT,
                       "%s: %s has %llu elements for %llu rows; one, or one per expert is accepted",
                       qformat_name(m->format), qpart_name(m->format, QPART_GLOBAL),
                       (unsigned long long)count, (unsigned long long)m->n);
    wf->scale_dtype = DTYPE_F32;
    wf->stored.global_rows = m->n / count;
    wf->flat_super = wf->stored.global_rows * m->k;
    wf->stored.global_div = div;
    return true;
}

bool form_g_idx(WForm *wf, const QMatrix *m, Arena *a, Err *err) {
    const QPart *p = &m->part[QPART_G_IDX];
    if (!qpart_there(m, QPART_G_IDX)) return true;
    if (!qpart_is(m, QPART_G_IDX, DTYPE_I32, DTYPE_U32, DTYPE_U32, err)) return false;
    const char *name = qpart_name(m->format, QPART_G_IDX);
    if (qpart_count(p) != m->k)
        return err_set(err, ERR_CORRUPT, "%s has %llu entries for %llu columns", name,
                       (unsigned long long)qpart_count(p), (unsigned long long)m->k);
    if (!p->data || p->from || p->n_bytes != m->k * 4)
        return err_set(err, ERR_CORRUPT, "%s: %llu of %llu bytes given", name,
                       (unsigned long long)p->n_bytes, (unsigned long long)m->k * 4);
    uint32_t *g_idx = arena_array(a, uint32_t, m->k);
    if (!g_idx) return err_nomem(err, name);
    bool plain = true, unset = true;
    for (uint64_t k = 0; k < m->k; k++) {
        g_idx[k] = load_u32(p->data + 4 * k);
        plain = plain && g_idx[k] == k / wf->stored.group;
        unset = unset &&
                g_idx[k] == UINT32_MAX; /* compressed-tensors writes -1 everywhere for "no order" */
    }
    if (plain || (unset && m->format == QFORMAT_CT_PACKED)) return true;
    for (uint64_t k = 0; k < m->k; k++)
        if (g_idx[k] >= wf->stored.n_groups)
            return err_set(
                err, ERR_CORRUPT, "%s: column %llu is in group %d, 0 to %llu are accepted", name,
                (unsigned long long)k, (int)g_idx[k], (unsigned long long)wf->stored.n_groups - 1);
    wf->stored.g_idx = g_idx;
    return true;
}

FormCodes *form_codes(QFormat f) {
    switch (f) {
    case QFORMAT_GPTQ:
        return form_gptq_codes;
    case QFORMAT_AWQ:
        return form_awq_codes;
    case QFORMAT_CT_PACKED:
        return form_ct_packed_codes;
    case QFORMAT_CT_INT:
    case QFORMAT_BNB_INT8:
        return form_ct_int_codes;
    case QFORMAT_BITNET:
        return form_bitnet_codes;
    case QFORMAT_BNB_NF4:
        return form_bnb_codes;
    default:
        return form_stream_codes;
    }
}

int form_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    if (wf->offset != WOFFSET_ZERO) return wf->zero;
    switch (m->format) {
    case QFORMAT_GPTQ:
        return form_gptq_zero(wf, m, n, g);
    case QFORMAT_AWQ:
        return form_awq_zero(wf, m, n, g);
    case QFORMAT_CT_PACKED:
        return form_ct_packed_zero(wf, m, n, g);
    default:
        return form_ct_int_zero(wf, m, n, g);
    }
}

uint64_t wform_scale_index(const WForm *wf, uint64_t n, uint64_t g) {
    const struct WFormStored *s = &wf->stored;
    if (wf->flat_scale) return (n * wf->k + g * s->group) / wf->flat_scale;
    uint64_t row = n / s->stack_rows * s->scale_rows + n % s->stack_rows / s->row_div;
    return row * s->row_stride + g * s->group_stride;
}

static float float_at(const QMatrix *m, QPartId id, uint64_t i) {
    switch (m->part[id].dtype) {
    case DTYPE_F16:
        return fp_f16_to_f32(load_u16(qpart_at(m, id, 2 * i)));
    case DTYPE_BF16:
        return fp_bf16_to_f32(load_u16(qpart_at(m, id, 2 * i)));
    default:
        return fp_from_bits(load_u32(qpart_at(m, id, 4 * i)));
    }
}

double form_second_scale(const WForm *wf, const QMatrix *m, uint64_t n) {
    if (!qpart_there(m, QPART_GLOBAL)) return 1;
    double x = float_at(m, QPART_GLOBAL, n / wf->stored.global_rows), div = wf->stored.global_div;
    return div < 0 ? 1 / x : x / div;
}

double form_scale(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    if (!qpart_there(m, QPART_SCALE)) return 1;
    uint64_t i = wform_scale_index(wf, n, g);
    if (m->format == QFORMAT_BNB_NF4) return form_bnb_absmax(m, i);
    if (wf->sub == WSUB_NONE) {
        double s = float_at(m, QPART_SCALE, i);
        if (m->format == QFORMAT_BNB_INT8) return (float)(s / 127);
        return m->format == QFORMAT_BITNET && !m->bitnet_multiplies ? 1 / s : s;
    }
    return wf->unit * wform_widen(wf->sub, *qpart_at(m, QPART_SCALE, i)) *
           form_second_scale(wf, m, n);
}

float form_bias(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g) {
    return float_at(m, QPART_ZERO, wform_scale_index(wf, n, g));
}

bool form_has_bytes(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, Err *err) {
    if (n0 > n1 || n1 > wf->n)
        return err_set(err, ERR_INTERNAL, "rows %llu to %llu of %llu asked for",
                       (unsigned long long)n0, (unsigned long long)n1, (unsigned long long)wf->n);
    for (int id = 0; n0 < n1 && id < QPART_COUNT; id++) {
        uint64_t from, n_bytes, lines, line_bytes;
        const QPart *p = &m->part[id];
        if (p->pitch) {
            if (!wform_columns(wf, m, (QPartId)id, n0, n1, &from, &n_bytes, &lines, &line_bytes) ||
                from < p->from || from + n_bytes > p->from + p->pitch ||
                lines * p->pitch > p->n_bytes)
                return err_set(err, ERR_INTERNAL, "%s: columns are missing",
                               qpart_name(m->format, (QPartId)id));
            continue;
        }
        wform_span(wf, m, (QPartId)id, n0, n1, &from, &n_bytes);
        if (n_bytes && (!p->data || from < p->from || from - p->from > p->n_bytes ||
                        n_bytes > p->n_bytes - (from - p->from)))
            return err_set(err, ERR_CORRUPT,
                           "%s: %llu bytes from %llu are needed, %llu from %llu are there",
                           qpart_name(m->format, (QPartId)id), (unsigned long long)n_bytes,
                           (unsigned long long)from, (unsigned long long)p->n_bytes,
                           (unsigned long long)p->from);
    }
    return true;
}
