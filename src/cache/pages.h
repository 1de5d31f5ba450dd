/* pages.h: the page numbers of a backend's cache planes, and its state slots: who uses which. Each
 * plane group has pages of its own; a page holds PAGE_TOKENS tokens in every plane of the group. All
 * are counted: several sequences and the prefix tree may hold one; whoever wants to write into a
 * shared page copies it first. Memory itself is the backend's; this is bookkeeping only. One thread
 * (the engine's). */
#ifndef MLXCEL_CACHE_PAGES_H
#define MLXCEL_CACHE_PAGES_H

#include "backend/backend.h"

#define PAGE_NONE STEP_NO_PAGE

/* Pages that n_tokens rows of one sequence fill, the last one perhaps in part. */
static inline uint64_t pages_for(uint64_t n_tokens) {
    return (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

typedef struct PagePool {
    uint32_t *refs;      /* per page */
    uint32_t *free_list; /* stack of free page numbers */
    uint32_t n_pages, n_free;
} PagePool;

typedef struct CachePools { /* of one set of planes */
    ProgGroup group[PLANE_MAX_GROUPS];
    PagePool pages[PLANE_MAX_GROUPS];
    uint32_t n_groups;
    PagePool states;
    bool recurrent; /* sequences have a state */
} CachePools;

bool pagepool_init(PagePool *p, uint32_t n_pages, Err *err) MUST_CHECK;
void pagepool_deinit(PagePool *p);
uint32_t pagepool_take(PagePool *p); /* PAGE_NONE when all are in use */
void pagepool_ref(PagePool *p, uint32_t page);
void pagepool_unref(PagePool *p, uint32_t page);

/* Pools for the planes and states of a program. */
bool cachepools_init(CachePools *c, const Program *p, const PlanesAsk *ask, Err *err) MUST_CHECK;
void cachepools_deinit(CachePools *c);
/* The first slot of a group's planes that the row at `slot` may read. */
static inline uint32_t cachepools_first_read(const CachePools *c, uint32_t group, uint32_t slot) {
    const ProgGroup *g = &c->group[group];
    if (g->keep == KEEP_WINDOW && slot + 1 > g->span) return slot + 1 - g->span;
    return g->keep == KEEP_CHUNK ? slot / g->span * g->span : 0;
}

#endif
