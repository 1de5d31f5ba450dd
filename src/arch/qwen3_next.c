/* Qwen3-Next (Qwen Team 2025): gated delta nets (Yang et al. 2024) in most layers; full attention,
 * with a gate among the rows of q and a norm on each query and key head, in every fourth; rope over
 * a quarter of the head; experts as in Qwen2 MoE; norms multiply by 1 + w. Prediction layers (mtp)
 * are left out. */
#include "arch/qwen.h"

/* MLX's files have 1 + w in their norms already; they are told by their convolutions, which end
 * with the one input channel. So have GGUF files. */
static bool norms_have_one(const Decoder *d) {
    if (d->config->gguf) return true;
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (weights_has(d->weights, ROLE_DELTA_CONV, (int)i, ".weight"))
            return weights_last(d->weights, ROLE_DELTA_CONV, (int)i, ".weight") == 1;
    return false;
}

bool qwen_delta(const Decoder *d, DeltaSpec *s, Err *err) {
    const Config *c = d->config;
    s->gate = ACT_SILU;
    if (!config_u32(c, "linear_num_key_heads", 16, 1, 1024, &s->n_k_heads, err) ||
        !config_u32(c, "linear_num_value_heads", 32, 1, 1024, &s->n_heads, err) ||
        !config_u32(c, "linear_key_head_dim", 128, 1, 1024, &s->k_dim, err) ||
        !config_u32(c, "linear_value_head_dim", 128, 1, 1024, &s->v_dim, err) ||
        !config_u32(c, "linear_conv_kernel_dim", 4, 2, 64, &s->kernel, err))
        return false;
    if (c->gguf) { /* it has the width of all values */
        int64_t inner;
        if (!config_int(c, ".ssm.inner_size", s->n_heads * s->k_dim, 1, 1 << 20, &inner, err))
            return false;
        s->v_dim = (uint32_t)inner / s->n_heads;
        if (inner % s->n_heads || s->v_dim > 1024)
            return err_set(err, ERR_INPUT, "ssm.inner_size %lld over %u heads", (long long)inner,
                           s->n_heads);
    }
    if (s->n_heads % s->n_k_heads == 0) return true;
    return err_set(err, ERR_INPUT,
                   "linear_num_value_heads is %u; a multiple of the %u key heads is accepted",
                   s->n_heads, s->n_k_heads);
}

bool qwen_next_adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    d->norm_add = norms_have_one(d) ? 0 : 1;
    l->qk_norm = l->gate_in_q = true;
    if (!decoder_attn_bias(d, err)) return false;
    return qwen_delta(d, &l->delta, err);
}

bool qwen_next_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t interval;
    bool full;
    if (!config_int(d->config, "full_attention_interval", 4, 1, INT32_MAX, &interval, err) ||
        !decoder_layer_type(d, i, "full_attention", (i + 1) % interval == 0, &full, err))
        return false;
    if (!full) l->mixer = MIXER_DELTA;
    return true;
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    return qwen_next_layer(d, i, l, err) && qwen_moe(d, i, l, true, err) && qwen_shared(d, l, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_FFN_NORM, {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_QWEN3_NEXT = {
    .name = "qwen3_next",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_next", NULL},
    .hf_class = "Qwen3NextForCausalLM",
    .gguf = (const char *const[]){"qwen3next", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"*mtp.*", "*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .rope_share = 0.25,
    .no_dense = true,
    .adjust = qwen_next_adjust,
    .layer = layer,
};
