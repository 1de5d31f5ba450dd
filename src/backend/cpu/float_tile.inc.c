/* Plain float weights: a tile of 32 outputs ([k][32]) times up to F_MAX_ROWS rows of f32
 * activations. One multiply-add chain per output, in the order of k, for one row as for many. Two
 * vectors of 16 outputs: with one, a single row waits for the latency of its only chain. Rows are
 * named scalars for the reason given in qtile.inc.c. */
#include "backend/cpu/float_rows.inc.h"

#if defined(Q_ALL_ROWS)
enum { F_MAX_ROWS = 12 };
#define F_ROWS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#elif defined(Q_FOUR_ROWS)
enum { F_MAX_ROWS = 3 };
#define F_ROWS(M) M(0) M(1) M(2)
#else
enum { F_MAX_ROWS = 2 };
#define F_ROWS(M) M(0) M(1)
#endif

INLINE vf f_load(const unsigned char *p, const DType t, const int i) {
    if (t == DTYPE_F32) return vf_load((const float *)(const void *)p + i);
    const uint16_t *h = (const uint16_t *)(const void *)p + i;
    return t == DTYPE_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}

/* Row r is reached from one of four pointers, three rows apart: twelve would not fit the registers.
 */
#define F_GO_ON(r)                                                                                 \
    if (r < R) {                                                                                   \
        a##r = vf_load_n(args->out + r * args->out_stride, n0);                                    \
        if (n1) b##r = vf_load_n(args->out + r * args->out_stride + 16, n1);                       \
    }
#define F_STEP(r)                                                                                  \
    if (r < R) {                                                                                   \
        vf v = vf_set1(x##r);                                                                      \
        a##r = vf_fma(wa, v, a##r);                                                                \
        b##r = vf_fma(wb, v, b##r);                                                                \
    }
#define x0 p0[k]
#define x1 p0[k + s]
#define x2 p0[k + 2 * s]
#define x3 p1[k]
#define x4 p1[k + s]
#define x5 p1[k + 2 * s]
#define x6 p2[k]
#define x7 p2[k + s]
#define x8 p2[k + 2 * s]
#define x9 p3[k]
#define x10 p3[k + s]
#define x11 p3[k + 2 * s]

INLINE void float_tile(const FArgs *args, const int R, const DType t) {
    const size_t s = args->x_stride, step = args->step;
    const float *p0 = args->x, *p1 = R > 3 ? p0 + 3 * s : p0, *p2 = R > 6 ? p0 + 6 * s : p0,
                *p3 = R > 9 ? p0 + 9 * s : p0;
    const unsigned char *w = args->tile;
    (void)p1, (void)p2, (void)p3;
    const int n0 = args->n_out < 16 ? args->n_out : 16, n1 = args->n_out - n0;
    F_ROWS(F_DECLARE)
    if (args->go_on) {
        F_ROWS(F_GO_ON)
    }
    for (size_t k = 0; k < args->k; k++, w += step) {
        vf wa = f_load(w, t, 0), wb = f_load(w, t, 16);
        F_ROWS(F_STEP)
    }
    F_ROWS(F_OUT)
}

#define F_KERNEL(r)                                                                                \
    static void float_f32_##r(const FArgs *a) { float_tile(a, r + 1, DTYPE_F32); }                 \
    static void float_f16_##r(const FArgs *a) { float_tile(a, r + 1, DTYPE_F16); }                 \
    static void float_bf16_##r(const FArgs *a) { float_tile(a, r + 1, DTYPE_BF16); }
#define F_ENTRY(r) {float_f32_##r, float_f16_##r, float_bf16_##r},
F_ROWS(F_KERNEL)
static FKernel *const FLOAT_KERNELS[F_MAX_ROWS][3] = {F_ROWS(F_ENTRY)};

FKernel *ISA(float_kernel)(DType t, uint32_t *n_rows) {
    if (*n_rows > F_MAX_ROWS) *n_rows = F_MAX_ROWS;
    return FLOAT_KERNELS[*n_rows - 1][t == DTYPE_F32 ? 0 : t == DTYPE_F16 ? 1 : 2];
}
