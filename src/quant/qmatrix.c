#include "quant/qmatrix.h"

#include <string.h>

#include "quant/forms.h"

static const char *const format_names[QFORMAT_COUNT] = {
    [QFORMAT_ROWS] = "rows",
    [QFORMAT_MLX_AFFINE] = "mlx affine",
    [QFORMAT_MLX_MXFP4] = "mlx mxfp4",
    [QFORMAT_MLX_MXFP8] = "mlx mxfp8",
    [QFORMAT_MLX_NVFP4] = "mlx nvfp4",
    [QFORMAT_GPTQ] = "gptq",
    [QFORMAT_AWQ] = "awq",
    [QFORMAT_CT_PACKED] = "compressed-tensors pack-quantized",
    [QFORMAT_CT_INT] = "compressed-tensors int-quantized",
    [QFORMAT_CT_NVFP4] = "compressed-tensors nvfp4",
    [QFORMAT_CT_MXFP4] = "compressed-tensors mxfp4",
    [QFORMAT_FP8] = "fp8",
    [QFORMAT_MODELOPT_NVFP4] = "modelopt nvfp4",
    [QFORMAT_GPTOSS_MXFP4] = "gpt-oss mxfp4",
    [QFORMAT_BITNET] = "bitnet",
    [QFORMAT_BNB_NF4] = "bitsandbytes nf4",
    [QFORMAT_BNB_INT8] = "bitsandbytes int8",
};

/* Tensor names (or suffixes) in checkpoints. */
static const char *const part_names[QFORMAT_COUNT][QPART_COUNT] = {
    [QFORMAT_ROWS] = {[QPART_WEIGHT] = "weight", [QPART_GLOBAL] = "scale"},
    [QFORMAT_MLX_AFFINE] =
        {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "scales", [QPART_ZERO] = "biases"},
    [QFORMAT_MLX_MXFP4] = {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "scales"},
    [QFORMAT_MLX_MXFP8] = {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "scales"},
    [QFORMAT_MLX_NVFP4] =
        {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "scales", [QPART_GLOBAL] = "global_scale"},
    [QFORMAT_GPTQ] = {[QPART_WEIGHT] = "qweight",
                      [QPART_SCALE] = "scales",
                      [QPART_ZERO] = "qzeros",
                      [QPART_G_IDX] = "g_idx"},
    [QFORMAT_AWQ] = {[QPART_WEIGHT] = "qweight", [QPART_SCALE] = "scales", [QPART_ZERO] = "qzeros"},
    [QFORMAT_CT_PACKED] = {[QPART_WEIGHT] = "weight_packed",
                           [QPART_SCALE] = "weight_scale",
                           [QPART_ZERO] = "weight_zero_point",
                           [QPART_G_IDX] = "weight_g_idx"},
    [QFORMAT_CT_INT] = {[QPART_WEIGHT] = "weight",
                        [QPART_SCALE] = "weight_scale",
                        [QPART_ZERO] = "weight_zero_point"},
    [QFORMAT_CT_NVFP4] = {[QPART_WEIGHT] = "weight_packed",
                          [QPART_SCALE] = "weight_scale",
                          [QPART_GLOBAL] = "weight_global_scale"},
    [QFORMAT_CT_MXFP4] = {[QPART_WEIGHT] = "weight_packed", [QPART_SCALE] = "weight_scale"},
    [QFORMAT_FP8] = {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "weight_scale"},
    [QFORMAT_MODELOPT_NVFP4] = {[QPART_WEIGHT] = "weight",
                                [QPART_SCALE] = "weight_scale",
                                [QPART_GLOBAL] = "weight_scale_2"},
    [QFORMAT_GPTOSS_MXFP4] = {[QPART_WEIGHT] = "blocks", [QPART_SCALE] = "scales"},
    [QFORMAT_BITNET] = {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "weight_scale"},
    [QFORMAT_BNB_NF4] = {[QPART_WEIGHT] = "weight",
                         [QPART_SCALE] = "weight.absmax",
                         [QPART_TABLE] = "weight.quant_map",
                         [QPART_NESTED_SCALE] = "weight.nested_absmax",
                         [QPART_NESTED_TABLE] = "weight.nested_quant_map"},
    [QFORMAT_BNB_INT8] = {[QPART_WEIGHT] = "weight", [QPART_SCALE] = "SCB"},
};

