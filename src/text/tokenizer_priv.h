/* tokenizer_priv.h: what a Tokenizer is made of; for the loaders and tokenizer*.c only.
 *
 *     text -> added (raw) -> normalizer -> added (normalized) -> pretokenizer -> model
 *          -> postproc -> ids
 *     ids -> added / vocab -> decoder -> text
 *
 * A loader fills a Tokenizer from tokenizer_new() and ends with tokenizer_finish(). */
#ifndef MLXCEL_TEXT_TOKENIZER_PRIV_H
#define MLXCEL_TEXT_TOKENIZER_PRIV_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/tok_decoder.h"
#include "text/normalizer.h"
#include "text/postproc.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

typedef enum ModelKind {
    MODEL_NONE,
    MODEL_BPE,
    MODEL_UNIGRAM,
    MODEL_WORDPIECE,
    MODEL_WORDLEVEL,
    MODEL_RWKV
} ModelKind;

struct Tokenizer {
    Arena arena; /* strings that live as long as the tokenizer */
    Vocab vocab;
    Added added;
    Normalizer norm;
    Pretokenizer pretok;
    ModelKind kind;
    Bpe bpe;
    Unigram unigram;
    WordPiece wordpiece;
    Trie kept; /* SentencePiece: user-defined pieces, found before anything else and left whole */
    bool has_kept;
    Trie rwkv; /* greedy longest match over bytes */
    Postproc post;
    TokDecoder dec;
    uint32_t roles[TOK_ROLE_COUNT];
    TokIds eog; /* sorted */
    uint64_t n_vocab;
};

Tokenizer *tokenizer_new(void); /* NULL: no memory; all roles TOK_NONE */
/* Adds a token as the reference does: a text that the vocabulary has keeps that id, another gets
 * id, or (TOK_NONE) the next free one. The text is copied. */
bool tokenizer_add_token(Tokenizer *t, AddedToken token, Err *err) MUST_CHECK;
/* Model fields are set, vocabulary and merges are in: builds every table. On failure the caller
 * frees t. */
bool tokenizer_finish(Tokenizer *t, Err *err) MUST_CHECK;
void tokenizer_find_roles(
    Tokenizer *t); /* tok_roles.c: what well-known spellings say, where files say nothing */
void tokenizer_set_eog(Tokenizer *t);

#endif
