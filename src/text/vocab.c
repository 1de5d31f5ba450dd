#include "text/vocab.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/os.h"

enum { MAX_TOKENS = 1 << 30 };

static bool grow_slots(Vocab *v, size_t n) {
    size_t n_slots = v->n_slots ? v->n_slots : 64;
    while (n_slots < n + n / 2) n_slots *= 2;
    if (n_slots == v->n_slots) return true;
    uint64_t *slots = mem_calloc(n_slots, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < v->n_slots; i++) {
        if (!v->slots[i]) continue;
        size_t j = (size_t)(v->slots[i] >> 32) & (n_slots - 1);
        while (slots[j]) j = (j + 1) & (n_slots - 1);
        slots[j] = v->slots[i];
    }
    mem_free(v->slots);
    v->slots = slots;
    v->n_slots = n_slots;
    return true;
}

bool vocab_reserve(Vocab *v, size_t n) {
    if (n >= MAX_TOKENS) return false;
    if (!v->seed) v->seed = os_random_u64() | 1;
    if (n > v->cap) {
        size_t cap = v->cap ? v->cap : 64;
        while (cap < n) cap *= 2;
        VocabEntry *e = mem_resize_array(v->entries, cap, sizeof *e);
        if (!e) return false;
        v->entries = e;
        v->cap = cap;
    }
    return grow_slots(v, n);
}

static bool pool_put(Vocab *v, Str text) {
    if (text.n > UINT32_MAX - v->pool_n) return false;
    if (v->pool_n + text.n > v->pool_cap) {
        size_t cap = v->pool_cap ? v->pool_cap : 4096;
        while (cap < v->pool_n + text.n) cap *= 2;
        char *p = mem_realloc(v->pool, cap);
        if (!p) return false;
        v->pool = p;
        v->pool_cap = cap;
    }
    if (text.n) memcpy(v->pool + v->pool_n, text.p, text.n);
    v->pool_n += text.n;
    return true;
}

static inline bool entry_is(const Vocab *v, const VocabEntry *e, Str text) {
    return e->n == text.n && (text.n == 0 || memcmp(v->pool + e->at, text.p, text.n) == 0);
}

bool vocab_add(Vocab *v, Str text, uint32_t id) {
    if (!v->seed && !vocab_reserve(v, 1)) return false;
    return vocab_add_hashed(v, text, vocab_hash(text, v->seed), id);
}

bool vocab_add_hashed(Vocab *v, Str text, uint64_t hash, uint32_t id) {
    if ((v->n == v->cap || v->n + v->n / 2 >= v->n_slots) && !vocab_reserve(v, v->n + 1))
        return false;
    uint32_t tag = (uint32_t)hash;
    size_t i = tag & (v->n_slots - 1);
    for (; v->slots[i]; i = (i + 1) & (v->n_slots - 1)) {
        if ((uint32_t)(v->slots[i] >> 32) != tag) continue;
        VocabEntry *e = &v->entries[(uint32_t)v->slots[i] - 1];
        if (entry_is(v, e, text)) {
            e->id = id;
            if (id >= v->end_id) v->end_id = (uint64_t)id + 1;
            return true;
        }
    }
    uint32_t at = (uint32_t)v->pool_n;
    if (!pool_put(v, text)) return false;
    v->entries[v->n++] = (VocabEntry){at, (uint32_t)text.n, id};
    v->slots[i] = (uint64_t)tag << 32 | v->n;
    if (id >= v->end_id) v->end_id = (uint64_t)id + 1;
    return true;
}

uint32_t vocab_find_hashed(const Vocab *v, Str text, uint64_t hash) {
    if (!v->n) return UINT32_MAX;
    uint32_t tag = (uint32_t)hash;
    for (size_t i = tag & (v->n_slots - 1); v->slots[i]; i = (i + 1) & (v->n_slots - 1)) {
        if ((uint32_t)(v->slots[i] >> 32) != tag) continue;
        const VocabEntry *e = &v->entries[(uint32_t)v->slots[i] - 1];
        if (entry_is(v, e, text)) return e->id;
    }
    return UINT32_MAX;
}

uint32_t vocab_find(const Vocab *v, Str text) {
    return vocab_find_hashed(v, text, vocab_hash(text, v->seed));
}

static int compare_pairs(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : (x[1] < y[1] ? -1 : x[1] > y[1]);
}

bool vocab_finish(Vocab *v, Err *err) {
    v->dense = v->end_id <= (uint64_t)v->n * 4 + 4096;
    v->n_by_id = v->dense ? (size_t)v->end_id : v->n;
    v->by_id =
        mem_calloc(v->n_by_id ? v->n_by_id : 1, v->dense ? sizeof(uint32_t) : 2 * sizeof(uint32_t));
    if (!v->by_id) return err_nomem(err, "vocabulary");
    for (size_t i = 0; i < v->n; i++) {
        if (v->dense) {
            v->by_id[v->entries[i].id] = (uint32_t)i + 1;
        } else {
            v->by_id[2 * i] = v->entries[i].id;
            v->by_id[2 * i + 1] = (uint32_t)i;
        }
    }
    if (!v->dense) qsort(v->by_id, v->n, 2 * sizeof(uint32_t), compare_pairs);
    if (v->pool_n < v->pool_cap) {
        char *p = mem_realloc(v->pool, v->pool_n ? v->pool_n : 1);
        if (p) {
            v->pool = p;
            v->pool_cap = v->pool_n;
        }
    }
    return true;
}

static const VocabEntry *entry_of(const Vocab *v, uint32_t id) {
    if (v->dense) return id < v->n_by_id && v->by_id[id] ? &v->entries[v->by_id[id] - 1] : NULL;
    size_t lo = 0, n = v->n_by_id;
    while (n > 0) {
        size_t half = n / 2;
        if (v->by_id[2 * (lo + half)] < id) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo < v->n_by_id && v->by_id[2 * lo] == id ? &v->entries[v->by_id[2 * lo + 1]] : NULL;
}

Str vocab_text(const Vocab *v, uint32_t id) {
    const VocabEntry *e = v->by_id ? entry_of(v, id) : NULL;
    return e ? vocab_entry_text(v, e) : STR_NONE;
}

void vocab_deinit(Vocab *v) {
    mem_free(v->pool);
    mem_free(v->entries);
    mem_free(v->slots);
    mem_free(v->by_id);
    *v = (Vocab){0};
}
