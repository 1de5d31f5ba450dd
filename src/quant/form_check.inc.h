/* form_check.inc.h: for the tests of quant/ only: evaluates a weight form as wform.h says and
 * compares with a decode. Include after cmocka.h. */
#ifndef MLXCEL_QUANT_FORM_CHECK_INC_H
#define MLXCEL_QUANT_FORM_CHECK_INC_H

#include <math.h>

#include "base/fp.h"
#include "base/mem.h"
#include "quant/decode.h"

static bool same_bits(float a, float b) {
    return fp_bits(a) == fp_bits(b) || (isnan(a) && isnan(b));
}

/* Evaluates the form from canonical arrays, as a packer would, in pieces of `step` rows. */
static void check_form(const char *path, QMatrix m, const float *want, uint64_t step) {
    Err err = {0};
    Arena a = {0};
    WForm wf;
    if (!wform_init(&wf, &m, &a, &err)) fail_msg("%s: %s", path, err.msg);
    if (wf.kind == WFORM_PLAIN) {
        assert_int_not_equal(wf.plain, DTYPE_NONE);
        arena_deinit(&a);
        return;
    }
    bool two_roundings = wf.super && wf.sub == WSUB_E4M3;
    uint64_t n_super = wf.n_super ? wf.n_super : 1;
    WRows r = {.codes = mem_alloc(step * wf.k),
               .scale = mem_alloc(step * wf.n_groups * 4),
               .zero = mem_alloc(step * wf.n_groups * 2),
               .bias = mem_alloc(step * wf.n_groups * 4),
               .d = mem_alloc(step * n_super * 4),
               .dmin = mem_alloc(step * n_super * 4),
               .sub = mem_alloc(step * wf.n_groups),
               .sub_min = mem_alloc(step * wf.n_groups)};
    for (uint64_t n0 = 0; n0 < wf.n; n0 += step) {
        uint64_t n1 = n0 + step < wf.n ? n0 + step : wf.n;
        if (!wform_rows(&wf, &m, n0, n1, &r, &err)) fail_msg("%s: %s", path, err.msg);
        for (uint64_t n = n0; n < n1; n++)
            for (uint64_t p = 0; p < wf.k; p++) {
                uint64_t at = (n - n0) * wf.n_groups + p / wf.group, k = wf.perm ? wf.perm[p] : p;
                uint8_t code = r.codes[(n - n0) * wf.k + p];
                assert_true(code < 1u << wf.bits);
                float value = wf.has_table ? wf.table[code] : wf.values[code];
                float w = wf.offset == WOFFSET_BIAS ? fmaf(r.scale[at], value, r.bias[at])
                                                    : r.scale[at] * (value - r.zero[at]);
                float ref = want[n * wf.k + k];
                float slack = two_roundings ? fabsf(ref) * 0x1p-23f : 0;
                if (!(w == ref || fabsf(w - ref) <= slack || (isnan(w) && isnan(ref))))
                    fail_msg("%s: form gives %a for [%d, %d], %a is stated", path, w, (int)n,
                             (int)k, ref);
                if (wf.sub == WSUB_NONE) continue;
                /* The levels multiply to the scale and to the bias. */
                double d =
                    wf.super ? r.d[(n - n0) * n_super + p / wf.group * wf.group / wf.super] : 1;
                float s = (float)(wf.unit * d * wform_widen(wf.sub, r.sub[at]));
                assert_true(same_bits(s, r.scale[at]) ||
                            (two_roundings && fabsf(s - r.scale[at]) <= fabsf(s) * 0x1p-23f));
                if (wf.offset == WOFFSET_BIAS)
                    assert_true(-(r.dmin[(n - n0) * n_super + p / wf.group * wf.group / wf.super] *
                                  r.sub_min[at]) == r.bias[at]);
                if (wf.sub_bits < 8 && wf.sub == WSUB_INT) {
                    int v = (int8_t)r.sub[at];
                    assert_true(v >= -(1 << (wf.sub_bits - 1)) && v < 1 << wf.sub_bits);
                }
            }
    }
    void *all[] = {r.codes, r.scale, r.zero, r.bias, r.d, r.dmin, r.sub, r.sub_min};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
    arena_deinit(&a);
}

#endif
