#include "base/rng.h"

/* Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11. Ten rounds. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void draw4(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw,
                  uint32_t out[4]) {
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), draw, choice};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    rng_philox(counter, key, out);
}

uint32_t rng_u32(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw) {
    uint32_t w[4];
    draw4(seed, choice, position, draw, w);
    return w[0];
}

double rng_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw) {
    uint32_t w[4];
    draw4(seed, choice, position, draw, w);
    return (double)(((uint64_t)w[0] << 32 | w[1]) >> 11) * 0x1p-53;
}
