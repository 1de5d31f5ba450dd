/* moe.h: a feed-forward block of experts: router, chosen experts, their weighted sum, and experts
 * that every row shares. */
#ifndef MLXCEL_BLOCK_MOE_H
#define MLXCEL_BLOCK_MOE_H

#include "block/ffn.h"

typedef struct MoeBlock {
    OpRoute route;
    uint32_t width, hidden; /* of one expert; of the model */
    Act act;
    WeightId router, router_bias;           /* [n_experts, hidden] */
    WeightId select_bias;                   /* added for the choice only; W_NONE: none */
    WeightId gate, up, down;                /* n_experts matrices each, stacked */
    WeightId gate_bias, up_bias, down_bias; /* n_experts vectors each; W_NONE: none */
    float limit;   /* gate at most this, up within it either way; 0: no limit */
    float up_add;  /* the gate's activation times (up + up_add) */
    bool by_token; /* the token chooses: by_token_table [vocabulary, k] has the experts' numbers */
    WeightId by_token_table;
    bool shared; /* a dense block beside the experts */
    FfnBlock shared_ffn;
    /* [1, hidden]: its sigmoid scales the shared block; W_NONE: none */
    WeightId shared_gate;
} MoeBlock;

Val block_moe(ProgBuilder *b, const MoeBlock *p, Val x, int layer);

#endif
