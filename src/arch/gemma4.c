/* Gemma 4 (Gemma Team 2026): Gemma 3n's shared keys and values and inputs of each layer (without its
 * alternating streams), window layers with small heads and full layers with large ones whose rope
 * turns a share of the pairs, values that are the keys (attention_k_eq_v) in full layers, feed-forwards
 * of twice the width in layers that share, experts beside the dense feed-forward, and a scalar on what
 * each layer gives. */
#include <math.h>
#include <stdio.h>

#include "arch/decoder_config.h"
#include "arch/gemma_shared.h"
#include "arch/gguf_keys.h"
#include "block/moe.h"

enum { PATTERN = 6, MAX_WIDTH = 1 << 20, MAX_HEAD_DIM = 1024, MAX_KV_HEADS = 1024 };

typedef struct Gemma4 {
    GemmaNet g;
    bool k_is_v, wide, moe;
    const int64_t *widths; /* of each layer, in GGUF files */
    size_t n_widths;
    uint32_t n_experts, k, expert_width;
    GemmaAttn attn[GEMMA_KINDS]; /* of window layers, of full layers */
} Gemma4;

static bool heads_divide(const Decoder *d, uint32_t kv, Err *err) {
    return (kv && d->layer.n_heads % kv == 0) ||
           err_set(err, ERR_INPUT, "%u attention heads do not divide over %u key/value heads",
                   d->layer.n_heads, kv);
}

/* Keys of GGUF files; that values are keys only the tensors tell. */
static bool gguf_attn_read(const Gemma4 *m, int i, GemmaAttn *p, Err *err) {
    const Decoder *d = m->g.d;
    const Config *c = d->config;
    const char *key = p->full ? ".attention.key_length" : ".attention.key_length_swa";
    uint32_t v_dim;
    bool ok = config_u32(c, key, d->layer.head_dim, 1, MAX_HEAD_DIM, &p->head_dim, err) &&
              config_u32(c, p->full ? ".attention.value_length" : ".attention.value_length_swa",
                         p->head_dim, 1, MAX_HEAD_DIM, &v_dim, err) &&
              decoder_kv_heads(d, i, d->layer.n_kv_heads, &p->n_kv_heads, err) &&
              heads_divide(d, p->n_kv_heads, err);
    p->k_is_v = !weights_has(d->weights, ROLE_V, i, ".weight") &&
                !weights_has(d->weights, ROLE_QKV, i, ".weight");
    return ok && (v_dim == p->head_dim ||
                  err_set(err, ERR_UNSUPPORTED,
                          "heads of %u columns with values of %u; equal sizes are accepted",
                          p->head_dim, v_dim));
}

/* head_dim and num_key_value_heads of layer i: per_layer_config.<i>, or the keys for full layers. */
static bool attn_read(const Gemma4 *m, int i, GemmaAttn *p, Err *err) {
    const Decoder *d = m->g.d;
    if (d->config->gguf) return gguf_attn_read(m, i, p, err);
    Config all, own;
    Err local = {0};
    char key[16];
    int64_t dim = d->layer.head_dim, kv = d->layer.n_kv_heads;
    *p = (GemmaAttn){.full = p->full, .k_is_v = p->full && m->k_is_v};
    snprintf(key, sizeof key, "%d", i);
    bool listed = config_section(d->config, "per_layer_config", &all, &local);
    bool has = listed && config_section(&all, key, &own, &local);
    if (local.kind) return *err = local, false;
    if (has && (!config_int(&own, "head_dim", dim, 1, MAX_HEAD_DIM, &dim, err) ||
                !config_int(&own, "num_key_value_heads", kv, 1, MAX_KV_HEADS, &kv, err)))
        return false;
    if (!listed && p->full &&
        (!config_int(d->config, "global_head_dim", 512, 1, MAX_HEAD_DIM, &dim, err) ||
         (m->k_is_v &&
          !config_int(d->config, "num_global_key_value_heads", kv, 1, MAX_KV_HEADS, &kv, err))))
        return false;
    p->head_dim = (uint32_t)dim;
    p->n_kv_heads = (uint32_t)kv;
    return heads_divide(d, p->n_kv_heads, err);
}

