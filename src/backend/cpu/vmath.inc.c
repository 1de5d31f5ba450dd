/* Vector functions over a vec_*.h. exp: 2^n * p(r), |r| <= ln2/2, Taylor to degree 7 (relative
 * error below 1e-7 with its rounding). One definition for all lanes and tails, so a value's place
 * in a row does not matter. */
#include <float.h>
#include <math.h>

#include "base/fp.h"
#include "op/program.h"

/* Clamped to [-87, 88.72]: results stay normal numbers; NaN passes. */
INLINE vf vf_exp(vf x) {
    x = vf_min(vf_set1(88.72f), vf_max(vf_set1(-87.0f), x));
    vi n = vf_to_vi(vf_mul(x, vf_set1(1.44269504f)));
    vf nf = vi_to_vf(n);
    vf r = vf_fnma(nf, vf_set1(0.693145752f), x); /* the upper bits of ln 2: n times it is exact */
    r = vf_fnma(nf, vf_set1(1.42860677e-6f), r);
    vf p = vf_set1(1.0f / 5040);
    p = vf_fma(p, r, vf_set1(1.0f / 720));
    p = vf_fma(p, r, vf_set1(1.0f / 120));
    p = vf_fma(p, r, vf_set1(1.0f / 24));
    p = vf_fma(p, r, vf_set1(1.0f / 6));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, r, vf_set1(1.0f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vi_as_vf(vi_add(vf_as_vi(p), vi_shl(n, 23)));
}

/* 2^x for x <= 0 (clamped at -126; NaN passes): what a softmax needs. Minimax of degree 6 on [-1/2,
 * 1/2]: 1.6e-8; 2^0 is 1. */
INLINE vf vf_exp2(vf x) {
    x = vf_max(vf_set1(-126.0f), x);
    vi n = vf_to_vi(x);
    vf r = vf_sub(x, vi_to_vf(n)), p = vf_set1(0.000153458110f);
    p = vf_fma(p, r, vf_set1(0.00133999309f));
    p = vf_fma(p, r, vf_set1(0.00961848907f));
    p = vf_fma(p, r, vf_set1(0.0555032864f));
    p = vf_fma(p, r, vf_set1(0.240226462f));
    p = vf_fma(p, r, vf_set1(0.693147182f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vi_as_vf(vi_add(vf_as_vi(p), vi_shl(n, 23)));
}

INLINE vf vf_neg(vf x) { return vf_sub(vf_zero(), x); }
INLINE vf vf_sigmoid(vf x) { return vf_div(vf_set1(1), vf_add(vf_set1(1), vf_exp(vf_neg(x)))); }

/* Near zero 1 - 2 / (e^2x + 1) cancels: a polynomial there. */
INLINE vf vf_tanh(vf x) {
    vf e = vf_exp(vf_add(x, x)), one = vf_set1(1);
    vf far = vf_sub(one, vf_div(vf_set1(2), vf_add(e, one)));
    vf s = vf_mul(x, x), p = vf_set1(-1382.0f / 155925);
    p = vf_fma(p, s, vf_set1(62.0f / 2835));
    p = vf_fma(p, s, vf_set1(-17.0f / 315));
    p = vf_fma(p, s, vf_set1(2.0f / 15));
    p = vf_fma(p, s, vf_set1(-1.0f / 3));
    p = vf_fma(vf_mul(p, s), x, x);
    return vf_sel(vf_lt(vf_abs(x), vf_set1(0.4f)), p, far);
}

/* Complementary error function by the Chebyshev fit of Numerical Recipes (erfcc): relative
 * error 1.2e-7 everywhere, so the tail of gelu keeps its digits. */
INLINE vf vf_erfc(vf x) {
    static const float C[10] = {-1.26551223f, 1.00002368f,  0.37409196f, 0.09678418f,  -0.18628806f,
                                0.27886807f,  -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f};
    vf z = vf_abs(x), t = vf_div(vf_set1(1), vf_fma(z, vf_set1(0.5f), vf_set1(1)));
    vf p = vf_set1(C[9]);
    for (int i = 8; i >= 0; i--) p = vf_fma(p, t, vf_set1(C[i]));
    vf r = vf_mul(t, vf_exp(vf_fnma(z, z, p)));
    return vf_sel(vf_lt(x, vf_zero()), vf_sub(vf_set1(2), r), r);
}

INLINE vf vf_softplus(vf x) { /* rare: lane by lane */
    float t[16];
    vf_store(t, x);
    for (int i = 0; i < 16; i++) t[i] = t[i] > 30 ? t[i] : (float)log1p(exp((double)t[i]));
    return vf_load(t);
}

INLINE vf vf_act(Act fn, float param, vf x) {
    switch (fn) {
    case ACT_SILU:
        return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_neg(x))));
    case ACT_GELU:
        return vf_mul(vf_mul(x, vf_set1(0.5f)), vf_erfc(vf_mul(x, vf_set1(-0.707106781f))));
    case ACT_GELU_TANH: { /* 0.5 (1 + tanh u) = sigmoid(2 u): nothing cancels */
        vf u = vf_fma(vf_mul(vf_mul(x, x), x), vf_set1(0.044715f), x);
        return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_mul(u, vf_set1(-1.59576912f)))));
    }
    case ACT_RELU:
        return vf_max(vf_zero(), x);
    case ACT_RELU2:
        return vf_mul(vf_max(vf_zero(), x), x);
    case ACT_SIGMOID:
        return vf_sigmoid(x);
    case ACT_TANH:
        return vf_tanh(x);
    case ACT_SOFTPLUS:
        return vf_softplus(x);
    case ACT_EXP:
        return vf_sel(vf_lt(vf_set1(88.72f), x), vf_set1(INFINITY), vf_exp(x));
    case ACT_QUICK_GELU:
        return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_mul(x, vf_set1(-1.702f)))));
    case ACT_SOFTCAP:
        return vf_mul(vf_set1(param), vf_tanh(vf_div(x, vf_set1(param))));
    case ACT_CLAMP:
        return vf_max(vf_set1(-param), vf_min(vf_set1(param), x));
    case ACT_CAP:
        return vf_min(vf_set1(param), x);
    case ACT_COUNT:
        break;
    }
    return x;
}
