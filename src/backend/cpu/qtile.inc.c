/* The integer dot kernel of all coded weights, once for every instruction set (after a vec_*.h).
 * Per unit of 32 columns and row: eight products into an integer sum, which is exact, then one
 * float step: t = sum (- zero * sum of x)      acc = fma(t, scale * x_scale, acc)      acc =
 * fma(bias, x_scale * sum of x, acc)
 *
 * Rows are named scalars, not an array: gcc 12 keeps an array of accumulators in memory whatever is
 * unrolled. R, bits, offset and head are constants at every call, so what does not apply is gone.
 */
#include "backend/cpu/qkern.h"
#include "base/fp.h"

enum { Q_AHEAD = 4096 };
/* Codes are multiplied as they are, looked up in the matrix's table, or are bytes below 128. */
enum { Q_CODES, Q_TABLE, Q_SEVEN };
#define Q_ROWS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)

/* Codes of columns 4q..4q+3 of a unit. */
INLINE qb q_codes(const uint8_t *p, const int bits, const int q) {
    if (bits == 8) return qb_load(p + q * CODE_VEC);
    qb c = qb_set1(0);
    int shift = 0;
    if (bits & 4) {
        qb w = qb_load(p + q / 2 * CODE_VEC);
        c = qb_and(q % 2 ? qb_shr(w, 4) : w, qb_set1(15));
        p += 4 * CODE_VEC;
        shift = 4;
    }
    if (bits & 2) {
        qb two = qb_and(qb_shr(qb_load(p + q / 4 * CODE_VEC), 2 * (q % 4)), qb_set1(3));
        c = shift ? qb_or(c, qb_shl(two, shift)) : two;
        p += 2 * CODE_VEC;
        shift += 2;
    }
    if (bits & 1) {
        qb one = qb_and(qb_shr(qb_load(p), q), qb_set1(1));
        c = shift ? qb_or(c, qb_shl(one, shift)) : one;
    }
    return c;
}

/* corr holds i32 or f32 by the kind of offset. */
INLINE int32_t corr_int(const void *corr, uint32_t i) { return ((const int32_t *)corr)[i]; }
INLINE float corr_float(const void *corr, uint32_t i) { return ((const float *)corr)[i]; }

#define Q_INIT(r)                                                                                  \
    if (r < R) i##r = qi_set1(offset == WOFFSET_CONST ? corr_int(corr, r) : 0);
#define Q_DOT(r)                                                                                   \
    if (r < R) i##r = qi_dot(i##r, c, x + 4 * r, dot_bits);
