#include "arch/quant_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/name_pattern.h"

enum { MAX_RULES = 256, MAX_BLOCK = 1 << 16, MAX_GROUP = 1 << 24 };

/* Names of quant_method. */
static const struct {
    const char *name;
    QuantMethod method;
} METHODS[] = {
    {"gptq", QUANT_GPTQ},
    {"awq", QUANT_AWQ},
    {"compressed-tensors", QUANT_CT},
    {"fp8", QUANT_FP8},
    {"fbgemm_fp8", QUANT_FP8},
    {"modelopt", QUANT_MODELOPT},
    {"modelopt_fp4", QUANT_MODELOPT},
    {"mxfp4", QUANT_MXFP4},
    {"bitnet", QUANT_BITNET},
    {"bitsandbytes", QUANT_BNB},
};

const char *quantmethod_name(QuantMethod m) {
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++)
        if (METHODS[i].method == m) return METHODS[i].name;
    return m == QUANT_MLX ? "mlx" : "none";
}

/* The place a message names: "quantization_config", "dynamic \"+:...\"". */
static bool bad_value(Str entry, const char *key, const Json *v, const char *accepted, Err *err) {
    bool text = v->type == JSON_NUMBER || v->type == JSON_STRING;
    Str shown = text                    ? v->text
                : v->type == JSON_TRUE  ? STR("true")
                : v->type == JSON_FALSE ? STR("false")
                                        : str_c(jsontype_name(v->type));
    return err_set(err, ERR_UNSUPPORTED, STR_F ": %s is %s" STR_F "%s; accepted are %s",
                   STR_A(entry), key, v->type == JSON_STRING ? "\"" : "", STR_A(shown),
                   v->type == JSON_STRING ? "\"" : "", accepted);
}

/* An absent or null key leaves *out alone. */
static bool read_uint(Str entry, const Json *o, const char *key, int64_t max, unsigned *out,
                      Err *err) {
    const Json *v = json_get(o, key);
    int64_t n;
    if (!v || v->type == JSON_NULL) return true;
    char accepted[64];
    snprintf(accepted, sizeof accepted, "integers from 1 to %lld", (long long)max);
    if (!json_i64(v, &n) || n < 1 || n > max) return bad_value(entry, key, v, accepted, err);
    *out = (unsigned)n;
    return true;
}

/* -1 stands for one group in a row. */
static bool read_group(Str entry, const Json *o, const char *key, unsigned *out, Err *err) {
    const Json *v = json_get(o, key);
    int64_t n;
    if (v && json_i64(v, &n) && n == -1) {
        *out = QUANT_WHOLE_ROW;
        return true;
    }
    return read_uint(entry, o, key, MAX_GROUP, out, err);
}

static bool read_text(Str entry, const Json *o, const char *key, Str *out, Err *err) {
    const Json *v = json_get(o, key);
    *out = STR_NONE;
    if (!v || v->type == JSON_NULL || json_str(v, out)) return true;
    return bad_value(entry, key, v, "strings", err);
}

/* o[key], if it is there, must be one of the names ('|' between them). */
static bool check_text(Str entry, const Json *o, const char *key, const char *names, Err *err) {
    Str s, rest = str_c(names), name;
    if (!read_text(entry, o, key, &s, err)) return false;
    if (!s.n) return true;
    while (str_split(&rest, '|', &name))
        if (str_ieq(s, name)) return true;
    return bad_value(entry, key, json_get(o, key), names, err);
}

static bool check_not_set(Str entry, const Json *o, const char *key, Err *err) {
    const Json *v = json_get(o, key);
    return !json_is(v, JSON_TRUE) || bad_value(entry, key, v, "false", err);
}

/* ---- MLX ---- */

