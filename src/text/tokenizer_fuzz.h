/* tokenizer_fuzz.h: what the fuzz targets of tokenizer files do with a file that was accepted:
 * encode texts of every kind, in both modes, decode and stream the ids, and look at the
 * vocabulary. */
#ifndef MLXCEL_TEXT_TOKENIZER_FUZZ_H
#define MLXCEL_TEXT_TOKENIZER_FUZZ_H

#include <stdlib.h>

#include "base/utf8.h"
#include "text/detok.h"

static inline void fuzz_ids(const Tokenizer *t, const TokIds *ids) {
    enum { MAX_IDS = 1000 }; /* a file may make many of a short text, and long ones */
    size_t n = ids->n < MAX_IDS ? ids->n : MAX_IDS;
    Detok d;
    Buf out = {0};
    Str piece;
    Err err = {0};
    detok_init(&d, t, ids->n % 2);
    for (size_t i = 0; i < n; i++) {
        if (!detok_push(&d, ids->p[i], &piece, &err)) break;
        (void)tokenizer_token_bytes(t, ids->p[i], &out);
        (void)tokenizer_is_eog(t, ids->p[i]);
    }
    if (!detok_finish(&d, &piece, &err) && !err.msg[0]) abort();
    buf_clear(&out);
    if (!tokenizer_decode(t, ids->p, n, true, &out, &err) && !err.msg[0]) abort();
    buf_deinit(&out);
    detok_deinit(&d);
}

static inline void fuzz_tokenizer(bool loaded, Tokenizer *t, const Err *load_error) {
    static const char *const texts[] = {
        "",
        "a",
        "Hello world, it's 2024!",
        "<s>a</s> <unk><|im_start|>\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        "\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x99\x82 e\xCC\x81\xFF\xC3 \xE2\x96\x81\xE2\x96\x81x",
        "  \t\n\r\n  ",
        "\x01\x7F\xC2\xA0\xE3\x80\x80"};
    if (!loaded) {
        if (!load_error->msg[0]) abort();
        return;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        TokIds ids = {0};
        Err err = {0};
        TokSpan spans[] = {
            {str_c(texts[i]), i % 2}, {STR("<s> b"), true}, {str_c(texts[i]), false}};
        bool ok = tokenizer_encode(t, spans, 1 + 2 * (i % 2), i % 3 == 0, &ids, &err);
        if (!ok && !err.msg[0]) abort();
        for (size_t k = 0; k < ids.n; k++)
            if (ids.p[k] >= tokenizer_n_vocab(t) && !tokenizer_token_text(t, ids.p[k]).p)
                break; /* a post-processor's own id */
        fuzz_ids(t, &ids);
        tokids_deinit(&ids);
    }
    tokenizer_free(t);
}

#endif
