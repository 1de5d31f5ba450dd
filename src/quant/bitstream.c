#include <string.h>

#include "quant/forms.h"

void bitstream_unpack(const uint8_t *src, unsigned bits, uint64_t n, uint8_t *codes) {
    uint64_t i = 0;
    if (bits == 8) {
        memcpy(codes, src, n);
        return;
    }
    if (bits == 4)
        for (; i + 2 <= n; i += 2) {
            codes[i] = src[i / 2] & 15;
            codes[i + 1] = src[i / 2] >> 4;
        }
    /* Eight codes are `bits` whole bytes. */
    uint64_t mask = (1u << bits) - 1;
    for (; i + 8 <= n; i += 8) {
        const uint8_t *p = src + i / 8 * bits;
        uint64_t v = 0;
        for (unsigned b = 0; b < bits; b++) v |= (uint64_t)p[b] << 8 * b;
        for (unsigned j = 0; j < 8; j++) codes[i + j] = (uint8_t)(v >> j * bits & mask);
    }
    for (; i < n; i++) codes[i] = (uint8_t)bitstream_at(src, bits, i);
}

unsigned bitstream_at(const uint8_t *src, unsigned bits, uint64_t i) {
    uint64_t bit = i * bits;
    unsigned shift = bit % 8, v = src[bit / 8] >> shift;
    if (shift + bits > 8) v |= (unsigned)src[bit / 8 + 1] << (8 - shift);
    return v & ((1u << bits) - 1);
}