static bool mlx_mode(Str entry, const Json *o, QFormat *out, Err *err) {
    static const struct {
        const char *name;
        QFormat f;
    } MODES[] = {
        {"affine", QFORMAT_MLX_AFFINE},
        {"mxfp4", QFORMAT_MLX_MXFP4},
        {"mxfp8", QFORMAT_MLX_MXFP8},
        {"nvfp4", QFORMAT_MLX_NVFP4},
    };
    Str s;
    if (!read_text(entry, o, "mode", &s, err)) return false;
    *out = QFORMAT_MLX_AFFINE;
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++) {
        if (!s.n || !str_eqc(s, MODES[i].name)) continue;
        *out = MODES[i].f;
        return true;
    }
    return !s.n ||
           bad_value(entry, "mode", json_get(o, "mode"), "affine, mxfp4, mxfp8, nvfp4", err);
}

static bool mlx_spec(Str entry, const Json *o, bool exact, QuantSpec *out, Err *err) {
    *out = (QuantSpec){.entry = entry, .exact = exact};
    if (!mlx_mode(entry, o, &out->mode, err)) return false;
    if (!read_uint(entry, o, "bits", 8, &out->bits, err) ||
        !read_uint(entry, o, "group_size", 128, &out->group, err))
        return false;
    unsigned b = out->bits, g = out->group;
    const Json *bits = json_get(o, "bits"), *group = json_get(o, "group_size");
    bool affine = out->mode == QFORMAT_MLX_AFFINE;
    unsigned want_b = out->mode == QFORMAT_MLX_MXFP8 ? 8 : 4,
             want_g = out->mode == QFORMAT_MLX_NVFP4 ? 16 : 32;
    if (affine && b == 7) return bad_value(entry, "bits", bits, "1, 2, 3, 4, 5, 6, 8", err);
    if (affine && g && g != 32 && g != 64 && g != 128)
        return bad_value(entry, "group_size", group, "32, 64, 128", err);
    if (!affine && b && b != want_b)
        return bad_value(entry, "bits", bits, want_b == 8 ? "8 in this mode" : "4 in this mode",
                         err);
    if (!affine && g && g != want_g)
        return bad_value(entry, "group_size", group,
                         want_g == 16 ? "16 in this mode" : "32 in this mode", err);
    return true;
}

static int by_pattern(const void *a, const void *b) {
    return str_cmp(((const QuantRule *)a)->pattern, ((const QuantRule *)b)->pattern);
}

/* Members that are objects stand for modules; false (not quantized) needs no rule, the tensors
 * tell. */
static bool read_mlx(QuantConfig *q, const Json *o, Arena *a, Err *err) {
    if (!mlx_spec(q->global.entry, o, false, &q->global, err)) return false;
    QuantRule *rules = arena_array(a, QuantRule, o->n);
    if (!rules) return err_nomem(err, "quantization settings");
    for (size_t i = 0; i < o->n; i++) {
        const Json *m = &o->items[i];
        if (m->type != JSON_OBJECT) continue;
        QuantRule *r = &rules[q->n_rules++];
        r->pattern = m->key;
        if (!mlx_spec(m->key, m, true, &r->spec, err)) return err_wrap(err, "quantization");
    }
    qsort(rules, q->n_rules, sizeof *rules, by_pattern);
    q->rules = rules;
    return true;
}

/* ---- Hugging Face ---- */

/* [n, k], or the text "nxk". */
static bool read_block(Str entry, const Json *o, const char *key, QuantSpec *out, Err *err) {
    const Json *v = json_get(o, key);
    int64_t n = 0, k = 0;
    if (!v || v->type == JSON_NULL) return true;
    if (v->type == JSON_STRING) {
        Str rest = v->text, part;
        bool ok = str_split(&rest, 'x', &part) && str_to_i64(part, &n) &&
                  str_split(&rest, 'x', &part) && str_to_i64(part, &k);
        if (!ok) n = 0;
    } else if (v->type == JSON_ARRAY && v->n == 2 &&
               !(json_i64(json_at(v, 0), &n) && json_i64(json_at(v, 1), &k))) {
        n = 0;
    }
    if (n < 1 || k < 1 || n > MAX_BLOCK || k > MAX_BLOCK)
        return bad_value(entry, key, v, "two integers from 1 to 65536", err);
    out->block_n = (unsigned)n;
    out->block_k = (unsigned)k;
    return true;
}

