/* Expands a tile of code-book blocks (book.h), once for every instruction set (after a vec_*.h).
 *
 * Three passes over a block: fields to byte arrays [entry][16 lanes] (index, its high bits, signs);
 * indices to book entries; entries to codes. Only the second differs between instruction sets.
 * Everything is integers, so all levels give the same codes. Formats: quant/blocks_codebook.c. */
#include "backend/cpu/book.h"

enum { LANES16 = TILE_ROWS, MAX_ENTRIES = 64 };

typedef struct BookGrid {
    const uint8_t *lo, *hi;
    uint32_t n; /* a multiple of 256 */
} BookGrid;

typedef struct BookFields {
    const uint8_t *low; /* of the block: low bytes of the indices */
    uint8_t high[MAX_ENTRIES * LANES16], sign[32 * LANES16], sub[16 * LANES16];
    uint8_t lo[MAX_ENTRIES * LANES16], hi[MAX_ENTRIES * LANES16]; /* the entries */
} BookFields;

#ifndef BOOK_LOOKUP
static void book_lookup(const BookGrid *g, const uint8_t *low, const uint8_t *high, uint32_t n,
                        uint8_t *lo, uint8_t *hi) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = low[i] | (uint32_t)high[i] << 8;
        lo[i] = g->lo[at];
        hi[i] = g->hi[at];
    }
}
#endif

INLINE uint32_t word_at(const unsigned char *p, int i) {
    uint32_t w;
    memcpy(&w, p + 4 * i, 4);
    return w;
}

INLINE uint16_t half_at(const unsigned char *p, int i) {
    uint16_t w;
    memcpy(&w, p + 2 * i, 2);
    return w;
}

/* The eighth sign makes the number of minus signs even. */
static void even_signs(uint8_t *s, int n) {
    for (int i = 0; i < n; i++) {
        uint8_t x = s[i] & 127, p = (uint8_t)(x ^ x >> 4);
        p ^= (uint8_t)(p >> 2);
        p ^= (uint8_t)(p >> 1);
        s[i] = (uint8_t)(x | p << 7);
    }
}

#define EACH_LANE for (int i = 0; i < LANES16; i++)

/* IQ2_XXS, IQ3_XXS: 28 sign bits and a scale in each of eight words. */
static void fields_words(const unsigned char *words, BookFields *f) {
    for (int g = 0; g < 8; g++, words += 4 * LANES16) {
        EACH_LANE f->sub[g * LANES16 + i] = (uint8_t)(2 * (word_at(words, i) >> 28) + 1);
        for (int l = 0; l < 4; l++)
            EACH_LANE f->sign[(4 * g + l) * LANES16 + i] = (uint8_t)(word_at(words, i) >> 7 * l);
    }
    even_signs(f->sign, 32 * LANES16);
}

/* Nibbles in n bytes. */
static void fields_scales(const unsigned char *p, int n, BookFields *f) {
    for (int g = 0; g < 2 * n; g++)
        EACH_LANE f->sub[g * LANES16 + i] =
            (uint8_t)(2 * (p[g / 2 * LANES16 + i] >> 4 * (g % 2) & 15) + 1);
}

static void fields_2xs(const unsigned char *p, BookFields *f) {
    const unsigned char *hi = p + 34 * LANES16;
    for (int i = 0; i < 32 * LANES16; i++) {
        f->high[i] = hi[i] & 1;
        f->sign[i] = hi[i] >> 1;
    }
    even_signs(f->sign, 32 * LANES16);
    fields_scales(p + 66 * LANES16, 8, f);
}

static void fields_2s(const unsigned char *p, BookFields *f) {
    const unsigned char *qh = p + 66 * LANES16;
    memcpy(f->sign, p + 34 * LANES16, sizeof f->sign);
    for (int l = 0; l < 32; l++)
        EACH_LANE f->high[l * LANES16 + i] = qh[l / 4 * LANES16 + i] >> 2 * (l % 4) & 3;
    fields_scales(p + 74 * LANES16, 8, f);
}

static void fields_3s(const unsigned char *p, BookFields *f) {
    const unsigned char *qh = p + 66 * LANES16;
    memcpy(f->sign, p + 74 * LANES16, sizeof f->sign);
    for (int l = 0; l < 64; l++)
        EACH_LANE f->high[l * LANES16 + i] = qh[l / 8 * LANES16 + i] >> l % 8 & 1;
    fields_scales(p + 106 * LANES16, 4, f);
}

