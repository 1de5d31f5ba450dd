#include "sample/grammar/grammar_machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { STACK_HAS_EMPTY = 1, STACK_HAS_UNKNOWN = 2 };
enum { SEEN_SLOTS = 1 << 14, SEEN_MAX = SEEN_SLOTS / 2 };
enum { POS_WORDS = 6 };
static const uint32_t EMPTY_STACK = 0;

bool machine_fail(Machine *m, ErrKind kind) {
    if (!m->failed) m->failed = kind;
    return false;
}

/* ---- positions ---- */

Pos machine_pos(const Machine *m, uint32_t id) {
    Pos p;
    memcpy(&p, table_key(&m->positions, id), sizeof p);
    return p;
}

/* A zeroed array of words that grows with the number of ids. */
static bool words_reach(Machine *m, uint32_t **words, uint32_t *cap, uint32_t n) {
    if (n < *cap) return true;
    uint32_t more = *cap ? *cap * 2 : 256;
    while (more <= n) more *= 2;
    uint32_t *p = mem_resize_array(*words, more, sizeof *p);
    if (!p) return machine_fail(m, ERR_NOMEM);
    memset(p + *cap, 0, (more - *cap) * sizeof *p);
    *words = p;
    *cap = more;
    return true;
}

uint32_t machine_intern_pos(Machine *m, Pos p) {
    bool fresh;
    uint32_t key[POS_WORDS];
    memcpy(key, &p, sizeof key);
    uint32_t id = table_intern(&m->positions, key, POS_WORDS, &fresh);
    if (id == TABLE_NONE) return machine_fail(m, ERR_NOMEM), 0;
    if (fresh && !words_reach(m, &m->lex_row, &m->cap_lex_row, id)) return 0;
    return id; /* position 0 is never a target: it is taken at init */
}

/* ---- stacks ---- */

static bool key_reach(Machine *m, uint32_t n) {
    if (n <= m->cap_key) return true;
    uint32_t cap = m->cap_key ? m->cap_key : 64;
    while (cap < n) cap *= 2;
    uint32_t *key = mem_resize_array(m->key, cap, sizeof *key);
    if (!key) return machine_fail(m, ERR_NOMEM);
    m->key = key;
    m->cap_key = cap;
    return true;
}

uint32_t stack_intern(Machine *m, const uint32_t *key, uint32_t n, uint32_t depth) {
    bool fresh;
    uint32_t id = table_intern(&m->stacks, key, n, &fresh);
    if (id == TABLE_NONE) return machine_fail(m, ERR_NOMEM), TABLE_NONE;
    if (!fresh) return id;
    if (id >= m->cap_depth) {
        uint32_t cap = m->cap_depth ? m->cap_depth * 2 : 256;
        uint16_t *d = mem_resize_array(m->depth, cap, sizeof *d);
        if (!d) return machine_fail(m, ERR_NOMEM), TABLE_NONE;
        m->depth = d;
        m->cap_depth = cap;
    }
    m->depth[id] = (uint16_t)depth;
    return id;
}

bool stack_has_room(Machine *m, uint32_t stack, uint32_t n) {
    uint32_t depth = m->depth[stack] + n;
    if (depth > m->growth) m->growth = depth;
    return depth <= m->max_depth;
}

uint32_t stack_push(Machine *m, uint32_t stack, uint32_t ret) {
    if (stack == TABLE_NONE || !stack_has_room(m, stack, 1)) return TABLE_NONE;
    return stack_intern(m, (uint32_t[]){0, ret, stack}, 3, m->depth[stack] + 1u);
}

static uint32_t stack_union(Machine *m, uint32_t a, uint32_t b);

