/* Llama 1-3 (Touvron et al. 2023; Dubey et al. 2024) and what shares its shape. The generic decoder
 * is this family; only optional biases are its own. GGUF files have q and k rows permuted for
 * adjacent-pair rope. */
#include "arch/arch.h"

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    if (!config_bool(d->config, "attention_bias", false, &l->qkv_bias, err)) return false;
    l->o_bias = l->qkv_bias;
    if (d->config->gguf) { /* no key tells there, only the tensors do */
        l->qkv_bias = weights_has(d->weights, ROLE_Q, 0, ".bias");
        l->o_bias = weights_has(d->weights, ROLE_O, 0, ".bias");
    }
    return config_bool(d->config, "mlp_bias", false, &l->mlp_bias, err);
}

const Arch ARCH_LLAMA = {
    .name = "llama",
    .kind = "text",
    .model_types = (const char *const[]){"llama", NULL},
    .gguf = (const char *const[]){"llama", NULL},
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .gguf_unpermute = true,
    .adjust = adjust,
};
