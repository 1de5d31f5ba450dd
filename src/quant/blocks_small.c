/* Blocks of 32, 64 and 128 elements.
 *
 *   Q4_0, IQ4_NL 18 B/32   d f16@0 | qs[16]@2              low nibbles: elements 0-15, high: 16-31
 *   Q4_1         20 B/32   d@0 m@2 | qs[16]@4
 *   Q5_0         22 B/32   d@0 | qh u32@2 | qs[16]@6       bit j of qh is bit 4 of element j
 *   Q5_1         24 B/32   d@0 m@2 | qh u32@4 | qs[16]@8
 *   Q8_0         34 B/32   d@0 | i8 qs[32]@2
 *   MXFP4        17 B/32   e8m0@0 | qs[16]@1
 *   NVFP4        36 B/64   e4m3 d[4]@0 | 4 x qs[8]@4       16 per scale, halves of 8 as above
 *   Q1_0         18 B/128  d@0 | bits[16]@2
 *   Q2_0         18 B/64   d@0 | qs[16]@2                  four neighbours per byte, low first */
#include "base/fp.h"
#include "quant/blocks.h"

/* n bytes -> 2n codes: the low nibbles, then the high ones. */
static void split_nibbles(const uint8_t *qs, int n, uint8_t *codes) {
    for (int i = 0; i < n; i++) {
        codes[i] = qs[i] & 15;
        codes[i + n] = qs[i] >> 4;
    }
}

static void add_fifth_bits(const uint8_t *qh, uint8_t *codes) {
    for (int i = 0; i < 4; i++)
        store_u64(codes + 8 * i, load_u64(codes + 8 * i) | bitstream_spread(qh[i], 1) << 4);
}

void block_unpack_q4_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    split_nibbles(b + 2, 16, codes);
}

void block_unpack_q4_1(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    s->dmin = fp_f16_to_f32(load_u16(b + 2));
    split_nibbles(b + 4, 16, codes);
}

void block_unpack_q5_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    split_nibbles(b + 6, 16, codes);
    add_fifth_bits(b + 2, codes);
}

void block_unpack_q5_1(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    s->dmin = fp_f16_to_f32(load_u16(b + 2));
    split_nibbles(b + 8, 16, codes);
    add_fifth_bits(b + 4, codes);
}

void block_unpack_q8_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    for (int j = 0; j < 32; j++) codes[j] = b[2 + j] ^ 0x80; /* int8 + 128 */
}

void block_unpack_mxfp4(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->sub[0] = b[0];
    split_nibbles(b + 1, 16, codes);
}

void block_unpack_nvfp4(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    for (int g = 0; g < 4; g++) {
        uint8_t e = b[g] & 0x7F; /* the sign is ignored, a NaN reads as 0 */
        s->sub[g] = e == 0x7F ? 0 : e;
        split_nibbles(b + 4 + 8 * g, 8, codes + 16 * g);
    }
}

void block_unpack_q1_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    bitstream_unpack(b + 2, 1, 128, codes);
}

void block_unpack_q2_0(const uint8_t *b, uint8_t *codes, BlockScales *s) {
    s->d = fp_f16_to_f32(load_u16(b));
    bitstream_unpack(b + 2, 2, 64, codes);
}
