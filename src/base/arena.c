#include "base/arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

struct ArenaBlock {
    ArenaBlock *next;
    size_t n, cap; /* bytes of data used and there */
    alignas(16) char data[];
};

enum { FIRST_BLOCK = 4096, LARGEST_STEP = 4 << 20 };

static bool block_add(Arena *a, size_t need) {
    size_t cap = a->head ? a->head->cap * 2 : FIRST_BLOCK;
    if (cap > LARGEST_STEP) cap = LARGEST_STEP;
    if (cap < need) cap = need;
    ArenaBlock *b = mem_alloc(sizeof *b + cap);
    if (!b) return false;
    *b = (ArenaBlock){.next = a->head, .cap = cap};
    a->head = b;
    return true;
}

void *arena_alloc(Arena *a, size_t bytes) {
    size_t max = a->max_bytes ? a->max_bytes : ARENA_MAX_DEFAULT;
    if (bytes > max || a->used_bytes > max - bytes) return NULL;
    size_t need = size_align(bytes ? bytes : 1, 16);
    if (!a->head || a->head->cap - a->head->n < need) {
        if (!block_add(a, need)) return NULL;
    }
    void *p = a->head->data + a->head->n;
    a->head->n += need;
    a->used_bytes += need;
    memset(p, 0, bytes);
    return p;
}

void *arena_alloc_n(Arena *a, size_t n, size_t size) {
    size_t bytes;
    return size_mul(n, size, &bytes) ? arena_alloc(a, bytes) : NULL;
}

char *arena_dupz(Arena *a, Str s) {
    char *p = s.n < SIZE_MAX ? arena_alloc(a, s.n + 1) : NULL;
    if (p && s.n) memcpy(p, s.p, s.n);
    return p;
}

Str arena_dup(Arena *a, Str s) {
    char *p = arena_dupz(a, s);
    return p ? (Str){p, s.n} : STR_NONE;
}

void arena_reset(Arena *a) {
    ArenaBlock *keep = NULL;
    while (a->head) {
        ArenaBlock *b = a->head;
        a->head = b->next;
        if (!keep || b->cap > keep->cap) {
            mem_free(keep);
            keep = b;
        } else {
            mem_free(b);
        }
    }
    if (keep) *keep = (ArenaBlock){.cap = keep->cap};
    a->head = keep;
    a->used_bytes = 0;
}

void arena_deinit(Arena *a) {
    while (a->head) {
        ArenaBlock *b = a->head;
        a->head = b->next;
        mem_free(b);
    }
    a->used_bytes = 0;
}
