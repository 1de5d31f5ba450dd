/* Falcon H1 (Zuo et al. 2025): attention and a state space mixer side by side in every layer, their
 * results added; factors at the ends of nearly every projection. MLX and GGUF files have most of
 * the factors in their weights already. */
#include "arch/mamba.h"
#include "arch/mixer.h"
#include "arch/take.h"

typedef struct Factors {
    float attn_in, attn_out, key, ssm_in, ssm_out, gate, down;
    float parts[5]; /* of the mixer's input: z, x, B, C, dt */
} Factors;

/* MLX turns the convolution's weights over when it multiplies the factors in. */
static bool is_folded(const Decoder *d) {
    return d->config->gguf || weights_last(d->weights, ROLE_MAMBA_CONV, 0, ".weight") == 1;
}

static bool factor(const Config *c, const char *key, float *out, Err *err) {
    double v;
    if (!config_float(c, key, 1, -1e6, 1e6, &v, err)) return false;
    *out = (float)v;
    return true;
}

static bool factor_list(const Decoder *d, const char *key, size_t want, float *out, Err *err) {
    const double *v;
    size_t n;
    if (!config_floats(d->config, key, d->arena, &v, &n, err)) return false;
    if (n && n != want)
        return err_set(err, ERR_INPUT, "%s has %zu entries, accepted: %zu", key, n, want);
    for (size_t i = 0; i < want; i++) out[i] = n ? (float)v[i] : 1;
    return true;
}

static bool read_factors(const Decoder *d, Factors *f, Err *err) {
    const Config *c = d->config;
    float mlp[2];
    *f = (Factors){1, 1, 1, 1, 1, 1, 1, {1, 1, 1, 1, 1}};
    if (is_folded(d)) return true;
    if (!factor(c, "attention_in_multiplier", &f->attn_in, err) ||
        !factor(c, "attention_out_multiplier", &f->attn_out, err) ||
        !factor(c, "key_multiplier", &f->key, err) ||
        !factor(c, "ssm_in_multiplier", &f->ssm_in, err) ||
        !factor(c, "ssm_out_multiplier", &f->ssm_out, err) ||
        !factor_list(d, "mlp_multipliers", 2, mlp, err) ||
        !factor_list(d, "ssm_multipliers", 5, f->parts, err))
        return false;
    f->gate = mlp[0];
    f->down = mlp[1];
    return true;
}

static bool adjust(Decoder *d, Err *err) {
    const Config *c = d->config;
    LayerSpec *l = &d->layer;
    Factors f;
    bool normed;
    if (!config_has(c, "rms_norm_eps")) d->eps = 1e-5f;
    l->mamba = (MambaSpec){.n_heads = 128, .n_state = 256, .n_groups = 1, .kernel = 4};
    if (!mamba2_config(d, &l->mamba, err) || !read_factors(d, &f, err)) return false;
    l->attn_scale *= f.key; /* turning a key does not change its length */
    if (!config_bool(c, "mamba_rms_norm", false, &normed, err) ||
        !config_bool(c, "mamba_norm_before_gate", true, &l->mamba.norm_first, err) ||
        !config_bool(c, "projectors_bias", false, &l->mamba.out_bias, err) ||
        !decoder_attn_bias(d, err) || !config_bool(c, "mlp_bias", false, &l->mlp_bias, err))
        return false;
    if (c->gguf) normed = weights_has(d->weights, ROLE_MAMBA_NORM, 0, ".weight");
    if (c->gguf) l->mamba.norm_first = false;
    if (normed) l->mamba.norms = MAMBA_NORMS;
    if (c->gguf) return true;
    float embed, head;
    if (!factor(c, "embedding_multiplier", &embed, err) ||
        !factor(c, "lm_head_multiplier", &head, err))
        return false;
    if (!is_folded(d)) d->embed_scale = embed;
    if (!is_folded(d)) d->logit_scale = head;
    if (is_folded(d) && d->tied) d->logit_scale = head / embed;
    return true;
}

static Val scaled(Decoder *d, Val x, float by) { return by == 1 ? x : prog_scale(d->b, x, by); }

static Val feed_forward(Decoder *d, const LayerSpec *l, const Factors *f, Val h, int i) {
    FfnBlock p = mixer_ffn_take(d, l, i);
    p.gate_scale = f->gate;
    return block_ffn(d->b, &p, h, i);
}

