/* Codes whose groups no other kernel takes (packed.h, group 0): every column says which scale is
 * its own. A tile of 32 outputs times f32 activations, as for other widened codes: the weight is
 * rounded once, as a decoder does it, then one multiply-add chain per output in the order of k. For
 * many rows a piece of the tile is widened once and multiplied as floats: the same chain. */
#include "backend/cpu/float_rows.inc.h"
#include "backend/cpu/qtile.inc.c"

enum { FINE_INTEGERS, FINE_E4M3, FINE_E5M2, FINE_FOUR };
enum { UNIT_BYTES = 2 * UNIT_COLS * TILE_ROWS, HALF_BYTES = UNIT_COLS * TILE_ROWS };

INLINE void half_to_bytes(const uint8_t *p, const int bits, uint8_t *out) {
#define FINE_Q(q) qb_store(out + q * CODE_VEC + lane0 * 4, q_codes(p + lane0 * 4, bits, q));
    for (int lane0 = 0; lane0 < TILE_ROWS; lane0 += Q_LANES) {
        FINE_Q(0) FINE_Q(1) FINE_Q(2) FINE_Q(3) FINE_Q(4) FINE_Q(5) FINE_Q(6) FINE_Q(7)
    }
}

/* The codes of unit u as bytes; 8-bit ones where they are. */
static const uint8_t *unit_bytes(const FArgs *a, uint32_t u, uint8_t *out) {
    const PackedMat *m = a->m;
    const size_t half = packed_half_bytes(m, TILE_ROWS);
    const uint8_t *p = (u + 1) * UNIT_COLS > m->k ? a->last : a->tile + 2 * half * u;
#define FINE_BITS(b)                                                                               \
    case b:                                                                                        \
        half_to_bytes(p, b, out);                                                                  \
        half_to_bytes(p + half, b, out + HALF_BYTES);                                              \
        return out;
    switch (m->bits) {
        FINE_BITS(1)
        FINE_BITS(2)
        FINE_BITS(3) FINE_BITS(4) FINE_BITS(5) FINE_BITS(6) FINE_BITS(7) default : return p;
    }
}

/* The scale of each column of unit u. */
static const uint32_t *unit_scales(const PackedMat *m, uint32_t u, uint32_t at[UNIT_COLS]) {
    if (m->scale_of) return m->scale_of + (size_t)u * UNIT_COLS;
    uint32_t s = u * UNIT_COLS / m->scale_cols, left = (s + 1) * m->scale_cols - u * UNIT_COLS;
    for (uint32_t i = 0; i < UNIT_COLS; i++) {
        at[i] = s;
        if (--left == 0) {
            s++;
            left = m->scale_cols;
        }
    }
    return at;
}

/* Column i of the four in v. One-byte floats: see widen.inc.c. */
INLINE vf fine_weight(vi v, const int i, const int type, VfTable values, vf scale, vf zero) {
    if (type == FINE_INTEGERS)
        return vf_mul(scale, vf_sub(vi_to_vf(vi_and(vi_shr(v, 8 * i), vi_set1(255))), zero));
    if (type == FINE_FOUR) return vf_mul(vf_lookup(values, vi_shr(v, 8 * i)), scale);
    v = vi_shl(v, 24 - 8 * i);
    v = type == FINE_E4M3 ? vi_and(vi_sar_halves(v, 4), vi_set1((int32_t)0x87f00000))
                          : vi_and(vi_sar_halves(v, 3), vi_set1((int32_t)0x8fe00000));
    return vf_mul(vi_as_vf(v), scale);
}

#define FINE_STEP(r)                                                                               \
    if (r < R) {                                                                                   \
        vf v = vf_set1(x[r * s + c]);                                                              \
        a##r = vf_fma(wa, v, a##r);                                                                \
        b##r = vf_fma(wb, v, b##r);                                                                \
    }
/* Column i of the quad at q: weights wa, wb of the two halves, then `use`. */
#define FINE_COL(i, use)                                                                           \
    {                                                                                              \
        const size_t c = 4 * q + i, at = (size_t)scale_at[c] * FLOAT_TILE_ROWS;                    \
        vf za = fixed, zb = fixed;                                                                 \
        if (zeros) {                                                                               \
            za = vf_load(args->zero + at);                                                         \
            zb = vf_load(args->zero + at + 16);                                                    \
        }                                                                                          \
        vf wa = fine_weight(va, i, type, values, vf_load(args->scale + at), za);                   \
        vf wb = fine_weight(vb, i, type, values, vf_load(args->scale + at + 16), zb);              \
        use                                                                                        \
    }
#define FINE_QUAD                                                                                  \
    const vi va = vi_load(codes + q * CODE_VEC), vb = vi_load(codes + HALF_BYTES + q * CODE_VEC);
/* Of one unit, n columns. */
#define FINE_UNIT(n, use)                                                                          \
    {                                                                                              \
        const uint8_t *codes = unit_bytes(args, u, bytes);                                         \
        const uint32_t *scale_at = unit_scales(m, u, own);                                         \
        size_t q = 0;                                                                              \
        for (; 4 * q + 4 <= n; q++) {                                                              \
            FINE_QUAD FINE_COL(0, use) FINE_COL(1, use) FINE_COL(2, use) FINE_COL(3, use)          \
        }                                                                                          \
        if (4 * q < n) {                                                                           \
            FINE_QUAD FINE_COL(0, use) if (4 * q + 1 < n) FINE_COL(1, use) if (4 * q + 2 < n)      \
                FINE_COL(2, use)                                                                   \
        }                                                                                          \
    }
