/* spm_build.h: what SentencePiece vocabularies share, whether they come as tokenizer.model or
 * inside a GGUF. */
#ifndef MLXCEL_TEXT_SPM_BUILD_H
#define MLXCEL_TEXT_SPM_BUILD_H

#include "text/tokenizer.h"

/* Types of pieces, numbered as in sentencepiece_model.proto (and in GGUF). */
enum {
    SPM_NORMAL = 1,
    SPM_UNKNOWN = 2,
    SPM_CONTROL = 3,
    SPM_USER_DEFINED = 4,
    SPM_UNUSED = 5,
    SPM_BYTE = 6
};

/* A SentencePiece BPE vocabulary has scores instead of merges: any two neighbours whose
 * concatenation is a piece may merge, best score first. The same as merges of every piece's
 * halves, ranked by the piece's score. scores and kinds are by id. */
bool spm_build_merges(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n,
                      Err *err) MUST_CHECK;
/* Scores and kinds of a Unigram model; both are copied. */
bool spm_build_unigram(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n,
                       Err *err) MUST_CHECK;
/* The reverse, for a tokenizer that came as tokenizer.model: scores by which the same pieces merge in
 * the same order, 0 for what is no piece of text; a blank stands in front of a text? ERR_UNSUPPORTED
 * where it is no BPE with byte fallback, or normalizes more than blanks: a GGUF could not say so. */
bool spm_scores(const Tokenizer *t, float *scores, size_t n, bool *space_prefix,
                Err *err) MUST_CHECK;
/* A user-defined piece: found before anything else. */
bool spm_is_kept(const Tokenizer *t, Str piece);
/* The same for PLaMo's dialect (load_plamo.c). */
bool plamo_build(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n,
                 Err *err) MUST_CHECK;
/* Replace, ByteFallback, Fuse, and one leading blank dropped if there was a dummy prefix. */
bool spm_build_decoder(Tokenizer *t, bool dummy_prefix, Err *err) MUST_CHECK;

#endif
