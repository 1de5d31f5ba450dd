/* Qwen2 and Qwen2.5 (Yang et al. 2024): biases on q, k and v; with use_sliding_window, layers from
 * max_window_layers on have a window (or those that layer_types names). */
#include "arch/qwen.h"

bool qwen_window_size(const Decoder *d, uint32_t *out, Err *err) {
    bool use;
    int64_t window;
    if (!config_bool(d->config, "use_sliding_window", false, &use, err)) return false;
    if (!config_int(d->config, "sliding_window", 4096, 0, UINT32_MAX, &window, err)) return false;
    if (d->config->gguf) /* where it says which layers */
        use = config_has(d->config, ".attention.sliding_window_pattern");
    *out = use ? (uint32_t)window : 0;
    return true;
}

bool qwen_window(const Decoder *d, int i, LayerSpec *l, Err *err) {
    bool windowed;
    int64_t first;
    if (!config_int(d->config, "max_window_layers", 28, 0, INT32_MAX, &first, err)) return false;
    if (!decoder_layer_type(d, i, "sliding_attention", i >= first, &windowed, err)) return false;
    return !windowed || qwen_window_size(d, &l->window, err);
}

static bool adjust(Decoder *d, Err *err) {
    (void)err;
    d->layer.qkv_bias = true;
    return true;
}

const Arch ARCH_QWEN2 = {
    .name = "qwen2",
    .kind = "text",
    .model_types = (const char *const[]){"qwen2", NULL},
    .hf_class = "Qwen2ForCausalLM",
    .gguf = (const char *const[]){"qwen2", NULL},
    .sizes = {4096, 22016, 32, 32, 0, 32768},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .adjust = adjust,
    .layer = qwen_window,
};