static bool gptq_spec(Str entry, const Json *o, QuantSpec *out, Err *err) {
    if (!read_uint(entry, o, "bits", 8, &out->bits, err) ||
        !read_group(entry, o, "group_size", &out->group, err))
        return false;
    unsigned b = out->bits;
    return !b || b == 2 || b == 3 || b == 4 || b == 8 ||
           bad_value(entry, "bits", json_get(o, "bits"), "2, 3, 4, 8", err);
}

/* GPTQModel's exceptions: pattern -> settings; "-:" in front leaves modules out, which their
 * tensors tell. */
static bool gptq_dynamic(QuantConfig *q, const Json *dynamic, Arena *a, Err *err) {
    if (!dynamic || dynamic->type == JSON_NULL || json_is(dynamic, JSON_FALSE)) return true;
    if (dynamic->type != JSON_OBJECT || dynamic->n > MAX_RULES)
        return bad_value(q->global.entry, "dynamic", dynamic, "objects of at most 256 patterns",
                         err);
    QuantRule *rules = arena_array(a, QuantRule, dynamic->n);
    if (!rules) return err_nomem(err, "quantization settings");
    for (size_t i = 0; i < dynamic->n; i++) {
        const Json *m = &dynamic->items[i];
        bool skips = str_starts(m->key, STR("-:")),
             prefixed = skips || str_starts(m->key, STR("+:"));
        rules[i] = (QuantRule){
            .pattern = str_from(m->key, prefixed ? 2 : 0), .is_regex = true, .spec = q->global};
        rules[i].spec.entry = m->key;
        if (skips) rules[i].spec = (QuantSpec){.entry = m->key};
        if (!skips && !gptq_spec(m->key, m, &rules[i].spec, err)) return err_wrap(err, "dynamic");
    }
    q->rules = rules;
    q->n_rules = dynamic->n;
    return true;
}

static bool read_gptq(QuantConfig *q, const Json *o, Arena *a, Err *err) {
    Str entry = q->global.entry, format;
    q->global.exact = true;
    if (!check_text(entry, o, "checkpoint_format", "gptq|gptq_v2", err) ||
        !check_text(entry, o, "format", "gptq|gptq_v2", err) ||
        !check_not_set(entry, o, "is_marlin_format", err) ||
        !read_text(entry, o, "checkpoint_format", &format, err))
        return false;
    if (!format.n && !read_text(entry, o, "format", &format, err)) return false;
    q->gptq_v2 = str_ieq(format, STR("gptq_v2"));
    return gptq_spec(entry, o, &q->global, err) && gptq_dynamic(q, json_get(o, "dynamic"), a, err);
}

static bool read_awq(QuantConfig *q, const Json *o, Err *err) {
    Str entry = q->global.entry;
    QuantSpec *g = &q->global;
    g->exact = true;
    if (!check_text(entry, o, "version", "gemm", err) ||
        !check_text(entry, o, "format", "gemm", err) ||
        !check_text(entry, o, "checkpoint_format", "gemm", err) ||
        !check_text(entry, o, "backend", "autoawq", err) ||
        !read_uint(entry, o, "w_bit", 8, &g->bits, err) ||
        !read_uint(entry, o, "bits", 8, &g->bits, err) ||
        !read_group(entry, o, "q_group_size", &g->group, err) ||
        !read_group(entry, o, "group_size", &g->group, err))
        return false;
    const Json *bits = json_get(o, json_get(o, "bits") ? "bits" : "w_bit");
    return !g->bits || g->bits == 4 || bad_value(entry, "bits", bits, "4", err);
}

#define CT_FORMATS                                                                                 \
    "dense|pack-quantized|int-quantized|float-quantized|naive-quantized|nvfp4-pack-quantized|"     \
    "mxfp4-pack-quantized|mxfp8-quantized|mixed-precision"

