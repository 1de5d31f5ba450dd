/* Gemma 2 (Gemma Team 2024): Gemma with norms around each block, soft-capped scores and logits, and
 * a sliding window in every other layer, beginning with the first. */
#include "arch/gemma.h"

/* A config that leaves the soft-caps out means the release's values; null means none. */
static bool adjust(Decoder *d, Err *err) {
    if (!gemma_sandwich(d, err)) return false;
    if (d->config->json && !json_get(d->config->json, "attn_logit_softcapping"))
        d->layer.attn_softcap = 50;
    if (d->config->json && !json_get(d->config->json, "final_logit_softcapping"))
        d->logit_softcap = 30;
    return true;
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t window;
    bool sliding;
    if (!config_int(d->config, "sliding_window", 4096, 1, UINT32_MAX, &window, err)) return false;
    if (!decoder_layer_type(d, i, "sliding_attention", i % 2 == 0, &sliding, err)) return false;
    l->window = sliding ? (uint32_t)window : 0;
    return true;
}

const Arch ARCH_GEMMA2 = {
    .name = "gemma2",
    .kind = "text",
    .model_types = (const char *const[]){"gemma2", NULL},
    .hf_class = "Gemma2ForCausalLM",
    .gguf = (const char *const[]){"gemma2", NULL},
    .names = GEMMA_NAMES,
    .sizes = {2304, 9216, 26, 8, 4, 8192},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .gguf_wide_layers = 46,
    .adjust = adjust,
    .layer = layer,
};
