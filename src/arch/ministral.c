/* Ministral and Ministral 3 (Mistral AI 2024, 2025). Ministral is Llama with a window in the layers
 * that layer_types names (in all where there is no list). Ministral 3 has yarn from the start, and
 * queries that grow warmer with every stretch of the original context; its sliding_window, if there
 * is one, is that of all layers. It is also the text model of Mistral 3. GGUF files of architecture
 * mistral3 are it or Mistral Small 3.1, which is Mistral without a window; q and k rows are permuted
 * there as Llama's are. */
#include "arch/llama.h"

/* Absent: dflt (0: none); null: none. */
static bool read_window(Decoder *d, int64_t dflt, Err *err) {
    const Json *key = json_get(d->config->json, "sliding_window");
    int64_t window = 0;
    if (!(key && key->type == JSON_NULL) &&
        !config_int(d->config, "sliding_window", dflt, key ? 1 : 0, UINT32_MAX, &window, err))
        return false;
    d->layer.window = (uint32_t)window;
    return true;
}

static bool adjust(Decoder *d, Err *err) { return read_window(d, 4096, err); }

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    bool windowed;
    if (!decoder_layer_type(d, i, "sliding_attention", true, &windowed, err)) return false;
    if (!windowed) l->window = 0;
    return true;
}

/* The scaling of configs that have none: the reference's class default. */
static void default_rope(Decoder *d) {
    RopeSpec *r = &d->layer.rope_spec;
    r->kind = ROPE_YARN;
    r->theta = 1e6;
    r->factor = 16;
    r->orig_context = 16384;
    r->beta_fast = 32;
    r->beta_slow = r->mscale = r->mscale_all_dim = 1;
    r->truncate = true;
}

/* Original context and growth of the queries' temperature. */
static bool read_warmth(Decoder *d, Err *err) {
    const Config *c = d->config;
    Config section;
    Err nested = {0};
    double scale;
    int64_t floor;
    bool has = config_section(c, "rope_parameters", &section, &nested) ||
               (!nested.kind && config_section(c, "rope_scaling", &section, &nested));
    if (nested.kind) return *err = nested, false;
    if (!has) section = *c;
    if (!has && c->json) default_rope(d);
    if (c->gguf
            ? !config_float(c, ".attention.temperature_scale", 0, 0, 1e6, &scale, err)
            : !config_float(&section, "llama_4_scaling_beta", has ? 0 : 0.1, 0, 1e6, &scale, err))
        return false;
    if (!config_int(&section, "original_max_position_embeddings",
                    has || c->gguf ? d->max_positions : 16384, 1, UINT32_MAX, &floor, err))
        return false;
    d->layer.warmth = (OpPosScale){.scale = (float)scale, .floor = (float)floor};
    return true;
}

static bool adjust3(Decoder *d, Err *err) {
    RopeSpec *r = &d->layer.rope_spec;
    if (!config_has(d->config, "rms_norm_eps")) d->eps = 1e-5f;
    if (!read_warmth(d, err)) return false;
    if (!d->config->gguf) return read_window(d, 0, err);
    r->mscale = 1; /* the key is mscale_all_dim itself, not a tenth of it as elsewhere */
    return llama_adjust(d, err) && config_float(d->config, ".rope.scaling.yarn_log_multiplier", 0,
                                                0, 1e6, &r->mscale_all_dim, err);
}

static bool layer3(const Decoder *d, int i, LayerSpec *l, Err *err) {
    return !d->config->gguf || llama_layer(d, i, l, err);
}

static const char *const IGNORED[] = {"*.rotary_emb.inv_freq", NULL};

const Arch ARCH_MINISTRAL = {
    .name = "ministral",
    .kind = "text",
    .model_types = (const char *const[]){"ministral", NULL},
    .hf_class = "MinistralForCausalLM",
    .sizes = {4096, 14336, 32, 32, 8, 131072},
    .rope_whole = true,
    .ignored = IGNORED,
    .adjust = adjust,
    .layer = layer,
};

const Arch ARCH_MINISTRAL3 = {
    .name = "ministral3",
    .kind = "text",
    .model_types = (const char *const[]){"ministral3", NULL},
    .hf_class = "Ministral3ForCausalLM",
    .gguf = (const char *const[]){"mistral3", NULL},
    .gguf_unpermute = true,
    .sizes = {4096, 14336, 34, 32, 8, 262144},
    .head_dim = 128,
    .rope_whole = true,
    .ignored = IGNORED,
    .adjust = adjust3,
    .layer = layer3,
};
