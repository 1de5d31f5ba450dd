/* Tensors as JSON: shapes, int64 or float32 by how numbers are spelled, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/tensor_json.h"

static void shapes_and_types(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int type;
        uint32_t n_dims;
        uint64_t dims[3];
        double first, last;
    } GOOD[] = {
        {"[[1, 4, 6]]", MLXCEL_I64, 2, {1, 3}, 1, 6},
        {"[[[1,2]],[[3,-9007199254740993]]]", MLXCEL_I64, 3, {2, 1, 2}, 1, -9007199254740993.0},
        {"7", MLXCEL_I64, 0, {0}, 7, 7},
        {"[1, 2.0]", MLXCEL_F32, 1, {2}, 1, 2},
        {"[1e1, 3]", MLXCEL_F32, 1, {2}, 10, 3},
        {"[[true, false]]", MLXCEL_I64, 2, {1, 2}, 1, 0},
        {"[]", MLXCEL_I64, 1, {0}, 0, 0},
        {"[[],[]]", MLXCEL_I64, 2, {2, 0}, 0, 0},
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        Arena a = {0};
        Err err = {0};
        mlxcel_tensor t = {0};
        uint64_t n = 1;
        if (!tensor_from_json(str_c(GOOD[i].text), &a, &t, &err))
            fail_msg("%s: %s", GOOD[i].text, err.msg);
        assert_int_equal(t.type, GOOD[i].type);
        assert_int_equal(t.n_dims, GOOD[i].n_dims);
        for (uint32_t k = 0; k < t.n_dims; n *= t.dims[k++])
            assert_int_equal(t.dims[k], GOOD[i].dims[k]);
        const float *x = t.data;
        const int64_t *v = t.data;
        for (int last = 0; last < 2 && n; last++) {
            uint64_t at = last ? n - 1 : 0;
            double want = last ? GOOD[i].last : GOOD[i].first;
            assert_true((t.type == MLXCEL_I64 ? (double)v[at] : (double)x[at]) == want);
        }
        arena_deinit(&a);
    }
}

static void what_is_no_tensor(void **state) {
    (void)state;
    static const char *const BAD[][2] = {
        {"", NULL},
        {"[1, 2", NULL},
        {"[[1, 2], [3]]", "an array of 1 beside one of 2"},
        {"[[1], 2]", "number where an array is needed"},
        {"[1, [2]]", "array where a number is needed"},
        {"[1, \"2\"]", "string where a number is needed"},
        {"{\"a\": 1}", "object where a number is needed"},
        {"null", "null where a number is needed"},
        {"[9223372036854775808]", "9223372036854775808 is no int64"},
        {"[0.5, 1e39]", "1e39 is no float32"},
        {"[[[[[[[[[1]]]]]]]]]", "nested more than 8 deep"},
        {"[[], [1]]", "an array of 1 beside one of 0"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {0};
        Err err = {0};
        mlxcel_tensor t;
        if (tensor_from_json(str_c(BAD[i][0]), &a, &t, &err)) fail_msg("accepted: %s", BAD[i][0]);
        if (err.kind != ERR_INPUT || (BAD[i][1] && !strstr(err.msg, BAD[i][1])))
            fail_msg("%s: %s", BAD[i][0], err.msg);
        arena_deinit(&a);
    }
}

static void memory_may_end_anywhere(void **state) {
    (void)state;
    bool ok = false;
    for (int n = 0; !ok; n++) {
        Arena a = {0};
        Err err = {0};
        mlxcel_tensor t;
        mem_fail_after(n);
        ok = tensor_from_json(STR("[[1, 2], [3, 4]]"), &a, &t, &err);
        mem_fail_after(-1);
        if (!ok) assert_int_equal(err.kind, ERR_NOMEM);
        if (n == 0) assert_false(ok);
        arena_deinit(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_types),
        cmocka_unit_test(what_is_no_tensor),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests_name("tensor_json", tests, NULL, NULL);
}
