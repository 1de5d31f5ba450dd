#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "quant/quant_encode.h"
#include "quant/forms.h"

/* MLX's encoders (layouts: form_mlx.c). Arithmetic is f32; scales and biases are rounded to their
 * dtype only after the codes were computed from the unrounded ones. */

/* False if f does not fit t. */
static bool put_float(DType t, uint8_t *p, float f) {
    if (t == DTYPE_F32) {
        memcpy(p, &f, 4);
        return isfinite(f);
    }
    uint16_t h = t == DTYPE_F16 ? fp_f32_to_f16(f) : fp_f32_to_bf16(f);
    memcpy(p, &h, 2);
    return isfinite(t == DTYPE_F16 ? fp_f16_to_f32(h) : fp_bf16_to_f32(h));
}

static float clipf(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Codes, scale and bias of one group. The extreme of larger magnitude and zero are both hit
 * exactly, so the scale may be negative. One bit is the exception: its two codes are the extremes.
 */
static void affine_group(const float *w, unsigned n, unsigned bits, uint8_t *codes, float *scale,
                         float *bias) {
    float top = (float)((1u << bits) - 1), lo = w[0], hi = w[0];
    for (unsigned i = 1; i < n; i++) {
        lo = w[i] < lo ? w[i] : lo;
        hi = w[i] > hi ? w[i] : hi;
    }
    float s = fmaxf((hi - lo) / top, 1e-7f), b = lo;
    if (bits > 1) {
        bool low = fabsf(lo) > fabsf(hi);
        float edge = low ? lo : hi;
        s = low ? s : -s;
        float q0 = rintf(edge / s);
        b = q0 != 0 ? edge : 0;
        s = q0 != 0 ? edge / q0 : s;
    }
    for (unsigned i = 0; i < n; i++) codes[i] = (uint8_t)clipf(rintf((w[i] - b) / s), 0, top);
    *scale = s;
    *bias = b;
}

/* Nearest E2M1; a tie goes to the smaller magnitude, and what rounds to zero is +0. */
static uint8_t nearest_fp4(float x) {
    static const float middle[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    float a = fabsf(x);
    uint8_t code = 0;
    while (code < 7 && a > middle[code]) code++;
    return code && x < 0 ? code | 8 : code;
}

/* Power-of-two scale byte that brings amax to at most `largest`. The quotient is one of the
 * weight's dtype, which matters where it is subnormal in f16. */
static uint8_t mx_scale(float amax, float largest, DType weight) {
    float q = amax / largest;
    if (weight == DTYPE_F16) q = fp_f16_to_f32(fp_f32_to_f16(q));
    if (q == 0) return 127;
    float e = ceilf(log2f(q));
    return (uint8_t)(127 + (int)clipf(e, -127, 127));
}

/* False if amax is beyond what the scale can bring into range (nvfp4: 448 * 6, and what rounds to
 * it). */
static bool float_group(const EncodeMlx *e, const float *w, unsigned n, uint8_t *codes,
                        uint8_t *scale) {
    QFormat f = e->format;
    float amax = 0;
    for (unsigned i = 0; i < n; i++) amax = fmaxf(amax, fabsf(w[i]));
    float s;
    if (f == QFORMAT_MLX_NVFP4) {
        *scale = fp_f32_to_e4m3(amax / 6);
        s = fp_e4m3_to_f32(*scale);
    } else {
        *scale = mx_scale(amax, f == QFORMAT_MLX_MXFP4 ? 6 : 448, e->scale_dtype);
        s = fp_e8m0_to_f32(*scale);
    }
    for (unsigned i = 0; i < n; i++) {
        float x = s == 0 ? 0 : w[i] / s;
        codes[i] = f == QFORMAT_MLX_MXFP8 ? fp_f32_to_e4m3(x) : nearest_fp4(x);
    }
    return f != QFORMAT_MLX_NVFP4 || amax / 6 <= 464;
}

/* One group into its codes and its place in scales and biases. */
static bool put_group(const EncodeMlx *e, const float *w, unsigned n, unsigned bits, uint8_t *codes,
                      uint8_t *scale, uint8_t *bias) {
    float s, b;
    if (e->format != QFORMAT_MLX_AFFINE) return float_group(e, w, n, codes, scale);
    affine_group(w, n, bits, codes, &s, &b);
    return put_float(e->scale_dtype, scale, s) && put_float(e->scale_dtype, bias, b);
}

static void pack_stream(const uint8_t *codes, unsigned bits, uint64_t n, uint8_t *out) {
    memset(out, 0, n * bits / 8);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bit = i * bits;
        unsigned v = (unsigned)codes[i] << bit % 8;
        out[bit / 8] |= (uint8_t)v;
        if (v >> 8) out[bit / 8 + 1] |= (uint8_t)(v >> 8);
    }
}

/* bits and group, own values filled in; false if the format has others. */
static bool mlx_params(const EncodeMlx *e, unsigned *bits, unsigned *group, Err *err) {
    bool affine = e->format == QFORMAT_MLX_AFFINE;
    *bits = affine ? e->bits : e->format == QFORMAT_MLX_MXFP8 ? 8 : 4;
    *group = affine ? e->group : e->format == QFORMAT_MLX_NVFP4 ? 16 : 32;
    if (e->format < QFORMAT_MLX_AFFINE || e->format > QFORMAT_MLX_NVFP4)
        return err_set(err, ERR_UNSUPPORTED,
                       "encoding to %s; mlx affine, mxfp4, mxfp8, nvfp4 are accepted",
                       qformat_name(e->format));
    if (*bits < 1 || *bits == 7 || *bits > 8 || (e->bits && e->bits != *bits))
        return err_set(err, ERR_INPUT, "%s: %u bits; %s accepted", qformat_name(e->format), e->bits,
                       affine       ? "1 2 3 4 5 6 8 are"
                       : *bits == 8 ? "8 is"
                                    : "4 is");
    if ((affine && *group != 32 && *group != 64 && *group != 128) ||
        (e->group && e->group != *group))
        return err_set(err, ERR_INPUT, "%s: group size %u; %s accepted", qformat_name(e->format),
                       e->group,
                       affine         ? "32 64 128 are"
                       : *group == 16 ? "16 is"
                                      : "32 is");
    if (affine && e->scale_dtype != DTYPE_F16 && e->scale_dtype != DTYPE_BF16 &&
        e->scale_dtype != DTYPE_F32)
        return err_set(err, ERR_INPUT, "mlx affine: scales of type %s; F16 BF16 F32 are accepted",
                       dtype_info(e->scale_dtype)->name);
    return true;
}

bool encode_mlx_bytes(const EncodeMlx *e, uint64_t k, uint64_t *weight, uint64_t *scales,
                      uint64_t *biases, Err *err) {
    unsigned bits, group;
    if (!mlx_params(e, &bits, &group, err)) return false;
    if (k == 0 || k > UINT32_MAX || k % group)
        return err_set(err, ERR_INPUT, "%s: rows of %llu elements; whole groups of %u are accepted",
                       qformat_name(e->format), (unsigned long long)k, group);
    bool affine = e->format == QFORMAT_MLX_AFFINE;
    *weight = k * bits / 8;
    *scales = k / group * (affine ? dtype_info(e->scale_dtype)->block_bytes : 1);
    *biases = affine ? *scales : 0;
    return true;
}

static bool encode_group(const EncodeMlx *e, const float *w, unsigned n, unsigned bits,
                         uint8_t *codes, uint8_t *scale, uint8_t *bias, Err *err) {
    for (unsigned i = 0; i < n; i++)
        if (!isfinite(w[i]))
            return err_set(err, ERR_INPUT, "element %u is %g; finite weights are needed for %s", i,
                           (double)w[i], qformat_name(e->format));
    if (put_group(e, w, n, bits, codes, scale, bias)) return true;
    return err_set(err, ERR_INPUT, "the %s scale overflows its type", qformat_name(e->format));
}

bool encode_mlx(const EncodeMlx *e, const float *rows, uint64_t n_rows, uint64_t k, uint8_t *weight,
                uint8_t *scales, uint8_t *biases, Err *err) {
    unsigned bits = 0, group = 1;
    uint64_t row_weight = 0, row_scales = 0, row_biases = 0;
    if (!encode_mlx_bytes(e, k, &row_weight, &row_scales, &row_biases, err) ||
        !mlx_params(e, &bits, &group, err))
        return false;
    uint64_t n_groups = k / group;
    unsigned size = row_biases ? dtype_info(e->scale_dtype)->block_bytes : 1;
    uint8_t codes[128] = {0};
    for (uint64_t n = 0; n < n_rows; n++)
        for (uint64_t g = 0; g < n_groups; g++) {
            uint64_t at = (n * n_groups + g) * size;
            uint8_t *bias = row_biases ? biases + at : NULL;
            if (!encode_group(e, rows + n * k + g * group, group, bits, codes, scales + at, bias,
                              err))
                return err_wrap(err, "row %llu group %llu", (unsigned long long)n,
                                (unsigned long long)g);
            pack_stream(codes, bits, group, weight + n * row_weight + g * group * bits / 8);
        }
    return true;
}
