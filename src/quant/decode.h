/* decode.h: the reference decode of every storage format to f32: the specification, plain C, no
 * SIMD. Each element is the exact real value rounded once. Layouts are drawn where they are taken
 * apart: blocks_*.c (GGUF), form_*.c (the others).
 *
 *     decode_rows(DTYPE_Q4_K, bytes, n_bytes, n_rows, k, out, err)     plain elements, GGUF blocks
 *     decode_matrix(&m, n0, n1, out, err)                              several tensors (qmatrix.h)
 *
 * Both write f32 [rows, k], row-major, and fail rather than read past what they were given. */
#ifndef MLXCEL_QUANT_DECODE_H
#define MLXCEL_QUANT_DECODE_H

#include "quant/qmatrix.h"
#include "quant/wform.h"

/* Plain floats and integers (BOOL gives 0 or 1, 64-bit integers and F64 are rounded) and every
 * GGUF block type. */
bool decode_rows(DType t, const void *rows, uint64_t n_bytes, uint64_t n_rows, uint64_t k,
                 float *out, Err *err) MUST_CHECK;
/* One block of a GGUF type with scales of its own (not NVFP4's second one): block_elements values.
 */
void decode_block(DType t, const uint8_t *block, float *out);
/* Rows [n0, n1) of a matrix, columns in the file's order. Sets up a WForm each time; decode_with
 * keeps one. */
bool decode_matrix(const QMatrix *m, uint64_t n0, uint64_t n1, float *out, Err *err) MUST_CHECK;
bool decode_with(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, float *out,
                 Err *err) MUST_CHECK;

#endif
