/* A SentencePiece model as a GGUF holds it: with the scores that spm_scores() gives, every text has
 * the tokens that the model itself gives; what a GGUF cannot say is refused. Reads
 * tests/data/tokenizer. */
#include "text/spm_build.h"

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

static Tokenizer *load(const char *path) {
    Tokenizer *t;
    Err err = {0};
    if (!tokenizer_load_file(path, NULL, &t, &err)) fail_msg("%s", err.msg);
    return t;
}

static void write_gguf(const Tokenizer *t, const char *path, Arena *a) {
    size_t n = tokenizer_n_vocab(t);
    GgufOut out;
    Err err = {0};
    bool space;
    Str *tokens = arena_array(a, Str, n);
    int32_t *kinds = arena_array(a, int32_t, n);
    float *scores = arena_array(a, float, n);
    if (!spm_scores(t, scores, n, &space, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = tokenizer_token_text(t, i);
        bool byte = tokens[i].n == 6 && str_starts(tokens[i], STR("<0x"));
        kinds[i] = i == tokenizer_role(t, TOK_UNK) ? SPM_UNKNOWN
                   : tokenizer_is_special(t, i)    ? SPM_CONTROL
                   : spm_is_kept(t, tokens[i])     ? SPM_USER_DEFINED
                   : byte                          ? SPM_BYTE
                                                   : SPM_NORMAL;
    }
    gguf_write_init(&out, a);
    gguf_write_str(&out, "general.architecture", STR("llama"));
    gguf_write_str(&out, "tokenizer.ggml.model", STR("llama"));
    gguf_write_strs(&out, "tokenizer.ggml.tokens", tokens, n);
    gguf_write_i32s(&out, "tokenizer.ggml.token_type", kinds, n);
    gguf_write_f32s(&out, "tokenizer.ggml.scores", scores, n);
    gguf_write_bool(&out, "tokenizer.ggml.add_space_prefix", space);
    if (!gguf_write_open(&out, path, &err) || !gguf_write_finish(&out, &err))
        fail_msg("%s", err.msg);
    gguf_write_drop(&out);
}

static void scores_keep_the_merges(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "Hello, world! It's 12345 o'clock",
        "  blanks   in  a row ",
        "def f(x):\n\treturn x ** 2\n",
        "\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xD0\xBF\xD1\x80\xD0\xB8 \xF0\x9F\x98\x80",
        "internationalization antidisestablishmentarianism",
        "aaaaaaaaaaaaaaaaaaaaaaaa bbbbbb",
        ""};
    Arena a = {0};
    char path[] = "/tmp/mlxcel_spm_XXXXXX";
    close(mkstemp(path));
    Tokenizer *spm = load("tests/data/tokenizer/mistral_v1/tokenizer.model"), *gguf;
    Gguf *g;
    Err err = {0};
    write_gguf(spm, path, &a);
    if (!gguf_open(path, &g, &err) || !tokenizer_load_gguf(g, &gguf, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        TokIds x = {0}, y = {0};
        if (!tokenizer_encode_text(spm, str_c(TEXTS[i]), true, false, &x, &err) ||
            !tokenizer_encode_text(gguf, str_c(TEXTS[i]), true, false, &y, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(x.n, y.n);
        if (x.n) assert_memory_equal(x.p, y.p, x.n * sizeof *x.p);
        tokids_deinit(&x);
        tokids_deinit(&y);
    }
    gguf_close(g);
    tokenizer_free(gguf);
    tokenizer_free(spm);
    unlink(path);
    arena_deinit(&a);
}

static void others_are_refused(void **state) {
    (void)state;
    static const char *const OTHERS[] = {"tests/data/tokenizer/spm_unigram_en/tokenizer.model",
                                         "tests/data/tokenizer/smollm2/tokenizer.json"};
    float score[1];
    bool space;
    for (size_t i = 0; i < 2; i++) {
        Err err = {0};
        Tokenizer *t = load(OTHERS[i]);
        assert_false(spm_scores(t, score, 1, &space, &err));
        assert_int_equal(err.kind, ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, tokenizer_kind(t)));
        tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_keep_the_merges),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests_name("spm_build", tests, NULL, NULL);
}
