/* DeepSeek-V4 (DeepSeek-AI 2026). Each token has one row that is key and value of all heads, kept in a
 * window, and, in most layers, one row stands for each group of tokens before: few tokens and a choice
 * by an indexer, or many and no choice; both under one softmax with sinks. Queries come through a latent,
 * the output goes out through groups of heads, and since values are turned like keys, what attention
 * gives is turned back. The residual is several streams (block/hyper.h). Experts everywhere, in the
 * first layers chosen by the token itself. */
#include "arch/deepseek_v4.h"

#include "arch/mixer.h"
#include "arch/take.h"
#include "block/compress.h"
#include "block/hyper.h"

/* The last columns of each head, neighbouring pairs. */
static Val turn(const V4Net *g, Val x, RopeSpec spec, uint32_t n_heads, uint32_t dim) {
    return prog_rope(g->d->b, x, prog_rope_spec(g->d->b, spec), n_heads, dim, dim - spec.rot_dim,
                     true);
}

/* The suffix of parameters that are no module's; GGUF files have none such. */
static const char *bare(const Decoder *d) { return d->config->gguf ? ".weight" : ""; }

static Val normed(const V4Net *g, Val x, Role role, int i, uint32_t n) {
    return prog_rms_norm(g->d->b, x, arch_take_vector(g->d, role, i, ".weight", n), 0, g->d->eps,
                         0);
}

static CompressBlock compress_take(const V4Net *g, const Role roles[4], int i, uint32_t cols) {
    V4Kind kind = g->layers[i].kind;
    CompressBlock p = {.cols = cols,
                       .rate = g->rate[kind],
                       .overlap = kind == V4_SPARSE,
                       .rope_dim = g->rope[1].rot_dim,
                       .rope = g->rope[1],
                       .norm_eps = g->d->eps};
    uint32_t n = cols * (p.overlap ? 2 : 1);
    const TakePart in[2] = {{.role = roles[0], .n = n, .k = g->d->hidden},
                            {.role = roles[1], .n = n, .k = g->d->hidden}};
    const TakePart bias = {.role = roles[2], .n = 1, .k = n * p.rate, .cols = n};
    p.in = arch_take(g->d, WEIGHT_MATRIX, i, ".weight", in, 2);
    p.bias = arch_take(g->d, WEIGHT_VECTOR, i, bare(g->d), &bias, 1);
    p.norm = arch_take_vector(g->d, roles[3], i, ".weight", cols);
    return p;
}

static Val choose(const V4Net *g, Val h, Val q_in, int i) {
    static const Role ROLES[4] = {ROLE_INDEX_COMPRESS_KV, ROLE_INDEX_COMPRESS_GATE,
                                  ROLE_INDEX_COMPRESS_BIAS, ROLE_INDEX_COMPRESS_NORM};
    Decoder *d = g->d;
    const IndexSpec *s = &g->index;
    CompressBlock keys = compress_take(g, ROLES, i, s->head_dim);
    PlaneId plane = block_compress(d->b, &keys, PLANE_KEY, h, i);
    WeightId wq = arch_take_matrix(d, ROLE_INDEX_Q, i, s->n_heads * s->head_dim, g->q_rank),
             ww = arch_take_matrix(d, ROLE_INDEX_WEIGHTS, i, s->n_heads, d->hidden);
    Val q = prog_linear_precise(d->b, q_in, wq, W_NONE);
    q = turn(g, q, g->rope[1], s->n_heads, s->head_dim);
    Val picks = prog_key_select(
        d->b, q, prog_linear_precise(d->b, h, ww, W_NONE), plane,
        (OpKeySelect){.n_heads = s->n_heads, .head_dim = s->head_dim, .k = s->k, .scale = 1});
    return prog_probe(d->b, picks, "layers.%d.index.picks", i);
}

