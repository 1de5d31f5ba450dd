/* What a decoder's config says: sizes, heads, the defaults of all layers, experts, rope, context. */
#include "arch/decoder_config.h"

#include <math.h>

enum { MAX_LAYERS = 1024, MAX_WIDTH = 1 << 20, MAX_HEADS = 1024, MAX_HEAD_DIM = 1024 };

bool act_parse(Str name, Act *out, Err *err) {
    static const struct {
        const char *name;
        Act act;
    } ACTS[] = {
        {"silu", ACT_SILU},
        {"swish", ACT_SILU},
        {"gelu", ACT_GELU},
        {"gelu_new", ACT_GELU_TANH},
        {"gelu_pytorch_tanh", ACT_GELU_TANH},
        {"gelu_fast", ACT_GELU_TANH},
        {"relu", ACT_RELU},
        {"relu2", ACT_RELU2},
        {"quick_gelu", ACT_QUICK_GELU},
    };
    for (size_t i = 0; i < sizeof ACTS / sizeof *ACTS; i++) {
        if (!str_eqc(name, ACTS[i].name)) continue;
        *out = ACTS[i].act;
        return true;
    }
    return err_set(err, ERR_UNSUPPORTED, "activation \"" STR_F "\" is not known", STR_A(name));
}

bool decoder_layer_type(const Decoder *d, int i, const char *kind, bool fallback, bool *out,
                        Err *err) {
    const Str *types;
    const int64_t *pattern;
    size_t n;
    /* GGUF: a flag for each layer, or how many layers there are to one without a window */
    if (str_eqc(str_c(kind), "sliding_attention") && d->config->gguf) {
        if (!config_ints(d->config, ".attention.sliding_window_pattern", d->arena, &pattern, &n,
                         err))
            return false;
        if (n > 1 && n != d->n_layers)
            return err_set(err, ERR_INPUT, "sliding_window_pattern has %zu entries for %u layers",
                           n, d->n_layers);
        if (n > 1) fallback = pattern[i] != 0;
        if (n == 1 && pattern[0] > 0) fallback = (i + 1) % pattern[0] != 0;
        *out = fallback;
        return true;
    }
    if (!config_strs(d->config, "layer_types", d->arena, &types, &n, err)) return false;
    if (n && n != d->n_layers)
        return err_set(err, ERR_INPUT, "layer_types has %zu entries for %u layers", n, d->n_layers);
    *out = n ? str_eqc(types[i], kind) : fallback;
    return true;
}

bool decoder_layer_sparse(const Decoder *d, int i, bool fallback, bool *out, Err *err) {
    const Str *types;
    size_t n;
    if (!config_strs(d->config, "mlp_layer_types", d->arena, &types, &n, err)) return false;
    if (n && n != d->n_layers)
        return err_set(err, ERR_INPUT, "mlp_layer_types has %zu entries for %u layers", n,
                       d->n_layers);
    *out = n ? str_eqc(types[i], "sparse") : fallback;
    if (n && !*out && !str_eqc(types[i], "dense"))
        return err_set(err, ERR_INPUT,
                       "mlp_layer_types has \"" STR_F "\"; dense and sparse are accepted",
                       STR_A(types[i]));
    return true;
}

uint32_t decoder_gguf_scalar(const Decoder *d) {
    uint32_t wide = d->arch->gguf_wide_layers;
    return wide && d->n_layers == wide ? d->hidden / d->layer.n_heads : d->layer.head_dim;
}

bool decoder_kv_heads(const Decoder *d, int i, uint32_t dflt, uint32_t *out, Err *err) {
    const int64_t *v;
    size_t n;
    if (!config_ints(d->config, "num_key_value_heads", d->arena, &v, &n, err)) return false;
    if (n > 1 && n != d->n_layers)
        return err_set(err, ERR_INPUT, "num_key_value_heads has %zu entries for %u layers", n,
                       d->n_layers);
    *out = n ? 0 : dflt;
    for (size_t k = 0; k < n; k++) {
        if (v[k] < (n == 1) || v[k] > MAX_HEADS)
            return err_set(err, ERR_INPUT, "num_key_value_heads is %lld, accepted: 1 to %d",
                           (long long)v[k], MAX_HEADS);
        bool counts = n == 1 || (i < 0 ? v[k] > *out : (size_t)i == k);
        if (counts) *out = (uint32_t)v[k];
    }
    return true;
}

