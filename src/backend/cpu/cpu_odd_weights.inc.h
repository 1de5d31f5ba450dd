/* cpu_odd_weights.inc.h: for tests of the cpu backend: weights whose groups, blocks and orders are none
 * of the usual ones, of any shape, from random bytes. Include after cpu_weights.inc.h.
 *
 *     for (int i = 0; i < RIG_N_ODD; i++) {
 *         if (!rig_weight_odd(&w, i, n, k, name)) continue;      (the format has no such shape)
 *         ...
 *         rig_weight_close(&w);
 *     } */
#ifndef MLXCEL_BACKEND_CPU_CPU_ODD_WEIGHTS_INC_H
#define MLXCEL_BACKEND_CPU_CPU_ODD_WEIGHTS_INC_H

#include "backend/cpu/cpu_weights.inc.h"

typedef enum RigOrder { ORDER_NONE, ORDER_SHUFFLED, ORDER_RAGGED, ORDER_SIXTEENS } RigOrder;

typedef struct RigOdd {
    QFormat format;
    unsigned bits,
        group; /* group 0: a whole row; FP8: block_n and block_k; BNB_NF4: nested, block */
    DType scale;
    RigOrder order;
    bool zero;
} RigOdd;

static const RigOdd RIG_ODD[] = {
    {QFORMAT_GPTQ, 4, 64, DTYPE_F16, ORDER_RAGGED, true},
    {QFORMAT_GPTQ, 3, 32, DTYPE_F16, ORDER_RAGGED, true},
    {QFORMAT_GPTQ, 2, 128, DTYPE_F16, ORDER_RAGGED, true},
    {QFORMAT_GPTQ, 8, 64, DTYPE_F16, ORDER_RAGGED, true},
    {QFORMAT_GPTQ, 4, 64, DTYPE_F16, ORDER_SIXTEENS, true},
    {QFORMAT_GPTQ, 4, 96, DTYPE_F16, ORDER_SHUFFLED, true},
    {QFORMAT_GPTQ, 4, 48, DTYPE_F16, ORDER_SHUFFLED, true},
    {QFORMAT_GPTQ, 4, 40, DTYPE_F16, ORDER_SHUFFLED, true},
    {QFORMAT_GPTQ, 4, 128, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_GPTQ, 8, 0, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_AWQ, 4, 24, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_AWQ, 4, 40, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_AWQ, 4, 48, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_AWQ, 4, 96, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_AWQ, 4, 0, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 4, 48, DTYPE_BF16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 4, 96, DTYPE_BF16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 4, 32, DTYPE_F16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 8, 96, DTYPE_F16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 8, 512, DTYPE_BF16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 1, 24, DTYPE_F16, ORDER_NONE, false},
    {QFORMAT_CT_PACKED, 2, 80, DTYPE_F32, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 3, 40, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 5, 112, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 6, 8, DTYPE_F32, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 7, 20, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 5, 64, DTYPE_F16, ORDER_RAGGED, false},
    {QFORMAT_CT_PACKED, 4, 3, DTYPE_F16, ORDER_NONE, false}, /* more scales than kernels take */
    {QFORMAT_CT_PACKED, 7, 0, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_PACKED, 6, 32, DTYPE_F16, ORDER_NONE, true},
    {QFORMAT_CT_INT, 8, 0, DTYPE_BF16, ORDER_NONE, true},
    {QFORMAT_CT_INT, 8, 1, DTYPE_F32, ORDER_NONE, true}, /* one scale and zero point for all */
    {QFORMAT_CT_INT, 8, 40, DTYPE_F32, ORDER_NONE, false},
    {QFORMAT_FP8, 64, 64, DTYPE_F32, ORDER_NONE, false},
    {QFORMAT_FP8, 32, 48, DTYPE_BF16, ORDER_NONE, false},
    {QFORMAT_FP8, 16, 128, DTYPE_F8_E8M0, ORDER_NONE, false},
    {QFORMAT_FP8, 100, 24, DTYPE_F32, ORDER_NONE, false},
    {QFORMAT_FP8, 1, 40, DTYPE_F8_E8M0, ORDER_NONE, false},
    {QFORMAT_FP8, 3, 16, DTYPE_F16, ORDER_NONE, false},
    {QFORMAT_FP8, 128, 1, DTYPE_F16, ORDER_NONE, false}, /* more scales than kernels take */
    {QFORMAT_FP8, 1, 0, DTYPE_F32, ORDER_NONE, false},
    {QFORMAT_FP8, 0, 0, DTYPE_F32, ORDER_NONE, false}, /* one for all */
    {QFORMAT_BNB_NF4, 0, 64, DTYPE_F32, ORDER_NONE, false},
    {QFORMAT_BNB_NF4, 256, 64, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_BNB_NF4, 100, 32, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_BNB_NF4, 7, 48, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_BNB_NF4, 256, 4096, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_BITNET, 2, 0, DTYPE_BF16, ORDER_NONE, false},
    {QFORMAT_MODELOPT_NVFP4, 4, 16, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_MLX_NVFP4, 4, 16, DTYPE_U8, ORDER_NONE, false},
    {QFORMAT_CT_MXFP4, 4, 32, DTYPE_U8, ORDER_NONE, false},
};
enum { RIG_N_ODD = sizeof RIG_ODD / sizeof *RIG_ODD };

