/* bitstream.h: little-endian bit streams: code i is bits [i*bits, (i+1)*bits), bit 0 the lowest of
 * byte 0; 1 to 8 bits. Inside quant/ only. */
#ifndef MLXCEL_QUANT_BITSTREAM_H
#define MLXCEL_QUANT_BITSTREAM_H

#include <stdint.h>

/* Unaligned little-endian loads: blocks lie at any address. */
static inline uint16_t load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t load_u64(const uint8_t *p) {
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}
static inline void store_u64(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* The lowest eight codes of v, one per byte: halves move apart three times. What lies above them
 * in v is dropped. */
static inline uint64_t bitstream_spread(uint64_t v, unsigned bits) {
    const uint64_t m4 = ((uint64_t)1 << 4 * bits) - 1,
                   m2 = (((uint64_t)1 << 2 * bits) - 1) * 0x0000000100000001u,
                   m1 = (((uint64_t)1 << bits) - 1) * 0x0001000100010001u;
    v = (v & m4) | (v << (32 - 4 * bits) & m4 << 32);
    v = (v & m2) | (v << (16 - 2 * bits) & m2 << 16);
    return (v & m1) | (v << (8 - bits) & m1 << 8);
}

void bitstream_unpack(const uint8_t *src, unsigned bits, uint64_t n, uint8_t *codes);
unsigned bitstream_at(const uint8_t *src, unsigned bits, uint64_t i);

#endif
