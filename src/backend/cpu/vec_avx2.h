/* vec_avx2.h: the vector header for files compiled for AVX2 with FMA and F16C: the names of
 * vec_avx512.h over pairs of 256-bit registers, so that kernels have the same 16-lane structure.
 * Weight kernels take 8 lanes at a time. */
#ifndef MLXCEL_BACKEND_CPU_VEC_AVX2_H
#define MLXCEL_BACKEND_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ISA(name) name##_avx2
#define ISA_NAME "avx2"
#define INLINE static inline __attribute__((always_inline, unused))

typedef struct vf {
    __m256 a, b;
} vf;
typedef struct vi {
    __m256i a, b;
} vi;
typedef struct vm {
    __m256i a, b;
} vm; /* all bits of a lane */

#define VF2(op, x, y) ((vf){op((x).a, (y).a), op((x).b, (y).b)})
#define VI2(op, x, y) ((vi){op((x).a, (y).a), op((x).b, (y).b)})

INLINE vf vf_set1(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE vf vf_zero(void) { return vf_set1(0); }
INLINE vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void vf_store(float *p, vf v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
INLINE vm vm_first(int n) { /* lanes 0..n-1, n in 0..16 */
    __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vm){_mm256_cmpgt_epi32(_mm256_set1_epi32(n), i),
                _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), i)};
}
INLINE vm vm_and(vm x, vm y) {
    return (vm){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
INLINE vm vm_not(vm x) {
    __m256i ones = _mm256_set1_epi32(-1);
    return (vm){_mm256_xor_si256(x.a, ones), _mm256_xor_si256(x.b, ones)};
}
INLINE vf vf_load_n(const float *p, int n) {
    vm m = vm_first(n);
    return (vf){_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}
INLINE void vf_store_n(float *p, vf v, int n) {
    vm m = vm_first(n);
    _mm256_maskstore_ps(p, m.a, v.a);
    _mm256_maskstore_ps(p + 8, m.b, v.b);
}
INLINE vf vf_add(vf x, vf y) { return VF2(_mm256_add_ps, x, y); }
INLINE vf vf_sub(vf x, vf y) { return VF2(_mm256_sub_ps, x, y); }
INLINE vf vf_mul(vf x, vf y) { return VF2(_mm256_mul_ps, x, y); }
INLINE vf vf_div(vf x, vf y) { return VF2(_mm256_div_ps, x, y); }
INLINE vf vf_fma(vf x, vf y, vf z) {
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
INLINE vf vf_fnma(vf x, vf y, vf z) {
    return (vf){_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
INLINE vf vf_max(vf x, vf y) { return VF2(_mm256_max_ps, x, y); } /* y when either is NaN */
INLINE vf vf_min(vf x, vf y) { return VF2(_mm256_min_ps, x, y); }
INLINE vf vf_abs(vf x) {
    vf sign = vf_set1(-0.0f);
    return VF2(_mm256_andnot_ps, sign, x);
}
INLINE vm vf_lt(vf x, vf y) {
    return (vm){_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
INLINE vf vf_sel(vm m, vf x, vf y) { /* m ? x : y */
    return (vf){_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(m.a)),
                _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(m.b))};
}

INLINE vi vi_set1(int32_t x) { return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE vi vi_add(vi x, vi y) { return VI2(_mm256_add_epi32, x, y); }
INLINE vi vi_and(vi x, vi y) { return VI2(_mm256_and_si256, x, y); }
INLINE vi vi_max(vi x, vi y) { return VI2(_mm256_max_epi32, x, y); }
INLINE void vi_store(int32_t *p, vi v) {
    _mm256_storeu_si256((__m256i *)p, v.a);
    _mm256_storeu_si256((__m256i *)(p + 8), v.b);
}
INLINE vm vi_eq(vi x, vi y) {
    return (vm){_mm256_cmpeq_epi32(x.a, y.a), _mm256_cmpeq_epi32(x.b, y.b)};
}
#define vi_shl(x, n) ((vi){_mm256_slli_epi32((x).a, n), _mm256_slli_epi32((x).b, n)})
#define vi_shr(x, n) ((vi){_mm256_srli_epi32((x).a, n), _mm256_srli_epi32((x).b, n)})
#define vi_shl_halves(x, n) ((vi){_mm256_slli_epi16((x).a, n), _mm256_slli_epi16((x).b, n)})
#define vi_sar_halves(x, n) ((vi){_mm256_srai_epi16((x).a, n), _mm256_srai_epi16((x).b, n)})
INLINE vi vf_to_vi(vf x) {
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
} /* nearest even */
INLINE vf vi_to_vf(vi x) { return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
INLINE vf vi_as_vf(vi x) { return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INLINE vi vf_as_vi(vf x) { return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
INLINE vi vi_load(const void *p) {
    return (vi){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
typedef vf VfTable; /* 16 floats, looked up by the low four bits of each lane */
INLINE VfTable vf_table(const float *p) { return vf_load(p); }
INLINE __m256 lookup8(VfTable t, __m256i i) {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.a, i), _mm256_permutevar8x32_ps(t.b, i),
                            _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
INLINE vf vf_lookup(VfTable t, vi i) { return (vf){lookup8(t, i.a), lookup8(t, i.b)}; }
INLINE vi vi_load_u8(const uint8_t *p) {
    return (vi){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
INLINE vi vi_load_i8(const int8_t *p) {
    return (vi){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
INLINE void vi_store_i8(int8_t *p, vi v) { /* low bytes */
    int32_t t[16];
    _mm256_storeu_si256((__m256i *)t, v.a);
    _mm256_storeu_si256((__m256i *)(t + 8), v.b);
    for (int i = 0; i < 16; i++) p[i] = (int8_t)t[i];
}

/* Fixed trees: lane i with i + 8, then + 4, + 2, + 1. */
INLINE float vf_hsum(vf v) {
    __m256 a = _mm256_add_ps(v.a, v.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
INLINE float vf_hmax(vf v) {
    __m256 a = _mm256_max_ps(v.a, v.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
INLINE float vf_first(vf v) { return _mm256_cvtss_f32(v.a); }
INLINE int32_t vi_hsum(vi v) {
    __m256i a = _mm256_add_epi32(v.a, v.b);
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}

INLINE __m256 load8_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE __m256 load8_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
INLINE vf vf_load_f16(const uint16_t *p) { return (vf){load8_f16(p), load8_f16(p + 8)}; }
INLINE vf vf_load_bf16(const uint16_t *p) { return (vf){load8_bf16(p), load8_bf16(p + 8)}; }
INLINE void vf_store_f16(uint16_t *p, vf v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}

/* Weight kernels: 8 lanes. vpmaddubsw saturates at 16 bits, so it serves codes of up to 7 bits (2 *
 * 127 * 127 fits); 8-bit codes are widened to 16 bits, even and odd bytes apart: exact. */
enum { Q_LANES = 8, Q_MAX_ROWS = 4 };
typedef __m256i qb;
typedef __m256i qi;
typedef __m256 qf;
INLINE qb qb_load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE qb qb_set1(uint8_t x) { return _mm256_set1_epi8((char)x); }
INLINE qb qb_and(qb a, qb b) { return _mm256_and_si256(a, b); }
INLINE qb qb_or(qb a, qb b) { return _mm256_or_si256(a, b); }
#define qb_shr(a, n) _mm256_srli_epi16(a, n)
#define qb_shl(a, n) _mm256_slli_epi16(a, n)
INLINE qb qb_table(const uint8_t *t) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t));
}
INLINE qb qb_lookup(qb table, qb idx) { return _mm256_shuffle_epi8(table, idx); }
INLINE qi qi_set1(int32_t x) { return _mm256_set1_epi32(x); }
INLINE qi qi_dot(qi acc, qb codes, const int8_t *x, int bits) {
    int32_t four;
    memcpy(&four, x, 4);
    __m256i v = _mm256_set1_epi32(four);
    if (bits <= 7)
        return _mm256_add_epi32(
            acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, v), _mm256_set1_epi16(1)));
    __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), odd = _mm256_srai_epi16(v, 8);
    acc = _mm256_add_epi32(
        acc, _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(255)), even));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), odd));
}
INLINE qi qi_load_u8(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
INLINE qi qi_or(qi a, qi b) { return _mm256_or_si256(a, b); }
#define qi_shl(a, n) _mm256_slli_epi32(a, n)
INLINE qb qi_as_qb(qi a) { return a; }
INLINE qb qb_dup(qi a) {
    const __m128i to = _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(to));
}
INLINE qb qb_mirror(qb a, qb sign, int half) {
    const __m256i bit = _mm256_set1_epi32(half ? (int32_t)0x80402010 : 0x08040201);
    __m256i on = _mm256_cmpeq_epi8(_mm256_and_si256(sign, bit), bit);
    return _mm256_blendv_epi8(a, _mm256_sub_epi8(_mm256_set1_epi8(-128), a), on);
}
INLINE void qb_store(uint8_t *p, qb a) { _mm256_store_si256((__m256i *)p, a); }
INLINE qb qb_add(qb a, qb b) { return _mm256_add_epi8(a, b); }
INLINE qb qb_subs(qb a, qb b) { return _mm256_subs_epu8(a, b); }
INLINE qb qb_min(qb a, qb b) { return _mm256_min_epu8(a, b); }
INLINE qf qi_to_qf(qi a) { return _mm256_cvtepi32_ps(a); }
INLINE qf qf_zero(void) { return _mm256_setzero_ps(); }
INLINE qf qf_set1(float x) { return _mm256_set1_ps(x); }
INLINE qf qf_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE qf qf_load_f16(const uint16_t *p) { return load8_f16(p); }
INLINE qf qf_load_bf16(const uint16_t *p) { return load8_bf16(p); }
INLINE qf qf_add(qf a, qf b) { return _mm256_add_ps(a, b); }
INLINE qf qf_mul(qf a, qf b) { return _mm256_mul_ps(a, b); }
INLINE qf qf_fma(qf a, qf b, qf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE void qf_store_n(float *p, qf v, int n) { /* n may be 0 or less, or more than 8 */
    __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), i), v);
}

#endif
