/* prefix.h: which token prefixes are in the cache: a tree of blocks of PAGE_TOKENS tokens over
 * shared pages. A path from a root spells a prefix; a root is a key (length class, adapters, ...:
 * everything beside tokens that enters K and V, DESIGN.md rule 9). A look-up compares the tokens
 * themselves.
 *
 * A block holds one page of each plane group. Groups that keep a window may have lost theirs: a
 * prefix can be adopted at a length whose windows are still there. A recurrent model's prefix can be
 * adopted only where its state was kept: a block holds a few marked states.
 *
 * What only the tree holds is given back, least recently used first: blocks leaves before parents,
 * pages of windows and states from any block.
 *
 * Adoption: whole blocks are shared by reference. Of the block where the prefix ends or departs,
 * the common rows are taken by copying the page (rows behind them are overwritten before they are
 * ever read). */
#ifndef MLXCEL_CACHE_PREFIX_H
#define MLXCEL_CACHE_PREFIX_H

#include "cache/pages.h"

typedef struct PrefixTree PrefixTree;

typedef struct StateMark { /* the recurrent state behind the first n_tokens rows */
    uint32_t n_tokens, slot;
} StateMark;

typedef struct PrefixHit { /* valid until the tree changes */
    uint32_t n_tokens;     /* 0: nothing */
    uint32_t state;        /* recurrent models: the slot of the state there */
    const void *block;     /* the last one */
} PrefixHit;

PrefixTree *prefix_new(CachePools *pools, uint32_t max_nodes, Err *err);
void prefix_free(PrefixTree *t);
/* The longest stored prefix of tokens[0..n) that can be adopted. */
PrefixHit prefix_find(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n);
/* The hit's pages of a group, block by block, into pages[0..pages_for(hit.n_tokens)), without
 * references: PAGE_NONE where a window left them behind. */
void prefix_pages(const PrefixHit *hit, uint32_t group, uint32_t *pages);
/* Stores the first n tokens of a sequence: pages[group][i] holds tokens [i * PAGE_TOKENS, ...) or is
 * PAGE_NONE. The last block may be partial. Blocks already there stay and are completed; others are
 * referenced, and so are the marks (ascending, n_tokens at most n). Running out of nodes or memory
 * stores less: it is a cache. */
void prefix_store(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                  uint32_t *const *pages, const StateMark *marks, uint32_t n_marks);
/* Gives back a page of the group (a state) that nobody else holds; false: there is none. */
bool prefix_evict_page(PrefixTree *t, uint32_t group);
bool prefix_evict_state(PrefixTree *t);
void prefix_clear(PrefixTree *t);
uint32_t prefix_n_blocks(const PrefixTree *t);

#endif
