/* Qwen3 (Yang et al. 2025): RMS norms on each query and key head, no biases unless attention_bias;
 * head_dim 128 when absent. */
#include "arch/qwen.h"

bool qwen3_adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    l->qk_norm = true;
    if (!config_bool(d->config, "attention_bias", false, &l->qkv_bias, err)) return false;
    l->o_bias = l->qkv_bias;
    return true;
}

const Arch ARCH_QWEN3 = {
    .name = "qwen3",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3", NULL},
    .gguf = (const char *const[]){"qwen3", NULL},
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 128,
    .adjust = qwen3_adjust,
    .layer = qwen_window,
};
