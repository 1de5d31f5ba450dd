/* DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention with a rotated part, dense first layers, then
 * experts chosen from the best groups beside shared ones. V2 weighs by softmax and goes by each
 * group's best expert, V3 by sigmoid with a bias for the choice and each group's two best. */
#include "arch/deepseek.h"

#include <math.h>

/* YaRN's second factor goes on the scores, once for queries and once for keys. */
static double score_factor(const RopeSpec *r) {
    if (r->kind != ROPE_YARN || r->mscale_all_dim == 0 || r->factor <= 1) return 1;
    double m = 0.1 * r->mscale_all_dim * log(r->factor) + 1;
    return m * m;
}

/* GGUF files say every size. */
static int64_t size(const Config *c, uint32_t dflt) { return c->gguf ? CONFIG_REQUIRED : dflt; }

/* What GGUF files say, or show, in another way. */
static bool gguf_adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    double warmth;
    int64_t floor = 1;
    if (!config_float(d->config, ".attention.temperature_scale", 0, 0, 1e6, &warmth, err) ||
        (warmth > 0 && !config_int(d->config, ".attention.temperature_length", CONFIG_REQUIRED, 1,
                                   UINT32_MAX, &floor, err)))
        return false;
    l->warmth = (OpPosScale){.scale = (float)warmth, .floor = (float)floor}; /* Mistral Large 3 */
    /* the share that rope's columns are of the head is of no use here */
    l->rope_spec.rot_dim = l->rope_spec.freq_dim = l->mla.rope_dim / 2 * 2;
    l->qkv_bias = weights_has(d->weights, ROLE_MLA_KV_DOWN, 0, ".bias");
    return true;
}

bool deepseek_adjust(Decoder *d, const DeepseekDefaults *dflt, Err *err) {
    const Config *c = d->config;
    LayerSpec *l = &d->layer;
    MlaSpec *s = &l->mla;
    if (!config_u32(c, "qk_nope_head_dim", size(c, dflt->nope_dim), 1, 1024, &s->nope_dim, err) ||
        !config_u32(c, "qk_rope_head_dim", size(c, 64), 2, 1024, &s->rope_dim, err) ||
        !config_u32(c, "v_head_dim", size(c, dflt->v_dim), 1, 1024, &s->v_dim, err) ||
        !config_u32(c, "kv_lora_rank", size(c, 512), 1, 4096, &s->rank, err) ||
        !config_u32(c, "q_lora_rank", dflt->q_rank, 1, 1 << 16, &s->q_rank, err))
        return false;
    /* null and absent look the same: the tensors tell */
    if (weights_has(d->weights, ROLE_Q, 0, ".weight")) s->q_rank = 0;
    s->norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    l->mixer = MIXER_MLA;
    if (!rope_config_read(c, d->arena, s->rope_dim, 10000, 1, &l->rope_spec, err) ||
        !config_bool(c, "rope_interleave", true, &l->rope_interleaved, err))
        return false;
    l->attn_scale = (float)(score_factor(&l->rope_spec) / sqrt((double)s->nope_dim + s->rope_dim));
    if (c->gguf) return gguf_adjust(d, err);
    return config_bool(c, "attention_bias", false, &l->qkv_bias, err);
}

/* How experts are scored and whether groups of them come first. GGUF files name the function only, and
 * have groups where there are several; the bias is there or not. */
static bool read_choice(const Decoder *d, const DeepseekDefaults *dflt, int i, MoeSpec *m,
                        Err *err) {
    const Config *c = d->config;
    bool v2 = dflt->v2;
    Str method, score;
    const char *all = v2 ? "greedy" : "noaux_tc", *fn = v2 ? "softmax" : "sigmoid";
    m->fn = v2 ? ROUTE_SOFTMAX : ROUTE_SIGMOID;
    m->select_bias = c->gguf ? weights_has(d->weights, ROLE_SELECT_BIAS, i, ".bias") : !v2;
    m->group_top = v2 ? 1 : 2;
    m->n_groups = m->k_groups = 1;
    if (!config_str(c, "topk_method", all, &method, err) ||
        !config_str(c, "scoring_func", fn, &score, err))
        return false;
    bool limited = c->gguf || str_eqc(method, v2 ? "group_limited_greedy" : "noaux_tc");
    if (!limited && !(v2 && str_eqc(method, "greedy")))
        return err_set(err, ERR_UNSUPPORTED, "topk_method is \"" STR_F "\"; %s accepted",
                       STR_A(method), v2 ? "greedy and group_limited_greedy are" : "noaux_tc is");
    if (!str_eqc(score, fn))
        return err_set(err, ERR_UNSUPPORTED, "scoring_func is \"" STR_F "\"; %s is accepted",
                       STR_A(score), fn);
    if (!limited) return true;
    if (!config_u32(c, "n_group", c->gguf ? 1 : dflt->n_groups, 1, m->n_experts, &m->n_groups, err))
        return false;
    int64_t k_groups = !c->gguf ? dflt->k_groups : m->n_groups > 1 ? CONFIG_REQUIRED : 1;
    return config_u32(c, "topk_group", k_groups, 1, m->n_groups, &m->k_groups, err);
}

