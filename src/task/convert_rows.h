/* convert_rows.h: the tensors of a conversion, and the loop that carries their rows from a source
 * to a writer. Inside task/ only. */
#ifndef MLXCEL_TASK_CONVERT_ROWS_H
#define MLXCEL_TASK_CONVERT_ROWS_H

#include "arch/arch.h"
#include "base/pool.h"
#include "ckpt/gguf_write.h"
#include "ckpt/safetensors_write.h"
#include "quant/quant_encode.h"
#include "task/convert.h"

typedef struct ConvertItem {   /* one tensor to write; an MLX module's two or three count as one */
    const WeightSource *parts; /* one after the other along the rows */
    uint32_t n_parts;
    bool is_vector;   /* its elements are the rows, of one column */
    uint64_t n, k;    /* rows of all parts, columns */
    float add;        /* to every element */
    float factor;     /* times every element, after that; 0: none */
    uint32_t permute; /* rows per head that are permuted as llama's GGUF files have them; 0: none */
    bool is_mlx;
    EncodeMlx mlx;     /* is_mlx */
    DType dtype;       /* otherwise */
    CkptTensor tensor; /* name, dtype and shape as written; is_mlx: of the codes */
    /* A tensor of the input that it is all of, NULL: none: its bytes where nothing is changed. Of
     * what is no float there are no parts. */
    const CkptTensor *stored;
    const float *row_factors; /* per row, times every element, NULL: none */
    bool neg_exp;             /* x becomes -exp(x) */
    /* of a vector: where each element is taken from; of a row: where each column; NULL: as they are */
    const uint32_t *order, *column_order;
    /* of a directory's tensors: named, and what is known of it */
    bool is_named, is_text, may_quantize, exact;
    Str module;
    const char *suffix;
    size_t first; /* index of its (first) tensor in the writer */
} ConvertItem;

typedef struct ConvertSink { /* where bytes go: either writer */
    SafetensorsOut *safetensors;
    GgufOut *gguf;
} ConvertSink;

/* All items, in order. ck: where stored tensors are. */
bool convert_run(const Checkpoint *ck, const ConvertItem *items, size_t n, const ConvertSink *sink,
                 const ConvertOptions *o, Err *err) MUST_CHECK;

#endif
