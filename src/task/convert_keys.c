/* The keys of a GGUF's model: what the config came to, in the names of that format. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/gguf_keys.h"
#include "task/convert_plan.h"

typedef struct Keys {
    const ConvertPlan *p;
    const Decoder *d;
    const LayerSpec *l; /* of the first layer */
    GgufOut *out;
    GgufKeys *g;
} Keys;

static const char *key(Keys *k, const char *rest) { return gguf_keys_name(k->g, rest); }
static void put_u32(Keys *k, const char *rest, uint32_t v) { gguf_keys_u32(k->g, rest, v); }
static void put_f32(Keys *k, const char *rest, double v) { gguf_keys_f32(k->g, rest, v); }
static void put_bool(Keys *k, const char *rest, bool v) { gguf_keys_bool(k->g, rest, v); }

static const LayerSpec *layer_with(const Keys *k, Mixer mixer) {
    for (uint32_t i = 0; i < k->d->n_layers; i++)
        if (k->p->arch.layers[i].mixer == mixer) return &k->p->arch.layers[i];
    return NULL;
}

/* Layers of these mixers are known to have no key heads; others go by rules of their own. */
static bool has_no_heads(const LayerSpec *l) {
    return l->mixer == MIXER_SHORTCONV || l->mixer == MIXER_MAMBA1 || l->mixer == MIXER_MAMBA2 ||
           (l->mixer == MIXER_DELTA && l->delta.form == DELTA_LOW_RANK);
}

/* One number, or one for each layer where they differ. */
static bool put_kv_heads(Keys *k, Err *err) {
    uint32_t n = k->d->n_layers;
    int32_t *heads = arena_array(k->p->a, int32_t, n);
    bool alike = true;
    if (!heads) return err_nomem(err, "GGUF keys");
    for (uint32_t i = 0; i < n; i++) {
        const LayerSpec *l = &k->p->arch.layers[i];
        heads[i] = has_no_heads(l) ? 0 : l->mixer == MIXER_MLA ? 1 : (int32_t)l->n_kv_heads;
        alike = alike && heads[i] == heads[0];
    }
    if (alike)
        put_u32(k, "attention.head_count_kv", (uint32_t)heads[0]);
    else
        gguf_write_i32s(k->out, key(k, "attention.head_count_kv"), heads, n);
    return true;
}

static void put_latents(Keys *k, const LayerSpec *l) {
    const MlaSpec *s = &l->mla;
    put_u32(k, "attention.key_length", s->rank + s->rope_dim);
    put_u32(k, "attention.value_length", s->rank);
    put_u32(k, "attention.key_length_mla", s->nope_dim + s->rope_dim);
    put_u32(k, "attention.value_length_mla", s->v_dim);
    put_u32(k, "attention.kv_lora_rank", s->rank);
    if (s->q_rank) put_u32(k, "attention.q_lora_rank", s->q_rank);
}

static bool put_chosen_keys(Keys *k, Err *err) {
    const LayerSpec *l = layer_with(k, MIXER_MLA);
    uint32_t n = k->d->n_layers;
    bool *chooses = arena_array(k->p->a, bool, n), shared = false;
    if (!chooses) return err_nomem(err, "GGUF keys");
    if (!l || !l->mla.index.n_heads) return true;
    put_u32(k, "attention.indexer.head_count", l->mla.index.n_heads);
    put_u32(k, "attention.indexer.key_length", l->mla.index.head_dim);
    put_u32(k, "attention.indexer.top_k", l->mla.index.k);
    for (uint32_t i = 0; i < n; i++) {
        chooses[i] = !k->p->arch.layers[i].mla.index.shared;
        shared = shared || !chooses[i];
    }
    if (shared) gguf_write_bools(k->out, key(k, "attention.indexer.types"), chooses, n);
    return true;
}

static bool put_heads(Keys *k, Err *err) {
    const LayerSpec *latent = layer_with(k, MIXER_MLA);
    if (k->d->arch->no_attn) {
        put_u32(k, "attention.head_count", 0);
        return true;
    }
    put_u32(k, "attention.head_count", k->l->n_heads);
    if (!put_kv_heads(k, err)) return false;
    if (latent) {
        put_latents(k, latent);
        return put_chosen_keys(k, err);
    }
    put_u32(k, "attention.key_length", k->l->head_dim);
    put_u32(k, "attention.value_length", k->l->v_dim);
    return true;
}

