/* The rope of a config: every spelling that checkpoints use. Formulas: op/rope.c. */
#include <math.h>

#include "arch/arch.h"

typedef struct KindName {
    const char *name;
    RopeKind kind;
} KindName;

static const KindName KINDS[] = {
    {"default", ROPE_PLAIN},      {"none", ROPE_PLAIN}, {"linear", ROPE_LINEAR},
    {"dynamic", ROPE_DYNAMIC},    {"yarn", ROPE_YARN},  {"llama3", ROPE_LLAMA3},
    {"longrope", ROPE_LONG},      {"su", ROPE_LONG},    {"mrope", ROPE_PLAIN},
    {"proportional", ROPE_PLAIN},
};

static bool kind_parse(Str name, RopeKind *out, Err *err) {
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (!str_eqc(name, KINDS[i].name)) continue;
        *out = KINDS[i].kind;
        return true;
    }
    return err_set(
        err, ERR_UNSUPPORTED,
        "rope_scaling type \"" STR_F
        "\"; default, linear, dynamic, yarn, llama3, longrope, mrope and proportional are "
        "accepted",
        STR_A(name));
}

#define NUM(key, dflt, min, max, field)                                                            \
    if (!config_float(s, key, dflt, min, max, &out->field, err)) return false

static bool read_yarn(const Config *s, RopeSpec *out, Err *err) {
    NUM("beta_fast", 32, 1e-6, 1e9, beta_fast);
    NUM("beta_slow", 1, 1e-6, 1e9, beta_slow);
    NUM("mscale", 0, 0, 1e6, mscale);
    NUM("mscale_all_dim", 0, 0, 1e6, mscale_all_dim);
    return config_bool(s, "truncate", true, &out->truncate, err);
}

static bool read_long(const Config *s, Arena *a, RopeSpec *out, Err *err) {
    size_t n_short, n_long;
    if (s->gguf) return true; /* tensors there: decoder.c reads them */
    if (!config_floats(s, "short_factor", a, &out->short_factor, &n_short, err)) return false;
    if (!config_floats(s, "long_factor", a, &out->long_factor, &n_long, err)) return false;
    if (n_short != out->rot_dim / 2 || n_long != out->rot_dim / 2)
        return err_set(err, ERR_INPUT,
                       "rope_scaling has %zu short and %zu long factors, %u of each are needed",
                       n_short, n_long, out->rot_dim / 2);
    for (uint32_t i = 0; i < out->rot_dim / 2; i++)
        if (!(out->short_factor[i] > 0) || !(out->long_factor[i] > 0))
            return err_set(err, ERR_INPUT, "rope_scaling factor %u is not above 0", i);
    return true;
}

/* M-RoPE (Wang et al. 2024, Qwen2-VL section 2.1): which pairs follow which coordinate. It goes with
 * every kind of frequencies; "mrope" is the old name of plain ones with sections. Interleaved
 * sections take what they find, so their sum may be another than the pairs there are; GGUF has no
 * key that says interleaved: the family sets it, or asks for the sum. s: the section, or a GGUF's root. */
static bool read_sections(const Config *s, Arena *a, RopeSpec *out, Err *err) {
    const int64_t *list;
    uint64_t sum = 0;
    size_t n;
    if (!config_ints(s, "mrope_section", a, &list, &n, err) ||
        !config_bool(s, "mrope_interleaved", false, &out->sections_interleaved, err))
        return false;
    if (!n) return true;
    if (n != 3 && n != 4)
        return err_set(err, ERR_INPUT, "mrope_section has %zu numbers, 3 or 4 are needed", n);
    for (size_t i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] > ROPE_MAX_PAIRS)
            return err_set(err, ERR_INPUT,
                           "mrope_section[%zu] is %lld, an integer from 0 to %d is needed", i,
                           (long long)list[i], ROPE_MAX_PAIRS);
        out->sections[i] = (uint32_t)list[i];
        sum += out->sections[i];
    }
    if (sum == out->rot_dim / 2 || out->sections_interleaved || s->gguf) return true;
    return err_set(err, ERR_INPUT, "mrope_section adds up to %llu pairs of columns, rope turns %u",
                   (unsigned long long)sum, out->rot_dim / 2);
}

/* Only the first share of the pairs turns; the others stand still, and frequencies are those of all
 * columns. */
static bool read_proportional(const Config *s, Arena *a, uint32_t head_dim, RopeSpec *out,
                              Err *err) {
    double share, factor;
    if (!config_float(s, "partial_rotary_factor", 1, 0, 1, &share, err) ||
        !config_float(s, "factor", 1, 1e-6, 1e9, &factor, err))
        return false;
    out->rot_dim = out->freq_dim = head_dim;
    uint32_t n = head_dim / 2, turning = (uint32_t)(share * head_dim) / 2;
    double *divisor = arena_array(a, double, n + 1);
    if (!divisor) return err_nomem(err, "rope");
    for (uint32_t i = 0; i < n; i++) divisor[i] = i < turning ? factor : INFINITY;
    out->short_factor = divisor;
    return true;
}

static bool is_proportional(const Config *s) {
    Str kind;
    Err err = {0};
    return config_str(s, "rope_type|type", "default", &kind, &err) && str_eqc(kind, "proportional");
}