/* weights {num_bits, type, strategy, group_size, block_structure} of a config group. */
static bool ct_spec(Str entry, const Json *w, QuantSpec *out, Err *err) {
    Str strategy;
    *out = (QuantSpec){.entry = entry, .exact = true};
    if (!w || w->type == JSON_NULL) return true;
    if (w->type != JSON_OBJECT) return bad_value(entry, "weights", w, "objects", err);
    if (!check_text(entry, w, "type", "int|float", err) ||
        !check_text(entry, w, "strategy", "tensor|channel|group|block|tensor_group|attn_head",
                    err) ||
        !read_text(entry, w, "strategy", &strategy, err) ||
        !read_uint(entry, w, "num_bits", 8, &out->bits, err))
        return false;
    if (str_ieq(strategy, STR("block"))) return read_block(entry, w, "block_structure", out, err);
    bool groups =
        str_ieq(strategy, STR("group")) || str_ieq(strategy, STR("tensor_group")) || !strategy.n;
    return !groups || read_group(entry, w, "group_size", &out->group, err);
}

static bool ct_group(QuantConfig *q, QuantRule *rules, const Json *group, Err *err) {
    const Json *targets = json_get(group, "targets");
    QuantSpec spec;
    if (!check_text(group->key, group, "format", CT_FORMATS, err) ||
        !ct_spec(group->key, json_get(group, "weights"), &spec, err))
        return false;
    if (!json_is(targets, JSON_ARRAY))
        return err_set(err, ERR_INPUT, STR_F ": targets is %s; accepted are arrays of names",
                       STR_A(group->key), targets ? jsontype_name(targets->type) : "missing");
    for (size_t i = 0; i < targets->n; i++) {
        Str t;
        if (q->n_rules == MAX_RULES)
            return err_set(err, ERR_LIMIT, "at most %d targets are accepted", MAX_RULES);
        if (!json_str(json_at(targets, i), &t))
            return bad_value(group->key, "targets", json_at(targets, i), "strings", err);
        bool regex = str_starts(t, STR("re:"));
        rules[q->n_rules++] = (QuantRule){regex ? str_from(t, 3) : t, regex, spec};
    }
    return true;
}

static bool read_ct(QuantConfig *q, const Json *o, Arena *a, Err *err) {
    Str entry = q->global.entry;
    const Json *groups = json_get(o, "config_groups"), *sparse = json_get(o, "sparsity_config");
    q->global.exact = true;
    if (!check_text(entry, o, "format", CT_FORMATS, err) ||
        !check_text(STR("sparsity_config"), sparse, "format", "dense", err))
        return false;
    if (!groups || groups->type == JSON_NULL) return true;
    if (groups->type != JSON_OBJECT)
        return bad_value(entry, "config_groups", groups, "objects", err);
    QuantRule *rules = arena_array(a, QuantRule, MAX_RULES);
    if (!rules) return err_nomem(err, "quantization settings");
    q->rules = rules;
    for (size_t i = 0; i < groups->n; i++)
        if (!ct_group(q, rules, &groups->items[i], err)) return err_wrap(err, "config_groups");
    return true;
}

/* The library's default is blocks of 128; null says that there are none. Matrices whose scales are
 * one, or one a row, are read as such anyway. */
static bool read_fp8(QuantConfig *q, const Json *o, Err *err) {
    const Json *divides = json_get(o, "weight_scale_semantics"); /* GPTQModel's: by the scale */
    if (divides && divides->type != JSON_NULL)
        return bad_value(q->global.entry, "weight_scale_semantics", divides,
                         "configs without it, whose scales are multiplied", err);
    if (!json_get(o, "weight_block_size")) q->global.block_n = q->global.block_k = 128;
    return read_block(q->global.entry, o, "weight_block_size", &q->global, err);
}

static bool read_modelopt(QuantConfig *q, const Json *o, Err *err) {
    static const char ALGOS[] = "FP8|NVFP4|MXFP4|MXFP8|FP8_PER_CHANNEL_PER_TOKEN|FP8_PB_WO|"
                                "W4A16_NVFP4|W4A8_NVFP4_FP8|W4A8_MXFP4_FP8|MIXED_PRECISION";
    /* where a scale is of a block, and not of a matrix or a row, the block is of 128 by 128 */
    q->global.block_n = q->global.block_k = 128;
    return check_text(q->global.entry, o, "quant_algo", ALGOS, err);
}

