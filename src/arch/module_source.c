#include "arch/module_source.h"

#include <stdio.h>
#include <string.h>

#include "json/json.h"

enum { MAX_TENSOR_NAME = 512, MAX_STATE_BYTES = 1 << 16 };

static const char *const MATRIX_SUFFIXES[] = {".weight", ".qweight", ".weight_packed"};

/* Beside a matrix: parts of the formats, and what was recorded for the run-time quantization of
 * activations. */
static const char *const SIDE_SUFFIXES[] = {
    ".scales",
    ".biases",
    ".global_scale",
    ".qzeros",
    ".g_idx",
    ".weight_scale",
    ".weight_scale_inv",
    ".weight_scale_2",
    ".weight_zero_point",
    ".weight_shape",
    ".weight_g_idx",
    ".weight_global_scale",
    ".weight.absmax",
    ".weight.quant_map",
    ".weight.nested_absmax",
    ".weight.nested_quant_map",
    ".weight.quant_state.bitsandbytes__nf4",
    ".weight.quant_state.bitsandbytes__fp4",
    ".SCB",
    ".weight_format",
};

static const char *const CALIBRATION_SUFFIXES[] = {
    ".input_scale",      ".input_global_scale",
    ".input_zero_point", ".output_scale",
    ".k_scale",          ".v_scale",
    ".q_scale",          ".kv_scale",
    ".k_zero_point",     ".v_zero_point",
    ".q_zero_point",     ".activation_scale",
    ".qscale_act",
};

/* The scale of one-byte floats and of DeepSeek's fp4, in the order of preference: of most releases,
 * of DeepSeek-V3's, V4's and Mistral's. */
static const char *const FLOAT_SCALES[] = {".weight_scale", ".weight_scale_inv", ".scale",
                                           ".qscale_weight"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const CkptTensor *find(const Checkpoint *ck, Str module, const char *suffix) {
    char name[MAX_TENSOR_NAME];
    int n = snprintf(name, sizeof name, "%.*s%s", (int)module.n, module.p, suffix);
    return module.n < MAX_TENSOR_NAME && n > 0 && n < MAX_TENSOR_NAME
               ? checkpoint_find(ck, str_c(name))
               : NULL;
}

const CkptTensor *modsource_weight(const Checkpoint *ck, Str module) {
    const CkptTensor *t = NULL;
    for (size_t i = 0; i < COUNT(MATRIX_SUFFIXES) && !t; i++)
        t = find(ck, module, MATRIX_SUFFIXES[i]);
    return t;
}

bool modsource_is_calibration(Str tensor_name) {
    for (size_t i = 0; i < COUNT(CALIBRATION_SUFFIXES); i++)
        if (str_ends(tensor_name, str_c(CALIBRATION_SUFFIXES[i]))) return true;
    return false;
}

static void mark(const ModuleFinder *f, const CkptTensor *t) {
    if (t) f->used[t - f->ck->tensors] = true;
}

static void mark_sides(const ModuleFinder *f, Str module) {
    for (size_t i = 0; i < COUNT(SIDE_SUFFIXES); i++)
        mark(f, find(f->ck, module, SIDE_SUFFIXES[i]));
    for (size_t i = 0; i < COUNT(CALIBRATION_SUFFIXES); i++)
        mark(f, find(f->ck, module, CALIBRATION_SUFFIXES[i]));
}

void modsource_ignore(const ModuleFinder *f, Str module) {
    for (size_t i = 0; i < COUNT(MATRIX_SUFFIXES); i++)
        mark(f, find(f->ck, module, MATRIX_SUFFIXES[i]));
    mark(f, find(f->ck, module, ".bias"));
    mark(f, find(f->ck, module, ".scale")); /* GGUF */
    mark_sides(f, module);
}

typedef struct Fetch { /* ctx of a source's reader: which tensor each part of the matrix is */
    const Checkpoint *ck;
    const CkptTensor *part[QPART_COUNT];
} Fetch;

static bool fetch_bytes(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out,
                        Err *err) {
    const Fetch *f = ctx;
    return checkpoint_read(f->ck, f->part[part], from, out, n_bytes, err);
}

/* Dimensions of 1 are nothing to a vector: convolutions over single channels and parameters that
 * are broadcast have some. */
static bool vector_fits(const CkptTensor *ct, uint32_t k, uint32_t cols, Err *err) {
    uint64_t want[2] = {0}, got[CKPT_MAX_DIMS] = {0};
    int n_want = 0, n_got = 0;
    if (cols && k / cols != 1) want[n_want++] = k / cols;
    if ((cols ? cols : k) != 1) want[n_want++] = cols ? cols : k;
    for (int i = 0; i < ct->n_dims; i++)
        if (ct->shape[i] != 1) got[n_got++] = ct->shape[i];
    if (n_got == n_want && !memcmp(got, want, (size_t)n_want * sizeof *want)) return true;
    char text[96];
    ckpt_shape_text(ct, text, sizeof text);
    if (cols)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " has shape %s, the config asks for [%u, %u]",
                       STR_A(ct->name), text, k / cols, cols);
    return err_set(err, ERR_CORRUPT, "tensor " STR_F " has shape %s, the config asks for [%u]",
                   STR_A(ct->name), text, k);
}