static bool read_moe(const Decoder *d, const DeepseekDefaults *dflt, int i, MoeSpec *m, Err *err) {
    const Config *c = d->config;
    double scale;
    uint32_t n_shared;
    *m = (MoeSpec){0};
    if (!config_u32(c, "n_routed_experts", CONFIG_REQUIRED, 1, ROUTE_MAX_EXPERTS, &m->n_experts,
                    err) ||
        !config_u32(c, "num_experts_per_tok", CONFIG_REQUIRED, 1,
                    m->n_experts < ROUTE_MAX_K ? m->n_experts : ROUTE_MAX_K, &m->k, err) ||
        !config_u32(c, "moe_intermediate_size", CONFIG_REQUIRED, 1, 1 << 20, &m->width, err) ||
        !config_u32(c, "n_shared_experts", 0, 0, 64, &n_shared, err) ||
        !config_float(c, "routed_scaling_factor", dflt->v2 || c->gguf ? 1 : 2.5, 0, 1e6, &scale,
                      err) ||
        !read_choice(d, dflt, i, m, err))
        return false;
    if (m->n_experts % m->n_groups)
        return err_set(err, ERR_INPUT, "%u experts do not divide over %u groups", m->n_experts,
                       m->n_groups);
    if (m->k > m->k_groups * (m->n_experts / m->n_groups))
        return err_set(err, ERR_INPUT, "num_experts_per_tok %u of %u groups with %u experts each",
                       m->k, m->k_groups, m->n_experts / m->n_groups);
    m->scale = (float)scale;
    m->shared_width = n_shared * m->width;
    /* V2's own code has no renormalising, whatever norm_topk_prob says */
    if (dflt->v2 && !c->gguf) return true;
    return config_bool(c, "norm_topk_prob", !c->gguf, &m->normalize, err);
}

bool deepseek_layer(const Decoder *d, const DeepseekDefaults *dflt, int i, LayerSpec *l, Err *err) {
    int64_t first, step, dense = dflt->v2 || d->config->gguf ? 0 : 3;
    bool sparse;
    if (!config_int(d->config, "first_k_dense_replace", dense, 0, INT32_MAX, &first, err) ||
        !config_int(d->config, "moe_layer_freq", 1, 1, INT32_MAX, &step, err) ||
        !decoder_layer_sparse(d, i, i >= first && i % step == 0, &sparse, err))
        return false;
    return !sparse || read_moe(d, dflt, i, &l->moe, err);
}

/* One GGUF architecture for both: V3 has sigmoids, or where no key says it a bias. */
static bool gguf_is_v2(const Decoder *d) {
    Str score;
    Err err = {0};
    bool has_bias = false;
    for (uint32_t i = 0; i < d->n_layers && !has_bias; i++)
        has_bias = weights_has(d->weights, ROLE_SELECT_BIAS, (int)i, ".bias");
    return config_str(d->config, "scoring_func", has_bias ? "sigmoid" : "softmax", &score, &err) &&
           str_eqc(score, "softmax");
}

static const DeepseekDefaults *defaults(const Decoder *d) {
    static const DeepseekDefaults V2 = {
        .v2 = true, .nope_dim = 128, .v_dim = 128, .q_rank = 1536, .n_groups = 1, .k_groups = 1};
    bool v2 = d->config->gguf ? gguf_is_v2(d) : str_eqc(d->config->model_type, "deepseek_v2");
    return v2 ? &V2 : &DEEPSEEK_V3;
}

static bool adjust(Decoder *d, Err *err) { return deepseek_adjust(d, defaults(d), err); }

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    return deepseek_layer(d, defaults(d), i, l, err);
}

const DeepseekDefaults DEEPSEEK_V3 = {
    .nope_dim = 128, .v_dim = 128, .q_rank = 1536, .n_groups = 8, .k_groups = 4};

const RoleDelta DEEPSEEK_NAMES[] = {
    {ROLE_SHARED_GATE, {"layers.%d.mlp.shared_experts.gate_proj", "blk.%d.ffn_gate_shexp"}},
    {ROLE_SHARED_UP, {"layers.%d.mlp.shared_experts.up_proj", "blk.%d.ffn_up_shexp"}},
    {ROLE_SHARED_DOWN, {"layers.%d.mlp.shared_experts.down_proj", "blk.%d.ffn_down_shexp"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_DEEPSEEK = {
    .name = "deepseek",
    .kind = "text",
    .model_types = (const char *const[]){"deepseek_v2", "deepseek_v3", NULL},
    .hf_class = "DeepseekV2ForCausalLM",
    .gguf = (const char *const[]){"deepseek2", NULL},
    .names = DEEPSEEK_NAMES,
    .mlx_joint_kv = "deepseek_v2",
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 64,
    .adjust = adjust,
    .layer = layer,
};
