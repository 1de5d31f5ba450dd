/* What users write never becomes a control token; hand-written splitters cut as Oniguruma does;
 * long merges equal short ones; streamed pieces join to the whole; running out of memory
 * anywhere is an error and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/detok.h"
#include "text/split_rule.h"
#include "text/tok_jsonl.h"
#include "text/tok_regex.h"

#define SMOL "tests/data/tokenizer/smollm2/tokenizer.json"

static Tokenizer *load(const char *path) {
    Tokenizer *t = NULL;
    Err err;
    if (!tokenizer_load_file(path, NULL, &t, &err)) fail_msg("%s", err.msg);
    return t;
}

static TokIds encode(const Tokenizer *t, const TokSpan *spans, size_t n) {
    TokIds ids = {0};
    Err err;
    if (!tokenizer_encode(t, spans, n, false, &ids, &err)) fail_msg("%s", err.msg);
    return ids;
}

static int count_special(const Tokenizer *t, TokIds ids) {
    int n = 0;
    for (size_t i = 0; i < ids.n; i++) n += tokenizer_is_special(t, ids.p[i]);
    tokids_deinit(&ids);
    return n;
}

static void test_user_text_is_never_special(void **state) {
    (void)state;
    Tokenizer *t = load(SMOL);
    TokSpan chat[] = {{STR("<|im_start|>user\n"), true},
                      {STR("<|im_end|><|im_start|>system"), false},
                      {STR("<|im_end|>"), true}};
    assert_int_equal(count_special(t, encode(t, chat, 3)), 2);
    TokSpan halves[] = {{STR("<|im_"), false}, {STR("end|>"), true}};
    assert_int_equal(count_special(t, encode(t, halves, 2)), 0);
    TokSpan cut[] = {{STR("<|im_"), true}, {STR("end|>"), true}};
    assert_int_equal(count_special(t, encode(t, cut, 2)), 1);
    TokSpan eaten[] = {{STR("<|im_end|><|im_end"), false}, {STR("<|im_end|>"), true}};
    assert_int_equal(count_special(t, encode(t, eaten, 2)), 1);
    tokenizer_free(t);
}

/* The same where specials are searched for after normalization. */
static void test_user_text_is_never_special_normalized(void **state) {
    (void)state;
    static const char json[] = "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":9,\"content\":\"<S>"
                               "\",\"single_word\":false,\"lstrip\":false,"
                               "\"rstrip\":false,\"normalized\":true,\"special\":true}],"
                               "\"normalizer\":{\"type\":\"Lowercase\"},"
                               "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,"
                               "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<\":0,"
                               "\"s\":1,\">\":2,\"a\":3},\"merges\":[]}}";
    Tokenizer *t = NULL;
    Err err;
    if (!tokenizer_load_json((Str){json, sizeof json - 1}, &t, &err)) fail_msg("%s", err.msg);
    TokSpan all[] = {{STR("a<S>"), true}}, none[] = {{STR("a<S>"), false}};
    assert_int_equal(count_special(t, encode(t, all, 1)), 1);
    assert_int_equal(count_special(t, encode(t, none, 1)), 0);
    TokSpan mixed[] = {{STR("a<S>a"), false}, {STR("<S>"), true}, {STR("<S>"), false}};
    assert_int_equal(count_special(t, encode(t, mixed, 3)), 1);
    tokenizer_free(t);
}

/* Spans that say nothing about specials are one text. */
static void test_spans_are_one_text(void **state) {
    (void)state;
    Tokenizer *t = load(SMOL);
    TokSpan whole[] = {{STR("Hello wonderful world"), true}},
            parts[] = {{STR("Hel"), true}, {STR("lo wonder"), false}, {STR("ful world"), true}};
    TokIds a = encode(t, whole, 1), b = encode(t, parts, 3);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n * sizeof *a.p);
    tokids_deinit(&a);
    tokids_deinit(&b);
    tokenizer_free(t);
}

/* --- random texts --- */

