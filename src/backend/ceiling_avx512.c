/* Ceilings with 512-bit vectors: vpdpbusd (64 int8 multiply-adds each) and fused multiply-adds,
 * from registers. */
#include "backend/ceiling.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 12, AHEAD = 2048 };

static uint64_t read_avx512(const void *p, size_t n) {
    const char *x = p;
    __m512i s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                    _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += 256) {
        for (int k = 0; k < 4; k++) {
            _mm_prefetch(x + i + AHEAD + 64 * k, _MM_HINT_T0);
            s[k] = _mm512_xor_si512(s[k], _mm512_loadu_si512(x + i + 64 * k));
        }
    }
    s[0] = _mm512_xor_si512(_mm512_xor_si512(s[0], s[1]), _mm512_xor_si512(s[2], s[3]));
    return (uint64_t)_mm512_reduce_add_epi64(s[0]);
}

static int int8_avx512(uint64_t n_rounds) {
    __m512i acc[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
    for (int k = 0; k < CHAINS; k++) acc[k] = _mm512_setzero_si512();
    for (uint64_t r = 0; r < n_rounds; r++) {
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* may have changed: nothing is hoisted */
        for (int k = 0; k < CHAINS; k++) acc[k] = _mm512_dpbusd_epi32(acc[k], a, b);
    }
    for (int k = 1; k < CHAINS; k++) acc[0] = _mm512_xor_si512(acc[0], acc[k]);
    return _mm512_reduce_add_epi32(acc[0]);
}

static float f32_avx512(uint64_t n_rounds) {
    __m512 acc[CHAINS], a = _mm512_set1_ps(1), b = _mm512_set1_ps(1e-30f);
    for (int k = 0; k < CHAINS; k++) acc[k] = _mm512_setzero_ps();
    for (uint64_t r = 0; r < n_rounds; r++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
        for (int k = 0; k < CHAINS; k++) acc[k] = _mm512_fmadd_ps(a, b, acc[k]);
    }
    for (int k = 1; k < CHAINS; k++) acc[0] = _mm512_add_ps(acc[0], acc[k]);
    return _mm512_reduce_add_ps(acc[0]);
}

const CeilingOps CEILING_AVX512 = {read_avx512, int8_avx512, f32_avx512, 64.0 * CHAINS,
                                   16.0 * CHAINS};
#endif
