/* Promise P5: packed weights take at most 1.05 times the bytes their tensors have in the file, in
 * every storage format, and packed_weight_bytes(), asked before anything is read, says exactly what
 * loading then allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "backend/cpu/cpu_odd_weights.inc.h"
#include "backend/cpu/packed.h"

enum { N = 512, K = 2048, STACK = 4 };

static uint64_t file_bytes(const RigWeight *w) {
    uint64_t sum = 0;
    for (int id = 0; id < QPART_COUNT; id++) sum += w->m.part[id].n_bytes;
    return sum;
}

static uint64_t allocated(const BackWeight *w) {
    uint64_t sum = sizeof *w + mem_pages_bytes(w->n_bytes);
    for (int i = 0; i < w->n_parts; i++) sum += sizeof w->parts[i] + w->parts[i].side_bytes;
    return sum;
}

/* As one matrix, or as a stack of experts. */
static void check_parts(const RigWeight *w, int n_parts, const char *name) {
    Err err = {0};
    BackWeight *loaded;
    Pool *pool = pool_new(2, &err);
    if (!pool) fail_msg("%s", err.msg);
    WeightSource parts[STACK];
    for (int i = 0; i < STACK; i++) {
        parts[i] = w->source;
        parts[i].n /= (uint32_t)n_parts;
        parts[i].row0 = (uint32_t)i * parts[i].n;
    }
    uint64_t said = packed_weight_bytes(WEIGHT_MATRIX, parts, n_parts), file = file_bytes(w);
    if (!packed_weight_load(pool, WEIGHT_MATRIX, parts, n_parts, &loaded, &err))
        fail_msg("%s: %s", name, err.msg);
    if (said != allocated(loaded))
        fail_msg("%s: %llu bytes announced, %llu allocated", name, (unsigned long long)said,
                 (unsigned long long)allocated(loaded));
    if ((double)said > 1.05 * (double)file)
        fail_msg("%s: %llu bytes packed, %llu in the file: %.3f", name, (unsigned long long)said,
                 (unsigned long long)file, (double)said / (double)file);
    packed_weight_free(loaded);
    pool_free(pool);
}

static void check(const RigWeight *w, const char *what, ...) {
    char name[128];
    va_list args;
    va_start(args, what);
    vsnprintf(name, sizeof name, what, args);
    va_end(args);
    check_parts(w, 1, name);
}

static void gguf_types(void **state) {
    (void)state;
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) {
        RigWeight w;
        rig_weight_blocks(&w, (DType)t, 1, N, K);
        check(&w, "%s", dtype_info((DType)t)->name);
        rig_weight_close(&w);
    }
}

static void plain_floats(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    float *v = rig_matrix(1, (size_t)N * K);
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        RigWeight w;
        rig_weight_rows(&w, TYPES[t], v, N, K);
        check(&w, "%s", dtype_info(TYPES[t])->name);
        rig_weight_close(&w);
    }
    mem_free(v);
}

static void mlx(void **state) {
    (void)state;
    static const unsigned BITS[] = {1, 2, 3, 4, 5, 6, 8};
    static const DType SCALES[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    float *v = rig_matrix(1, (size_t)N * K);
    for (int b = 0; b < 7; b++)
        for (unsigned g = 32; g <= 128; g *= 2)
            for (int s = 0; s < 3; s++) {
                RigWeight w;
                rig_weight_mlx(&w, BITS[b], g, SCALES[s], v, N, K);
                check(&w, "mlx %u bits, groups of %u, %s", BITS[b], g, dtype_info(SCALES[s])->name);
                rig_weight_close(&w);
            }
    mem_free(v);
}

static void float_codes(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        RigWeight w;
        if (i < 2) rig_weight_nf4(&w, i == 1, 1, N, K);
        if (i == 2) rig_weight_fp8(&w, DTYPE_F8_E4M3, false, 1, N, K);
        if (i == 3) rig_weight_fp8(&w, DTYPE_F8_E5M2, false, 1, N, K);
        if (i == 4) rig_weight_fp8(&w, DTYPE_F8_E4M3, true, 1, N, K);
        check(&w, "float codes %d", i);
        rig_weight_close(&w);
    }
}