static void fetch_locate(void *ctx, QPartId part, int *i_file, uint64_t *at) {
    const CkptTensor *t = ((const Fetch *)ctx)->part[part];
    *i_file = t->i_file;
    *at = t->offset;
}

/* A convolution's kernel: its rows are the outputs, all further dimensions one behind the other. */
static bool is_kernel(const CkptTensor *ct, uint32_t n, uint32_t k) {
    uint64_t rest = 1;
    if (ct->n_dims < 3 || ct->shape[0] != n || !dtype_info(ct->dtype)->is_float) return false;
    for (int i = 1; i < ct->n_dims && rest <= k; i++) rest *= ct->shape[i];
    return rest == k && ct->shape[1] != 1; /* [n, 1, k] is the depthwise form, read as [n, k] */
}

static bool shape_fits(const CkptTensor *ct, uint32_t n_stack, uint32_t n, uint32_t k, Err *err) {
    /* Unused GGUF dimensions are 1. */
    int dims = ct->n_dims;
    uint64_t shape[CKPT_MAX_DIMS] = {0};
    memcpy(shape, ct->shape, sizeof shape);
    const uint64_t *s = shape;
    while (dims > 2 && s[0] == 1) s++, dims--;
    if (n == 1 && dims == 1 && s[0] == k) return true;
    if (n_stack > 1 && ct->n_dims == 3 && ct->shape[0] == n_stack && ct->shape[1] == n / n_stack &&
        ct->shape[2] == k)
        return true;
    if (dims == 2 && s[0] == n && s[1] == k) return true;
    if (is_kernel(ct, n, k)) return true;
    char got[96];
    ckpt_shape_text(ct, got, sizeof got);
    return err_set(err, ERR_CORRUPT, "tensor " STR_F " has shape %s, the config asks for [%u, %u]",
                   STR_A(ct->name), got, n, k);
}

static bool unsupported(const CkptTensor *ct, const char *why, Err *err) {
    return err_set(err, ERR_UNSUPPORTED, "tensor " STR_F " has type %s; %s", STR_A(ct->name),
                   dtype_info(ct->dtype)->name, why);
}

/* ---- which format ---- */

typedef struct Module { /* being put together */
    const ModuleFinder *f;
    Str path;
    const CkptTensor *weight;
    QuantSpec spec;
    QMatrix m;
    Fetch *fetch;
} Module;

static const CkptTensor *side(const Module *mod, const char *suffix) {
    return find(mod->f->ck, mod->path, suffix);
}

