/* mix_mamba2.h: the second selective state space mixer (Dao, Gu 2024): heads of several columns,
 * one decay each; B and C, shared by groups of heads, go through the convolution too.
 *
 *     [z | x | B | C | dt] = in(h);  [x | B | C] = act(conv([x | B | C]));  dt = softplus(dt + bias)
 *     out(norm(scan(x, dt, B, C) * silu(z))) */
#ifndef MLXCEL_BLOCK_MIX_MAMBA2_H
#define MLXCEL_BLOCK_MIX_MAMBA2_H

#include "op/program.h"

typedef struct Mamba2Block {
    OpSsm shape; /* a_log as in OP(SSM) */
    uint32_t kernel;
    Act act;
    WeightId in, in_bias;      /* [z, x, B, C, dt; hidden] */
    const float *factors;      /* on z, x, B, C and dt; NULL: none */
    WeightId conv, conv_bias;  /* over x, B, C */
    WeightId dt_bias, a, skip; /* [n_heads] each */
    float dt_min, dt_max;      /* the time step's limits; 0 and infinity: none */
    WeightId norm;             /* [inner], over each group's columns; W_NONE: no norm */
    bool norm_first;           /* silu(z) is multiplied in behind the norm */
    float norm_eps;
    WeightId out, out_bias; /* [hidden, inner] */
} Mamba2Block;

Val block_mamba2(ProgBuilder *b, const Mamba2Block *p, Val x, int layer);

#endif