/* Merges two nodes entry by entry; where both return to the same position the rests are merged. */
static uint32_t stack_merge(Machine *m, uint32_t a, uint32_t b) {
    uint32_t n_a = table_len(&m->stacks, a), n_b = table_len(&m->stacks, b), n = 0, depth = 0;
    uint32_t *out = mem_alloc((size_t)(n_a + n_b) * sizeof *out);
    if (!out) return machine_fail(m, ERR_NOMEM), a;
    out[n++] = table_key(&m->stacks, a)[0] | table_key(&m->stacks, b)[0];
    for (uint32_t i = 1, j = 1; i < n_a || j < n_b;) {
        const uint32_t *x = table_key(&m->stacks, a) + i, *y = table_key(&m->stacks, b) + j;
        uint32_t ret, rest;
        if (j >= n_b || (i < n_a && x[0] < y[0])) {
            ret = x[0], rest = x[1], i += 2;
        } else if (i >= n_a || y[0] < x[0]) {
            ret = y[0], rest = y[1], j += 2;
        } else {
            ret = x[0], i += 2, j += 2;
            rest = stack_union(m, x[1], y[1]);
        }
        out[n++] = ret;
        out[n++] = rest;
        if (m->depth[rest] + 1u > depth) depth = m->depth[rest] + 1u;
    }
    uint32_t id = stack_intern(m, out, n, depth);
    mem_free(out);
    return id == TABLE_NONE ? a : id;
}

/* The node for all stacks of a and of b. Recursion is bounded by MACHINE_MAX_DEPTH. */
static uint32_t stack_union(Machine *m, uint32_t a, uint32_t b) {
    if (a == b || m->failed) return a;
    uint32_t key[2] = {a < b ? a : b, a < b ? b : a};
    bool fresh;
    uint32_t memo = table_find(&m->unions, key, 2);
    if (memo != TABLE_NONE) return m->union_of[memo];
    uint32_t id = stack_merge(m, a, b);
    if (m->failed) return a;
    memo = table_intern(&m->unions, key, 2, &fresh);
    if (memo == TABLE_NONE || !words_reach(m, &m->union_of, &m->n_union_of, memo))
        return machine_fail(m, ERR_NOMEM), a;
    return m->union_of[memo] = id;
}

/* ---- closures ---- */

static bool configs_add(Machine *m, Config **list, uint32_t *n, uint32_t *cap, Config c) {
    if (*n == *cap) {
        uint32_t more = *cap ? *cap * 2 : 64;
        Config *p = mem_resize_array(*list, more, sizeof *p);
        if (!p) return machine_fail(m, ERR_NOMEM);
        *list = p;
        *cap = more;
    }
    (*list)[(*n)++] = c;
    return true;
}

void closure_add(Machine *m, uint32_t pos, uint32_t stack) {
    if (!pos || stack == TABLE_NONE || m->failed) return;
    uint32_t i = (pos * 0x9E3779B1u ^ stack * 0x85EBCA77u) >> 18;
    for (; m->seen_stamp[i] == m->stamp; i = (i + 1) & (SEEN_SLOTS - 1))
        if (m->seen[i].pos == pos && m->seen[i].stack == stack) return;
    if (++m->n_seen > SEEN_MAX) {
        machine_fail(m, ERR_LIMIT);
        return;
    }
    m->seen_stamp[i] = m->stamp;
    m->seen[i] = (Config){pos, stack};
    configs_add(m, &m->work, &m->n_work, &m->cap_work, (Config){pos, stack});
}

void closure_scan(Machine *m, uint32_t pos, uint32_t stack) {
    configs_add(m, &m->out, &m->n_out, &m->cap_out, (Config){pos, stack});
}

void closure_pop(Machine *m, uint32_t stack, uint32_t label) {
    uint32_t flags = table_key(&m->stacks, stack)[0];
    if (flags & STACK_HAS_EMPTY)
        closure_add(m, machine_intern_pos(m, (Pos){.kind = POS_FINISHED}), EMPTY_STACK);
    if (flags & STACK_HAS_UNKNOWN)
        closure_add(m, machine_intern_pos(m, (Pos){.kind = POS_ESCAPE, .a = label}), EMPTY_STACK);
    for (uint32_t i = 1; i < table_len(&m->stacks, stack) && !m->failed; i += 2) {
        uint32_t ret = table_key(&m->stacks, stack)[i], rest = table_key(&m->stacks, stack)[i + 1];
        Pos p = machine_pos(m, ret);
        if (p.kind == POS_KEY_RETURN) ret = json_key_return(m, p.a, label);
        closure_add(m, ret, rest);
    }
}

