/* cursor, utf8, err and rng: bounds, strictness, messages, known answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/utf8.h"

static void cursor_errors_stick(void **state) {
    (void)state;
    Cursor c = cursor_over((Str){"\x01\x02\x03\x04\x05\x06\x07", 7});
    assert_int_equal(cursor_u32(&c), 0x04030201);
    assert_int_equal(cursor_u16(&c), 0x0605);
    assert_int_equal(cursor_u64(&c), 0);
    assert_true(c.failed);
    assert_int_equal(cursor_u8(&c), 0); /* one byte is left, but the failure stays */
    c = cursor_over(STR("abc"));
    assert_int_equal(cursor_bytes(&c, UINT64_MAX).n, 0);
    assert_true(c.failed);
}

static void varints_end(void **state) {
    (void)state;
    uint64_t v;
    Cursor c = cursor_over((Str){"\xAC\x02", 2});
    assert_true(cursor_varint(&c, &v) && v == 300);
    c = cursor_over((Str){"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10});
    assert_true(cursor_varint(&c, &v) && v == UINT64_MAX);
    c = cursor_over((Str){"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10}); /* 65 bits */
    assert_false(cursor_varint(&c, &v));
    c = cursor_over((Str){"\x80\x80", 2});
    assert_false(cursor_varint(&c, &v));
}

static void utf8_is_strict(void **state) {
    (void)state;
    static const char *const BAD[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xE2\x82",
                                      "\xFF"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) assert_false(utf8_valid(str_c(BAD[i])));
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char c[4];
        size_t n = utf8_encode(cp, c), at = 0;
        if (cp >= 0xD800 && cp <= 0xDFFF) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(utf8_next((Str){c, n}, &at), cp);
        assert_int_equal(at, n);
    }
    assert_int_equal(utf8_encode(0x110000, (char[4]){0}), 0);
}

static void incomplete_tails_are_found(void **state) {
    (void)state;
    assert_int_equal(utf8_incomplete_tail(STR("abc")), 0);
    assert_int_equal(utf8_incomplete_tail(STR("a\xE2\x82")), 2);
    assert_int_equal(utf8_incomplete_tail(STR("a\xF0\x9F\x98")), 3);
    assert_int_equal(utf8_incomplete_tail(STR("a\xE2\x82\xAC")), 0);
    assert_int_equal(utf8_incomplete_tail(STR("\x80\x80")), 0);
    assert_int_equal(utf8_incomplete_tail(STR("a\xED\xA0")), 0); /* a surrogate: never valid */
}

static void messages_are_one_safe_line(void **state) {
    (void)state;
    Err err = {0};
    assert_false(err_set(&err, ERR_INPUT, "name \"%s\"", "a\nb\x1b[31m"));
    assert_string_equal(err.msg, "name \"a\\x0ab\\x1b[31m\"");
    char big[900];
    memset(big, 'x', sizeof big - 1);
    big[899] = 0;
    err_set(&err, ERR_INPUT, "%s", big);
    assert_true(strlen(err.msg) < ERR_MSG_MAX);
    assert_string_equal(err.msg + strlen(err.msg) - 3, "...");
    err_set(&err, ERR_CORRUPT, "inner");
    err_wrap(&err, "file %d", 7);
    assert_string_equal(err.msg, "file 7: inner");
    assert_int_equal(err.kind, ERR_CORRUPT);
    assert_false(err_set(NULL, ERR_INPUT, "nobody listens"));
}

/* Known answers of the reference implementation (Random123, kat_vectors). */
static void philox_is_philox(void **state) {
    (void)state;
    uint32_t out[4];
    rng_philox((uint32_t[4]){0, 0, 0, 0}, (uint32_t[2]){0, 0}, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    rng_philox((uint32_t[4]){~0u, ~0u, ~0u, ~0u}, (uint32_t[2]){~0u, ~0u}, out);
    assert_int_equal(out[0], 0x408f276d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursor_errors_stick),
        cmocka_unit_test(varints_end),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(incomplete_tails_are_found),
        cmocka_unit_test(messages_are_one_safe_line),
        cmocka_unit_test(philox_is_philox),
    };
    return cmocka_run_group_tests_name("reading", tests, NULL, NULL);
}