/* All heads' results for one row. */
static Val attend(const V4Net *g, Val h, Val q, Val q_in, int i) {
    static const Role ROLES[4] = {ROLE_COMPRESS_KV, ROLE_COMPRESS_GATE, ROLE_COMPRESS_BIAS,
                                  ROLE_COMPRESS_NORM};
    Decoder *d = g->d;
    const LayerSpec *l = &d->layer;
    V4Kind kind = g->layers[i].kind;
    PlaneId near = prog_plane(d->b, (ProgPlane){.layer = i,
                                                .heads = 1,
                                                .head_cols = l->head_dim,
                                                .use = PLANE_LATENT,
                                                .keep = KEEP_WINDOW,
                                                .span = g->window});
    WeightId w = arch_take_matrix(d, ROLE_MLA_KV_DOWN, i, l->head_dim, d->hidden);
    Val kv = prog_linear_precise(d->b, h, w, W_NONE);
    kv = normed(g, kv, ROLE_MLA_KV_NORM, i, l->head_dim);
    kv = turn(g, kv, g->rope[kind != V4_WINDOW], 1, l->head_dim);
    prog_kv_write(d->b, prog_probe(d->b, kv, "layers.%d.attn.kv", i), near);
    WeightId sinks = arch_take_vector(d, ROLE_SINKS, i, bare(d), l->n_heads);
    const OpAttn p = {.n_heads = l->n_heads,
                      .n_kv_heads = 1,
                      .head_dim = l->head_dim,
                      .v_dim = l->head_dim,
                      .window = g->window,
                      .scale = l->attn_scale};
    if (kind == V4_WINDOW) return prog_attn(d->b, q, near, near, sinks, p);
    CompressBlock groups = compress_take(g, ROLES, i, l->head_dim);
    PlaneId far = block_compress(d->b, &groups, PLANE_LATENT, h, i);
    Val picks = kind == V4_SPARSE ? choose(g, h, q_in, i) : VAL_NONE;
    return prog_attn_joint(d->b, q, picks, near, far, sinks, p);
}

static Val attention(const V4Net *g, Val h, int i) {
    Decoder *d = g->d;
    uint32_t dim = d->layer.head_dim, n = d->layer.n_heads;
    RopeSpec rope = g->rope[g->layers[i].kind != V4_WINDOW];
    WeightId down = arch_take_matrix(d, ROLE_MLA_Q_DOWN, i, g->q_rank, d->hidden),
             up = arch_take_matrix(d, ROLE_MLA_Q_UP, i, n * dim, g->q_rank),
             o = arch_take_matrix(d, ROLE_O, i, d->hidden, g->o_groups * g->o_rank);
    const TakeExperts o_parts = {
        .role = ROLE_O_DOWN, .n_experts = g->o_groups, .n = g->o_rank, .k = n * dim / g->o_groups};
    WeightId o_down = arch_take_experts(d, i, &o_parts, NULL);
    Val q_in = prog_linear_precise(d->b, h, down, W_NONE);
    q_in = normed(g, q_in, ROLE_MLA_Q_NORM, i, g->q_rank);
    Val q = prog_linear_precise(d->b, q_in, up, W_NONE);
    q = turn(g, prog_rms_norm(d->b, q, W_NONE, dim, d->eps, 0), rope, n, dim);
    prog_probe(d->b, q, "layers.%d.attn.q", i);
    Val a = attend(g, h, q, q_in, i);
    rope.backward = true;
    a = prog_probe(d->b, turn(g, a, rope, n, dim), "layers.%d.attn.heads", i);
    a = prog_block_linear(d->b, a, o_down, g->o_groups, g->o_rank);
    return prog_probe(d->b, prog_linear(d->b, a, o, W_NONE), "layers.%d.attn.out", i);
}

static Val experts(const V4Net *g, Val h, int i) {
    Decoder *d = g->d;
    LayerSpec l = d->layer;
    l.moe = g->moe;
    l.moe.select_bias = !g->layers[i].by_token;
    l.moe.limit = g->layers[i].limit;
    l.moe.stacked = weights_has(d->weights, ROLE_EXPERT_GATE_UP, i, "");
    MoeBlock p = mixer_moe_take(d, &l, i);
    p.shared_ffn.limit = g->layers[i].shared_limit;
    if (g->layers[i].by_token) weights_ignore(d->weights, ROLE_SELECT_BIAS, i);
    p.by_token = g->layers[i].by_token;
    const TakePart table = {
        .role = ROLE_ROUTE_TABLE, .n = d->vocab, .k = g->moe.k, .integers = true};
    if (p.by_token) p.by_token_table = arch_take(d, WEIGHT_TABLE, i, bare(d), &table, 1);
    return block_moe(d->b, &p, h, i);
}