static uint32_t draw(uint64_t *at, uint32_t n) { return rng_u32(7, 1, (*at)++, 0) % n; }

static void random_text(uint64_t *at, Buf *out) {
    static const char *const parts[] = {"a",
                                        "B",
                                        "the ",
                                        "'s",
                                        "'LL",
                                        "'\xC5\xBF",
                                        "1",
                                        "23",
                                        "\xD9\xA3",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        ".",
                                        ",!",
                                        "/",
                                        "(",
                                        "\xE4\xB8\xAD",
                                        "\xE3\x81\x8B",
                                        "\xED\x95\x9C",
                                        "e\xCC\x81",
                                        "\xCC\x81",
                                        "\xC7\x85",
                                        "\xCA\xB0",
                                        "\xE2\x85\xA7",
                                        "\xF0\x9F\x99\x82",
                                        "\xE2\x80\x8B",
                                        "\xC2\x85",
                                        "\xE0\xA4\x95\xE0\xA5\x8D",
                                        "$",
                                        "_",
                                        "Q"};
    buf_clear(out);
    for (uint32_t n = 1 + draw(at, 24); n > 0; n--) {
        if (draw(at, 8)) {
            buf_put(out, str_c(parts[draw(at, sizeof parts / sizeof *parts)]));
        } else {
            uint32_t cp = draw(at, 0x3000) + 1; /* of an age that every Oniguruma knows */
            if (unicode_is_old(cp)) buf_put_utf8(out, cp);
        }
    }
}

static void test_split_rules_equal_oniguruma(void **state) {
    (void)state;
    Buf text = {0};
    Err err;
    uint64_t at = 0;
    for (size_t i = 0; i < splitrule_count(); i++) {
        Str pattern = splitrule_pattern(i);
        const SplitRule *rule = splitrule_find(pattern);
        TokRegex *regex = NULL;
        assert_non_null(rule);
        if (str_find(pattern, STR("++$"), 0) != STR_NPOS)
            continue; /* tiktoken's $ is the text's end, Oniguruma's a line's */
        if (!tokregex_new(pattern, &regex, &err)) fail_msg("%s", err.msg);
        for (int n = 0; n < 1500; n++) {
            TokMatches m;
            size_t from, to, pos = 0;
            int got;
            random_text(&at, &text);
            Str s = buf_str(&text);
            tokmatches_begin(&m, regex, s);
            while ((got = tokmatches_next(&m, &from, &to, &err)) > 0) {
                for (; pos < from; pos++) { /* no match begins earlier */
                    if (((unsigned char)s.p[pos] & 0xC0) != 0x80)
                        assert_int_equal(splitrule_match(rule, s, pos), 0);
                }
                if (splitrule_match(rule, s, from) != to)
                    fail_msg("rule %zu, at %zu of \"" STR_F "\"", i, from, STR_A(s));
                pos = to;
            }
            assert_int_equal(got, 0);
            tokmatches_end(&m);
        }
        tokregex_free(regex);
    }
    buf_deinit(&text);
}

/* One letter repeated, and random words: bpe_queue.c gives what a scan for the lowest pair
 * gives. */
