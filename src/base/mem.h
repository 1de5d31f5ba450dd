/* mem.h: the only place of ours that calls malloc. Every function may return NULL; the caller
 * reports ERR_NOMEM.
 *
 * Three lifetimes live on top of it: model, request and step arenas (arena.h). Debug helpers:
 *   - mem_guard_begin/end: between them any allocation on this thread aborts in a debug build
 *     (MLXCEL_DEBUG) and is counted otherwise: a warmed-up step allocates nothing.
 *   - mem_fail_after(n): the n-th allocation from now on this thread fails (0: the next), for
 *     tests; -1 turns it off. */
#ifndef MLXCEL_BASE_MEM_H
#define MLXCEL_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);           /* not zeroed; bytes may be 0 */
void *mem_calloc(size_t n, size_t size); /* zeroed; overflow gives NULL */
void *mem_realloc(void *p, size_t bytes);
/* realloc to n * size, overflow gives NULL and p stays */
void *mem_resize_array(void *p, size_t n, size_t size);
void mem_free(void *p);

/* Large buffers: huge pages asked for, zeroed, aligned to 256 bytes (from 1 MiB on: to 4 KiB, from
 * 32 MiB on: to 2 MiB; smaller ones share pages). Any thread. Freed with mem_free_pages and the same
 * size. */
void *mem_alloc_pages(size_t bytes);
void mem_free_pages(void *p, size_t bytes);
size_t mem_pages_bytes(size_t bytes); /* what such a buffer takes */
/* Gives what was freed back to the system, after a time of large allocations. */
void mem_trim(void);

void mem_guard_begin(void);
uint64_t mem_guard_end(void); /* allocations seen since mem_guard_begin */
void mem_fail_after(int64_t n);

/* Checked size arithmetic: false on overflow (out unspecified). */
static inline bool size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
/* n far from SIZE_MAX */
static inline size_t size_align(size_t n, size_t to) { return (n + to - 1) / to * to; }

#endif
