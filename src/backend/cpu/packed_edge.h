/* packed_edge.h: where a matrix is no multiple of tiles and units (packed.h).
 *
 * The last unit, when k is not whole units: of each 32-bit lane of its vectors only the bits that
 * belong to columns are kept (tail_mask), one lane's behind the other's, whole bytes a vector; a
 * vector without any is not there. Kernels get it put together again, as a unit like any other.
 *
 * The last tile, when n is not whole tiles, has fewer lanes in every vector, scale and block (code
 * books: the file's blocks, one lane's behind the other's). Floats are multiplied as they lie; a
 * tile of codes is spread to whole vectors first. */
#ifndef MLXCEL_BACKEND_CPU_PACKED_EDGE_H
#define MLXCEL_BACKEND_CPU_PACKED_EDGE_H

#include "backend/cpu/packed.h"

/* The bits of each vector of a unit of which only `cols` columns are there; zeros for none. */
void packed_edge_masks(unsigned bits, uint32_t cols, uint32_t mask[8]);
/* Bytes of the last unit; both halves of a tile of 32. 0 when there is none. */
size_t packed_edge_bytes(const PackedMat *m, uint32_t lanes);
/* One half of it, h lanes: from a unit of whole vectors, and one code back. */
void packed_edge_put(const PackedMat *m, const uint8_t *unit, uint32_t h, unsigned char *out);
unsigned packed_edge_code(const PackedMat *m, const unsigned char *edge, uint32_t h, uint32_t lane,
                          uint32_t col);

#endif
