/* Gemma 3 (Gemma Team 2025): Gemma 2 with norms on query and key heads, five window layers (base
 * 10000) to one global layer (base rope_theta, its scaling for global layers only), and no
 * soft-cap of scores: attn_logit_softcapping is in its configs, and nobody asks for it. */
#include "arch/gemma.h"

static bool adjust(Decoder *d, Err *err) {
    d->layer.qk_norm = true;
    if (!gemma_sandwich(d, err)) return false;
    d->layer.attn_softcap = 0;
    if (d->config->parent) d->logit_softcap = 0; /* only the text model alone has that of logits */
    return true;
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t window, pattern = 6;
    double theta;
    bool sliding;
    if (!config_int(d->config, "sliding_window", 4096, 1, UINT32_MAX, &window, err)) return false;
    if (d->config->json && !config_int(d->config, "sliding_window_pattern|_sliding_window_pattern",
                                       6, 1, INT32_MAX, &pattern, err))
        return false;
    if (!decoder_layer_type(d, i, "sliding_attention", (i + 1) % pattern != 0, &sliding, err))
        return false;
    if (!config_float(d->config, "rope_local_base_freq", 10000, 1e-3, 1e30, &theta, err))
        return false;
    if (!sliding) return true;
    l->window = (uint32_t)window;
    if (rope_config_has_kinds(d->config))
        return rope_config_kind(d->config, d->arena, "sliding_attention", l->head_dim, theta,
                                ROPE_WHOLE, &l->rope_spec, err);
    l->rope_spec = (RopeSpec){.kind = ROPE_PLAIN,
                              .rot_dim = l->head_dim,
                              .freq_dim = l->head_dim,
                              .theta = theta,
                              .factor = 1};
    return true;
}

const Arch ARCH_GEMMA3 = {
    .name = "gemma3",
    .kind = "text",
    .model_types = (const char *const[]){"gemma3_text", NULL},
    .hf_class = "Gemma3ForCausalLM",
    .gguf = (const char *const[]){"gemma3", NULL},
    .names = GEMMA_NAMES,
    .sizes = {2304, 9216, 26, 8, 4, 131072},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .gguf_wide_layers = 62,
    .rope_theta = 1e6,
    .positions_extended = true,
    .adjust = adjust,
    .layer = layer,
};
