/* Llama 1-3 (Touvron et al. 2023; Dubey et al. 2024) and what shares its shape. The generic decoder
 * is this family; only optional biases are its own. GGUF files have q and k rows permuted for
 * adjacent-pair rope; Mistral (windows) and Mixtral (experts) are of this architecture there. */
#include "arch/llama.h"

bool llama_adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    if (!decoder_attn_bias(d, err)) return false;
    if (d->config->gguf) { /* no key tells there, only the tensors do */
        l->qkv_bias = weights_has(d->weights, ROLE_Q, 0, ".bias") ||
                      weights_has(d->weights, ROLE_QKV, 0, ".bias");
        l->o_bias = weights_has(d->weights, ROLE_O, 0, ".bias");
    }
    return config_bool(d->config, "mlp_bias", false, &l->mlp_bias, err);
}

bool llama_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t window;
    (void)i;
    if (!d->config->gguf) return true;
    if (!config_int(d->config, "sliding_window", 0, 0, UINT32_MAX, &window, err)) return false;
    l->window = (uint32_t)window;
    return !config_has(d->config, "num_experts") ||
           decoder_moe(d, "moe_intermediate_size|intermediate_size", true, &l->moe, err);
}

const Arch ARCH_LLAMA = {
    .name = "llama",
    .kind = "text",
    .model_types = (const char *const[]){"llama", NULL},
    .hf_class = "LlamaForCausalLM",
    .gguf = (const char *const[]){"llama", NULL},
    .sizes = {4096, 11008, 32, 32, 0, 2048},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .gguf_unpermute = true,
    .adjust = llama_adjust,
    .layer = llama_layer,
};