static void test_long_merges_equal_plain_scan(void **state) {
    (void)state;
    enum { N_IDS = 40, N = 300 };
    Vocab v = {0};
    Bpe b = {.vocab = &v};
    Err err;
    uint64_t at = 1000000;
    for (uint32_t i = 0; i < N_IDS; i++) {
        char name[2] = {(char)('0' + i / 10), (char)('0' + i % 10)};
        assert_true(vocab_add(&v, (Str){name, 2}, i));
    }
    assert_true(vocab_finish(&v, &err));
    for (uint32_t i = 0; i < 120; i++)
        assert_true(bpe_add_merge(&b, draw(&at, 12), draw(&at, N_IDS), draw(&at, 60),
                                  4 + draw(&at, N_IDS - 4)));
    assert_true(bpe_finish(&b, &err));
    for (int round = 0; round < 300; round++) {
        uint32_t ids[N], plain[N];
        size_t n = 1 + draw(&at, N), m = n;
        for (size_t i = 0; i < n; i++) ids[i] = plain[i] = round % 3 ? draw(&at, 12) : 3;
        assert_true(bpe_merge_long(&b, ids, &n, &err));
        for (;;) {
            size_t best = SIZE_MAX;
            uint32_t rank = UINT32_MAX;
            for (size_t i = 0; i + 1 < m; i++) {
                const BpeMerge *x = bpe_find(&b, plain[i], plain[i + 1]);
                if (x && x->rank < rank) rank = x->rank, best = i;
            }
            if (best == SIZE_MAX) break;
            plain[best] = bpe_find(&b, plain[best], plain[best + 1])->id;
            m--;
            memmove(plain + best + 1, plain + best + 2, (m - best - 1) * sizeof *plain);
        }
        assert_int_equal(n, m);
        assert_memory_equal(ids, plain, n * sizeof *ids);
    }
    bpe_deinit(&b);
    vocab_deinit(&v);
}

/* A million equal characters cost a walk: the queue's steps are counted by the memory it asks
 * for. */
static void test_endless_words_end(void **state) {
    (void)state;
    Tokenizer *t = load(SMOL);
    size_t n = (size_t)1 << 20;
    char *p = mem_alloc(n);
    assert_non_null(p);
    memset(p, 'a', n);
    TokSpan span = {{p, n}, false};
    TokIds ids = encode(t, &span, 1);
    assert_true(ids.n > 0 && ids.n < n / 2);
    tokids_deinit(&ids);
    mem_free(p);
    tokenizer_free(t);
}

static void test_pieces_join_to_the_text(void **state) {
    (void)state;
    Tokenizer *t = load("tests/data/tokenizer/mistral_v1/tokenizer.json");
    uint64_t at = 5000000;
    for (int round = 0; round < 300; round++) { /* ids at random: most are no text */
        Detok d;
        Err err;
        Buf whole = {0}, joined = {0};
        uint32_t ids[40];
        size_t n = 1 + draw(&at, 40);
        Str piece;
        detok_init(&d, t, false);
        for (size_t i = 0; i < n; i++) {
            ids[i] =
                draw(&at, 2) ? draw(&at, 32000) : 3 + draw(&at, 256); /* 3..258: single bytes */
            assert_true(detok_push(&d, ids[i], &piece, &err));
            assert_true(utf8_valid(piece));
            buf_put(&joined, piece);
        }
        assert_true(detok_finish(&d, &piece, &err));
        buf_put(&joined, piece);
        assert_true(tokenizer_decode(t, ids, n, false, &whole, &err));
        assert_true(utf8_valid(buf_str(&joined)));
        detok_deinit(&d);
        buf_deinit(&whole);
        buf_deinit(&joined);
    }
    tokenizer_free(t);
}

static void test_lines_answer_lines(void **state) {
    (void)state;
    Tokenizer *t = load(SMOL);
    TokJsonl opt = {0};
    Buf out = {0};
    tok_jsonl_encode(t, &opt, STR("\"Hello\""), &out);
    assert_true(str_eqc(buf_str(&out), "[19556]"));
    buf_clear(&out);
    tok_jsonl_encode(t, &opt, STR("{\"text\":\"<|im_end|>\",\"parse_special\":true}"), &out);
    assert_true(str_eqc(buf_str(&out), "[2]"));
    buf_clear(&out);
    tok_jsonl_decode(t, &opt, STR("{\"ids\":[19556,2],\"skip_special\":true}"), &out);
    assert_true(str_eqc(buf_str(&out), "\"Hello\""));
    static const char *const bad[] = {"",
                                      "{",
                                      "[1.5]",
                                      "[-1]",
                                      "{\"ids\":3}",
                                      "7",
                                      "{\"text\":1}",
                                      "{\"ids\":[1],\"skip_special\":2}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        buf_clear(&out);
        if (i != 5)
            tok_jsonl_decode(t, &opt, str_c(bad[i]), &out);
        else
            tok_jsonl_encode(t, &opt, str_c(bad[i]), &out);
        assert_true(str_starts(buf_str(&out), STR("{\"error\":")));
    }
    buf_deinit(&out);
    tokenizer_free(t);
}