static bool mlx_format(const Module *mod, const CkptTensor *scales, QFormat *out, Err *err) {
    if (scales->dtype != DTYPE_U8 && scales->dtype != DTYPE_F8_E8M0) {
        *out = QFORMAT_MLX_AFFINE;
        return true;
    }
    /* Bytes as scales: the three modes differ in bits and group, which the shapes give. */
    uint64_t cols = mod->weight->n_dims ? mod->weight->shape[mod->weight->n_dims - 1] : 0,
             k = mod->m.k;
    uint64_t n_scales = scales->n_dims ? scales->shape[scales->n_dims - 1] : 0;
    *out = cols * 4 == k && n_scales * 32 == k   ? QFORMAT_MLX_MXFP8
           : cols * 8 == k && n_scales * 32 == k ? QFORMAT_MLX_MXFP4
           : cols * 8 == k && n_scales * 16 == k ? QFORMAT_MLX_NVFP4
                                                 : QFORMAT_ROWS;
    if (*out != QFORMAT_ROWS) return true;
    return err_set(
        err, ERR_CORRUPT,
        "tensor " STR_F
        ": %llu words and %llu scales in a row of %llu columns are none of mxfp4, mxfp8 and nvfp4",
        STR_A(mod->weight->name), (unsigned long long)cols, (unsigned long long)n_scales,
        (unsigned long long)k);
}

static const CkptTensor *float_scale(const Module *mod) {
    const CkptTensor *t = NULL;
    for (size_t i = 0; i < COUNT(FLOAT_SCALES) && !t; i++) t = side(mod, FLOAT_SCALES[i]);
    return t;
}

/* Two fp4 to a byte beside matrices of fp8: the layout of compressed-tensors' mxfp4. */
static bool is_packed_fp4(const Module *mod) {
    const CkptTensor *w = mod->weight, *scale = float_scale(mod);
    return mod->f->config->method == QUANT_FP8 && scale && w->n_dims > 1 &&
           (scale->dtype == DTYPE_F8_E8M0 || scale->dtype == DTYPE_U8) &&
           w->shape[w->n_dims - 1] * 2 == mod->m.k;
}

static bool bytes_format(const Module *mod, QFormat *out, Err *err) {
    QuantMethod method = mod->f->config->method;
    const CkptTensor *scale = side(mod, ".weight_scale");
    *out = side(mod, ".weight.absmax")       ? QFORMAT_BNB_NF4
           : is_packed_fp4(mod)              ? QFORMAT_CT_MXFP4
           : side(mod, ".weight_scale_2")    ? QFORMAT_MODELOPT_NVFP4
           : scale && method == QUANT_BITNET ? QFORMAT_BITNET
           /* the same layout under another name */
           : scale && method == QUANT_MODELOPT ? QFORMAT_CT_MXFP4
                                               : QFORMAT_ROWS;
    if (*out != QFORMAT_ROWS) return true;
    return unsupported(mod->weight,
                       "nothing beside it says how to read it (weight_scale_2, weight.absmax, or "
                       "the weight_scale of "
                       "a bitnet or modelopt checkpoint)",
                       err);
}

static bool format_of(const Module *mod, QFormat *out, Err *err) {
    const CkptTensor *w = mod->weight, *scales = side(mod, ".scales");
    QuantMethod method = mod->f->config->method;
    *out = QFORMAT_ROWS;
    if (mod->f->ck->kind == CKPT_GGUF) return true;
    if (str_ends(w->name, STR(".qweight"))) {
        *out = method == QUANT_AWQ ? QFORMAT_AWQ : QFORMAT_GPTQ;
        if (method == QUANT_AWQ || method == QUANT_GPTQ) return true;
        return err_set(err, ERR_UNSUPPORTED,
                       "tensor " STR_F
                       ": the quantization method of the config is %s; gptq or awq is needed",
                       STR_A(w->name), quantmethod_name(method));
    }
    if (str_ends(w->name, STR(".weight_packed"))) {
        *out = w->dtype != DTYPE_U8                ? QFORMAT_CT_PACKED
               : side(mod, ".weight_global_scale") ? QFORMAT_CT_NVFP4
                                                   : QFORMAT_CT_MXFP4;
        return true;
    }
    if (w->dtype == DTYPE_U32 && scales) return mlx_format(mod, scales, out, err);
    if (w->dtype == DTYPE_I8 && is_packed_fp4(mod)) {
        *out = QFORMAT_CT_MXFP4;
        return true;
    }
    if (w->dtype == DTYPE_I8 && side(mod, ".weight_scale")) {
        *out = QFORMAT_CT_INT;
        return true;
    }
    if (w->dtype == DTYPE_I8 && side(mod, ".SCB")) {
        *out = QFORMAT_BNB_INT8;
        return true;
    }
    if (w->dtype == DTYPE_F8_E4M3 || w->dtype == DTYPE_F8_E5M2) {
        *out = QFORMAT_FP8;
        return true;
    }
    if (w->dtype == DTYPE_U8) return bytes_format(mod, out, err);
    return true;
}