/* A raw lexer state that can only return: calling with it as the return position needs no stack
 * entry. */
static bool returns_only(const Dfa *d, uint32_t q) {
    return d->label[q] >= 0 && d->edge_at[q] == d->edge_at[q + 1] &&
           (!d->call_at || d->call_at[q] == d->call_at[q + 1]);
}

static void lex_closure(Machine *m, uint32_t id, Pos p, uint32_t stack) {
    int32_t label = lex_label(m, &p);
    if (label >= 0) closure_pop(m, stack, (uint32_t)label);
    if (p.b >> 8 == SUB_END) return;
    const IrLexer *x = &m->ir->lexers[p.a];
    bool at_char = p.b >> 8 == SUB_CHAR;
    if (at_char && x->dfa->calls) {
        for (uint32_t c = x->dfa->call_at[p.c]; c < x->dfa->call_at[p.c + 1] && !m->failed; c++) {
            DfaCall call = x->dfa->calls[c];
            uint32_t below = stack;
            if (!returns_only(x->dfa, call.to)) {
                uint32_t ret =
                    machine_intern_pos(m, (Pos){POS_LEX, p.a, SUB_CHAR << 8, call.to, 0, 0});
                below = stack_push(m, stack, ret);
            }
            closure_add(m, lex_start(m, call.rule), below);
        }
    }
    bool scans = !at_char || x->mode == LEX_JSON || x->dfa->edge_at[p.c] < x->dfa->edge_at[p.c + 1];
    if (scans) closure_scan(m, id, stack);
}

uint32_t state_intern(Machine *m, const uint32_t *key, uint32_t n) {
    bool fresh;
    uint32_t id = table_intern(&m->states, key, n, &fresh);
    if (id == TABLE_NONE) return machine_fail(m, ERR_NOMEM), MACHINE_DEAD;
    if (fresh && !words_reach(m, &m->state_row, &m->cap_state_row, id)) return MACHINE_DEAD;
    return id;
}

static void closure_begin(Machine *m) {
    if (++m->stamp == 0) {
        memset(m->seen_stamp, 0, SEEN_SLOTS * sizeof *m->seen_stamp);
        m->stamp = 1;
    }
    m->n_seen = m->n_work = m->n_out = 0;
}

