/* The keys of a GGUF's model: what the config came to, in the names of that format. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "task/convert_plan.h"

typedef struct Keys {
    const ConvertPlan *p;
    const Decoder *d;
    const LayerSpec *l; /* of the first layer */
    const char *arch;
    GgufOut *out;
    char name[128];
} Keys;

static const char *key(Keys *k, const char *rest) {
    snprintf(k->name, sizeof k->name, "%s.%s", k->arch, rest);
    return k->name;
}

static void put_u32(Keys *k, const char *rest, uint32_t v) {
    gguf_write_u32(k->out, key(k, rest), v);
}

static void put_f32(Keys *k, const char *rest, double v) {
    gguf_write_f32(k->out, key(k, rest), (float)v);
}

static void put_shape(Keys *k) {
    const LayerSpec *l = k->l;
    put_u32(k, "context_length", k->d->max_positions);
    put_u32(k, "embedding_length", k->d->hidden);
    put_u32(k, "block_count", k->d->n_layers);
    put_u32(k, "feed_forward_length", l->ffn_width > 1 ? l->ffn_width : l->moe.width);
    put_u32(k, "attention.head_count", l->n_heads);
    put_u32(k, "attention.head_count_kv", l->n_kv_heads);
    put_u32(k, "attention.key_length", l->head_dim);
    put_u32(k, "attention.value_length", l->v_dim);
    put_f32(k, "attention.layer_norm_rms_epsilon", k->d->eps);
    put_u32(k, "vocab_size", k->d->vocab);
}

static void put_experts(Keys *k) {
    for (uint32_t i = 0; i < k->d->n_layers; i++) {
        const MoeSpec *m = &k->p->arch.layers[i].moe;
        if (!m->n_experts) continue;
        put_u32(k, "expert_count", m->n_experts);
        put_u32(k, "expert_used_count", m->k);
        put_u32(k, "expert_feed_forward_length", m->width);
        gguf_write_bool(k->out, key(k, "expert_weights_norm"), m->normalize);
        if (m->limit > 0) put_f32(k, "swiglu_clamp_exp", m->limit);
        if (m->shared_width) put_u32(k, "expert_shared_feed_forward_length", m->shared_width);
        return;
    }
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
    put_u32(k, "rope.dimension_count", r->rot_dim);
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

static void put_scales(Keys *k) {
    if (k->l->attn_softcap != 0) put_f32(k, "attn_logit_softcapping", k->l->attn_softcap);
    if (k->d->logit_softcap != 0) put_f32(k, "final_logit_softcapping", k->d->logit_softcap);
}

static Str model_name(const ConvertPlan *p) {
    Str path = p->ck->dir;
    size_t slash = str_rfind(path, STR("/"));
    return slash == STR_NPOS ? path : str_from(path, slash + 1);
}

bool convert_keys(const ConvertPlan *p, const char *arch, GgufOut *out, Err *err) {
    Keys k = {.p = p, .d = p->arch.resolved, .l = p->arch.layers, .arch = arch, .out = out};
    gguf_write_str(out, "general.type", STR("model"));
    gguf_write_str(out, "general.name", model_name(p));
    gguf_write_u32(out, "general.quantization_version", 2);
    put_shape(&k);
    put_experts(&k);
    put_scales(&k);
    return put_windows(&k, err) && put_rope(&k, err);
}
