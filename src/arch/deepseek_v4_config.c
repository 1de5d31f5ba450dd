/* DeepSeek-V4's config in the spellings of releases (compress_ratios, num_hash_layers, one rope_scaling
 * for the layers that compress) and of the library (layer_types, mlp_layer_types, ropes by name). */
#include "arch/deepseek_v4.h"

#include <stdio.h>

#include "ckpt/gguf.h"

static const char *const KINDS[V4_KIND_COUNT] = {"sliding_attention", "compressed_sparse_attention",
                                                 "heavily_compressed_attention"};
static const int64_t RATIOS[V4_KIND_COUNT] = {0, 4, 128};

/* GGUF files say everything. */
static int64_t need(const Config *c, int64_t dflt) { return c->gguf ? CONFIG_REQUIRED : dflt; }
static double need_f(const Config *c, double dflt) { return c->gguf ? CONFIG_REQUIRED_F : dflt; }

enum { V4_MAX_NEXT = 8 };

/* Some GGUF files tell of layers of prediction that they neither have nor count. */
static bool count_layers(Decoder *d, Err *err) {
    int64_t next;
    char name[64];
    if (!d->config->gguf) return true;
    if (!config_int(d->config, "num_nextn_predict_layers", 0, 0, V4_MAX_NEXT, &next, err))
        return false;
    snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", d->n_layers);
    if (next && !gguf_tensor(d->config->gguf, str_c(name))) d->n_layers += (uint32_t)next;
    return true;
}

/* An entry of a list that may be longer: releases count the layers of prediction too. */
static bool long_enough(const Decoder *d, const char *key, size_t n, Err *err) {
    return n >= d->n_layers ||
           err_set(err, ERR_INPUT, "%s has %zu entries for %u layers", key, n, d->n_layers);
}

static bool read_kinds(Decoder *d, V4Layer *layers, Err *err) {
    const Str *types;
    const int64_t *ratios;
    size_t n_types, n;
    if (!config_strs(d->config, "layer_types", d->arena, &types, &n_types, err) ||
        !config_ints(d->config, "compress_ratios", d->arena, &ratios, &n, err))
        return false;
    if (n_types && !long_enough(d, "layer_types", n_types, err)) return false;
    if (!n_types && (n || d->config->gguf) && !long_enough(d, "compress_ratios", n, err))
        return false;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        int k = 0;
        if (n_types) {
            while (k < V4_KIND_COUNT && !str_eqc(types[i], KINDS[k])) k++;
            if (k == V4_KIND_COUNT)
                return err_set(err, ERR_INPUT,
                               "layer_types has \"" STR_F "\"; %s, %s and %s are accepted",
                               STR_A(types[i]), KINDS[0], KINDS[1], KINDS[2]);
        } else if (n) {
            while (k < V4_KIND_COUNT && ratios[i] != RATIOS[k]) k++;
            if (k == V4_KIND_COUNT)
                return err_set(err, ERR_INPUT,
                               "compress_ratios has %lld; 0, 4 and 128 are accepted",
                               (long long)ratios[i]);
        } else {
            k = i > 1 && i % 2 ? V4_SPARSE : V4_HEAVY;
        }
        layers[i].kind = (V4Kind)k;
    }
    return true;
}

static bool read_by_token(Decoder *d, V4Layer *layers, Err *err) {
    const Str *types;
    size_t n;
    int64_t first;
    if (!config_strs(d->config, "mlp_layer_types", d->arena, &types, &n, err) ||
        !config_int(d->config, "num_hash_layers", need(d->config, 3), 0, INT32_MAX, &first, err))
        return false;
    if (n && !long_enough(d, "mlp_layer_types", n, err)) return false;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        layers[i].by_token = n ? str_eqc(types[i], "hash_moe") : i < first;
        if (n && !layers[i].by_token && !str_eqc(types[i], "moe"))
            return err_set(err, ERR_INPUT,
                           "mlp_layer_types has \"" STR_F "\"; hash_moe and moe are accepted",
                           STR_A(types[i]));
    }
    return true;
}