#define Q_STEP(r)                                                                                  \
    if (r < R) {                                                                                   \
        qf t = qi_to_qf(i##r);                                                                     \
        if (offset == WOFFSET_ZERO) t = qf_fma(bias, qf_set1(corr_float(corr, r)), t);             \
        f##r = qf_fma(t, qf_mul(scale, qf_set1(xs[r])), f##r);                                     \
        if (offset == WOFFSET_BIAS) f##r = qf_fma(bias, qf_set1(corr_float(corr, r)), f##r);       \
    }
#define Q_COLS(q)                                                                                  \
    {                                                                                              \
        qb c = q_codes(p, bits, q);                                                                \
        if (table) c = qb_lookup(values, c);                                                       \
        Q_ROWS(Q_DOT)                                                                              \
        x += x_step;                                                                               \
    }
/* The scales of the next group. */
#define Q_SCALES                                                                                   \
    if (left == 0) {                                                                               \
        if (head) {                                                                                \
            scale = qf_load(head_scale);                                                           \
            if (offset != WOFFSET_CONST) bias = qf_load(head_bias);                                \
            head_scale += TILE_ROWS;                                                               \
            head_bias += TILE_ROWS;                                                                \
            left = halves ? 1 : upg;                                                               \
        } else {                                                                                   \
            const bool open = offset == WOFFSET_BIAS || !second;                                   \
            if (open) {                                                                            \
                meta = p - lane0 * 4 + lane0 * 2;                                                  \
                p += CODE_VEC;                                                                     \
            }                                                                                      \
            const uint16_t *s = (const uint16_t *)(const void *)(open ? meta : meta + 32);         \
            scale = bf16 ? qf_load_bf16(s) : qf_load_f16(s);                                       \
            if (offset == WOFFSET_BIAS) bias = bf16 ? qf_load_bf16(s + 16) : qf_load_f16(s + 16);  \
            second = open;                                                                         \
            left = upg;                                                                            \
        }                                                                                          \
    }
#define Q_NEXT_CORR corr = (const char *)corr + 4 * (size_t)a->x_rows
#define Q_DECLARE(r)                                                                               \
    qi i##r = qi_set1(0);                                                                          \
    qf f##r = qf_zero();
#define Q_OUT(r)                                                                                   \
    if (r < R) {                                                                                   \
        if (a->add) f##r = qf_add(f##r, add);                                                      \
        qf_store_n(a->out + (size_t)r * a->out_stride + lane0, f##r, n_out);                       \
    }

INLINE void q_tile_lanes(const QArgs *a, const int lane0, const int R, const int bits,
                         const int offset, const bool head, const int values_are) {
    const PackedMat *m = a->m;
    const bool table = values_are == Q_TABLE;
    const int dot_bits = table ? 8 : values_are == Q_SEVEN ? 7 : bits;
    const uint8_t *p = a->tile + lane0 * 4, *meta = a->tile;
    const float *head_scale = a->scale + lane0, *head_bias = a->bias + lane0, *xs = a->x_scale;
    const int8_t *x = a->x;
    const void *corr = a->corr;
    const size_t x_step = 4 * (size_t)a->x_rows;
    const bool bf16 = m->scale_dtype == DTYPE_BF16, halves = head && m->units_per_group == 0;
    const uint32_t upg = m->units_per_group, n_units = m->n_units;
    const qb values = table ? qb_table(m->table) : qb_set1(0);
    uint32_t left = 0;
    bool second = false;
    qf scale = qf_zero(), bias = qf_zero();
    Q_ROWS(Q_DECLARE)
    for (uint32_t u = 0, stop = a->last ? n_units - 1 : n_units;; stop = n_units) {
        for (; u < stop; u++) {
            Q_SCALES
            left--;
            /* With more rows than memory waits for, the hardware no longer runs far enough ahead by
         * itself (measured: 123 instead of 163 GMAC/s at 8 rows from memory); with fewer, asking
         * makes it worse. */
            if (R >= 4)
                for (int z = 0; z < bits * CODE_VEC + CODE_VEC; z += CODE_VEC)
                    __builtin_prefetch(p + Q_AHEAD + z, 0, 2);
            Q_ROWS(Q_INIT)
            Q_COLS(0) Q_COLS(1) Q_COLS(2) Q_COLS(3) if (halves) {
                Q_ROWS(Q_STEP)
                Q_NEXT_CORR;
                scale = qf_load(head_scale);
                if (offset != WOFFSET_CONST) bias = qf_load(head_bias);
                head_scale += TILE_ROWS;
                head_bias += TILE_ROWS;
                Q_ROWS(Q_INIT)
            }
            Q_COLS(4) Q_COLS(5) Q_COLS(6) Q_COLS(7) Q_ROWS(Q_STEP) Q_NEXT_CORR;
            xs += a->x_rows;
            p += bits * CODE_VEC;
        }
        if (u == n_units) break;
        Q_SCALES
        p = a->last + lane0 * 4;
    }
    const int n_out = a->n_out - lane0;
    if (n_out <= 0) return;
    float part[16] = {0};
    if (a->add)
        memcpy(part, a->add + lane0, (size_t)(n_out < Q_LANES ? n_out : Q_LANES) * sizeof(float));
    qf add = qf_load(part);
    Q_ROWS(Q_OUT)
}

INLINE void q_tile(const QArgs *a, const int R, const int bits, const int offset, const bool head,
                   const int values_are) {
    for (int lane0 = 0; lane0 < TILE_ROWS; lane0 += Q_LANES)
        q_tile_lanes(a, lane0, R, bits, offset, head, values_are);
}

#define Q_KERNEL(name, R, bits, offset, head, values_are)                                          \
    static void name(const QArgs *a) { q_tile(a, R, bits, offset, head, values_are); }
