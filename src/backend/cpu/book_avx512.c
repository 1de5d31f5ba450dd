#if defined(__x86_64__)
#include "backend/cpu/vec_avx512.h"

/* A permutation of two registers looks up 64 indices in 128 bytes; larger books are gone through in
 * such pieces, a mask taking from each what belongs to it. */
#define BOOK_LOOKUP
typedef struct BookGrid BookGrid;
static void book_lookup(const BookGrid *g, const uint8_t *low, const uint8_t *high, uint32_t n,
                        uint8_t *lo, uint8_t *hi);
#include "backend/cpu/book.inc.c"

static void book_lookup(const BookGrid *g, const uint8_t *low, const uint8_t *high, uint32_t n,
                        uint8_t *lo, uint8_t *hi) {
    const __m512i seven = _mm512_set1_epi8(127);
    for (uint32_t i = 0; i < n; i += 64) {
        __m512i idx = _mm512_loadu_si512(low + i), up = _mm512_loadu_si512(high + i);
        /* which 128 entries: the top bit of the low byte below the high bits */
        __m512i piece =
            _mm512_or_si512(_mm512_add_epi8(up, up),
                            _mm512_and_si512(_mm512_srli_epi16(idx, 7), _mm512_set1_epi8(1)));
        idx = _mm512_and_si512(idx, seven);
        __m512i a = _mm512_setzero_si512(), b = a;
        for (uint32_t t = 0; t < g->n / 128; t++) {
            __mmask64 mine = _mm512_cmpeq_epi8_mask(piece, _mm512_set1_epi8((char)t));
            const uint8_t *tl = g->lo + 128 * t, *th = g->hi + 128 * t;
            a = _mm512_mask_mov_epi8(
                a, mine,
                _mm512_permutex2var_epi8(_mm512_loadu_si512(tl), idx, _mm512_loadu_si512(tl + 64)));
            b = _mm512_mask_mov_epi8(
                b, mine,
                _mm512_permutex2var_epi8(_mm512_loadu_si512(th), idx, _mm512_loadu_si512(th + 64)));
        }
        _mm512_storeu_si512(lo + i, a);
        _mm512_storeu_si512(hi + i, b);
    }
}
#endif
