/* prefix.h: which token prefixes are in the cache: a tree of blocks of PAGE_TOKENS tokens over
 * shared pages. A path from a root spells a prefix; a root is a key (length class, adapters, ...:
 * everything beside tokens that enters K and V, DESIGN.md rule 9). A look-up compares the tokens
 * themselves. Pages that only the tree holds are given back, least recently used first, leaves
 * before parents, when the pool runs dry.
 *
 * Adoption: whole blocks are shared by reference. Of the block where the prefix ends or departs,
 * the common rows are taken by copying the page (rows behind them are overwritten before they are
 * ever read). */
#ifndef MLXCEL_CACHE_PREFIX_H
#define MLXCEL_CACHE_PREFIX_H

#include "cache/pages.h"

typedef struct PrefixTree PrefixTree;

typedef struct PrefixHit {
    /* of the prefix that is there: n_pages whole blocks, then partial_tokens rows of another
     * page */
    uint32_t n_tokens;
    uint32_t n_pages;
    uint32_t partial_page; /* PAGE_NONE: none */
    uint32_t partial_tokens;
} PrefixHit;

PrefixTree *prefix_new(PagePool *pool, uint32_t max_nodes, Err *err);
void prefix_free(PrefixTree *t);
/* The longest stored prefix of tokens[0..n); its whole pages go to pages[0..n_pages) with a
 * reference taken for the caller. The partial page is not referenced: copy it before anything else
 * happens to the tree. */
PrefixHit prefix_find(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                      uint32_t *pages);
/* Stores the blocks of a sequence: pages[i] holds tokens [i * PAGE_TOKENS, ...). The last block may
 * be partial. Blocks already there stay; others are referenced. Running out of nodes or memory
 * stores less: it is a cache. */
void prefix_store(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                  const uint32_t *pages);
/* Gives back up to `want` pages that nobody else holds; returns how many. */
uint32_t prefix_evict(PrefixTree *t, uint32_t want);
void prefix_clear(PrefixTree *t);
uint32_t prefix_n_blocks(const PrefixTree *t);

#endif
