/* seqcache.h: one sequence's part of the cache: which page holds which tokens. Pages come from the
 * pool, from the prefix tree by reference, and are copied before a write when somebody else holds
 * them too.
 *
 *     SeqCache c;  seqcache_init(&c, ctx, max_tokens, err);
 *     n = seqcache_adopt(&c, key, tokens, n_tokens - 1)      what the prefix tree has
 *     seqcache_extend(&c, n_rows, err)                       room for rows at [c.n_tokens, + n_rows); then run the step
 *     seqcache_trim(&c, n)   seqcache_store(&c, key, tokens)   seqcache_deinit(&c) */
#ifndef MLXCEL_CACHE_SEQCACHE_H
#define MLXCEL_CACHE_SEQCACHE_H

#include "cache/prefix.h"

typedef struct CacheContext { /* shared by all sequences of an engine */
    PagePool pool;
    PrefixTree *tree; /* NULL: no prefix reuse */
    BackPlanes *planes;
    const BackendApi *api;
} CacheContext;

typedef struct SeqCache {
    CacheContext *ctx;
    uint32_t *pages; /* n_pages used of max_pages */
    uint32_t n_pages, max_pages;
    uint32_t n_tokens; /* rows written or about to be */
} SeqCache;

bool seqcache_init(SeqCache *c, CacheContext *ctx, uint32_t max_tokens, Err *err) MUST_CHECK;
void seqcache_deinit(SeqCache *c); /* gives all pages back */
/* Takes over the longest stored prefix of tokens[0..n) into an empty sequence; returns its
 * length. */
uint32_t seqcache_adopt(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n);
/* Room for n more rows; evicts stored prefixes if it must. ERR_BUSY: no pages left (nothing
 * changed). */
bool seqcache_extend(SeqCache *c, uint32_t n, Err *err) MUST_CHECK;
void seqcache_trim(SeqCache *c, uint32_t n_tokens); /* forgets the rows from n_tokens on */
/* Offers the first n rows to the prefix tree. */
void seqcache_store(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n);

#endif
