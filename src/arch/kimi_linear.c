/* Kimi Linear (Kimi Team 2025): delta nets with a decay for each column of the keys, decay and output
 * gate of low rank, in most layers; latent attention without rope in the others; experts of
 * DeepSeek-V3's kind behind the first dense layers. Layers are counted from 1 in
 * linear_attn_config. */
#include <math.h>

#include "arch/arch.h"

/* *out: linear_attn_config, or the root itself. */
static bool linear_section(const Config *c, Config *out, bool *has, Err *err) {
    Err nested = {0};
    *has = config_section(c, "linear_attn_config", out, &nested);
    if (nested.kind && err) *err = nested;
    if (!*has) *out = *c;
    return nested.kind == 0;
}

static bool delta_sizes(const Decoder *d, DeltaSpec *s, Err *err) {
    Config c;
    bool has;
    if (d->config->gguf) { /* as many heads as attention */
        s->n_heads = d->layer.n_heads;
        return config_u32(d->config, "kda_head_dim", CONFIG_REQUIRED, 1, 1024, &s->k_dim, err) &&
               config_u32(d->config, "short_conv_kernel_size", CONFIG_REQUIRED, 2, 64, &s->kernel,
                          err);
    }
    if (!linear_section(d->config, &c, &has, err)) return false;
    return config_u32(&c, has ? "num_heads" : "linear_num_heads", 32, 1, 1024, &s->n_heads, err) &&
           config_u32(&c, has ? "head_dim" : "linear_head_dim", 128, 1, 1024, &s->k_dim, err) &&
           config_u32(&c, has ? "short_conv_kernel_size" : "linear_conv_kernel_dim", 4, 2, 64,
                      &s->kernel, err);
}

static bool read_delta(const Decoder *d, DeltaSpec *s, Err *err) {
    if (!delta_sizes(d, s, err)) return false;
    s->n_k_heads = s->n_heads;
    s->v_dim = s->rank = s->k_dim;
    s->form = DELTA_LOW_RANK;
    s->by_column = true;
    s->gate = ACT_SIGMOID;
    return true;
}

static bool read_mla(Decoder *d, Err *err) {
    const Config *c = d->config;
    LayerSpec *l = &d->layer;
    MlaSpec *s = &l->mla;
    bool nope;
    if (!config_bool(c, "mla_use_nope", true, &nope, err)) return false;
    if (!nope) return err_set(err, ERR_UNSUPPORTED, "mla_use_nope is false; only true is accepted");
    bool gguf = c->gguf != NULL; /* it says every size */
    if (!config_u32(c, "qk_nope_head_dim", gguf ? CONFIG_REQUIRED : 128, 1, 1024, &s->nope_dim,
                    err) ||
        !config_u32(c, "qk_rope_head_dim", gguf ? CONFIG_REQUIRED : 64, 0, 1024, &s->rope_dim,
                    err) ||
        !config_u32(c, "v_head_dim", gguf ? CONFIG_REQUIRED : 128, 1, 1024, &s->v_dim, err) ||
        !config_u32(c, "kv_lora_rank", gguf ? CONFIG_REQUIRED : 512, 1, 4096, &s->rank, err) ||
        !config_u32(c, "q_lora_rank", 0, 0, 1 << 16, &s->q_rank, err))
        return false;
    s->norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    l->rope = false;
    l->attn_scale = (float)(1 / sqrt((double)s->nope_dim + s->rope_dim));
    return config_bool(c, "attention_bias", false, &l->qkv_bias, err);
}

static bool adjust(Decoder *d, Err *err) {
    int64_t positions;
    if (!config_has(d->config, "rms_norm_eps")) d->eps = 1e-5f;
    d->tied = false; /* whatever tie_word_embeddings says */
    if (!config_int(d->config, "model_max_length|max_position_embeddings", 1048576, 1, INT32_MAX,
                    &positions, err))
        return false;
    d->max_positions = (uint32_t)positions;
    return read_delta(d, &d->layer.delta, err) && read_mla(d, err);
}

static bool is_among(const int64_t *list, size_t n, int64_t v) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == v) return true;
    return false;
}

