/* LFM2 (Liquid AI 2025): gated short convolutions in most layers, attention with a norm on each
 * query and key head in the others; other tensor names; a feed-forward width that the config's is
 * scaled and rounded to; a tied head; the final norm is called embedding_norm. LFM2 MoE: experts by
 * sigmoid scores and a bias for the choice in all but the first layers, widths as they are. */
#include "arch/arch.h"

static bool ffn_width(const Decoder *d, uint32_t *width, Err *err) {
    const Config *c = d->config;
    int64_t n, multiple;
    bool adjusted;
    double factor;
    if (c->gguf) return true; /* it has the width itself */
    if (!config_int(c, "block_ff_dim|intermediate_size", CONFIG_REQUIRED, 1, 1 << 20, &n, err))
        return false;
    if (!config_bool(c, "block_auto_adjust_ff_dim", true, &adjusted, err)) return false;
    if (!config_int(c, "block_multiple_of", 256, 1, 1 << 20, &multiple, err)) return false;
    if (!config_float(c, "block_ffn_dim_multiplier", 1, 1e-6, 64, &factor, err)) return false;
    if (adjusted) {
        n = (int64_t)(2 * (double)n / 3);
        /* null is not the default: it leaves the width as it is */
        if (!json_is(json_get(c->json, "block_ffn_dim_multiplier"), JSON_NULL))
            n = ((int64_t)(factor * (double)n) + multiple - 1) / multiple * multiple;
    }
    if (n < 1 || n > 1 << 20)
        return err_set(err, ERR_INPUT, "the feed-forward width comes to %lld", (long long)n);
    *width = (uint32_t)n;
    return true;
}

static bool adjust_all(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    int64_t kernel;
    l->qk_norm = true;
    if (!config_has(d->config, "norm_eps")) d->eps = 1e-5f;
    if (!config_bool(d->config, "tie_embedding|tie_word_embeddings", true, &d->tied, err))
        return false;
    if (!config_int(d->config, "conv_L_cache", 3, 2, 64, &kernel, err)) return false;
    l->conv.kernel = (uint32_t)kernel;
    return config_bool(d->config, "conv_bias", false, &l->conv.bias, err);
}

static bool adjust(Decoder *d, Err *err) {
    return adjust_all(d, err) && ffn_width(d, &d->layer.ffn_width, err);
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    const int64_t *idx;
    size_t n;
    bool conv = false;
    if (d->config->gguf) /* layers without key heads */
        conv = l->n_kv_heads == 0;
    else if (config_has(d->config, "layer_types")) {
        if (!decoder_layer_type(d, i, "conv", false, &conv, err)) return false;
    } else {
        if (!config_ints(d->config, "full_attn_idxs", d->arena, &idx, &n, err)) return false;
        conv = n > 0;
        for (size_t k = 0; k < n; k++)
            if (idx[k] == i) conv = false;
    }
    if (conv) l->mixer = MIXER_SHORTCONV;
    return true;
}

static bool moe_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t n_dense;
    double scale;
    MoeSpec *m = &l->moe;
    if (!layer(d, i, l, err)) return false;
    if (!config_int(d->config, "num_dense_layers", 2, 0, INT32_MAX, &n_dense, err)) return false;
    if (i < n_dense) return true;
    if (!decoder_moe(d, "moe_intermediate_size", true, m, err)) return false;
    if (!config_float(d->config, "routed_scaling_factor", 1, 0, 1e6, &scale, err)) return false;
    m->fn = ROUTE_SIGMOID;
    m->scale = (float)scale;
    return config_bool(d->config, "use_expert_bias", true, &m->select_bias, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_FINAL_NORM, {"embedding_norm", "token_embd_norm"}},
    {ROLE_ATTN_NORM, {"layers.%d.operator_norm", "blk.%d.attn_norm"}},
    {ROLE_FFN_NORM, {"layers.%d.ffn_norm", "blk.%d.ffn_norm"}},
    {ROLE_Q_NORM, {"layers.%d.self_attn.q_layernorm", "blk.%d.attn_q_norm"}},
    {ROLE_K_NORM, {"layers.%d.self_attn.k_layernorm", "blk.%d.attn_k_norm"}},
    {ROLE_O, {"layers.%d.self_attn.out_proj", "blk.%d.attn_output"}},
    {ROLE_GATE, {"layers.%d.feed_forward.w1", "blk.%d.ffn_gate"}},
    {ROLE_UP, {"layers.%d.feed_forward.w3", "blk.%d.ffn_up"}},
    {ROLE_DOWN, {"layers.%d.feed_forward.w2", "blk.%d.ffn_down"}},
    {ROLE_GATE, {"layers.%d.feed_forward.gate_proj", NULL}}, /* MLX */
    {ROLE_UP, {"layers.%d.feed_forward.up_proj", NULL}},
    {ROLE_DOWN, {"layers.%d.feed_forward.down_proj", NULL}},
    {ROLE_ROUTER, {"layers.%d.feed_forward.gate", "blk.%d.ffn_gate_inp"}},
    {ROLE_SELECT_BIAS, {"layers.%d.feed_forward.expert_bias", "blk.%d.exp_probs_b"}},
    {ROLE_EXPERT_GATE, {"layers.%d.feed_forward.experts.%e.w1", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.feed_forward.experts.%e.w3", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.feed_forward.experts.%e.w2", "blk.%d.ffn_down_exps"}},
    {ROLE_COUNT, {NULL, NULL}},
};

static const char *const MLX_NAMES[][2] = {{"feed_forward.w1", "feed_forward.gate_proj"},
                                           {"feed_forward.w3", "feed_forward.up_proj"},
                                           {"feed_forward.w2", "feed_forward.down_proj"},
                                           {NULL, NULL}};

const Arch ARCH_LFM2 = {
    .name = "lfm2",
    .kind = "text",
    .model_types = (const char *const[]){"lfm2", NULL},
    .hf_class = "Lfm2ForCausalLM",
    .gguf = (const char *const[]){"lfm2", NULL},
    .names = NAMES,
    .rope_theta = 1000000,
    .rope_whole = true,
    .adjust = adjust,
    .layer = layer,
};

const Arch ARCH_LFM2_MOE = {
    .name = "lfm2_moe",
    .kind = "text",
    .model_types = (const char *const[]){"lfm2_moe", NULL},
    .hf_class = "Lfm2MoeForCausalLM",
    .gguf = (const char *const[]){"lfm2moe", NULL},
    .names = NAMES,
    .mlx_names = MLX_NAMES,
    .rope_theta = 1000000,
    .rope_whole = true,
    .adjust = adjust_all,
    .layer = moe_layer,
};
