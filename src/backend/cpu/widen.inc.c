/* Float codes (fp8, nf4): a tile of 32 outputs times a few rows of f32 activations, codes widened in
 * registers. The weight is rounded once, scale * value, as a decoder does it; then one multiply-add
 * chain per output in the order of k, for one row as for many (float_tile.inc.c, whose rows these
 * are).
 *
 * One-byte floats: sign, exponent and fraction are moved to where f32 has them, which divides the
 * value by a power of two that the scale makes up for: 2^120 for E4M3 (biases 7 and 127), 2^112 for
 * E5M2. Both steps are exact. A scale too large to take that factor is left to the slow way, and so
 * are infinities and NaN (odd_codes). */
#include "backend/cpu/qkern.h"

#define WIDEN_E4M3 0x1p120f
#define WIDEN_E5M2 0x1p112f

enum { W_AHEAD = 4096 };
enum { W_E4M3, W_E5M2, W_FOUR };

/* Columns 4q .. 4q + 3 of 16 outputs, one at a time. Of one-byte floats, the upper halves of f32
 * are made for two columns at once: bytes 0 and 2, 1 and 3 of each lane. */
typedef struct WCols {
    vi even, odd;
} WCols;

INLINE WCols w_cols(const unsigned char *p, const int type) {
    vi v = vi_load(p);
    if (type == W_FOUR) return (WCols){v, v};
    const vi keep = vi_set1(type == W_E5M2 ? (int32_t)0x8fe08fe0 : (int32_t)0x87f087f0);
    const int n = type == W_E5M2 ? 3 : 4;
    return (WCols){vi_and(vi_sar_halves(vi_shl_halves(v, 8), n), keep),
                   vi_and(vi_sar_halves(v, n), keep)};
}

INLINE vf w_weight(WCols c, const int q, const int i, const int type, VfTable values) {
    if (type == W_FOUR) return vf_lookup(values, vi_shr(c.even, 8 * i + 4 * (q % 2)));
    vi v = i % 2 ? c.odd : c.even;
    return vi_as_vf(i < 2 ? vi_shl(v, 16) : vi_and(v, vi_set1((int32_t)0xffff0000)));
}

#define W_STEP(r)                                                                                  \
    if (r < R) {                                                                                   \
        vf v = vf_set1(x##r);                                                                      \
        a##r = vf_fma(wa, v, a##r);                                                                \
        b##r = vf_fma(wb, v, b##r);                                                                \
    }
#define W_COL(q, i)                                                                                \
    {                                                                                              \
        const size_t k = 4 * q + i;                                                                \
        vf wa = vf_mul(w_weight(ca, q, i, type, values), sa);                                      \
        vf wb = vf_mul(w_weight(cb, q, i, type, values), sb);                                      \
        F_ROWS(W_STEP)                                                                             \
    }
#define W_COLS(q)                                                                                  \
    {                                                                                              \
        const size_t at = (type == W_FOUR ? q / 2 : q) * CODE_VEC;                                 \
        WCols ca = w_cols(w + at, type), cb = w_cols(w + half + at, type);                         \
        W_COL(q, 0) W_COL(q, 1) W_COL(q, 2) W_COL(q, 3)                                            \
    }
#define W_SCALES                                                                                   \
    {                                                                                              \
        sa = vf_load(scale);                                                                       \
        sb = vf_load(scale + 16);                                                                  \
        scale += FLOAT_TILE_ROWS;                                                                  \
    }

/* The last columns where k is not whole units: rows with zeros behind them, as their codes have. */
static void widen_tail(const FArgs *args, const int R, float *tail) {
    const uint32_t from = args->k / UNIT_COLS * UNIT_COLS;
    for (int r = 0; r < R; r++)
        for (uint32_t c = 0; c < UNIT_COLS; c++)
            tail[r * UNIT_COLS + (int)c] =
                from + c < args->k ? args->x[(size_t)r * args->x_stride + from + c] : 0;
}

INLINE void widen_tile_rows(const FArgs *args, const int R, const int type) {
    const PackedMat *m = args->m;
    size_t s = args->x_stride;
    const float *x = args->x, *scale = args->scale;
    const size_t half = (size_t)(type == W_FOUR ? 4 : 8) * CODE_VEC;
    const unsigned char *w = args->tile;
    const VfTable values = vf_table(m->values);
    const uint32_t upg = m->units_per_group, n_units = m->n_units;
    uint32_t left = 0;
    float tail[F_MAX_ROWS * UNIT_COLS];
    vf sa = vf_zero(), sb = sa;
    F_ROWS(F_DECLARE)
    for (uint32_t u = 0; u < n_units; u++, w += 2 * half, x += UNIT_COLS) {
        for (size_t z = 0; z < 2 * half; z += CODE_VEC) __builtin_prefetch(w + W_AHEAD + z, 0, 2);
        if ((u + 1) * UNIT_COLS > args->k) {
            widen_tail(args, R, tail);
            x = tail;
            s = UNIT_COLS;
            w = args->last;
        }
        const float *p0 = x, *p1 = R > 3 ? p0 + 3 * s : p0, *p2 = R > 6 ? p0 + 6 * s : p0,
                    *p3 = R > 9 ? p0 + 9 * s : p0;
        (void)p1, (void)p2, (void)p3;
        if (left == 0) {
            W_SCALES
            left = upg ? upg : 1;
        }
        left--;
        W_COLS(0) W_COLS(1) W_COLS(2) W_COLS(3) if (!upg) W_SCALES;
        W_COLS(4) W_COLS(5) W_COLS(6) W_COLS(7)
    }
    const int n0 = args->n_out < 16 ? args->n_out : 16, n1 = args->n_out - n0;
    F_ROWS(F_OUT)
}

bool ISA(widen_scales)(const PackedMat *m, size_t n, float *scale) {
    if (m->plain != DTYPE_F8_E4M3 && m->plain != DTYPE_F8_E5M2) return true;
    const float up = m->plain == DTYPE_F8_E5M2 ? WIDEN_E5M2 : WIDEN_E4M3;
    vf most = vf_zero();
    for (size_t i = 0; i < n; i += 16) {
        vf v = vf_load(scale + i);
        most = vf_max(most, vf_abs(v));
        vf_store(scale + i, vf_mul(v, vf_set1(up)));
    }
    return vf_hmax(most) < 0x1p7f;
}

#define W_KERNEL(r)                                                                                \
    static void widen_e4m3_##r(const FArgs *a) { widen_tile_rows(a, r + 1, W_E4M3); }              \
    static void widen_e5m2_##r(const FArgs *a) { widen_tile_rows(a, r + 1, W_E5M2); }              \
    static void widen_four_##r(const FArgs *a) { widen_tile_rows(a, r + 1, W_FOUR); }
#define W_ENTRY(r) {widen_e4m3_##r, widen_e5m2_##r, widen_four_##r},
F_ROWS(W_KERNEL)
static FKernel *const WIDEN_KERNELS[F_MAX_ROWS][3] = {F_ROWS(W_ENTRY)};

FKernel *ISA(widen_kernel)(const PackedMat *m, uint32_t *n_rows) {
    if (*n_rows > F_MAX_ROWS) *n_rows = F_MAX_ROWS;
    return WIDEN_KERNELS[*n_rows - 1][m->bits == 4                ? W_FOUR
                                      : m->plain == DTYPE_F8_E5M2 ? W_E5M2
                                                                  : W_E4M3];
}