static bool is_full(const Decoder *d, int i, bool *out, Err *err) {
    Config c;
    bool has;
    const int64_t *full, *delta;
    size_t n_full, n_delta;
    if (config_has(d->config, "layer_types"))
        return decoder_layer_type(d, i, "full_attention", false, out, err);
    if (!linear_section(d->config, &c, &has, err)) return false;
    *out = i && i % 4 == 0;
    if (!has) return true;
    if (!config_ints(&c, "full_attn_layers", d->arena, &full, &n_full, err) ||
        !config_ints(&c, "kda_layers", d->arena, &delta, &n_delta, err))
        return false;
    *out = is_among(full, n_full, i + 1);
    if (*out != is_among(delta, n_delta, i + 1)) return true;
    return err_set(err, ERR_INPUT, "layer %d must be in one of full_attn_layers and kda_layers",
                   i + 1);
}

static bool read_moe(const Decoder *d, MoeSpec *m, Err *err) {
    const Config *c = d->config;
    Str fn;
    double scale;
    uint32_t n_shared;
    *m = (MoeSpec){.select_bias = true, .group_top = 2};
    bool gguf = c->gguf != NULL;
    if (!config_u32(c, "num_experts|num_local_experts", gguf ? CONFIG_REQUIRED : 256, 1,
                    ROUTE_MAX_EXPERTS, &m->n_experts, err) ||
        !config_u32(c, "num_experts_per_token|num_experts_per_tok", gguf ? CONFIG_REQUIRED : 8, 1,
                    ROUTE_MAX_K, &m->k, err) ||
        !config_u32(c, "moe_intermediate_size", gguf ? CONFIG_REQUIRED : 1024, 1, 1 << 20,
                    &m->width, err) ||
        !config_u32(c, "num_expert_group|n_group", 1, 1, 1024, &m->n_groups, err) ||
        !config_u32(c, "topk_group", 1, 1, m->n_groups, &m->k_groups, err) ||
        !config_u32(c, "num_shared_experts|n_shared_experts", !gguf, 0, 64, &n_shared, err))
        return false;
    if (!config_float(c, "routed_scaling_factor", gguf ? 1 : 2.446, 0, 1e6, &scale, err) ||
        !config_bool(c, "moe_renormalize|norm_topk_prob", true, &m->normalize, err) ||
        !config_str(c, "moe_router_activation_func", "sigmoid", &fn, err))
        return false;
    if (!str_eqc(fn, "sigmoid") && !str_eqc(fn, "softmax"))
        return err_set(err, ERR_UNSUPPORTED,
                       "moe_router_activation_func is \"" STR_F
                       "\"; sigmoid and softmax are accepted",
                       STR_A(fn));
    m->fn = str_eqc(fn, "sigmoid") ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    m->scale = (float)scale;
    m->shared_width = n_shared * m->width;
    return true;
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t first, step;
    bool full = l->n_kv_heads > 0,
         gguf = d->config->gguf != NULL; /* it has no key heads elsewhere */
    if (!gguf && !is_full(d, i, &full, err)) return false;
    l->mixer = full ? MIXER_MLA : MIXER_DELTA;
    if (!config_int(d->config, "first_k_dense_replace", !gguf, 0, INT32_MAX, &first, err) ||
        !config_int(d->config, "moe_layer_freq", 1, 1, INT32_MAX, &step, err))
        return false;
    bool sparse = i >= first && i % step == 0;
    if (!decoder_layer_sparse(d, i, sparse, &sparse, err)) return false;
    return !sparse || read_moe(d, &l->moe, err);
}

