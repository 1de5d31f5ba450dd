/* Phi-3 and Phi-4-mini (Abdin et al. 2024): Llama with q/k/v and gate/up each in one tensor, an
 * optional sliding window, and longrope (Ding et al. 2024), whose factors depend on the request's
 * length class. */
#include "arch/arch.h"

static bool adjust(Decoder *d, Err *err) {
    int64_t window;
    d->layer.fused_qkv = d->layer.fused_gate_up = true;
    if (!config_int(d->config, "sliding_window", 0, 0, UINT32_MAX, &window, err)) return false;
    d->layer.window = (uint32_t)window;
    return true;
}

const Arch ARCH_PHI3 = {
    .name = "phi3",
    .kind = "text",
    .model_types = (const char *const[]){"phi3", NULL},
    .hf_class = "Phi3ForCausalLM",
    .gguf = (const char *const[]){"phi3", NULL},
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .adjust = adjust,
};
