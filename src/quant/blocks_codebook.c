/* Formats whose codes are not plain bit fields: base-3 ternary, and the IQ formats, which store
 * indices into a book of short vectors (iq_grid.h). Values are small integers; codes here are
 * value + 128.
 *
 *   TQ2_0    66 B  qs[64]@0 | d f16@64                   two bits each, planes of 32
 *   TQ1_0    54 B  qs[48]@0 | qh[4]@48 | d@52            five trits per byte, highest first
 *   IQ2_XXS  66 B  d@0 | 8 x { idx[4], u32 s }@2         s: 4 x 7 sign bits, 4 scale bits on top
 *   IQ2_XS   74 B  d@0 | u16 q[32]@2 | scales[8]@66      q: 9 index, 7 sign bits
 *   IQ2_S    82 B  d@0 | qs[32]@2 | signs[32]@34 | qh[8]@66 | scales[8]@74
 *   IQ3_XXS  98 B  d@0 | qs[64]@2 | u32 s[8]@66
 *   IQ3_S   110 B  d@0 | qs[64]@2 | qh[8]@66 | signs[32]@74 | scales[4]@106
 *   IQ1_S    50 B  d@0 | qs[32]@2 | u16 qh[8]@34         qh: 4 x 3 index, 3 scale bits, shift sign
 *   IQ1_M    56 B  qs[32]@0 | qh[16]@32 | u16 sc[4]@48   d in the top nibbles of sc
 *
 * TQ2_0 is a plain bit field after all and keeps codes 0 to 2; qh of TQ1_0 has four trits per
 * byte. Units: IQ2 scales are d * (1/2 + s) / 4 = d * (2s + 1) / 8, IQ3_XXS d * (2s + 1) / 4; IQ1
 * values +- 1/8 are eighths. */
#include "base/fp.h"
#include "quant/blocks.h"
#include "quant/iq_grid.h"

/* Seven stored sign bits; the eighth makes the number of minus signs even. */
static unsigned even_signs(unsigned seven) {
    return seven | (unsigned)(__builtin_popcount(seven) & 1) << 7;
}

/* Eight codes from a book vector of eight 2-bit levels (8, 25, 43) and a sign mask. */
static void put_grid8(uint16_t entry, unsigned signs, uint8_t *codes) {
    static const uint8_t level[4] = {8, 25, 43, 0};
    for (int i = 0; i < 8; i++) {
        int v = level[entry >> 2 * i & 3];
        codes[i] = (uint8_t)(128 + (signs >> i & 1 ? -v : v));
    }
}

/* Four codes from a book vector of four 3-bit levels. IQ3_S and IQ3_XXS differ in the levels. */
static void put_grid4(uint16_t entry, const uint8_t level[8], unsigned signs, uint8_t *codes) {
    for (int i = 0; i < 4; i++) {
        int v = level[entry >> 3 * i & 7];
        codes[i] = (uint8_t)(128 + (signs >> i & 1 ? -v : v));
    }
}

/* Eight codes of IQ1: eight times a trit, plus or minus one. */
static void put_grid1(uint16_t entry, bool minus, uint8_t *codes) {
    for (int i = 0; i < 8; i++)
        codes[i] = (uint8_t)(128 + 8 * ((int)(entry >> 2 * i & 3) - 1) + (minus ? -1 : 1));
}

void block_unpack_tq2_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b + 64));
    for (int j = 0; j < 256; j++) codes[j] = b[32 * (j / 128) + j % 32] >> 2 * (j % 128 / 32) & 3;
}

/* A byte holds ceil(t * 256 / 243): multiplying by 3^n (mod 256) brings trit n to the top, times
 * 3 / 256 reads it. */
static void put_trits(const uint8_t *bytes, int n_bytes, int n_trits, uint8_t *codes) {
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    for (int n = 0; n < n_trits; n++)
        for (int i = 0; i < n_bytes; i++) {
            unsigned top = (uint8_t)(bytes[i] * pow3[n]);
            codes[n_bytes * n + i] = (uint8_t)(127 + (top * 3 >> 8));
        }
}

