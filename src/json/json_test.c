/* What is JSON and what is not, byte by byte; the same through pieces of every size; the tree's
 * promises (order, number text, duplicates, surrogates), and that running out of memory anywhere
 * is an error and nothing else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json/json_reader.h"
#include "json/json_writer.h"

typedef struct Case {
    char verdict; /* y: valid, n: invalid, s: valid unless surrogates are strict */
    Str text;
} Case;

#define Y(s)                                                                                       \
    {                                                                                              \
        'y', { s, sizeof(s) - 1 }                                                                  \
    }
#define N(s)                                                                                       \
    {                                                                                              \
        'n', { s, sizeof(s) - 1 }                                                                  \
    }
#define S(s)                                                                                       \
    {                                                                                              \
        's', { s, sizeof(s) - 1 }                                                                  \
    }

static const Case cases[] = {
    /* outermost values, white space */
    Y("null"),
    Y("true"),
    Y("false"),
    Y("0"),
    Y("-0"),
    Y("\"\""),
    Y("[]"),
    Y("{}"),
    Y(" \t\r\n[ \n] \r\n"),
    Y("\"a\" "),
    N(""),
    N(" "),
    N("\n\n"),
    N("nul"),
    N("nulll"),
    N("True"),
    N("NULL"),
    N("tru e"),
    N("truefalse"),
    N("true false"),
    N("[] []"),
    N("{}{}"),
    N("1 2"),
    N("\"a\"\"b\""),
    N("\xEF\xBB\xBF{}"),
    N("\f[]"),
    N("\v1"),
    N("\xC2\xA0[]"),
    N("[]\x00"),
    N("\x00"),
    N("[1]x"),
    N("]"),
    N("}"),
    N(","),
    N(":"),
    N("\\"),
    N("'a'"),
    N("a"),
    N("\xFF"),
    N("#\n[]"),
    N("[]\x01"),
    N("// c\n[]"),
    N("/* c */[]"),
    N("[]/**/"),
    N("undefined"),
    N("NaN"),
    N("Infinity"),
    N("-Infinity"),
    N("\x7F"),
    /* arrays */
    Y("[1]"),
    Y("[1,2]"),
    Y("[null,true,false,\"\",0,[],{}]"),
    Y("[[[[[]]]]]"),
    Y("[ 1 , 2 ]"),
    Y("[1\n,\t2]"),
    N("["),
    N("[["),
    N("[1"),
    N("[1,"),
    N("[1,]"),
    N("[,1]"),
    N("[,]"),
    N("[1,,2]"),
    N("[1 2]"),
    N("[1:2]"),
    N("[1;2]"),
    N("[}"),
    N("[1}"),
    N("[[]"),
    N("[]]"),
    N("[\"a\"\"b\"]"),
    N("[a]"),
    N("['a']"),
    N("[\"a\",\n4\n,1,"),
    N("[*]"),
    N("[1]]"),
    N("[true"),
    N("[-]"),
    N("[\"\""),
    N("[\"x\"]]"),
    N("[\xE5]"),
    N("[1,\xE5]"),
    N("[\"x\", truth]"),
    N("[(1)]"),
    N("<.>"),
    N("[<null>]"),
    /* objects */
    Y("{\"a\":1}"),
    Y("{\"a\":1,\"b\":2}"),
    Y("{\"\":0}"),
    Y("{ \"a\" : 1 , \"b\" : [ ] }"),
    Y("{\"a\":{\"a\":{}}}"),
    Y("{\"a\\u0000b\":1}"),
    Y("{\"\\u0000\":1,\"\":2}"),
    N("{"),
    N("{\"a\""),
    N("{\"a\":"),
    N("{\"a\":1"),
    N("{\"a\":1,"),
    N("{\"a\":1,}"),
    N("{,}"),
    N("{,\"a\":1}"),
    N("{\"a\",1}"),
    N("{\"a\" 1}"),
    N("{\"a\":}"),
    N("{\"a\"}"),
    N("{a:1}"),
    N("{'a':1}"),
    N("{1:1}"),
    N("{null:1}"),
    N("{[]:1}"),
    N("{\"a\"::1}"),
    N("{\"a\":1 \"b\":2}"),
    N("{\"a\":1,,\"b\":2}"),
    N("{\"a\":1]"),
    N("{\"a\":1}}"),
    N("{\"a\":\"b\"}#"),
    N("{\"a\":\"b\"}/**/"),
    N("{\"a\":1:2}"),
    N("{\"a\" b}"),
    N("{:\"b\"}"),
    N("{\"a\":\"b\",\"c\"}"),
    N("{\"\x01\":1}"),
    N("{\"a\":/*c*/\"b\"}"),
    /* numbers */
    Y("[1]"),
    Y("[-1]"),
    Y("[10]"),
    Y("[0.1]"),
    Y("[-0.0]"),
    Y("[1e1]"),
    Y("[1E1]"),
    Y("[1e+1]"),
    Y("[1e-1]"),
    Y("[1.5e300]"),
    Y("[0e0]"),
    Y("[0e+1]"),
    Y("[1e400]"),
    Y("[-1e400]"),
    Y("[1e-400]"),
    Y("[123456789012345678901234567890]"),
    Y("[0.00000000000000000000001]"),
    Y("[1.0E+05]"),
    Y("[-9223372036854775808,9223372036854775807]"),
    Y("123"),
    Y("-1.5e-7"),
    Y("1e00"),
    N("01"),
    N("[00]"),
    N("-01"),
    N("-"),
    N("[-a]"),
    N("+1"),
    N(".5"),
    N("-.5"),
    N("1."),
    N("[1.]"),
    N("1.e1"),
    N("1e"),
    N("1e+"),
    N("1E-"),
    N("[1e1.5]"),
    N("1.2.3"),
    N("--1"),
    N("1-1"),
    N("0x1F"),
    N("1_000"),
    N("[1a]"),
    N("[1 e1]"),
    N("[0e]"),
    N("[0E+]"),
    N("[2.e3]"),
    N("[-2.]"),
    N("[1ee2]"),
    N("[1e2e3]"),
    N("[+Inf]"),
    N("[-NaN]"),
    N("[1+2]"),
    N("[0.1.2]"),
    N("[0.e1]"),
    N("[1,000]"),
    N("[\xEF\xBC\x91]"),
    N("[.2e-3]"),
    N("[-012]"),
    N("[0x0]"),
    N("[1\x00]"),
    N("1\"\""),
    N("[- 1]"),
    N("[1.0e-]"),
    N("[9.e+]"),
    N("[1e\xE5]"),
    N("[0\xE5]"),
    /* strings */
    Y("[\"a\"]"),
    Y("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    Y("\"\\u0000\""),
    Y("\"\\u00e9\\u00E9\""),
    Y("\"\\uD834\\uDD1E\""),
    Y("\"\\ud834\\udd1e\""),
    Y("\"\x7F\""),
    Y("\"\xC3\xA9\""),
    Y("\"\xE2\x82\xAC\""),
    Y("\"\xF0\x9D\x84\x9E\""),
    Y("\"\xF4\x8F\xBF\xBF\""),
    Y("\"\xEF\xBF\xBF\""),
    Y("\"\xED\x9F\xBF\""),
    Y("\"\xE2\x80\xA8\xE2\x80\xA9\""),
    Y("\"\\uFFFF\""),
    Y("\"\\uFDD0\""),
    Y("\"/*\""),
    Y("\"\\\\u0000\""),
    Y("\"\\\\\""),
    Y("\"\xEF\xBB\xBF\""),
    Y("\"a string of more than sixteen bytes, and more than thirty-two\""),
    Y("\"0123456789abcde\""),
    Y("\"0123456789abcdef\""),
    N("\""),
    N("\"a"),
    N("\"\\\""),
    N("\"\\"),
    N("\"\\u"),
    N("\"\\u00"),
    N("\"\\u00\""),
    N("\"\\u00A\""),
    N("\"\\u00G0\""),
    N("\"\\U0041\""),
    N("\"\\x41\""),
    N("\"\\a\""),
    N("\"\\0\""),
    N("\"\\'\""),
    N("\"\\\n\""),
    N("\"\\\x00\""),
    N("\"\\ \""),
    N("\"\\\xC3\xA9\""),
    N("\"\n\""),
    N("\"\t\""),
    N("\"\x00\""),
    N("\"\x1F\""),
    N("\"0123456789abcdef\n\""),
    N("\"0123456789abcdef0123456789abcde\x01\""),
    N("\"0123456789abcdef"),
    N("\"\x80\""),
    N("\"\xBF\""),
    N("\"\xC0\x80\""),
    N("\"\xC0\xAF\""),
    N("\"\xC1\xBF\""),
    N("\"\xC3\""),
    N("\"\xC3(\""),
    N("\"\xE0\x80\x80\""),
    N("\"\xE0\x9F\xBF\""),
    N("\"\xE2\x82\""),
    N("\"\xE2(\xA1\""),
    N("\"\xED\xA0\x80\""),
    N("\"\xED\xBF\xBF\""),
    N("\"\xF0\x80\x80\x80\""),
    N("\"\xF0\x8F\xBF\xBF\""),
    N("\"\xF4\x90\x80\x80\""),
    N("\"\xF5\x80\x80\x80\""),
    N("\"\xF8\x88\x80\x80\x80\""),
    N("\"\xFE\""),
    N("\"\xFF\""),
    N("\"\xE9\""),
    N("\"0123456789abcdef\xE9\""),
    N("[\"\xE0\xFF\"]"),
    N("\"\xF0\x9D\x84\""),
    N("{\"\xFF\":1}"),
    N("{\"\\x\":1}"),
    N("\"\\uD800\\u\""),
    N("\"\\uD800\\uDC\""),
    N("\"\\ud83d\\x\""),
    N("\"\\\\\\\""),
    /* half surrogate pairs: kept in the tree, refused by a check of files */
    S("\"\\uD800\""),
    S("\"\\uDC00\""),
    S("\"\\uD800\\uD800\""),
    S("\"\\uD800x\""),
    S("\"\\uDC00\\uD800\""),
    S("\"\\uD800\\n\""),
    S("{\"\\udead\":1}"),
    S("\"\\uD834\\uDD1E\\uD834\""),
    S("\"\\uDBFF\\uE000\""),
    S("\"\\uD800\\u0041\""),
};

