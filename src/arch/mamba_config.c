#include <math.h>

#include "arch/mamba.h"

enum { MAX_INNER = 1 << 20, MAX_SSM_HEADS = 1 << 16, MAX_STATE = 1 << 30 };

/* A key that is not there, or "auto", leaves *v as it is. */
static bool read_dim(const Config *c, const char *key, uint32_t max, uint32_t *v, Err *err) {
    const Json *j = c->json ? json_get(c->json, key) : NULL;
    int64_t n;
    if (json_is(j, JSON_STRING) && str_eqc(j->text, "auto")) return true;
    if (!config_int(c, key, *v, *v ? 1 : 0, max, &n, err)) return false;
    *v = (uint32_t)n;
    return true;
}

/* The inner width by the config's expansion of the hidden size. */
static bool read_inner(const Decoder *d, uint32_t *inner, Err *err) {
    const Config *c = d->config;
    double expand;
    if (c->gguf) return config_u32(c, ".ssm.inner_size", CONFIG_REQUIRED, 1, MAX_INNER, inner, err);
    /* the families of this alone have it as a key too, which then holds */
    if (d->arch->no_attn && config_has(c, "intermediate_size"))
        return config_u32(c, "intermediate_size", CONFIG_REQUIRED, 1, MAX_INNER, inner, err);
    if (!config_float(c, "mamba_expand|expand", 2, 1e-3, 1024, &expand, err)) return false;
    double wide = expand * (double)d->hidden;
    if (!(wide >= 1 && wide <= MAX_INNER))
        return err_set(err, ERR_INPUT, "expand is %g of %u columns, accepted: 1 to %d columns",
                       expand, d->hidden, MAX_INNER);
    *inner = (uint32_t)wide;
    return true;
}

static bool read_shared(const Decoder *d, MambaSpec *s, Err *err) {
    const Config *c = d->config;
    int64_t kernel, n_state;
    bool bias;
    if (!config_int(c, "mamba_d_conv|conv_kernel", s->kernel, 2, CONV_MAX_KERNEL, &kernel, err) ||
        !config_int(c, "mamba_d_state|ssm_state_size|state_size", s->n_state, 1, 1 << 16, &n_state,
                    err) ||
        !config_bool(c, "mamba_conv_bias|use_conv_bias", true, &s->conv_bias, err) ||
        !config_bool(c, "mamba_proj_bias|use_bias", false, &bias, err))
        return false;
    s->kernel = (uint32_t)kernel;
    s->n_state = (uint32_t)n_state;
    s->in_bias = s->out_bias = bias;
    s->norm_eps = d->eps;
    s->act = d->layer.act;
    s->dt_min = 0;
    s->dt_max = INFINITY;
    return true;
}

/* Products of these are sizes of tensors and states. */
static bool sizes_fit(const MambaSpec *s, Err *err) {
    uint64_t inner = (uint64_t)s->n_heads * s->head_dim, bc = (uint64_t)s->n_groups * s->n_state;
    if (!inner || inner > MAX_INNER)
        return err_set(err, ERR_INPUT,
                       "%u heads of %u columns in a mixer, accepted: 1 to %d columns", s->n_heads,
                       s->head_dim, MAX_INNER);
    if (bc > MAX_INNER || inner * s->n_state > MAX_STATE)
        return err_set(err, ERR_INPUT,
                       "a state of %u for each of %llu columns, in %u groups, is too large",
                       s->n_state, (unsigned long long)inner, s->n_groups);
    return true;
}

bool mamba1_config(const Decoder *d, MambaSpec *s, Err *err) {
    if (!read_shared(d, s, err)) return false;
    if (!read_inner(d, &s->n_heads, err)) return false;
    s->head_dim = s->n_groups = 1;
    s->rank = (d->hidden + 15) / 16;
    const char *key = config_has(d->config, "mamba_dt_rank") ? "mamba_dt_rank" : "time_step_rank";
    return read_dim(d->config, key, MAX_INNER, &s->rank, err) && sizes_fit(s, err);
}

static bool read_limit(const Config *c, MambaSpec *s, Err *err) {
    const Json *list = c->json ? json_get(c->json, "time_step_limit") : NULL;
    double v[2] = {0, INFINITY};
    if (!list || json_is(list, JSON_NULL)) return true;
    bool ok = json_is(list, JSON_ARRAY) && list->n == 2;
    for (uint32_t i = 0; ok && i < 2; i++) {
        const Json *j = json_at(list, i);
        if (json_is(j, JSON_OBJECT)) j = json_get(j, "__float__"); /* {"__float__": "Infinity"} */
        if (j && (json_is(j, JSON_NUMBER) || json_is(j, JSON_STRING)) &&
            str_eqc(j->text, "Infinity"))
            v[i] = INFINITY;
        else
            ok = json_f64(j, &v[i]);
    }
    if (!ok || !(v[0] >= 0 && v[0] <= v[1]) || isinf(v[0]))
        return err_set(err, ERR_INPUT,
                       "time_step_limit must be two numbers from 0 up, the lower one first");
    s->dt_min = (float)v[0];
    s->dt_max = (float)v[1];
    return true;
}

bool mamba2_config(const Decoder *d, MambaSpec *s, Err *err) {
    const Config *c = d->config;
    const char *heads = config_has(c, "mamba_n_heads")     ? "mamba_n_heads"
                        : config_has(c, "mamba_num_heads") ? "mamba_num_heads"
                                                           : "num_heads";
    const char *head_dim = config_has(c, "mamba_d_head")     ? "mamba_d_head"
                           : config_has(c, "mamba_head_dim") ? "mamba_head_dim"
                                                             : "head_dim";
    const char *groups = config_has(c, "mamba_n_groups") ? "mamba_n_groups" : "n_groups";
    uint32_t inner = 0;
    if (!read_shared(d, s, err) || !read_limit(c, s, err)) return false;
    if (!read_dim(c, heads, MAX_SSM_HEADS, &s->n_heads, err)) return false;
    if (!read_dim(c, groups, MAX_SSM_HEADS, &s->n_groups, err)) return false;
    if (c->gguf) s->head_dim = 0;
    if (!c->gguf && !read_dim(c, head_dim, MAX_INNER, &s->head_dim, err)) return false;
    if (!s->head_dim) {
        if (!read_inner(d, &inner, err)) return false;
        if (!c->gguf && !read_dim(c, "mamba_d_ssm", MAX_INNER, &inner, err)) return false;
        if (inner % s->n_heads)
            return err_set(err, ERR_INPUT, "%u inner columns do not divide over %u heads", inner,
                           s->n_heads);
        s->head_dim = inner / s->n_heads;
    }
    if (s->n_heads % s->n_groups)
        return err_set(err, ERR_INPUT, "%u heads do not divide over %u groups", s->n_heads,
                       s->n_groups);
    return sizes_fit(s, err);
}
