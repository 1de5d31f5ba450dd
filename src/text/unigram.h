/* unigram.h: the most probable segmentation of a piece under a unigram model (Kudo 2018), by
 * dynamic programming over byte positions: best[i] is the best score of the first i bytes. A
 * character that no token covers costs the lowest score minus 10; runs of them are one unknown
 * token, or bytes.
 *
 * Three dialects differ in details: the tokenizers package (f64), SentencePiece (f32,
 * user-defined pieces always win) and PLaMo (right to left, integer scores). Immutable after
 * unigram_finish(). */
#ifndef MLXCEL_TEXT_UNIGRAM_H
#define MLXCEL_TEXT_UNIGRAM_H

#include "text/tok_piece.h"
#include "text/trie.h"
#include "text/vocab.h"

typedef enum UnigramDialect { UNIGRAM_HF, UNIGRAM_SPM, UNIGRAM_PLAMO } UnigramDialect;

typedef struct Unigram {
    const Vocab *vocab;
    UnigramDialect dialect;
    double *scores; /* by id; n_scores of them */
    uint8_t *kinds; /* SPM: piece type by id (UNIGRAM_KIND_...); NULL otherwise */
    size_t n_scores;
    uint32_t unk_id; /* TOK_NONE: text with unknown characters is an error (HF) */
    bool byte_fallback;
    double min_score;
    uint32_t fallback_ids[256];
    bool has_fallback; /* all 256 are there */
    Trie trie;
} Unigram;

enum {
    UNIGRAM_NORMAL,
    UNIGRAM_USER_DEFINED,
    UNIGRAM_SKIPPED
}; /* kinds; SKIPPED: control, unknown, byte, unused */

typedef struct UnigramNode {
    double score;
    uint32_t from; /* where the token that ends here begins */
    uint32_t id;
} UnigramNode;

typedef struct UnigramWork {
    UnigramNode *nodes;
    size_t cap;
    TokIds reversed;
} UnigramWork;

bool unigram_finish(Unigram *u, Err *err) MUST_CHECK;
void unigram_deinit(Unigram *u);
bool unigram_encode(const Unigram *u, Str piece, UnigramWork *w, TokIds *out, Err *err) MUST_CHECK;
void unigramwork_deinit(UnigramWork *w);

#endif
