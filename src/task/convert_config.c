/* config.json for a model that came without one: what the keys of a GGUF came to, in Hugging Face's
 * spelling. Whether a reader makes the same program of it is for convert_check() to say. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/gguf.h"
#include "task/convert_plan.h"
#include "text/tokenizer.h"

typedef struct Out {
    const ConvertPlan *p;
    const Decoder *d;
    const LayerSpec *layers;
    uint32_t n;
    JsonWriter *w;
} Out;

static void put_int(const Out *o, const char *key, uint64_t v) {
    json_w_key(o->w, str_c(key));
    json_w_u64(o->w, v);
}

static void put_float(const Out *o, const char *key, double v) {
    json_w_key(o->w, str_c(key));
    json_w_f32(o->w, (float)v);
}

static void put_bool(const Out *o, const char *key, bool v) {
    json_w_key(o->w, str_c(key));
    json_w_bool(o->w, v);
}

static void put_str(const Out *o, const char *key, const char *v) {
    json_w_key(o->w, str_c(key));
    json_w_str(o->w, str_c(v));
}

static void put_floats(const Out *o, const char *key, const double *v, uint32_t n) {
    json_w_key(o->w, str_c(key));
    json_w_array(o->w);
    for (uint32_t i = 0; i < n; i++) json_w_f32(o->w, (float)v[i]);
    json_w_end(o->w);
}

static const char *config_act(Act a) {
    return a == ACT_GELU        ? "gelu"
           : a == ACT_GELU_TANH ? "gelu_pytorch_tanh"
           : a == ACT_RELU      ? "relu"
           : a == ACT_RELU2     ? "relu2"
                                : "silu"; /* also where a family has one of its own */
}

static const MoeSpec *experts(const Out *o) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->layers[i].moe.n_experts) return &o->layers[i].moe;
    return NULL;
}

static void put_shape(const Out *o) {
    const LayerSpec *l = &o->layers[0];
    const MoeSpec *m = experts(o);
    const Decoder *d = o->d;
    put_int(o, "vocab_size", d->vocab);
    put_int(o, "hidden_size", d->hidden);
    put_int(o, "num_hidden_layers", o->n);
    put_int(o, "intermediate_size", d->layer.ffn_width > 1 || !m ? d->layer.ffn_width : m->width);
    put_int(o, "num_attention_heads", l->n_heads);
    put_int(o, "num_key_value_heads", l->n_kv_heads);
    put_int(o, "head_dim", l->head_dim);
    put_int(o, "max_position_embeddings", d->max_positions);
    put_float(o, "rms_norm_eps", d->eps);
    put_str(o, "hidden_act", config_act(l->act));
    put_str(o, "hidden_activation", config_act(l->act));
    put_bool(o, "attention_bias", l->o_bias);
    put_bool(o, "qkv_bias", l->qkv_bias);
    put_bool(o, "mlp_bias", l->mlp_bias);
    put_bool(o, "tie_word_embeddings", d->tied);
}

/* Widths under both of the names that families use; layers without experts by number. */
static void put_experts(const Out *o) {
    const MoeSpec *m = experts(o);
    if (!m) return;
    put_int(o, "num_experts", m->n_experts);
    put_int(o, "num_local_experts", m->n_experts);
    put_int(o, "num_experts_per_tok", m->k);
    put_int(o, "moe_intermediate_size", m->width);
    if (m->shared_width) put_int(o, "shared_expert_intermediate_size", m->shared_width);
    put_bool(o, "norm_topk_prob", m->normalize);
    if (m->limit > 0) put_float(o, "swiglu_limit", m->limit);
    put_int(o, "decoder_sparse_step", 1);
    json_w_key(o->w, STR("mlp_only_layers"));
    json_w_array(o->w);
    for (uint32_t i = 0; i < o->n; i++)
        if (!o->layers[i].moe.n_experts) json_w_u64(o->w, i);
    json_w_end(o->w);
}

