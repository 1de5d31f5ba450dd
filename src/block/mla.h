/* mla.h: multi-head latent attention (DeepSeek-V2 2024): keys and values of all heads come from one
 * short latent row per token, and that row is what the cache holds. The matrix that makes keys of it
 * is applied to the queries instead, the one that makes values to what attention gives, so that
 * attention itself works on latents: one key head, whose values are its first columns.
 *
 *     q_h = [k_up_h^T q_nope_h | rope(q_rope_h)]       key = [norm(latent) | rope(k_rope)]
 *     out = o([v_up_h attn_h ...])
 *
 * The rows of q are in the block's order: the parts without rope of all heads, then those with. */
#ifndef MLXCEL_BLOCK_MLA_H
#define MLXCEL_BLOCK_MLA_H

#include "op/program.h"

typedef struct MlaBlock {
    uint32_t n_heads, nope_dim, rope_dim, v_dim, rank;
    float scale, norm_eps;
    bool rotates, interleaved; /* rotates false: the rope columns are columns like others */
    Val warmth;                /* a factor of each row's queries; VAL_NONE: none */
    uint32_t rope_spec;
    WeightId q;                      /* [n_heads * (nope_dim + rope_dim), hidden or q's rank] */
    WeightId q_down, q_bias, q_norm; /* W_NONE: q is made of the row itself */
    WeightId kv, kv_bias, kv_norm;   /* [rank + rope_dim, hidden] */
    WeightId k_up, v_up;             /* per head [rank, nope_dim], [v_dim, rank] */
    WeightId o, o_bias;
} MlaBlock;

/* What queries are made of: their latent, or the row itself. */
Val block_mla_query_input(ProgBuilder *b, const MlaBlock *p, Val x);
/* q_in: that; picks: the keys that are seen (KEY_SELECT); VAL_NONE: all. */
Val block_mla(ProgBuilder *b, const MlaBlock *p, Val x, Val q_in, Val picks, int layer);

#endif
