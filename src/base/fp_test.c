/* Small floats, exhaustively: every code decodes to the value its fields spell, every value
 * encodes back to its code, and between each pair of neighbours encoding turns at the midpoint,
 * ties to even. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fp.h"

/* The value of a code with e exponent and m mantissa bits, from the definition; exponent field all
 * ones is not special. */
static double field_value(unsigned code, int e_bits, int m_bits) {
    int bias = (1 << (e_bits - 1)) - 1;
    unsigned m = code & ((1u << m_bits) - 1), e = code >> m_bits & ((1u << e_bits) - 1);
    double v =
        e ? ldexp((double)m + (1u << m_bits), (int)e - bias - m_bits) : ldexp(m, 1 - bias - m_bits);
    return code >> (e_bits + m_bits) & 1 ? -v : v;
}

static void test_f16_decode(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = fp_f16_to_f32((uint16_t)h);
        if ((h & 0x7C00) == 0x7C00) {
            assert_true((h & 0x3FF) ? isnan(f) : isinf(f));
            assert_int_equal(!!signbit(f), h >> 15);
        } else {
            assert_true(f == field_value(h, 5, 10) && !!signbit(f) == h >> 15);
        }
        uint16_t back = fp_f32_to_f16(f);
        assert_true(isnan(f) ? isnan(fp_f16_to_f32(back)) : back == h);
    }
}

static void test_f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x7BFF; h++) {
        float a = fp_f16_to_f32((uint16_t)h), b = fp_f16_to_f32((uint16_t)(h + 1)),
              middle = a + (b - a) / 2;
        unsigned even = h % 2 ? h + 1 : h;
        assert_int_equal(fp_f32_to_f16(middle), even);
        assert_int_equal(fp_f32_to_f16(-middle), even | 0x8000);
        assert_int_equal(fp_f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(fp_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(fp_f32_to_f16(nextafterf(65520, 0)), 0x7BFF);
    assert_int_equal(fp_f32_to_f16(65520), 0x7C00);
    assert_int_equal(fp_f32_to_f16(-3e38f), 0xFC00);
    assert_int_equal(fp_f32_to_f16(0x1p-149f), 0);
}

static void test_bf16(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = fp_bf16_to_f32((uint16_t)h);
        uint16_t back = fp_f32_to_bf16(f);
        assert_true(isnan(f) ? isnan(fp_bf16_to_f32(back)) : back == h);
        if (h >= 0x7F7F) continue;
        float middle = fp_from_bits((uint32_t)h << 16 | 0x8000);
        assert_int_equal(fp_f32_to_bf16(middle), h % 2 ? h + 1 : h);
        assert_int_equal(fp_f32_to_bf16(fp_from_bits(fp_bits(middle) - 1)), h);
        assert_int_equal(fp_f32_to_bf16(fp_from_bits(fp_bits(middle) + 1)), h + 1);
    }
    assert_true(
        isnan(fp_bf16_to_f32(fp_f32_to_bf16(fp_from_bits(0x7F800001))))); /* not to infinity */
}

static void test_fp8(void **state) {
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        float a = fp_e4m3_to_f32((uint8_t)c), b = fp_e5m2_to_f32((uint8_t)c);
        assert_true((c & 0x7F) == 0x7F ? isnan(a)
                                       : a == field_value(c, 4, 3) && !!signbit(a) == c >> 7);
        if ((c & 0x7C) == 0x7C)
            assert_true(c & 3 ? isnan(b) : isinf(b));
        else
            assert_true(b == field_value(c, 5, 2));
        if (!isnan(a)) assert_int_equal(fp_f32_to_e4m3(a), c);
    }
    for (unsigned c = 0; c < 0x7E; c++) {
        float a = fp_e4m3_to_f32((uint8_t)c), b = fp_e4m3_to_f32((uint8_t)(c + 1)),
              middle = (a + b) / 2;
        assert_int_equal(fp_f32_to_e4m3(middle), c % 2 ? c + 1 : c);
        assert_int_equal(fp_f32_to_e4m3(-nextafterf(middle, 0)), c | 0x80);
        assert_int_equal(fp_f32_to_e4m3(nextafterf(middle, INFINITY)), c + 1);
    }
    assert_int_equal(fp_f32_to_e4m3(1e9f), 0x7E);
    assert_int_equal(fp_f32_to_e4m3(-INFINITY), 0xFE);
    assert_int_equal(fp_f32_to_e4m3(NAN) & 0x7F, 0x7F);
}

static void test_scale_and_fp4_codes(void **state) {
    (void)state;
    for (int c = 0; c < 255; c++) assert_true(fp_e8m0_to_f32((uint8_t)c) == ldexp(1, c - 127));
    assert_true(isnan(fp_e8m0_to_f32(255)));
    for (unsigned c = 0; c < 16; c++) {
        float f = fp_e2m1_to_f32((uint8_t)c);
        assert_true(f == field_value(c, 2, 1) && !!signbit(f) == c >> 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_decode),
        cmocka_unit_test(test_f16_rounds_to_nearest_even),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_scale_and_fp4_codes),
    };
    return cmocka_run_group_tests_name("fp", tests, NULL, NULL);
}