/* ---- parts ---- */

static bool part_add(Module *mod, QPartId id, const CkptTensor *t, Err *err) {
    if (!t) return true;
    if (id == QPART_WEIGHT && mod->m.format == QFORMAT_ROWS && is_kernel(t, mod->m.n, mod->m.k)) {
        const uint64_t flat[2] = {mod->m.n, mod->m.k};
        mod->m.part[id] = qpart_of(t->dtype, 2, flat, NULL, t->n_bytes);
        mod->fetch->part[id] = t;
        return true;
    }
    if (t->n_dims > QPART_MAX_DIMS)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " has %d dimensions, at most %d are accepted",
                       STR_A(t->name), t->n_dims, QPART_MAX_DIMS);
    mod->m.part[id] = qpart_of(t->dtype, t->n_dims, t->shape, NULL, t->n_bytes);
    /* scales of blocks as [rows, 1, columns, 1] */
    if (id == QPART_SCALE && t->n_dims == 4 && t->shape[1] == 1 && t->shape[3] == 1) {
        const uint64_t flat[2] = {t->shape[0], t->shape[2]};
        mod->m.part[id] = qpart_of(t->dtype, 2, flat, NULL, t->n_bytes);
    }
    mod->fetch->part[id] = t;
    bool whole = id == QPART_G_IDX || id == QPART_TABLE || id == QPART_NESTED_TABLE;
    /* an odd size is refused with the shapes */
    if (!whole || t->n_bytes > ((uint64_t)mod->m.k + 64) * 8) return true;
    uint8_t *data = arena_array(mod->f->a, uint8_t, t->n_bytes);
    if (!data) return err_nomem(err, "weight table");
    mod->m.part[id].data = data;
    return checkpoint_read(mod->f->ck, t, 0, data, t->n_bytes, err);
}

static const CkptTensor *part_find(const Module *mod, QPartId id) {
    QFormat f = mod->m.format;
    const char *name = qpart_name(f, id);
    if (id == QPART_WEIGHT) return mod->weight;
    if (!name) return NULL;
    /* A second scale of plain rows is GGUF's, for NVFP4 only. */
    if (f == QFORMAT_ROWS && (mod->f->ck->kind != CKPT_GGUF || mod->weight->dtype != DTYPE_NVFP4))
        return NULL;
    char suffix[64];
    snprintf(suffix, sizeof suffix, ".%s", name);
    bool widely = id == QPART_SCALE && (f == QFORMAT_FP8 || f == QFORMAT_CT_MXFP4);
    return widely ? float_scale(mod) : side(mod, suffix);
}

static bool parts_add(Module *mod, Err *err) {
    for (int id = 0; id < QPART_COUNT; id++)
        if (!part_add(mod, (QPartId)id, part_find(mod, (QPartId)id), err)) return false;
    return true;
}

/* ---- what only the config or a side tensor knows ---- */

