#include "quant/quant_encode.h"

#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "quant/forms.h"
#include "quant/quant_encode_k.h"

/* Layouts: blocks_small.c. In every format d is rounded for storage only; codes come from the
 * unrounded 1/d. */

static void store_u16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/* 1/d, or 0 where there is nothing to scale. Below 2^-126 the quotient may overflow, while an f16
 * d is 0 long before. */
static float inverse(float d) { return fabsf(d) < 0x1p-126f ? 0 : 1 / d; }

static void put_nibbles(const uint8_t *codes, uint8_t *qs) {
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t *codes, uint8_t *qh) {
    memset(qh, 0, 4);
    for (int j = 0; j < 32; j++) qh[j / 8] |= (uint8_t)((codes[j] >> 4) << j % 8);
}

/* Q4_0 and Q5_0: the element of largest magnitude becomes code 0, exactly -half * d. */
static float codes_signed(const float *x, int half, uint8_t *codes) {
    float extreme = x[0];
    for (int j = 1; j < 32; j++)
        if (fabsf(x[j]) > fabsf(extreme)) extreme = x[j];
    float d = extreme / (float)-half, id = inverse(d);
    for (int j = 0; j < 32; j++) {
        int q = (int)(x[j] * id + ((float)half + 0.5f));
        codes[j] = (uint8_t)(q < 2 * half - 1 ? q : 2 * half - 1);
    }
    return d;
}

