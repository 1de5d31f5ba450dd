#include "block/attn.h"

static Val head_norm(ProgBuilder *b, const AttnBlock *p, Val x, WeightId w, uint32_t head_dim,
                     bool whole) {
    if (w == W_NONE) return x;
    return prog_rms_norm(b, x, w, whole ? 0 : head_dim, p->norm_eps, p->norm_w_add);
}

static Val rotate(ProgBuilder *b, const AttnBlock *p, Val x, uint32_t n_heads) {
    return p->rope
               ? prog_rope(b, x, p->rope_spec, n_heads, p->head_dim, p->rope_offset, p->interleaved)
               : x;
}

static PlaneId plane(ProgBuilder *b, const AttnBlock *p, PlaneUse use, int layer) {
    return prog_plane(b, (ProgPlane){.layer = layer,
                                     .heads = p->n_kv_heads,
                                     .use = use,
                                     .keep = p->window ? KEEP_WINDOW : KEEP_ALL,
                                     .span = p->window,
                                     .head_cols = use == PLANE_KEY ? p->head_dim : p->v_dim});
}

Val block_attn(ProgBuilder *b, const AttnBlock *p, Val x, int layer) {
    uint32_t nq = p->n_heads * p->head_dim, nk = p->n_kv_heads * p->head_dim,
             nv = p->n_kv_heads * p->v_dim;
    Val qkv =
        prog_probe(b, prog_linear_precise(b, x, p->qkv, p->qkv_bias), "layers.%d.attn.qkv", layer);
    Val q = head_norm(b, p, prog_view(b, qkv, 0, nq), p->q_norm, p->head_dim, p->qk_norm_whole);
    Val k = head_norm(b, p, prog_view(b, qkv, nq, nk), p->k_norm, p->head_dim, p->qk_norm_whole);
    q = rotate(b, p, q, p->n_heads);
    if (p->warmth != VAL_NONE) q = prog_mul(b, q, p->warmth);
    prog_probe(b, q, "layers.%d.attn.q", layer);
    k = prog_probe(b, rotate(b, p, k, p->n_kv_heads), "layers.%d.attn.k", layer);
    PlaneId kp = plane(b, p, PLANE_KEY, layer), vp = plane(b, p, PLANE_VALUE, layer);
    prog_kv_write(b, k, kp);
    prog_kv_write(b, prog_view(b, qkv, nq + nk, nv), vp);
    Val a = prog_attn(b, q, kp, vp, p->sinks,
                      (OpAttn){.n_heads = p->n_heads,
                               .n_kv_heads = p->n_kv_heads,
                               .head_dim = p->head_dim,
                               .v_dim = p->v_dim,
                               .window = p->window,
                               .scale = p->scale,
                               .softcap = p->softcap});
    prog_probe(b, a, "layers.%d.attn.heads", layer);
    if (p->gated)
        a = prog_glu(b, prog_view(b, qkv, nq + nk + nv, p->n_heads * p->v_dim), a, ACT_SIGMOID);
    return prog_probe(b, prog_linear(b, a, p->o, p->o_bias), "layers.%d.attn.out", layer);
}