static bool read_rates(const Config *c, uint32_t *rate, Err *err) {
    static const char *const KEYS[V4_KIND_COUNT] = {NULL, "compress_rate_csa", "compress_rate_hca"};
    Config s;
    Err bad = {0};
    bool has = config_section(c, "compress_rates", &s, &bad);
    if (bad.kind) return *err = bad, false;
    for (int k = V4_SPARSE; k < V4_KIND_COUNT; k++) {
        int64_t dflt = RATIOS[k];
        if (has && !config_int(&s, KINDS[k], dflt, 1, COMPRESS_MAX_RATE, &dflt, err)) return false;
        if (!config_u32(c, KEYS[k], dflt, 1, COMPRESS_MAX_RATE, &rate[k], err)) return false;
    }
    return true;
}

/* By name, or one for the layers that compress beside a plain one of another base. There, unless the
 * config says otherwise, yarn leaves cosines and sines as they are. */
static bool read_ropes(Decoder *d, RopeSpec *rope, Err *err) {
    const Config *c = d->config;
    uint32_t dim = d->layer.head_dim, turned;
    double theta, far_theta, share;
    Config all, main, far;
    Err bad = {0};
    if (!config_u32(c, "qk_rope_head_dim", need(c, dim >= 8 ? dim / 8 : dim), 1, dim, &turned,
                    err) ||
        !config_float(c, "partial_rotary_factor", (double)turned / dim, 1e-6, 1, &share, err) ||
        !config_float(c, "rope_theta", 10000, 1e-3, 1e30, &theta, err) ||
        !config_float(c, "compress_rope_theta", need_f(c, 160000), 1e-3, 1e30, &far_theta, err))
        return false;
    bool named = config_section(c, "rope_parameters", &all, &bad) &&
                 config_section(&all, "main", &main, &bad) &&
                 config_section(&all, "compress", &far, &bad);
    if (bad.kind) return *err = bad, false;
    if (named)
        return rope_config_section(c, &main, d->arena, dim, theta, share, &rope[0], err) &&
               rope_config_section(c, &far, d->arena, dim, far_theta, share, &rope[1], err);
    if (!rope_config_read(c, d->arena, dim, theta, share, &rope[1], err)) return false;
    if (c->gguf) rope[1].rot_dim = rope[1].freq_dim = turned / 2 * 2; /* a share may round */
    rope[1].theta = far_theta;
    if (rope[1].kind == ROPE_YARN && rope[1].attn_factor == 0) rope[1].attn_factor = 1;
    rope[0] = (RopeSpec){.kind = ROPE_PLAIN,
                         .factor = 1,
                         .theta = theta,
                         .rot_dim = rope[1].rot_dim,
                         .freq_dim = rope[1].freq_dim};
    return true;
}

static bool read_moe(const Config *c, MoeSpec *m, Err *err) {
    Str fn;
    double scale, limit = 0; /* of GGUF files: read_limits() */
    *m = (MoeSpec){.normalize = true, .n_groups = 1};
    if (!config_u32(c, "n_routed_experts|num_local_experts", need(c, 256), 1, ROUTE_MAX_EXPERTS,
                    &m->n_experts, err) ||
        !config_u32(c, "num_experts_per_tok", need(c, 6), 1,
                    m->n_experts < ROUTE_MAX_K ? m->n_experts : ROUTE_MAX_K, &m->k, err) ||
        !config_u32(c, "moe_intermediate_size|intermediate_size", 2048, 1, 1 << 20, &m->width,
                    err) ||
        !config_u32(c, "n_shared_experts", need(c, 1), 1, 1, &m->shared_width, err) ||
        !config_float(c, "routed_scaling_factor", need_f(c, 1.5), 0, 1e6, &scale, err) ||
        (!c->gguf && !config_float(c, "swiglu_limit", 10, 1e-6, 1e9, &limit, err)) ||
        !config_str(c, "scoring_func", c->gguf ? NULL : "sqrtsoftplus", &fn, err) ||
        (c->gguf && !config_bool(c, "norm_topk_prob", true, &m->normalize, err)))
        return false;
    m->fn = str_eqc(fn, "sigmoid")   ? ROUTE_SIGMOID
            : str_eqc(fn, "softmax") ? ROUTE_SOFTMAX
                                     : ROUTE_SQRT_SOFTPLUS;
    if (m->fn == ROUTE_SQRT_SOFTPLUS && !str_eqc(fn, "sqrtsoftplus"))
        return err_set(err, ERR_UNSUPPORTED,
                       "scoring_func is \"" STR_F
                       "\"; sqrtsoftplus, sigmoid and softmax are accepted",
                       STR_A(fn));
    m->scale = (float)scale;
    m->limit = (float)limit;
    m->shared_width *= m->width;
    return true;
}

