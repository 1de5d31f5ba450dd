/* mix_mamba1.h: the first selective state space mixer (Gu, Dao 2023): of a short convolution's
 * columns each is a head of its own; time step, B and C come from those columns, the time step
 * through a matrix of low rank.
 *
 *     [x | z] = in(h);  x = act(conv(x));  [dt | B | C] = proj(x);  dt = softplus(step(dt))
 *     out(scan(x, dt, B, C) * silu(z)) */
#ifndef MLXCEL_BLOCK_MIX_MAMBA1_H
#define MLXCEL_BLOCK_MIX_MAMBA1_H

#include "op/program.h"

typedef struct Mamba1Block {
    uint32_t inner, n_state, rank, kernel;
    Act act;
    WeightId in, in_bias;             /* [2 * inner, hidden]: x, z */
    WeightId conv, conv_bias;         /* [inner * kernel] */
    WeightId proj;                    /* [rank + 2 * n_state, inner]: dt, B, C */
    bool normed;                      /* dt, B and C, each by a norm of its own */
    WeightId dt_norm, b_norm, c_norm; /* W_NONE: without weights */
    float norm_eps;
    WeightId step, step_bias; /* [inner, rank] */
    WeightId a, skip;         /* [inner * n_state], [inner] */
    bool a_log;               /* OP(SSM) */
    WeightId out, out_bias;   /* [hidden, inner] */
} Mamba1Block;

Val block_mamba1(ProgBuilder *b, const Mamba1Block *p, Val x, int layer);

#endif