/* bitsandbytes keeps its block sizes in a JSON text that is a tensor. */
static bool bnb_state(Module *mod, Err *err) {
    const CkptTensor *t = side(mod, ".weight.quant_state.bitsandbytes__nf4");
    if (!t) t = side(mod, ".weight.quant_state.bitsandbytes__fp4");
    if (!t) return true;
    if (t->n_bytes > MAX_STATE_BYTES || t->dtype != DTYPE_U8)
        return unsupported(t, "a text of at most 64 KiB is accepted", err);
    char *text = arena_array(mod->f->a, char, t->n_bytes + 1);
    Json *doc;
    if (!text) return err_nomem(err, "weight table");
    if (!checkpoint_read(mod->f->ck, t, 0, text, t->n_bytes, err)) return false;
    if (!json_parse((Str){text, t->n_bytes}, NULL, mod->f->a, &doc, err))
        return err_wrap(err, STR_F, STR_A(t->name));
    int64_t block = 64, nested = 256;
    double offset = 0;
    const Json *b = json_get(doc, "blocksize"), *nb = json_get(doc, "nested_blocksize"),
               *o = json_get(doc, "nested_offset");
    if ((b && !json_i64(b, &block)) || (nb && !json_i64(nb, &nested)) ||
        (o && !json_f64(o, &offset)) || block < 1 || nested < 1 || block > INT32_MAX ||
        nested > INT32_MAX)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F
                       ": blocksize, nested_blocksize or nested_offset is out of range",
                       STR_A(t->name));
    mod->m.bnb_block = (unsigned)block;
    mod->m.bnb_nested_block = (unsigned)nested;
    mod->m.bnb_nested_offset = (float)offset;
    return true;
}

/* The order of int8 elements: 0 is rows, others were made for a kernel of old. */
static bool bnb_order(const Module *mod, Err *err) {
    const CkptTensor *t = side(mod, ".weight_format");
    uint8_t order = 0;
    if (!t) return true;
    if (t->dtype != DTYPE_U8 || t->n_bytes != 1) return unsupported(t, "one U8 is accepted", err);
    if (!checkpoint_read(mod->f->ck, t, 0, &order, 1, err)) return false;
    return order == 0 || unsupported(t, "it is not 0, and only rows in order are accepted", err);
}

/* compressed-tensors writes the unpacked shape beside the packed one. */
static bool ct_shape_fits(const Module *mod, Err *err) {
    const CkptTensor *t = side(mod, ".weight_shape");
    if (!t) return true;
    int64_t want[2] = {(int64_t)mod->m.n, (int64_t)mod->m.k}, got[2] = {0};
    int32_t got32[2];
    bool narrow = t->dtype == DTYPE_I32 && t->n_bytes == sizeof got32;
    if (!narrow && (t->dtype != DTYPE_I64 || t->n_bytes != sizeof got))
        return unsupported(t, "two I64 are accepted", err);
    if (!checkpoint_read(mod->f->ck, t, 0, narrow ? (void *)got32 : (void *)got, (size_t)t->n_bytes,
                         err))
        return false;
    if (narrow) got[0] = got32[0], got[1] = got32[1];
    if (got[0] == want[0] && got[1] == want[1]) return true;
    return err_set(err, ERR_CORRUPT,
                   "tensor " STR_F " holds [%lld, %lld], the config asks for [%lld, %lld]",
                   STR_A(t->name), (long long)got[0], (long long)got[1], (long long)want[0],
                   (long long)want[1]);
}

/* MLX: bits and group follow from the shapes; a setting for this very module must be the same. */
static bool mlx_agrees(const Module *mod, Err *err) {
    const QuantSpec *s = &mod->spec;
    const CkptTensor *w = mod->weight, *scales = mod->fetch->part[QPART_SCALE];
    if (!s->exact || !scales || !w->n_dims || !scales->n_dims) return true;
    uint64_t k = mod->m.k, cols = w->shape[w->n_dims - 1],
             n_scales = scales->shape[scales->n_dims - 1];
    bool bits = !s->bits || cols * 32 == k * s->bits, group = !s->group || n_scales * s->group == k;
    if (bits && group && s->mode == mod->m.format) return true;
    return err_set(err, ERR_CORRUPT,
                   "tensor " STR_F ": the config says %s, %u bits, groups of %u; %llu words and "
                   "%llu scales in a row of %llu columns "
                   "are not that",
                   STR_A(w->name), qformat_name(s->mode), s->bits, s->group,
                   (unsigned long long)cols, (unsigned long long)n_scales, (unsigned long long)k);
}

