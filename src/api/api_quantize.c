/* mlxcel_quantize: options as words to those of task/convert. */
#include <string.h>

#include "api/api.h"
#include "hub/hub_find.h"
#include "task/convert.h"

mlxcel_quantize_options mlxcel_quantize_options_default(void) {
    return (mlxcel_quantize_options){.size = sizeof(mlxcel_quantize_options), .mode = "affine"};
}

static bool mode_parse(const char *name, QFormat *out, Err *err) {
    static const struct {
        const char *name;
        QFormat format;
    } MODES[] = {{"affine", QFORMAT_MLX_AFFINE},
                 {"mxfp4", QFORMAT_MLX_MXFP4},
                 {"mxfp8", QFORMAT_MLX_MXFP8},
                 {"nvfp4", QFORMAT_MLX_NVFP4}};
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++) {
        if (!str_eqc(str_c(name), MODES[i].name)) continue;
        *out = MODES[i].format;
        return true;
    }
    return err_set(err, ERR_INPUT, "mode \"%.40s\"; affine, mxfp4, mxfp8 and nvfp4 are accepted",
                   name);
}

static bool dtype_parse(const char *name, DType *out, Err *err) {
    static const struct {
        const char *name;
        DType type;
    } TYPES[] = {{"float16", DTYPE_F16}, {"f16", DTYPE_F16},     {"bfloat16", DTYPE_BF16},
                 {"bf16", DTYPE_BF16},   {"float32", DTYPE_F32}, {"f32", DTYPE_F32}};
    *out = DTYPE_NONE;
    for (size_t i = 0; name && i < sizeof TYPES / sizeof *TYPES; i++)
        if (str_eqc(str_c(name), TYPES[i].name)) *out = TYPES[i].type;
    return !name || *out != DTYPE_NONE ||
           err_set(err, ERR_INPUT, "dtype \"%.40s\"; float16, bfloat16 and float32 are accepted",
                   name);
}

typedef struct Progress {
    mlxcel_progress_fn *fn;
    void *ctx;
} Progress;

static bool progress(void *ctx, Str tensor, uint64_t done, uint64_t total) {
    Progress *p = ctx;
    char name[256];
    size_t n = tensor.n < sizeof name ? tensor.n : sizeof name - 1;
    if (n) memcpy(name, tensor.p, n);
    name[n] = 0;
    return p->fn(p->ctx, name, done, total);
}

static bool options_parse(const mlxcel_quantize_options *o, ConvertOptions *out, Err *err) {
    *out = (ConvertOptions){.kind = o->gguf ? CONVERT_GGUF : CONVERT_MLX,
                            .plain = o->dequantize,
                            .predicate = o->predicate,
                            .gguf_type = o->gguf,
                            .force = o->force,
                            .n_threads = o->threads};
    if (o->gguf && (o->dequantize || o->predicate || o->bits || o->group_size))
        return err_set(err, ERR_INPUT,
                       "bits, group size, predicate and dequantize do not go with a GGUF type");
    if (o->dequantize && (o->predicate || o->bits || o->group_size))
        return err_set(err, ERR_INPUT,
                       "bits, group size and predicate do not go with dequantizing");
    if (o->bits < 0 || o->group_size < 0)
        return err_set(err, ERR_INPUT, "bits %d, group size %d; 0 and more are accepted", o->bits,
                       o->group_size);
    out->bits = (unsigned)o->bits;
    out->group = (unsigned)o->group_size;
    return mode_parse(o->mode ? o->mode : "affine", &out->mode, err) &&
           dtype_parse(o->dtype, &out->dtype, err);
}

bool mlxcel_quantize(const char *model, const char *out, const mlxcel_quantize_options *options,
                     mlxcel_progress_fn *fn, void *ctx, mlxcel_quantize_report *report,
                     mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Str at;
    ConvertOptions o;
    ConvertReport r = {0};
    Progress p = {.fn = fn, .ctx = ctx};
    mlxcel_quantize_options all = mlxcel_quantize_options_default();
    if (options) memcpy(&all, options, options->size < sizeof all ? options->size : sizeof all);
    bool ok = options_parse(&all, &o, &err) && hub_find(str_c(model), &a, &at, &err);
    if (fn) {
        o.progress = progress;
        o.ctx = &p;
    }
    ok = ok && convert_checkpoint(at.p, out, &o, &r, &err);
    arena_deinit(&a);
    if (!ok) return api_fail(error, &err);
    if (report)
        *report = (mlxcel_quantize_report){.n_tensors = r.n_tensors,
                                           .n_quantized = r.n_quantized,
                                           .n_odd = r.n_odd,
                                           .bytes_in = r.bytes_in,
                                           .bytes_out = r.bytes_out,
                                           .n_weights = r.n_weights,
                                           .was_quantized = r.was_quantized};
    return true;
}