static bool read_bitnet(QuantConfig *q, const Json *o, Err *err) {
    Str cls;
    if (!check_text(q->global.entry, o, "linear_class", "bitlinear|autobitlinear", err) ||
        !check_text(q->global.entry, o, "quantization_mode", "offline|online", err) ||
        !read_text(q->global.entry, o, "linear_class", &cls, err))
        return false;
    q->bitnet_multiplies = str_ieq(cls, STR("autobitlinear"));
    return true;
}

static bool read_bnb(QuantConfig *q, const Json *o, Err *err) {
    return check_text(q->global.entry, o, "bnb_4bit_quant_type", "nf4|fp4", err);
}

/* Bits and groups and nothing else: MLX, perhaps with settings for single modules only. */
static bool looks_like_mlx(const Json *o) {
    if (json_get(o, "bits") || json_get(o, "group_size") || json_get(o, "mode")) return true;
    for (size_t i = 0; i < o->n; i++)
        if (json_get(&o->items[i], "bits")) return true;
    return false;
}

/* The name of the method, or what the other keys make of a section without one. */
static bool method_of(const Checkpoint *ck, const Json *o, QuantMethod *out, Err *err) {
    const Json *name = json_get(o, "quant_method");
    if (!name || name->type == JSON_NULL) {
        *out = json_get(o, "quant_algo")                                       ? QUANT_MODELOPT
               : str_eqc(str_c(ck->quantization_file), "quantize_config.json") ? QUANT_GPTQ
               : str_eqc(str_c(ck->quantization_file), "quant_config.json")    ? QUANT_AWQ
               : looks_like_mlx(o)                                             ? QUANT_MLX
                                                                               : QUANT_NONE;
        if (*out != QUANT_NONE) return true;
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: its quantization section has no quant_method, bits or group_size",
                       ck->quantization_file);
    }
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++) {
        if (name->type != JSON_STRING || !str_ieq(name->text, str_c(METHODS[i].name))) continue;
        *out = METHODS[i].method;
        return true;
    }
    return bad_value(
        str_c(ck->quantization_file), "quant_method", name,
        "gptq, awq, compressed-tensors, fp8, fbgemm_fp8, modelopt, mxfp4, bitnet, bitsandbytes",
        err);
}

bool quantconfig_read(QuantConfig *q, const Checkpoint *ck, Arena *a, Err *err) {
    const Json *o = ck->quantization;
    *q = (QuantConfig){0};
    if (!o) return true;
    if (!method_of(ck, o, &q->method, err)) return false;
    q->global.entry = q->method == QUANT_MLX ? STR("quantization") : STR("quantization_config");
    switch (q->method) {
    case QUANT_MLX:
        return read_mlx(q, o, a, err);
    case QUANT_GPTQ:
        return read_gptq(q, o, a, err);
    case QUANT_AWQ:
        return read_awq(q, o, err);
    case QUANT_CT:
        return read_ct(q, o, a, err);
    case QUANT_FP8:
        return read_fp8(q, o, err);
    case QUANT_MODELOPT:
        return read_modelopt(q, o, err);
    case QUANT_BITNET:
        return read_bitnet(q, o, err);
    case QUANT_BNB:
        return read_bnb(q, o, err);
    default:
        return true;
    }
}

static const QuantRule *exact_rule(const QuantConfig *q, Str module) {
    size_t lo = 0, hi = q->n_rules;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = str_cmp(q->rules[mid].pattern, module);
        if (c == 0) return &q->rules[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool quantconfig_module(const QuantConfig *q, Str module, const char *class_name, QuantSpec *out,
                        Err *err) {
    *out = q->global;
    if (q->method == QUANT_MLX) {
        const QuantRule *r = exact_rule(q, module);
        if (r) *out = r->spec;
        return true;
    }
    for (size_t i = 0; i < q->n_rules; i++) {
        const QuantRule *r = &q->rules[i];
        bool yes = str_eq(r->pattern, module) ||
                   (q->method == QUANT_CT && str_eqc(r->pattern, class_name));
        if (r->is_regex && !namepattern_match(r->pattern, module, &yes, err)) return false;
        if (!yes) continue;
        *out = r->spec;
        return true;
    }
    return true;
}