static bool settings_add(Module *mod, Err *err) {
    QMatrix *m = &mod->m;
    const QuantConfig *config = mod->f->config;
    const QuantSpec *s = &mod->spec;
    switch (m->format) {
    case QFORMAT_MLX_AFFINE:
    case QFORMAT_MLX_MXFP4:
    case QFORMAT_MLX_MXFP8:
    case QFORMAT_MLX_NVFP4:
        return config->method != QUANT_MLX || mlx_agrees(mod, err);
    case QFORMAT_BNB_NF4:
        return bnb_state(mod, err);
    case QFORMAT_BNB_INT8:
        return bnb_order(mod, err);
    case QFORMAT_FP8:
        m->block_n = s->block_n;
        m->block_k = s->block_k;
        m->group = s->group == QUANT_WHOLE_ROW ? 0 : s->group;
        return !s->bits || s->bits == 8 ||
               err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " has type %s, the config says %u bits (" STR_F ")",
                       STR_A(mod->weight->name), dtype_info(mod->weight->dtype)->name, s->bits,
                       STR_A(s->entry));
    case QFORMAT_BITNET:
        m->bitnet_multiplies = config->bitnet_multiplies;
        return true;
    case QFORMAT_ROWS:
        return true;
    default:
        m->bits = s->bits;
        m->group = s->group == QUANT_WHOLE_ROW ? (unsigned)m->k : s->group;
        m->gptq_v2 = config->gptq_v2;
        return ct_shape_fits(mod, err);
    }
}

static bool source_fill(Module *mod, uint32_t n, uint32_t k, WeightSource *out, Err *err) {
    WForm *form = arena_new(mod->f->a, WForm);
    const char *name = arena_dupz(mod->f->a, mod->weight->name);
    if (!form || !name) return err_nomem(err, "weight table");
    if (!wform_init(form, &mod->m, mod->f->a, err)) {
        const QuantSpec *s = &mod->spec;
        if (!s->exact || !s->bits) return err_wrap(err, "tensor %s", name);
        return err_wrap(err, "tensor %s (%u bits by " STR_F ")", name, s->bits, STR_A(s->entry));
    }
    *out = (WeightSource){.n = n,
                          .k = k,
                          .m = mod->m,
                          .form = form,
                          .fetch = fetch_bytes,
                          .locate = fetch_locate,
                          .ctx = mod->fetch,
                          .name = name};
    return true;
}

static bool module_init(Module *mod, const ModuleFinder *f, Str path, const CkptTensor *weight,
                        uint32_t n, uint32_t k, Err *err) {
    *mod = (Module){.f = f, .path = path, .weight = weight, .m = {.n = n, .k = k}};
    mod->fetch = arena_new(f->a, Fetch);
    if (!mod->fetch) return err_nomem(err, "weight table");
    mod->fetch->ck = f->ck;
    return true;
}

static bool is_plain(const CkptTensor *ct, Err *err) {
    const DTypeInfo *info = dtype_info(ct->dtype);
    return info->is_float || info->is_blocked ||
           unsupported(ct, "floats and GGUF block types are accepted", err);
}

bool modsource_matrix(const ModuleFinder *f, Str module, bool is_table, uint32_t n_stack,
                      uint32_t n, uint32_t k, WeightSource *out, Err *err) {
    const CkptTensor *w = modsource_weight(f->ck, module);
    Module mod;
    if (!w) return err_set(err, ERR_CORRUPT, "tensor " STR_F ".weight is missing", STR_A(module));
    if (!module_init(&mod, f, module, w, n, k, err) || !format_of(&mod, &mod.m.format, err))
        return false;
    if (!quantconfig_module(f->config, module, is_table ? "Embedding" : "Linear", &mod.spec, err))
        return false;
    QFormat format = mod.m.format;
    if (format == QFORMAT_ROWS && !is_plain(w, err)) return false;
    bool unpacked = format == QFORMAT_ROWS || format == QFORMAT_FP8 || format == QFORMAT_CT_INT ||
                    format == QFORMAT_BNB_INT8;
    if (unpacked && !shape_fits(w, n_stack, n, k, err)) return false;
    if (!parts_add(&mod, err) || !settings_add(&mod, err) || !source_fill(&mod, n, k, out, err))
        return false;
    mark(f, w);
    if (format != QFORMAT_ROWS) mark_sides(f, module);
    mark(f, mod.fetch->part[QPART_SCALE]); /* whatever its name */
    mark(f, mod.fetch->part[QPART_GLOBAL]);
    return true;
}

