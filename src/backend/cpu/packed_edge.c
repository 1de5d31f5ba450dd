#include "backend/cpu/packed_edge.h"

/* Which plane of a unit vector i belongs to: codes of `bits` more bits, the v-th vector of them. */
typedef struct Plane {
    unsigned bits;
    uint32_t v;
} Plane;

static Plane plane_of(unsigned bits, uint32_t i) {
    if (bits == 8) return (Plane){8, i};
    if (bits & 4) {
        if (i < 4) return (Plane){4, i};
        i -= 4;
    }
    if (bits & 2) {
        if (i < 2) return (Plane){2, i};
        i -= 2;
    }
    return (Plane){1, 0};
}

/* Where column c's bits lie in a lane of its vector; the vector. */
static uint32_t place_of(unsigned plane_bits, uint32_t c, uint32_t *v) {
    uint32_t per = 8 / plane_bits, q = c / 4;
    *v = q / per;
    return 8 * (c % 4) + plane_bits * (q % per);
}

void packed_edge_masks(unsigned bits, uint32_t cols, uint32_t mask[8]) {
    for (uint32_t i = 0; i < 8; i++) mask[i] = 0;
    for (uint32_t i = 0; i < bits; i++) {
        Plane p = plane_of(bits, i);
        for (uint32_t c = 0; c < cols; c++) {
            uint32_t v, at = place_of(p.bits, c, &v);
            if (v == p.v) mask[i] |= ((1u << p.bits) - 1) << at;
        }
    }
}

static size_t vector_bytes(uint32_t mask, uint32_t h) {
    return ((size_t)__builtin_popcount(mask) * h + 7) / 8;
}

static size_t half_bytes(const PackedMat *m, uint32_t h) {
    size_t sum = 0;
    for (uint32_t i = 0; i < m->bits; i++) sum += vector_bytes(m->tail_mask[i], h);
    return sum;
}

size_t packed_edge_bytes(const PackedMat *m, uint32_t lanes) {
    uint32_t first = lanes < TILE_ROWS ? lanes : TILE_ROWS;
    return half_bytes(m, first) + half_bytes(m, lanes - first);
}

/* The bits of v under the mask, next to each other. */
static uint32_t bits_extract(uint32_t v, uint32_t mask) {
    uint32_t out = 0;
    for (uint32_t n = 0; mask; mask &= mask - 1, n++) out |= (v >> __builtin_ctz(mask) & 1) << n;
    return out;
}

void packed_edge_put(const PackedMat *m, const uint8_t *unit, uint32_t h, unsigned char *out) {
    for (uint32_t i = 0; i < m->bits; i++, unit += CODE_VEC) {
        const uint32_t mask = m->tail_mask[i], n = (uint32_t)__builtin_popcount(mask);
        const size_t bytes = vector_bytes(mask, h);
        memset(out, 0, bytes);
        for (uint32_t lane = 0; lane < h; lane++) {
            uint32_t v, bit = lane * n;
            memcpy(&v, unit + 4 * lane, 4);
            uint64_t put = (uint64_t)bits_extract(v, mask) << bit % 8;
            for (size_t b = bit / 8; put; b++, put >>= 8) out[b] |= (unsigned char)put;
        }
        out += bytes;
    }
}

/* plane_bits bits of column c from vector i. */
static unsigned edge_bits(const PackedMat *m, const unsigned char *edge, uint32_t h, uint32_t lane,
                          uint32_t i, unsigned plane_bits, uint32_t at) {
    for (uint32_t j = 0; j < i; j++) edge += vector_bytes(m->tail_mask[j], h);
    const uint32_t mask = m->tail_mask[i], below = mask & ((1u << at) - 1);
    uint32_t bit = lane * (uint32_t)__builtin_popcount(mask) + (uint32_t)__builtin_popcount(below);
    unsigned v = edge[bit / 8];
    if (bit % 8 + plane_bits > 8) v |= (unsigned)edge[bit / 8 + 1] << 8;
    return v >> bit % 8 & ((1u << plane_bits) - 1);
}

unsigned packed_edge_code(const PackedMat *m, const unsigned char *edge, uint32_t h, uint32_t lane,
                          uint32_t col) {
    unsigned code = 0, shift = 0;
    for (uint32_t i = 0; i < m->bits;) {
        Plane p = plane_of(m->bits, i);
        uint32_t v, at = place_of(p.bits, col, &v);
        code |= edge_bits(m, edge, h, lane, i + v, p.bits, at) << shift;
        shift += p.bits;
        i += p.bits;
    }
    return code;
}