static bool put_shape(Keys *k, Err *err) {
    const LayerSpec *l = k->l;
    uint32_t width = k->d->arch->no_attn ? 0 : l->ffn_width > 1 ? l->ffn_width : l->moe.width;
    /* models without positions keep a round number */
    put_u32(k, "context_length", k->d->arch->no_attn ? 1 << 20 : k->d->max_positions);
    put_u32(k, "embedding_length", k->d->hidden);
    put_u32(k, "block_count", k->d->n_layers);
    put_u32(k, "feed_forward_length", width);
    put_f32(k, "attention.layer_norm_rms_epsilon", k->d->eps);
    put_u32(k, "vocab_size", k->d->vocab);
    return put_heads(k, err);
}

static void put_choice(Keys *k, const MoeSpec *m, bool latent) {
    static const uint32_t GATING[ROUTE_FN_COUNT] = {
        [ROUTE_SOFTMAX] = 1, [ROUTE_SIGMOID] = 2, [ROUTE_SQRT_SOFTPLUS] = 4};
    if (latent || m->fn != ROUTE_SOFTMAX) put_u32(k, "expert_gating_func", GATING[m->fn]);
    if (latent || m->scale != 1) put_f32(k, "expert_weights_scale", m->scale);
    put_bool(k, "expert_weights_norm", m->normalize);
    if (!m->n_groups) return;
    put_u32(k, "expert_group_count", m->n_groups);
    put_u32(k, "expert_group_used_count", m->k_groups);
}

static void put_experts(Keys *k) {
    bool latent = layer_with(k, MIXER_MLA) != NULL;
    for (uint32_t i = 0; i < k->d->n_layers; i++) {
        const MoeSpec *m = &k->p->arch.layers[i].moe;
        if (!m->n_experts) continue;
        put_u32(k, "expert_count", m->n_experts);
        put_u32(k, "expert_used_count", m->k);
        put_u32(k, "expert_feed_forward_length", m->width);
        put_choice(k, m, latent);
        if (m->limit > 0) put_f32(k, "swiglu_clamp_exp", m->limit);
        if (m->shared_switch) put_u32(k, "expert_shared_feed_forward_length", m->shared_width);
        if (m->shared_width && !m->shared_switch)
            put_u32(k, "expert_shared_count", m->shared_width / m->width);
        if (i || latent) put_u32(k, "leading_dense_block_count", i);
        return;
    }
}

static void put_mamba(Keys *k, const MambaSpec *s) {
    bool second = s->head_dim > 1;
    put_u32(k, "ssm.conv_kernel", s->kernel);
    put_u32(k, "ssm.inner_size", s->n_heads * s->head_dim);
    put_u32(k, "ssm.state_size", s->n_state);
    put_u32(k, "ssm.time_step_rank", second ? s->n_heads : s->rank);
    if (second)
        put_u32(k, "ssm.group_count", s->n_groups);
    else if (k->d->arch->no_attn)
        put_bool(k, "ssm.dt_b_c_rms", s->norms == MAMBA_BARE_NORMS);
}

/* Which layers are recurrent, in both of the ways that there are. */
static bool put_turns(Keys *k, Err *err) {
    uint32_t n = k->d->n_layers, interval = 0;
    bool *recurrent = arena_array(k->p->a, bool, n);
    if (!recurrent) return err_nomem(err, "GGUF keys");
    for (uint32_t i = 0; i < n; i++) {
        recurrent[i] = k->p->arch.layers[i].mixer == MIXER_DELTA;
        if (!recurrent[i] && !interval) interval = i + 1;
    }
    gguf_write_bools(k->out, key(k, "attention.recurrent_layers"), recurrent, n);
    put_u32(k, "full_attention_interval", interval ? interval : n + 1);
    return true;
}

static bool put_delta(Keys *k, const DeltaSpec *s, Err *err) {
    put_u32(k, "ssm.conv_kernel", s->kernel);
    if (s->form == DELTA_LOW_RANK) {
        put_u32(k, "kda.head_dim", s->k_dim);
        return true;
    }
    put_u32(k, "ssm.state_size", s->k_dim);
    put_u32(k, "ssm.group_count", s->n_k_heads);
    put_u32(k, "ssm.time_step_rank", s->n_heads);
    put_u32(k, "ssm.inner_size", s->n_heads * s->v_dim);
    return put_turns(k, err);
}

static bool put_recurrent(Keys *k, Err *err) {
    const LayerSpec *delta = layer_with(k, MIXER_DELTA), *conv = layer_with(k, MIXER_SHORTCONV);
    if (k->d->layer.mamba.kernel) put_mamba(k, &k->d->layer.mamba);
    if (conv) put_u32(k, "shortconv.l_cache", conv->conv.kernel);
    return !delta || put_delta(k, &delta->delta, err);
}

