/* K-quants: 256 elements, an f16 d (and dmin) for all of them, small integer scales per group of 16
 * or 32.
 *
 *   Q2_K    84 B  scales[16]@0 | qs[64]@16 | d@80 dmin@82         scale low nibble, min high; G 16
 *   Q3_K   110 B  hmask[32]@0 | qs[64]@32 | scales[12]@96 | d@108 G 16
 *   Q4_K   144 B  d@0 dmin@2 | scales[12]@4 | qs[128]@16          G 32
 *   Q5_K   176 B  d@0 dmin@2 | scales[12]@4 | qh[32]@16 | qs[128]@48
 *   Q6_K   210 B  ql[128]@0 | qh[64]@128 | i8 scales[16]@192 | d@208  G 16
 *   IQ4_XS 136 B  d@0 | scales_h u16@2 | scales_l[4]@4 | qs[128]@8    G 32
 *
 * Bit planes: qs bytes of Q2_K and Q3_K serve four runs of 32 elements (2 bits each) per half of
 * 128; hmask and qh bytes serve eight runs of 32 over the whole block. */
#include "base/fp.h"
#include "quant/blocks.h"

/* Two bits of each of 32 bytes, four times: the 128 codes of a half. */
static void split_crumbs(const uint8_t *qs, uint8_t *codes) {
    for (int run = 0; run < 4; run++)
        for (int i = 0; i < 32; i++) codes[32 * run + i] = qs[i] >> 2 * run & 3;
}

/* Eight 6-bit scales and eight 6-bit mins in 12 bytes:
 *   y[0..3]   scale 0-3; the top 2 bits are the high bits of scale 4-7
 *   y[4..7]   min 0-3; the top 2 bits are the high bits of min 4-7
 *   y[8..11]  low bits of scale 4-7 (low nibble) and of min 4-7 (high nibble) */
static void unpack_scales_6bit(const uint8_t *y, uint8_t *sub, uint8_t *sub_min) {
    for (int s = 0; s < 4; s++) {
        sub[s] = y[s] & 63;
        sub_min[s] = y[s + 4] & 63;
        sub[s + 4] = (uint8_t)((y[s + 8] & 15) | y[s] >> 6 << 4);
        sub_min[s + 4] = (uint8_t)(y[s + 8] >> 4 | y[s + 4] >> 6 << 4);
    }
}

/* Eight runs of 32 elements; a run pair shares 32 bytes, low nibbles first. */
static void split_nibble_runs(const uint8_t *qs, uint8_t *codes) {
    for (int pair = 0; pair < 4; pair++)
        for (int i = 0; i < 32; i++) {
            codes[64 * pair + i] = qs[32 * pair + i] & 15;
            codes[64 * pair + 32 + i] = qs[32 * pair + i] >> 4;
        }
}

void block_unpack_q2_k(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b + 80));
    s->dmin = fp_f16_to_f32(load_u16(b + 82));
    for (int g = 0; g < 16; g++) {
        s->sub[g] = b[g] & 15;
        s->sub_min[g] = b[g] >> 4;
    }
    split_crumbs(b + 16, codes);
    split_crumbs(b + 48, codes + 128);
}

void block_unpack_q3_k(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    const uint8_t *y = b + 96;
    s->d = fp_f16_to_f32(load_u16(b + 108));
    for (int g = 0; g < 16; g++) {
        int low = y[g % 8] >> 4 * (g / 8) & 15, high = y[8 + g % 4] >> 2 * (g / 4) & 3;
        s->sub[g] = (uint8_t)((low | high << 4) - 32);
    }
    split_crumbs(b + 32, codes);
    split_crumbs(b + 64, codes + 128);
    /* A clear mask bit subtracts 4; the zero point is 4, so a set one adds it. */
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++) codes[32 * run + i] |= (uint8_t)((b[i] >> run & 1) << 2);
}

void block_unpack_q4_k(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    s->dmin = fp_f16_to_f32(load_u16(b + 2));
    unpack_scales_6bit(b + 4, s->sub, s->sub_min);
    split_nibble_runs(b + 16, codes);
}

void block_unpack_q5_k(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    s->dmin = fp_f16_to_f32(load_u16(b + 2));
    unpack_scales_6bit(b + 4, s->sub, s->sub_min);
    split_nibble_runs(b + 48, codes);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++) codes[32 * run + i] |= (uint8_t)((b[16 + i] >> run & 1) << 4);
}

void block_unpack_q6_k(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b + 208));
    for (int g = 0; g < 16; g++) s->sub[g] = b[192 + g];
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = b + 64 * half, *qh = b + 128 + 32 * half;
        uint8_t *c = codes + 128 * half;
        for (int i = 0; i < 32; i++) {
            c[i] = (uint8_t)((ql[i] & 15) | (qh[i] & 3) << 4);
            c[32 + i] = (uint8_t)((ql[32 + i] & 15) | (qh[i] >> 2 & 3) << 4);
            c[64 + i] = (uint8_t)(ql[i] >> 4 | (qh[i] >> 4 & 3) << 4);
            c[96 + i] = (uint8_t)(ql[32 + i] >> 4 | qh[i] >> 6 << 4);
        }
    }
}

void block_unpack_iq4_xs(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    unsigned high = load_u16(b + 2);
    s->d = fp_f16_to_f32(load_u16(b));
    for (int g = 0; g < 8; g++) {
        int low = b[4 + g / 2] >> 4 * (g % 2) & 15;
        s->sub[g] = (uint8_t)((low | (int)(high >> 2 * g & 3) << 4) - 32);
        for (int i = 0; i < 16; i++) {
            codes[32 * g + i] = b[8 + 16 * g + i] & 15;
            codes[32 * g + 16 + i] = b[8 + 16 * g + i] >> 4;
        }
    }
}
