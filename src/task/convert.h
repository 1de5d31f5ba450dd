/* convert.h: one checkpoint into another: MLX's layout of safetensors, quantized or plain, or a GGUF.
 *
 *     ConvertOptions o = {.kind = CONVERT_MLX, .mode = QFORMAT_MLX_AFFINE, .bits = 4, .group = 64};
 *     ConvertReport r;
 *     if (!convert_checkpoint("in", "out", &o, &r, err)) return false;
 *
 * The family's own loader finds and checks the tensors (arch/weights.h), so what can be loaded can
 * be converted, whatever form it is stored in; each is then named anew by its role. Rows are
 * decoded to f32, encoded and written in pieces by all threads: no tensor is ever held whole. The
 * result appears under its name when it is complete, or not at all. */
#ifndef MLXCEL_TASK_CONVERT_H
#define MLXCEL_TASK_CONVERT_H

#include "quant/qmatrix.h"

typedef enum ConvertKind { CONVERT_MLX, CONVERT_GGUF } ConvertKind;

typedef struct ConvertOptions {
    ConvertKind kind;
    bool plain;     /* MLX: decode, quantize nothing */
    QFormat mode;   /* MLX: QFORMAT_MLX_AFFINE (also ROWS), _MXFP4, _MXFP8, _NVFP4 */
    unsigned bits;  /* affine: 1 2 3 4 5 6 8; 0: 4. Others: 0 or their own */
    unsigned group; /* affine: 32 64 128; 0: 64. Others: 0 or their own */
    /* MLX: "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6": more bits for the head and for the
     * values and down projections of the first, the last and every third layer; NULL: none */
    const char *predicate;
    const char *gguf_type; /* "Q4_0", "Q4_K_M", "F16", ... */
    DType dtype;           /* floats that stay: F16, BF16 or F32; NONE: as they are */
    bool force;            /* write over what is there */
    int n_threads;         /* 0: one per core */
    uint64_t shard_bytes;  /* MLX: most tensor bytes of a file; 0: 5 GiB */
    bool (*progress)(void *ctx, Str tensor, uint64_t done, uint64_t total); /* false: stop */
    void *ctx;
} ConvertOptions;

typedef struct ConvertReport {
    size_t n_tensors, n_quantized; /* of what was written; a matrix counts once */
    size_t n_odd;                  /* matrices left as they are: rows are no whole groups */
    uint64_t bytes_in, bytes_out;  /* of tensors */
    uint64_t n_weights;            /* elements */
    bool was_quantized;            /* the input was: it was decoded first */
} ConvertReport;

bool convert_checkpoint(const char *in, const char *out, const ConvertOptions *o, ConvertReport *r,
                        Err *err) MUST_CHECK;

#endif