static void finish(RigWeight *w, QMatrix m, const char *what, unsigned bits, unsigned group) {
    Arena parts = w->arena; /* what rig_weight_open would overwrite */
    rig_weight_open(w, m);
    check(w, "%s, %u bits, groups of %u", what, bits, group);
    rig_weight_close(w);
    arena_deinit(&parts);
}

static void gptq(void **state) {
    (void)state;
    static const unsigned BITS[] = {2, 3, 4, 8};
    for (int b = 0; b < 4; b++)
        for (unsigned g = 32; g <= 128; g *= 2)
            for (int v2 = 0; v2 < 2; v2++) {
                RigWeight w = {0};
                QMatrix m = {.format = QFORMAT_GPTQ, .n = N, .k = K, .bits = BITS[b], .group = g};
                m.gptq_v2 = v2;
                rig_part(&w, &m, QPART_WEIGHT, DTYPE_I32, K * BITS[b] / 32, N);
                rig_part(&w, &m, QPART_SCALE, DTYPE_F16, K / g, N);
                rig_part(&w, &m, QPART_ZERO, DTYPE_I32, K / g, N * BITS[b] / 32);
                finish(&w, m, "gptq", BITS[b], g);
            }
}

/* Activation order: the columns' groups shuffled, four bytes a column in the file as in memory. */
static void gptq_act_order(void **state) {
    (void)state;
    RigWeight w = {0};
    QMatrix m = {.format = QFORMAT_GPTQ, .n = N, .k = K, .bits = 4, .group = 64};
    const uint64_t shape[1] = {K};
    uint32_t *g_idx = arena_array(&w.arena, uint32_t, K);
    assert_non_null(g_idx);
    for (uint32_t k = 0; k < K; k++) g_idx[k] = k * 37 % K / 64;
    rig_part(&w, &m, QPART_WEIGHT, DTYPE_I32, K * 4 / 32, N);
    rig_part(&w, &m, QPART_SCALE, DTYPE_F16, K / 64, N);
    rig_part(&w, &m, QPART_ZERO, DTYPE_I32, K / 64, N * 4 / 32);
    m.part[QPART_G_IDX] = qpart_of(DTYPE_I32, 1, shape, g_idx, K * 4);
    finish(&w, m, "gptq act-order", 4, 64);
}

static void awq(void **state) {
    (void)state;
    for (unsigned g = 32; g <= 128; g *= 2) {
        RigWeight w = {0};
        QMatrix m = {.format = QFORMAT_AWQ, .n = N, .k = K, .bits = 4, .group = g};
        rig_part(&w, &m, QPART_WEIGHT, DTYPE_I32, K, N / 8);
        rig_part(&w, &m, QPART_SCALE, DTYPE_F16, K / g, N);
        rig_part(&w, &m, QPART_ZERO, DTYPE_I32, K / g, N / 8);
        finish(&w, m, "awq", 4, g);
    }
}

static void compressed_tensors(void **state) {
    (void)state;
    for (unsigned bits = 2; bits <= 8; bits++)
        for (unsigned g = 32; g <= 128; g *= 2)
            for (int zero = 0; zero < 2; zero++) {
                RigWeight w = {0};
                QMatrix m = {.format = QFORMAT_CT_PACKED, .n = N, .k = K, .bits = bits, .group = g};
                rig_part(&w, &m, QPART_WEIGHT, DTYPE_I32, N, K * bits / 32);
                rig_part(&w, &m, QPART_SCALE, DTYPE_BF16, N, K / g);
                if (zero) rig_part(&w, &m, QPART_ZERO, DTYPE_I32, N * bits / 32, K / g);
                finish(&w, m, zero ? "packed, zero points" : "packed", bits, g);
            }
    RigWeight w = {0};
    QMatrix m = {.format = QFORMAT_CT_INT, .n = N, .k = K};
    rig_part(&w, &m, QPART_WEIGHT, DTYPE_I8, N, K);
    rig_part(&w, &m, QPART_SCALE, DTYPE_F32, N, 1);
    finish(&w, m, "int-quantized", 8, K);
}

