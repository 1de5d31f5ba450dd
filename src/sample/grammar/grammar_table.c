#include "sample/grammar/grammar_table.h"

#include <string.h>

#include "base/mem.h"

static uint32_t words_hash(const uint32_t *key, uint32_t n) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ key[i]) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ (h >> 29));
}

static bool slots_grow(WordTable *t) {
    uint32_t n_slots = t->n_slots ? t->n_slots * 2 : 64;
    if (n_slots > UINT32_MAX / 4) return false;
    uint32_t *slots = mem_calloc(n_slots, sizeof *slots);
    if (!slots) return false;
    for (uint32_t id = 0; id < t->n; id++) {
        uint32_t i = words_hash(table_key(t, id), table_len(t, id)) & (n_slots - 1);
        while (slots[i]) i = (i + 1) & (n_slots - 1);
        slots[i] = id + 1;
    }
    mem_free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return true;
}

static bool room_make(WordTable *t, uint32_t n_words) {
    if (t->n + 1 >= t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        uint32_t *at = mem_resize_array(t->at, (size_t)cap + 1, sizeof *at);
        if (!at) return false;
        if (!t->at) at[0] = 0;
        t->at = at;
        t->cap = cap;
    }
    if (t->n_pool + n_words > t->cap_pool) {
        size_t cap = t->cap_pool ? t->cap_pool * 2 : 256;
        if (cap < t->n_pool + n_words) cap = t->n_pool + n_words;
        if (cap > UINT32_MAX) return false;
        uint32_t *pool = mem_resize_array(t->pool, cap, sizeof *pool);
        if (!pool) return false;
        t->pool = pool;
        t->cap_pool = cap;
    }
    return t->n * 2 < t->n_slots || slots_grow(t);
}

static uint32_t slot_of(const WordTable *t, const uint32_t *key, uint32_t n_words) {
    uint32_t i = words_hash(key, n_words) & (t->n_slots - 1);
    for (; t->slots[i]; i = (i + 1) & (t->n_slots - 1)) {
        uint32_t id = t->slots[i] - 1;
        if (table_len(t, id) == n_words && !memcmp(table_key(t, id), key, n_words * sizeof *key))
            break;
    }
    return i;
}

uint32_t table_intern(WordTable *t, const uint32_t *key, uint32_t n_words, bool *fresh) {
    *fresh = false;
    if (!room_make(t, n_words)) return TABLE_NONE;
    uint32_t i = slot_of(t, key, n_words);
    if (t->slots[i]) return t->slots[i] - 1;
    if (n_words) memcpy(t->pool + t->n_pool, key, n_words * sizeof *key);
    t->n_pool += n_words;
    t->at[++t->n] = (uint32_t)t->n_pool;
    t->slots[i] = t->n;
    *fresh = true;
    return t->n - 1;
}

uint32_t table_find(const WordTable *t, const uint32_t *key, uint32_t n_words) {
    if (!t->n) return TABLE_NONE;
    uint32_t i = slot_of(t, key, n_words);
    return t->slots[i] ? t->slots[i] - 1 : TABLE_NONE;
}

size_t table_bytes(const WordTable *t) {
    return (t->cap_pool + t->cap + t->n_slots) * sizeof(uint32_t);
}

void table_clear(WordTable *t) {
    t->n = 0;
    t->n_pool = 0;
    if (t->slots) memset(t->slots, 0, t->n_slots * sizeof *t->slots);
}

void table_deinit(WordTable *t) {
    mem_free(t->pool);
    mem_free(t->at);
    mem_free(t->slots);
    *t = (WordTable){0};
}
