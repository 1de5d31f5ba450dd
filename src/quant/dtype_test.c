/* The dtype table: ids and names lead back to the type they came from, gone ids are refused, sizes
 * are checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/dtype.h"

static void test_table_is_complete_and_unambiguous(void **state) {
    (void)state;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        const DTypeInfo *d = dtype_info((DType)t);
        assert_non_null(d->name);
        assert_true(d->block_bytes > 0 && d->block_elements > 0);
        assert_int_equal(d->is_blocked, d->block_elements > 1);
        if (d->ggml_type >= 0) assert_int_equal(dtype_from_ggml((uint32_t)d->ggml_type), t);
        if (d->safetensors) assert_int_equal(dtype_from_safetensors(str_c(d->safetensors)), t);
        assert_true(d->ggml_type >= 0 || d->safetensors);
    }
    assert_int_equal(dtype_info(DTYPE_NONE)->block_bytes, 0);
    assert_int_equal(dtype_info((DType)9999)->block_bytes, 0);
}

static void test_gone_and_run_time_only_ids_are_unknown(void **state) {
    (void)state;
    static const uint32_t gone[] = {4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 43, 255, UINT32_MAX};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_int_equal(dtype_from_ggml(gone[i]), DTYPE_NONE);
    assert_int_equal(dtype_from_safetensors(STR("F8_E4M3FNUZ")), DTYPE_NONE);
    assert_int_equal(dtype_from_safetensors(STR("")), DTYPE_NONE);
    assert_int_equal(dtype_from_safetensors(STR("f32")), DTYPE_NONE);
}

static void test_bytes(void **state) {
    (void)state;
    Err err = {0};
    uint64_t n = 0;
    assert_true(dtype_bytes(DTYPE_Q6_K, 1024, 512, &n, &err));
    assert_int_equal(n, 4 * 210);
    assert_true(dtype_bytes(DTYPE_BF16, 7, 7, &n, &err));
    assert_int_equal(n, 14);
    assert_true(dtype_bytes(DTYPE_F32, 0, 0, &n, &err));
    assert_int_equal(n, 0);
    assert_false(
        dtype_bytes(DTYPE_Q4_0, 96, 48, &n, &err)); /* whole blocks in all, but not per row */
    assert_int_equal(err.kind, ERR_CORRUPT);
    assert_false(dtype_bytes(DTYPE_F32, 10, 4, &n, &err));
    assert_int_equal(err.kind, ERR_CORRUPT);
    assert_false(dtype_bytes(DTYPE_F64, UINT64_MAX / 2, UINT64_MAX / 2, &n, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    assert_false(dtype_bytes(DTYPE_NONE, 4, 4, &n, &err));
    assert_int_equal(err.kind, ERR_INTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete_and_unambiguous),
        cmocka_unit_test(test_gone_and_run_time_only_ids_are_unknown),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