/* Every how many layers the one without a window stands; 0: not so regular. */
static uint32_t window_period(const Out *o) {
    for (uint32_t k = 1; k <= o->n; k++) {
        bool fits = true;
        for (uint32_t i = 0; fits && i < o->n; i++)
            fits = ((i + 1) % k != 0) == (o->layers[i].window > 0);
        if (fits) return k;
    }
    return 0;
}

/* Null is not absence: to some families an absent key means a window of their own. */
static bool put_windows(const Out *o, Err *err) {
    uint32_t window = 0, n_windowed = 0, period = window_period(o);
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t w = o->layers[i].window;
        if (w && window && w != window)
            return err_set(err, ERR_UNSUPPORTED, "layers with windows of %u and %u tokens", window,
                           w);
        if (w) window = w;
        n_windowed += w > 0;
    }
    put_bool(o, "use_sliding_window", window > 0);
    json_w_key(o->w, STR("sliding_window"));
    if (!window) {
        json_w_null(o->w);
        return true;
    }
    json_w_u64(o->w, window);
    put_int(o, "max_window_layers", 0);
    if (n_windowed == o->n) return true; /* a list must not be all alike for some readers */
    if (period) put_int(o, "sliding_window_pattern", period);
    json_w_key(o->w, STR("layer_types"));
    json_w_array(o->w);
    for (uint32_t i = 0; i < o->n; i++)
        json_w_str(o->w, o->layers[i].window ? STR("sliding_attention") : STR("full_attention"));
    json_w_end(o->w);
    return true;
}

/* Divisors of Llama 3's kind (1, then a line in the frequency, then the factor) as its four numbers.
 * They may all be scaled alike: low_freq_factor is 1. */
static void put_llama3(const Out *o, const RopeSpec *r) {
    uint32_t n = r->rot_dim / 2, n_between = 0;
    double most = 1, turns[2] = {0}, share[2] = {0}, low_turns = 0, high_turns = 0;
    for (uint32_t i = 0; i < n; i++) most = fmax(most, r->short_factor[i]);
    for (uint32_t i = 0; i < n; i++) {
        double t = pow(r->theta, -2.0 * i / r->freq_dim) / (2 * M_PI), f = r->short_factor[i];
        if (f <= 1 + 1e-6) {
            high_turns = t; /* the last that stands */
        } else if (f >= most * (1 - 1e-6)) {
            low_turns = fmax(low_turns, t);
        } else { /* the two ends of the line */
            turns[n_between > 0] = t;
            share[n_between++ > 0] = (1 / f - 1 / most) / (1 - 1 / most);
        }
    }
    double high = 4, context = 8192;
    if (n_between >= 2) {
        double slope = (share[0] - share[1]) / (turns[0] - turns[1]);
        high = 1 - 1 / (share[0] - slope * turns[0]);
        context = slope * (high - 1);
    } else if (n_between == 1) {
        context = (share[0] * (high - 1) + 1) / turns[0];
    } else { /* anything between */
        if (low_turns > 0 && context * low_turns > 1) context = 1 / low_turns;
        if (high_turns > 0 && context * high_turns < high) context = high / high_turns;
    }
    /* original lengths and factors are round numbers, stored as floats */
    if (fabs(high / round(high) - 1) < 1e-3) high = round(high);
    put_str(o, "rope_type", "llama3");
    put_float(o, "factor", most);
    put_float(o, "low_freq_factor", 1);
    put_float(o, "high_freq_factor", high);
    put_int(o, "original_max_position_embeddings", (uint64_t)llround(context));
}

