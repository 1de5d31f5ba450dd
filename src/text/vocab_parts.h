/* vocab_parts.h: what a tokenizer does before its model, in the few words that a GGUF has for it:
 * for WordPiece what is folded, for Unigram its scores, its map of characters and its blanks. What a
 * GGUF has no word for is left out: whoever writes one compares (task/convert_check.c).
 *
 *     VocabParts p;
 *     if (!vocab_parts(t, &p, err)) return false;
 *     ... p.scores[id], p.dummy_prefix ...                 views into the tokenizer */
#ifndef MLXCEL_TEXT_VOCAB_PARTS_H
#define MLXCEL_TEXT_VOCAB_PARTS_H

#include "text/tokenizer.h"

typedef struct VocabParts {
    bool lowercase, strip_accents; /* WordPiece */
    const double *scores;          /* Unigram: n_scores, by id */
    size_t n_scores;
    Str map_trie, map_pool; /* the two parts of a precompiled map of characters */
    bool dummy_prefix;      /* a blank stands in front of a text */
    bool squeeze;           /* of several blanks one is left */
} VocabParts;

/* ERR_UNSUPPORTED: it is of neither kind, or a blank stands behind a text. */
bool vocab_parts(const Tokenizer *t, VocabParts *out, Err *err) MUST_CHECK;

#endif
