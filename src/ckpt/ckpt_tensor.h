/* ckpt_tensor.h: one row of a checkpoint's tensor table: where a tensor's bytes are and how they
 * are to be read. The same for safetensors and GGUF; shapes are outermost first in both. */
#ifndef MLXCEL_CKPT_CKPT_TENSOR_H
#define MLXCEL_CKPT_CKPT_TENSOR_H

#include "quant/dtype.h"

enum { CKPT_MAX_DIMS = 8 };

typedef struct CkptTensor {
    Str name; /* as in the file */
    DType dtype;
    int n_dims;                    /* 0..CKPT_MAX_DIMS */
    uint64_t shape[CKPT_MAX_DIMS]; /* outermost first: [out, in]; GGUF's order is turned round */
    int i_file;                    /* index into Checkpoint.files; 0 in a file read alone */
    uint64_t offset;               /* of its first byte in that file */
    uint64_t n_bytes;
} CkptTensor;

/* Writes "[2, 3]" for messages; cut if it does not fit. Gives out. */
const char *ckpt_shape_text(const CkptTensor *t, char *out, size_t n);

#endif
