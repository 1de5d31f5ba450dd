/* Spot checks of the generated tables and of the algorithms on them: each line is a case that a
 * wrong version, a wrong order or a forgotten rule gets wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "base/utf8.h"

static void test_categories(void **state) {
    (void)state;
    static const struct {
        uint32_t cp;
        UnicodeCategory category;
    } cases[] = {
        {'A', UNICODE_LU},
        {'a', UNICODE_LL},
        {0x1C5, UNICODE_LT},
        {0x2B0, UNICODE_LM},
        {0x4E2D, UNICODE_LO},
        {0x301, UNICODE_MN},
        {0x903, UNICODE_MC},
        {0x20DD, UNICODE_ME},
        {'7', UNICODE_ND},
        {0x2167, UNICODE_NL},
        {0xBD, UNICODE_NO},
        {'_', UNICODE_PC},
        {0x2014, UNICODE_PD},
        {'(', UNICODE_PS},
        {')', UNICODE_PE},
        {0xAB, UNICODE_PI},
        {0xBB, UNICODE_PF},
        {'!', UNICODE_PO},
        {'+', UNICODE_SM},
        {'$', UNICODE_SC},
        {'^', UNICODE_SK},
        {0x1F642, UNICODE_SO},
        {' ', UNICODE_ZS},
        {0x2028, UNICODE_ZL},
        {0x2029, UNICODE_ZP},
        {'\n', UNICODE_CC},
        {0xAD, UNICODE_CF},
        {0xD800, UNICODE_CS},
        {0xE000, UNICODE_CO},
        {0x378, UNICODE_CN},
        {0x10D4A, UNICODE_LO} /* Unicode 16 */,
        {0x16EA0, UNICODE_CN} /* Unicode 17 */,
        {0x110000, UNICODE_CN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (unicode_category(cases[i].cp) != cases[i].category) fail_msg("U+%04X", cases[i].cp);
    assert_true(unicode_is_numeric(0x11DE0) && !unicode_is_number(0x11DE0));
    assert_true(unicode_is_space(0x85) && unicode_is_space(0x3000) && !unicode_is_space(0x200B));
    assert_true(unicode_is_upper(0x24B6) && unicode_is_lower(0x24D0) && !unicode_is_lower(0x4E2D));
}

static Str run(void (*put)(Buf *, Str), Buf *b, const char *text) {
    buf_clear(b);
    put(b, str_c(text));
    return buf_str(b);
}

static void test_case_mappings(void **state) {
    (void)state;
    Buf b = {0};
    assert_true(str_eqc(run(unicode_put_lower, &b, "\xCE\x91\xCE\xA3 \xCE\xA3\xCE\x91\xCE\xA3."),
                        "\xCE\xB1\xCF\x82 \xCF\x83\xCE\xB1\xCF\x82."));
    assert_true(str_eqc(run(unicode_put_lower, &b, "\xC4\xB0X"), "i\xCC\x87x"));
    assert_true(str_eqc(run(unicode_put_upper, &b,
                            "stra\xC3\x9F"
                            "e \xC5\x89"),
                        "STRASSE \xCA\xBCN"));
    assert_true(str_eqc(run(unicode_put_title, &b, "they're \xC7\x86-o"), "They'Re \xC7\x85-O"));
    assert_true(str_eqc(run(unicode_put_capitalized, &b, "\xC7\x86 ABC"), "\xC7\x85 abc"));
    assert_true(str_eqc(run(unicode_put_upper, &b,
                            "a\xFF"
                            "b"),
                        "A\xFF"
                        "B"));
    buf_deinit(&b);
}