/* IQ1: the sign byte is what is added to eight times the trit: 1, or 255 for minus one. */
static void fields_1s(const unsigned char *p, BookFields *f) {
    const unsigned char *qh = p + 34 * LANES16;
    for (int g = 0; g < 8; g++, qh += 2 * LANES16) {
        EACH_LANE f->sub[g * LANES16 + i] = (uint8_t)(2 * (half_at(qh, i) >> 12 & 7) + 1);
        for (int l = 0; l < 4; l++) EACH_LANE {
                f->high[(4 * g + l) * LANES16 + i] = half_at(qh, i) >> 3 * l & 7;
                f->sign[(4 * g + l) * LANES16 + i] = half_at(qh, i) & 0x8000 ? 255 : 1;
            }
    }
}

static void fields_1m(const unsigned char *p, BookFields *f) {
    const unsigned char *qh = p + 32 * LANES16, *sc = p + 48 * LANES16;
    for (int l = 0; l < 32; l++) EACH_LANE {
            unsigned q = qh[l / 2 * LANES16 + i] >> 4 * (l % 2) & 15u;
            f->high[l * LANES16 + i] = q & 7;
            f->sign[l * LANES16 + i] = q & 8 ? 255 : 1;
        }
    for (int g = 0; g < 16; g++)
        EACH_LANE f->sub[g * LANES16 + i] =
            (uint8_t)(2 * (half_at(sc + g / 4 * 2 * LANES16, i) >> 3 * (g % 4) & 7) + 1);
}

/* Eight bits = four levels of two, to a byte each: the copies overlap only above the two bits that
 * each byte keeps. */
INLINE qb spread_pairs(qi e) {
    e = qi_or(e, qi_shl(e, 12));
    e = qi_or(e, qi_shl(e, 6));
    return qb_and(qi_as_qb(e), qb_set1(3));
}

/* Vectors of eight: two output vectors an entry. */
INLINE void put_eights(const BookFields *f, const uint8_t *level, const bool trits,
                       uint8_t *codes) {
    const qb levels = qb_table(level);
    for (int l = 0; l < 32; l++, codes += 2 * CODE_VEC)
        for (int lane0 = 0; lane0 < LANES16; lane0 += Q_LANES) {
            const int at = l * LANES16 + lane0;
            const qb sign = qb_dup(qi_load_u8(f->sign + at));
            qb a = qb_lookup(levels, spread_pairs(qi_load_u8(f->lo + at)));
            qb b = qb_lookup(levels, spread_pairs(qi_load_u8(f->hi + at)));
            a = trits ? qb_add(a, sign) : qb_mirror(a, sign, 0);
            b = trits ? qb_add(b, sign) : qb_mirror(b, sign, 1);
            qb_store(codes + 4 * lane0, a);
            qb_store(codes + CODE_VEC + 4 * lane0, b);
        }
}

/* Vectors of four: nibbles of two bytes. */
INLINE void put_fours(const BookFields *f, const uint8_t *level, uint8_t *codes) {
    const qb levels = qb_table(level);
    for (int l = 0; l < 64; l++, codes += CODE_VEC)
        for (int lane0 = 0; lane0 < LANES16; lane0 += Q_LANES) {
            const int at = l * LANES16 + lane0;
            const qb sign = qb_dup(qi_load_u8(f->sign + l / 2 * LANES16 + lane0));
            qi e = qi_or(qi_load_u8(f->lo + at), qi_shl(qi_load_u8(f->hi + at), 16));
            e = qi_or(e, qi_shl(e, 4));
            qb c = qb_lookup(levels, qb_and(qi_as_qb(e), qb_set1(15)));
            qb_store(codes + 4 * lane0, l % 2 ? qb_mirror(c, sign, 1) : qb_mirror(c, sign, 0));
        }
}

/* Five trits a byte, highest first: a trit is the top of the byte in thirds, and times three (mod
 * 256) brings up the next. Column 32n + i of the first 160 is trit n of byte i, and so on. */
INLINE void put_trits(const unsigned char *p, const int n_words, const int n_trits,
                      uint8_t *codes) {
    for (int w = 0; w < n_words; w++)
        for (int lane0 = 0; lane0 < LANES16; lane0 += Q_LANES) {
            qb b = qb_loadu(p + w * CODE_VEC + 4 * lane0);
            for (int n = 0; n < n_trits; n++) {
                qb one = qb_min(qb_subs(b, qb_set1(85)), qb_set1(1)),
                   two = qb_min(qb_subs(b, qb_set1(170)), qb_set1(1));
                qb_store(codes + (n * n_words + w) * CODE_VEC + 4 * lane0,
                         qb_add(qb_add(one, two), qb_set1(BOOK_ZERO - 1)));
                b = qb_add(b, qb_add(b, b));
            }
        }
}

