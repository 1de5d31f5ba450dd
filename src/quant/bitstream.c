#include "quant/bitstream.h"

#include <string.h>

void bitstream_unpack(const uint8_t *src, unsigned bits, uint64_t n, uint8_t *codes) {
    uint64_t i = 0, n_bytes = (n * bits + 7) / 8;
    if (bits == 8) {
        memcpy(codes, src, n);
        return;
    }
    /* Eight codes are `bits` whole bytes; loads take eight bytes as long as there are so many. */
    for (; i + 8 <= n && i / 8 * bits + 8 <= n_bytes; i += 8)
        store_u64(codes + i, bitstream_spread(load_u64(src + i / 8 * bits), bits));
    for (; i < n; i++) codes[i] = (uint8_t)bitstream_at(src, bits, i);
}

unsigned bitstream_at(const uint8_t *src, unsigned bits, uint64_t i) {
    uint64_t bit = i * bits;
    unsigned shift = bit % 8, v = src[bit / 8] >> shift;
    if (shift + bits > 8) v |= (unsigned)src[bit / 8 + 1] << (8 - shift);
    return v & ((1u << bits) - 1);
}
