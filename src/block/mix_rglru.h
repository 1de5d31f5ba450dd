/* mix_rglru.h: the recurrent block of Griffin (De et al. 2024): a short convolution and a linear
 * recurrence whose decay and input are gated, beside a branch that gates the result.
 *
 *     x = conv(in(h));  r = sigmoid(R x), g = sigmoid(G x), block-diagonal
 *     log a = -8 r softplus(decay);  out(lru(g * x, log a) * act(gate(h))) */
#ifndef MLXCEL_BLOCK_MIX_RGLRU_H
#define MLXCEL_BLOCK_MIX_RGLRU_H

#include "op/program.h"

typedef struct RgLruBlock {
    uint32_t width, n_blocks, kernel;
    Act act;
    WeightId in, in_bias;            /* [2 * width, hidden]: x, gate */
    WeightId conv, conv_bias;        /* [width * kernel] */
    WeightId input_gate, input_bias; /* n_blocks matrices; [width] */
    WeightId decay_gate, decay_bias;
    WeightId decay;         /* [width] */
    WeightId out, out_bias; /* [hidden, width] */
} RgLruBlock;

Val block_rglru(ProgBuilder *b, const RgLruBlock *p, Val x, int layer);

#endif
