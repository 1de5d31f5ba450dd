/* To MLX's layout: names, what is quantized and how, config.json. */
#include <string.h>

#include "base/os.h"
#include "json/json_writer.h"
#include "task/convert_plan.h"

#define SHARD_BYTES ((uint64_t)5 << 30)

typedef struct Recipe {
    const char *name;
    unsigned low, high;
} Recipe;
static const Recipe RECIPES[] = {
    {"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};

typedef struct Mlx {
    ConvertPlan *p;
    const Recipe *recipe; /* NULL: none */
    EncodeMlx base;       /* of most modules */
    CkptTensor *tensors;  /* as they are written */
    size_t n_tensors;
    /* from a GGUF: the family that the result is of, the tokenizer (NULL: none) */
    const Arch *family;
    Tokenizer *tokenizer;
} Mlx;

static bool settings(Mlx *m, Err *err) {
    const ConvertOptions *o = m->p->o;
    uint64_t w, s, b;
    QFormat mode = o->mode == QFORMAT_ROWS ? QFORMAT_MLX_AFFINE : o->mode;
    bool affine = mode == QFORMAT_MLX_AFFINE;
    m->base = (EncodeMlx){.format = mode, .bits = o->bits, .group = o->group};
    m->base.scale_dtype = DTYPE_F32;
    if (affine && !o->bits) m->base.bits = 4;
    if (affine && !o->group) m->base.group = 64;
    for (size_t i = 0; o->predicate && i < sizeof RECIPES / sizeof *RECIPES; i++)
        if (str_eqc(str_c(o->predicate), RECIPES[i].name)) m->recipe = &RECIPES[i];
    if (o->predicate && !m->recipe)
        return err_set(err, ERR_INPUT,
                       "predicate \"%s\"; mixed_2_6, mixed_3_4, mixed_3_6 and mixed_4_6 are "
                       "accepted",
                       o->predicate);
    if (m->recipe && (!affine || o->bits))
        return err_set(err, ERR_INPUT, "predicate %s chooses the bits of affine mode itself",
                       o->predicate);
    if (m->recipe) m->base.bits = m->recipe->low;
    /* wrong settings end here, before anything is written */
    if (o->plain) return true;
    return encode_mlx_bytes(&m->base, 1 << 12, &w, &s, &b, err);
}

/* The layers where more bits tell most: the first and last eighth, and every third between. */
static bool wants_more(const Mlx *m, const WeightOrigin *o) {
    int n = (int)m->p->arch.n_layers, i = o->layer;
    if (o->role == ROLE_HEAD) return true;
    if (o->role != ROLE_V && o->role != ROLE_DOWN && o->role != ROLE_EXPERT_DOWN &&
        o->role != ROLE_SHARED_DOWN)
        return false;
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool is_quantized(const Mlx *m, const ConvertItem *it, const WeightOrigin *o) {
    unsigned group = m->base.group ? m->base.group : m->base.format == QFORMAT_MLX_NVFP4 ? 16 : 32;
    if (m->p->o->plain || it->is_vector) return false;
    if (it->is_named && !it->may_quantize) return false;
    if (o->role == ROLE_ROUTER || o->role == ROLE_SHARED_SWITCH || o->role == ROLE_POS_EMBED ||
        o->role == ROLE_TYPE_EMBED || o->role == ROLE_CLASS_DENSE || o->role == ROLE_CLASS_OUT)
        return false;
    if (it->k % group == 0) return true;
    m->p->report->n_odd++;
    return false;
}

static bool add_tensor(Mlx *m, const ConvertItem *it, Str module, const char *suffix, DType type,
                       uint64_t columns, Err *err) {
    CkptTensor *t = &m->tensors[m->n_tensors++];
    Buf b = {0};
    *t = it->tensor;
    t->dtype = type;
    if (columns) t->shape[t->n_dims - 1] = columns;
    buf_put(&b, module);
    buf_put(&b, str_c(suffix));
    t->name = arena_dup(m->p->a, buf_str(&b));
    bool ok = !b.failed && t->name.p;
    buf_deinit(&b);
    return ok || err_nomem(err, "a tensor's name");
}

/* In a family's own names; an encoder's hang at the root, or beside a head of classes. */
static bool family_name(const Mlx *m, const WeightOrigin *o, char out[WEIGHTS_MAX_NAME]) {
    const ArchModel *a = &m->p->arch;
    WeightOrigin w = *o;
    if (!a->both_ways) return weights_name_mlx(m->family->names, "model.", &w, out);
    if (w.role == ROLE_CLASS_DENSE) w.role = ROLE_POOLER;
    if (w.role == ROLE_CLASS_OUT) w.role = ROLE_CLASS;
    const char *prefix = a->n_labels ? m->family->hf_labels_prefix : NULL;
    return weights_name_mlx(m->family->names, prefix ? prefix : "", &w, out);
}

static bool name_item(Mlx *m, size_t i, Err *err) {
    ConvertPlan *p = m->p;
    ConvertItem *it = &p->items[i];
    const WeightOrigin *o = p->origins[i];
    char module[WEIGHTS_MAX_NAME];
    if (!it->is_named && !family_name(m, o, module))
        return err_set(err, ERR_UNSUPPORTED, "%s has no name in an MLX checkpoint",
                       it->parts[0].name);
    Str path = it->is_named ? it->module : arena_dup(p->a, str_c(module));
    if (!path.p) return err_nomem(err, "a tensor's name");
    it->first = m->n_tensors;
    it->is_mlx = is_quantized(m, it, o);
    it->dtype = convertplan_float(p, it);
    p->report->n_tensors++;
    if (!it->is_mlx) {
        bool is_parameter = m->family && (o->role == ROLE_SINKS || o->role == ROLE_SELECT_BIAS);
        const char *suffix = o->n_experts && it->is_vector ? ".bias" : o->suffix;
        if (is_parameter) suffix = ""; /* a module in GGUF files only */
        if (it->is_named) suffix = it->suffix;
        if (!add_tensor(m, it, path, suffix, it->dtype, 0, err)) return false;
        it->tensor.name = path;
        return true;
    }
    p->report->n_quantized++;
    it->tensor.name = path;
    it->mlx = m->base;
    it->mlx.scale_dtype = it->dtype;
    if (m->recipe && wants_more(m, o)) it->mlx.bits = m->recipe->high;
    uint64_t w, s, b;
    if (!encode_mlx_bytes(&it->mlx, it->k, &w, &s, &b, err)) return false;
    DType scale = b ? it->dtype : DTYPE_U8;
    uint64_t columns = s / dtype_info(scale)->block_bytes;
    return add_tensor(m, it, path, ".weight", DTYPE_U32, w / 4, err) &&
           add_tensor(m, it, path, ".scales", scale, columns, err) &&
           (!b || add_tensor(m, it, path, ".biases", scale, columns, err));
}

static const char *mode_name(QFormat f) {
    return f == QFORMAT_MLX_AFFINE  ? "affine"
           : f == QFORMAT_MLX_MXFP4 ? "mxfp4"
           : f == QFORMAT_MLX_MXFP8 ? "mxfp8"
                                    : "nvfp4";
}

static void put_settings(JsonWriter *w, const EncodeMlx *e) {
    bool affine = e->format == QFORMAT_MLX_AFFINE;
    json_w_key(w, STR("group_size"));
    json_w_u64(w, affine ? e->group : e->format == QFORMAT_MLX_NVFP4 ? 16 : 32);
    json_w_key(w, STR("bits"));
    json_w_u64(w, affine ? e->bits : e->format == QFORMAT_MLX_MXFP8 ? 8 : 4);
    json_w_key(w, STR("mode"));
    json_w_str(w, str_c(mode_name(e->format)));
}

static void put_quantization(const Mlx *m, JsonWriter *w) {
    json_w_object(w);
    put_settings(w, &m->base);
    for (size_t i = 0; i < m->p->n_items; i++) {
        const ConvertItem *it = &m->p->items[i];
        bool is_same = it->mlx.bits == m->base.bits;
        if (!it->is_mlx || is_same) continue;
        json_w_key(w, it->tensor.name);
        json_w_object(w);
        put_settings(w, &it->mlx);
        json_w_end(w);
    }
    json_w_end(w);
}

static const char *const GONE[] = {"quantization", "quantization_config", "compression_config"};

/* The members of the input's config, but what is said of its quantization. */
static void put_members(const Mlx *m, const Json *c, bool inside, JsonWriter *w) {
    static const char *const TYPES[] = {"torch_dtype", "dtype"};
    DType t = m->p->o->dtype;
    for (size_t i = 0; i < c->n; i++) {
        Str key = c->items[i].key;
        bool gone = false, type = false;
        for (size_t k = 0; k < 3; k++) gone = gone || str_eqc(key, GONE[k]);
        for (size_t k = 0; k < 2; k++) type = type || str_eqc(key, TYPES[k]);
        if (gone) continue;
        json_w_key(w, key);
        if (type && t != DTYPE_NONE) {
            json_w_str(w, str_c(convert_dtype_name(t)));
        } else if (!inside && str_eqc(key, "text_config") && json_is(&c->items[i], JSON_OBJECT)) {
            json_w_object(w);
            put_members(m, &c->items[i], true, w);
            json_w_end(w);
        } else {
            json_w_tree(w, &c->items[i]);
        }
    }
}

static bool write_config(const Mlx *m, const OutDir *d, Err *err) {
    Buf text = {0}, path = {0};
    JsonWriter w = {.out = &text, .indent = 4};
    bool ok = true;
    json_w_object(&w);
    if (m->family)
        ok = convert_config(m->p, m->tokenizer, m->family, &w, err);
    else
        put_members(m, m->p->ck->config.json, false, &w);
    for (size_t k = 0; k < 2 && !m->p->o->plain; k++) {
        json_w_key(&w, str_c(GONE[k]));
        put_quantization(m, &w);
    }
    json_w_end(&w);
    buf_putc(&text, '\n');
    buf_putf(&path, "%s/config.json", d->temporary);
    ok = ok && buf_check(&text, "config.json", err) &&
         os_write_file(buf_cstr(&path), buf_str(&text), err);
    buf_deinit(&text);
    buf_deinit(&path);
    return ok;
}

static bool open_tensors(const Mlx *m, const OutDir *d, SafetensorsOut *st, Err *err) {
    uint64_t shard = m->p->o->shard_bytes ? m->p->o->shard_bytes : SHARD_BYTES;
    return safetensors_write_open(st, d->temporary, m->tensors, m->n_tensors, shard, m->p->a, err);
}

static bool write_tensors(const Mlx *m, const OutDir *d, Err *err) {
    ConvertPlan *p = m->p;
    SafetensorsOut st = {0};
    const ConvertSink sink = {.safetensors = &st};
    bool ok = open_tensors(m, d, &st, err) &&
              convert_run(p->ck, p->items, p->n_items, &sink, p->o, err) &&
              safetensors_write_finish(&st, err);
    safetensors_write_drop(&st);
    p->report->bytes_out = st.total_bytes;
    return ok;
}

static bool name_items(Mlx *m, Err *err) {
    m->n_tensors = 0;
    m->p->report->n_tensors = m->p->report->n_quantized = m->p->report->n_odd = 0;
    for (size_t i = 0; i < m->p->n_items; i++)
        if (!name_item(m, i, err)) return false;
    return true;
}

/* ---- from a GGUF ---- */

/* Some layers keep other numbers there than elsewhere. */
static bool may_come_from_gguf(const ConvertPlan *p, Err *err) {
    for (uint32_t i = 0; i < p->arch.n_layers && p->arch.layers; i++)
        if (p->arch.layers[i].mixer != MIXER_ATTN)
            return err_set(
                err, ERR_UNSUPPORTED,
                "layer %u of this GGUF is no plain attention: MLX checkpoints are made of "
                "models whose layers all are",
                i);
    return true;
}

/* Config, heads of files: does a reader make the same program of them? Then norms become what its
 * family adds to. */
static bool outline(Mlx *m, const OutDir *d, Err *err) {
    ConvertPlan *p = m->p;
    SafetensorsOut st = {0};
    ArchModel reader;
    if (!name_items(m, err) || !write_config(m, d, err)) return false;
    const ConvertSink sink = {.safetensors = &st};
    const ConvertItem *values = p->items + (p->n_items - p->n_values);
    bool ok = open_tensors(m, d, &st, err) &&
              (!p->n_values || convert_run(p->ck, values, p->n_values, &sink, p->o, err)) &&
              safetensors_write_holes(&st, err) && safetensors_write_finish(&st, err);
    safetensors_write_drop(&st);
    return ok && convert_check(p, d->temporary, &reader, err);
}

/* The reader made something else of what was written, or nothing. */
static bool is_misread(const Err *e) {
    return e->kind == ERR_UNSUPPORTED || e->kind == ERR_CORRUPT || e->kind == ERR_INPUT;
}

static bool misread(const Err *why, Err *err) {
    if (err) *err = *why;
    if (!is_misread(why)) return false;
    if (err) err->kind = ERR_UNSUPPORTED;
    return err_wrap(err, "what would be written is not this model");
}

static bool write_all(Mlx *m, OutDir *d, Err *err) {
    Err why = {0};
    if (!outline(m, d, &why)) return misread(&why, err);
    return write_tensors(m, d, err) && outdir_copy(d, m->p->ck, m->p->a, err) &&
           outdir_finish(d, m->p->a, err);
}

static bool among(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (str_eqc(str_c(*names), name)) return true;
    return false;
}

/* Several families may share a form of GGUF: the first whose config says all of this model. */
static bool choose_family(Mlx *m, const OutDir *d, Err *err) {
    const Arch *own = m->p->arch.arch;
    size_t n;
    const Arch *const *all = arch_list(&n);
    Err why = {0}, other = {0};
    m->family = own;
    if (outline(m, d, &why)) return true;
    for (size_t i = 0; i < n && is_misread(&why); i++) {
        if (all[i] == own || !all[i]->gguf_as || !among(own->gguf, all[i]->gguf_as)) continue;
        m->family = all[i];
        if (outline(m, d, &other)) return true;
    }
    return misread(&why, err);
}

static bool load_tokenizer(Mlx *m, Err *err) {
    Err why = {0};
    if (tokenizer_load_checkpoint(m->p->ck, &m->tokenizer, &why)) return true;
    m->tokenizer = NULL;
    if (why.kind == ERR_NOT_FOUND) return true;
    if (err) *err = why;
    return false;
}

static bool write_from_gguf(Mlx *m, OutDir *d, Err *err) {
    bool ok = may_come_from_gguf(m->p, err) && load_tokenizer(m, err) &&
              convert_tokenizer(m->p, m->tokenizer, d, err) && choose_family(m, d, err) &&
              write_tensors(m, d, err) && outdir_finish(d, m->p->a, err);
    tokenizer_free(m->tokenizer);
    return ok;
}

bool convert_to_mlx(ConvertPlan *p, const char *out, Err *err) {
    Mlx m = {.p = p};
    OutDir d = {0};
    bool from_gguf = p->ck->kind == CKPT_GGUF;
    if (!settings(&m, err)) return false;
    m.tensors = arena_array(p->a, CkptTensor, 3 * p->n_items + 1);
    if (!m.tensors) return err_nomem(err, "a list of tensors");
    bool ok = outdir_open(&d, out, p->o->force, p->a, err) &&
              (from_gguf ? write_from_gguf(&m, &d, err) : write_all(&m, &d, err));
    outdir_drop(&d, p->a);
    return ok;
}
