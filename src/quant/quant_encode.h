/* quant_encode.h: f32 rows to storage formats: what `mlxcel quantize` writes. The results are those
 * of the formats' own tools, bit for bit: gguf-py for GGUF's blocks of 32, MLX 0.32.4 (CPU) for MLX
 * (both were run against this code). K-quants are searched for: quant_encode_k.c.
 *
 *     encode_rows(DTYPE_Q8_0, rows, n_rows, k, out, n_bytes, err)             out: dtype_bytes()
 *     EncodeMlx e = {QFORMAT_MLX_AFFINE, .bits = 4, .group = 64, .scale_dtype = DTYPE_BF16};
 *     encode_mlx(&e, rows, n_rows, k, weight, scales, biases, err)      sizes: encode_mlx_bytes()
 *
 * A NaN, an infinity, or a scale that its type cannot hold is ERR_INPUT naming the row: no silent
 * damage. */
#ifndef MLXCEL_QUANT_QUANT_ENCODE_H
#define MLXCEL_QUANT_QUANT_ENCODE_H

#include "quant/qmatrix.h"

/* F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K..Q6_K MXFP4; ERR_UNSUPPORTED names the type and these. */
bool encode_rows(DType t, const float *rows, uint64_t n_rows, uint64_t k, void *out,
                 uint64_t n_bytes, Err *err) MUST_CHECK;
bool encode_supports(DType t);

typedef struct EncodeMlx {
    QFormat format;    /* QFORMAT_MLX_AFFINE, _MXFP4, _MXFP8, _NVFP4 */
    unsigned bits;     /* affine: 1 2 3 4 5 6 8; others: 0 or their own */
    unsigned group;    /* affine: 32 64 128; others: 0 or their own */
    DType scale_dtype; /* F16 BF16 F32: the dtype the weight had; affine scales are stored in it */
} EncodeMlx;

/* Bytes per row of the three tensors; biases 0 unless affine. Checks e against k. */
bool encode_mlx_bytes(const EncodeMlx *e, uint64_t k, uint64_t *weight, uint64_t *scales,
                      uint64_t *biases, Err *err) MUST_CHECK;
bool encode_mlx(const EncodeMlx *e, const float *rows, uint64_t n_rows, uint64_t k, uint8_t *weight,
                uint8_t *scales, uint8_t *biases, Err *err) MUST_CHECK;

#endif
