/* Where matrices are no multiple of what kernels take: shapes that fill no tile and no unit, groups and
 * blocks of any size, orders of columns that fit no group, scales that rows share, in every format that
 * has them. Products and looked-up rows are right at every instruction-set level, and the same to the
 * bit whatever rows are computed together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "backend/cpu/cpu_linear_check.inc.h"
#include "backend/cpu/cpu_odd_weights.inc.h"

static void odd_groups_and_shapes(void **state) {
    (void)state;
    static const uint32_t SHAPES[][2] = {{40, 192}, {24, 320}, {37, 100}, {33, 45},
                                         {8, 384},  {1, 64},   {64, 96},  {5, 7}};
    int n_checked = 0;
    for (int i = 0; i < RIG_N_ODD; i++)
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
            RigWeight w;
            char name[128];
            if (!rig_weight_odd(&w, i, SHAPES[s][0], SHAPES[s][1], name)) continue;
            check_linear(name, &w, true);
            check_embed(name, &w);
            rig_weight_close(&w);
            n_checked++;
        }
    print_message("%d matrices\n", n_checked);
    assert_true(n_checked > 5 * RIG_N_ODD);
}

/* Every block type with rows that fill no tile. */
static void block_types(void **state) {
    (void)state;
    static const uint32_t ROWS[] = {3, 21};
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++)
        for (size_t s = 0; s < sizeof ROWS / sizeof *ROWS; s++) {
            RigWeight w;
            char name[64];
            snprintf(name, sizeof name, "%s, %u rows", dtype_info((DType)t)->name, ROWS[s]);
            rig_weight_blocks(&w, (DType)t, 1, ROWS[s], 512);
            check_linear(name, &w, true);
            check_embed(name, &w);
            rig_weight_close(&w);
        }
}

/* Slices of a stored matrix, and rows in another order: scales that rows share, and those along the
 * flat order, go by the stored row. */
static void slices_and_row_maps(void **state) {
    (void)state;
    enum { STORED = 96, TAKEN = 45 };
    uint32_t map[TAKEN];
    for (uint32_t i = 0; i < TAKEN; i++) map[i] = 7 + i % 3 * 29 + i / 3;
    for (int i = 0; i < RIG_N_ODD; i++)
        for (int mapped = 0; mapped < 2; mapped++) {
            RigWeight w;
            char name[128];
            if (!rig_weight_odd(&w, i, STORED, 96, name)) continue;
            w.source.n = TAKEN;
            w.source.row0 = mapped ? 0 : 31;
            w.source.row_map = mapped ? map : NULL;
            check_linear(name, &w, false);
            check_embed(name, &w);
            rig_weight_close(&w);
        }
}

/* What is infinite or no number stays so, in its row and in no other: the engine refuses such logits. */
static void inputs_that_are_not_finite(void **state) {
    (void)state;
    enum { K = 512, N = 8 };
    float *x = rig_matrix(7, (size_t)N_ROWS * K), *y = mem_alloc(sizeof *y * N_ROWS * N);
    x[1 * K + 5] = INFINITY;
    x[2 * K + 40] = -INFINITY;
    for (uint32_t i = 0; i < K; i++) x[3 * K + i] = NAN;
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) {
        RigWeight w;
        Case c;
        rig_weight_blocks(&w, (DType)t, 1, N, K);
        Val in = case_begin(&c, x, N_ROWS, K);
        case_end(&c, prog_linear(c.b, in, case_weight(&c, WEIGHT_MATRIX, &w), W_NONE));
        for (int i = 0; i < N_ISAS; i++) {
            RigOptions o = options(ISAS[i], 1);
            run_all(&c, &o, N_ROWS, y);
            for (uint32_t k = 0; k < N_ROWS * N; k++)
                if ((isfinite(y[k]) != 0) == (k / N >= 1 && k / N <= 3))
                    fail_msg("%s, %s: row %u output %u is %g", dtype_info((DType)t)->name, ISAS[i],
                             k / N, k % N, (double)y[k]);
        }
        case_close(&c);
        rig_weight_close(&w);
    }
    mem_free(x);
    mem_free(y);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_groups_and_shapes), cmocka_unit_test(block_types),
        cmocka_unit_test(slices_and_row_maps), cmocka_unit_test(inputs_that_are_not_finite)};
    return cmocka_run_group_tests_name("linear_edges", tests, NULL, NULL);
}