static Val side_by_side(Decoder *d, const LayerSpec *l, const Factors *f, Val h, int i) {
    Mamba2Block p = mixer_mamba2_take(d, l, i);
    p.factors = f->parts;
    Val attn = mixer_attn(d, l, scaled(d, h, f->attn_in), i);
    Val ssm = block_mamba2(d->b, &p, scaled(d, h, f->ssm_in), i);
    return prog_add(d->b, scaled(d, attn, f->attn_out), ssm, f->ssm_out);
}

/* GGUF files have this norm's weight under the bare name. */
static Val ffn_norm(Decoder *d, Val x, int i) {
    bool bare = weights_has(d->weights, ROLE_FFN_NORM, i, "");
    WeightId w = arch_take_vector(d, ROLE_FFN_NORM, i, bare ? "" : ".weight", d->hidden);
    return prog_rms_norm(d->b, x, w, 0, d->eps, d->norm_add);
}

static Val body(Decoder *d, const LayerSpec *l, Val x, int i) {
    Factors f;
    Err err = {0};
    if (!read_factors(d, &f, &err)) return VAL_NONE; /* adjust() has reported it */
    Val h = mixer_norm(d, x, ROLE_ATTN_NORM, i);
    x = prog_add(d->b, x, side_by_side(d, l, &f, h, i), 1);
    prog_probe(d->b, x, "layers.%d.mid", i);
    h = feed_forward(d, l, &f, ffn_norm(d, x, i), i);
    return prog_probe(d->b, prog_add(d->b, x, h, f.down), "layers.%d.out", i);
}

/* Biases stand behind what is multiplied in front of their matrix. */
static float own_factor(const Factors *f, float embed, float head, Role role, bool bias) {
    switch (role) {
    case ROLE_EMBED:
        return embed;
    case ROLE_HEAD:
        return head;
    case ROLE_Q:
    case ROLE_V:
        return bias ? 1 : f->attn_in;
    case ROLE_K:
        return (bias ? 1 : f->attn_in) * f->key;
    case ROLE_O:
        return f->attn_out;
    case ROLE_GATE:
        return f->gate;
    case ROLE_DOWN:
        return f->down;
    case ROLE_MAMBA_OUT:
        return f->ssm_out;
    default:
        return 1;
    }
}

static bool fold(const Decoder *d, const WeightOrigin *o, float *factors, uint32_t n, Err *err) {
    const MambaSpec *s = &d->layer.mamba;
    uint32_t inner = s->n_heads * s->head_dim, state = s->n_groups * s->n_state;
    const uint32_t ends[5] = {inner, 2 * inner, 2 * inner + state, 2 * inner + 2 * state, n};
    bool bias = !str_ends(str_c(o->suffix), STR("weight"));
    float embed = 1, head = 1;
    Factors f;
    if (!read_factors(d, &f, err)) return false;
    if (!is_folded(d) && (!factor(d->config, "embedding_multiplier", &embed, err) ||
                          !factor(d->config, "lm_head_multiplier", &head, err)))
        return false;
    for (uint32_t i = 0, part = 0; i < n; i++) {
        factors[i] = own_factor(&f, embed, head, o->role, bias);
        if (o->role != ROLE_MAMBA_IN) continue;
        while (part < 4 && i >= ends[part]) part++;
        factors[i] = (bias ? 1 : f.ssm_in) * f.parts[part];
    }
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_FINAL_NORM, {"final_layernorm", "output_norm"}},
    {ROLE_FFN_NORM, {"layers.%d.pre_ff_layernorm", "blk.%d.ffn_norm"}},
    {ROLE_GATE, {"layers.%d.feed_forward.gate_proj", "blk.%d.ffn_gate"}},
    {ROLE_UP, {"layers.%d.feed_forward.up_proj", "blk.%d.ffn_up"}},
    {ROLE_DOWN, {"layers.%d.feed_forward.down_proj", "blk.%d.ffn_down"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_FALCON_H1 = {
    .name = "falcon_h1",
    .kind = "text",
    .model_types = (const char *const[]){"falcon_h1", NULL},
    .hf_class = "FalconH1ForCausalLM",
    .gguf = (const char *const[]){"falcon-h1", NULL},
    .names = NAMES,
    .fold = fold,
    .rope_whole = true,
    .gguf_bare_ffn_norm = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", "*.mup_vector", NULL},
    .adjust = adjust,
    .body = body,
};
