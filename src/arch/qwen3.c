/* Qwen3 (Yang et al. 2025): RMS norms on each query and key head, no biases unless attention_bias;
 * head_dim 128 when absent. */
#include "arch/qwen.h"

bool qwen3_adjust(Decoder *d, Err *err) {
    d->layer.qk_norm = true;
    return decoder_attn_bias(d, err);
}

const Arch ARCH_QWEN3 = {
    .name = "qwen3",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3", NULL},
    .hf_class = "Qwen3ForCausalLM",
    .gguf = (const char *const[]){"qwen3", NULL},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 128,
    .adjust = qwen3_adjust,
    .layer = qwen_window,
};
