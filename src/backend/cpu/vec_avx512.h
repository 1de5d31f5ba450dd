/* vec_avx512.h: the vector header for files compiled for AVX-512 (F BW VL DQ VNNI VBMI). vf is 16
 * floats, vi 16 int32, vm a mask of 16 lanes; qb, qi, qf are the lanes one weight kernel works on
 * at a time: here all 16 (vec_avx2.h: 8). The same names in vec_avx2.h and vec_portable.h; kernels
 * (*.inc.c) are written once over them. */
#ifndef MLXCEL_BACKEND_CPU_VEC_AVX512_H
#define MLXCEL_BACKEND_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ISA(name) name##_avx512
#define ISA_NAME "avx512-vnni"
#define INLINE static inline __attribute__((always_inline, unused))

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
INLINE vm vm_first(int n) { return (vm)((1u << n) - 1); } /* lanes 0..n-1, n in 0..16 */
INLINE vm vm_and(vm a, vm b) { return a & b; }
INLINE vm vm_not(vm a) { return (vm)~a; }
INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
INLINE void vf_store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, vm_first(n), v); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a * b + c */
INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a * b */
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }              /* b when either is NaN */
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
INLINE vf vf_sel(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); } /* m ? a : b */

INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
INLINE void vi_store(int32_t *p, vi v) { _mm512_storeu_si512((void *)p, v); }
INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n)
#define vi_shl_halves(a, n) _mm512_slli_epi16(a, n) /* each 16 bits for themselves */
#define vi_sar_halves(a, n) _mm512_srai_epi16(a, n)
INLINE vi vf_to_vi(vf a) { return _mm512_cvtps_epi32(a); } /* nearest even */
INLINE vf vi_to_vf(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vf vi_as_vf(vi a) { return _mm512_castsi512_ps(a); }
INLINE vi vf_as_vi(vf a) { return _mm512_castps_si512(a); }
INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
typedef __m512 VfTable; /* 16 floats, looked up by the low four bits of each lane */
INLINE VfTable vf_table(const float *p) { return _mm512_loadu_ps(p); }
INLINE vf vf_lookup(VfTable t, vi i) { return _mm512_permutexvar_ps(i, t); }
INLINE vi vi_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE vi vi_load_i8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE void vi_store_i8(int8_t *p, vi v) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v));
} /* low bytes */

/* Fixed trees: lane i with i + 8, then + 4, + 2, + 1. */
INLINE float vf_hsum(vf v) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
INLINE float vf_hmax(vf v) {
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
INLINE float vf_first(vf v) { return _mm512_cvtss_f32(v); }
INLINE int32_t vi_hsum(vi v) { return _mm512_reduce_add_epi32(v); }

INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE vf vf_load_bf16(const uint16_t *p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
INLINE void vf_store_f16(uint16_t *p, vf v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* Weight kernels. qb_dot: 4 unsigned codes of each lane times the 4 signed bytes at x, added to the
 * lane. */
enum { Q_LANES = 16, Q_MAX_ROWS = 12 };
typedef __m512i qb;
typedef __m512i qi;
typedef __m512 qf;
INLINE qb qb_load(const uint8_t *p) { return _mm512_loadu_si512((const void *)p); }
INLINE qb qb_set1(uint8_t x) { return _mm512_set1_epi8((char)x); }
INLINE qb qb_and(qb a, qb b) { return _mm512_and_si512(a, b); }
INLINE qb qb_or(qb a, qb b) { return _mm512_or_si512(a, b); }
#define qb_shr(a, n) _mm512_srli_epi16(a, n) /* of 16-bit units: mask what crossed over */
#define qb_shl(a, n) _mm512_slli_epi16(a, n)
INLINE qb qb_table(const uint8_t *t) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)t));
}
INLINE qb qb_lookup(qb table, qb idx) { return _mm512_shuffle_epi8(table, idx); }
INLINE qi qi_set1(int32_t x) { return _mm512_set1_epi32(x); }
typedef int32_t FourBytes __attribute__((may_alias, aligned(1)));
INLINE qi qi_dot(qi acc, qb codes, const int8_t *x, int bits) {
    (void)bits;
    /* A register broadcast costs a slot per product; the compiler does not fold it, so the operand
     * is spelt out. */
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(codes), "m"(*(const FourBytes *)x));
    return acc;
}
/* Code books. Lanes are 32 bits; qb_dup: a lane's low byte to its four bytes; qb_mirror: 128 - a
 * where bit 4 * half + i of the sign (in all four bytes) is set, i the byte in the lane. */
INLINE qi qi_load_u8(const uint8_t *p) { return vi_load_u8(p); }
INLINE qi qi_or(qi a, qi b) { return _mm512_or_si512(a, b); }
#define qi_shl(a, n) _mm512_slli_epi32(a, n)
INLINE qb qi_as_qb(qi a) { return a; }
INLINE qb qb_dup(qi a) {
    return _mm512_shuffle_epi8(
        a, _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)));
}
INLINE qb qb_mirror(qb a, qb sign, int half) {
    const __m512i bit = _mm512_set1_epi32(half ? (int32_t)0x80402010 : 0x08040201);
    return _mm512_mask_sub_epi8(a, _mm512_test_epi8_mask(sign, bit), _mm512_set1_epi8(-128), a);
}
INLINE void qb_store(uint8_t *p, qb a) { _mm512_store_si512((void *)p, a); }
INLINE qb qb_add(qb a, qb b) { return _mm512_add_epi8(a, b); }
INLINE qb qb_subs(qb a, qb b) { return _mm512_subs_epu8(a, b); } /* 0 at least */
INLINE qb qb_min(qb a, qb b) { return _mm512_min_epu8(a, b); }
INLINE qf qi_to_qf(qi a) { return _mm512_cvtepi32_ps(a); }
INLINE qf qf_zero(void) { return _mm512_setzero_ps(); }
INLINE qf qf_set1(float x) { return _mm512_set1_ps(x); }
INLINE qf qf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE qf qf_load_f16(const uint16_t *p) { return vf_load_f16(p); }
INLINE qf qf_load_bf16(const uint16_t *p) { return vf_load_bf16(p); }
INLINE qf qf_add(qf a, qf b) { return _mm512_add_ps(a, b); }
INLINE qf qf_mul(qf a, qf b) { return _mm512_mul_ps(a, b); }
INLINE qf qf_fma(qf a, qf b, qf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE void qf_store_n(float *p, qf v, int n) { _mm512_mask_storeu_ps(p, vm_first(n), v); }

#endif