/* Q4_1 and Q5_1: from the minimum up in n_steps. */
static float codes_from_min(const float *x, int n_steps, uint8_t *codes, float *min) {
    float lo = x[0], hi = x[0];
    for (int j = 1; j < 32; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    float d = (hi - lo) / (float)n_steps, id = inverse(d);
    for (int j = 0; j < 32; j++) {
        int q = (int)((x[j] - lo) * id + 0.5f);
        codes[j] = (uint8_t)(q < n_steps ? q : n_steps);
    }
    *min = lo;
    return d;
}

static float put_q8_0(const float *x, uint8_t *b) {
    float amax = 0;
    for (int j = 0; j < 32; j++) amax = fmaxf(amax, fabsf(x[j]));
    float d = amax / 127, id = inverse(d);
    for (int j = 0; j < 32; j++) b[2 + j] = (uint8_t)(int8_t)roundf(x[j] * id);
    return d;
}

static void put_mxfp4(const float *x, uint8_t *b) {
    static const float value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    uint8_t codes[32];
    float amax = 0;
    for (int j = 0; j < 32; j++) amax = fmaxf(amax, fabsf(x[j]));
    /* The logarithm is rounded to f32 before floor, as ggml has it: just below a power of two it
     * may reach it. */
    int e = amax > 0 ? 127 - 2 + (int)floorf((float)log2((double)amax)) : 0;
    b[0] = (uint8_t)(e < 0 ? 0 : e);
    float half = ldexpf(1, b[0] - 128); /* of the scale: the values are doubled */
    for (int j = 0; j < 32; j++) {
        int best = 0;
        for (int c = 1; c < 16; c++)
            if (fabsf(half * value[c] - x[j]) < fabsf(half * value[best] - x[j])) best = c;
        codes[j] = (uint8_t)best;
    }
    put_nibbles(codes, b + 1);
}

/* One block of 32. False if d or min do not fit f16. */
static bool put_block(DType t, const float *x, uint8_t *b) {
    uint8_t codes[32];
    float d = 0, min = 0;
    switch (t) {
    case DTYPE_Q4_0:
        d = codes_signed(x, 8, codes);
        put_nibbles(codes, b + 2);
        break;
    case DTYPE_Q5_0:
        d = codes_signed(x, 16, codes);
        put_fifth_bits(codes, b + 2);
        put_nibbles(codes, b + 6);
        break;
    case DTYPE_Q4_1:
        d = codes_from_min(x, 15, codes, &min);
        put_nibbles(codes, b + 4);
        break;
    case DTYPE_Q5_1:
        d = codes_from_min(x, 31, codes, &min);
        put_fifth_bits(codes, b + 4);
        put_nibbles(codes, b + 8);
        break;
    case DTYPE_Q8_0:
        d = put_q8_0(x, b);
        break;
    default:
        put_mxfp4(x, b);
        return true;
    }
    store_u16(b, fp_f32_to_f16(d));
    if (t == DTYPE_Q4_1 || t == DTYPE_Q5_1) store_u16(b + 2, fp_f32_to_f16(min));
    return fabsf(d) < 65520 && fabsf(min) < 65520;
}

bool encode_supports(DType t) {
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 || t == DTYPE_Q4_0 ||
           t == DTYPE_Q4_1 || t == DTYPE_Q5_0 || t == DTYPE_Q5_1 || t == DTYPE_Q8_0 ||
           t == DTYPE_MXFP4 || encode_k_supports(t);
}

/* Where the first value lies that a quantizer cannot take; n if none. */
static uint64_t first_not_finite(const float *x, uint64_t n) {
    uint64_t i = 0;
    while (i < n && isfinite(x[i])) i++;
    return i;
}

static bool encode_plain(DType t, const float *x, uint64_t n, uint8_t *out, Err *err) {
    if (t == DTYPE_F32) memcpy(out, x, n * 4);
    for (uint64_t i = 0; i < n && t != DTYPE_F32; i++) {
        store_u16(out + 2 * i, t == DTYPE_F16 ? fp_f32_to_f16(x[i]) : fp_f32_to_bf16(x[i]));
        if (t == DTYPE_F16 && isfinite(x[i]) && fabsf(x[i]) >= 65520)
            return err_set(err, ERR_INPUT, "element %llu is %g, F16 ends at 65504",
                           (unsigned long long)i, (double)x[i]);
    }
    return true;
}

bool encode_rows(DType t, const float *rows, uint64_t n_rows, uint64_t k, void *out,
                 uint64_t n_bytes, Err *err) {
    uint64_t need, n;
    if (!encode_supports(t))
        return err_set(err, ERR_UNSUPPORTED,
                       "encoding to %s; F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K "
                       "Q6_K MXFP4 are accepted",
                       dtype_info(t)->name);
    if (__builtin_mul_overflow(n_rows, k, &n) || n > QMATRIX_MAX_ELEMENTS)
        return err_set(err, ERR_LIMIT, "%llu rows of %llu elements are more than 2^48",
                       (unsigned long long)n_rows, (unsigned long long)k);
    if (!dtype_bytes(t, n, k, &need, err)) return false;
    if (need != n_bytes)
        return err_set(err, ERR_INTERNAL, "room for %llu bytes, %llu are needed",
                       (unsigned long long)n_bytes, (unsigned long long)need);
    if (!dtype_info(t)->is_blocked) return encode_plain(t, rows, n, out, err);
    uint64_t bad = first_not_finite(rows, n);
    if (bad < n)
        return err_set(err, ERR_INPUT,
                       "row %llu column %llu is %g; finite weights are needed for %s",
                       (unsigned long long)(bad / k), (unsigned long long)(bad % k),
                       (double)rows[bad], dtype_info(t)->name);
    uint8_t *b = out;
    const bool is_k = encode_k_supports(t);
    const unsigned step = dtype_info(t)->block_elements;
    for (uint64_t i = 0; i < n; i += step, b += dtype_info(t)->block_bytes)
        if (!(is_k ? encode_k_block(t, rows + i, b) : put_block(t, rows + i, b)))
            return err_set(
                err, ERR_INPUT,
                "row %llu column %llu: the %s scale of this block does not fit F16 (65504)",
                (unsigned long long)(i / k), (unsigned long long)(i % k), dtype_info(t)->name);
    return true;
}