/* c: the config; s: its rope_scaling or rope_parameters section. */
static bool read_scaling(const Config *c, const Config *s, Arena *a, RopeSpec *out, Err *err) {
    Str kind;
    int64_t positions, original;
    if (!config_str(s, "rope_type|type", "default", &kind, err) ||
        !kind_parse(kind, &out->kind, err))
        return false;
    if (str_eqc(kind, "mrope") && !config_has(s, "mrope_section"))
        return err_set(err, ERR_INPUT, "rope_scaling of type \"mrope\" has no mrope_section");
    NUM("rope_theta", out->theta, 1e-3, 1e30, theta);
    if (out->kind == ROPE_PLAIN) return true;
    if (!config_int(c, "max_position_embeddings", 2048, 1, UINT32_MAX, &positions, err))
        return false;
    int64_t fallback = positions;
    if (!config_int(c, "original_max_position_embeddings", fallback, 1, UINT32_MAX, &fallback, err))
        return false;
    if (!config_int(s, "original_max_position_embeddings", fallback, 1, UINT32_MAX, &original, err))
        return false;
    out->orig_context = (uint32_t)(out->kind == ROPE_DYNAMIC ? positions : original);
    out->max_context = (uint32_t)positions;
    /* longrope files leave the factor out: extended length over original length. */
    double factor = out->kind == ROPE_LONG ? 0 : CONFIG_REQUIRED_F;
    NUM("factor", factor, out->kind == ROPE_LONG ? 0 : 1e-6, 1e6, factor);
    NUM("attention_factor", 0, 0, 1e6, attn_factor);
    switch (out->kind) {
    case ROPE_YARN:
        return read_yarn(s, out, err);
    case ROPE_LONG:
        return read_long(s, a, out, err);
    case ROPE_LLAMA3:
        NUM("low_freq_factor", 1, 1e-6, 1e6, low_freq_factor);
        NUM("high_freq_factor", 4, 1e-6, 1e6, high_freq_factor);
        if (out->high_freq_factor == out->low_freq_factor)
            return err_set(err, ERR_INPUT,
                           "rope_scaling has equal low_freq_factor and high_freq_factor");
        return true;
    default:
        return true;
    }
}

/* rope_parameters that are one section for each kind of layer: the one wanted. */
static bool kind_section(Config *s, const char *kind, Err *err) {
    Config sub;
    if (!config_has(s, "full_attention") && !config_has(s, "sliding_attention")) return true;
    if (!config_section(s, kind, &sub, err)) return false;
    *s = sub;
    return true;
}

bool rope_config_has_kinds(const Config *c) {
    Config section;
    Err err = {0};
    return config_section(c, "rope_parameters", &section, &err) &&
           (config_has(&section, "full_attention") || config_has(&section, "sliding_attention"));
}

bool rope_config_section(const Config *c, const Config *section, Arena *a, uint32_t head_dim,
                         double theta, double share, RopeSpec *out, Err *err) {
    *out = (RopeSpec){.kind = ROPE_PLAIN, .factor = 1, .theta = theta};
    if (!config_float(section, "partial_rotary_factor", share, 1e-6, 1, &share, err)) return false;
    out->rot_dim = out->freq_dim = (uint32_t)(head_dim * share) / 2 * 2;
    if (!out->rot_dim || out->rot_dim > 2 * ROPE_MAX_PAIRS)
        return err_set(err, ERR_INPUT, "rope turns %u columns per head, 2 to %d are accepted",
                       out->rot_dim, 2 * ROPE_MAX_PAIRS);
    return read_scaling(c, section, a, out, err);
}

bool rope_config_read(const Config *c, Arena *a, uint32_t head_dim, double default_theta,
                      double default_share, RopeSpec *out, Err *err) {
    return rope_config_kind(c, a, "full_attention", head_dim, default_theta, default_share, out,
                            err);
}

bool rope_config_kind(const Config *c, Arena *a, const char *kind, uint32_t head_dim,
                      double default_theta, double default_share, RopeSpec *out, Err *err) {
    double partial, theta;
    Config section = {0};
    Err nested = {0};
    *out = (RopeSpec){.kind = ROPE_PLAIN, .factor = 1};
    if (!config_float(c, "rope_theta", default_theta, 1e-3, 1e30, &theta, err)) return false;
    bool has = config_section(c, "rope_parameters", &section, &nested);
    if (has) has = kind_section(&section, kind, &nested);
    if (!has && !nested.kind) has = config_section(c, "rope_scaling", &section, &nested);
    if (nested.kind) {
        if (err) *err = nested;
        return false;
    }
    partial = default_share > 0 ? default_share : 1;
    bool asks = default_share > 0 || c->gguf; /* GGUF files say what turns */
    if (asks && !config_float(c, "partial_rotary_factor", partial, 1e-6, 1, &partial, err))
        return false;
    if (asks && has &&
        !config_float(&section, "partial_rotary_factor", partial, 1e-6, 1, &partial, err))
        return false;
    out->theta = theta;
    out->rot_dim = (uint32_t)(head_dim * partial) / 2 * 2;
    int64_t rot;
    if (!config_int(c, "rope_dimension_count", out->rot_dim, 2, 2 * ROPE_MAX_PAIRS, &rot, err))
        return false;
    if (rot > head_dim || rot % 2)
        return err_set(err, ERR_INPUT, "rope turns %lld of %u columns per head", (long long)rot,
                       head_dim);
    out->rot_dim = out->freq_dim = (uint32_t)rot;
    if (has && !read_scaling(c, &section, a, out, err)) return false;
    if (has && is_proportional(&section)) return read_proportional(&section, a, head_dim, out, err);
    return !(has || c->gguf) || read_sections(c->gguf ? c : &section, a, out, err);
}
