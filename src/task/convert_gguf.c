/* To a GGUF: from any form that the family's loader takes, or from another GGUF. */
#include <math.h>
#include <string.h>

#include "arch/gguf_keys.h"
#include "base/os.h"
#include "task/convert_plan.h"

static bool types_find(const ConvertPlan *p, const GgufTypes **out, Err *err) {
    const char *name = p->o->gguf_type;
    *out = name ? gguftypes_find(name) : NULL;
    return *out || err_set(err, ERR_INPUT, "GGUF type \"%.40s\"; %s are accepted", name ? name : "",
                           gguftypes_names());
}

static bool may_write(const ConvertPlan *p, const char *out, Err *err) {
    if (os_is_dir(out)) return err_set(err, ERR_INPUT, "%s is a directory; a file is written", out);
    if (os_exists(out) && !os_is_file(out)) /* a device must not be replaced, whatever is asked */
        return err_set(err, ERR_INPUT, "%s is no regular file", out);
    if (p->o->force || !os_exists(out)) return true;
    return err_set(err, ERR_INPUT, "%s is there already (--force writes over it)", out);
}

/* Matrices whose results choose experts or mix streams, and tables that all rows are added to. */
static bool is_exact(Role r) {
    static const Role EXACT[] = {ROLE_ROUTER,         ROLE_SHARED_SWITCH, ROLE_POS_EMBED,
                                 ROLE_TYPE_EMBED,     ROLE_STREAM_ROUTER, ROLE_STREAM_PREDICT,
                                 ROLE_STREAM_CORRECT, ROLE_INDEX_WEIGHTS, ROLE_CLASS_OUT};
    for (size_t i = 0; i < sizeof EXACT / sizeof *EXACT; i++)
        if (r == EXACT[i]) return true;
    return false;
}

/* What is kept whole: vectors, and those. */
static DType type_of(const ConvertPlan *p, const GgufTypes *types, const ConvertItem *it,
                     const WeightOrigin *o) {
    const Decoder *d = p->arch.resolved;
    if (it->is_vector || is_exact(o->role)) return DTYPE_F32;
    bool head = o->role == ROLE_HEAD || (o->role == ROLE_EMBED && d->tied);
    const GgufMatrix m = {.role = o->role,
                          .layer = o->layer,
                          .n_layers = p->arch.n_layers,
                          .few_kv = d->layer.n_heads >= 4 * d->layer.n_kv_heads,
                          .is_head = head,
                          .k = it->k};
    return gguftypes_of(types, &m);
}

/* No key tells how scores are scaled: what differs from the rule goes into the queries, or into the
 * norms that they pass. */
static float query_factor(const ConvertPlan *p, const WeightOrigin *o) {
    const Decoder *d = p->arch.resolved;
    const LayerSpec *l = &d->layer;
    bool latent = o->layer >= 0 && p->arch.layers && p->arch.layers[o->layer].mixer == MIXER_MLA;
    if (latent || d->arch->no_attn || d->arch->fold || !p->arch.layers) return 0;
    double factor = l->attn_scale * sqrt((double)decoder_gguf_scalar(d));
    if (o->role != (l->qk_norm ? ROLE_Q_NORM : ROLE_Q) || fabs(factor - 1) < 1e-6) return 0;
    return (float)factor;
}

static bool name_item(ConvertPlan *p, size_t i, const GgufTypes *types, GgufOut *out, Err *err) {
    ConvertItem *it = &p->items[i];
    const WeightOrigin *o = p->origins[i];
    Buf full = {0};
    buf_put(&full, it->module);
    buf_put(&full, str_c(it->suffix));
    it->tensor.name = arena_dup(p->a, buf_str(&full));
    bool ok = !full.failed && it->tensor.name.p;
    buf_deinit(&full);
    if (!ok) return err_nomem(err, "a tensor's name");
    it->dtype = it->tensor.dtype = type_of(p, types, it, o);
    /* one row that switches a shared expert is a vector there */
    if (o->role == ROLE_SHARED_SWITCH) {
        it->tensor.n_dims = 1;
        it->tensor.shape[0] = it->k;
    }
    it->factor = query_factor(p, o);
    it->first = out->n_tensors;
    p->report->n_tensors++;
    p->report->n_quantized += dtype_info(it->dtype)->is_blocked;
    return gguf_write_tensor(out, &it->tensor, err);
}