static void put_scaling(const Out *o, const RopeSpec *r) {
    bool is_llama3 = r->kind == ROPE_PLAIN && r->short_factor;
    if (r->kind == ROPE_PLAIN && !is_llama3) return;
    json_w_key(o->w, STR("rope_scaling"));
    json_w_object(o->w);
    if (is_llama3) {
        put_llama3(o, r);
        json_w_end(o->w);
        return;
    }
    const char *type = r->kind == ROPE_YARN ? "yarn" : r->kind == ROPE_LONG ? "longrope" : "linear";
    put_str(o, "type", type);
    put_str(o, "rope_type", type);
    if (r->factor > 0) put_float(o, "factor", r->factor);
    if (r->orig_context && r->kind != ROPE_LINEAR)
        put_int(o, "original_max_position_embeddings", r->orig_context);
    if (r->attn_factor > 0) put_float(o, "attention_factor", r->attn_factor);
    if (r->kind == ROPE_YARN) {
        put_float(o, "beta_fast", r->beta_fast);
        put_float(o, "beta_slow", r->beta_slow);
        if (r->mscale > 0) put_float(o, "mscale", r->mscale);
        if (r->mscale_all_dim > 0) put_float(o, "mscale_all_dim", r->mscale_all_dim);
        put_bool(o, "truncate", r->truncate);
    }
    if (r->kind == ROPE_LONG) {
        put_floats(o, "short_factor", r->short_factor, r->rot_dim / 2);
        put_floats(o, "long_factor", r->long_factor, r->rot_dim / 2);
    }
    json_w_end(o->w);
}

static void put_rope(const Out *o) {
    const RopeSpec *r = &o->d->layer.rope_spec;
    put_float(o, "rope_theta", r->theta);
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->layers[i].rope_spec.theta == r->theta) continue;
        put_float(o, "rope_local_base_freq", o->layers[i].rope_spec.theta);
        break;
    }
    if (r->rot_dim != o->d->layer.head_dim)
        put_float(o, "partial_rotary_factor", (double)r->rot_dim / o->d->layer.head_dim);
    if (r->kind == ROPE_LONG) put_int(o, "original_max_position_embeddings", r->orig_context);
    put_scaling(o, r);
}

/* Readers that check types want a fraction. */
static void put_cap(const Out *o, const char *key, float cap) {
    Buf text = {0};
    json_w_key(o->w, str_c(key));
    buf_putf(&text, cap == roundf(cap) ? "%.1f" : "%.9g", (double)cap);
    cap != 0 ? json_w_raw(o->w, buf_str(&text)) : json_w_null(o->w);
    buf_deinit(&text);
}

static void put_scales(const Out *o) {
    const LayerSpec *l = &o->layers[0];
    double scalar = 1 / ((double)l->attn_scale * l->attn_scale);
    if (fabs(scalar - round(scalar)) < 1e-3) scalar = round(scalar);
    put_float(o, "query_pre_attn_scalar", scalar);
    put_cap(o, "attn_logit_softcapping", l->attn_softcap);
    put_cap(o, "final_logit_softcapping", o->d->logit_softcap);
}

void convert_token_ids(const ConvertPlan *p, const Tokenizer *t, JsonWriter *w) {
    static const struct {
        const char *key;
        TokRole role;
    } ROLES[] = {{"bos_token_id", TOK_BOS}, {"pad_token_id", TOK_PAD}};
    for (size_t i = 0; i < 2; i++) {
        int64_t id = -1;
        Err ignored = {0};
        if (t && tokenizer_role(t, ROLES[i].role) != TOK_NONE)
            id = tokenizer_role(t, ROLES[i].role);
        else if (!config_int(&p->ck->config, ROLES[i].key, -1, -1, UINT32_MAX, &id, &ignored))
            id = -1;
        bool is_pad = ROLES[i].role == TOK_PAD; /* families have one of their own, if not told */
        if (id < 0 && !is_pad) continue;
        json_w_key(w, str_c(ROLES[i].key));
        id < 0 ? json_w_null(w) : json_w_i64(w, id);
    }
    int64_t said = TOK_NONE;
    Err none = {0};
    if (!t && !config_int(&p->ck->config, "eos_token_id", TOK_NONE, 0, TOK_NONE, &said, &none))
        said = TOK_NONE;
    uint32_t eos = t ? tokenizer_role(t, TOK_EOS) : (uint32_t)said;
    size_t n = t ? tokenizer_n_vocab(t) : 0, n_more = 0;
    if (n > p->arch.vocab) n = p->arch.vocab;
    for (size_t id = 0; id < n; id++) n_more += id != eos && tokenizer_is_eog(t, (uint32_t)id);
    if (eos == TOK_NONE && !n_more) return;
    json_w_key(w, STR("eos_token_id"));
    if (eos != TOK_NONE && !n_more) {
        json_w_u64(w, eos);
        return;
    }
    json_w_array(w);
    if (eos != TOK_NONE) json_w_u64(w, eos);
    for (size_t id = 0; id < n; id++)
        if (id != eos && tokenizer_is_eog(t, (uint32_t)id)) json_w_u64(w, id);
    json_w_end(w);
}

