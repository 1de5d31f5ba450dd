/* Edges of a matrix made whole for the kernels (packed_edge.h), once for every instruction set (after
 * a vec_*.h): the last unit of each tile, the last tile. */
#include "backend/cpu/book.h"
#include "backend/cpu/packed_edge.h"

/* The bits of v to where mask has ones, from the lowest on. */
INLINE uint32_t bits_deposit(uint32_t v, uint32_t mask) {
#if defined(__BMI2__)
    return _pdep_u32(v, mask);
#else
    uint32_t out = 0;
    for (; mask; mask &= mask - 1, v >>= 1) out |= v & 1 ? mask & (0 - mask) : 0;
    return out;
#endif
}

/* One half of h lanes of the last unit to `bits` vectors; returns what is behind it. */
static const unsigned char *edge_half(const PackedMat *m, uint32_t h, const unsigned char *from,
                                      unsigned char *to) {
    for (uint32_t i = 0; i < m->bits; i++, to += CODE_VEC) {
        const uint32_t mask = m->tail_mask[i], n = (uint32_t)__builtin_popcount(mask);
        if (n == 32) {
            memcpy(to, from, CODE_VEC); /* lanes beyond h hold anything */
        } else if (n == 0) {
            memset(to, 0, CODE_VEC);
        } else {
            for (uint32_t lane = 0; lane < h; lane++) {
                const uint32_t bit = lane * n;
                uint64_t v;
                memcpy(&v, from + bit / 8, 8);
                uint32_t word = bits_deposit((uint32_t)(v >> bit % 8), mask);
                memcpy(to + 4 * lane, &word, 4);
            }
        }
        from += ((size_t)n * h + 7) / 8;
    }
    return from;
}

/* The last unit of a tile, whole; NULL when k is whole units. */
static const unsigned char *edge_unit(const PackedMat *m, const unsigned char *tile, uint32_t lanes,
                                      unsigned char *to) {
    if (m->k % UNIT_COLS == 0) return NULL;
    const uint32_t first = lanes < TILE_ROWS ? lanes : TILE_ROWS;
    const unsigned char *p = tile + packed_unit_at(m, lanes, m->n_units - 1);
    p = edge_half(m, first, p, to);
    if (lanes > first) edge_half(m, lanes - first, p, to + packed_half_bytes(m, TILE_ROWS));
    return to;
}

/* Vectors of h lanes to whole ones. */
INLINE void vectors_spread(const unsigned char *from, uint32_t h, uint32_t n, unsigned char *to) {
    for (; n > 0; n--, from += 4 * (size_t)h, to += CODE_VEC) memcpy(to, from, CODE_VEC);
}

/* Two runs of 16-bit scales, or of scales and biases. */
static void scales_spread(const unsigned char *from, uint32_t lanes, unsigned char *to) {
    memcpy(to, from, CODE_VEC / 2);
    memcpy(to + CODE_VEC / 2, from + 2 * (size_t)lanes, CODE_VEC / 2);
}

/* A tile with lanes missing as the kernels want it, without its head and its last unit (edge_unit);
 * returns what is behind it. */
static unsigned char *edge_tile(const PackedMat *m, const unsigned char *tile, uint32_t lanes,
                                unsigned char *to) {
    const uint32_t first = lanes < TILE_ROWS ? lanes : TILE_ROWS, bits = m->bits,
                   in_block = m->in_stream ? stream_groups(m) * m->units_per_group : UINT32_MAX;
    uint32_t left = m->in_stream ? 0 : UINT32_MAX;
    if (!m->in_stream) tile += packed_unit_at(m, lanes, 0);
    for (uint32_t u = 0; u < m->n_units; u++, left--) {
        if (left == 0) {
            scales_spread(tile, lanes, to);
            tile += 4 * (size_t)lanes;
            to += CODE_VEC;
            left = in_block;
        }
        if ((u + 1) * UNIT_COLS > m->k) break;
        vectors_spread(tile, first, bits, to);
        if (lanes > first)
            vectors_spread(tile + bits * 4 * first, lanes - first, bits, to + bits * CODE_VEC);
        tile += packed_half_bytes(m, lanes);
        to += packed_half_bytes(m, m->tile_rows);
    }
    return to;
}

/* The last tile of a code book: its blocks put together as in any other. */
static void edge_book(const PackedMat *m, const unsigned char *tile, uint32_t lanes,
                      unsigned char *to) {
    const size_t block = dtype_info(m->book)->block_bytes;
    for (uint32_t k = 0; k < m->k; k += BOOK_COLS, to += TILE_ROWS * block)
        for (uint32_t lane = 0; lane < lanes; lane++, tile += block)
            book_put(m->book, tile, lane, to);
}