void block_unpack_tq1_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b + 52));
    put_trits(b, 32, 5, codes);
    put_trits(b + 32, 16, 5, codes + 160);
    put_trits(b + 48, 4, 4, codes + 240);
}

void block_unpack_iq2_xxs(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    for (int g = 0; g < 8; g++) {
        const uint8_t *idx = b + 2 + 8 * g;
        uint32_t bits = load_u32(idx + 4);
        s->sub[g] = (uint8_t)(2 * (bits >> 28) + 1);
        for (int l = 0; l < 4; l++)
            put_grid8(iq_grid_2xxs[idx[l]], even_signs(bits >> 7 * l & 127),
                      codes + 32 * g + 8 * l);
    }
}

/* Scales of IQ2_XS and IQ2_S: sixteen nibbles. */
static void unpack_scale_nibbles(const uint8_t *scales, uint8_t *sub) {
    for (int g = 0; g < 16; g++) sub[g] = (uint8_t)(2 * (scales[g / 2] >> 4 * (g % 2) & 15) + 1);
}

void block_unpack_iq2_xs(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    unpack_scale_nibbles(b + 66, s->sub);
    for (int l = 0; l < 32; l++) {
        unsigned v = load_u16(b + 2 + 2 * l);
        put_grid8(iq_grid_2xs[v & 511], even_signs(v >> 9), codes + 8 * l);
    }
}

void block_unpack_iq2_s(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    unpack_scale_nibbles(b + 74, s->sub);
    for (int l = 0; l < 32; l++) {
        unsigned index = b[2 + l] | (b[66 + l / 4] >> 2 * (l % 4) & 3u) << 8;
        put_grid8(iq_grid_2s[index], b[34 + l], codes + 8 * l);
    }
}

void block_unpack_iq3_xxs(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    static const uint8_t level[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    s->d = fp_f16_to_f32(load_u16(b));
    for (int g = 0; g < 8; g++) {
        uint32_t bits = load_u32(b + 66 + 4 * g);
        s->sub[g] = (uint8_t)(2 * (bits >> 28) + 1);
        for (int l = 0; l < 8; l++) {
            unsigned signs = even_signs(bits >> 7 * (l / 2) & 127) >> 4 * (l % 2);
            put_grid4(iq_grid_3xxs[b[2 + 8 * g + l]], level, signs, codes + 32 * g + 4 * l);
        }
    }
}

void block_unpack_iq3_s(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    static const uint8_t level[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    s->d = fp_f16_to_f32(load_u16(b));
    for (int g = 0; g < 8; g++) s->sub[g] = (uint8_t)(2 * (b[106 + g / 2] >> 4 * (g % 2) & 15) + 1);
    for (int l = 0; l < 64; l++) {
        unsigned index = b[2 + l] | (b[66 + l / 8] >> l % 8 & 1u) << 8;
        put_grid4(iq_grid_3s[index], level, (unsigned)b[74 + l / 2] >> 4 * (l % 2), codes + 4 * l);
    }
}

void block_unpack_iq1_s(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    for (int g = 0; g < 8; g++) {
        unsigned q = load_u16(b + 34 + 2 * g);
        s->sub[g] = (uint8_t)(2 * (q >> 12 & 7) + 1);
        for (int l = 0; l < 4; l++) {
            unsigned index = b[2 + 4 * g + l] | (q >> 3 * l & 7) << 8;
            put_grid1(iq_grid_1s[index], q & 0x8000, codes + 32 * g + 8 * l);
        }
    }
}

void block_unpack_iq1_m(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    unsigned sc[4], d = 0;
    for (int i = 0; i < 4; i++) {
        sc[i] = load_u16(b + 48 + 2 * i);
        d |= sc[i] >> 12 << 4 * i;
    }
    s->d = fp_f16_to_f32((uint16_t)d);
    for (int g = 0; g < 16; g++) s->sub[g] = (uint8_t)(2 * (sc[g / 4] >> 3 * (g % 4) & 7) + 1);
    for (int l = 0; l < 32; l++) {
        unsigned q = b[32 + l / 2] >> 4 * (l % 2) & 15u;
        put_grid1(iq_grid_1s[b[l] | (q & 7) << 8], q & 8, codes + 8 * l);
    }
}