/* In the file one scale for each of pre, post and the matrix; of the last sum, one. */
static HyperBlock hyper_take(const V4Net *g, Role role, int i) {
    Decoder *d = g->d;
    bool last = role == ROLE_HYPER_HEAD;
    uint32_t n = g->n_streams, rows = last ? n : (2 + n) * n;
    uint32_t *map = arena_array(d->arena, uint32_t, rows);
    for (uint32_t k = 0; map && k < rows; k++) map[k] = k / n < 2 ? k / n : 2;
    const TakePart fn = {.role = role, .n = rows, .k = n * d->hidden},
                   base = {.role = role, .n = 1, .k = rows},
                   scale = {.role = role, .n = 1, .k = rows, .rows = map, .n_stored = last ? 1 : 3};
    static const char *const SUFFIXES[3][3] = {{"_fn", "_scale", "_base"},
                                               {".fn", ".scale", ".base"},
                                               {"_fn.weight", "_scale.weight", "_base.weight"}};
    const char *const *suffix =
        SUFFIXES[d->config->gguf ? 2 : weights_has(d->weights, role, i, ".fn")];
    return (HyperBlock){.n = n,
                        .times = g->stream_times,
                        .eps = g->stream_eps,
                        .norm_eps = d->eps,
                        .fn = arch_take(d, WEIGHT_MATRIX, i, suffix[0], &fn, 1),
                        .scale = arch_take(d, WEIGHT_VECTOR, i, suffix[1], &scale, 1),
                        .base = arch_take(d, WEIGHT_VECTOR, i, suffix[2], &base, 1)};
}

typedef Val Inner(const V4Net *g, Val h, int i);

static Val around(const V4Net *g, Val streams, Role hyper, Role norm, Inner *inner, int i) {
    Decoder *d = g->d;
    Val back;
    HyperBlock p = hyper_take(g, hyper, i);
    Val h = block_hyper_enter(d->b, &p, streams, &back);
    return block_hyper_leave(d->b, &p, streams, inner(g, mixer_norm(d, h, norm, i), i), back);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    V4Net g;
    if (!decoder_read(d, err) || !v4_config_read(d, &g, err)) return false;
    WeightId table = arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden);
    if (table == W_NONE) return weights_finish(d->weights, err);
    Val x = prog_probe(d->b, prog_embed(d->b, table, 1), "embed"), streams = x;
    for (uint32_t i = 1; i < g.n_streams; i++) streams = prog_concat(d->b, streams, x);
    for (int i = 0; i < (int)d->n_layers; i++) {
        streams = around(&g, streams, ROLE_HYPER_ATTN, ROLE_ATTN_NORM, attention, i);
        prog_probe(d->b, streams, "layers.%d.mid", i);
        streams = around(&g, streams, ROLE_HYPER_FFN, ROLE_FFN_NORM, experts, i);
        prog_probe(d->b, streams, "layers.%d.out", i);
    }
    HyperBlock head = hyper_take(&g, ROLE_HYPER_HEAD, -1);
    x = block_hyper_sum(d->b, &head, prog_select(d->b, streams));
    prog_output(d->b, decoder_head(d, x), "logits");
    return weights_finish(d->weights, err) && decoder_finish(d, out, err);
}

