/* dtype.h: every storage type a checkpoint can hold, and how many bytes a block of it takes. One
 * table, used by the readers (ckpt/), the reference decoders (quant/) and the packers (backend/).
 * Layouts: decode.h, formats.md. */
#ifndef MLXCEL_QUANT_DTYPE_H
#define MLXCEL_QUANT_DTYPE_H

#include "base/err.h"
#include "base/str.h"

typedef enum DType {
    DTYPE_NONE,
    /* plain elements */
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I64,
    DTYPE_U64,
    DTYPE_I32,
    DTYPE_U32,
    DTYPE_I16,
    DTYPE_U16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_F8_E8M0,
    /* GGUF blocks */
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q8_0,
    DTYPE_Q1_0,
    DTYPE_Q2_0,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_IQ2_XXS,
    DTYPE_IQ2_XS,
    DTYPE_IQ2_S,
    DTYPE_IQ3_XXS,
    DTYPE_IQ3_S,
    DTYPE_IQ1_S,
    DTYPE_IQ1_M,
    DTYPE_MXFP4,
    DTYPE_NVFP4,
    DTYPE_TQ1_0,
    DTYPE_TQ2_0,
    DTYPE_COUNT
} DType;

typedef struct DTypeInfo {
    const char *name;        /* "F16", "Q4_K", ... */
    const char *safetensors; /* its name there, or NULL */
    int ggml_type;           /* its id in GGUF, or -1 */
    unsigned block_elements; /* 1 for plain elements */
    unsigned block_bytes;
    bool is_float;   /* plain float elements (F64..BF16) */
    bool is_blocked; /* a GGUF block format */
} DTypeInfo;

/* never NULL; DTYPE_NONE gives a zero-sized entry named "none" */
const DTypeInfo *dtype_info(DType t);
DType dtype_from_safetensors(Str name); /* DTYPE_NONE if unknown */
DType dtype_from_ggml(uint32_t id);     /* DTYPE_NONE if unknown or gone */
/* Bytes of n_elements in rows of row_elements; ERR_CORRUPT if a row is not whole blocks, ERR_LIMIT
 * on overflow. */
bool dtype_bytes(DType t, uint64_t n_elements, uint64_t row_elements, uint64_t *out,
                 Err *err) MUST_CHECK;

#endif