static RIG_UNUSED uint64_t rig_ceil(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* A part of random bytes (floats: of ordinary size), kept in the weight's arena. */
static RIG_UNUSED uint8_t *rig_part(RigWeight *w, QMatrix *m, QPartId id, DType t, uint64_t rows,
                                    uint64_t cols) {
    const uint64_t shape[2] = {rows, cols};
    uint64_t size = dtype_info(t)->block_bytes, n = rows * cols * size;
    uint8_t *p = arena_array(&w->arena, uint8_t, n + 1);
    assert_non_null(p);
    for (uint64_t i = 0; i < n; i++) p[i] = (uint8_t)(int)(rig_random((uint64_t)id, i) * 0x1p20f);
    for (uint64_t i = size - 1; dtype_info(t)->is_float && i < n; i += size)
        p[i] = t == DTYPE_F16 ? 0x24 : 0x3c;
    for (uint64_t i = 0; t == DTYPE_F8_E8M0 && i < n; i++) p[i] = (uint8_t)(118 + p[i] % 5);
    for (uint64_t i = 0; t == DTYPE_F8_E4M3 && i < n; i++) p[i] = (uint8_t)(p[i] % 0x7f);
    m->part[id] = qpart_of(t, 2, shape, p, n);
    return p;
}

static RIG_UNUSED void rig_odd_order(RigWeight *w, QMatrix *m, RigOrder order, uint64_t group) {
    const uint64_t shape[1] = {m->k}, n_groups = rig_ceil(m->k, group);
    uint32_t *g = arena_array(&w->arena, uint32_t, m->k);
    assert_non_null(g);
    for (uint32_t k = 0; k < m->k; k++)
        g[k] = order == ORDER_SHUFFLED ? (uint32_t)((m->k - 1 - k) / group)
               : order == ORDER_RAGGED ? (uint32_t)(fabsf(rig_random(77, k)) * (float)n_groups)
                                       : (uint32_t)(k / 16 * 7 % n_groups);
    for (uint32_t k = 0; order == ORDER_SHUFFLED && k + 20 < m->k; k += 9) {
        uint32_t t = g[k];
        g[k] = g[k + 17];
        g[k + 17] = t;
    }
    m->part[QPART_G_IDX] = qpart_of(DTYPE_I32, 1, shape, g, m->k * 4);
}

/* Zero points that the bits hold. */
static RIG_UNUSED void rig_odd_zeros(RigWeight *w, QMatrix *m, uint64_t rows, uint64_t groups) {
    uint8_t *z = rig_part(w, m, QPART_ZERO, DTYPE_I8, rows, groups);
    int half = 1 << (m->bits - 1);
    for (uint64_t i = 0; i < rows * groups; i++) z[i] = (uint8_t)(int8_t)(z[i] % (2 * half) - half);
}

static RIG_UNUSED bool rig_odd_words(RigWeight *w, QMatrix *m, const RigOdd *o) {
    uint64_t n = m->n, k = m->k, g = o->group ? o->group : k, groups = rig_ceil(k, g);
    m->group = (unsigned)g;
    m->bits = o->bits;
    if (g > k) return false;
    if (o->format == QFORMAT_CT_PACKED) {
        rig_part(w, m, QPART_WEIGHT, DTYPE_I32, n, rig_ceil(k * o->bits, 32));
        rig_part(w, m, QPART_SCALE, o->scale, n, groups);
        if (o->zero) rig_odd_zeros(w, m, n, groups);
    } else {
        bool awq = o->format == QFORMAT_AWQ;
        if (k * o->bits % 32 || n * o->bits % 32 || (awq && k % g)) return false;
        rig_part(w, m, QPART_WEIGHT, DTYPE_I32, awq ? k : k * o->bits / 32, awq ? n / 8 : n);
        rig_part(w, m, QPART_SCALE, o->scale, groups, n);
        rig_part(w, m, QPART_ZERO, DTYPE_I32, groups, n * o->bits / 32);
    }
    if (o->order != ORDER_NONE) rig_odd_order(w, m, o->order, g);
    return true;
}

static RIG_UNUSED void rig_odd_fp8(RigWeight *w, QMatrix *m, const RigOdd *o) {
    const bool blocks = o->bits && o->group;
    rig_part(w, m, QPART_WEIGHT, o->group % 16 ? DTYPE_F8_E4M3 : DTYPE_F8_E5M2, m->n, m->k);
    uint8_t *p = arena_array(&w->arena, uint8_t, m->n * m->k);
    assert_non_null(p);
    for (uint64_t i = 0; i < m->n * m->k; i++) /* no infinities */
        p[i] = o->group % 16 ? fp_f32_to_e4m3(400 * rig_random(5, i))
                             : (uint8_t)(fp_f32_to_f16(100 * rig_random(5, i)) >> 8);
    m->part[QPART_WEIGHT].data = p;
    rig_part(w, m, QPART_SCALE, o->scale,
             blocks    ? rig_ceil(m->n, o->bits)
             : o->bits ? m->n
                       : 1,
             blocks ? rig_ceil(m->k, o->group) : 1);
    m->block_n = blocks ? o->bits : 0;
    m->block_k = blocks ? o->group : 0;
}

static RIG_UNUSED void rig_odd_nf4(RigWeight *w, QMatrix *m, const RigOdd *o) {
    uint64_t blocks = rig_ceil(m->n * m->k, o->group);
    m->bnb_block = o->group;
    m->bnb_nested_block = o->bits;
    m->bnb_nested_offset = 0.02f;
    rig_part(w, m, QPART_WEIGHT, DTYPE_U8, rig_ceil(m->n * m->k, 2), 1);
    rig_part(w, m, QPART_SCALE, o->scale, blocks, 1);
    rig_part(w, m, QPART_TABLE, DTYPE_F32, 16, 1);
    if (!o->bits) return;
    rig_part(w, m, QPART_NESTED_SCALE, DTYPE_F32, rig_ceil(blocks, o->bits), 1);
    rig_part(w, m, QPART_NESTED_TABLE, DTYPE_F32, 256, 1);
}

static RIG_UNUSED bool rig_odd_parts(RigWeight *w, QMatrix *m, const RigOdd *o) {
    bool nv = o->format == QFORMAT_MODELOPT_NVFP4 || o->format == QFORMAT_MLX_NVFP4,
         mlx = o->format == QFORMAT_MLX_NVFP4;
    switch (o->format) {
    case QFORMAT_FP8:
        rig_odd_fp8(w, m, o);
        return true;
    case QFORMAT_BNB_NF4:
        rig_odd_nf4(w, m, o);
        return true;
    case QFORMAT_BITNET:
        rig_part(w, m, QPART_WEIGHT, DTYPE_U8, rig_ceil(m->n, 4), m->k);
        rig_part(w, m, QPART_SCALE, o->scale, 1, 1);
        return true;
    case QFORMAT_CT_INT: {
        uint64_t rows = o->group == 1 ? 1 : m->n,
                 cols = o->group > 1 ? rig_ceil(m->k, o->group) : 1;
        m->group = o->group > 1 ? o->group : 0;
        m->bits = 8;
        rig_part(w, m, QPART_WEIGHT, DTYPE_I8, m->n, m->k);
        rig_part(w, m, QPART_SCALE, o->scale, rows, cols);
        if (o->zero) rig_odd_zeros(w, m, rows, cols);
        return true;
    }
    case QFORMAT_GPTQ:
    case QFORMAT_AWQ:
    case QFORMAT_CT_PACKED:
        return rig_odd_words(w, m, o);
    default: { /* fp4 */
        if (m->k % 32) return false;
        rig_part(w, m, QPART_WEIGHT, mlx ? DTYPE_U32 : DTYPE_U8, m->n, m->k / (mlx ? 8 : 2));
        uint8_t *s = rig_part(w, m, QPART_SCALE, o->scale, m->n, m->k / o->group);
        for (uint64_t i = 0; i < m->n * m->k / o->group; i++)
            s[i] = (uint8_t)(nv ? 0x20 + s[i] % 32 : 118 + s[i] % 5);
        if (nv) rig_part(w, m, QPART_GLOBAL, DTYPE_F32, 1, 1);
        return true;
    }
    }
}

static RIG_UNUSED bool rig_weight_odd(RigWeight *w, int i, uint64_t n, uint64_t k, char name[128]) {
    const RigOdd *o = &RIG_ODD[i];
    RigWeight parts = {0};
    QMatrix m = {.format = o->format, .n = n, .k = k};
    snprintf(name, 128, "%s, %u, %u, %s, order %d, [%u, %u]", qformat_name(o->format), o->bits,
             o->group, dtype_info(o->scale)->name, (int)o->order, (unsigned)n, (unsigned)k);
    if (!rig_odd_parts(&parts, &m, o)) {
        arena_deinit(&parts.arena);
        return false;
    }
    rig_weight_open(w, m);
    w->parts = parts.arena;
    return true;
}

#endif
