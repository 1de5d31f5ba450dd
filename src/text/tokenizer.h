/* tokenizer.h: text to token ids and back, exactly as the Hugging Face tokenizers
 * (tokenizer.json), SentencePiece (tokenizer.model), tiktoken and llama.cpp (GGUF vocabularies)
 * do it.
 *
 * A Tokenizer is immutable after loading: any number of threads may use it. Encoding and
 * decoding keep their scratch to themselves. Spans say who wrote the text: tokens marked special
 * are recognised only wholly inside spans with parse_special, so what a user types never becomes
 * a control token. The spans are otherwise one text.
 *
 *     Tokenizer *t;
 *     if (!tokenizer_load_checkpoint(ck, &t, err)) return false;
 *     TokIds ids = {0};
 *     if (!tokenizer_encode(t, spans, n_spans, true, &ids, err)) ...
 *     if (!tokenizer_decode(t, ids.p, ids.n, false, &buf, err)) ...
 *     tokids_deinit(&ids);
 *     tokenizer_free(t);
 *
 * For text that arrives token by token see detok.h; for the CLI's JSON lines see tok_jsonl.h. */
#ifndef MLXCEL_TEXT_TOKENIZER_H
#define MLXCEL_TEXT_TOKENIZER_H

#include "base/buf.h"
#include "base/err.h"

typedef struct Tokenizer Tokenizer;
typedef struct Gguf Gguf;
typedef struct Checkpoint Checkpoint;

#define TOK_NONE UINT32_MAX                    /* no such token */
#define TOK_MAX_FILE_BYTES ((size_t)256 << 20) /* of a tokenizer file */
#define TOK_MAX_TEXT_BYTES ((size_t)1 << 30)   /* of one text to encode */

typedef struct TokSpan {
    Str text;           /* UTF-8; bytes that are not are read as U+FFFD */
    bool parse_special; /* the template wrote it: what spells a special token is that token */
} TokSpan;

typedef struct
    TokIds { /* a growing list of ids; zero-initialised is valid; freed with tokids_deinit */
    uint32_t *p;
    size_t n, cap;
    bool failed; /* sticky: no memory */
} TokIds;
void tokids_push(TokIds *ids, uint32_t id);
void tokids_deinit(TokIds *ids);

/* What a token is for, as far as the files say. */
typedef enum TokRole {
    TOK_BOS,
    TOK_EOS,
    TOK_UNK,
    TOK_SEP,
    TOK_PAD,
    TOK_CLS,
    TOK_MASK,
    TOK_EOT,
    TOK_EOM,
    TOK_FIM_PRE,
    TOK_FIM_SUF,
    TOK_FIM_MID,
    TOK_FIM_PAD,
    TOK_FIM_REP,
    TOK_FIM_SEP,
    TOK_ROLE_COUNT
} TokRole;

/* --- loading --- */

/* A directory: tokenizer.json, or tokenizer.model, tokenizer.jsonl, *.tiktoken; with
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json where present. */
bool tokenizer_load_dir(const char *dir, Tokenizer **out, Err *err) MUST_CHECK;
/* One file by its name: *.json, *.model, *.jsonl, *.tiktoken, *.gguf. pattern (may be NULL) is
 * for a .tiktoken file: gpt2, cl100k, o200k, kimi, or a regular expression. */
bool tokenizer_load_file(const char *path, const char *pattern, Tokenizer **out,
                         Err *err) MUST_CHECK;
bool tokenizer_load_gguf(const Gguf *g, Tokenizer **out, Err *err) MUST_CHECK;
bool tokenizer_load_checkpoint(const Checkpoint *ck, Tokenizer **out,
                               Err *err) MUST_CHECK; /* its directory or its GGUF */
/* The contents of a file, for tests and fuzzing. */
bool tokenizer_load_json(Str text, Tokenizer **out, Err *err) MUST_CHECK;
bool tokenizer_load_spm(Str bytes, Tokenizer **out, Err *err) MUST_CHECK;
bool tokenizer_load_tiktoken(Str text, const char *pattern, Tokenizer **out, Err *err) MUST_CHECK;
bool tokenizer_load_plamo(Str text, Tokenizer **out, Err *err) MUST_CHECK;
void tokenizer_free(Tokenizer *t); /* NULL is allowed */

/* --- encoding and decoding --- */

/* Appends the ids of all spans, taken as one text. add_special: with BOS, EOS, [CLS] ... as the
 * files say. */
bool tokenizer_encode(const Tokenizer *t, const TokSpan *spans, size_t n_spans, bool add_special,
                      TokIds *out, Err *err) MUST_CHECK;
bool tokenizer_encode_text(const Tokenizer *t, Str text, bool add_special, bool parse_special,
                           TokIds *out, Err *err) MUST_CHECK;
/* Two texts as one input with special tokens ([CLS] a [SEP] b [SEP]); types (may be NULL) gets
 * one 0 or 1 per id. */
bool tokenizer_encode_pair(const Tokenizer *t, Str a, Str b, TokIds *out, TokIds *types,
                           Err *err) MUST_CHECK;
/* Appends the text of all ids. Unknown ids stand for nothing. Ill-formed bytes become U+FFFD. */
bool tokenizer_decode(const Tokenizer *t, const uint32_t *ids, size_t n, bool skip_special,
                      Buf *out, Err *err) MUST_CHECK;

/* --- the vocabulary --- */

size_t tokenizer_n_vocab(const Tokenizer *t); /* highest id + 1 */
Str tokenizer_token_text(const Tokenizer *t,
                         uint32_t id); /* as the vocabulary spells it; .p NULL if there is none */
/* Appends the bytes that the token adds to a text in which something stands before it: what a
 * grammar matches. Special tokens give their spelling. false: no such id. */
bool tokenizer_token_bytes(const Tokenizer *t, uint32_t id, Buf *out);
bool tokenizer_find(const Tokenizer *t, Str text,
                    uint32_t *id);                          /* by its spelling in the vocabulary */
bool tokenizer_is_special(const Tokenizer *t, uint32_t id); /* left out by skip_special */
bool tokenizer_is_added(const Tokenizer *t, uint32_t id); /* matched before ordinary tokenization */
bool tokenizer_is_eog(const Tokenizer *t,
                      uint32_t id); /* ends a generation: EOS, end of turn and the like */
uint32_t tokenizer_role(const Tokenizer *t, TokRole role); /* TOK_NONE if there is none */
Str tokenizer_role_text(const Tokenizer *t,
                        TokRole role);       /* its spelling ("" if none): bos_token of templates */
bool tokenizer_adds_bos(const Tokenizer *t); /* add_special puts TOK_BOS in front */
const char *
tokenizer_kind(const Tokenizer *t); /* "BPE", "Unigram", "WordPiece", "WordLevel", "RWKV" */

#endif
