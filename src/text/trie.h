/* trie.h: a byte trie over many keys, built once: nodes in breadth-first order, the children of
 * a node side by side and sorted, so a step is a short search in one array. Serves Unigram,
 * WordPiece, added tokens and SentencePiece's user-defined pieces.
 *
 *     trie_build(&t, keys, values, n, err);
 *     uint32_t node = TRIE_ROOT;
 *     while (i < s.n && (node = trie_step(&t, node, s.p[i++])) != TRIE_NONE)
 *         if (t.nodes[node].value != TRIE_NONE) ... */
#ifndef MLXCEL_TEXT_TRIE_H
#define MLXCEL_TEXT_TRIE_H

#include "base/err.h"
#include "base/str.h"

#define TRIE_NONE UINT32_MAX
enum { TRIE_ROOT = 0 };

typedef struct TrieNode {
    uint32_t first; /* index of the first child */
    uint32_t value; /* of the key that ends here, or TRIE_NONE */
    uint16_t n;     /* children */
    uint8_t label;  /* byte that leads here */
} TrieNode;

typedef struct Trie {
    TrieNode *nodes;
    size_t n, cap;
    uint32_t root[256]; /* child of the root, or TRIE_NONE */
} Trie;

/* A key given twice keeps its last value; an empty key gives the root a value. */
bool trie_build(Trie *t, const Str *keys, const uint32_t *values, size_t n, Err *err) MUST_CHECK;
void trie_deinit(Trie *t);

static inline uint32_t trie_step(const Trie *t, uint32_t node, char c) {
    uint8_t b = (uint8_t)c;
    if (node == TRIE_ROOT) return t->root[b];
    const TrieNode *x = &t->nodes[node];
    const TrieNode *child = &t->nodes[x->first];
    uint32_t n = x->n;
    if (n <= 4) {
        for (uint32_t i = 0; i < n; i++)
            if (child[i].label == b) return x->first + i;
        return TRIE_NONE;
    }
    if (n == 256) return x->first + b;
    uint32_t lo = 0;
    while (n > 1) {
        uint32_t half = n / 2;
        lo += child[lo + half].label <= b ? half : 0;
        n -= half;
    }
    return child[lo].label == b ? x->first + lo : TRIE_NONE;
}

/* The longest key that is a prefix of s: its length in *len and its value, or TRIE_NONE. */
uint32_t trie_longest(const Trie *t, Str s, size_t *len);

#endif
