#include "cache/pages.h"

#include <assert.h>

#include "base/mem.h"

bool pagepool_init(PagePool *p, uint32_t n_pages, Err *err) {
    *p = (PagePool){.n_pages = n_pages, .n_free = n_pages};
    p->refs = mem_calloc(n_pages + (size_t)1, sizeof *p->refs);
    p->free_list = mem_calloc(n_pages + (size_t)1, sizeof *p->free_list);
    if (!p->refs || !p->free_list) {
        pagepool_deinit(p);
        return err_nomem(err, "page table");
    }
    for (uint32_t i = 0; i < n_pages; i++) p->free_list[i] = n_pages - 1 - i;
    return true;
}

void pagepool_deinit(PagePool *p) {
    mem_free(p->refs);
    mem_free(p->free_list);
    *p = (PagePool){0};
}

uint32_t pagepool_take(PagePool *p) {
    if (!p->n_free) return PAGE_NONE;
    uint32_t page = p->free_list[--p->n_free];
    p->refs[page] = 1;
    return page;
}

void pagepool_ref(PagePool *p, uint32_t page) {
    assert(page < p->n_pages && p->refs[page] > 0);
    p->refs[page]++;
}

void pagepool_unref(PagePool *p, uint32_t page) {
    assert(page < p->n_pages && p->refs[page] > 0);
    if (--p->refs[page] == 0) p->free_list[p->n_free++] = page;
}

bool cachepools_init(CachePools *c, const Program *p, const PlanesAsk *ask, Err *err) {
    *c = (CachePools){.n_groups = p->n_groups, .recurrent = p->n_states > 0};
    for (uint32_t g = 0; g < p->n_groups; g++) {
        c->group[g] = p->groups[g];
        if (!pagepool_init(&c->pages[g], ask->n_pages[g], err)) return false;
    }
    return pagepool_init(&c->states, ask->n_states, err);
}

void cachepools_deinit(CachePools *c) {
    for (uint32_t g = 0; g < c->n_groups; g++) pagepool_deinit(&c->pages[g]);
    pagepool_deinit(&c->states);
    c->n_groups = 0;
}
