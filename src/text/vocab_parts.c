#include "text/vocab_parts.h"

#include "text/tokenizer_priv.h"

static bool read_normalizer(const Normalizer *n, VocabParts *out, Err *err) {
    for (size_t i = 0; i < n->n; i++) {
        const NormStep *s = &n->steps[i];
        if (s->as_suffix)
            return err_set(err, ERR_UNSUPPORTED,
                           "this tokenizer puts a blank behind texts: a GGUF cannot say so");
        if (s->kind == NORM_BERT) {
            out->lowercase = s->lowercase;
            out->strip_accents = s->strip_accents;
        }
        out->lowercase = out->lowercase || s->kind == NORM_LOWERCASE;
        if (s->kind == NORM_PRECOMPILED || s->kind == NORM_SENTENCEPIECE) {
            out->map_trie = s->map.trie;
            out->map_pool = s->map.pool;
        }
        out->dummy_prefix = out->dummy_prefix || s->dummy_prefix || s->kind == NORM_PREPEND;
        /* runs of blanks are a regular expression where there is one at all */
        out->squeeze = out->squeeze || s->squeeze || (s->kind == NORM_REPLACE && s->regex);
    }
    return true;
}

bool vocab_parts(const Tokenizer *t, VocabParts *out, Err *err) {
    *out = (VocabParts){0};
    if (t->kind != MODEL_UNIGRAM && t->kind != MODEL_WORDPIECE)
        return err_set(err, ERR_UNSUPPORTED, "a %s tokenizer has no form in GGUF files",
                       tokenizer_kind(t));
    if (!read_normalizer(&t->norm, out, err)) return false;
    for (size_t i = 0; i < t->pretok.n; i++) {
        const PretokStep *s = &t->pretok.steps[i];
        if (s->kind == PRETOK_METASPACE && s->prepend != PREPEND_NEVER) out->dummy_prefix = true;
        if (s->kind == PRETOK_WHITESPACE_SPLIT || s->kind == PRETOK_WHITESPACE) out->squeeze = true;
    }
    out->scores = t->unigram.scores;
    out->n_scores = t->unigram.n_scores;
    return true;
}
