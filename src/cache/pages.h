/* pages.h: the page numbers of a backend's cache planes: who uses which. A page holds PAGE_TOKENS
 * tokens in every plane. Pages are counted: several sequences and the prefix tree may hold one;
 * whoever wants to write into a shared page copies it first. Memory itself is the backend's; this
 * is bookkeeping only. One thread (the engine's). */
#ifndef MLXCEL_CACHE_PAGES_H
#define MLXCEL_CACHE_PAGES_H

#include "backend/backend.h"

#define PAGE_NONE UINT32_MAX

/* Pages that n_tokens rows of one sequence fill, the last one perhaps in part. */
static inline uint64_t pages_for(uint64_t n_tokens) {
    return (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

typedef struct PagePool {
    uint32_t *refs;      /* per page */
    uint32_t *free_list; /* stack of free page numbers */
    uint32_t n_pages, n_free;
} PagePool;

bool pagepool_init(PagePool *p, uint32_t n_pages, Err *err) MUST_CHECK;
void pagepool_deinit(PagePool *p);
uint32_t pagepool_take(PagePool *p); /* PAGE_NONE when all are in use */
void pagepool_ref(PagePool *p, uint32_t page);
void pagepool_unref(PagePool *p, uint32_t page);

#endif
