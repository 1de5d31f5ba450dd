/* map.h: hash map from Str to a 64-bit value. Keys are borrowed: they must outlive the map.
 * Insertion order is kept by index (entries[0..n)). The hash is seeded per process, so hostile keys
 * cannot pile up. Zero-initialised is valid. */
#ifndef MLXCEL_BASE_MAP_H
#define MLXCEL_BASE_MAP_H

#include "base/str.h"

typedef struct MapEntry {
    Str key;
    uint64_t value;
} MapEntry;

typedef struct Map {
    MapEntry *entries; /* n of them, in insertion order */
    uint32_t *slots;   /* n_slots, power of two; entry index + 1, 0 = empty */
    size_t n, cap, n_slots;
} Map;

bool map_reserve(Map *m, size_t n);              /* false: no memory */
bool map_put(Map *m, Str key, uint64_t value);   /* inserts or replaces; false: no memory */
const MapEntry *map_find(const Map *m, Str key); /* NULL if absent */
bool map_get(const Map *m, Str key, uint64_t *value);
void map_deinit(Map *m);

#endif