static const char *const ROPE_NAMES[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                         "rope_factors_short.weight"};

typedef struct RopeTables { /* divisors of each frequency; NULL: there is none */
    float *of[3];
    uint32_t n;
} RopeTables;

static bool from_divisors(const ConvertPlan *p, const GgufKeys *k, RopeTables *out, Err *err) {
    out->n = k->n_divisors;
    out->of[0] = arena_array(p->a, float, out->n);
    if (!out->of[0]) return err_nomem(err, "rope factors");
    for (uint32_t i = 0; i < out->n; i++) /* those that stand still: as llama.cpp has it */
        out->of[0][i] = isinf(k->divisors[i]) ? 1e30f : (float)k->divisors[i];
    return true;
}

/* Some frequency scalings are tensors there. */
static bool rope_tables(const ConvertPlan *p, const GgufKeys *k, RopeTables *out, Err *err) {
    const RopeSpec *r = &p->arch.resolved->layer.rope_spec;
    uint32_t n = out->n = r->rot_dim / 2;
    float scaled[ROPE_MAX_PAIRS], plain[ROPE_MAX_PAIRS], factor;
    if (k->n_divisors) return from_divisors(p, k, out, err);
    for (int i = 0; i < 3; i++) {
        if (i ? r->kind != ROPE_LONG : r->kind != ROPE_LLAMA3) continue;
        if (!(out->of[i] = arena_array(p->a, float, n))) return err_nomem(err, "rope factors");
    }
    for (uint32_t i = 0; out->of[1] && i < n; i++) {
        out->of[1][i] = (float)r->long_factor[i];
        out->of[2][i] = (float)r->short_factor[i];
    }
    if (!out->of[0]) return true;
    RopeSpec unscaled = *r;
    unscaled.kind = ROPE_PLAIN;
    unscaled.short_factor = NULL;
    rope_inv_freq(r, 0, scaled, &factor);
    rope_inv_freq(&unscaled, 0, plain, &factor);
    for (uint32_t i = 0; i < n; i++) out->of[0][i] = plain[i] / scaled[i];
    return true;
}

static bool add_rope_tables(const RopeTables *tables, GgufOut *out, Err *err) {
    for (int k = 0; k < 3; k++) {
        if (!tables->of[k]) continue;
        CkptTensor t = {.name = str_c(ROPE_NAMES[k]), .dtype = DTYPE_F32, .n_dims = 1};
        t.shape[0] = tables->n;
        if (!gguf_write_tensor(out, &t, err)) return false;
    }
    return true;
}

/* They lie in front of all others. */
static bool put_rope_tables(const RopeTables *tables, GgufOut *out, Err *err) {
    size_t i = 0;
    for (int k = 0; k < 3; k++) {
        if (!tables->of[k]) continue;
        if (!gguf_write_put(out, i, 0, tables->of[k], (size_t)out->tensors[i].n_bytes, err))
            return false;
        i++;
    }
    return true;
}

static bool finish(ConvertPlan *p, GgufOut *out, const RopeTables *tables, const char *path,
                   Err *err) {
    const ConvertSink sink = {.gguf = out};
    ArchModel reader;
    if (!gguf_write_open(out, path, err) || !put_rope_tables(tables, out, err)) return false;
    size_t n = p->n_items - p->n_values;
    if (p->n_values && !convert_run(p->ck, p->items + n, p->n_values, &sink, p->o, err))
        return false;
    if (p->arch.text && (!convert_check(p, out->file.temporary, &reader, err) ||
                         !convert_turn_heads(p, &reader, err)))
        return false;
    if (!convert_run(p->ck, p->items, n, &sink, p->o, err) || !gguf_write_finish(out, err))
        return false;
    for (size_t i = 0; i < out->n_tensors; i++) p->report->bytes_out += out->tensors[i].n_bytes;
    return true;
}

