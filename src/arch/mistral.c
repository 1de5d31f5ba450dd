/* Mistral 7B (Jiang et al. 2023): Llama with a sliding window in every layer. An absent
 * sliding_window means 4096, null means none. GGUF files of it are of architecture llama. */
#include "arch/arch.h"

static bool adjust(Decoder *d, Err *err) {
    /* config_has() takes null for absent, but here the two differ. */
    const Json *key = json_get(d->config->json, "sliding_window");
    int64_t window = 4096;
    if (key && key->type == JSON_NULL) {
        window = 0;
    } else if (!config_int(d->config, "sliding_window", 4096, 1, UINT32_MAX, &window, err)) {
        return false;
    }
    d->layer.window = (uint32_t)window;
    return true;
}

const Arch ARCH_MISTRAL = {
    .name = "mistral",
    .kind = "text",
    .model_types = (const char *const[]){"mistral", NULL},
    .hf_class = "MistralForCausalLM",
    .gguf_as = "llama",
    .gguf_unpermute = true,
    .sizes = {4096, 14336, 32, 32, 8, 131072},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .adjust = adjust,
};