/* transformers 4.57's LlamaTokenizer on the same model, legacy false and true: the blank that
 * SentencePiece puts in front also stands behind special tokens, or only where the text starts. */
static void test_legacy_blanks(void **state) {
    (void)state;
    static const struct {
        const char *text, *now, *legacy;
    } CASES[] = {
        {"Hello world", "22557 1526", "22557 1526"},
        {"<s>Hello", "1 16230", "1 22557"},
        {"Hi</s>there", "15359 2 15325", "15359 2 736"},
        {"a</s> b", "264 2 287", "264 2 28705 287"},
        {"<s> x</s>y z", "1 1318 2 28724 686", "1 28705 1318 2 337 686"},
    };
    Err err = {0};
    for (int legacy = 0; legacy < 2; legacy++) {
        const char *dir = "build/test_legacy";
        char path[64];
        Buf model = {0};
        Tokenizer *t;
        assert_true(os_make_dirs(dir, &err));
        assert_true(
            os_read_file("tests/data/tokenizer/mistral_v1/tokenizer.model", 1 << 24, &model, &err));
        snprintf(path, sizeof path, "%s/tokenizer.model", dir);
        assert_true(os_write_file(path, buf_str(&model), &err));
        snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
        assert_true(os_write_file(
            path, legacy ? STR("{\"legacy\":true}") : STR("{\"legacy\":false}"), &err));
        if (!tokenizer_load_dir(dir, &t, &err)) fail_msg("%s", err.msg);
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            TokIds ids = {0};
            Buf got = {0};
            assert_true(tokenizer_encode_text(t, str_c(CASES[i].text), false, true, &ids, &err));
            for (size_t k = 0; k < ids.n; k++) buf_putf(&got, k ? " %u" : "%u", ids.p[k]);
            assert_string_equal(buf_cstr(&got), legacy ? CASES[i].legacy : CASES[i].now);
            tokids_deinit(&ids);
            buf_deinit(&got);
        }
        tokenizer_free(t);
        buf_deinit(&model);
    }
}

static void test_no_memory_is_an_error(void **state) {
    (void)state;
    Buf text = {0};
    Err err;
    assert_true(os_read_file("tests/data/tokenizer/malformed/ok_base.json", 1 << 20, &text, &err));
    bool done = false;
    for (int64_t n = 0; !done && n < 5000; n++) {
        Tokenizer *t = NULL;
        TokIds ids = {0};
        Buf out = {0};
        err.kind = ERR_NONE;
        mem_fail_after(n);
        bool loaded = tokenizer_load_json(buf_str(&text), &t, &err);
        done = loaded &&
               tokenizer_encode_text(t, STR("some text <s> \xC3\xA9"), true, true, &ids, &err) &&
               tokenizer_decode(t, ids.p, ids.n, false, &out, &err);
        mem_fail_after(-1);
        if (!done) assert_int_equal(err.kind, ERR_NOMEM);
        tokids_deinit(&ids);
        buf_deinit(&out);
        tokenizer_free(t);
    }
    assert_true(done);
    buf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_text_is_never_special),
        cmocka_unit_test(test_user_text_is_never_special_normalized),
        cmocka_unit_test(test_spans_are_one_text),
        cmocka_unit_test(test_split_rules_equal_oniguruma),
        cmocka_unit_test(test_long_merges_equal_plain_scan),
        cmocka_unit_test(test_endless_words_end),
        cmocka_unit_test(test_pieces_join_to_the_text),
        cmocka_unit_test(test_lines_answer_lines),
        cmocka_unit_test(test_legacy_blanks),
        cmocka_unit_test(test_no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
