#include "cache/pages.h"

#include <assert.h>

#include "base/mem.h"

bool pagepool_init(PagePool *p, uint32_t n_pages, Err *err) {
    *p = (PagePool){.n_pages = n_pages, .n_free = n_pages};
    p->refs = mem_calloc(n_pages, sizeof *p->refs);
    p->free_list = mem_calloc(n_pages, sizeof *p->free_list);
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