/* Reads through pieces of `step` bytes; true if the reader finds one whole document. */
static bool read_pieces(Str text, size_t step, bool strict) {
    JsonReader r;
    JsonToken t = {.event = JSON_EV_MORE};
    Err err = {0};
    JsonOptions opt = {.strict_surrogates = strict};
    json_reader_init(&r, &opt);
    size_t at = 0;
    bool ok = true;
    while (ok && t.event != JSON_EV_END) {
        if (t.event == JSON_EV_MORE) {
            size_t to = at + step < text.n ? at + step : text.n;
            Str piece = str_slice(text, at, to);
            char *own = mem_alloc(
                piece.n + 1); /* a block of its own, so that a sanitizer sees reads past it */
            if (piece.n) memcpy(own, piece.p, piece.n);
            ok = json_reader_feed(&r, (Str){own, piece.n}, to == text.n, &err);
            at = to;
            while (ok && (ok = json_next(&r, &t, &err)) && t.event != JSON_EV_MORE &&
                   t.event != JSON_EV_END) {
            }
            mem_free(own);
        }
    }
    assert_true(ok || err.kind == ERR_INPUT);
    json_reader_deinit(&r);
    return ok;
}

static void grammar_is_rfc8259(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a = {0};
        Json *doc = NULL;
        Err err = {0};
        JsonOptions opt = {.dup = JSON_DUP_KEEP};
        char *own = mem_alloc(cases[i].text.n);
        if (cases[i].text.n) memcpy(own, cases[i].text.p, cases[i].text.n);
        bool ok = json_parse((Str){own, cases[i].text.n}, &opt, &a, &doc, &err);
        if (ok != (cases[i].verdict != 'n'))
            fail_msg("%.*s: %s", STR_A(cases[i].text), ok ? "accepted" : err.msg);
        if (!ok) assert_int_equal(err.kind, ERR_INPUT);
        bool strict = json_check((Str){own, cases[i].text.n}, NULL, &err);
        if (strict != (cases[i].verdict == 'y'))
            fail_msg("%.*s: strict %d", STR_A(cases[i].text), strict);
        mem_free(own);
        arena_deinit(&a);
    }
}

