/* vocab.h: the two-way table of a model's tokens: spelling -> id and id -> spelling.
 *
 * Spellings lie in one pool, found through an open-addressing table whose slots carry half of
 * the hash, so a look-up touches the pool only for a likely match. The hash is seeded per table:
 * a hostile vocabulary cannot pile up. Ids may have holes and be as large as 2^32 - 2; nothing
 * is sized by an id unless the ids are dense.
 *
 *     vocab_add(&v, text, id) ...; vocab_finish(&v, err);
 *     id = vocab_find(&v, text); s = vocab_text(&v, id); */
#ifndef MLXCEL_TEXT_VOCAB_H
#define MLXCEL_TEXT_VOCAB_H

#include <string.h>

#include "base/err.h"
#include "base/str.h"

typedef struct VocabEntry {
    uint32_t at, n; /* spelling: n bytes at pool + at */
    uint32_t id;
} VocabEntry;

typedef struct Vocab {
    char *pool;
    size_t pool_n, pool_cap;
    /* in order of the file; a repeated spelling keeps its place and takes the later id */
    VocabEntry *entries;
    size_t n, cap;
    uint64_t *slots; /* hash's low half << 32 | entry + 1 */
    size_t n_slots;  /* power of two */
    uint64_t seed;
    uint32_t *by_id; /* dense ids: id -> entry + 1; otherwise n pairs (id, entry) sorted by id */
    size_t n_by_id;
    bool dense;
    uint64_t end_id; /* highest id + 1 */
} Vocab;

static inline Str vocab_entry_text(const Vocab *v, const VocabEntry *e) {
    return (Str){v->pool ? v->pool + e->at : NULL, e->n};
}

/* A multiply-and-fold hash over 8-byte words. */
static inline uint64_t vocab_mix(uint64_t a, uint64_t b) {
    __extension__ unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t vocab_hash(Str s, uint64_t seed) {
    const char *p = s.p;
    size_t n = s.n;
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u), a = 0, b = 0;
    while (n > 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = vocab_mix(h ^ a, 0xA0761D6478BD642Fu ^ b);
        p += 16;
        n -= 16;
    }
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + n - 4, 4);
        a = lo;
        b = hi;
    } else if (n > 0) {
        a = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n >> 1] << 8 |
            (unsigned char)p[n - 1];
        b = 0;
    } else {
        a = b = 0;
    }
    return vocab_mix(h ^ a ^ 0xE7037ED1A0B428DBu, b ^ 0x8EBC6AF09C88C6E3u);
}

bool vocab_reserve(Vocab *v, size_t n); /* false: no memory */
/* The same with the hash at hand (vocab_hash_of), e.g. after vocab_prefetch(). */
bool vocab_add_hashed(Vocab *v, Str text, uint64_t hash, uint32_t id);
bool vocab_add(Vocab *v, Str text, uint32_t id); /* false: no memory, or 2^31 tokens */
bool vocab_finish(Vocab *v,
                  Err *err) MUST_CHECK; /* builds the id side; call once, before vocab_text */
void vocab_deinit(Vocab *v);
uint32_t vocab_find(const Vocab *v, Str text); /* UINT32_MAX if absent */
Str vocab_text(const Vocab *v, uint32_t id);   /* .p NULL if absent */
static inline uint64_t vocab_hash_of(const Vocab *v, Str text) { return vocab_hash(text, v->seed); }
uint32_t vocab_find_hashed(const Vocab *v, Str text, uint64_t hash);
/* Stages of a look-up that are asked for ahead, so that the misses of several look-ups overlap:
 * slot, then entry, then text. */
static inline void vocab_prefetch_entry(const Vocab *v, uint64_t hash) {
    if (!v->n_slots) return;
    uint64_t slot = v->slots[(uint32_t)hash & (v->n_slots - 1)];
    if (slot) __builtin_prefetch(&v->entries[(uint32_t)slot - 1]);
}
static inline void vocab_prefetch_text(const Vocab *v, uint64_t hash) {
    if (!v->n_slots) return;
    uint64_t slot = v->slots[(uint32_t)hash & (v->n_slots - 1)];
    if (slot) __builtin_prefetch(v->pool + v->entries[(uint32_t)slot - 1].at);
}
static inline void vocab_prefetch(const Vocab *v, uint64_t hash) {
    if (v->n_slots) __builtin_prefetch(&v->slots[(uint32_t)hash & (v->n_slots - 1)]);
}

#endif
