/* Gemma 4 (Gemma Team 2026): Gemma 3n's shared keys and values and inputs of each layer (without its
 * alternating streams), window layers with small heads and full layers with large ones whose rope
 * turns a share of the pairs, values that are the keys (attention_k_eq_v) in full layers, feed-forwards
 * of twice the width in layers that share, experts beside the dense feed-forward, and a scalar on what
 * each layer gives. */
#include <math.h>
#include <stdio.h>

#include "arch/gemma_shared.h"
#include "block/moe.h"

enum { PATTERN = 6, MAX_WIDTH = 1 << 20, MAX_HEAD_DIM = 1024, MAX_KV_HEADS = 1024 };

typedef struct Gemma4 {
    GemmaNet g;
    bool k_is_v, wide, moe;
    uint32_t n_experts, k, expert_width;
    GemmaAttn attn[GEMMA_KINDS]; /* of window layers, of full layers */
} Gemma4;

/* head_dim and num_key_value_heads of layer i: per_layer_config.<i>, or the keys for full layers. */
static bool attn_read(const Gemma4 *m, int i, GemmaAttn *p, Err *err) {
    const Decoder *d = m->g.d;
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
    if (d->layer.n_heads % kv)
        return err_set(err, ERR_INPUT, "%u attention heads do not divide over %d key/value heads",
                       d->layer.n_heads, (int)kv);
    p->head_dim = (uint32_t)dim;
    p->n_kv_heads = (uint32_t)kv;
    return true;
}

static bool read(Gemma4 *m, Err *err) {
    const Config *c = m->g.d->config;
    int64_t n, k, width;
    if (!gemma_net_read(&m->g, err)) return false;
    if (!config_bool(c, "attention_k_eq_v", false, &m->k_is_v, err) ||
        !config_bool(c, "use_double_wide_mlp", false, &m->wide, err) ||
        !config_bool(c, "enable_moe_block", false, &m->moe, err))
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
    const FfnBlock p = arch_take_gated(d, i, ROLES, width, d->layer.act);
    return block_ffn(d->b, &p, x, i);
}

static WeightId half(const Gemma4 *m, int i, uint32_t first) {
    TakeExperts p = {.role = ROLE_EXPERT_GATE_UP,
                     .n_experts = m->n_experts,
                     .n = m->expert_width,
                     .k = m->g.d->hidden,
                     .first = first,
                     .stored = 2 * m->expert_width};
    return arch_take_experts(m->g.d, i, &p, NULL);
}

/* x: the residual before the feed-forward's norm; the router has a norm of its own. */
static Val experts(const Gemma4 *m, Val x, int i) {
    Decoder *d = m->g.d;
    ProgBuilder *b = d->b;
    uint32_t n = m->n_experts;
    Val r = prog_rms_norm(b, x, W_NONE, 0, d->eps, 0);
    r = prog_col_scale(b, r, arch_take_vector(d, ROLE_ROUTER_SCALE, i, "", d->hidden), W_NONE,
                       COL_PLAIN);
    r = prog_scale(b, r, (float)(1 / sqrt((double)d->hidden)));
    r = prog_linear_precise(b, r, arch_take_matrix(d, ROLE_ROUTER, i, n, d->hidden), W_NONE);
    OpRoute route = {.fn = ROUTE_SOFTMAX, .normalize = true, .n_experts = n, .k = m->k, .scale = 1};
    Val routes = prog_route_scaled(b, prog_probe(b, r, "layers.%d.moe.logits", i), W_NONE,
                                   arch_take_vector(d, ROLE_EXPERT_SCALE, i, "", n), route);
    Val h = gemma_net_norm(&m->g, x, ROLE_PRE_EXPERTS_NORM, i);
    Val gate = prog_experts(b, h, routes, half(m, i, 0), W_NONE, n, m->expert_width),
        up = prog_experts(b, h, routes, half(m, i, m->expert_width), W_NONE, n, m->expert_width);
    TakeExperts down = {.role = ROLE_EXPERT_DOWNS,
                        .n_experts = n,
                        .n = d->hidden,
                        .k = m->expert_width,
                        .stored = d->hidden};
    h = prog_glu(b, gate, up, d->layer.act);
    h = prog_experts(b, h, routes, arch_take_experts(d, i, &down, NULL), W_NONE, n, d->hidden);
    return gemma_net_norm(&m->g, prog_expert_sum(b, h, routes), ROLE_POST_EXPERTS_NORM, i);
}

static Val layer(Gemma4 *m, const GemmaAttn *attn, Val x, int i) {
    GemmaNet *g = &m->g;
    ProgBuilder *b = g->d->b;
    Val h = gemma_net_attn(g, attn, gemma_net_norm(g, x, ROLE_ATTN_NORM, i), i);
    x = prog_add(b, x, gemma_net_norm(g, h, ROLE_POST_ATTN_NORM, i), 1);
    prog_probe(b, x, "layers.%d.mid", i);
    h = dense(m, gemma_net_norm(g, x, ROLE_FFN_NORM, i), i);
    if (m->moe) h = prog_add(b, gemma_net_norm(g, h, ROLE_POST_DENSE_NORM, i), experts(m, x, i), 1);
    x = prog_add(b, x, gemma_net_norm(g, h, ROLE_POST_FFN_NORM, i), 1);
    if (g->inputs_dim) x = prog_add(b, x, gemma_net_input(g, x, i), 1);
    if (weights_has(g->d->weights, ROLE_LAYER_SCALAR, i, "")) {
        const double *s = weights_values(g->d->weights, ROLE_LAYER_SCALAR, i, "", 1);
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
        attn.full |= i + 1 == d->n_layers; /* whatever the list says */
        if (!attn_read(&m, (int)i, &attn, err) ||
            !gemma_net_rope(&m.g, attn.full, attn.head_dim, err))
            return false;
        x = layer(&m, &attn, x, (int)i);
    }
    return gemma_net_finish(&m.g, prog_select(d->b, x), out, err);
}

static const RoleDelta NAMES[] = {
    GEMMA_NET_ROLES,
    {ROLE_LAYER_SCALAR, {"layers.%d.layer_scalar", NULL}},
    {ROLE_POST_DENSE_NORM, {"layers.%d.post_feedforward_layernorm_1", NULL}},
    {ROLE_PRE_EXPERTS_NORM, {"layers.%d.pre_feedforward_layernorm_2", NULL}},
    {ROLE_POST_EXPERTS_NORM, {"layers.%d.post_feedforward_layernorm_2", NULL}},
    {ROLE_ROUTER, {"layers.%d.router.proj", NULL}},
    {ROLE_ROUTER_SCALE, {"layers.%d.router.scale", NULL}},
    {ROLE_EXPERT_SCALE, {"layers.%d.router.per_expert_scale", NULL}},
    {ROLE_EXPERT_GATE_UP, {"layers.%d.experts.gate_up_proj", NULL}},
    {ROLE_EXPERT_DOWNS, {"layers.%d.experts.down_proj", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_GEMMA4 = {
    .name = "gemma4",
    .kind = "text",
    .model_types = (const char *const[]){"gemma4_text", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .build = build,
};
