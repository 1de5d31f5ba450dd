/* Stop strings: the result of every cut into pieces equals that of a plain search over the whole
 * text, nothing of a stop string is ever shown, and no more is held back than could still become
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "stream/stop.h"

/* Earliest end; of those the longest. Returns the length of what comes before it, or STR_NPOS. */
static size_t naive(Str text, const Str *stops, size_t n, Str *matched) {
    for (size_t end = 1; end <= text.n; end++) {
        *matched = STR_NONE;
        for (size_t i = 0; i < n; i++)
            if (str_ends((Str){text.p, end}, stops[i]) && stops[i].n > matched->n)
                *matched = stops[i];
        if (matched->n) return end - matched->n;
    }
    return STR_NPOS;
}

/* Longest tail of text that begins some stop string. */
static size_t naive_held(Str text, const Str *stops, size_t n) {
    size_t longest = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t len = 1; len < stops[i].n && len <= text.n; len++)
            if (len > longest && str_ends(text, (Str){stops[i].p, len})) longest = len;
    return longest;
}

static void check_cut(const StopSet *set, Str text, const Str *stops, size_t n, uint64_t seed,
                      uint32_t most) {
    Str want_match, matched = STR_NONE;
    size_t want = naive(text, stops, n, &want_match), at = 0;
    Buf out = {0};
    StopScan scan = {0};
    bool hit = false;
    for (uint32_t i = 0; !hit && at < text.n; i++) {
        size_t len = rng_u32(seed, 1, i, 0) % (most + 1);
        Str piece = str_slice(text, at, at + len);
        at += piece.n;
        hit = stop_feed(set, &scan, piece, &out, &matched);
        if (hit) break;
        assert_int_equal(stop_held(set, &scan), naive_held((Str){text.p, at}, stops, n));
        assert_int_equal(out.n + stop_held(set, &scan), at);
    }
    assert_int_equal(hit, want != STR_NPOS);
    if (!hit) {
        stop_flush(set, &scan, &out);
        assert_true(str_eq(buf_str(&out), text));
    } else {
        assert_true(str_eq(matched, want_match));
        assert_true(str_eq(buf_str(&out), (Str){text.p, want}));
    }
    buf_deinit(&out);
}

static void test_random_texts_and_cuts(void **state) {
    (void)state;
    char store[6][8], text[200];
    Str stops[6];
    for (uint64_t round = 0; round < 3000; round++) {
        Err err = {0};
        uint32_t letters = 1 + rng_u32(round, 0, 0, 0) % 3, n = 1 + rng_u32(round, 0, 1, 0) % 6;
        for (uint32_t i = 0; i < n; i++) {
            stops[i] = (Str){store[i], 1 + rng_u32(round, 0, 2, i) % 7};
            for (uint32_t j = 0; j < stops[i].n; j++)
                store[i][j] = (char)('a' + rng_u32(round, 1 + i, 3, j) % letters);
        }
        uint32_t len = rng_u32(round, 0, 4, 0) % sizeof text;
        for (uint32_t j = 0; j < len; j++)
            text[j] = (char)('a' + rng_u32(round, 9, 5, j) % (letters + 1));
        StopSet set;
        if (!stop_init(&set, stops, n, &err)) fail_msg("%s", err.msg);
        for (uint32_t most = 1; most < 12; most += 5)
            check_cut(&set, (Str){text, len}, stops, n, round, most);
        stop_deinit(&set);
    }
}

static void test_split_code_points(void **state) {
    (void)state;
    Err err = {0};
    const Str stops[] = {STR("é!"), STR("日本語"), STR("</s>")};
    StopSet set;
    assert_true(stop_init(&set, stops, 3, &err));
    static const char *const texts[] = {
        "caf\xC3\xA8 \xC3\xA9", "caf\xC3\xA9! no", "日本日本語.", "a<</s>b", "</", "",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (uint32_t most = 1; most < 6; most++)
            check_cut(&set, str_c(texts[i]), stops, 3, i, most);
    stop_deinit(&set);
}

static void test_nothing_to_stop_at(void **state) {
    (void)state;
    Err err = {0};
    StopSet set;
    StopScan scan = {0};
    Buf out = {0};
    Str matched;
    assert_true(stop_init(&set, NULL, 0, &err));
    assert_false(stop_feed(&set, &scan, STR("abc"), &out, &matched));
    assert_int_equal(stop_held(&set, &scan), 0);
    stop_flush(&set, &scan, &out);
    assert_true(str_eqc(buf_str(&out), "abc"));
    buf_deinit(&out);
    stop_deinit(&set);
}

/* Long runs that almost match cost a bounded number of steps per byte: this would take hours if
 * they did not. */
static void test_near_misses(void **state) {
    (void)state;
    enum { N = 4000, LEN = 300000 };
    Err err = {0};
    char *pattern = mem_alloc(N), *text = mem_alloc(LEN);
    memset(pattern, 'a', N);
    memset(text, 'a', LEN);
    pattern[N - 1] = 'b';
    for (int i = 0; i < LEN; i += N - 2) text[i] = 'c';
    Str stop = {pattern, N}, matched;
    StopSet set;
    StopScan scan = {0};
    Buf out = {0};
    assert_true(stop_init(&set, &stop, 1, &err));
    for (int i = 0; i < LEN; i++)
        assert_false(stop_feed(&set, &scan, (Str){text + i, 1}, &out, &matched));
    stop_flush(&set, &scan, &out);
    assert_true(str_eq(buf_str(&out), (Str){text, LEN}));
    buf_deinit(&out);
    stop_deinit(&set);
    mem_free(pattern);
    mem_free(text);
}

static void test_refusals(void **state) {
    (void)state;
    Err err = {0};
    StopSet set;
    Str many[STOP_STRINGS_MAX + 1];
    for (size_t i = 0; i <= STOP_STRINGS_MAX; i++) many[i] = STR("x");
    assert_false(stop_init(&set, many, STOP_STRINGS_MAX + 1, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    many[1] = STR_NONE;
    assert_false(stop_init(&set, many, 2, &err));
    assert_non_null(strstr(err.msg, "stop[1]"));
    many[1] = STR("\x80");
    assert_false(stop_init(&set, many, 2, &err));
    for (int64_t i = 0;; i++) {
        many[1] = STR("ab");
        mem_fail_after(i);
        bool ok = stop_init(&set, many, 2, &err);
        mem_fail_after(-1);
        if (ok) break;
        assert_int_equal(err.kind, ERR_NOMEM);
    }
    stop_deinit(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_texts_and_cuts),
        cmocka_unit_test(test_split_code_points),
        cmocka_unit_test(test_nothing_to_stop_at),
        cmocka_unit_test(test_near_misses),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