/* Full layers' rope and the layers' widths; experts where there is a router. */
static bool gguf_read(Gemma4 *m, Err *err) {
    Decoder *d = m->g.d;
    if (!weights_has(d->weights, ROLE_ROPE_FREQS, -1, ".weight"))
        return err_set(err, ERR_CORRUPT, "tensor rope_freqs.weight is missing");
    if (!decoder_rope_tensors(d, err) ||
        !config_ints(d->config, "intermediate_size", d->arena, &m->widths, &m->n_widths, err))
        return false;
    if (m->n_widths > 1 && m->n_widths != d->n_layers)
        return err_set(err, ERR_INPUT, "feed_forward_length has %zu entries for %u layers",
                       m->n_widths, d->n_layers);
    for (size_t i = 0; i < m->n_widths; i++)
        if (m->widths[i] < 1 || m->widths[i] > MAX_WIDTH)
            return err_set(err, ERR_INPUT, "feed_forward_length has %lld; 1 to %d are accepted",
                           (long long)m->widths[i], MAX_WIDTH);
    m->moe = config_has(d->config, "num_experts");
    return true;
}

static bool read(Gemma4 *m, Err *err) {
    const Config *c = m->g.d->config;
    int64_t n, k, width;
    if (!gemma_net_read(&m->g, err) || (c->gguf && !gguf_read(m, err))) return false;
    if (!config_bool(c, "attention_k_eq_v", false, &m->k_is_v, err) ||
        !config_bool(c, "use_double_wide_mlp", false, &m->wide, err) ||
        !config_bool(c, "enable_moe_block", m->moe, &m->moe, err))
        return false;
    if (!m->moe) return true;
    if (!config_int(c, "num_experts", CONFIG_REQUIRED, 1, ROUTE_MAX_EXPERTS, &n, err) ||
        !config_int(c, "top_k_experts|num_experts_per_tok", CONFIG_REQUIRED, 1,
                    n < ROUTE_MAX_K ? n : ROUTE_MAX_K, &k, err) ||
        !config_int(c, "moe_intermediate_size|expert_intermediate_size", CONFIG_REQUIRED, 1,
                    MAX_WIDTH, &width, err))
        return false;
    m->n_experts = (uint32_t)n;
    m->k = (uint32_t)k;
    m->expert_width = (uint32_t)width;
    return true;
}

static Val dense(const Gemma4 *m, Val x, int i) {
    static const Role ROLES[3] = {ROLE_GATE, ROLE_UP, ROLE_DOWN};
    Decoder *d = m->g.d;
    uint32_t width = d->layer.ffn_width * (m->wide && gemma_net_reuses(&m->g, i) ? 2 : 1);
    if (m->n_widths) width = (uint32_t)m->widths[m->n_widths > 1 ? (size_t)i : 0];
    const FfnBlock p = arch_take_gated(d, i, ROLES, width, d->layer.act);
    return block_ffn(d->b, &p, x, i);
}

/* One of the experts' three matrices: rows from `first` on of a stack, or a module as MLX's and some
 * GGUF files have it. */
static WeightId expert_matrix(const Gemma4 *m, int i, Role stack, Role module, uint32_t first) {
    const Decoder *d = m->g.d;
    bool down = module == ROLE_EXPERT_DOWN;
    TakeExperts p = {.role = module,
                     .n_experts = m->n_experts,
                     .n = down ? d->hidden : m->expert_width,
                     .k = down ? m->expert_width : d->hidden};
    if (!weights_has(d->weights, module, i, ".weight")) {
        p.role = stack;
        p.first = first;
        p.stored = down ? d->hidden : 2 * m->expert_width;
    }
    return arch_take_experts(m->g.d, i, &p, NULL);
}

