/* book.h: code books (IQ1, IQ2, IQ3, base-3 ternary) in memory at the size they have in the file.
 *
 * A tile is blocks of 256 columns one after another; a block of a tile is the sixteen lanes' blocks,
 * byte for byte, regrouped so that a vector load finds the same field of all lanes: element i of a
 * field `width` bytes wide stands at 16 * to + (i * 16 + lane) * width. 16 file blocks, 16 x
 * block_bytes.
 *
 * Before a tile is multiplied its codes are expanded once, for all rows, into scratch: unsigned
 * bytes value + BOOK_ZERO in the order of packed.h's 8-bit units, and f32 scales [groups][16]. All
 * values lie within +-62, so the codes have 7 bits, which every dot instruction takes whole. */
#ifndef MLXCEL_BACKEND_CPU_BOOK_H
#define MLXCEL_BACKEND_CPU_BOOK_H

#include "backend/cpu/packed.h"

enum { BOOK_ZERO = 64, BOOK_COLS = 256 };

/* The blocks at byte `at` of 16 rows into a block of a tile; one lane's block into it, and back. */
void book_put_rows(DType t, const uint8_t *const *rows, size_t at, unsigned char *tile_block);
void book_put(DType t, const uint8_t *block, uint32_t lane, unsigned char *tile_block);
void book_get(DType t, const unsigned char *tile_block, uint32_t lane, uint8_t *block);

/* codes: 16 * k bytes, 64-byte aligned; scale: [n_groups][16]. */
typedef void BookExpand(const PackedMat *m, const unsigned char *tile, uint8_t *codes,
                        float *scale);
BookExpand book_expand_avx512, book_expand_avx2, book_expand_portable;

/* Generated (book_tab.c): entries as two bytes; eight 2-bit levels, or four of a nibble each. */
extern const uint8_t book_2xxs_lo[256], book_2xxs_hi[256], book_2xs_lo[512], book_2xs_hi[512],
    book_2s_lo[1024], book_2s_hi[1024], book_3xxs_lo[256], book_3xxs_hi[256], book_3s_lo[512],
    book_3s_hi[512], book_1s_lo[2048], book_1s_hi[2048];

#endif