static void pieces_change_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step <= cases[i].text.n + 1; step++) {
            bool ok = read_pieces(cases[i].text, step, false),
                 strict = read_pieces(cases[i].text, step, true);
            if (ok != (cases[i].verdict != 'n') || strict != (cases[i].verdict == 'y')) {
                fail_msg("%.*s in pieces of %zu: %d %d", STR_A(cases[i].text), step, ok, strict);
            }
        }
    }
}

static Json *parse(Arena *a, const char *text, JsonDup dup) {
    Json *doc = NULL;
    Err err = {0};
    JsonOptions opt = {.dup = dup};
    if (!json_parse(str_c(text), &opt, a, &doc, &err)) fail_msg("%s: %s", text, err.msg);
    return doc;
}

static void assert_text(const Json *j, const char *want) {
    Str s;
    assert_true(json_str(j, &s));
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

static void tree_keeps_order_and_text(void **state) {
    (void)state;
    Arena a = {0};
    const Json *j = parse(&a, "{\"z\":1.50e+2,\"a\":[true,false,null,\"x\"],\"m\":{\"k\":\"v\"}}",
                          JSON_DUP_REFUSE);
    assert_int_equal(j->n, 3);
    assert_true(str_eqc(j->items[0].key, "z") && str_eqc(j->items[1].key, "a") &&
                str_eqc(j->items[2].key, "m"));
    assert_true(str_eqc(json_get(j, "z")->text, "1.50e+2"));
    const Json *list = json_get(j, "a");
    bool b = false;
    assert_true(json_bool(json_at(list, 0), &b) && b);
    assert_true(json_bool(json_at(list, 1), &b) && !b);
    assert_true(json_is(json_at(list, 2), JSON_NULL));
    assert_text(json_at(list, 3), "x");
    assert_null(json_at(list, 4));
    assert_text(json_get(json_get(j, "m"), "k"), "v");
    assert_null(json_get(j, "k"));
    assert_null(json_get(NULL, "k"));
    assert_null(json_get(list, "k"));
    assert_false(json_is(NULL, JSON_NULL));
    arena_deinit(&a);
}

static void tree_does_not_borrow(void **state) {
    (void)state;
    Arena a = {0};
    char text[] = "{\"name\":\"a\\tb\",\"plain\":\"text\"}";
    Json *j = parse(&a, text, JSON_DUP_REFUSE);
    memset(text, '#', sizeof text - 1);
    assert_text(json_get(j, "name"), "a\tb");
    assert_text(json_get(j, "plain"), "text");
    arena_deinit(&a);
}

static void escapes_decode(void **state) {
    (void)state;
    Arena a = {0};
    assert_text(parse(&a, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 0), "\"\\/\b\f\n\r\t");
    assert_text(parse(&a, "\"<\\u00e9\\u20AC\\uD834\\uDD1E>\"", 0),
                "<\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E>");
    assert_text(parse(&a, "\"\\uD800\"", 0), "\xED\xA0\x80");
    assert_text(parse(&a, "\"\\uDC00\\uD800\\u0041\"", 0), "\xED\xB0\x80\xED\xA0\x80"
                                                           "A");
    assert_text(parse(&a, "\"\\uD800\\uD800\\uDC00\"", 0), "\xED\xA0\x80\xF0\x90\x80\x80");
    Str s;
    assert_true(json_str(parse(&a, "\"a\\u0000b\"", 0), &s));
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "a\0b", 3);
    arena_deinit(&a);
}