static void fp4_and_bitnet(void **state) {
    (void)state;
    static const QFormat FORMATS[] = {QFORMAT_MLX_MXFP4, QFORMAT_MLX_NVFP4, QFORMAT_CT_MXFP4,
                                      QFORMAT_CT_NVFP4, QFORMAT_MODELOPT_NVFP4};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        RigWeight w = {0};
        QMatrix m = {.format = FORMATS[i], .n = N, .k = K};
        bool words = i < 2, nv = i % 2 == 1 || i == 4;
        rig_part(&w, &m, QPART_WEIGHT, words ? DTYPE_U32 : DTYPE_U8, N, K / (words ? 8 : 2));
        rig_part(&w, &m, QPART_SCALE, DTYPE_U8, N, K / (nv ? 16 : 32));
        if (nv && !words) rig_part(&w, &m, QPART_GLOBAL, DTYPE_F32, 1, 1);
        finish(&w, m, qformat_name(FORMATS[i]), 4, nv ? 16 : 32);
    }
    RigWeight w = {0};
    QMatrix m = {.format = QFORMAT_BITNET, .n = N, .k = K};
    rig_part(&w, &m, QPART_WEIGHT, DTYPE_U8, N / 4, K);
    rig_part(&w, &m, QPART_SCALE, DTYPE_BF16, 1, 1);
    finish(&w, m, "bitnet", 2, K);
}

/* Groups, blocks and orders of any kind, in shapes that fill no tile and no unit, from 64 KiB in the
 * file on; and as stacks of experts that have so much each. */
static void odd_groups_and_shapes(void **state) {
    (void)state;
    static const uint32_t SHAPES[][2] = {{512, 1920}, {1000, 200}, {40, 4096},  {4096, 72},
                                         {333, 1000}, {8, 16384},  {2048, 100}, {8192, 33}};
    int n_checked = 0;
    for (int i = 0; i < RIG_N_ODD; i++)
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
            RigWeight w;
            char name[128];
            if (!rig_weight_odd(&w, i, SHAPES[s][0], SHAPES[s][1], name)) continue;
            if (file_bytes(&w) >= 65536) {
                check_parts(&w, 1, name);
                n_checked++;
            }
            /* experts with an order of columns have one each, in the file too */
            if (file_bytes(&w) >= STACK * 65536 && SHAPES[s][0] % STACK == 0 &&
                RIG_ODD[i].order == ORDER_NONE)
                check_parts(&w, STACK, name);
            rig_weight_close(&w);
        }
    print_message("%d matrices\n", n_checked);
    assert_true(n_checked > 4 * RIG_N_ODD);
}

/* Block types and floats whose rows fill no tile. */
static void few_rows(void **state) {
    (void)state;
    static const uint32_t ROWS[] = {7, 100, 331};
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        uint32_t k = 512 + 65536 / ROWS[r] * 8 / 512 * 512;
        for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) {
            RigWeight w;
            rig_weight_blocks(&w, (DType)t, 1, ROWS[r], k);
            check(&w, "%s [%u, %u]", dtype_info((DType)t)->name, ROWS[r], k);
            rig_weight_close(&w);
        }
        float *v = rig_matrix(1, (size_t)ROWS[r] * k);
        for (int t = 0; t < 2; t++) {
            RigWeight w;
            rig_weight_rows(&w, t ? DTYPE_F32 : DTYPE_BF16, v, ROWS[r], k);
            check(&w, "floats [%u, %u]", ROWS[r], k);
            rig_weight_close(&w);
        }
        mem_free(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gguf_types),
                                       cmocka_unit_test(plain_floats),
                                       cmocka_unit_test(mlx),
                                       cmocka_unit_test(float_codes),
                                       cmocka_unit_test(gptq),
                                       cmocka_unit_test(gptq_act_order),
                                       cmocka_unit_test(awq),
                                       cmocka_unit_test(compressed_tensors),
                                       cmocka_unit_test(fp4_and_bitnet),
                                       cmocka_unit_test(odd_groups_and_shapes),
                                       cmocka_unit_test(few_rows)};
    return cmocka_run_group_tests_name("packed_bytes", tests, NULL, NULL);
}
