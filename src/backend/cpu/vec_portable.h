/* vec_portable.h: the vector header in plain C: the names of vec_avx512.h as loops over 16 lanes.
 * Multiply-adds round twice (a fused one would be a library call on machines without it), so this
 * level has its own bits. */
#ifndef MLXCEL_BACKEND_CPU_VEC_PORTABLE_H
#define MLXCEL_BACKEND_CPU_VEC_PORTABLE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/fp.h"

#define ISA(name) name##_portable
#define ISA_NAME "portable"
#define INLINE static inline __attribute__((unused))

typedef struct vf {
    float v[16];
} vf;
typedef struct vi {
    int32_t v[16];
} vi;
typedef struct vm {
    int32_t v[16];
} vm; /* 0 or 1 */

#define LANES for (int i = 0; i < 16; i++)
#define VEC_OP(T, name, params, expr)                                                              \
    INLINE T name params {                                                                         \
        T r;                                                                                       \
        LANES r.v[i] = expr;                                                                       \
        return r;                                                                                  \
    }

VEC_OP(vf, vf_set1, (float x), x)
INLINE vf vf_zero(void) { return vf_set1(0); }
VEC_OP(vf, vf_load, (const float *p), p[i])
INLINE void vf_store(float *p, vf v) { LANES p[i] = v.v[i]; }
VEC_OP(vm, vm_first, (int n), i < n)
VEC_OP(vm, vm_and, (vm a, vm b), a.v[i] & b.v[i])
VEC_OP(vm, vm_not, (vm a), !a.v[i])
VEC_OP(vf, vf_load_n, (const float *p, int n), i < n ? p[i] : 0)
INLINE void vf_store_n(float *p, vf v, int n) {
    for (int i = 0; i < n; i++) p[i] = v.v[i];
}
VEC_OP(vf, vf_add, (vf a, vf b), a.v[i] + b.v[i])
VEC_OP(vf, vf_sub, (vf a, vf b), a.v[i] - b.v[i])
VEC_OP(vf, vf_mul, (vf a, vf b), a.v[i] * b.v[i])
VEC_OP(vf, vf_div, (vf a, vf b), a.v[i] / b.v[i])
VEC_OP(vf, vf_fma, (vf a, vf b, vf c), a.v[i] * b.v[i] + c.v[i])
VEC_OP(vf, vf_fnma, (vf a, vf b, vf c), c.v[i] - a.v[i] * b.v[i])
VEC_OP(vf, vf_max, (vf a, vf b), a.v[i] > b.v[i] ? a.v[i] : b.v[i]) /* b when either is NaN */
VEC_OP(vf, vf_min, (vf a, vf b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
VEC_OP(vf, vf_abs, (vf a), fp_from_bits(fp_bits(a.v[i]) & 0x7fffffffu))
VEC_OP(vm, vf_lt, (vf a, vf b), a.v[i] < b.v[i])
VEC_OP(vf, vf_sel, (vm m, vf a, vf b), m.v[i] ? a.v[i] : b.v[i])

VEC_OP(vi, vi_set1, (int32_t x), x)
VEC_OP(vi, vi_add, (vi a, vi b), (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]))
VEC_OP(vi, vi_and, (vi a, vi b), a.v[i] & b.v[i])
VEC_OP(vi, vi_max, (vi a, vi b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
INLINE void vi_store(int32_t *p, vi v) { LANES p[i] = v.v[i]; }
VEC_OP(vm, vi_eq, (vi a, vi b), a.v[i] == b.v[i])
VEC_OP(vi, vi_shl, (vi a, int n), (int32_t)((uint32_t)a.v[i] << n))
VEC_OP(vi, vi_shr, (vi a, int n), (int32_t)((uint32_t)a.v[i] >> n))
INLINE uint32_t sar16(uint32_t h, int n) {
    return (h >> n | (h & 0x8000 ? ~(0xffffu >> n) : 0)) & 0xffff;
}
VEC_OP(vi, vi_shl_halves, (vi a, int n),
       (int32_t)(((uint32_t)a.v[i] << n & 0xffff) | (uint32_t)a.v[i] >> 16 << (16 + n)))
VEC_OP(vi, vi_sar_halves, (vi a, int n),
       (int32_t)(sar16((uint32_t)a.v[i] & 0xffff, n) | sar16((uint32_t)a.v[i] >> 16, n) << 16))
/* Out of range and NaN give INT32_MIN, as the instruction does. */
INLINE int32_t lane_to_int(float x) {
    return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)lrintf(x) : INT32_MIN;
}
VEC_OP(vi, vf_to_vi, (vf a), lane_to_int(a.v[i]))
VEC_OP(vf, vi_to_vf, (vi a), (float)a.v[i])
VEC_OP(vf, vi_as_vf, (vi a), fp_from_bits((uint32_t)a.v[i]))
VEC_OP(vi, vf_as_vi, (vf a), (int32_t)fp_bits(a.v[i]))
INLINE vi vi_load(const void *p) {
    vi r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
typedef vf VfTable; /* 16 floats, looked up by the low four bits of each lane */
INLINE VfTable vf_table(const float *p) { return vf_load(p); }
VEC_OP(vf, vf_lookup, (VfTable t, vi x), t.v[x.v[i] & 15])
VEC_OP(vi, vi_load_u8, (const uint8_t *p), p[i])
VEC_OP(vi, vi_load_i8, (const int8_t *p), p[i])
INLINE void vi_store_i8(int8_t *p, vi v) { LANES p[i] = (int8_t)v.v[i]; }

/* Fixed trees: lane i with i + 8, then + 4, + 2, + 1. */
INLINE float vf_hsum(vf v) {
    for (int w = 8; w; w /= 2)
        for (int i = 0; i < w; i++) v.v[i] += v.v[i + w];
    return v.v[0];
}
INLINE float vf_hmax(vf v) {
    for (int w = 8; w; w /= 2)
        for (int i = 0; i < w; i++) v.v[i] = v.v[i] > v.v[i + w] ? v.v[i] : v.v[i + w];
    return v.v[0];
}
INLINE float vf_first(vf v) { return v.v[0]; }
INLINE int32_t vi_hsum(vi v) {
    int32_t s = 0;
    LANES s += v.v[i];
    return s;
}

VEC_OP(vf, vf_load_f16, (const uint16_t *p), fp_f16_to_f32(p[i]))
VEC_OP(vf, vf_load_bf16, (const uint16_t *p), fp_bf16_to_f32(p[i]))
INLINE void vf_store_f16(uint16_t *p, vf v) { LANES p[i] = fp_f32_to_f16(v.v[i]); }

enum { Q_LANES = 16, Q_MAX_ROWS = 2 };
typedef struct qb {
    uint8_t v[64];
} qb;
typedef vi qi;
typedef vf qf;
#define BYTES for (int i = 0; i < 64; i++)
INLINE qb qb_load(const uint8_t *p) {
    qb r;
    memcpy(r.v, p, 64);
    return r;
}
INLINE qb qb_set1(uint8_t x) {
    qb r;
    memset(r.v, x, 64);
    return r;
}
#define QB_OP(name, params, expr)                                                                  \
    INLINE qb name params {                                                                        \
        qb r;                                                                                      \
        BYTES r.v[i] = expr;                                                                       \
        return r;                                                                                  \
    }
QB_OP(qb_and, (qb a, qb b), a.v[i] & b.v[i])
QB_OP(qb_or, (qb a, qb b), a.v[i] | b.v[i])
QB_OP(qb_shr, (qb a, int n), (uint8_t)(a.v[i] >> n))
QB_OP(qb_shl, (qb a, int n), (uint8_t)(a.v[i] << n))
QB_OP(qb_table, (const uint8_t *t), t[i & 15])
QB_OP(qb_lookup, (qb table, qb idx), table.v[idx.v[i] & 15])
INLINE qi qi_set1(int32_t x) { return vi_set1(x); }
INLINE qi qi_dot(qi acc, qb codes, const int8_t *x, int bits) {
    (void)bits;
    LANES {
        const uint8_t *c = codes.v + 4 * i;
        acc.v[i] += c[0] * x[0] + c[1] * x[1] + c[2] * x[2] + c[3] * x[3];
    }
    return acc;
}
INLINE qi qi_load_u8(const uint8_t *p) { return vi_load_u8(p); }
INLINE qi qi_or(qi a, qi b) {
    LANES a.v[i] |= b.v[i];
    return a;
}
INLINE qi qi_shl(qi a, int n) { return vi_shl(a, n); }
INLINE qb qi_as_qb(qi a) {
    qb r;
    BYTES r.v[i] = (uint8_t)((uint32_t)a.v[i / 4] >> 8 * (i % 4));
    return r;
}
INLINE qb qb_dup(qi a) {
    qb r;
    BYTES r.v[i] = (uint8_t)a.v[i / 4];
    return r;
}
QB_OP(qb_mirror, (qb a, qb sign, int half),
      sign.v[i] >> (4 * half + i % 4) & 1 ? (uint8_t)(128 - a.v[i]) : a.v[i])
INLINE void qb_store(uint8_t *p, qb a) { memcpy(p, a.v, 64); }
QB_OP(qb_add, (qb a, qb b), (uint8_t)(a.v[i] + b.v[i]))
QB_OP(qb_subs, (qb a, qb b), a.v[i] > b.v[i] ? (uint8_t)(a.v[i] - b.v[i]) : 0)
QB_OP(qb_min, (qb a, qb b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
INLINE qf qi_to_qf(qi a) { return vi_to_vf(a); }
INLINE qf qf_zero(void) { return vf_zero(); }
INLINE qf qf_set1(float x) { return vf_set1(x); }
INLINE qf qf_load(const float *p) { return vf_load(p); }
INLINE qf qf_load_f16(const uint16_t *p) { return vf_load_f16(p); }
INLINE qf qf_load_bf16(const uint16_t *p) { return vf_load_bf16(p); }
INLINE qf qf_add(qf a, qf b) { return vf_add(a, b); }
INLINE qf qf_mul(qf a, qf b) { return vf_mul(a, b); }
INLINE qf qf_fma(qf a, qf b, qf c) { return vf_fma(a, b, c); }
INLINE void qf_store_n(float *p, qf v, int n) {
    for (int i = 0; i < n && i < 16; i++) p[i] = v.v[i];
}

#endif
