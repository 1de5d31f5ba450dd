/* A GGUF's vocabulary as tokenizer.json: what is read back encodes and decodes every text as the GGUF
 * does, byte-level and in SentencePiece's manner; other kinds are refused by name. Reads
 * tests/data/tokenizer and, where it is there, $MLXCEL_GOLDEN_DIR/tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "ckpt/gguf.h"
#include "text/vocab_json.h"

static const char *const TEXTS[] = {
    "Hello, world! It's 12345 o'clock",
    "  leading and trailing  ",
    "def f(x):\n\treturn x ** 2\n\n\n",
    "\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82",
    "\xF0\x9F\x98\x80\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA e\xCC\x81 \xE2\x96\x81x",
    "<s>[INST] a</s><|user|>\nhi<|end|><|endoftext|>",
    "1 22 333 4444 don't WE'LL I'm",
    "\r\n \r\n x \xC2\xA0 \xE2\x80\x8B",
    "",
    " ",
    "\n",
};
enum { N_TEXTS = sizeof TEXTS / sizeof *TEXTS };

static void same_ids(const Tokenizer *a, const Tokenizer *b, Str text, bool special) {
    TokIds x = {0}, y = {0};
    Buf s = {0}, t = {0};
    Err err = {0};
    if (!tokenizer_encode_text(a, text, special, special, &x, &err) ||
        !tokenizer_encode_text(b, text, special, special, &y, &err) ||
        !tokenizer_decode(a, x.p, x.n, false, &s, &err) ||
        !tokenizer_decode(b, x.p, x.n, false, &t, &err))
        fail_msg("%s", err.msg);
    if (x.n != y.n || (x.n && memcmp(x.p, y.p, x.n * sizeof *x.p) != 0))
        fail_msg("\"%.*s\": %zu tokens, %zu other ones", (int)text.n, text.p, x.n, y.n);
    assert_true(str_eq(buf_str(&s), buf_str(&t)));
    buf_deinit(&s);
    buf_deinit(&t);
    tokids_deinit(&x);
    tokids_deinit(&y);
}

/* false: the file is not there. */
static bool round_trip(const char *path) {
    Gguf *g;
    Tokenizer *a, *b;
    Buf json = {0};
    Err err = {0};
    if (!os_exists(path)) return false;
    if (!gguf_open(path, &g, &err) || !tokenizer_load_gguf(g, &a, &err) ||
        !vocab_to_json(g, a, &json, &err) || !tokenizer_load_json(buf_str(&json), &b, &err))
        fail_msg("%s: %s", path, err.msg);
    assert_int_equal(tokenizer_n_vocab(a), tokenizer_n_vocab(b));
    for (uint32_t i = 0; i < tokenizer_n_vocab(a); i++) {
        assert_true(str_eq(tokenizer_token_text(a, i), tokenizer_token_text(b, i)));
        assert_int_equal(tokenizer_is_special(a, i), tokenizer_is_special(b, i));
        assert_int_equal(tokenizer_is_added(a, i), tokenizer_is_added(b, i));
    }
    for (size_t i = 0; i < N_TEXTS; i++)
        for (int special = 0; special < 2; special++) same_ids(a, b, str_c(TEXTS[i]), special);
    buf_deinit(&json);
    tokenizer_free(a);
    tokenizer_free(b);
    gguf_close(g);
    return true;
}

static void in_the_manner_of_sentencepiece(void **state) {
    (void)state;
    assert_true(round_trip("tests/data/tokenizer/vocab_gguf/phi-3.gguf"));
}

static void byte_level(void **state) {
    (void)state;
    static const char *const NAMES[] = {"gpt-2", "falcon", "llama-bpe", "qwen2", "deepseek-llm"};
    const char *root = getenv("MLXCEL_GOLDEN_DIR");
    char path[2048];
    size_t n = 0;
    if (!root) skip();
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(path, sizeof path, "%s/tokenizers/vocab_gguf/%s.gguf", root, NAMES[i]);
        n += round_trip(path);
    }
    if (!n) skip();
}

static void other_kinds_are_refused(void **state) {
    (void)state;
    Gguf *g;
    Tokenizer *t;
    Buf json = {0};
    Err err = {0};
    if (!gguf_open("tests/data/tokenizer/vocab_gguf/bert-bge.gguf", &g, &err) ||
        !tokenizer_load_gguf(g, &t, &err))
        fail_msg("%s", err.msg);
    assert_false(vocab_to_json(g, t, &json, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "\"bert\""));
    buf_deinit(&json);
    tokenizer_free(t);
    gguf_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_the_manner_of_sentencepiece),
                                       cmocka_unit_test(byte_level),
                                       cmocka_unit_test(other_kinds_are_refused)};
    return cmocka_run_group_tests_name("vocab_json", tests, NULL, NULL);
}
