#include "block/mla.h"

static Val rotate(ProgBuilder *b, const MlaBlock *p, Val x, uint32_t n_heads) {
    return p->rotates ? prog_rope(b, x, p->rope_spec, n_heads, p->rope_dim, 0, p->interleaved) : x;
}

Val block_mla_query_input(ProgBuilder *b, const MlaBlock *p, Val x) {
    if (p->q_down == W_NONE) return x;
    x = prog_linear_precise(b, x, p->q_down, p->q_bias);
    return prog_rms_norm(b, x, p->q_norm, 0, p->norm_eps, 0);
}

static Val queries(ProgBuilder *b, const MlaBlock *p, Val x, int layer) {
    uint32_t n_nope = p->n_heads * p->nope_dim, n_rope = p->n_heads * p->rope_dim;
    Val q = prog_probe(b, prog_linear_precise(b, x, p->q, W_NONE), "layers.%d.mla.q", layer);
    Val latent = prog_block_linear(b, prog_view(b, q, 0, n_nope), p->k_up, p->n_heads, p->rank);
    if (!p->rope_dim) return latent;
    q = rotate(b, p, prog_view(b, q, n_nope, n_rope), p->n_heads);
    return prog_concat_groups(b, latent, q, p->n_heads);
}

static Val keys(ProgBuilder *b, const MlaBlock *p, Val x, int layer) {
    Val kv = prog_probe(b, prog_linear_precise(b, x, p->kv, p->kv_bias), "layers.%d.mla.kv", layer);
    Val latent = prog_rms_norm(b, prog_view(b, kv, 0, p->rank), p->kv_norm, 0, p->norm_eps, 0);
    if (!p->rope_dim) return latent;
    return prog_concat(b, latent, rotate(b, p, prog_view(b, kv, p->rank, p->rope_dim), 1));
}

Val block_mla(ProgBuilder *b, const MlaBlock *p, Val x, Val q_in, Val picks, int layer) {
    uint32_t cols = p->rank + p->rope_dim;
    PlaneId plane = prog_plane(
        b,
        (ProgPlane){
            .layer = layer, .heads = 1, .head_cols = cols, .use = PLANE_LATENT, .keep = KEEP_ALL});
    Val q = queries(b, p, q_in, layer);
    if (p->warmth != VAL_NONE) q = prog_mul(b, q, p->warmth);
    prog_probe(b, q, "layers.%d.mla.latent_q", layer);
    prog_kv_write(b, keys(b, p, x, layer), plane);
    Val a = prog_attn_picked(b, q, picks, plane, plane, W_NONE,
                             (OpAttn){.n_heads = p->n_heads,
                                      .n_kv_heads = 1,
                                      .head_dim = cols,
                                      .v_dim = p->rank,
                                      .scale = p->scale});
    prog_probe(b, a, "layers.%d.mla.heads", layer);
    a = prog_block_linear(b, a, p->v_up, p->n_heads, p->v_dim);
    return prog_probe(b, prog_linear(b, a, p->o, p->o_bias), "layers.%d.mla.out", layer);
}
