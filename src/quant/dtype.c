#include "quant/dtype.h"

#include <stddef.h>

/* Plain elements: {name, safetensors name, GGUF id, 1, bytes, float?, not blocked}. */
#define PLAIN(T, st, gg, bytes, flt) [DTYPE_##T] = {#T, st, gg, 1, bytes, flt, false}
#define BLOCK(T, gg, elements, bytes) [DTYPE_##T] = {#T, NULL, gg, elements, bytes, false, true}

static const DTypeInfo dtypes[DTYPE_COUNT] = {
    [DTYPE_NONE] = {"none", NULL, -1, 1, 0, false, false},
    PLAIN(F64, "F64", 28, 8, true),
    PLAIN(F32, "F32", 0, 4, true),
    PLAIN(F16, "F16", 1, 2, true),
    PLAIN(BF16, "BF16", 30, 2, true),
    PLAIN(I64, "I64", 27, 8, false),
    PLAIN(U64, "U64", -1, 8, false),
    PLAIN(I32, "I32", 26, 4, false),
    PLAIN(U32, "U32", -1, 4, false),
    PLAIN(I16, "I16", 25, 2, false),
    PLAIN(U16, "U16", -1, 2, false),
    PLAIN(I8, "I8", 24, 1, false),
    PLAIN(U8, "U8", -1, 1, false),
    PLAIN(BOOL, "BOOL", -1, 1, false),
    PLAIN(F8_E4M3, "F8_E4M3", -1, 1, false),
    PLAIN(F8_E5M2, "F8_E5M2", -1, 1, false),
    PLAIN(F8_E8M0, "F8_E8M0", -1, 1, false),
    BLOCK(Q4_0, 2, 32, 18),
    BLOCK(Q4_1, 3, 32, 20),
    BLOCK(Q5_0, 6, 32, 22),
    BLOCK(Q5_1, 7, 32, 24),
    BLOCK(Q8_0, 8, 32, 34),
    BLOCK(Q1_0, 41, 128, 18),
    BLOCK(Q2_0, 42, 64, 18),
    BLOCK(Q2_K, 10, 256, 84),
    BLOCK(Q3_K, 11, 256, 110),
    BLOCK(Q4_K, 12, 256, 144),
    BLOCK(Q5_K, 13, 256, 176),
    BLOCK(Q6_K, 14, 256, 210),
    BLOCK(IQ4_NL, 20, 32, 18),
    BLOCK(IQ4_XS, 23, 256, 136),
    BLOCK(IQ2_XXS, 16, 256, 66),
    BLOCK(IQ2_XS, 17, 256, 74),
    BLOCK(IQ2_S, 22, 256, 82),
    BLOCK(IQ3_XXS, 18, 256, 98),
    BLOCK(IQ3_S, 21, 256, 110),
    BLOCK(IQ1_S, 19, 256, 50),
    BLOCK(IQ1_M, 29, 256, 56),
    BLOCK(MXFP4, 39, 32, 17),
    BLOCK(NVFP4, 40, 64, 36),
    BLOCK(TQ1_0, 34, 256, 54),
    BLOCK(TQ2_0, 35, 256, 66),
};

const DTypeInfo *dtype_info(DType t) { return &dtypes[(unsigned)t < DTYPE_COUNT ? t : DTYPE_NONE]; }

DType dtype_from_safetensors(Str name) {
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (dtypes[t].safetensors && str_eqc(name, dtypes[t].safetensors)) return (DType)t;
    return DTYPE_NONE;
}

DType dtype_from_ggml(uint32_t id) {
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (dtypes[t].ggml_type >= 0 && (uint32_t)dtypes[t].ggml_type == id) return (DType)t;
    return DTYPE_NONE;
}

bool dtype_bytes(DType t, uint64_t n_elements, uint64_t row_elements, uint64_t *out, Err *err) {
    const DTypeInfo *d = dtype_info(t);
    if (d->block_bytes == 0) return err_set(err, ERR_INTERNAL, "size asked for type %s", d->name);
    if (n_elements == 0) {
        *out = 0;
        return true;
    }
    if (row_elements == 0 || row_elements % d->block_elements != 0)
        return err_set(err, ERR_CORRUPT, "rows of %llu %s elements are not whole blocks of %u",
                       (unsigned long long)row_elements, d->name, d->block_elements);
    if (n_elements % row_elements != 0)
        return err_set(err, ERR_CORRUPT, "%llu elements are not whole rows of %llu",
                       (unsigned long long)n_elements, (unsigned long long)row_elements);
    if (__builtin_mul_overflow(n_elements / d->block_elements, (uint64_t)d->block_bytes, out))
        return err_set(err, ERR_LIMIT, "%llu %s elements have more bytes than 64 bits can count",
                       (unsigned long long)n_elements, d->name);
    return true;
}