static void test_normalization(void **state) {
    (void)state;
    static const struct {
        const char *in, *nfc, *nfd, *nfkc, *nfkd;
    } cases[] = {
        {"\xC3\xA9", "\xC3\xA9", "e\xCC\x81", "\xC3\xA9", "e\xCC\x81"},
        {"e\xCC\x81", "\xC3\xA9", "e\xCC\x81", "\xC3\xA9", "e\xCC\x81"},
        {"\xEF\xAC\x81", "\xEF\xAC\x81", "\xEF\xAC\x81", "fi", "fi"},
        {"\xE2\x84\xAB", "\xC3\x85", "A\xCC\x8A", "\xC3\x85", "A\xCC\x8A"},
        /* classes 220 and 230 change places; a mark of the same class blocks */
        {"a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81", "a\xCC\xA3\xCC\x81", "\xE1\xBA\xA1\xCC\x81",
         "a\xCC\xA3\xCC\x81"},
        {"a\xCC\x83\xCC\x81", "\xC3\xA3\xCC\x81", "a\xCC\x83\xCC\x81", "\xC3\xA3\xCC\x81",
         "a\xCC\x83\xCC\x81"},
        /* Hangul, in one and from parts */
        {"\xED\x95\x9C", "\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C",
         "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C",
         "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C",
         "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC",
         "\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC"},
        {"\xFF"
         "e\xCC\x81\xC3",
         "\xFF\xC3\xA9\xC3",
         "\xFF"
         "e\xCC\x81\xC3",
         "\xFF\xC3\xA9\xC3",
         "\xFF"
         "e\xCC\x81\xC3"},
    };
    Buf b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *want[] = {cases[i].nfc, cases[i].nfd, cases[i].nfkc, cases[i].nfkd};
        for (int form = UNICODE_NFC; form <= UNICODE_NFKD; form++) {
            buf_clear(&b);
            unicode_normalize((UnicodeForm)form, str_c(cases[i].in), &b);
            if (!str_eqc(buf_str(&b), want[form])) fail_msg("case %zu, form %d", i, form);
            if (unicode_is_plain((UnicodeForm)form, str_c(cases[i].in)))
                assert_string_equal(cases[i].in, want[form]);
        }
    }
    buf_deinit(&b);
}

/* 100 000 marks in the worst order: sorted, not swapped one by one. */
static void test_many_marks(void **state) {
    (void)state;
    Buf in = {0}, out = {0};
    buf_putc(&in, 'a');
    for (int i = 0; i < 100000; i++) buf_put_utf8(&in, i % 2 ? 0x316 : 0x301);
    unicode_normalize(UNICODE_NFD, buf_str(&in), &out);
    assert_int_equal(out.n, in.n);
    assert_memory_equal(out.p + 1, "\xCC\x96", 2);
    assert_memory_equal(out.p + out.n - 2, "\xCC\x81", 2);
    buf_deinit(&in);
    buf_deinit(&out);
}

static void test_graphemes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t first; /* bytes of the first cluster */
    } cases[] = {
        {"ab", 1},
        {"\r\nx", 2},
        {"e\xCC\x81x", 3},
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xABx", 9},
        {"\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA\xF0\x9F\x87\xAB", 8}, /* two flags' letters */
        {"\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9x", 11},   /* joined pictographs */
        {"\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7x", 9},            /* conjunct */
        {"a\xE2\x80\x8D"
         "b",
         4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (unicode_grapheme_end(str_c(cases[i].text), 0) != cases[i].first)
            fail_msg("case %zu", i);
}

static void test_widths(void **state) {
    (void)state;
    assert_int_equal(unicode_width('a'), 1);
    assert_int_equal(unicode_width(0x4E2D), 2);
    assert_int_equal(unicode_width(0x1F642), 2);
    assert_int_equal(unicode_width(0x301), 0);
    assert_int_equal(unicode_width(0x200D), 0);
    assert_int_equal(unicode_width(0xAD), 1);
    assert_int_equal(unicode_width('\n'), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_categories),    cmocka_unit_test(test_case_mappings),
        cmocka_unit_test(test_normalization), cmocka_unit_test(test_many_marks),
        cmocka_unit_test(test_graphemes),     cmocka_unit_test(test_widths),
    };
    return cmocka_run_group_tests_name("unicode", tests, NULL, NULL);
}