/* x: the residual before the feed-forward's norm; the router has a norm of its own. */
static Val experts(const Gemma4 *m, Val x, int i) {
    Decoder *d = m->g.d;
    ProgBuilder *b = d->b;
    uint32_t n = m->n_experts;
    WeightId down_w = expert_matrix(m, i, ROLE_EXPERT_DOWNS, ROLE_EXPERT_DOWN, 0);
    /* in GGUF files it is the matrices' own (NVFP4's second scale), or there is none */
    bool scaled = !d->config->gguf || weights_is_left(d->weights, ROLE_EXPERT_SCALE, i, "");
    Val r = prog_rms_norm(b, x, W_NONE, 0, d->eps, 0);
    r = prog_col_scale(b, r, arch_take_vector(d, ROLE_ROUTER_SCALE, i, "", d->hidden), W_NONE,
                       COL_PLAIN);
    r = prog_scale(b, r, (float)(1 / sqrt((double)d->hidden)));
    r = prog_linear_precise(b, r, arch_take_matrix(d, ROLE_ROUTER, i, n, d->hidden), W_NONE);
    OpRoute route = {.fn = ROUTE_SOFTMAX, .normalize = true, .n_experts = n, .k = m->k, .scale = 1};
    prog_probe(b, r, "layers.%d.moe.logits", i);
    Val routes = scaled ? prog_route_scaled(b, r, W_NONE,
                                            arch_take_vector(d, ROLE_EXPERT_SCALE, i, "", n), route)
                        : prog_route(b, r, W_NONE, route);
    Val h = gemma_net_norm(&m->g, x, ROLE_PRE_EXPERTS_NORM, i);
    uint32_t w = m->expert_width;
    WeightId gate_w = expert_matrix(m, i, ROLE_EXPERT_GATE_UP, ROLE_EXPERT_GATE, 0),
             up_w = expert_matrix(m, i, ROLE_EXPERT_GATE_UP, ROLE_EXPERT_UP, w);
    Val gate = prog_experts(b, h, routes, gate_w, W_NONE, n, w),
        up = prog_experts(b, h, routes, up_w, W_NONE, n, w);
    h = prog_glu(b, gate, up, d->layer.act);
    h = prog_experts(b, h, routes, down_w, W_NONE, n, d->hidden);
    return gemma_net_norm(&m->g, prog_expert_sum(b, h, routes), ROLE_POST_EXPERTS_NORM, i);
}

static Val layer(Gemma4 *m, const GemmaAttn *attn, Val x, int i) {
    GemmaNet *g = &m->g;
    ProgBuilder *b = g->d->b;
    Val h = gemma_net_attn(g, attn, gemma_net_norm(g, x, ROLE_ATTN_NORM, i), i);
    x = prog_add(b, x, gemma_net_norm(g, h, ROLE_POST_ATTN_NORM, i), 1);
    prog_probe(b, x, "layers.%d.mid", i);
    h = dense(m, gemma_net_norm(g, x, ROLE_FFN_NORM, i), i);
    bool moe = m->moe;
    if (g->d->config->gguf) moe = moe && weights_has(g->d->weights, ROLE_ROUTER, i, ".weight");
    if (moe) h = prog_add(b, gemma_net_norm(g, h, ROLE_POST_DENSE_NORM, i), experts(m, x, i), 1);
    x = prog_add(b, x, gemma_net_norm(g, h, ROLE_POST_FFN_NORM, i), 1);
    if (g->inputs_dim) x = prog_add(b, x, gemma_net_input(g, x, i), 1);
    const char *suffix = g->d->config->gguf ? ".weight" : "";
    if (weights_has(g->d->weights, ROLE_LAYER_SCALAR, i, suffix)) {
        const double *s = weights_values(g->d->weights, ROLE_LAYER_SCALAR, i, suffix, 1);
        if (s) x = prog_scale(b, x, (float)*s);
    }
    return prog_probe(b, x, "layers.%d.out", i);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Gemma4 m = {.g = {.d = d}};
    if (!read(&m, err)) return false;
    WeightId table = arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden);
    Val x = prog_probe(d->b, prog_embed(d->b, table, d->embed_scale), "embed");
    if (!gemma_net_inputs(&m.g, x, err)) return false;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        GemmaAttn attn;
        if (!gemma_net_is_full(&m.g, (int)i, PATTERN, &attn.full, err)) return false;
        attn.full |= d->config->json && i + 1 == d->n_layers; /* whatever the list says */
        if (!attn_read(&m, (int)i, &attn, err) ||
            !gemma_net_rope(&m.g, attn.full, attn.head_dim, err))
            return false;
        x = layer(&m, &attn, x, (int)i);
    }
    return gemma_net_finish(&m.g, prog_select(d->b, x), out, err);
}

static void put_rope(GgufKeys *k, const RopeSpec *r, bool full, uint32_t head_dim, Arena *a) {
    gguf_keys_f32(k, full ? "rope.freq_base" : "rope.freq_base_swa", r->theta);
    gguf_keys_u32(k, full ? "rope.dimension_count" : "rope.dimension_count_swa", head_dim);
    gguf_keys_u32(k, full ? "attention.key_length" : "attention.key_length_swa", head_dim);
    gguf_keys_u32(k, full ? "attention.value_length" : "attention.value_length_swa", head_dim);
    if (!full) return;
    double *divisors = arena_array(a, double, head_dim / 2);
    for (uint32_t i = 0; divisors && i < head_dim / 2; i++)
        divisors[i] = r->short_factor ? r->short_factor[i] : 1;
    k->divisors = divisors;
    k->n_divisors = divisors ? head_dim / 2 : 0;
}