/* As a default: only the text sections of wrappers leave sizes out. */
static int64_t size_or_required(const Decoder *d, uint32_t size) {
    return size && d->config->parent ? (int64_t)size : CONFIG_REQUIRED;
}

static bool attn_defaults(Decoder *d, Err *err) {
    const Config *c = d->config;
    LayerSpec *l = &d->layer;
    const ArchSizes *s = &d->arch->sizes;
    if (!config_u32(c, "num_attention_heads", size_or_required(d, s->heads), 1, MAX_HEADS,
                    &l->n_heads, err))
        return false;
    uint32_t dflt = c->parent && s->kv_heads ? s->kv_heads : l->n_heads;
    if (!decoder_kv_heads(d, -1, dflt, &l->n_kv_heads, err)) return false;
    if (!l->n_kv_heads || l->n_heads % l->n_kv_heads)
        return err_set(err, ERR_INPUT, "%u attention heads do not divide over %u key/value heads",
                       l->n_heads, l->n_kv_heads);
    uint32_t head_dim = c->json && d->arch->head_dim ? d->arch->head_dim : d->hidden / l->n_heads;
    if (!config_has(c, "head_dim") && head_dim == d->hidden / l->n_heads && d->hidden % l->n_heads)
        return err_set(err, ERR_INPUT,
                       "hidden_size %u does not divide over %u heads, and there is no head_dim",
                       d->hidden, l->n_heads);
    if (!config_u32(c, "head_dim", head_dim ? head_dim : 1, 1, MAX_HEAD_DIM, &l->head_dim, err))
        return false;
    l->v_dim = l->head_dim;
    l->rope = true;
    l->attn_scale = (float)(1 / sqrt((double)l->head_dim));
    return rope_config_read(c, d->arena, l->head_dim,
                            d->arch->rope_theta > 0 ? d->arch->rope_theta : 10000,
                            d->arch->rope_whole       ? ROPE_WHOLE
                            : d->arch->rope_share > 0 ? d->arch->rope_share
                                                      : 1,
                            &l->rope_spec, err);
}

static bool layer_defaults(Decoder *d, Err *err) {
    const Config *c = d->config;
    LayerSpec *l = &d->layer;
    Str act;
    const int64_t *widths; /* several: one for each layer, and the family reads them */
    size_t n_widths = 0;
    bool may_vary = c->json || d->arch->build;
    if (may_vary && !config_ints(c, "intermediate_size", d->arena, &widths, &n_widths, err))
        return false;
    int64_t dflt = d->arch->no_dense ? 1 : size_or_required(d, d->arch->sizes.ffn);
    if (n_widths < 2 && !config_u32(c, "intermediate_size", dflt, 1, MAX_WIDTH, &l->ffn_width, err))
        return false;
    if (!config_str(c, "hidden_act|hidden_activation", "silu", &act, err) ||
        !act_parse(act, &l->act, err))
        return false;
    l->gated = true;
    l->residual_scale = 1;
    return d->arch->no_attn || attn_defaults(d, err);
}

bool decoder_read(Decoder *d, Err *err) {
    const Config *c = d->config;
    double eps;
    const ArchSizes *s = &d->arch->sizes;
    uint32_t rows = weights_rows(d->weights, ROLE_EMBED, -1),
             context = s->context && c->parent ? s->context : 2048;
    if (!config_u32(c, "hidden_size", size_or_required(d, s->hidden), 1, MAX_WIDTH, &d->hidden,
                    err) ||
        !config_u32(c, "num_hidden_layers", size_or_required(d, s->layers), 1, MAX_LAYERS,
                    &d->n_layers, err) ||
        !config_u32(c, "vocab_size",
                    rows && (c->gguf || c->parent) ? (int64_t)rows : CONFIG_REQUIRED, 1, INT32_MAX,
                    &d->vocab, err) ||
        !config_u32(c, "max_position_embeddings", context, 1, INT32_MAX, &d->max_positions, err))
        return false;
    if (!config_float(c, "rms_norm_eps|layer_norm_eps|norm_eps|layer_norm_epsilon", 1e-6, 0, 1,
                      &eps, err))
        return false;
    d->eps = (float)eps;
    d->embed_scale = d->logit_scale = 1;
    bool has_head = weights_has(d->weights, ROLE_HEAD, -1, ".weight");
    /* wrappers may say it for their text model */
    const Config *tie = c->parent && !config_has(c, "tie_word_embeddings") ? c->parent : c;
    if (!config_bool(tie, "tie_word_embeddings", c->gguf ? !has_head : false, &d->tied, err))
        return false;
    return layer_defaults(d, err);
}

