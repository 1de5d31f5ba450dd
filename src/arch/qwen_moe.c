/* Qwen2 MoE and Qwen3 MoE (Yang et al. 2024, 2025): Qwen2 and Qwen3 with experts in all layers but
 * those that mlp_only_layers and decoder_sparse_step leave dense; Qwen2's have a shared expert
 * behind a sigmoid switch. Each has a window rule of its own. */
#include "arch/qwen.h"

bool qwen_moe(const Decoder *d, int i, LayerSpec *l, bool normalize, Err *err) {
    const int64_t *dense;
    size_t n;
    int64_t step;
    if (!config_ints(d->config, "mlp_only_layers", d->arena, &dense, &n, err)) return false;
    if (!config_int(d->config, "decoder_sparse_step", 1, 1, INT32_MAX, &step, err)) return false;
    if ((i + 1) % step) return true;
    for (size_t k = 0; k < n; k++)
        if (dense[k] == i) return true;
    /* no key of a GGUF tells */
    if (d->config->gguf && !weights_has(d->weights, ROLE_ROUTER, i, ".weight")) return true;
    bool shares = d->config->gguf && !config_has(d->config, "moe_intermediate_size");
    const char *key = shares ? "intermediate_size" : "moe_intermediate_size";
    if (!decoder_moe(d, key, normalize, &l->moe, err)) return false;
    if (shares) l->moe.width /= l->moe.k; /* early GGUF files count those that are chosen */
    return l->moe.width ||
           err_set(err, ERR_INPUT, "feed_forward_length over %u experts is nothing", l->moe.k);
}

static bool qwen2_adjust(Decoder *d, Err *err) {
    return config_bool(d->config, "qkv_bias", true, &d->layer.qkv_bias, err);
}

bool qwen_shared(const Decoder *d, LayerSpec *l, Err *err) {
    int64_t shared;
    if (!l->moe.n_experts) return true;
    if (!config_int(d->config, "shared_expert_intermediate_size",
                    d->config->gguf ? (int64_t)d->layer.ffn_width : CONFIG_REQUIRED, 1, 1 << 20,
                    &shared, err))
        return false;
    l->moe.shared_width = (uint32_t)shared;
    l->moe.shared_switch = true;
    return true;
}

/* Every other layer of the first max_window_layers, where Qwen2 has those behind them. */
static bool qwen2_window(const Decoder *d, int i, LayerSpec *l, Err *err) {
    bool windowed;
    int64_t end;
    if (!config_int(d->config, "max_window_layers", 28, 0, INT32_MAX, &end, err)) return false;
    bool dflt = d->config->gguf || (i < end && i % 2 == 0);
    if (!decoder_layer_type(d, i, "sliding_attention", dflt, &windowed, err)) return false;
    return !windowed || qwen_window_size(d, &l->window, err);
}

static bool qwen2_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    return qwen2_window(d, i, l, err) && qwen_moe(d, i, l, false, err) && qwen_shared(d, l, err);
}

static bool qwen3_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    /* one window for all layers: no list, no max_window_layers */
    if (!d->config->gguf && !qwen_window_size(d, &l->window, err)) return false;
    /* GGUF has no key for norm_topk_prob; all releases renormalise. */
    return qwen_moe(d, i, l, d->config->gguf != NULL, err);
}

const Arch ARCH_QWEN2_MOE = {
    .name = "qwen2_moe",
    .kind = "text",
    .model_types = (const char *const[]){"qwen2_moe", NULL},
    .hf_class = "Qwen2MoeForCausalLM",
    .gguf = (const char *const[]){"qwen2moe", NULL},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .no_dense = true,
    .adjust = qwen2_adjust,
    .layer = qwen2_layer,
};

const Arch ARCH_QWEN3_MOE = {
    .name = "qwen3_moe",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_moe", NULL},
    .hf_class = "Qwen3MoeForCausalLM",
    .gguf = (const char *const[]){"qwen3moe", NULL},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 128,
    .no_dense = true,
    .adjust = qwen3_adjust,
    .layer = qwen3_layer,
};
