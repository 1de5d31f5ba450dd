/* mix_delta.h: a gated delta net (Yang et al. 2024; Kimi Team 2025): short convolutions over q, k and
 * v, unit-length queries and keys, the gated delta rule, and a norm under a gate for its output.
 *
 *     [q | k | v | z] = in(x)         [q | k | v] = silu(conv(q | k | v))
 *     beta = sigmoid(b)               log decay = -exp(a_log) * softplus(a + dt)
 *     out(norm(delta(q, k, v)) * gate(z))
 *
 * a and z are rows of the first products, or come through two small matrices of their own. */
#ifndef MLXCEL_BLOCK_MIX_DELTA_H
#define MLXCEL_BLOCK_MIX_DELTA_H

#include "op/program.h"

typedef struct DeltaBlock {
    OpDelta shape;
    uint32_t kernel;
    WeightId in;           /* q, k, v, and z unless it has z_down */
    WeightId conv;         /* [columns of q, k and v, kernel] */
    WeightId ba;           /* b, and a unless it has a_down */
    WeightId a_down, a_up; /* W_NONE: a is in ba */
    WeightId z_down, z_up; /* W_NONE: z is in in */
    WeightId dt, decay;    /* a vector each, of as many as a has columns */
    ColFn decay_fn;        /* COL_NEG_EXP: decay is a_log; COL_PLAIN: -exp(a_log) already */
    bool by_column;        /* a has a column for each of the keys', not for each head */
    WeightId norm;         /* [v_dim] */
    float norm_eps;
    Act gate;
    WeightId out;
} DeltaBlock;

Val block_delta(ProgBuilder *b, const DeltaBlock *p, Val x, int layer);

#endif
