/* attn.h: the attention block: qkv projection, q/k norms, rope, cache write, attention, output
 * projection. */
#ifndef MLXCEL_BLOCK_ATTN_H
#define MLXCEL_BLOCK_ATTN_H

#include "op/program.h"

typedef struct AttnBlock {
    uint32_t n_heads, n_kv_heads, head_dim, v_dim;
    uint32_t window; /* 0: all earlier keys */
    float scale, softcap;
    bool rope, interleaved;
    uint32_t rope_spec, rope_offset;
    Val warmth; /* a factor of each row's queries behind the rope; VAL_NONE: none */
    /* [(n_heads + n_kv_heads) * head_dim + n_kv_heads * v_dim, hidden], stacked q, k, v; gated:
     * another n_heads * v_dim rows */
    WeightId qkv, qkv_bias;
    bool gated;              /* what attention gives times the sigmoid of the gate */
    WeightId q_norm, k_norm; /* W_NONE: none */
    bool qk_norm_whole;      /* over the whole row instead of per head */
    float norm_eps, norm_w_add;
    WeightId sinks;
    WeightId o, o_bias;
} AttnBlock;

/* x: normed hidden rows. Declares the layer's K and V planes and returns the block's output (before
 * the residual sum). */
Val block_attn(ProgBuilder *b, const AttnBlock *p, Val x, int layer);

#endif
