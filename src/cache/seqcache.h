/* seqcache.h: one sequence's part of the cache: which pages hold which tokens, and where its
 * recurrent state lies. Pages come from the pools, from the prefix tree by reference, and are copied
 * before a write when somebody else holds them too. Pages that a window has left behind are given
 * back as the sequence grows. Rows of another program (CROSS planes) have pages of their own.
 *
 *     SeqCache c;  seqcache_init(&c, ctx, max_tokens, err);
 *     n = seqcache_adopt(&c, key, tokens, n_tokens - 1)      what the prefix tree has
 *     seqcache_extend(&c, n_rows, err)                       room for rows at [c.n_tokens, + n_rows)
 *     slot = seqcache_mark(&c, n)                            for rows whose state is to be kept
 *     ... run the step (seqcache_state_from, c.state) ...
 *     seqcache_trim(&c, n)   seqcache_store(&c, key, tokens, n)   seqcache_deinit(&c) */
#ifndef MLXCEL_CACHE_SEQCACHE_H
#define MLXCEL_CACHE_SEQCACHE_H

#include "cache/prefix.h"

typedef struct CacheContext { /* shared by all sequences of an engine */
    CachePools pools;
    PrefixTree *tree; /* NULL: no prefix reuse */
    BackPlanes *planes;
    const BackendApi *api;
} CacheContext;

enum {
    CACHE_MAX_MARKS = 8,
    /* A sequence may be trimmed by so many tokens and finds its windows again. */
    CACHE_TRIM_TOKENS = PAGE_TOKENS
};

typedef struct SeqCache {
    CacheContext *ctx;
    /* n_pages used of max_pages in each group; PAGE_NONE: given back */
    uint32_t *pages[PLANE_MAX_GROUPS];
    uint32_t n_pages, max_pages;
    uint32_t n_tokens; /* rows written or about to be */
    uint32_t n_cross;  /* rows of another program, in all of the pages that CROSS groups have */
    uint32_t state;    /* recurrent models: its slot */
    uint32_t from; /* the slot that the next step reads instead, one of the marks; or PAGE_NONE */
    bool from_is_due;                 /* no step has read it yet */
    StateMark marks[CACHE_MAX_MARKS]; /* ascending */
    uint32_t n_marks;
} SeqCache;

bool seqcache_init(SeqCache *c, CacheContext *ctx, uint32_t max_tokens, Err *err) MUST_CHECK;
void seqcache_deinit(SeqCache *c); /* gives everything back */
/* Pages for so many rows of another program, in the groups of CROSS planes: once, for good. ERR_BUSY:
 * not that many are free. */
bool seqcache_take_cross(SeqCache *c, uint32_t n_rows, Err *err) MUST_CHECK;
/* The sequence's slice of a step's page table (StepSeq): entries of a group, and all groups' written
 * to out. */
uint32_t seqcache_table_pages(const SeqCache *c);
void seqcache_write_table(const SeqCache *c, uint32_t *out);
/* Takes over the longest stored prefix of tokens[0..n) into an empty sequence; returns its
 * length. */
uint32_t seqcache_adopt(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n);
/* Room for n more rows; evicts stored prefixes if it must. ERR_BUSY: no pages left (nothing
 * changed). */
bool seqcache_extend(SeqCache *c, uint32_t n, Err *err) MUST_CHECK;
/* The slot that is to keep the state behind the first n_tokens rows, which the coming step computes;
 * STEP_NO_MARK: not recurrent, or none is free. */
uint32_t seqcache_mark(SeqCache *c, uint32_t n_tokens);
/* Where the coming step reads the state. */
static inline uint32_t seqcache_state_from(const SeqCache *c) {
    return c->from != PAGE_NONE ? c->from : c->state;
}
/* Forgets the rows from n_tokens on, and as many before them as it takes to come to a marked state
 * and to windows that are still there; returns how many rows are left. The rows of a step that
 * failed are trimmed with it. */
uint32_t seqcache_trim(SeqCache *c, uint32_t n_tokens);
/* Offers the first n rows to the prefix tree, with their marks; `whole`: with the state behind all
 * n_tokens rows too, which nothing may write any more. */
void seqcache_store(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n, bool whole);

#endif
