/* Expands a tile of code-book blocks (book.h), once for every instruction set (after a vec_*.h).
 *
 * Three passes over a block: fields to byte arrays [entry][16 lanes] (index, its high bits, signs);
 * indices to book entries; entries to codes. Only the second differs between instruction sets.
 * Everything is integers, so all levels give the same codes. Formats: quant/blocks_codebook.c. */
#include "backend/cpu/book.h"

enum { LANES16 = TILE_ROWS, MAX_ENTRIES = 64, BOOK_AHEAD = 4096 };

typedef struct BookGrid {
    const uint8_t *lo, *hi;
    uint32_t n; /* a multiple of 256 */
} BookGrid;

typedef struct BookFields {
    const uint8_t *low;         /* of the block: low bytes of the indices */
    const unsigned char *ahead; /* what to fetch meanwhile */
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

/* Sixteen bytes, one a lane, as two words: a shift brings in bits of the neighbour above, which the
 * masks take out again. */
typedef struct Lanes {
    uint64_t v[2];
} Lanes;
#define EACH_BYTE(x) ((x)*0x0101010101010101u)

INLINE Lanes lanes_at(const unsigned char *p, int i) {
    Lanes r;
    memcpy(&r, p + i * LANES16, sizeof r);
    return r;
}
INLINE Lanes lanes_bits(Lanes a, int shift, unsigned mask) {
    return (Lanes){{a.v[0] >> shift & EACH_BYTE(mask), a.v[1] >> shift & EACH_BYTE(mask)}};
}
/* a + b << shift; the sums fit their bytes. */
INLINE Lanes lanes_join(Lanes a, Lanes b, int shift) {
    return (Lanes){{a.v[0] + (b.v[0] << shift), a.v[1] + (b.v[1] << shift)}};
}
/* a * by + 1 */
INLINE Lanes lanes_odd(Lanes a, unsigned by) {
    return (Lanes){{a.v[0] * by + EACH_BYTE(1), a.v[1] * by + EACH_BYTE(1)}};
}
INLINE void lanes_put(uint8_t *p, int i, Lanes a) { memcpy(p + i * LANES16, &a, sizeof a); }

/* 7 sign bits in each byte; the eighth makes the number of minus signs even. */
static void even_signs(uint8_t *s) {
    for (int i = 0; i < 32 * LANES16; i += 8) {
        uint64_t x, p;
        memcpy(&x, s + i, 8);
        p = x ^ x >> 4; /* parities in the low bits: what comes from above never gets there */
        p ^= p >> 2;
        p ^= p >> 1;
        x |= (p & EACH_BYTE(1)) << 7;
        memcpy(s + i, &x, 8);
    }
}

/* IQ2_XXS, IQ3_XXS: eight words of four times 7 sign bits and a scale, in byte planes. */
static void fields_words(const unsigned char *p, BookFields *f) {
    for (int g = 0; g < 8; g++) {
        Lanes a = lanes_at(p, g), b = lanes_at(p, 8 + g), c = lanes_at(p, 16 + g),
              d = lanes_at(p, 24 + g);
        uint8_t *sign = f->sign + 4 * g * LANES16;
        lanes_put(sign, 0, lanes_bits(a, 0, 127));
        lanes_put(sign, 1, lanes_join(lanes_bits(a, 7, 1), lanes_bits(b, 0, 63), 1));
        lanes_put(sign, 2, lanes_join(lanes_bits(b, 6, 3), lanes_bits(c, 0, 31), 2));
        lanes_put(sign, 3, lanes_join(lanes_bits(c, 5, 7), lanes_bits(d, 0, 15), 3));
        lanes_put(f->sub, g, lanes_odd(lanes_bits(d, 4, 15), 2));
    }
    even_signs(f->sign);
}

/* Nibbles in n bytes. */
static void fields_scales(const unsigned char *p, int n, BookFields *f) {
    for (int i = 0; i < n; i++) {
        lanes_put(f->sub, 2 * i, lanes_odd(lanes_bits(lanes_at(p, i), 0, 15), 2));
        lanes_put(f->sub, 2 * i + 1, lanes_odd(lanes_bits(lanes_at(p, i), 4, 15), 2));
    }
}

/* High bits of n indices, so many bits each, low ones first. */
INLINE void fields_high(const unsigned char *qh, int n, const int bits, BookFields *f) {
    const int per = 8 / bits;
    for (int l = 0; l < n; l++)
        lanes_put(f->high, l, lanes_bits(lanes_at(qh, l / per), l % per * bits, (1u << bits) - 1));
}

static void fields_2xs(const unsigned char *p, BookFields *f) {
    for (int l = 0; l < 32; l++) {
        Lanes hi = lanes_at(p, 34 + l);
        lanes_put(f->high, l, lanes_bits(hi, 0, 1));
        lanes_put(f->sign, l, lanes_bits(hi, 1, 127));
    }
    even_signs(f->sign);
    fields_scales(p + 66 * LANES16, 8, f);
}

static void fields_2s(const unsigned char *p, BookFields *f) {
    memcpy(f->sign, p + 34 * LANES16, sizeof f->sign);
    fields_high(p + 66 * LANES16, 32, 2, f);
    fields_scales(p + 74 * LANES16, 8, f);
}

static void fields_3s(const unsigned char *p, BookFields *f) {
    memcpy(f->sign, p + 74 * LANES16, sizeof f->sign);
    fields_high(p + 66 * LANES16, 64, 1, f);
    fields_scales(p + 106 * LANES16, 4, f);
}

/* Four times three bits from the low and the high byte of a word. */
INLINE void put_threes(Lanes lo, Lanes hi, uint8_t *out) {
    lanes_put(out, 0, lanes_bits(lo, 0, 7));
    lanes_put(out, 1, lanes_bits(lo, 3, 7));
    lanes_put(out, 2, lanes_join(lanes_bits(lo, 6, 3), lanes_bits(hi, 0, 1), 2));
    lanes_put(out, 3, lanes_bits(hi, 1, 7));
}

/* IQ1: the sign byte is what is added to eight times the trit: 1, or 255 for minus one. */
static void fields_1s(const unsigned char *p, BookFields *f) {
    for (int g = 0; g < 8; g++) {
        Lanes lo = lanes_at(p, 34 + g), hi = lanes_at(p, 42 + g);
        put_threes(lo, hi, f->high + 4 * g * LANES16);
        for (int l = 0; l < 4; l++)
            lanes_put(f->sign, 4 * g + l, lanes_odd(lanes_bits(hi, 7, 1), 254));
        lanes_put(f->sub, g, lanes_odd(lanes_bits(hi, 4, 7), 2));
    }
}

static void fields_1m(const unsigned char *p, BookFields *f) {
    for (int l = 0; l < 32; l++) {
        Lanes q = lanes_at(p, 32 + l / 2);
        lanes_put(f->high, l, lanes_bits(q, l % 2 * 4, 7));
        lanes_put(f->sign, l, lanes_odd(lanes_bits(q, l % 2 * 4 + 3, 1), 254));
    }
    for (int i = 0; i < 4; i++)
        put_threes(lanes_at(p, 48 + i), lanes_at(p, 52 + i), f->sub + 4 * i * LANES16);
    for (int g = 0; g < 16; g++) lanes_put(f->sub, g, lanes_odd(lanes_at(f->sub, g), 2));
}

/* Eight bits = four levels of two, to a byte each: the copies overlap only above the two bits that
 * each byte keeps. */
INLINE qb spread_pairs(qi e) {
    e = qi_or(e, qi_shl(e, 12));
    e = qi_or(e, qi_shl(e, 6));
    return qb_and(qi_as_qb(e), qb_set1(3));
}

/* Vectors of eight: two output vectors an entry. */
/* The fields of a block are read in a burst, after which memory would have nothing to do: lines of
 * a later block are asked for between the others' codes (measured: 7.7 instead of 17 GMAC/s). */
INLINE void fetch_ahead(const unsigned char *p, int line) {
    __builtin_prefetch(p + line * CODE_VEC, 0, 3);
}

INLINE void put_eights(const BookFields *f, const uint8_t *level, const bool trits,
                       uint8_t *codes) {
    const qb levels = qb_table(level);
    for (int l = 0; l < 32; l++, codes += 2 * CODE_VEC) {
        fetch_ahead(f->ahead, l);
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
}

INLINE qb spread_nibbles(const BookFields *f, int at) {
    qi e = qi_or(qi_load_u8(f->lo + at), qi_shl(qi_load_u8(f->hi + at), 16));
    return qb_and(qi_as_qb(qi_or(e, qi_shl(e, 4))), qb_set1(15));
}

/* Vectors of four: nibbles of two bytes; a sign byte serves two. */
INLINE void put_fours(const BookFields *f, const uint8_t *level, uint8_t *codes) {
    const qb levels = qb_table(level);
    for (int l = 0; l < 32; l++, codes += 2 * CODE_VEC) {
        fetch_ahead(f->ahead, l);
        for (int lane0 = 0; lane0 < LANES16; lane0 += Q_LANES) {
            const int at = 2 * l * LANES16 + lane0;
            const qb sign = qb_dup(qi_load_u8(f->sign + l * LANES16 + lane0));
            qb a = qb_lookup(levels, spread_nibbles(f, at));
            qb b = qb_lookup(levels, spread_nibbles(f, at + LANES16));
            qb_store(codes + 4 * lane0, qb_mirror(a, sign, 0));
            qb_store(codes + CODE_VEC + 4 * lane0, qb_mirror(b, sign, 1));
        }
    }
}

/* Five trits a byte, highest first: a trit is the top of the byte in thirds, and times three (mod
 * 256) brings up the next. Column 32n + i of the first 160 is trit n of byte i, and so on. */
INLINE void put_trits(const unsigned char *p, const int n_words, const int n_trits,
                      uint8_t *codes) {
    for (int w = 0; w < n_words; w++)
        for (int lane0 = 0; lane0 < LANES16; lane0 += Q_LANES) {
            qb b = qb_load(p + w * CODE_VEC + 4 * lane0);
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
    f->ahead = p + BOOK_AHEAD;
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
        for (int l = 0; l < 14; l++) fetch_ahead(f->ahead, l);
        put_trits(p, 8, 5, codes);
        put_trits(p + 8 * CODE_VEC, 4, 5, codes + 40 * CODE_VEC);
        put_trits(p + 12 * CODE_VEC, 1, 4, codes + 60 * CODE_VEC);
        memset(f->sub, 1, LANES16);
    }
}

/* The blocks' d of all lanes; IQ1_M has a nibble of it on top of each of four words. */
static vf block_scales(DType t, const unsigned char *p) {
    uint16_t d[LANES16];
    memcpy(d, p + (t == DTYPE_TQ1_0 ? 52 * LANES16 : 0), sizeof d);
    const unsigned char *tops = p + 52 * LANES16;
    for (int i = 0; t == DTYPE_IQ1_M && i < LANES16; i++)
        d[i] = (uint16_t)(tops[i] >> 4 | (tops[i + 16] & 240) | (tops[i + 32] & 240) << 4 |
                          (tops[i + 48] & 240) << 8);
    return vf_load_f16(d);
}

void ISA(book_expand)(const PackedMat *m, const unsigned char *tile, uint8_t *codes, float *scale) {
    const uint32_t groups = BOOK_COLS / m->group;
    const size_t block = (size_t)TILE_ROWS * dtype_info(m->book)->block_bytes;
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