static void duplicates_by_policy(void **state) {
    (void)state;
    Arena a = {0};
    Json *doc;
    Err err = {0};
    assert_false(json_parse(STR("{\"x\":{\"k\":1,\"\\u006b\":2}}"), NULL, &a, &doc, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.msg, "\"k\" twice"));
    const char *text = "{\"a\":1,\"b\":2,\"a\":3}";
    const Json *last = parse(&a, text, JSON_DUP_LAST), *keep = parse(&a, text, JSON_DUP_KEEP);
    assert_int_equal(last->n, 2);
    assert_true(str_eqc(last->items[0].text, "3") && str_eqc(last->items[1].text, "2"));
    assert_int_equal(keep->n, 3);
    assert_true(str_eqc(json_get(keep, "a")->text, "3"));
    arena_deinit(&a);
}

static void duplicates_in_large_objects(void **state) {
    (void)state;
    for (int with_dup = 0; with_dup < 2; with_dup++) {
        Buf b = {0};
        buf_putc(&b, '{');
        for (int i = 0; i < 5000; i++) buf_putf(&b, "\"key %d\":%d,", i, i);
        buf_putf(&b, "\"%s\":-1}", with_dup ? "key 77" : "other");
        Arena a = {0};
        Json *doc;
        assert_int_equal(json_parse(buf_str(&b), NULL, &a, &doc, NULL), !with_dup);
        JsonOptions opt = {.dup = JSON_DUP_LAST};
        assert_true(json_parse(buf_str(&b), &opt, &a, &doc, NULL));
        assert_int_equal(doc->n, with_dup ? 5000 : 5001);
        assert_true(str_eqc(json_get(doc, "key 77")->text, with_dup ? "-1" : "77"));
        assert_true(str_eqc(doc->items[77].key, "key 77"));
        arena_deinit(&a);
        buf_deinit(&b);
    }
}