bool modsource_vector(const ModuleFinder *f, const CkptTensor *ct, uint32_t k, uint32_t cols,
                      bool upright, WeightSource *out, Err *err) {
    Module mod;
    const uint64_t shape[2] = {upright ? k : 1, upright ? 1 : k};
    if (!is_plain(ct, err) || !vector_fits(ct, k, cols, err)) return false;
    if (!module_init(&mod, f, STR_NONE, ct, (uint32_t)shape[0], (uint32_t)shape[1], err))
        return false;
    mod.fetch->part[QPART_WEIGHT] = ct;
    mod.m.part[QPART_WEIGHT] = qpart_of(ct->dtype, 2, shape, NULL, ct->n_bytes);
    mark(f, ct);
    return source_fill(&mod, (uint32_t)shape[0], (uint32_t)shape[1], out, err);
}

/* The shape [a, b, c], or [a, b] when c is 0; one matrix may be [b, c]. */
static bool stack_shape(const CkptTensor *ct, uint32_t a, uint32_t b, uint32_t c, Err *err) {
    bool flat = c == 0;
    if (a == 1 && !flat && ct->n_dims == 2 && ct->shape[0] == b && ct->shape[1] == c) return true;
    if (ct->n_dims == (flat ? 2 : 3) && ct->shape[0] == a && ct->shape[1] == b &&
        (flat || ct->shape[2] == c))
        return true;
    char got[96];
    ckpt_shape_text(ct, got, sizeof got);
    if (flat || a == 1)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " has shape %s, the config asks for [%u, %u]",
                       STR_A(ct->name), got, flat ? a : b, flat ? b : c);
    return err_set(err, ERR_CORRUPT,
                   "tensor " STR_F " has shape %s, the config asks for [%u, %u, %u]",
                   STR_A(ct->name), got, a, b, c);
}

static bool stack_mxfp4(const ModuleFinder *f, Str name, const CkptTensor *blocks, uint32_t n_rows,
                        uint32_t k, WeightSource *out, Err *err) {
    const CkptTensor *scales = find(f->ck, name, "_scales");
    Module mod;
    if (!scales)
        return err_set(err, ERR_CORRUPT, "tensor " STR_F "_scales is missing", STR_A(name));
    if (!module_init(&mod, f, name, blocks, n_rows, k, err)) return false;
    mod.m.format = QFORMAT_GPTOSS_MXFP4;
    if (!part_add(&mod, QPART_WEIGHT, blocks, err) || !part_add(&mod, QPART_SCALE, scales, err))
        return false;
    mark(f, blocks);
    mark(f, scales);
    return source_fill(&mod, n_rows, k, out, err);
}

bool modsource_stack(const ModuleFinder *f, Str name, uint32_t n_stack, uint32_t n, uint32_t k,
                     WeightSource *out, Err *err) {
    const CkptTensor *blocks = find(f->ck, name, "_blocks"), *ct = find(f->ck, name, "");
    Module mod;
    if (blocks) return stack_mxfp4(f, name, blocks, n_stack * n, k, out, err);
    if (!ct) return err_set(err, ERR_CORRUPT, "tensor " STR_F " is missing", STR_A(name));
    if (!dtype_info(ct->dtype)->is_float)
        return unsupported(ct, "floats, or _blocks and _scales beside it, are accepted", err);
    if (!stack_shape(ct, n_stack, k, n, err) ||
        !module_init(&mod, f, name, ct, n_stack * k, n, err))
        return false;
    const uint64_t shape[2] = {(uint64_t)n_stack * k, n};
    mod.fetch->part[QPART_WEIGHT] = ct;
    mod.m.part[QPART_WEIGHT] = qpart_of(ct->dtype, 2, shape, NULL, ct->n_bytes);
    mark(f, ct);
    if (!source_fill(&mod, n, k, out, err)) return false;
    out->transposed = true;
    return true;
}

