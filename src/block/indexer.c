#include "block/indexer.h"

#include <math.h>

Val block_indexer(ProgBuilder *b, const IndexerBlock *p, Val x, Val q_latent, int layer) {
    PlaneId plane = prog_plane(b, (ProgPlane){.layer = layer,
                                              .heads = 1,
                                              .head_cols = p->head_dim,
                                              .use = PLANE_KEY,
                                              .keep = KEEP_ALL});
    Val key = prog_linear_precise(b, x, p->key, W_NONE);
    key = prog_layer_norm(b, key, p->norm, p->norm_bias, 0, p->norm_eps, 0);
    key = prog_rope(b, key, p->rope_spec, 1, p->head_dim, 0, p->interleaved);
    prog_kv_write(b, prog_probe(b, key, "layers.%d.index.key", layer), plane);
    Val q = prog_linear_precise(b, q_latent, p->q, W_NONE);
    q = prog_rope(b, q, p->rope_spec, p->n_heads, p->head_dim, 0, p->interleaved);
    prog_probe(b, q, "layers.%d.index.q", layer);
    Val weights = prog_probe(b, prog_linear_precise(b, x, p->weights, W_NONE),
                             "layers.%d.index.weights", layer);
    OpKeySelect select = {.n_heads = p->n_heads,
                          .head_dim = p->head_dim,
                          .k = p->k,
                          .scale = (float)(1 / sqrt((double)p->head_dim * p->n_heads))};
    return prog_probe(b, prog_key_select(b, q, weights, plane, select), "layers.%d.index.picks",
                      layer);
}
