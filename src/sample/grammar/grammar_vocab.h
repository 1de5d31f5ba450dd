/* grammar_vocab.h: the vocabulary as the grammar matcher sees it: a trie over the tokens' bytes,
 * walked against the grammar to find which tokens may come next. Built once per tokenizer,
 * immutable, shared by threads.
 *
 * Most tokens are plain: valid UTF-8 of at most 64 characters, none of them a control character,
 * '"' or '\'. Inside a string nearly all plain tokens are allowed, so their bit sets by length are
 * kept ready and only the rest is walked.
 *
 *     GrammarVocab *v = grammar_vocab_new(tokens, n, eos, n_eos, special, err);   copies everything
 *     ... grammar_state_new(grammar, v, err) ...                                  states borrow v
 *     grammar_vocab_free(v); */
#ifndef MLXCEL_SAMPLE_GRAMMAR_VOCAB_H
#define MLXCEL_SAMPLE_GRAMMAR_VOCAB_H

#include "base/err.h"
#include "base/str.h"

enum {
    VOCAB_PLAIN_MAX = 64,
    VOCAB_LONG = 8,
    VOCAB_MAX_TOKENS = 1 << 22,
    VOCAB_MAX_NODES = (1 << 24) - 1
};

typedef struct VocabNode { /* in depth-first order */
    uint32_t
        /* nodes of the subtree, itself included, shifted by 8; and the byte that leads here */
        size_byte;
    uint32_t token; /* first token that ends here; UINT32_MAX = none */
} VocabNode;
static inline uint32_t vocabnode_size(VocabNode n) { return n.size_byte >> 8; }

typedef enum VocabTrieKind {
    VOCAB_ALL,       /* every token */
    VOCAB_NOT_SHORT, /* all but plain tokens of up to VOCAB_LONG characters */
    VOCAB_NOT_PLAIN, /* all but plain tokens */
    VOCAB_TRIE_COUNT
} VocabTrieKind;

typedef struct VocabTrie {
    VocabNode *nodes; /* the root first */
    uint32_t n;
} VocabTrie;

typedef struct GrammarVocab {
    uint32_t n_tokens, n_words; /* words of 64 bits of a mask */
    char *bytes;
    size_t *byte_at; /* n_tokens + 1; special and empty tokens have no bytes */
    uint32_t *twin;  /* the next token with the same bytes; UINT32_MAX = none */
    uint32_t *eos;
    uint32_t n_eos;
    uint32_t max_bytes; /* of a token */
    VocabTrie tries[VOCAB_TRIE_COUNT];
    uint64_t *plain[VOCAB_PLAIN_MAX + 1]; /* plain[k]: plain tokens of at most k characters */
} GrammarVocab;

/* tokens: the bytes each id adds to the text. special (NULL: none): ids that never may appear; eos
 * ids are special too. */
GrammarVocab *grammar_vocab_new(const Str *tokens, size_t n_tokens, const uint32_t *eos,
                                size_t n_eos, const bool *special, Err *err);
void grammar_vocab_free(GrammarVocab *v);
Str grammar_vocab_token(const GrammarVocab *v, uint32_t id); /* empty for special tokens */
bool grammar_vocab_is_eos(const GrammarVocab *v, uint32_t id);

#endif