bool convert_to_gguf(ConvertPlan *p, const char *out, Err *err) {
    const char *arch = convert_gguf_arch(p->arch.arch);
    const GgufTypes *types;
    GgufOut g;
    RopeTables tables = {0};
    if (!types_find(p, &types, err) || !may_write(p, out, err)) return false;
    if (!arch || (!p->arch.layers && !p->arch.both_ways && !p->arch.arch->gguf_keys))
        return err_set(err, ERR_UNSUPPORTED, "family %s has no GGUF form that can be written",
                       p->arch.arch->name);
    gguf_write_init(&g, p->a);
    gguf_write_str(&g, "general.architecture", str_c(arch));
    gguf_write_u32(&g, "general.file_type", gguftypes_file_type(types));
    GgufKeys keys = {.out = &g, .arch = arch, .a = p->a};
    bool ok = convert_keys(p, &keys, err) && convert_vocab(p, &g, err) &&
              rope_tables(p, &keys, &tables, err) && add_rope_tables(&tables, &g, err);
    for (size_t i = 0; ok && i < p->n_items; i++) ok = name_item(p, i, types, &g, err);
    ok = ok && finish(p, &g, &tables, out, err);
    gguf_write_drop(&g);
    return ok;
}

/* ---- from another GGUF ---- */

static bool fetch_tensor(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out,
                         Err *err) {
    const Checkpoint *const *at = ctx;
    (void)part;
    return checkpoint_read(at[0], (const CkptTensor *)(const void *)at[1], from, out, n_bytes, err);
}

bool convert_source(ConvertPlan *p, const CkptTensor *t, WeightSource *out, Err *err) {
    const void **ctx = arena_array(p->a, const void *, 2);
    WForm *form = arena_new(p->a, WForm);
    const char *name = arena_dupz(p->a, t->name);
    uint64_t k = t->n_dims ? t->shape[t->n_dims - 1] : 1, n = 1;
    if (!ctx || !form || !name) return err_nomem(err, "a list of tensors");
    for (int i = 0; i + 1 < t->n_dims; i++)
        n *= t->shape[i]; /* the reader checked that this fits */
    if (n == 0 || k == 0 || n > UINT32_MAX || k > UINT32_MAX)
        return err_set(err, ERR_LIMIT, "tensor %s is too large", name);
    const uint64_t shape[2] = {n, k};
    ctx[0] = p->ck;
    ctx[1] = t;
    *out = (WeightSource){.n = (uint32_t)n,
                          .k = (uint32_t)k,
                          .m = {.format = QFORMAT_ROWS, .n = n, .k = k},
                          .form = form,
                          .fetch = fetch_tensor,
                          .ctx = ctx,
                          .name = name};
    out->m.part[QPART_WEIGHT] = qpart_of(t->dtype, 2, shape, NULL, t->n_bytes);
    return wform_init(form, &out->m, p->a, err) || err_wrap(err, "tensor %s", name);
}

/* The role and layer that the mixes look at, from a tensor's usual name. */
static void matrix_of(const ConvertPlan *p, Str name, GgufMatrix *m) {
    static const struct {
        const char *part;
        Role role;
    } PARTS[] = {{".attn_v.", ROLE_V},
                 {".attn_output.", ROLE_O},
                 {".ffn_down.", ROLE_DOWN},
                 {".ffn_down_exps.", ROLE_EXPERT_DOWN}};
    Str rest = name, part;
    int64_t layer = -1, heads = 1, kv = 1;
    Err ignored = {0};
    m->role = ROLE_COUNT;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (str_find(name, str_c(PARTS[i].part), 0) != STR_NPOS) m->role = PARTS[i].role;
    if (str_split(&rest, '.', &part) && str_eqc(part, "blk") && str_split(&rest, '.', &part) &&
        (!str_to_i64(part, &layer) || layer > INT32_MAX))
        layer = -1;
    m->layer = (int)layer;
    const Config *c = &p->ck->config;
    int64_t n_layers = 0;
    if (config_int(c, "num_hidden_layers", 0, 0, 1 << 20, &n_layers, &ignored))
        m->n_layers = (uint32_t)n_layers;
    if (config_int(c, "num_attention_heads", 1, 1, 1 << 20, &heads, &ignored) &&
        config_int(c, "num_key_value_heads", heads, 1, 1 << 20, &kv, &ignored))
        m->few_kv = heads >= 4 * kv;
    m->is_head = str_eqc(name, "output.weight") || (str_eqc(name, "token_embd.weight") &&
                                                    !checkpoint_find(p->ck, STR("output.weight")));
}

