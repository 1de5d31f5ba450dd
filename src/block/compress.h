/* compress.h: one cached row for a group of tokens (DeepSeek-V4 2026): the sum of what they give, column
 * by column under a softmax of gates, normed and turned as the group's first token is.
 *
 *     plane = block_compress(b, p, PLANE_LATENT, x, layer);
 *
 * overlap: each token gives two rows; a group's is made of the second of its own and the first of the
 * group before. */
#ifndef MLXCEL_BLOCK_COMPRESS_H
#define MLXCEL_BLOCK_COMPRESS_H

#include "op/program.h"

typedef struct CompressBlock {
    uint32_t cols, rate;
    bool overlap;
    uint32_t rope_dim; /* the last columns, neighbouring pairs */
    RopeSpec rope;
    float norm_eps;
    WeightId in;   /* [rows over gates, hidden], cols or 2 * cols each */
    WeightId bias; /* of the gates, [rate * cols or 2 * cols] */
    WeightId norm; /* [cols] */
} CompressBlock;

/* Declares the plane, of the block's rate, and writes it. */
PlaneId block_compress(ProgBuilder *b, const CompressBlock *p, PlaneUse use, Val x, int layer);

#endif