static const uint8_t LEVELS_2[16] = {64 + 8, 64 + 25, 64 + 43}, LEVELS_1[16] = {56, 64, 72},
                     LEVELS_3XXS[16] = {64 + 4,  64 + 12, 64 + 20, 64 + 28,
                                        64 + 36, 64 + 44, 64 + 52, 64 + 62},
                     LEVELS_3S[16] = {65, 67, 69, 71, 73, 75, 77, 79};

INLINE void expand_eights(BookFields *f, BookGrid g, const uint8_t *level, const bool trits,
                          uint8_t *codes) {
    book_lookup(&g, f->low, f->high, 32 * LANES16, f->lo, f->hi);
    put_eights(f, level, trits, codes);
}

INLINE void expand_fours(BookFields *f, BookGrid g, const uint8_t *level, uint8_t *codes) {
    book_lookup(&g, f->low, f->high, 64 * LANES16, f->lo, f->hi);
    put_fours(f, level, codes);
}

#define GRID(name)                                                                                 \
    (BookGrid) { book_##name##_lo, book_##name##_hi, sizeof book_##name##_lo }

/* One block of a tile: its codes; sub scales stay in f. */
static void expand_block(DType t, const unsigned char *p, BookFields *f, uint8_t *codes) {
    f->low = t == DTYPE_IQ1_M ? p : p + 2 * LANES16;
    switch (t) {
    case DTYPE_IQ2_XXS:
        fields_words(p + 34 * LANES16, f);
        expand_eights(f, GRID(2xxs), LEVELS_2, false, codes);
        return;
    case DTYPE_IQ2_XS:
        fields_2xs(p, f);
        expand_eights(f, GRID(2xs), LEVELS_2, false, codes);
        return;
    case DTYPE_IQ2_S:
        fields_2s(p, f);
        expand_eights(f, GRID(2s), LEVELS_2, false, codes);
        return;
    case DTYPE_IQ3_XXS:
        fields_words(p + 66 * LANES16, f);
        expand_fours(f, GRID(3xxs), LEVELS_3XXS, codes);
        return;
    case DTYPE_IQ3_S:
        fields_3s(p, f);
        expand_fours(f, GRID(3s), LEVELS_3S, codes);
        return;
    case DTYPE_IQ1_S:
        fields_1s(p, f);
        expand_eights(f, GRID(1s), LEVELS_1, true, codes);
        return;
    case DTYPE_IQ1_M:
        fields_1m(p, f);
        expand_eights(f, GRID(1s), LEVELS_1, true, codes);
        return;
    default: /* TQ1_0: 8 words of five trits, 4 of five, 1 of four */
        put_trits(p, 8, 5, codes);
        put_trits(p + 8 * CODE_VEC, 4, 5, codes + 40 * CODE_VEC);
        put_trits(p + 12 * CODE_VEC, 1, 4, codes + 60 * CODE_VEC);
        memset(f->sub, 1, LANES16);
    }
}

/* The blocks' d of all lanes. */
static vf block_scales(DType t, const unsigned char *p) {
    uint16_t d[LANES16];
    memcpy(d, p + (t == DTYPE_TQ1_0 ? 52 * LANES16 : 0), sizeof d);
    const unsigned char *sc = p + 48 * LANES16;
    for (int i = 0; t == DTYPE_IQ1_M && i < LANES16; i++) {
        unsigned bits = 0;
        for (int j = 0; j < 4; j++)
            bits |= (unsigned)(half_at(sc + j * 2 * LANES16, i) >> 12) << 4 * j;
        d[i] = (uint16_t)bits;
    }
    return vf_load_f16(d);
}

void ISA(book_expand)(const PackedMat *m, const unsigned char *tile, uint8_t *codes, float *scale) {
    const uint32_t groups = BOOK_COLS / m->group;
    const size_t block = m->tile_bytes / (m->k / BOOK_COLS);
    const vf unit = vf_set1(m->unit);
    BookFields f;
    memset(f.high, 0, sizeof f.high);
    for (uint32_t k = 0; k < m->k; k += BOOK_COLS, tile += block, codes += BOOK_COLS * LANES16) {
        expand_block(m->book, tile, &f, codes);
        const vf d = block_scales(m->book, tile);
        for (uint32_t g = 0; g < groups; g++, scale += LANES16)
            vf_store(scale, vf_mul(d, vf_mul(vi_to_vf(vi_load_u8(f.sub + g * LANES16)), unit)));
    }
}
