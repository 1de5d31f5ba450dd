/* Ceilings with 256-bit vectors: three instructions for 32 int8 multiply-adds, and fused
 * multiply-adds, from registers. */
#include "backend/ceiling.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 10, AHEAD = 2048 };

static uint64_t read_avx2(const void *p, size_t n) {
    const char *x = p;
    __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += 256) {
        for (int k = 0; k < 4; k++) {
            const char *at = x + i + 64 * k;
            _mm_prefetch(at + AHEAD, _MM_HINT_T0);
            s[k] = _mm256_xor_si256(s[k], _mm256_loadu_si256((const __m256i *)(const void *)at));
            s[k] = _mm256_xor_si256(s[k],
                                    _mm256_loadu_si256((const __m256i *)(const void *)(at + 32)));
        }
    }
    s[0] = _mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3]));
    return (uint64_t)_mm256_extract_epi64(s[0], 0) + (uint64_t)_mm256_extract_epi64(s[0], 2);
}

static int int8_avx2(uint64_t n_rounds) {
    __m256i acc[CHAINS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5),
                         one = _mm256_set1_epi16(1);
    for (int k = 0; k < CHAINS; k++) acc[k] = _mm256_setzero_si256();
    for (uint64_t r = 0; r < n_rounds; r++) {
        for (int k = 0; k < CHAINS; k++) {
            __asm__ volatile(""
                             : "+x"(a), "+x"(b)); /* may have changed: the product is not shared */
            acc[k] = _mm256_add_epi32(acc[k], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), one));
        }
    }
    for (int k = 1; k < CHAINS; k++) acc[0] = _mm256_xor_si256(acc[0], acc[k]);
    return _mm256_extract_epi32(acc[0], 0);
}

static float f32_avx2(uint64_t n_rounds) {
    __m256 acc[CHAINS], a = _mm256_set1_ps(1), b = _mm256_set1_ps(1e-30f);
    for (int k = 0; k < CHAINS; k++) acc[k] = _mm256_setzero_ps();
    for (uint64_t r = 0; r < n_rounds; r++) {
        __asm__ volatile("" : "+x"(a), "+x"(b));
        for (int k = 0; k < CHAINS; k++) acc[k] = _mm256_fmadd_ps(a, b, acc[k]);
    }
    for (int k = 1; k < CHAINS; k++) acc[0] = _mm256_add_ps(acc[0], acc[k]);
    return _mm256_cvtss_f32(acc[0]);
}

const CeilingOps CEILING_AVX2 = {read_avx2, int8_avx2, f32_avx2, 32.0 * CHAINS, 8.0 * CHAINS};
#endif