static const GgufValue *labels_of(const Out *o) {
    const Config *c = &o->p->ck->config;
    Buf name = {0};
    buf_put(&name, c->model_type);
    buf_put(&name, STR(".classifier.output_labels"));
    const GgufValue *v = name.failed ? NULL : gguf_find(c->gguf, buf_str(&name));
    buf_deinit(&name);
    return v;
}

static void put_encoder(const Out *o) {
    const LayerSpec *l = &o->d->layer;
    put_int(o, "vocab_size", o->d->vocab);
    put_int(o, "hidden_size", o->d->hidden);
    put_int(o, "num_hidden_layers", o->n);
    put_int(o, "num_attention_heads", l->n_heads);
    put_int(o, "intermediate_size", l->ffn_width);
    put_int(o, "max_position_embeddings", o->d->max_positions);
    put_int(o, "type_vocab_size", o->p->arch.n_types);
    put_float(o, "layer_norm_eps", o->d->eps);
    put_str(o, "hidden_act", config_act(l->act));
    const uint32_t n = o->p->arch.n_labels;
    const GgufValue *names = n ? labels_of(o) : NULL;
    const Str *labels = NULL;
    size_t n_named = 0;
    Err ignored = {0};
    if (names && !gguf_strs(names, o->p->a, &labels, &n_named, &ignored)) n_named = 0;
    if (n) {
        json_w_key(o->w, STR("id2label"));
        json_w_object(o->w);
    }
    for (uint32_t i = 0; i < n; i++) {
        char id[32];
        snprintf(id, sizeof id, "LABEL_%u", i);
        json_w_key(o->w, str_c(id + strlen("LABEL_")));
        json_w_str(o->w, i < n_named ? labels[i] : str_c(id));
    }
    if (n) json_w_end(o->w);
}

bool convert_config(const ConvertPlan *p, const Tokenizer *t, const Arch *family, JsonWriter *w,
                    Err *err) {
    const Out o = {p, p->arch.resolved, p->arch.layers, p->arch.n_layers, w};
    if (p->arch.n_labels ? family->hf_labels : family->hf_class) {
        json_w_key(w, STR("architectures"));
        json_w_array(w);
        json_w_str(w, str_c(p->arch.n_labels ? family->hf_labels : family->hf_class));
        json_w_end(w);
    }
    put_str(&o, "model_type", family->model_types[0]);
    DType dtype = p->o->dtype != DTYPE_NONE ? p->o->dtype : p->decoded;
    if (!o.layers) {
        put_encoder(&o);
        convert_token_ids(p, t, w);
        put_str(&o, "torch_dtype", convert_dtype_name(dtype));
        return true;
    }
    put_shape(&o);
    put_experts(&o);
    if (!put_windows(&o, err)) return false;
    put_rope(&o);
    put_scales(&o);
    convert_token_ids(p, t, w);
    put_str(&o, "torch_dtype", convert_dtype_name(dtype));
    return true;
}
