#include "base/mem.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static _Thread_local bool guarded;
static _Thread_local uint64_t n_guarded;
static _Thread_local int64_t fail_in = -1;

/* Called before every allocation: counts it under a guard and plays the failure a test asked
 * for. */
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

enum { HUGE_PAGE = 2 << 20, PAGE_BYTES = 4096 };
static const size_t HUGE_FROM = (size_t)4 << 20;

/* Large blocks are tables and file contents, looked into all over: huge pages save most of their
 * page faults and TLB misses (a seventh of the time that reading a large vocabulary takes). All of
 * the block's pages are asked for, the outer ones too: a mapping of which a part differs would be
 * split, and could no longer grow without being copied. */
static void *prefer_huge(void *p, size_t bytes) {
    if (!p || bytes < HUGE_FROM) return p;
    char *from = (char *)p - (uintptr_t)p % PAGE_BYTES;
    size_t n = size_align((size_t)((char *)p - from) + bytes, PAGE_BYTES);
    madvise(from, n, MADV_HUGEPAGE);
    return p;
}

void *mem_alloc(size_t bytes) {
    return alloc_allowed() ? prefer_huge(malloc(bytes ? bytes : 1), bytes) : NULL;
}

void *mem_calloc(size_t n, size_t size) {
    void *p = alloc_allowed() ? calloc(n ? n : 1, size ? size : 1) : NULL;
    return p ? prefer_huge(p, n * size) : NULL; /* calloc has checked the product */
}

void *mem_realloc(void *p, size_t bytes) {
    return alloc_allowed() ? prefer_huge(realloc(p, bytes ? bytes : 1), bytes) : NULL;
}

void *mem_resize_array(void *p, size_t n, size_t size) {
    size_t bytes;
    return size_mul(n, size, &bytes) ? mem_realloc(p, bytes) : NULL;
}

void mem_free(void *p) { free(p); }

/* Requests below CARVE_MAX are cut from shared chunks: a hundred weights of a few hundred KiB would
 * waste most of their huge pages if each began one of its own; small ones share pages too. */
static const size_t CHUNK_BYTES = (size_t)64 << 20, CARVE_MAX = (size_t)32 << 20,
                    WHOLE_PAGES = (size_t)1 << 20;
enum { PIECE_BYTES = 256 };

/* mmap gives zeroed pages lazily; over-mapped and trimmed so that 2 MiB pages can back all of
 * it. */
static char *map_aligned(size_t n, size_t align) {
    char *p = mmap(NULL, n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *q = (char *)size_align((size_t)p, align);
    if (q > p) munmap(p, (size_t)(q - p));
    munmap(q + n, (size_t)(p + align - q));
    madvise(q, n, MADV_HUGEPAGE);
    return q;
}

/* At the start of a chunk, which is aligned to its size: any piece finds it by its address. Pieces
 * are never handed out twice, so what comes out is zero; a chunk goes when its last piece does. */
typedef struct Chunk {
    size_t used, n_live;
} Chunk;

static pthread_mutex_t chunk_lock = PTHREAD_MUTEX_INITIALIZER;
static Chunk *chunk_now; /* the one that pieces are cut from */

static void chunk_drop(Chunk *c) {
    if (c && c->n_live == 0) munmap(c, CHUNK_BYTES);
}

static void *carve(size_t bytes) {
    size_t n = mem_pages_bytes(bytes);
    void *p = NULL;
    pthread_mutex_lock(&chunk_lock);
    if (chunk_now && bytes >= WHOLE_PAGES)
        chunk_now->used = size_align(chunk_now->used, PAGE_BYTES);
    if (!chunk_now || chunk_now->used + n > CHUNK_BYTES) {
        Chunk *fresh = (Chunk *)(void *)map_aligned(CHUNK_BYTES, CHUNK_BYTES);
        if (fresh) {
            chunk_drop(chunk_now);
            chunk_now = fresh;
            fresh->used = PAGE_BYTES;
        }
    }
    if (chunk_now && chunk_now->used + n <= CHUNK_BYTES) {
        p = (char *)chunk_now + chunk_now->used;
        chunk_now->used += n;
        chunk_now->n_live++;
    }
    pthread_mutex_unlock(&chunk_lock);
    return p;
}

static void carve_free(void *p, size_t bytes) {
    Chunk *c = (Chunk *)(void *)((uintptr_t)p & ~(uintptr_t)(CHUNK_BYTES - 1));
    /* Of pages that it shares, its neighbours may live on. */
    uintptr_t from = size_align((uintptr_t)p, PAGE_BYTES),
              to = ((uintptr_t)p + mem_pages_bytes(bytes)) / PAGE_BYTES * PAGE_BYTES;
    if (to > from) madvise((char *)p + (from - (uintptr_t)p), to - from, MADV_DONTNEED);
    pthread_mutex_lock(&chunk_lock);
    if (--c->n_live == 0) {
        if (c == chunk_now) chunk_now = NULL;
        chunk_drop(c);
    }
    pthread_mutex_unlock(&chunk_lock);
}

size_t mem_pages_bytes(size_t bytes) {
    return size_align(bytes ? bytes : 1, bytes < WHOLE_PAGES ? PIECE_BYTES : PAGE_BYTES);
}

void *mem_alloc_pages(size_t bytes) {
    if (!alloc_allowed() || bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE) return NULL;
    return bytes < CARVE_MAX ? carve(bytes) : map_aligned(mem_pages_bytes(bytes), HUGE_PAGE);
}

void mem_free_pages(void *p, size_t bytes) {
    if (!p) return;
    if (bytes < CARVE_MAX) {
        carve_free(p, bytes);
    } else {
        munmap(p, mem_pages_bytes(bytes));
    }
}

void mem_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
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