/* Matrices of floats or blocks by the mix; vectors, routers and what is no float stay. */
static DType type_again(const ConvertPlan *p, const GgufTypes *types, const CkptTensor *t) {
    const DTypeInfo *info = dtype_info(t->dtype);
    bool is_matrix = t->n_dims >= 2 && t->shape[t->n_dims - 2] > 1;
    bool is_gate = str_find(t->name, STR("_gate_inp"), 0) != STR_NPOS;
    bool is_small = str_find(t->name, STR("_norm"), 0) != STR_NPOS ||
                    str_find(t->name, STR("ssm_conv1d"), 0) != STR_NPOS ||
                    !str_ends(t->name, STR(".weight"));
    if (!info->is_float && !info->is_blocked) return t->dtype;
    if (!is_matrix || is_gate || is_small) return info->is_blocked ? DTYPE_F32 : t->dtype;
    GgufMatrix m = {.k = t->shape[t->n_dims - 1]};
    matrix_of(p, t->name, &m);
    return gguftypes_of(types, &m);
}

static bool add_again(ConvertPlan *p, const CkptTensor *t, const GgufTypes *types, GgufOut *out,
                      Err *err) {
    WeightSource *s = arena_new(p->a, WeightSource);
    if (!s) return err_nomem(err, "a list of tensors");
    if (!convert_source(p, t, s, err)) return false;
    ConvertItem it = {.parts = s, .n_parts = 1, .n = s->n, .k = s->k, .tensor = *t};
    it.dtype = it.tensor.dtype = type_again(p, types, t);
    if (!encode_supports(it.dtype))
        return err_set(err, ERR_UNSUPPORTED, "tensor " STR_F " has type %s, which is not written",
                       STR_A(t->name), dtype_info(it.dtype)->name);
    it.first = out->n_tensors;
    p->report->n_tensors++;
    p->report->n_quantized += dtype_info(it.dtype)->is_blocked;
    return convertplan_add(p, &it, NULL, err) && gguf_write_tensor(out, &it.tensor, err);
}

/* Keys that tell of the file itself rather than of the model. */
static bool is_own_key(Str key) {
    return str_eqc(key, "general.file_type") || str_eqc(key, "general.alignment") ||
           str_eqc(key, "general.quantization_version") || str_starts(key, STR("split."));
}

bool convert_gguf_again(ConvertPlan *p, const char *out, Err *err) {
    const GgufTypes *types;
    const Gguf *g = p->ck->config.gguf;
    RopeTables tables = {0};
    GgufOut o;
    if (!types_find(p, &types, err) || !may_write(p, out, err)) return false;
    gguf_write_init(&o, p->a);
    for (size_t i = 0; i < g->n_keys; i++)
        if (!is_own_key(g->keys[i].key)) gguf_write_value(&o, &g->keys[i]);
    gguf_write_u32(&o, "general.file_type", gguftypes_file_type(types));
    gguf_write_u32(&o, "general.quantization_version", 2);
    bool ok = true;
    for (size_t i = 0; ok && i < p->ck->n_tensors; i++)
        ok = add_again(p, &p->ck->tensors[i], types, &o, err);
    ok = ok && finish(p, &o, &tables, out, err);
    gguf_write_drop(&o);
    return ok;
}
