/* hyper.h: residual streams mixed by coefficients that they give themselves (Zhu et al. 2025; Xie et al.
 * 2026): a layer gets one row, a sum of the streams; what it gives is added to every stream, and the
 * streams are mixed by a matrix whose rows and columns add up to one.
 *
 *     row = block_hyper_enter(b, p, streams, &back);
 *     streams = block_hyper_leave(b, p, streams, layer(row), back);
 *     row = block_hyper_sum(b, p, streams);                 behind the last layer
 *
 * All coefficients come from one product: fn(norm(streams)) * scale + base = [pre | post | matrix];
 * of a sum: [pre]. */
#ifndef MLXCEL_BLOCK_HYPER_H
#define MLXCEL_BLOCK_HYPER_H

#include "op/program.h"

typedef struct HyperBlock {
    uint32_t n;           /* streams */
    uint32_t times;       /* rounds that make rows and columns add up to one */
    float eps, norm_eps;  /* eps: added to pre, to the matrix and to its sums */
    WeightId fn;          /* [(2 + n) * n, n * width]; of a sum: [n, n * width] */
    WeightId scale, base; /* a vector each, of as many as fn has rows */
} HyperBlock;

/* *back: the coefficients for block_hyper_leave(). */
Val block_hyper_enter(ProgBuilder *b, const HyperBlock *p, Val streams, Val *back);
Val block_hyper_leave(ProgBuilder *b, const HyperBlock *p, Val streams, Val out, Val back);
Val block_hyper_sum(ProgBuilder *b, const HyperBlock *p, Val streams);

#endif