static void integers_are_exact_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int ok;
        int64_t v;
    } table[] = {
        {"0", 1, 0},
        {"-0", 1, 0},
        {"-0.0", 1, 0},
        {"0e99999999999999999999", 1, 0},
        {"7", 1, 7},
        {"-7", 1, -7},
        {"2.0", 1, 2},
        {"1e3", 1, 1000},
        {"-1E+3", 1, -1000},
        {"1.5e1", 1, 15},
        {"1.5", 0, 0},
        {"15e-1", 0, 0},
        {"1500e-2", 1, 15},
        {"0.001e3", 1, 1},
        {"10500.00", 1, 10500},
        {"100e-3", 0, 0},
        {"9223372036854775807", 1, INT64_MAX},
        {"9223372036854775807.0", 1, INT64_MAX},
        {"9223372036854775808", 0, 0},
        {"9223372036854775808.0", 0, 0},
        {"-9223372036854775808", 1, INT64_MIN},
        {"-9223372036854775808.0", 1, INT64_MIN},
        {"-9223372036854775809", 0, 0},
        {"1180591620717411303424", 0, 0},
        {"1e18", 1, 1000000000000000000},
        {"1e19", 0, 0},
        {"1e400", 0, 0},
        {"1e-400", 0, 0},
        {"1e99999999999999999999", 0, 0},
        {"1.0000000000000000000000000000000000000000000001e10", 0, 0},
        {"922337203685477580700000000000000000000e-20", 1, INT64_MAX},
        {"1000000000000000000000000000000000000000000e-40", 1, 100},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        Arena a = {0};
        int64_t v = 0;
        bool ok = json_i64(parse(&a, table[i].text, 0), &v);
        if (ok != table[i].ok || (ok && v != table[i].v))
            fail_msg("%s gives %d %lld", table[i].text, ok, (long long)v);
        arena_deinit(&a);
    }
    Arena a = {0};
    double d = 0;
    int64_t v;
    assert_true(json_f64(parse(&a, "-1.25e2", 0), &d) && d == -125.0);
    assert_false(json_f64(parse(&a, "1e400", 0), &d));
    assert_false(json_f64(parse(&a, "\"1\"", 0), &d) || json_i64(parse(&a, "true", 0), &v));
    arena_deinit(&a);
}

