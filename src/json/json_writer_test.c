/* What the writer writes: separators, indentation, escapes, shortest numbers, and that a parsed
 * tree comes back the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "json/json_writer.h"

static void assert_written(Buf *b, const char *want) {
    if (!str_eqc(buf_str(b), want))
        fail_msg("wrote %.*s, not %s", (int)b->n, b->p ? b->p : "", want);
    buf_clear(b);
}

static void write_sample(JsonWriter *w) {
    json_w_object(w);
    json_w_key(w, STR("ids"));
    json_w_array(w);
    json_w_i64(w, -3);
    json_w_u64(w, UINT64_MAX);
    json_w_end(w);
    json_w_key(w, STR("none"));
    json_w_array(w);
    json_w_end(w);
    json_w_key(w, STR("o"));
    json_w_object(w);
    json_w_key(w, STR("t"));
    json_w_bool(w, true);
    json_w_key(w, STR("n"));
    json_w_null(w);
    json_w_end(w);
    json_w_key(w, STR("raw"));
    json_w_raw(w, STR("[1]"));
    json_w_end(w);
}

static void separators_and_indent(void **state) {
    (void)state;
    Buf b = {0};
    JsonWriter w = {.out = &b};
    write_sample(&w);
    assert_written(&b, "{\"ids\":[-3,18446744073709551615],\"none\":[],\"o\":{\"t\":true,\"n\":"
                       "null},\"raw\":[1]}");
    w = (JsonWriter){.out = &b, .indent = 2};
    write_sample(&w);
    assert_written(&b, "{\n  \"ids\": [\n    -3,\n    18446744073709551615\n  ],\n  \"none\": "
                       "[],\n  \"o\": {\n    \"t\": true,\n"
                       "    \"n\": null\n  },\n  \"raw\": [1]\n}");
    buf_deinit(&b);
}

static void strings_are_escaped(void **state) {
    (void)state;
    Buf b = {0};
    json_put_quoted(&b,
                    STR("a\"b\\c/\b\f\n\r\t\x01\x7F\xC3\xA9\xF0\x9D\x84\x9E long enough for whole "
                        "blocks of sixteen"),
                    false);
    assert_written(&b, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\x7F\xC3\xA9\xF0\x9D\x84\x9E long "
                       "enough for whole blocks of sixteen\"");
    json_put_quoted(&b, STR("\x7F\xC3\xA9\xF0\x9D\x84\x9E~\n"), true);
    assert_written(&b, "\"\\u007f\\u00e9\\ud834\\udd1e~\\n\"");
    json_put_quoted(&b, STR("a\xFF\xC3z\xE2\x82"), false);
    assert_written(&b, "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\"");
    json_put_quoted(&b, STR("a\xFF"), true);
    assert_written(&b, "\"a\\ufffd\"");
    json_put_quoted(&b, (Str){"\0", 1}, false);
    assert_written(&b, "\"\\u0000\"");
    json_put_quoted(&b, STR_NONE, false);
    assert_written(&b, "\"\"");
    buf_deinit(&b);
}

static void numbers_are_shortest(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *text;
    } table[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {0.1, "0.1"},
                 {-2.5, "-2.5"},
                 {1e300, "1e+300"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5e-324"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {9007199254740993.0, "9007199254740992"},
                 {NAN, "null"},
                 {-INFINITY, "null"},
                 {0.30000000000000004, "0.30000000000000004"}};
    Buf b = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        JsonWriter w = {.out = &b};
        json_w_f64(&w, table[i].v);
        assert_written(&b, table[i].text);
    }
    JsonWriter w = {.out = &b};
    json_w_f32(&w, 0.1f);
    assert_written(&b, "0.1");
    json_w_f32(&w, 16777217.0f);
    assert_written(&b, "16777216");
    json_w_f32(&w, 3.4028235e38f);
    assert_written(&b, "3.4028235e+38");
    json_w_f32(&w, NAN);
    assert_written(&b, "null");
    buf_deinit(&b);
}

static void numbers_read_back(void **state) {
    (void)state;
    Buf b = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)rng_u32(1, 0, i, 0) << 32 | rng_u32(1, 0, i, 1);
        double d, back;
        float f, fback;
        uint32_t low = (uint32_t)bits;
        memcpy(&d, &bits, 8);
        memcpy(&f, &low, 4);
        JsonWriter w = {.out = &b};
        if (isfinite(d)) {
            json_w_f64(&w, d);
            assert_true(str_to_f64(buf_str(&b), &back) && back == d);
            buf_clear(&b);
        }
        if (isfinite(f)) {
            json_w_f32(&w, f);
            assert_true(str_to_f64(buf_str(&b), &back));
            fback = (float)back;
            assert_memory_equal(&fback, &f, 4);
            buf_clear(&b);
        }
    }
    buf_deinit(&b);
}

static void tree_comes_back(void **state) {
    (void)state;
    const char *text =
        "{\"a\":[1.50e+2,-0,[],{}],\"\xC3\xA9\":\"x\\ny\",\"b\":{\"c\":null,\"d\":[true,false]}}";
    Arena a = {0};
    Json *doc;
    Buf b = {0};
    assert_true(json_parse(str_c(text), NULL, &a, &doc, NULL));
    JsonWriter w = {.out = &b};
    json_w_tree(&w, doc);
    assert_written(&b, text);
    w = (JsonWriter){.out = &b};
    json_w_array(&w);
    json_w_tree(&w, json_get(doc, "b"));
    json_w_tree(&w, json_at(json_get(doc, "a"), 2));
    json_w_i64(&w, 1);
    json_w_end(&w);
    assert_written(&b, "[{\"c\":null,\"d\":[true,false]},[],1]");
    arena_deinit(&a);
    buf_deinit(&b);
}

static void too_deep_fails_the_buffer(void **state) {
    (void)state;
    Buf b = {0}, text = {0};
    for (int i = 0; i < 300; i++) buf_putc(&text, '[');
    for (int i = 0; i < 300; i++) buf_putc(&text, ']');
    Arena a = {0};
    Json *doc;
    JsonOptions opt = {.max_depth = 400};
    assert_true(json_parse(buf_str(&text), &opt, &a, &doc, NULL));
    JsonWriter w = {.out = &b};
    json_w_tree(&w, doc);
    assert_true(b.failed);
    arena_deinit(&a);
    buf_deinit(&b);
    buf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separators_and_indent), cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(numbers_are_shortest),  cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(tree_comes_back),       cmocka_unit_test(too_deep_fails_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