/* As releases name them; as transformers' modules are called; what MLX has otherwise. */
static const RoleDelta NAMES[] = {
    {ROLE_EMBED, {"embed_tokens", "token_embd"}},
    {ROLE_EMBED, {"embed", NULL}},
    {ROLE_HEAD, {"/head", "output"}},
    {ROLE_HEAD, {"/lm_head", NULL}},
    {ROLE_ATTN_NORM, {"layers.%d.attn_norm", "blk.%d.attn_norm"}},
    {ROLE_ATTN_NORM, {"layers.%d.input_layernorm", NULL}},
    {ROLE_FFN_NORM, {"layers.%d.ffn_norm", "blk.%d.ffn_norm"}},
    {ROLE_FFN_NORM, {"layers.%d.post_attention_layernorm", NULL}},
    {ROLE_MLA_Q_DOWN, {"layers.%d.attn.wq_a", "blk.%d.attn_q_a"}},
    {ROLE_MLA_Q_DOWN, {"layers.%d.self_attn.q_a_proj", NULL}},
    {ROLE_MLA_Q_NORM, {"layers.%d.attn.q_norm", "blk.%d.attn_q_a_norm"}},
    {ROLE_MLA_Q_NORM, {"layers.%d.self_attn.q_a_norm", NULL}},
    {ROLE_MLA_Q_UP, {"layers.%d.attn.wq_b", "blk.%d.attn_q_b"}},
    {ROLE_MLA_Q_UP, {"layers.%d.self_attn.q_b_proj", NULL}},
    {ROLE_MLA_KV_DOWN, {"layers.%d.attn.wkv", "blk.%d.attn_kv"}},
    {ROLE_MLA_KV_DOWN, {"layers.%d.self_attn.kv_proj", NULL}},
    {ROLE_MLA_KV_NORM, {"layers.%d.attn.kv_norm", "blk.%d.attn_kv_a_norm"}},
    {ROLE_MLA_KV_NORM, {"layers.%d.attn.norm", NULL}}, /* saved by transformers */
    {ROLE_MLA_KV_NORM, {"layers.%d.self_attn.kv_norm", NULL}},
    {ROLE_SINKS, {"layers.%d.attn.attn_sink", "blk.%d.attn_sinks"}},
    {ROLE_SINKS, {"layers.%d.self_attn.sinks", NULL}},
    {ROLE_O_DOWN, {"layers.%d.attn.wo_a", "blk.%d.attn_output_a"}},
    {ROLE_O_DOWN, {"layers.%d.self_attn.o_a_proj", NULL}},
    {ROLE_O, {"layers.%d.attn.wo_b", "blk.%d.attn_output_b"}},
    {ROLE_O, {"layers.%d.self_attn.o_b_proj", NULL}},
    {ROLE_COMPRESS_KV, {"layers.%d.attn.compressor.wkv", "blk.%d.attn_compressor_kv"}},
    {ROLE_COMPRESS_KV, {"layers.%d.self_attn.compressor.kv_proj", NULL}},
    {ROLE_COMPRESS_GATE, {"layers.%d.attn.compressor.wgate", "blk.%d.attn_compressor_gate"}},
    {ROLE_COMPRESS_GATE, {"layers.%d.self_attn.compressor.gate_proj", NULL}},
    {ROLE_COMPRESS_BIAS, {"layers.%d.attn.compressor.ape", "blk.%d.attn_compressor_ape"}},
    {ROLE_COMPRESS_BIAS, {"layers.%d.self_attn.compressor.position_bias", NULL}},
    {ROLE_COMPRESS_NORM, {"layers.%d.attn.compressor.norm", "blk.%d.attn_compressor_norm"}},
    {ROLE_COMPRESS_NORM, {"layers.%d.self_attn.compressor.kv_norm", NULL}},
    {ROLE_INDEX_Q, {"layers.%d.attn.indexer.wq_b", "blk.%d.indexer.attn_q_b"}},
    {ROLE_INDEX_Q, {"layers.%d.self_attn.compressor.indexer.q_b_proj", NULL}},
    {ROLE_INDEX_WEIGHTS, {"layers.%d.attn.indexer.weights_proj", "blk.%d.indexer.proj"}},
    {ROLE_INDEX_WEIGHTS, {"layers.%d.self_attn.compressor.indexer.scorer.weights_proj", NULL}},
    {ROLE_INDEX_COMPRESS_KV,
     {"layers.%d.attn.indexer.compressor.wkv", "blk.%d.indexer_compressor_kv"}},
    {ROLE_INDEX_COMPRESS_KV, {"layers.%d.self_attn.compressor.indexer.kv_proj", NULL}},
    {ROLE_INDEX_COMPRESS_GATE,
     {"layers.%d.attn.indexer.compressor.wgate", "blk.%d.indexer_compressor_gate"}},
    {ROLE_INDEX_COMPRESS_GATE, {"layers.%d.self_attn.compressor.indexer.gate_proj", NULL}},
    {ROLE_INDEX_COMPRESS_BIAS,
     {"layers.%d.attn.indexer.compressor.ape", "blk.%d.indexer_compressor_ape"}},
    {ROLE_INDEX_COMPRESS_BIAS, {"layers.%d.self_attn.compressor.indexer.position_bias", NULL}},
    {ROLE_INDEX_COMPRESS_NORM,
     {"layers.%d.attn.indexer.compressor.norm", "blk.%d.indexer_compressor_norm"}},
    {ROLE_INDEX_COMPRESS_NORM, {"layers.%d.self_attn.compressor.indexer.kv_norm", NULL}},
    {ROLE_HYPER_ATTN, {"layers.%d.hc_attn", "blk.%d.hc_attn"}},
    {ROLE_HYPER_ATTN, {"layers.%d.attn_hc", NULL}},
    {ROLE_HYPER_FFN, {"layers.%d.hc_ffn", "blk.%d.hc_ffn"}},
    {ROLE_HYPER_FFN, {"layers.%d.ffn_hc", NULL}},
    {ROLE_HYPER_HEAD, {"hc_head.hc", "output_hc"}},
    {ROLE_HYPER_HEAD, {"hc_head", NULL}},
    {ROLE_ROUTER, {"layers.%d.ffn.gate", "blk.%d.ffn_gate_inp"}},
    {ROLE_ROUTER, {"layers.%d.mlp.gate", NULL}},
    {ROLE_SELECT_BIAS, {"layers.%d.ffn.gate.bias", "blk.%d.exp_probs_b"}},
    {ROLE_SELECT_BIAS, {"layers.%d.ffn.gate.e_score_correction_bias", NULL}},
    {ROLE_SELECT_BIAS, {"layers.%d.mlp.gate.e_score_correction_bias", NULL}},
    {ROLE_ROUTE_TABLE, {"layers.%d.ffn.gate.tid2eid", "blk.%d.ffn_gate_tid2eid"}},
    {ROLE_ROUTE_TABLE, {"layers.%d.mlp.gate.tid2eid", NULL}},
    {ROLE_EXPERT_GATE, {"layers.%d.ffn.experts.%e.w1", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.ffn.experts.%e.w3", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.ffn.experts.%e.w2", "blk.%d.ffn_down_exps"}},
    {ROLE_SHARED_GATE, {"layers.%d.ffn.shared_experts.w1", "blk.%d.ffn_gate_shexp"}},
    {ROLE_SHARED_GATE, {"layers.%d.ffn.shared_experts.gate_proj", NULL}},
    {ROLE_SHARED_GATE, {"layers.%d.mlp.shared_experts.gate_proj", NULL}},
    {ROLE_SHARED_UP, {"layers.%d.ffn.shared_experts.w3", "blk.%d.ffn_up_shexp"}},
    {ROLE_SHARED_UP, {"layers.%d.ffn.shared_experts.up_proj", NULL}},
    {ROLE_SHARED_UP, {"layers.%d.mlp.shared_experts.up_proj", NULL}},
    {ROLE_SHARED_DOWN, {"layers.%d.ffn.shared_experts.w2", "blk.%d.ffn_down_shexp"}},
    {ROLE_SHARED_DOWN, {"layers.%d.ffn.shared_experts.down_proj", NULL}},
    {ROLE_SHARED_DOWN, {"layers.%d.mlp.shared_experts.down_proj", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_DEEPSEEK_V4 = {
    .name = "deepseek_v4",
    .kind = "text",
    .model_types = (const char *const[]){"deepseek_v4", NULL},
    .hf_class = "DeepseekV4ForCausalLM",
    .gguf = (const char *const[]){"deepseek4", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"mtp.*", "blk.*.exp_probs_b_vl.bias", NULL},
    .sizes = {4096, 0, 43, 64, 1, 1048576},
    .head_dim = 512,
    .no_dense = true,
    .build = build,
};