static bool is_integer(const CkptTensor *ct, Err *err) {
    return ct->dtype == DTYPE_I64 || ct->dtype == DTYPE_I32 ||
           unsupported(ct, "I32 and I64 are accepted", err);
}

/* A parameter of one-byte floats: NAME and NAME_scale_inv, of the whole, of each item or of blocks. */
static bool stack_fp8(const ModuleFinder *f, Str name, const CkptTensor *ct, uint32_t n_rows,
                      uint32_t k, WeightSource *out, Err *err) {
    const CkptTensor *scale = find(f->ck, name, "_scale_inv");
    Module mod;
    if (!scale) scale = find(f->ck, name, "_scale");
    if (!module_init(&mod, f, name, ct, n_rows, k, err)) return false;
    mod.m.format = QFORMAT_FP8;
    if (!quantconfig_module(f->config, name, "Linear", &mod.spec, err) ||
        !part_add(&mod, QPART_WEIGHT, ct, err) || !part_add(&mod, QPART_SCALE, scale, err) ||
        !settings_add(&mod, err))
        return false;
    mark(f, ct);
    mark(f, scale);
    mark(f, find(f->ck, name, "_activation_scale"));
    mark(f, find(f->ck, name, "_input_scale"));
    return source_fill(&mod, n_rows, k, out, err);
}

bool modsource_stack_rows(const ModuleFinder *f, Str name, bool integers, uint32_t n_stack,
                          uint32_t n, uint32_t k, WeightSource *out, Err *err) {
    const CkptTensor *ct = find(f->ck, name, "");
    Module mod;
    const uint64_t shape[2] = {(uint64_t)n_stack * n, k};
    if (!ct) return err_set(err, ERR_CORRUPT, "tensor " STR_F " is missing", STR_A(name));
    bool fp8 = ct->dtype == DTYPE_F8_E4M3 || ct->dtype == DTYPE_F8_E5M2;
    if (fp8 && !integers)
        return stack_shape(ct, n_stack, n, k, err) &&
               stack_fp8(f, name, ct, n_stack * n, k, out, err);
    if (!(integers ? is_integer : is_plain)(ct, err) || !stack_shape(ct, n_stack, n, k, err))
        return false;
    if (!module_init(&mod, f, name, ct, n_stack * n, k, err)) return false;
    mod.fetch->part[QPART_WEIGHT] = ct;
    mod.m.part[QPART_WEIGHT] = qpart_of(ct->dtype, 2, shape, NULL, ct->n_bytes);
    mark(f, ct);
    return source_fill(&mod, n_stack * n, k, out, err);
}

bool modsource_stack_vector(const ModuleFinder *f, Str name, uint32_t n_stack, uint32_t n,
                            WeightSource *out, Err *err) {
    const CkptTensor *ct = find(f->ck, name, "");
    Module mod;
    const uint64_t shape[2] = {(uint64_t)n_stack * n, 1};
    if (!ct) return err_set(err, ERR_CORRUPT, "tensor " STR_F " is missing", STR_A(name));
    if (!is_plain(ct, err) || !stack_shape(ct, n_stack, n, 0, err)) return false;
    if (!module_init(&mod, f, name, ct, (uint32_t)shape[0], 1, err)) return false;
    mod.fetch->part[QPART_WEIGHT] = ct;
    mod.m.part[QPART_WEIGHT] = qpart_of(ct->dtype, 2, shape, NULL, ct->n_bytes);
    mark(f, ct);
    return source_fill(&mod, (uint32_t)shape[0], 1, out, err);
}