/* GGUF files have one limit for each layer, and may have others for the shared experts; 0: none. */
static bool read_limits(const Decoder *d, const MoeSpec *m, V4Layer *layers, Err *err) {
    static const char *const KEYS[2] = {"swiglu_limit", "swiglu_limit_shared"};
    const double *limits[2] = {NULL, NULL};
    size_t n[2];
    for (int k = 0; k < 2 && d->config->gguf; k++) {
        if (!config_floats(d->config, KEYS[k], d->arena, &limits[k], &n[k], err)) return false;
        if ((n[k] > 1 || !k) && n[k] != 1 && !long_enough(d, KEYS[k], n[k], err)) return false;
        for (size_t i = 0; i < n[k] && i < d->n_layers; i++)
            if (!(limits[k][i] >= 0 && limits[k][i] <= 1e9))
                return err_set(err, ERR_INPUT, "%s has %g; 0 to 1e9 are accepted", KEYS[k],
                               limits[k][i]);
    }
    for (uint32_t i = 0; i < d->n_layers; i++) {
        layers[i].limit = limits[0] ? (float)limits[0][n[0] > 1 ? i : 0] : m->limit;
        layers[i].shared_limit = limits[1] ? (float)limits[1][n[1] > 1 ? i : 0] : layers[i].limit;
    }
    return true;
}

static bool read_index(const Config *c, const RopeSpec *rope, IndexSpec *s, Err *err) {
    return config_u32(c, "index_n_heads", need(c, 64), 1, 1024, &s->n_heads, err) &&
           config_u32(c, "index_head_dim", need(c, 128), rope->rot_dim, PICK_MAX_COLS, &s->head_dim,
                      err) &&
           config_u32(c, "index_topk", need(c, 512), 1, PICK_MAX_KEYS, &s->k, err);
}

bool v4_config_read(Decoder *d, V4Net *out, Err *err) {
    const Config *c = d->config;
    double eps;
    if (!count_layers(d, err)) return false;
    V4Layer *layers = arena_array(d->arena, V4Layer, d->n_layers);
    if (!layers) return err_nomem(err, "model description");
    *out = (V4Net){.d = d, .layers = layers};
    if (!read_kinds(d, layers, err) || !read_by_token(d, layers, err) ||
        !read_rates(c, out->rate, err) || !read_ropes(d, out->rope, err) ||
        !read_moe(c, &out->moe, err) || !read_limits(d, &out->moe, layers, err) ||
        !read_index(c, &out->rope[1], &out->index, err))
        return false;
    if (!config_u32(c, "sliding_window", need(c, 128), 1, INT32_MAX, &out->window, err) ||
        !config_u32(c, "q_lora_rank", need(c, 1024), 1, 1 << 16, &out->q_rank, err) ||
        !config_u32(c, "o_groups", need(c, 8), 1, d->layer.n_heads, &out->o_groups, err) ||
        !config_u32(c, "o_lora_rank", need(c, 1024), 1, 1 << 16, &out->o_rank, err) ||
        !config_u32(c, "hc_mult", need(c, 4), 1, SINKHORN_MAX_N, &out->n_streams, err) ||
        !config_u32(c, "hc_sinkhorn_iters", need(c, 20), 1, 1000, &out->stream_times, err) ||
        !config_float(c, "hc_eps", need_f(c, 1e-6), 0, 1, &eps, err))
        return false;
    out->stream_eps = (float)eps;
    if (d->layer.n_heads * d->layer.head_dim % out->o_groups)
        return err_set(err, ERR_INPUT, "%u heads of %u columns do not divide over o_groups %u",
                       d->layer.n_heads, d->layer.head_dim, out->o_groups);
    d->layer.rope_spec = out->rope[1]; /* how far the context reaches */
    return true;
}
