/* qmatrix.h: one quantized matrix [N, K] = [out, in] as a checkpoint stores it: a format and up to
 * a handful of tensors.
 *
 * The caller (a loader) fills in what it found: dtype, shape and bytes of each tensor, and what
 * the config says. wform_init() checks that all parts agree and infers what was left 0.
 *
 *     QMatrix m = {.format = QFORMAT_MLX_AFFINE, .n = 4096, .k = 4096, .bits = 4, .group = 64};
 *     m.part[QPART_WEIGHT] = qpart_of(DTYPE_U32, 2, shape, data, n_bytes);
 *     m.part[QPART_SCALE] = ...;  m.part[QPART_ZERO] = ...;
 *     if (!decode_matrix(&m, 0, m.n, out, err)) return false;              (decode.h)
 *
 * A leading expert dimension ([E, N, ...]) is folded into the rows: [E*N, K]. Bytes are borrowed.
 * A part may hold only a piece of its tensor; wform_span() tells which piece some rows need. */
#ifndef MLXCEL_QUANT_QMATRIX_H
#define MLXCEL_QUANT_QMATRIX_H

#include <stdint.h>

#include "quant/dtype.h"

/* Which tensor is which part:
 *
 *     format          WEIGHT         SCALE              ZERO               GLOBAL
 *     ROWS            plain or GGUF                                        NAME.scale (NVFP4)
 *     MLX_AFFINE      weight         scales             biases (required)
 *     MLX_MXFP4 ...   weight         scales                                global_scale (nvfp4)
 *     GPTQ            qweight        scales             qzeros             (G_IDX: g_idx)
 *     AWQ             qweight        scales             qzeros
 *     CT_PACKED       weight_packed  weight_scale       weight_zero_point  (G_IDX: weight_g_idx)
 *     CT_INT          weight (I8)    weight_scale       weight_zero_point
 *     CT_NVFP4        weight_packed  weight_scale                          weight_global_scale
 *     CT_MXFP4        weight_packed  weight_scale
 *     FP8             weight         weight_scale(_inv), or none
 *     MODELOPT_NVFP4  weight         weight_scale                          weight_scale_2
 *     GPTOSS_MXFP4    X_blocks       X_scales
 *     BITNET          weight         weight_scale
 *     BNB_NF4         weight         weight.absmax      (TABLE weight.quant_map; NESTED_SCALE,
 *                     NESTED_TABLE: weight.nested_absmax, weight.nested_quant_map)
 *     BNB_INT8        weight (I8)    SCB (F32 [N], the largest magnitude of each row) */
typedef enum QFormat {
    QFORMAT_ROWS,
    QFORMAT_MLX_AFFINE,
    QFORMAT_MLX_MXFP4,
    QFORMAT_MLX_MXFP8,
    QFORMAT_MLX_NVFP4,
    QFORMAT_GPTQ,
    QFORMAT_AWQ,
    QFORMAT_CT_PACKED,
    QFORMAT_CT_INT,
    QFORMAT_CT_NVFP4,
    QFORMAT_CT_MXFP4,
    QFORMAT_FP8,
    QFORMAT_MODELOPT_NVFP4,
    QFORMAT_GPTOSS_MXFP4,
    QFORMAT_BITNET,
    QFORMAT_BNB_NF4,
    QFORMAT_BNB_INT8,
    QFORMAT_COUNT
} QFormat;

typedef enum QPartId {
    QPART_WEIGHT,
    QPART_SCALE,
    QPART_ZERO,
    QPART_G_IDX,
    QPART_GLOBAL,
    QPART_TABLE,
    QPART_NESTED_SCALE,
    QPART_NESTED_TABLE, /* bitsandbytes only */
    QPART_COUNT
} QPartId;

enum { QPART_MAX_DIMS = 4 };

typedef struct QPart {
    DType dtype;                    /* DTYPE_NONE: not there */
    int n_dims;                     /* 0..QPART_MAX_DIMS */
    uint64_t shape[QPART_MAX_DIMS]; /* outermost first */
    const uint8_t *data;            /* any alignment */
    uint64_t from, n_bytes;         /* data holds the tensor's bytes [from, from + n_bytes) */
    /* or, not 0, of every row of a matrix those from byte `from` of the row on, pitch bytes each */
    uint64_t pitch;
} QPart;

typedef struct QMatrix {
    QFormat format;
    uint64_t n, k;             /* 0: infer from the parts */
    unsigned bits;             /* of a code; 0: infer */
    unsigned group;            /* columns per scale; 0: infer */
    unsigned block_n, block_k; /* FP8: weight_block_size; 0: no blocks */
    bool gptq_v2;              /* GPTQ: checkpoint_format gptq_v2: zero points as stored */
    bool bitnet_multiplies;    /* BITNET: linear_class is autobitlinear */
    unsigned bnb_block;        /* BNB_NF4: blocksize along the flat order; 0 = 64 */
    unsigned bnb_nested_block; /* BNB_NF4: nested_blocksize; 0 = 256 */
    float bnb_nested_offset;   /* BNB_NF4: nested_offset */
    QPart part[QPART_COUNT];
} QMatrix;

const char *qformat_name(QFormat f); /* "mlx affine", "gptq", ... */
/* The tensor's name in that format: "qweight", "weight_scale", ...; NULL if it has no such part. */
const char *qpart_name(QFormat f, QPartId id);
QPart qpart_of(DType t, int n_dims, const uint64_t *shape, const void *data, uint64_t n_bytes);

#endif
