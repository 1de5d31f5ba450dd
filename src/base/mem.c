#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local bool guarded;
static _Thread_local uint64_t n_guarded;
static _Thread_local int64_t fail_in = -1;

/* Called before every allocation: counts it under a guard and plays the failure a test asked for. */
static bool alloc_allowed(void) {
    if (guarded) {
        n_guarded++;
#ifdef MLXCEL_DEBUG
        fprintf(stderr, "mlxcel: allocation inside a guarded step\n");
        abort();
#endif
    }
    if (fail_in < 0) return true;
    return fail_in-- > 0;
}

void *mem_alloc(size_t bytes) { return alloc_allowed() ? malloc(bytes ? bytes : 1) : NULL; }
void *mem_calloc(size_t n, size_t size) { return alloc_allowed() ? calloc(n ? n : 1, size ? size : 1) : NULL; }
void *mem_realloc(void *p, size_t bytes) { return alloc_allowed() ? realloc(p, bytes ? bytes : 1) : NULL; }

void *mem_resize_array(void *p, size_t n, size_t size) {
    size_t bytes;
    return size_mul(n, size, &bytes) ? mem_realloc(p, bytes) : NULL;
}

void mem_free(void *p) { free(p); }

enum { HUGE_PAGE = 2 << 20 };

/* mmap gives zeroed pages lazily; over-mapped and trimmed so that 2 MiB pages can back all of it. */
void *mem_alloc_pages(size_t bytes) {
    if (!alloc_allowed() || bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE) return NULL;
    size_t n = size_align(bytes ? bytes : 1, HUGE_PAGE);
    char *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *q = (char *)size_align((size_t)p, HUGE_PAGE);
    if (q > p) munmap(p, (size_t)(q - p));
    if (q + n < p + n + HUGE_PAGE) munmap(q + n, (size_t)(p + HUGE_PAGE - q));
    madvise(q, n, MADV_HUGEPAGE);
    return q;
}

void mem_free_pages(void *p, size_t bytes) {
    if (p) munmap(p, size_align(bytes ? bytes : 1, HUGE_PAGE));
}

void mem_guard_begin(void) {
    guarded = true;
    n_guarded = 0;
}

uint64_t mem_guard_end(void) {
    guarded = false;
    return n_guarded;
}

void mem_fail_after(int64_t n) { fail_in = n; }
