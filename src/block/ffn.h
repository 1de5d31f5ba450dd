/* ffn.h: the feed-forward block: gated (two stacked projections, f(gate) * up) or plain (one
 * projection, f). */
#ifndef MLXCEL_BLOCK_FFN_H
#define MLXCEL_BLOCK_FFN_H

#include "op/program.h"

typedef struct FfnBlock {
    uint32_t width;
    bool gated;
    Act act;
    float gate_scale;         /* on what act gets; 0: 1 */
    float limit;              /* gated: gate at most this, up within it either way; 0: no limit */
    WeightId in, in_bias;     /* gated: [2 * width, hidden], gate over up; else [width, hidden] */
    WeightId down, down_bias; /* [hidden, width] */
} FfnBlock;

Val block_ffn(ProgBuilder *b, const FfnBlock *p, Val x, int layer);

#endif
