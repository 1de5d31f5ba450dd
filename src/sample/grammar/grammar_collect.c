/* Garbage collection of a machine: copies what the given states reach into fresh tables and drops
 * the rest. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sample/grammar/grammar_machine.h"

typedef struct Collect {
    const Machine *from;
    Machine *to;
    uint32_t *pos, *stack; /* old id -> new id, TABLE_NONE = not copied yet */
} Collect;

static uint32_t copy_words(Collect *c, const WordTable *from, WordTable *to, uint32_t id) {
    bool fresh;
    uint32_t copy = table_intern(to, table_key(from, id), table_len(from, id), &fresh);
    if (copy == TABLE_NONE) machine_fail(c->to, ERR_NOMEM);
    return copy;
}

static uint32_t copy_pos(Collect *c, uint32_t id) {
    if (c->pos[id] != TABLE_NONE) return c->pos[id];
    Pos p = machine_pos(c->from, id);
    const Machine *m = c->from;
    switch ((PosKind)p.kind) {
    case POS_LENGTH:
        p.a = copy_pos(c, p.a);
        break;
    case POS_KEY:
        p.a = copy_words(c, &m->objects, &c->to->objects, p.a);
        p.b = copy_pos(c, p.b);
        break;
    case POS_KEY_RETURN:
        p.a = copy_words(c, &m->objects, &c->to->objects, p.a);
        break;
    case POS_MEMBER:
        p.b = copy_words(c, &m->objects, &c->to->objects, p.b);
        break;
    case POS_OBJECT:
        if (!json_pos_names_form(p)) p.b = copy_words(c, &m->objects, &c->to->objects, p.b);
        break;
    case POS_ARRAY:
        if (!json_pos_names_form(p)) p.b = copy_words(c, &m->arrays, &c->to->arrays, p.b);
        break;
    default:
        break;
    }
    return c->pos[id] = machine_intern_pos(c->to, p);
}

static int pair_cmp(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t copy_stack(Collect *c, uint32_t id) {
    if (c->stack[id] != TABLE_NONE || c->to->failed) return c->stack[id];
    uint32_t n = table_len(&c->from->stacks, id);
    uint32_t *key = mem_alloc(n * sizeof *key);
    if (!key) return machine_fail(c->to, ERR_NOMEM), TABLE_NONE;
    memcpy(key, table_key(&c->from->stacks, id), n * sizeof *key);
    for (uint32_t i = 1; i < n; i += 2) {
        key[i] = copy_pos(c, key[i]);
        key[i + 1] = copy_stack(c, key[i + 1]);
    }
    if (n > 3) qsort(key + 1, n / 2, 2 * sizeof *key, pair_cmp);
    uint32_t copy = c->to->failed ? TABLE_NONE : stack_intern(c->to, key, n, c->from->depth[id]);
    mem_free(key);
    return c->stack[id] = copy;
}

static uint32_t copy_state(Collect *c, uint32_t id) {
    uint32_t n = machine_n_configs(c->from, id) * 2;
    uint32_t *key = mem_alloc(n * sizeof *key);
    if (!key) return machine_fail(c->to, ERR_NOMEM), MACHINE_DEAD;
    memcpy(key, table_key(&c->from->states, id), n * sizeof *key);
    for (uint32_t i = 0; i < n; i += 2) {
        key[i] = copy_pos(c, key[i]);
        key[i + 1] = copy_stack(c, key[i + 1]);
    }
    if (n) qsort(key, n / 2, 2 * sizeof *key, pair_cmp);
    uint32_t copy = c->to->failed ? MACHINE_DEAD : state_intern(c->to, key, n);
    mem_free(key);
    return copy;
}

bool machine_collect(Machine *m, uint32_t **states, size_t n, Err *err) {
    Machine fresh;
    if (m->failed) return err_set(err, ERR_LIMIT, "the grammar has failed before");
    if (!machine_init(&fresh, m->ir, err)) return false;
    Collect c = {m, &fresh, mem_resize_array(NULL, m->positions.n, 4),
                 mem_resize_array(NULL, m->stacks.n, 4)};
    uint32_t *ids = mem_resize_array(NULL, n, sizeof *ids);
    bool ok = c.pos && c.stack && ids;
    if (ok) {
        memset(c.pos, 0xFF, (size_t)m->positions.n * 4);
        memset(c.stack, 0xFF, (size_t)m->stacks.n * 4);
        for (size_t i = 0; i < n; i++) ids[i] = copy_state(&c, *states[i]);
        ok = !fresh.failed;
    }
    mem_free(c.pos);
    mem_free(c.stack);
    if (!ok) {
        mem_free(ids);
        machine_deinit(&fresh);
        return err_nomem(err, "a grammar");
    }
    for (size_t i = 0; i < n; i++) *states[i] = ids[i]; /* may point into m */
    fresh.start = m->start;
    machine_deinit(m);
    *m = fresh;
    mem_free(ids);
    return true;
}