bool decoder_attn_bias(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    if (!config_bool(d->config, "attention_bias", false, &l->qkv_bias, err)) return false;
    l->o_bias = l->qkv_bias;
    return true;
}

bool decoder_moe(const Decoder *d, const char *width_key, bool normalize, MoeSpec *out, Err *err) {
    const Config *c = d->config;
    *out = (MoeSpec){.fn = ROUTE_SOFTMAX, .scale = 1};
    if (!config_u32(c, "num_experts|num_local_experts", CONFIG_REQUIRED, 1, ROUTE_MAX_EXPERTS,
                    &out->n_experts, err))
        return false;
    if (!config_u32(c, "num_experts_per_tok", CONFIG_REQUIRED, 1, ROUTE_MAX_K, &out->k, err))
        return false;
    if (out->k > out->n_experts)
        return err_set(err, ERR_INPUT, "num_experts_per_tok is %u of %u experts", out->k,
                       out->n_experts);
    if (!config_u32(c, width_key, CONFIG_REQUIRED, 1, MAX_WIDTH, &out->width, err)) return false;
    return config_bool(c, "norm_topk_prob", normalize, &out->normalize, err);
}

/* Divisors of the rope frequencies that a GGUF keeps as a tensor; false on values that cannot
 * be. */
static bool rope_divisors(Decoder *d, Role role, const double **out, Err *err) {
    uint32_t n = d->layer.rope_spec.rot_dim / 2;
    *out = weights_values(d->weights, role, -1, ".weight", n);
    for (uint32_t i = 0; *out && i < n; i++)
        if (!((*out)[i] > 0)) return err_set(err, ERR_CORRUPT, "rope factor %u is not above 0", i);
    return true;
}

bool decoder_rope_tensors(Decoder *d, Err *err) {
    RopeSpec *r = &d->layer.rope_spec;
    if (d->config->gguf == NULL || d->arch->no_attn) return true;
    if (weights_has(d->weights, ROLE_ROPE_FREQS, -1, ".weight"))
        return rope_divisors(d, ROLE_ROPE_FREQS, &r->short_factor, err);
    if (!weights_has(d->weights, ROLE_ROPE_LONG, -1, ".weight")) return true;
    int64_t original;
    r->kind = ROPE_LONG;
    r->max_context = d->max_positions;
    if (!config_int(d->config, "original_max_position_embeddings", d->max_positions, 1, UINT32_MAX,
                    &original, err))
        return false;
    r->orig_context = (uint32_t)original;
    return rope_divisors(d, ROLE_ROPE_LONG, &r->long_factor, err) &&
           rope_divisors(d, ROLE_ROPE_SHORT, &r->short_factor, err);
}

/* Rule 7: what max_position_embeddings counts depends on the kind of scaling. */
uint64_t decoder_context(const Decoder *d) {
    const RopeSpec *r = &d->layer.rope_spec;
    bool endless = d->arch->endless || d->arch->no_attn;
    if (r->kind == ROPE_DYNAMIC) return 0;
    if (endless && !config_has(d->config, "max_position_embeddings")) return 0;
    bool counts_original = (r->kind == ROPE_LINEAR && !d->arch->positions_extended) ||
                           (r->kind == ROPE_YARN && r->orig_context == d->max_positions);
    double extended = counts_original ? d->max_positions * r->factor : d->max_positions;
    return extended < 1 ? 1 : extended > UINT32_MAX ? UINT32_MAX : (uint64_t)extended;
}
