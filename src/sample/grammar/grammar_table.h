/* grammar_table.h: interns sequences of 32-bit words: equal sequences get the same dense id.
 * Automaton states, stacks and whole matcher states are told apart this way. Ids count from 0 in
 * order of first appearance. Zero-initialised is valid. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_TABLE_H
#define MLXCEL_SAMPLE_GRAMMAR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_NONE UINT32_MAX

typedef struct WordTable {
    uint32_t *pool; /* all keys, one behind the other */
    size_t n_pool, cap_pool;
    uint32_t *at; /* n + 1 offsets into pool */
    uint32_t n, cap;
    uint32_t *slots; /* id + 1; 0 = empty; n_slots is a power of two */
    uint32_t n_slots;
} WordTable;

/* The id of key[0..n_words); *fresh tells whether it is new. TABLE_NONE: no memory. key must not
 * point into the pool. */
uint32_t table_intern(WordTable *t, const uint32_t *key, uint32_t n_words, bool *fresh);
uint32_t table_find(const WordTable *t, const uint32_t *key,
                    uint32_t n_words); /* TABLE_NONE if absent */
static inline const uint32_t *table_key(const WordTable *t, uint32_t id) {
    return t->pool + t->at[id];
}
static inline uint32_t table_len(const WordTable *t, uint32_t id) {
    return t->at[id + 1] - t->at[id];
}
size_t table_bytes(const WordTable *t);
void table_clear(WordTable *t); /* forget the keys, keep the memory */
void table_deinit(WordTable *t);

#endif