static Str nested(Buf *b, const char *open, const char *close, int n) {
    buf_clear(b);
    for (int i = 0; i < n; i++) buf_put(b, str_c(open));
    buf_put(b, str_c("0"));
    for (int i = 0; i < n; i++) buf_put(b, str_c(close));
    return buf_str(b);
}

static void depth_and_bytes_are_limited(void **state) {
    (void)state;
    Buf b = {0};
    Arena a = {0};
    Json *doc;
    Err err = {0};
    assert_true(json_parse(nested(&b, "[", "]", 128), NULL, &a, &doc, &err));
    assert_false(json_parse(nested(&b, "[", "]", 129), NULL, &a, &doc, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    assert_non_null(strstr(err.msg, "128"));
    assert_true(json_parse(nested(&b, "{\"a\":", "}", 128), NULL, &a, &doc, &err));
    assert_false(json_parse(nested(&b, "{\"a\":", "}", 40000), NULL, &a, &doc, &err));
    JsonOptions opt = {.max_depth = 1 << 30};
    assert_true(json_parse(nested(&b, "[", "]", JSON_READER_MAX_DEPTH), &opt, &a, &doc, &err));
    assert_false(json_parse(nested(&b, "[", "]", JSON_READER_MAX_DEPTH + 1), &opt, &a, &doc, &err));
    opt = (JsonOptions){.max_bytes = 4};
    assert_true(json_parse(STR("[10]"), &opt, &a, &doc, &err));
    assert_false(json_parse(STR("[100]"), &opt, &a, &doc, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    arena_deinit(&a);
    buf_deinit(&b);
}

static void errors_name_the_place(void **state) {
    (void)state;
    Arena a = {0};
    Json *doc;
    Err err = {0};
    assert_false(json_parse(STR("{\"a\": [1, 2,]}"), NULL, &a, &doc, &err));
    assert_string_equal(err.msg, "JSON at byte 12: found ']' where a value is expected");
    assert_false(json_parse(STR("{\"a\": \"\xC0\x80\"}"), NULL, &a, &doc, &err));
    assert_string_equal(err.msg, "JSON at byte 7: byte 0xC0 in a string is not UTF-8");
    assert_false(json_parse(STR("[\"ab\\q\"]"), NULL, &a, &doc, &err));
    assert_non_null(strstr(err.msg, "byte 4: escape \\q"));
    assert_false(json_parse(STR("[1"), NULL, &a, &doc, &err));
    assert_non_null(
        strstr(err.msg, "byte 2: the text ends where ',' or the closing bracket is expected"));
    arena_deinit(&a);
}

static void python_numbers_on_request(void **state) {
    (void)state;
    Arena a = {0};
    Json *doc;
    Err err = {0};
    JsonOptions opt = {.python_numbers = true};
    double d;
    assert_true(json_parse(STR("{\"a\":[NaN,Infinity,-Infinity,-1.5,1e5],\"b\":NaN}"), &opt, &a,
                           &doc, &err));
    assert_true(json_is(json_get(doc, "b"), JSON_NUMBER) && !json_f64(json_get(doc, "b"), &d));
    assert_true(str_eqc(json_at(json_get(doc, "a"), 2)->text, "-Infinity"));
    assert_true(json_f64(json_at(json_get(doc, "a"), 3), &d) && d == -1.5);
    int64_t whole;
    for (size_t k = 0; k < 4; k++) assert_false(json_i64(json_at(json_get(doc, "a"), k), &whole));
    static const char *const bad[] = {"-NaN", "+Infinity", "nan",  "Inf",        "-Infinit",
                                      "1NaN", "-1x",       "1e5x", "--Infinity", "NaNs"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(json_parse(str_c(bad[i]), &opt, &a, &doc, &err));
    arena_deinit(&a);
}

static void reader_skips_and_completes(void **state) {
    (void)state;
    JsonReader r;
    JsonToken t;
    Err err = {0};
    Arena a = {0};
    Str s;
    assert_true(
        json_reader_open(&r, STR("{\"a\":{\"x\":[1,{}]},\"b\":3,\"c\\n\":\"d\"}"), NULL, &err));
    assert_true(json_expect(&r, &t, JSON_EV_OBJECT, "root", &err));
    assert_true(json_next(&r, &t, &err) && str_eqc(t.raw, "a") && json_skip(&r, &t, &err));
    assert_true(json_next(&r, &t, &err) && str_eqc(t.raw, "b") && json_skip(&r, &t, &err));
    assert_true(json_next(&r, &t, &err) && json_token_str(&t, &a, &s, &err) && str_eqc(s, "c\n"));
    assert_false(json_expect(&r, &t, JSON_EV_NUMBER, "c", &err));
    assert_string_equal(err.msg, "c at byte 30 is a string, not a number");
    json_reader_deinit(&r);

    json_reader_init(&r, NULL);
    assert_true(json_reader_feed(&r, STR("{\"long"), false, &err));
    assert_true(json_next(&r, &t, &err) && json_next(&r, &t, &err) && t.event == JSON_EV_MORE);
    assert_true(json_reader_feed(&r, STR("er\": 1} tail"), false, &err));
    assert_true(json_next(&r, &t, &err) && t.event == JSON_EV_KEY && str_eqc(t.raw, "longer"));
    assert_int_equal(t.at, 1);
    assert_false(json_reader_complete(&r));
    assert_true(json_next(&r, &t, &err) && json_next(&r, &t, &err) &&
                t.event == JSON_EV_OBJECT_END);
    assert_true(json_reader_complete(&r));
    assert_int_equal(json_reader_offset(&r), 13);
    json_reader_deinit(&r);
    arena_deinit(&a);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    Buf b = {0};
    buf_put(&b, STR("{\"list\":["));
    for (int i = 0; i < 200; i++) buf_putf(&b, "{\"k%d\":\"v\\n\"},", i);
    buf_put(&b, STR("0],"));
    for (int i = 0; i < 20; i++) buf_putf(&b, "\"n%d\":1,", i);
    buf_put(&b, STR("\"z\":[]}"));
    bool ok = false;
    for (int n = 0; !ok; n++) {
        assert_true(n < 1000);
        Arena a = {0};
        Json *doc = NULL;
        Err err = {0};
        mem_fail_after(n);
        ok = json_parse(buf_str(&b), NULL, &a, &doc, &err);
        mem_fail_after(-1);
        if (!ok) assert_int_equal(err.kind, ERR_NOMEM);
        arena_deinit(&a);
    }
    Arena small = {.max_bytes = 2000};
    Json *doc = NULL;
    Err err = {0};
    assert_false(json_parse(buf_str(&b), NULL, &small, &doc, &err));
    assert_int_equal(err.kind, ERR_NOMEM);
    arena_deinit(&small);
    buf_deinit(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammar_is_rfc8259),
        cmocka_unit_test(pieces_change_nothing),
        cmocka_unit_test(tree_keeps_order_and_text),
        cmocka_unit_test(tree_does_not_borrow),
        cmocka_unit_test(escapes_decode),
        cmocka_unit_test(duplicates_by_policy),
        cmocka_unit_test(duplicates_in_large_objects),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(depth_and_bytes_are_limited),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(python_numbers_on_request),
        cmocka_unit_test(reader_skips_and_completes),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
