/* qkern.h: one call of a weight kernel: a tile of 16 outputs times a few rows. Kernels are named by
 * instruction set; the sums of one output are the same whatever the number of rows (DESIGN.md
 * section 5, rule 4). */
#ifndef MLXCEL_BACKEND_CPU_QKERN_H
#define MLXCEL_BACKEND_CPU_QKERN_H

#include "backend/cpu/packed.h"

typedef struct QArgs {
    const PackedMat *m;
    const unsigned char *tile; /* its codes, or the first scales in the stream */
    const unsigned char *last; /* the last unit, where it is not behind the others; or NULL */
    const float *scale, *bias; /* [groups][16], scales at the head only: decoded */
    const int8_t *x;           /* the rows' columns of an activation block (cpu_aux.h) */
    const float *x_scale;
    const void *corr;
    uint32_t x_rows; /* rows of the block: its stride */
    float *out;
    size_t out_stride;
    int n_out;        /* outputs of the tile that exist, 1..16 */
    const float *add; /* n_out values added to every row, or NULL */
} QArgs;

typedef void QKernel(const QArgs *a);

/* The kernel for up to *n_rows rows of a matrix; sets how many rows it takes. */
QKernel *qstream_kernel_avx512(const PackedMat *m, uint32_t *n_rows);
QKernel *qstream_kernel_avx2(const PackedMat *m, uint32_t *n_rows);
QKernel *qstream_kernel_portable(const PackedMat *m, uint32_t *n_rows);
QKernel *qhead_kernel_avx512(const PackedMat *m, uint32_t *n_rows);
QKernel *qhead_kernel_avx2(const PackedMat *m, uint32_t *n_rows);
QKernel *qhead_kernel_portable(const PackedMat *m, uint32_t *n_rows);

typedef struct FArgs { /* floats: a tile of 32 outputs times a few rows of f32 activations */
    const unsigned char *tile;
    size_t step;               /* bytes from a column to the next; of plain floats */
    const PackedMat *m;        /* codes that are widened: their matrix; else NULL */
    const unsigned char *last; /* see QArgs */
    const float *scale; /* of those, [groups][32], as widen_scales left them; group 0: [scales] */
    const float *zero;  /* group 0: zero points likewise */
    const float *x;
    size_t x_stride;
    uint32_t k;
    bool go_on; /* sums begin with what out holds */
    float *out;
    size_t out_stride;
    int n_out; /* 1..32 */
    const float *add;
} FArgs;

typedef void FKernel(const FArgs *a);
FKernel *float_kernel_avx512(DType t, uint32_t *n_rows);
FKernel *float_kernel_avx2(DType t, uint32_t *n_rows);
FKernel *float_kernel_portable(DType t, uint32_t *n_rows);

/* Float codes. Scales of a tile are made ready for the kernels; false when one is too large for
 * them (widen.inc.c), and the tile has to be widened code by code. */
typedef bool WidenScales(const PackedMat *m, size_t n_floats, float *scale);
WidenScales widen_scales_avx512, widen_scales_avx2, widen_scales_portable;
FKernel *widen_kernel_avx512(const PackedMat *m, uint32_t *n_rows);
FKernel *widen_kernel_avx2(const PackedMat *m, uint32_t *n_rows);
FKernel *widen_kernel_portable(const PackedMat *m, uint32_t *n_rows);

/* Group 0 (fine.inc.c): a kernel, and columns [k0, k0 + n) of a tile as floats [n][32]; k0 is a
 * multiple of 32. */
FKernel *fine_kernel_avx512(const PackedMat *m, uint32_t *n_rows);
FKernel *fine_kernel_avx2(const PackedMat *m, uint32_t *n_rows);
FKernel *fine_kernel_portable(const PackedMat *m, uint32_t *n_rows);
/* The most rows that one call of a kernel takes; more are better multiplied as floats. */
extern const uint32_t fine_rows_avx512, fine_rows_avx2, fine_rows_portable;
typedef void FineExpand(const FArgs *a, uint32_t k0, uint32_t n, float *out);
FineExpand fine_expand_avx512, fine_expand_avx2, fine_expand_portable;

#endif
