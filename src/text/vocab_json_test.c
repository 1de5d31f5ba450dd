/* A GGUF's vocabulary as tokenizer.json: what is read back encodes and decodes every text as the GGUF
 * does, byte-level, in SentencePiece's manner, by words and by unigrams; other kinds are refused by
 * name. Reads
 * tests/data/tokenizer and, where it is there, $MLXCEL_GOLDEN_DIR/tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "ckpt/gguf_write.h"
#include "text/vocab_json.h"
#include "text/vocab_parts.h"

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

/* false: the file is not there. spelled: what spells a special token and is none may become it: a
 * Unigram's tokenizer.json cannot say that pieces are for no text. */
static bool round_trip(const char *path, bool spelled) {
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
        for (int special = spelled && strstr(TEXTS[i], "<s>"); special < 2; special++)
            same_ids(a, b, str_c(TEXTS[i]), special);
    buf_deinit(&json);
    tokenizer_free(a);
    tokenizer_free(b);
    gguf_close(g);
    return true;
}

static void in_the_manner_of_sentencepiece(void **state) {
    (void)state;
    assert_true(round_trip("tests/data/tokenizer/vocab_gguf/phi-3.gguf", false));
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
        n += round_trip(path, false);
    }
    if (!n) skip();
}

static void words(void **state) {
    (void)state;
    assert_true(round_trip("tests/data/tokenizer/vocab_gguf/bert-bge.gguf", false));
}

/* A file of a vocabulary and nothing else. */
static void write_vocab(const char *path, const char *model, const Tokenizer *t, size_t n,
                        const VocabParts *p, Arena *a) {
    GgufOut out;
    Err err = {0};
    Str *tokens = arena_array(a, Str, n);
    int32_t *types = arena_array(a, int32_t, n);
    float *scores = arena_array(a, float, n);
    assert_true(tokens && types && scores);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = tokenizer_token_text(t, (uint32_t)i);
        types[i] = tokenizer_role(t, TOK_UNK) == i        ? 2
                   : tokenizer_is_special(t, (uint32_t)i) ? 3
                                                          : 1;
        scores[i] = i < p->n_scores ? (float)p->scores[i] : 0;
    }
    gguf_write_init(&out, a);
    gguf_write_str(&out, "general.architecture", STR("llama"));
    gguf_write_str(&out, "tokenizer.ggml.model", str_c(model));
    gguf_write_strs(&out, "tokenizer.ggml.tokens", tokens, n);
    gguf_write_i32s(&out, "tokenizer.ggml.token_type", types, n);
    gguf_write_f32s(&out, "tokenizer.ggml.scores", scores, n);
    gguf_write_u32(&out, "tokenizer.ggml.unknown_token_id", tokenizer_role(t, TOK_UNK));
    gguf_write_bool(&out, "tokenizer.ggml.add_space_prefix", p->dummy_prefix);
    gguf_write_bool(&out, "tokenizer.ggml.remove_extra_whitespaces", p->squeeze);
    if (p->map_trie.n) {
        char length[4];
        Buf head = {0};
        for (int i = 0; i < 4; i++) length[i] = (char)(p->map_trie.n >> (8 * i) & 0xFF);
        buf_put(&head, (Str){length, 4});
        buf_put(&head, p->map_trie);
        gguf_write_bytes(&out, "tokenizer.ggml.precompiled_charsmap", buf_str(&head), p->map_pool);
        buf_deinit(&head);
    }
    if (!gguf_write_open(&out, path, &err) || !gguf_write_finish(&out, &err))
        fail_msg("%s", err.msg);
    gguf_write_drop(&out);
}

static void unigrams(void **state) {
    (void)state;
    Tokenizer *t;
    VocabParts p;
    Arena a = {0};
    Err err = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/mlxcel_vocab_%ld.gguf", (long)getpid());
    if (!tokenizer_load_file("tests/data/tokenizer/spm_unigram_en/tokenizer.model", NULL, &t,
                             &err) ||
        !vocab_parts(t, &p, &err))
        fail_msg("%s", err.msg);
    assert_true(p.n_scores > 0 && p.dummy_prefix && p.map_trie.n > 0);
    write_vocab(path, "t5", t, tokenizer_n_vocab(t), &p, &a);
    assert_true(round_trip(path, true));
    assert_int_equal(unlink(path), 0);
    tokenizer_free(t);
    arena_deinit(&a);
}

static void other_kinds_are_refused(void **state) {
    (void)state;
    Gguf *g;
    Tokenizer *t, *some;
    Arena a = {0};
    Buf json = {0};
    Err err = {0};
    char path[64];
    const VocabParts none = {0};
    snprintf(path, sizeof path, "/tmp/mlxcel_rwkv_%ld.gguf", (long)getpid());
    if (!tokenizer_load_file("tests/data/tokenizer/spm_unigram_en/tokenizer.model", NULL, &some,
                             &err))
        fail_msg("%s", err.msg);
    write_vocab(path, "rwkv", some, 100, &none, &a);
    if (!gguf_open(path, &g, &err) || !tokenizer_load_gguf(g, &t, &err)) fail_msg("%s", err.msg);
    assert_false(vocab_to_json(g, t, &json, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "\"rwkv\""));
    VocabParts parts;
    assert_false(vocab_parts(t, &parts, &err));
    assert_int_equal(unlink(path), 0);
    buf_deinit(&json);
    tokenizer_free(t);
    tokenizer_free(some);
    gguf_close(g);
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_the_manner_of_sentencepiece),
                                       cmocka_unit_test(byte_level), cmocka_unit_test(words),
                                       cmocka_unit_test(unigrams),
                                       cmocka_unit_test(other_kinds_are_refused)};
    return cmocka_run_group_tests_name("vocab_json", tests, NULL, NULL);
}
