/* form_check.inc.h: for the tests of quant/ only: evaluates a weight form as wform.h says and
 * compares with a decode. Include after cmocka.h. */
#ifndef MLXCEL_QUANT_FORM_CHECK_INC_H
#define MLXCEL_QUANT_FORM_CHECK_INC_H

#include <math.h>

#include "base/fp.h"
#include "quant/decode.h"

static bool same_bits(float a, float b) {
    return fp_bits(a) == fp_bits(b) || (isnan(a) && isnan(b));
}

/* The levels of one scale multiply to it and to the bias. `at` indexes scales, `super` the row's
 * d. */
static void check_levels(const WForm *wf, const WRows *r, uint64_t at, uint64_t super,
                         double flat_d, float slack) {
    double d = wf->super ? r->d[super] : flat_d;
    if (wf->sub == WSUB_NESTED) {
        float product = wf->nested[r->sub[at]] * (float)d;
        assert_true(same_bits(product + wf->nested_offset, r->scale[at]));
        return;
    }
    float s = (float)(wf->unit * d * wform_widen(wf->sub, r->sub[at]));
    assert_true(same_bits(s, r->scale[at]) || fabsf(s - r->scale[at]) <= fabsf(s) * slack);
    if (wf->offset == WOFFSET_BIAS) assert_true(-(r->dmin[super] * r->sub_min[at]) == r->bias[at]);
    if (wf->sub != WSUB_INT || wf->sub_bits == 8) return;
    int v = (int8_t)r->sub[at];
    assert_true(v >= -(1 << (wf->sub_bits - 1)) && v < 1 << wf->sub_bits);
}

/* Row `row` of r, which is row n, against its decode. */
static void check_form_row(const char *path, const WForm *wf, const QMatrix *m, const WRows *r,
                           uint64_t row, uint64_t n, const float *want) {
    float slack = wf->flat_super && wf->sub == WSUB_E4M3 ? 0x1p-23f : 0; /* two roundings */
    for (uint64_t p = 0; p < wf->k; p++) {
        uint64_t s = wform_scale_of(wf, wf->group ? p / wf->group : p), at = row * wf->n_scales + s;
        assert_true(s < wf->n_scales);
        uint8_t code = r->codes[row * wf->k + p];
        assert_true(code < 1u << wf->bits);
        float value = wf->has_table ? wf->table[code] : wf->values[code];
        float w = wf->offset == WOFFSET_BIAS ? fmaf(r->scale[at], value, r->bias[at])
                                             : r->scale[at] * (value - r->zero[at]);
        float ref = want[wf->perm ? wf->perm[p] : p];
        if (!(w == ref || fabsf(w - ref) <= fabsf(ref) * slack || (isnan(w) && isnan(ref))))
            fail_msg("%s: form gives %a in column %d, %a is stated", path, w, (int)p, ref);
        if (wf->sub != WSUB_NONE)
            check_levels(wf, r, at, row * wf->n_super + (wf->super ? p / wf->super : 0),
                         wf->flat_super ? wform_flat_d(wf, m, (n * wf->k + p) / wf->flat_super) : 1,
                         slack);
    }
}

/* Scales along the flat order are the rows' own. */
static void check_flat(const WForm *wf, const QMatrix *m, const WRows *r, uint64_t row,
                       uint64_t n) {
    for (uint64_t p = 0; wf->flat_scale && p < wf->k; p++) {
        float scale = 0;
        uint8_t sub = 0;
        const WRows one = {.scale = &scale, .sub = &sub};
        uint64_t s = row * wf->n_scales + wform_scale_of(wf, wf->group ? p / wf->group : p);
        wform_flat_scale(wf, m, (n * wf->k + p) / wf->flat_scale, &one);
        assert_true(same_bits(scale, r->scale[s]));
        if (wf->sub != WSUB_NONE) assert_int_equal(sub, r->sub[s]);
    }
}

/* Rows that share scales have those of their row of scales. */
static void check_shared(const WForm *wf, const QMatrix *m, const WRows *r, uint64_t row,
                         uint64_t n, const WRows *one) {
    Err err = {0};
    if (wf->share.row_div == 1) return;
    if (!wform_scales(wf, m, wshare_first(&wf->share, wshare_row(&wf->share, n)), one, &err))
        fail_msg("%s", err.msg);
    for (uint64_t s = 0, at = row * wf->n_scales; s < wf->n_scales; s++, at++) {
        assert_true(same_bits(one->scale[s], r->scale[at]));
        assert_int_equal(one->zero[s], r->zero[at]);
        if (wf->sub != WSUB_NONE) assert_int_equal(one->sub[s], r->sub[at]);
    }
}

/* Evaluates the form from canonical arrays, as a packer would, in pieces of `step` rows. */
static void check_form(const char *path, QMatrix m, const float *want, uint64_t step) {
    Err err = {0};
    Arena a = {0};
    WForm wf;
    if (!wform_init(&wf, &m, &a, &err)) fail_msg("%s: %s", path, err.msg);
    uint64_t groups = step * wf.n_scales, supers = step * wf.n_super;
    WRows r = {.codes = arena_array(&a, uint8_t, step * wf.k),
               .scale = arena_array(&a, float, groups),
               .zero = arena_array(&a, int16_t, groups),
               .bias = arena_array(&a, float, groups),
               .d = arena_array(&a, float, supers),
               .dmin = arena_array(&a, float, supers),
               .sub = arena_array(&a, uint8_t, groups),
               .sub_min = arena_array(&a, uint8_t, groups)};
    WRows one = {.scale = arena_array(&a, float, wf.n_scales),
                 .zero = arena_array(&a, int16_t, wf.n_scales),
                 .sub = arena_array(&a, uint8_t, wf.n_scales)};
    assert_true(wf.kind != WFORM_PLAIN || wf.plain != DTYPE_NONE);
    for (uint64_t n0 = 0; wf.kind != WFORM_PLAIN && n0 < wf.n; n0 += step) {
        uint64_t n1 = n0 + step < wf.n ? n0 + step : wf.n;
        if (!wform_rows(&wf, &m, n0, n1, &r, &err)) fail_msg("%s: %s", path, err.msg);
        for (uint64_t n = n0; n < n1; n++) {
            check_form_row(path, &wf, &m, &r, n - n0, n, want + n * wf.k);
            check_shared(&wf, &m, &r, n - n0, n, &one);
            check_flat(&wf, &m, &r, n - n0, n);
        }
    }
    arena_deinit(&a);
}

#endif