/* Names of releases, then MLX's where they differ. */
static const RoleDelta NAMES[] = {
    /* transformers 5 saves dense layers under the experts' name */
    {ROLE_GATE, {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"}},
    {ROLE_GATE, {"layers.%d.block_sparse_moe.gate_proj", NULL}},
    {ROLE_UP, {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"}},
    {ROLE_UP, {"layers.%d.block_sparse_moe.up_proj", NULL}},
    {ROLE_DOWN, {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"}},
    {ROLE_DOWN, {"layers.%d.block_sparse_moe.down_proj", NULL}},
    {ROLE_DELTA_Q, {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"}},
    {ROLE_DELTA_K, {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"}},
    {ROLE_DELTA_V, {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"}},
    {ROLE_DELTA_CONV_Q, {"layers.%d.self_attn.q_conv1d", "blk.%d.ssm_conv1d_q"}},
    {ROLE_DELTA_CONV_Q, {"layers.%d.self_attn.q_conv.conv", NULL}},
    {ROLE_DELTA_CONV_K, {"layers.%d.self_attn.k_conv1d", "blk.%d.ssm_conv1d_k"}},
    {ROLE_DELTA_CONV_K, {"layers.%d.self_attn.k_conv.conv", NULL}},
    {ROLE_DELTA_CONV_V, {"layers.%d.self_attn.v_conv1d", "blk.%d.ssm_conv1d_v"}},
    {ROLE_DELTA_CONV_V, {"layers.%d.self_attn.v_conv.conv", NULL}},
    {ROLE_DELTA_A_DOWN, {"layers.%d.self_attn.f_a_proj", "blk.%d.ssm_f_a"}},
    {ROLE_DELTA_A_UP, {"layers.%d.self_attn.f_b_proj", "blk.%d.ssm_f_b"}},
    {ROLE_DELTA_Z_DOWN, {"layers.%d.self_attn.g_a_proj", "blk.%d.ssm_g_a"}},
    {ROLE_DELTA_Z_UP, {"layers.%d.self_attn.g_b_proj", "blk.%d.ssm_g_b"}},
    {ROLE_DELTA_B, {"layers.%d.self_attn.b_proj", "blk.%d.ssm_beta"}},
    {ROLE_DELTA_DECAY, {"layers.%d.self_attn.A_log", "blk.%d.ssm_a"}},
    {ROLE_DELTA_DT, {"layers.%d.self_attn.dt_bias", "blk.%d.ssm_dt"}},
    {ROLE_DELTA_NORM, {"layers.%d.self_attn.o_norm", "blk.%d.ssm_norm"}},
    {ROLE_DELTA_OUT, {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"}},
    {ROLE_ROUTER, {"layers.%d.block_sparse_moe.gate", "blk.%d.ffn_gate_inp"}},
    {ROLE_ROUTER, {"layers.%d.mlp.gate", NULL}},
    {ROLE_SELECT_BIAS,
     {"layers.%d.block_sparse_moe.gate.e_score_correction_bias", "blk.%d.exp_probs_b"}},
    {ROLE_SELECT_BIAS, {"layers.%d.mlp.e_score_correction_bias", NULL}},
    {ROLE_EXPERT_GATE, {"layers.%d.block_sparse_moe.experts.%e.w1", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_GATE, {"layers.%d.mlp.experts.%e.gate_proj", NULL}},
    {ROLE_EXPERT_UP, {"layers.%d.block_sparse_moe.experts.%e.w3", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.mlp.experts.%e.up_proj", NULL}},
    {ROLE_EXPERT_DOWN, {"layers.%d.block_sparse_moe.experts.%e.w2", "blk.%d.ffn_down_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.mlp.experts.%e.down_proj", NULL}},
    {ROLE_SHARED_GATE,
     {"layers.%d.block_sparse_moe.shared_experts.gate_proj", "blk.%d.ffn_gate_shexp"}},
    {ROLE_SHARED_GATE, {"layers.%d.mlp.shared_experts.gate_proj", NULL}},
    {ROLE_SHARED_UP, {"layers.%d.block_sparse_moe.shared_experts.up_proj", "blk.%d.ffn_up_shexp"}},
    {ROLE_SHARED_UP, {"layers.%d.mlp.shared_experts.up_proj", NULL}},
    {ROLE_SHARED_DOWN,
     {"layers.%d.block_sparse_moe.shared_experts.down_proj", "blk.%d.ffn_down_shexp"}},
    {ROLE_SHARED_DOWN, {"layers.%d.mlp.shared_experts.down_proj", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

static const char *const MLX_NAMES[][2] = {
    {"block_sparse_moe.gate.e_score_correction_bias", "mlp.e_score_correction_bias"},
    {"mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias"},
    {"block_sparse_moe.", "mlp."},
    {"q_conv1d.", "q_conv.conv."},
    {"k_conv1d.", "k_conv.conv."},
    {"v_conv1d.", "v_conv.conv."},
    {NULL, NULL}};

const Arch ARCH_KIMI_LINEAR = {
    .name = "kimi_linear",
    .kind = "text",
    .model_types = (const char *const[]){"kimi_linear", NULL},
    .hf_class = "KimiLinearForCausalLM",
    .gguf = (const char *const[]){"kimi-linear", NULL},
    .names = NAMES,
    .mlx_names = MLX_NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", "model.mtp*", NULL},
    .adjust = adjust,
    .layer = layer,
};