static int config_cmp(const void *a, const void *b) {
    const Config *x = a, *y = b;
    if (x->pos != y->pos) return x->pos < y->pos ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Follows everything that consumes nothing, then merges configurations of one position; returns the
 * state's id. */
static uint32_t closure_end(Machine *m) {
    while (m->n_work && !m->failed) {
        Config c = m->work[--m->n_work];
        Pos p = machine_pos(m, c.pos);
        if (p.kind == POS_LEX)
            lex_closure(m, c.pos, p, c.stack);
        else if (p.kind == POS_FINISHED || p.kind == POS_ESCAPE)
            closure_scan(m, c.pos, c.stack);
        else
            json_closure(m, c.pos, p, c.stack);
    }
    if (m->failed) return MACHINE_DEAD;
    if (m->n_out > 1) qsort(m->out, m->n_out, sizeof *m->out, config_cmp);
    uint32_t n = 0;
    if (!key_reach(m, m->n_out * 2)) return MACHINE_DEAD;
    for (uint32_t i = 0; i < m->n_out; i++) {
        Config c = m->out[i];
        while (i + 1 < m->n_out && m->out[i + 1].pos == c.pos)
            c.stack = stack_union(m, c.stack, m->out[++i].stack);
        m->key[n++] = c.pos;
        m->key[n++] = c.stack;
    }
    return m->failed ? MACHINE_DEAD : state_intern(m, m->key, n);
}

/* ---- stepping ---- */

uint32_t pos_step(Machine *m, uint32_t pos, uint8_t byte) {
    Pos p = machine_pos(m, pos);
    return p.kind == POS_LEX ? lex_step(m, pos, byte) : json_step(m, p, byte);
}

static uint32_t step_compute(Machine *m, uint32_t state, uint8_t byte) {
    closure_begin(m);
    for (uint32_t i = 0; i < machine_n_configs(m, state); i++) {
        Config c = machine_config(m, state, i);
        closure_add(m, pos_step(m, c.pos, byte), c.stack);
    }
    return closure_end(m);
}

uint32_t machine_step(Machine *m, uint32_t state, uint8_t byte) {
    if (state == MACHINE_DEAD || m->failed) return MACHINE_DEAD;
    if (!m->state_row[state]) {
        if (m->n_rows == m->cap_rows) {
            uint32_t cap = m->cap_rows ? m->cap_rows * 2 : 64;
            uint32_t *rows = mem_resize_array(m->rows, cap, 256 * sizeof *rows);
            if (!rows) return machine_fail(m, ERR_NOMEM), MACHINE_DEAD;
            m->rows = rows;
            m->cap_rows = cap;
        }
        memset(m->rows + (size_t)m->n_rows * 256, 0xFF, 256 * sizeof *m->rows);
        m->state_row[state] = ++m->n_rows;
    }
    size_t at = (size_t)(m->state_row[state] - 1) * 256 + byte;
    if (m->rows[at] != ROW_UNKNOWN) return m->rows[at];
    uint32_t to = step_compute(m, state, byte);
    if (!m->failed) m->rows[at] = to;
    return to;
}

uint32_t machine_step_token(Machine *m, uint32_t state, uint32_t token) {
    closure_begin(m);
    for (uint32_t i = 0; i < machine_n_configs(m, state); i++) {
        Config c = machine_config(m, state, i);
        Pos p = machine_pos(m, c.pos);
        if (p.kind != POS_LEX || p.b >> 8 != SUB_CHAR || token > SET_TOKEN_MAX) continue;
        uint32_t q = dfa_next(m->ir->lexers[p.a].dfa, p.c, SET_TOKEN_BASE + token);
        if (q != DFA_DEAD)
            closure_add(m, machine_intern_pos(m, (Pos){POS_LEX, p.a, SUB_CHAR << 8, q, 0, 0}),
                        c.stack);
    }
    return closure_end(m);
}

uint32_t machine_union(Machine *m, uint32_t a, uint32_t b) {
    closure_begin(m);
    for (uint32_t i = 0; i < machine_n_configs(m, a); i++)
        closure_add(m, machine_config(m, a, i).pos, machine_config(m, a, i).stack);
    for (uint32_t i = 0; i < machine_n_configs(m, b); i++)
        closure_add(m, machine_config(m, b, i).pos, machine_config(m, b, i).stack);
    return closure_end(m);
}

bool machine_tokens(Machine *m, uint32_t state, bool (*each)(void *arg, uint32_t lo, uint32_t hi),
                    void *arg) {
    for (uint32_t i = 0; i < machine_n_configs(m, state); i++) {
        Pos p = machine_pos(m, machine_config(m, state, i).pos);
        if (p.kind != POS_LEX || p.b >> 8 != SUB_CHAR) continue;
        const Dfa *d = m->ir->lexers[p.a].dfa;
        for (uint32_t e = d->edge_at[p.c]; e < d->edge_at[p.c + 1]; e++)
            if (d->edges[e].lo >= SET_TOKEN_BASE &&
                !each(arg, d->edges[e].lo - SET_TOKEN_BASE, d->edges[e].hi - SET_TOKEN_BASE))
                return false;
    }
    return true;
}

uint32_t machine_n_configs(const Machine *m, uint32_t state) {
    return table_len(&m->states, state) / 2;
}

Config machine_config(const Machine *m, uint32_t state, uint32_t i) {
    const uint32_t *key = table_key(&m->states, state) + (size_t)i * 2;
    return (Config){key[0], key[1]};
}

uint32_t machine_state_of(Machine *m, Config c) {
    closure_begin(m);
    closure_add(m, c.pos, c.stack);
    return closure_end(m);
}

uint32_t machine_pop(Machine *m, uint32_t stack, uint32_t label) {
    closure_begin(m);
    closure_pop(m, stack, label);
    return closure_end(m);
}

static bool state_has(const Machine *m, uint32_t state, PosKind kind, bool *others) {
    bool has = false;
    *others = false;
    for (uint32_t i = 0; i < machine_n_configs(m, state); i++) {
        if (table_key(&m->positions, machine_config(m, state, i).pos)[0] == kind)
            has = true;
        else
            *others = true;
    }
    return has;
}

bool machine_may_end(const Machine *m, uint32_t state) {
    bool others;
    return state_has(m, state, POS_FINISHED, &others);
}

bool machine_is_done(const Machine *m, uint32_t state) {
    bool others;
    return state_has(m, state, POS_FINISHED, &others) && !others;
}

/* ---- life ---- */

static bool machine_setup(Machine *m) {
    bool fresh;
    m->seen = mem_calloc(SEEN_SLOTS, sizeof *m->seen);
    m->seen_stamp = mem_calloc(SEEN_SLOTS, sizeof *m->seen_stamp);
    if (!m->seen || !m->seen_stamp || !key_reach(m, 16)) return machine_fail(m, ERR_NOMEM);
    uint32_t nothing[POS_WORDS] = {UINT32_MAX};
    if (table_intern(&m->positions, nothing, POS_WORDS, &fresh) != 0)
        return machine_fail(m, ERR_NOMEM);
    if (table_intern(&m->states, NULL, 0, &fresh) != MACHINE_DEAD)
        return machine_fail(m, ERR_NOMEM);
    if (!words_reach(m, &m->lex_row, &m->cap_lex_row, 1) ||
        !words_reach(m, &m->state_row, &m->cap_state_row, 1))
        return false;
    stack_intern(m, (uint32_t[]){STACK_HAS_EMPTY}, 1, 0);
    stack_intern(m, (uint32_t[]){STACK_HAS_UNKNOWN}, 1, 0);
    m->done_pos = machine_intern_pos(m, (Pos){.kind = POS_DONE});
    if (m->ir->space_lexer != IR_NONE) m->space_pos = lex_start(m, m->ir->space_lexer);
    return !m->failed;
}

static uint32_t start_make(Machine *m) {
    closure_begin(m);
    uint32_t root = m->ir->root_is_goal
                        ? machine_intern_pos(m, (Pos){.kind = POS_GOAL, .a = m->ir->root})
                        : lex_start(m, m->ir->root);
    if (m->ir->root_is_goal) /* blanks in front, then the value */
        closure_add(m, m->space_pos, stack_push(m, EMPTY_STACK, root));
    else
        closure_add(m, root, EMPTY_STACK);
    return closure_end(m);
}

bool machine_init(Machine *m, const GrammarIr *ir, Err *err) {
    *m = (Machine){.ir = ir,
                   .max_depth = ir->root_is_goal ? MACHINE_MAX_JSON_DEPTH : MACHINE_MAX_DEPTH};
    if (machine_setup(m)) m->start = start_make(m);
    if (!m->failed) return true;
    bool nomem = m->failed == ERR_NOMEM;
    machine_deinit(m);
    return nomem ? err_nomem(err, "a grammar")
                 : err_set(err, ERR_LIMIT, "the grammar is too ambiguous to run");
}

void machine_deinit(Machine *m) {
    table_deinit(&m->positions);
    table_deinit(&m->stacks);
    table_deinit(&m->states);
    table_deinit(&m->unions);
    table_deinit(&m->objects);
    table_deinit(&m->arrays);
    mem_free(m->union_of);
    mem_free(m->depth);
    mem_free(m->lex_row);
    mem_free(m->state_row);
    mem_free(m->rows);
    mem_free(m->work);
    mem_free(m->out);
    mem_free(m->seen);
    mem_free(m->seen_stamp);
    mem_free(m->key);
    *m = (Machine){0};
}

size_t machine_bytes(const Machine *m) {
    return table_bytes(&m->positions) + table_bytes(&m->stacks) + table_bytes(&m->states) +
           table_bytes(&m->unions) + table_bytes(&m->objects) + table_bytes(&m->arrays) +
           (size_t)m->cap_rows * 1024 +
           (size_t)(m->n_union_of + m->cap_depth + m->cap_lex_row + m->cap_state_row) * 4;
}
