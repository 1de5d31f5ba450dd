/* arena.h: bump allocation with one free. Everything is zeroed and 16-byte aligned. An arena has a
 * byte cap, so what comes from outside cannot grow it without end. A zero-initialised Arena is
 * valid (cap ARENA_MAX_DEFAULT).
 *
 *     Node *n = arena_new(&a, Node);  if (!n) return err_nomem(err, "json tree"); */
#ifndef MLXCEL_BASE_ARENA_H
#define MLXCEL_BASE_ARENA_H

#include "base/str.h"

#define ARENA_MAX_DEFAULT ((size_t)4 << 30)

typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    ArenaBlock *head;
    size_t used_bytes; /* handed out, over all blocks */
    size_t max_bytes;  /* 0 = ARENA_MAX_DEFAULT */
} Arena;

void *arena_alloc(Arena *a, size_t bytes);            /* NULL: no memory or cap reached */
void *arena_alloc_n(Arena *a, size_t n, size_t size); /* overflow gives NULL */
char *arena_dupz(Arena *a, Str s);                    /* copy with a NUL behind */
/* .p NULL on failure unless s.n == 0 */
Str arena_dup(Arena *a, Str s);
/* forget everything, keep the largest block */
void arena_reset(Arena *a);
void arena_deinit(Arena *a);
#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc_n((a), (n), sizeof(T)))

#endif
