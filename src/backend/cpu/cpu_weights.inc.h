/* cpu_weights.inc.h: for tests and benchmarks of the cpu backend: weights in the formats that no
 * encoder of ours writes, from random bytes. Include after cpu_rig.inc.h. */
#ifndef MLXCEL_BACKEND_CPU_CPU_WEIGHTS_INC_H
#define MLXCEL_BACKEND_CPU_CPU_WEIGHTS_INC_H

#include "backend/cpu/cpu_rig.inc.h"

/* Where a block keeps its f16 scales (-1: none); other bytes of a block may be anything. IQ1_M
 * spreads one over the tops of four words. */
static RIG_UNUSED void rig_block_scale(DType t, uint8_t *b) {
    static const struct {
        DType t;
        int at[2];
    } D[] = {{DTYPE_Q4_0, {0, -1}},   {DTYPE_Q4_1, {0, 2}},    {DTYPE_Q5_0, {0, -1}},
             {DTYPE_Q5_1, {0, 2}},    {DTYPE_Q8_0, {0, -1}},   {DTYPE_Q1_0, {0, -1}},
             {DTYPE_Q2_0, {0, -1}},   {DTYPE_Q2_K, {80, 82}},  {DTYPE_Q3_K, {108, -1}},
             {DTYPE_Q4_K, {0, 2}},    {DTYPE_Q5_K, {0, 2}},    {DTYPE_Q6_K, {208, -1}},
             {DTYPE_IQ4_NL, {0, -1}}, {DTYPE_IQ4_XS, {0, -1}}, {DTYPE_IQ2_XXS, {0, -1}},
             {DTYPE_IQ2_XS, {0, -1}}, {DTYPE_IQ2_S, {0, -1}},  {DTYPE_IQ3_XXS, {0, -1}},
             {DTYPE_IQ3_S, {0, -1}},  {DTYPE_IQ1_S, {0, -1}},  {DTYPE_TQ1_0, {52, -1}},
             {DTYPE_TQ2_0, {64, -1}}};
    for (size_t i = 0; i < sizeof D / sizeof *D; i++)
        for (int j = 0; D[i].t == t && j < 2; j++)
            if (D[i].at[j] >= 0) b[D[i].at[j] + 1] = (uint8_t)((b[D[i].at[j] + 1] & 0x83) | 0x18);
    if (t == DTYPE_IQ1_M) b[55] = (uint8_t)((b[55] & 0x8f) | 0x10);
    if (t == DTYPE_MXFP4) b[0] = (uint8_t)(120 + b[0] % 8);
    for (int i = 0; t == DTYPE_NVFP4 && i < 4; i++) b[i] = (uint8_t)(0x20 + b[i] % 32);
}

/* Blocks of a GGUF type made of random bytes, with scales of ordinary size. */
static RIG_UNUSED void rig_weight_blocks(RigWeight *w, DType t, uint64_t seed, uint64_t n,
                                         uint64_t k) {
    Err err = {0};
    uint64_t bytes, size = dtype_info(t)->block_bytes;
    const uint64_t shape[2] = {n, k};
    if (!dtype_bytes(t, n * k, k, &bytes, &err)) fail_msg("%s", err.msg);
    uint8_t *data = mem_alloc(bytes);
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(int)(rig_random(seed, i) * 0x1p20f);
    for (uint64_t i = 0; i < bytes; i += size) rig_block_scale(t, data + i);
    QMatrix m = {.format = QFORMAT_ROWS, .n = n, .k = k};
    m.part[QPART_WEIGHT] = qpart_of(t, 2, shape, data, bytes);
    rig_weight_open(w, m);
    w->owned[0] = data;
}