#define FINE_LOCALS                                                                                \
    const PackedMat *m = args->m;                                                                  \
    const bool zeros = type == FINE_INTEGERS && m->offset == WOFFSET_ZERO;                         \
    const vf fixed = vf_set1((float)m->zero);                                                      \
    const VfTable values = vf_table(m->values);                                                    \
    uint8_t bytes[UNIT_BYTES] __attribute__((aligned(64)));                                        \
    uint32_t own[UNIT_COLS];

#if defined(Q_ALL_ROWS)
enum { FINE_SIZES = 7 };
static const uint32_t SIZES[FINE_SIZES] = {1, 2, 3, 4, 6, 8, 12};
#define FINE_ROWS(M) Q_ROWS(M)
#define EACH_SIZE(M, ...)                                                                          \
    M(1, __VA_ARGS__)                                                                              \
    M(2, __VA_ARGS__)                                                                              \
    M(3, __VA_ARGS__) M(4, __VA_ARGS__) M(6, __VA_ARGS__) M(8, __VA_ARGS__) M(12, __VA_ARGS__)
#else
enum { FINE_SIZES = 2 };
static const uint32_t SIZES[FINE_SIZES] = {1, 2};
#define FINE_ROWS(M) M(0) M(1)
#define EACH_SIZE(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__)
#endif

INLINE void fine_tile(const FArgs *args, const int R, const int type) {
    FINE_LOCALS
    const size_t s = args->x_stride;
    const float *x = args->x;
    FINE_ROWS(F_DECLARE)
    const size_t unit = 2 * packed_half_bytes(m, TILE_ROWS);
    for (uint32_t u = 0; u < m->n_units; u++, x += UNIT_COLS) {
        const uint32_t n = m->k - u * UNIT_COLS < UNIT_COLS ? m->k - u * UNIT_COLS : UNIT_COLS;
        for (size_t z = 0; z < unit; z += CODE_VEC)
            __builtin_prefetch(args->tile + unit * u + Q_AHEAD + z, 0, 2);
        FINE_UNIT(n, FINE_ROWS(FINE_STEP))
    }
    const int n0 = args->n_out < 16 ? args->n_out : 16, n1 = args->n_out - n0;
    FINE_ROWS(F_OUT)
}

INLINE void fine_expand_type(const FArgs *args, uint32_t k0, uint32_t n_cols, float *out,
                             const int type) {
    FINE_LOCALS
    for (uint32_t u = k0 / UNIT_COLS; n_cols > 0; u++, out += UNIT_COLS * FLOAT_TILE_ROWS) {
        const uint32_t n = n_cols < UNIT_COLS ? n_cols : UNIT_COLS;
        FINE_UNIT(n, vf_store(out + c * FLOAT_TILE_ROWS, wa);
                  vf_store(out + c * FLOAT_TILE_ROWS + 16, wb);)
        n_cols -= n;
    }
}

#define FINE_KERNEL(R, name, type)                                                                 \
    static void fine_##name##_##R(const FArgs *a) { fine_tile(a, R, type); }
#define FINE_ENTRY(R, name) fine_##name##_##R,
EACH_SIZE(FINE_KERNEL, integers, FINE_INTEGERS)
EACH_SIZE(FINE_KERNEL, e4m3, FINE_E4M3)
EACH_SIZE(FINE_KERNEL, e5m2, FINE_E5M2)
EACH_SIZE(FINE_KERNEL, four, FINE_FOUR)
static FKernel *const KERNELS[4][FINE_SIZES] = {{EACH_SIZE(FINE_ENTRY, integers)},
                                                {EACH_SIZE(FINE_ENTRY, e4m3)},
                                                {EACH_SIZE(FINE_ENTRY, e5m2)},
                                                {EACH_SIZE(FINE_ENTRY, four)}};

const uint32_t ISA(fine_rows) = FINE_SIZES > 2 ? 12 : 2;

static int type_of(const PackedMat *m) {
    return m->integers                 ? FINE_INTEGERS
           : m->plain == DTYPE_F8_E4M3 ? FINE_E4M3
           : m->plain == DTYPE_F8_E5M2 ? FINE_E5M2
                                       : FINE_FOUR;
}

FKernel *ISA(fine_kernel)(const PackedMat *m, uint32_t *n_rows) {
    int i = FINE_SIZES - 1;
    while (SIZES[i] > *n_rows) i--;
    *n_rows = SIZES[i];
    return KERNELS[type_of(m)][i];
}

void ISA(fine_expand)(const FArgs *a, uint32_t k0, uint32_t n, float *out) {
    switch (type_of(a->m)) {
    case FINE_INTEGERS:
        fine_expand_type(a, k0, n, out, FINE_INTEGERS);
        return;
    case FINE_E4M3:
        fine_expand_type(a, k0, n, out, FINE_E4M3);
        return;
    case FINE_E5M2:
        fine_expand_type(a, k0, n, out, FINE_E5M2);
        return;
    default:
        fine_expand_type(a, k0, n, out, FINE_FOUR);
    }
}
