#include "base/map.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"

static uint64_t map_seed(void) {
    static _Atomic uint64_t seed;
    uint64_t s = atomic_load_explicit(&seed, memory_order_relaxed);
    if (s) return s;
    uint64_t none = 0, fresh = os_random_u64() | 1;
    return atomic_compare_exchange_strong(&seed, &none, fresh) ? fresh : none;
}

/* The slot that holds key, or the empty one where it belongs. n_slots > 0. */
static size_t slot_of(const Map *m, Str key) {
    size_t i = str_hash(key, map_seed()) & (m->n_slots - 1);
    while (m->slots[i] && !str_eq(m->entries[m->slots[i] - 1].key, key))
        i = (i + 1) & (m->n_slots - 1);
    return i;
}

bool map_reserve(Map *m, size_t n) {
    if (n >= UINT32_MAX / 2) return false;
    if (n > m->cap) {
        size_t cap = m->cap ? m->cap : 8;
        while (cap < n) cap *= 2;
        MapEntry *e = mem_resize_array(m->entries, cap, sizeof *e);
        if (!e) return false;
        m->entries = e;
        m->cap = cap;
    }
    if (m->n_slots >= 2 * n) return true;
    size_t n_slots = 16;
    while (n_slots < 2 * n) n_slots *= 2;
    uint32_t *slots = mem_calloc(n_slots, sizeof *slots);
    if (!slots) return false;
    mem_free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    for (size_t i = 0; i < m->n; i++) m->slots[slot_of(m, m->entries[i].key)] = (uint32_t)i + 1;
    return true;
}

bool map_put(Map *m, Str key, uint64_t value) {
    if (!map_reserve(m, m->n + 1)) return false;
    size_t i = slot_of(m, key);
    if (m->slots[i]) {
        m->entries[m->slots[i] - 1].value = value;
        return true;
    }
    m->entries[m->n++] = (MapEntry){key, value};
    m->slots[i] = (uint32_t)m->n;
    return true;
}

const MapEntry *map_find(const Map *m, Str key) {
    if (!m->n) return NULL;
    uint32_t s = m->slots[slot_of(m, key)];
    return s ? &m->entries[s - 1] : NULL;
}

bool map_get(const Map *m, Str key, uint64_t *value) {
    const MapEntry *e = map_find(m, key);
    if (e) *value = e->value;
    return e != NULL;
}

void map_deinit(Map *m) {
    mem_free(m->entries);
    mem_free(m->slots);
    *m = (Map){0};
}