/* Each kind of layer has one size of heads there: what layers have beyond it the reader shows. */
static bool gguf_keys(Decoder *d, GgufKeys *k, Err *err) {
    Gemma4 m = {.g = {.d = d}};
    uint32_t n = d->n_layers;
    bool seen[GEMMA_KINDS] = {false, false};
    int32_t *kv = arena_array(k->a, int32_t, n), *widths = arena_array(k->a, int32_t, n);
    if (!kv || !widths) return err_nomem(err, "GGUF keys");
    if (!read(&m, err) || !gemma_net_gguf_keys(&m.g, PATTERN, k, err)) return false;
    for (uint32_t i = 0; i < n; i++) {
        GemmaAttn attn;
        if (!gemma_net_is_full(&m.g, (int)i, PATTERN, &attn.full, err)) return false;
        attn.full |= i + 1 == n;
        if (!attn_read(&m, (int)i, &attn, err) ||
            !gemma_net_rope(&m.g, attn.full, attn.head_dim, err))
            return false;
        kv[i] = (int32_t)attn.n_kv_heads;
        widths[i] =
            (int32_t)(d->layer.ffn_width * (m.wide && gemma_net_reuses(&m.g, (int)i) ? 2 : 1));
        if (!seen[attn.full]) put_rope(k, &m.g.rope[attn.full], attn.full, attn.head_dim, k->a);
        seen[attn.full] = true;
    }
    bool alike = true;
    for (uint32_t i = 0; i < n; i++) alike = alike && kv[i] == kv[0];
    if (alike)
        gguf_keys_u32(k, "attention.head_count_kv", (uint32_t)kv[0]);
    else
        gguf_write_i32s(k->out, gguf_keys_name(k, "attention.head_count_kv"), kv, n);
    if (m.wide)
        gguf_write_i32s(k->out, gguf_keys_name(k, "feed_forward_length"), widths, n);
    else
        gguf_keys_u32(k, "feed_forward_length", d->layer.ffn_width);
    if (!m.moe) return true;
    gguf_keys_u32(k, "expert_count", m.n_experts);
    gguf_keys_u32(k, "expert_used_count", m.k);
    gguf_keys_u32(k, "expert_feed_forward_length", m.expert_width);
    return true;
}

static const RoleDelta NAMES[] = {
    GEMMA_NET_ROLES,
    {ROLE_LAYER_SCALAR, {"layers.%d.layer_scalar", "blk.%d.layer_output_scale"}},
    {ROLE_POST_DENSE_NORM, {"layers.%d.post_feedforward_layernorm_1", "blk.%d.post_ffw_norm_1"}},
    {ROLE_PRE_EXPERTS_NORM, {"layers.%d.pre_feedforward_layernorm_2", "blk.%d.pre_ffw_norm_2"}},
    {ROLE_POST_EXPERTS_NORM, {"layers.%d.post_feedforward_layernorm_2", "blk.%d.post_ffw_norm_2"}},
    {ROLE_ROUTER, {"layers.%d.router.proj", "blk.%d.ffn_gate_inp"}},
    {ROLE_ROUTER_SCALE, {"layers.%d.router.scale", "blk.%d.ffn_gate_inp.scale"}},
    {ROLE_EXPERT_SCALE, {"layers.%d.router.per_expert_scale", "blk.%d.ffn_down_exps.scale"}},
    {ROLE_EXPERT_GATE_UP, {"layers.%d.experts.gate_up_proj", "blk.%d.ffn_gate_up_exps"}},
    {ROLE_EXPERT_DOWNS, {"layers.%d.experts.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_EXPERT_GATE,
     {"layers.%d.experts.switch_glu.gate_proj", "blk.%d.ffn_gate_exps"}}, /* MLX */
    {ROLE_EXPERT_UP, {"layers.%d.experts.switch_glu.up_proj", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.experts.switch_glu.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_GEMMA4 = {
    .name = "gemma4",
    .kind = "text",
    .model_types = (const char *const[]){"gemma4_text", NULL},
    .hf_class = "Gemma4ForCausalLM",
    .gguf = (const char *const[]){"gemma4", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .gguf_keys = gguf_keys,
    .build = build,
};