/* One-byte floats with a scale per 128 x 128 (F32), or MLX's mxfp8 with one per 32 (E8M0). */
static RIG_UNUSED void rig_weight_fp8(RigWeight *w, DType t, bool mx, uint64_t seed, uint64_t n,
                                      uint64_t k) {
    uint64_t rows = mx ? n : (n + 127) / 128, cols = mx ? k / 32 : (k + 127) / 128;
    uint8_t *data = mem_alloc(n * k), *scales = mem_alloc(rows * cols * 4);
    for (uint64_t i = 0; i < n * k; i++)
        data[i] = t == DTYPE_F8_E5M2 ? (uint8_t)(fp_f32_to_f16(100 * rig_random(seed, i)) >> 8)
                                     : fp_f32_to_e4m3(400 * rig_random(seed, i));
    for (uint64_t i = 0; i < rows * cols; i++) {
        float s = 0.01f + 0.005f * rig_random(seed + 1, i);
        if (mx)
            scales[i] = (uint8_t)(118 + i % 5);
        else
            memcpy(scales + 4 * i, &s, 4);
    }
    QMatrix m = {.format = mx ? QFORMAT_MLX_MXFP8 : QFORMAT_FP8, .n = n, .k = k};
    if (!mx) m.block_n = m.block_k = 128;
    const uint64_t shape[2] = {n, mx ? k / 4 : k}, groups[2] = {rows, cols};
    m.part[QPART_WEIGHT] = qpart_of(mx ? DTYPE_U32 : t, 2, shape, data, n * k);
    m.part[QPART_SCALE] =
        qpart_of(mx ? DTYPE_U8 : DTYPE_F32, 2, groups, scales, rows * cols * (mx ? 1 : 4));
    rig_weight_open(w, m);
    w->owned[0] = data;
    w->owned[1] = scales;
}

/* bitsandbytes nf4-like: any table of 16 floats, a scale per 64; nested: scales as bytes. */
static RIG_UNUSED void rig_weight_nf4(RigWeight *w, bool nested, uint64_t seed, uint64_t n,
                                      uint64_t k) {
    uint64_t bytes = n * k / 2, blocks = n * k / 64, supers = (blocks + 255) / 256;
    uint8_t *data = mem_alloc(bytes), *scales = mem_alloc(blocks * 4 + 4);
    float *side = mem_alloc((16 + 256 + supers) * sizeof *side);
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(int)(rig_random(seed, i) * 0x1p20f);
    for (uint64_t i = 0; i < blocks; i++) {
        float s = 0.02f + 0.01f * rig_random(seed + 1, i);
        if (nested)
            scales[i] = (uint8_t)(i * 7);
        else
            memcpy(scales + 4 * i, &s, 4);
    }
    for (int i = 0; i < 16; i++) side[i] = ((float)i - 7.3f) / 8;
    for (int i = 0; i < 256; i++) side[16 + i] = ((float)i - 127) / 127;
    for (uint64_t i = 0; i < supers; i++) side[272 + i] = 0.01f;
    QMatrix m = {.format = QFORMAT_BNB_NF4, .n = n, .k = k, .bnb_nested_offset = 0.02f};
    const uint64_t flat[1] = {bytes}, nb[1] = {blocks}, sixteen[1] = {16}, all[1] = {256},
                   ns[1] = {supers};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_U8, 1, flat, data, bytes);
    m.part[QPART_SCALE] =
        qpart_of(nested ? DTYPE_U8 : DTYPE_F32, 1, nb, scales, nested ? blocks : blocks * 4);
    m.part[QPART_TABLE] = qpart_of(DTYPE_F32, 1, sixteen, side, 64);
    if (nested) {
        m.part[QPART_NESTED_TABLE] = qpart_of(DTYPE_F32, 1, all, side + 16, 1024);
        m.part[QPART_NESTED_SCALE] = qpart_of(DTYPE_F32, 1, ns, side + 272, supers * 4);
    }
    rig_weight_open(w, m);
    w->owned[0] = data;
    w->owned[1] = scales;
    w->owned[2] = side;
}

#endif
