#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/str.h"

static void whole_numbers_only(void **state) {
    (void)state;
    int64_t i;
    uint64_t u;
    assert_true(str_to_i64(STR("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(str_to_u64(STR("18446744073709551615"), &u) && u == UINT64_MAX);
    static const char *const BAD[] = {"",     "-",   "+1",  " 1",  "1 ",
                                      "0x10", "1.0", "1e3", "--1", "18446744073709551616"};
    for (size_t k = 0; k < sizeof BAD / sizeof *BAD; k++) {
        assert_false(str_to_u64(str_c(BAD[k]), &u));
        assert_false(str_to_i64(str_c(BAD[k]), &i));
    }
    assert_false(str_to_i64(STR("9223372036854775808"), &i));
    assert_false(str_to_u64(STR("-1"), &u));
}

static void floats_are_decimal_and_finite(void **state) {
    (void)state;
    double d;
    assert_true(str_to_f64(STR("-1.5e-3"), &d) && d == -1.5e-3);
    assert_true(str_to_f64(STR(".5"), &d) && d == 0.5);
    assert_true(str_to_f64(STR("9.999999747378752e-06"), &d) && d == 9.999999747378752e-06);
    static const char *const BAD[] = {"",      ".",     "e5", "1e", "inf", "nan",
                                      "0x1p3", "1e999", " 1", "1 ", "1,5"};
    for (size_t k = 0; k < sizeof BAD / sizeof *BAD; k++)
        assert_false(str_to_f64(str_c(BAD[k]), &d));
}

static void finding_and_cutting(void **state) {
    (void)state;
    Str s = STR("one,two,,three"), part;
    assert_int_equal(str_find(s, STR("two"), 0), 4);
    assert_int_equal(str_find(s, STR("two"), 5), STR_NPOS);
    assert_int_equal(str_find(s, STR(""), 14), 14);
    assert_int_equal(str_rfind(s, STR(",")), 8);
    assert_true(str_eq(str_slice(s, 4, 7), STR("two")));
    assert_true(str_eq(str_slice(s, 9, 99), STR("three")));
    assert_int_equal(str_slice(s, 50, 60).n, 0);
    static const char *const WANT[] = {"one", "two", "", "three"};
    size_t n = 0;
    while (str_split(&s, ',', &part)) assert_true(str_eqc(part, WANT[n++]));
    assert_int_equal(n, 4);
    assert_true(str_eq(str_trim(STR(" \t a b\r\n")), STR("a b")));
}

static void order_is_bytewise(void **state) {
    (void)state;
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("\x80"), STR("z")) > 0);
    assert_int_equal(str_cmp(STR_NONE, STR("")), 0);
    assert_true(str_ieq(STR("Content-Type"), STR("content-type")));
    assert_false(str_ieq(STR("a"), STR("ab")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_only),
        cmocka_unit_test(floats_are_decimal_and_finite),
        cmocka_unit_test(finding_and_cutting),
        cmocka_unit_test(order_is_bytewise),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
