#include "arch/mixer.h"
#include "arch/take.h"
#include "block/indexer.h"
#include "block/mla.h"

/* Of each head the file has its columns without rope, then those with; the block wants the former of
 * all heads first. */
static const uint32_t *query_rows(Decoder *d, const LayerSpec *l) {
    const MlaSpec *s = &l->mla;
    uint32_t nope = s->nope_dim, rope = s->rope_dim, n = l->n_heads * (nope + rope);
    uint32_t *rows = arena_array(d->arena, uint32_t, n);
    uint32_t at = 0;
    for (uint32_t i = 0; rows && i < l->n_heads * nope; i++)
        rows[at++] = i / nope * (nope + rope) + i % nope;
    for (uint32_t i = 0; rows && i < l->n_heads * rope; i++)
        rows[at++] = i / rope * (nope + rope) + nope + i % rope;
    return rows;
}

/* The matrices of each head, apart as MLX and GGUF files have them, or halves of one, as releases and
 * older GGUF files have it; some have both. */
static void take_ups(Decoder *d, const LayerSpec *l, int i, MlaBlock *p) {
    const MlaSpec *s = &l->mla;
    TakeExperts k = {
        .role = ROLE_MLA_K_UP, .n_experts = l->n_heads, .n = s->rank, .k = s->nope_dim};
    TakeExperts v = {.role = ROLE_MLA_V_UP, .n_experts = l->n_heads, .n = s->v_dim, .k = s->rank};
    bool whole = weights_has(d->weights, ROLE_MLA_KV_UP, i, ".weight"),
         has_k = weights_has(d->weights, ROLE_MLA_K_UP, i, ".weight"),
         has_v = weights_has(d->weights, ROLE_MLA_V_UP, i, ".weight");
    if (has_k && has_v) weights_ignore(d->weights, ROLE_MLA_KV_UP, i);
    if (!has_k || (!has_v && whole)) {
        k.role = v.role = ROLE_MLA_KV_UP;
        k.stored = v.stored = s->nope_dim + s->v_dim;
        v.first = s->nope_dim;
        k.across = true;
    }
    p->k_up = arch_take_experts(d, i, &k, NULL);
    p->v_up = arch_take_experts(d, i, &v, NULL);
}

static void take_biases(Decoder *d, const MlaSpec *s, int i, MlaBlock *p) {
    if (s->q_rank) p->q_bias = arch_take_vector(d, ROLE_MLA_Q_DOWN, i, ".bias", s->q_rank);
    p->kv_bias = arch_take_vector(d, ROLE_MLA_KV_DOWN, i, ".bias", s->rank + s->rope_dim);
    p->o_bias = arch_take_vector(d, ROLE_O, i, ".bias", d->hidden);
}

static Val choose_keys(Decoder *d, const LayerSpec *l, Val h, Val q_in, int i) {
    const IndexSpec *s = &l->mla.index;
    IndexerBlock p = {.n_heads = s->n_heads,
                      .head_dim = s->head_dim,
                      .k = s->k,
                      .rope_spec = prog_rope_spec(d->b, l->rope_spec),
                      .interleaved = s->interleaved,
                      .norm_eps = 1e-6f};
    p.q = arch_take_matrix(d, ROLE_INDEX_Q, i, s->n_heads * s->head_dim, l->mla.q_rank);
    p.key = arch_take_matrix(d, ROLE_INDEX_K, i, s->head_dim, d->hidden);
    p.norm = arch_take_vector(d, ROLE_INDEX_K_NORM, i, ".weight", s->head_dim);
    p.norm_bias = arch_take_vector(d, ROLE_INDEX_K_NORM, i, ".bias", s->head_dim);
    p.weights = arch_take_matrix(d, ROLE_INDEX_WEIGHTS, i, s->n_heads, d->hidden);
    return block_indexer(d->b, &p, h, q_in, i);
}

Val mixer_mla(Decoder *d, const LayerSpec *l, Val h, int i) {
    const MlaSpec *s = &l->mla;
    uint32_t n_q = l->n_heads * (s->nope_dim + s->rope_dim);
    MlaBlock p = {.n_heads = l->n_heads,
                  .nope_dim = s->nope_dim,
                  .rope_dim = s->rope_dim,
                  .v_dim = s->v_dim,
                  .rank = s->rank,
                  .scale = l->attn_scale,
                  .norm_eps = s->norm_eps,
                  .rotates = l->rope,
                  .interleaved = l->rope_interleaved,
                  .warmth = d->layer.warmth.scale != 0 ? d->warmth : VAL_NONE,
                  .q_down = W_NONE,
                  .q_bias = W_NONE,
                  .kv_bias = W_NONE,
                  .o_bias = W_NONE};
    const TakePart q = {.role = s->q_rank ? ROLE_MLA_Q_UP : ROLE_Q,
                        .n = n_q,
                        .k = s->q_rank ? s->q_rank : d->hidden,
                        .rows = query_rows(d, l),
                        .n_stored = n_q};
    if (l->rope) p.rope_spec = prog_rope_spec(d->b, l->rope_spec);
    p.q = arch_take(d, WEIGHT_MATRIX, i, ".weight", &q, 1);
    if (s->q_rank) {
        p.q_down = arch_take_matrix(d, ROLE_MLA_Q_DOWN, i, s->q_rank, d->hidden);
        p.q_norm = arch_take_vector(d, ROLE_MLA_Q_NORM, i, ".weight", s->q_rank);
    }
    p.kv = arch_take_matrix(d, ROLE_MLA_KV_DOWN, i, s->rank + s->rope_dim, d->hidden);
    p.kv_norm = arch_take_vector(d, ROLE_MLA_KV_NORM, i, ".weight", s->rank);
    take_ups(d, l, i, &p);
    p.o = arch_take_matrix(d, ROLE_O, i, d->hidden, l->n_heads * s->v_dim);
    if (l->qkv_bias) take_biases(d, s, i, &p);
    Val q_in = block_mla_query_input(d->b, &p, h);
    if (!s->index.n_heads) return block_mla(d->b, &p, h, q_in, VAL_NONE, i);
    if (!s->index.shared) d->picks = choose_keys(d, l, h, q_in, i);
    return block_mla(d->b, &p, h, q_in, d->picks, i);
}