/* The window, and which layers have it. */
static bool put_windows(Keys *k, Err *err) {
    uint32_t n = k->d->n_layers, window = 0;
    bool *has = arena_array(k->p->a, bool, n);
    if (!has) return err_nomem(err, "GGUF keys");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = k->p->arch.layers[i].window;
        has[i] = w > 0;
        if (w && window && w != window)
            return err_set(err, ERR_UNSUPPORTED,
                           "layers with windows of %u and %u tokens; GGUF keeps one", window, w);
        if (w) window = w;
    }
    if (!window) return true;
    put_u32(k, "attention.sliding_window", window);
    gguf_write_bools(k->out, key(k, "attention.sliding_window_pattern"), has, n);
    return true;
}

static bool put_rope(Keys *k, Err *err) {
    const RopeSpec *r = &k->d->layer.rope_spec;
    float frequencies[ROPE_MAX_PAIRS], factor;
    if (k->d->arch->no_attn) return true;
    put_u32(k, "rope.dimension_count", r->rot_dim);
    if (r->sections[0] + r->sections[1] + r->sections[2]) {
        const int32_t sections[4] = {(int32_t)r->sections[0], (int32_t)r->sections[1],
                                     (int32_t)r->sections[2], (int32_t)r->sections[3]};
        gguf_write_i32s(k->out, key(k, "rope.dimension_sections"), sections, 4);
    }
    put_f32(k, "rope.freq_base", r->theta);
    for (uint32_t i = 0; i < k->d->n_layers; i++) {
        const LayerSpec *l = &k->p->arch.layers[i];
        if (l->rope_spec.theta == r->theta) continue;
        put_f32(k, "rope.freq_base_swa", l->rope_spec.theta);
        break;
    }
    rope_inv_freq(r, 0, frequencies, &factor);
    if (r->kind == ROPE_LINEAR || r->kind == ROPE_YARN) {
        gguf_write_str(k->out, key(k, "rope.scaling.type"),
                       r->kind == ROPE_YARN ? STR("yarn") : STR("linear"));
        put_f32(k, "rope.scaling.factor", r->factor);
        if (r->orig_context) put_u32(k, "rope.scaling.original_context_length", r->orig_context);
    }
    if (r->kind == ROPE_YARN) {
        put_f32(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
        put_f32(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
        if (r->mscale_all_dim > 0) { /* a tenth of it, but where queries grow warmer */
            bool whole = k->d->layer.warmth.scale != 0 && !layer_with(k, MIXER_MLA);
            put_f32(k, "rope.scaling.yarn_log_multiplier",
                    whole ? r->mscale_all_dim : 0.1 * r->mscale_all_dim);
            return true;
        }
        /* readers multiply their own rule's factor with it */
        double own = r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1;
        if (fabs(factor / own - 1) > 1e-6)
            return err_set(err, ERR_UNSUPPORTED,
                           "yarn with an attention factor of %g; GGUF has none but %g", factor,
                           own);
    }
    if (r->kind == ROPE_LONG) {
        put_u32(k, "rope.scaling.original_context_length", r->orig_context);
        put_f32(k, "rope.scaling.attn_factor", factor);
    }
    if (r->kind == ROPE_DYNAMIC)
        return err_set(err, ERR_UNSUPPORTED, "dynamic rope scaling has no GGUF form");
    return true;
}

/* Of queries, by position. */
static void put_warmth(Keys *k) {
    const OpPosScale *w = &k->d->layer.warmth;
    if (w->scale == 0) return;
    put_f32(k, "attention.temperature_scale", w->scale);
    if (layer_with(k, MIXER_MLA)) put_u32(k, "attention.temperature_length", (uint32_t)w->floor);
}

/* Towers of some wrappers give rows for the first layers too. */
static void put_deepstack(Keys *k) {
    const Config *c = &k->p->ck->config;
    const Json *vision = c->json ? json_get(c->json, "vision_config") : NULL;
    const Json *list =
        json_is(vision, JSON_OBJECT) ? json_get(vision, "deepstack_visual_indexes") : NULL;
    if (json_is(list, JSON_ARRAY) && list->n) put_u32(k, "n_deepstack_layers", (uint32_t)list->n);
}

static void put_scales(Keys *k) {
    if (k->l->attn_softcap != 0) put_f32(k, "attn_logit_softcapping", k->l->attn_softcap);
    if (k->d->logit_softcap != 0) put_f32(k, "final_logit_softcapping", k->d->logit_softcap);
}

static Str model_name(const ConvertPlan *p) {
    Str path = p->ck->dir;
    size_t slash = str_rfind(path, STR("/"));
    return slash == STR_NPOS ? path : str_from(path, slash + 1);
}

/* ---- encoders ---- */

static void put_pooling(Keys *k) {
    static const struct {
        const char *key;
        uint32_t type;
    } MODES[] = {{"pooling_mode_mean_tokens", 1},
                 {"pooling_mode_cls_token", 2},
                 {"pooling_mode_lasttoken", 3}};
    Buf text = {0};
    Json *doc;
    Err none = {0};
    bool is_there =
        checkpoint_read_file(k->p->ck, "1_Pooling/config.json", 1 << 20, &text, &none) &&
        json_parse(buf_str(&text), NULL, k->p->a, &doc, &none);
    for (size_t i = 0; is_there && i < sizeof MODES / sizeof *MODES; i++) {
        bool on = false;
        if (json_bool(json_get(doc, MODES[i].key), &on) && on)
            put_u32(k, "pooling_type", MODES[i].type);
    }
    buf_deinit(&text);
}

/* The config's names of labels, or numbered ones. */
static bool put_labels(Keys *k, Err *err) {
    uint32_t n = k->p->arch.n_labels;
    const Json *names = json_get(k->p->ck->config.json, "id2label");
    Str *labels = arena_array(k->p->a, Str, n + 1);
    char id[32];
    if (!labels) return err_nomem(err, "GGUF keys");
    for (uint32_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "LABEL_%u", i);
        const Json *name =
            json_is(names, JSON_OBJECT) ? json_get(names, id + strlen("LABEL_")) : NULL;
        if (!json_str(name, &labels[i])) labels[i] = arena_dup(k->p->a, str_c(id));
        if (!labels[i].p) return err_nomem(err, "GGUF keys");
    }
    if (n) gguf_write_strs(k->out, key(k, "classifier.output_labels"), labels, n);
    return true;
}

static bool put_encoder(Keys *k, Err *err) {
    const LayerSpec *l = &k->d->layer;
    put_u32(k, "context_length", (uint32_t)k->p->arch.context);
    put_u32(k, "embedding_length", k->d->hidden);
    put_u32(k, "block_count", k->d->n_layers);
    put_u32(k, "feed_forward_length", l->ffn_width);
    put_u32(k, "attention.head_count", l->n_heads);
    put_f32(k, "attention.layer_norm_epsilon", k->d->eps);
    put_bool(k, "attention.causal", false);
    put_u32(k, "vocab_size", k->d->vocab);
    if (k->p->arch.n_types)
        gguf_write_u32(k->out, "tokenizer.ggml.token_type_count", k->p->arch.n_types);
    put_pooling(k);
    return put_labels(k, err);
}

/* ---- families that build for themselves ---- */

static bool put_loner(Keys *k, Err *err) {
    const LayerSpec *l = &k->d->layer;
    Decoder d = *k->d; /* to read the config with once more */
    put_u32(k, "context_length", k->d->max_positions);
    put_u32(k, "embedding_length", k->d->hidden);
    put_u32(k, "block_count", k->d->n_layers);
    put_u32(k, "attention.head_count", l->n_heads);
    put_f32(k, "attention.layer_norm_rms_epsilon", k->d->eps);
    put_u32(k, "vocab_size", k->d->vocab);
    if (k->d->logit_softcap != 0) put_f32(k, "final_logit_softcapping", k->d->logit_softcap);
    return k->d->arch->gguf_keys(&d, k->g, err);
}

bool convert_keys(const ConvertPlan *p, GgufKeys *keys, Err *err) {
    GgufOut *out = keys->out;
    Keys k = {.p = p, .d = p->arch.resolved, .l = p->arch.layers, .out = out, .g = keys};
    gguf_write_str(out, "general.type", STR("model"));
    gguf_write_str(out, "general.name", model_name(p));
    gguf_write_u32(out, "general.quantization_version", 2);
    if (p->arch.both_ways && !p->arch.layers) return put_encoder(&k, err);
    if (!p->arch.layers) return put_loner(&k, err);
    for (uint32_t i = k.d->n_layers; i-- > 0;)
        if (k.p->arch.layers[i].mixer == MIXER_ATTN) k.l = &k.p->arch.layers[i];
    if (!put_shape(&k, err) || !put_recurrent(&k, err)) return false;
    put_experts(&k);
    put_scales(&k);
    put_warmth(&k);
    put_deepstack(&k);
    return put_windows(&k, err) && put_rope(&k, err);
}