const char *qformat_name(QFormat f) {
    return (unsigned)f < QFORMAT_COUNT ? format_names[f] : "unknown";
}

const char *qpart_name(QFormat f, QPartId id) {
    return (unsigned)f < QFORMAT_COUNT && (unsigned)id < QPART_COUNT ? part_names[f][id] : NULL;
}

QPart qpart_of(DType t, int n_dims, const uint64_t *shape, const void *data, uint64_t n_bytes) {
    QPart p = {.dtype = t, .n_dims = n_dims, .data = data, .n_bytes = n_bytes};
    if (n_dims > 0 && n_dims <= QPART_MAX_DIMS)
        memcpy(p.shape, shape, (size_t)n_dims * sizeof *shape);
    return p;
}

bool qpart_check(const QMatrix *m, QPartId id, Err *err) {
    const QPart *p = &m->part[id];
    const char *name = part_names[m->format][id];
    if (!name)
        return err_set(err, ERR_INTERNAL, "%s has no part %d", qformat_name(m->format), (int)id);
    if (p->n_dims < 0 || p->n_dims > QPART_MAX_DIMS)
        return err_set(err, ERR_UNSUPPORTED, "%s has %d dimensions, at most %d are accepted", name,
                       p->n_dims, QPART_MAX_DIMS);
    uint64_t count = 1, total;
    for (int i = 0; i < p->n_dims; i++)
        if (p->shape[i] == 0 || __builtin_mul_overflow(count, p->shape[i], &count) ||
            count > QMATRIX_MAX_ELEMENTS)
            return err_set(err, ERR_LIMIT,
                           "%s has dimension %d of %llu: 1 to 2^48 elements in all are accepted",
                           name, i, (unsigned long long)p->shape[i]);
    if (!dtype_bytes(p->dtype, count, p->n_dims ? p->shape[p->n_dims - 1] : 1, &total, err))
        return err_wrap(err, "%s", name);
    if (p->n_bytes > total || p->from > total - p->n_bytes)
        return err_set(err, ERR_CORRUPT, "%s: %llu bytes from %llu given, the tensor has %llu",
                       name, (unsigned long long)p->n_bytes, (unsigned long long)p->from,
                       (unsigned long long)total);
    return true;
}

uint64_t qpart_count(const QPart *p) {
    uint64_t n = 1;
    for (int i = 0; i < p->n_dims; i++) n *= p->shape[i];
    return n;
}

uint64_t qpart_cols(const QPart *p) { return p->n_dims ? p->shape[p->n_dims - 1] : 1; }

uint64_t qpart_rows(const QPart *p) { return qpart_count(p) / qpart_cols(p); }

uint64_t qpart_bytes(const QPart *p) {
    const DTypeInfo *d = dtype_info(p->dtype);
    return qpart_count(p) / d->block_elements * d->block_bytes;
}

bool qpart_is(const QMatrix *m, QPartId id, DType a, DType b, DType c, Err *err) {
    DType t = m->part[id].dtype;
    const char *name = part_names[m->format][id];
    if (t == DTYPE_NONE)
        return err_set(err, ERR_CORRUPT, "%s: %s is missing", qformat_name(m->format), name);
    if (t == a || t == b || t == c) return true;
    const char *sep = b == a ? "" : " or ", *sep2 = c == b ? "" : " or ";
    return err_set(err, ERR_UNSUPPORTED, "%s: %s has type %s, accepted is %s%s%s%s%s",
                   qformat_name(m->format), name, dtype_info(t)->name, dtype_info(a)->name, sep,
                   *sep ? dtype_info(b)->name : "", sep2, *sep2 ? dtype_info(c)->name : "");
}

bool qpart_shaped(const QMatrix *m, QPartId id, uint64_t rows, uint64_t cols, Err *err) {
    const QPart *p = &m->part[id];
    if (qpart_rows(p) == rows && qpart_cols(p) == cols) return true;
    return err_set(
        err, ERR_CORRUPT, "%s: %s is %llu x %llu, %llu x %llu is needed for a [%llu, %llu] matrix",
        qformat_name(m->format), part_names[m->format][id], (unsigned long long)qpart_rows(p),
        (unsigned long long)qpart_cols(p), (unsigned long long)rows, (unsigned long long)cols,
        (unsigned long long)m->n, (unsigned long long)m->k);
}
