/* indexer.h: which keys a row attends to (DeepSeek-V3.2 2025): small queries from the queries' latent
 * against small keys of a plane of their own; the heads' scores are summed by weights of the row, and
 * the best k keys are chosen.
 *
 *     picks = block_indexer(b, p, x, q_latent, layer);     for prog_attn_picked() */
#ifndef MLXCEL_BLOCK_INDEXER_H
#define MLXCEL_BLOCK_INDEXER_H

#include "op/program.h"

typedef struct IndexerBlock {
    uint32_t n_heads, head_dim, k;
    uint32_t rope_spec; /* turns the first columns of queries and keys */
    bool interleaved;
    float norm_eps;
    WeightId q;               /* [n_heads * head_dim, the latent's width] */
    WeightId key;             /* [head_dim, hidden] */
    WeightId norm, norm_bias; /* of the keys */
    WeightId weights;         /* [n_heads, hidden] */
} IndexerBlock;

Val block_indexer(ProgBuilder *b, const IndexerBlock *p, Val x, Val q_latent, int layer);

#endif
