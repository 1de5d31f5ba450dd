/* wordpiece.h: WordPiece (longest match first, "##" before continuations) and WordLevel (a word
 * is a token or unknown). Immutable after wordpiece_finish(). */
#ifndef MLXCEL_TEXT_WORDPIECE_H
#define MLXCEL_TEXT_WORDPIECE_H

#include "text/tok_piece.h"
#include "text/trie.h"
#include "text/vocab.h"

typedef struct WordPiece {
    const Vocab *vocab;
    bool whole_words; /* WordLevel */
    bool fuse_unk;    /* a run of unknown words is one unknown token (SentencePiece) */
    Str unk, prefix;
    uint64_t max_chars; /* of a word; longer ones are unknown */
    uint32_t unk_id;    /* TOK_NONE: an unknown word is an error */
    Trie trie;
    uint32_t inside; /* trie node of the prefix, or TRIE_NONE */
} WordPiece;

bool wordpiece_finish(WordPiece *w, Err *err) MUST_CHECK;
void wordpiece_deinit(WordPiece *w);
bool wordpiece_encode(const WordPiece *w, Str word, TokIds *out, Err *err) MUST_CHECK;

#endif
