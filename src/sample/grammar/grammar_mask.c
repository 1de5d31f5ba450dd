#include <string.h>

#include "base/mem.h"
#include "sample/grammar/grammar_run.h"

bool machine_error(const Machine *m, Err *err) {
    if (m->failed == ERR_NOMEM) return err_nomem(err, "a grammar");
    return err_set(
        err, ERR_LIMIT,
        "the grammar became too ambiguous to follow: too many ways to read the output so far");
}

/* ---- cache ---- */

void mask_clear(MaskCache *c) {
    for (uint32_t i = 0; i < c->pos_ids.n; i++) {
        mem_free(c->pos_masks[i].bits);
        mem_free(c->pos_masks[i].escapes);
    }
    for (uint32_t i = 0; i < c->state_ids.n; i++) mem_free(c->state_masks[i]);
    table_clear(&c->pos_ids);
    table_clear(&c->state_ids);
    c->used_bytes = 0;
}

void mask_deinit(MaskCache *c) {
    mask_clear(c);
    table_deinit(&c->pos_ids);
    table_deinit(&c->state_ids);
    mem_free(c->pos_masks);
    mem_free(c->state_masks);
    mem_free(c->frames);
    mem_free(c->found);
    mem_free(c->scratch);
    *c = (MaskCache){0};
}

bool mask_bind(MaskCache *c, const GrammarVocab *vocab, Err *err) {
    if (c->vocab == vocab) return true;
    mask_deinit(c);
    c->frames = mem_resize_array(NULL, (size_t)vocab->max_bytes + 2, sizeof *c->frames);
    c->scratch = mem_resize_array(NULL, vocab->n_words, sizeof *c->scratch);
    if (!c->frames || !c->scratch) {
        mask_deinit(c);
        return err_nomem(err, "token masks");
    }
    c->vocab = vocab;
    return true;
}

/* ---- walking ---- */

static void token_add(const GrammarVocab *v, uint32_t id, uint64_t *bits) {
    for (; id != UINT32_MAX; id = v->twin[id]) bits[id / 64] |= (uint64_t)1 << id % 64;
}

static bool escapes_note(MaskCache *c, const Machine *m, uint32_t state, uint32_t node) {
    for (uint32_t i = 0; i < machine_n_configs(m, state); i++) {
        const uint32_t *p = table_key(&m->positions, machine_config(m, state, i).pos);
        if (p[0] != POS_ESCAPE) continue;
        if (c->n_found == c->cap_found) {
            uint32_t cap = c->cap_found ? c->cap_found * 2 : 256;
            MaskEscape *found = mem_resize_array(c->found, cap, sizeof *found);
            if (!found) return false;
            c->found = found;
            c->cap_found = cap;
        }
        c->found[c->n_found++] = (MaskEscape){node, p[1]};
    }
    return true;
}

/* machine_step() with its cache looked at in place: nearly every step of a walk has been made
 * before. */
static inline uint32_t step(Machine *m, uint32_t state, uint8_t byte) {
    uint32_t row = m->state_row[state];
    if (row) {
        uint32_t to = m->rows[(size_t)(row - 1) * 256 + byte];
        if (to != ROW_UNKNOWN) return to;
    }
    return machine_step(m, state, byte);
}

/* Walks the nodes below `root` from state; tokens whose bytes all go through are added to bits. */
static void walk(MaskCache *c, Machine *m, const VocabTrie *t, uint32_t root, uint32_t state,
                 uint64_t *bits, bool note) {
    const VocabNode *nodes = t->nodes;
    struct MaskFrame *top = c->frames;
    uint32_t i = root + 1, n_walked = 0;
    *top = (struct MaskFrame){root + vocabnode_size(nodes[root]), state};
    for (;;) {
        while (i >= top->end) {
            if (top == c->frames) {
                c->n_walked += n_walked;
                return;
            }
            top--;
        }
        VocabNode node = nodes[i];
        uint32_t to = step(m, top->state, (uint8_t)node.size_byte);
        n_walked++;
        if (to == MACHINE_DEAD) {
            if (m->failed) return;
            i += vocabnode_size(node);
            continue;
        }
        if (node.token != UINT32_MAX) token_add(c->vocab, node.token, bits);
        if (vocabnode_size(node) > 1) {
            if (note && !escapes_note(c, m, to, i)) machine_fail(m, ERR_NOMEM);
            *++top = (struct MaskFrame){i + vocabnode_size(node), to};
        }
        i++;
    }
}

/* ---- position masks ---- */

/* Beyond the longest token the exact room of a bounded string makes no difference. */
static uint32_t pos_representative(Machine *m, const GrammarVocab *v, uint32_t pos) {
    Pos p = machine_pos(m, pos);
    if (p.kind != POS_LENGTH) return pos;
    if (p.b > v->max_bytes) p.b = v->max_bytes + 1;
    if (p.c > v->max_bytes) p.c = LENGTH_FREE;
    return machine_intern_pos(m, p);
}

/* How many plain characters the position surely survives; exact: one more is surely dead. */
static uint32_t pos_plain(const Machine *m, uint32_t pos, bool *exact) {
    Pos p = machine_pos(m, pos);
    *exact = p.kind == POS_LENGTH;
    uint32_t room = p.c, object = p.a;
    bool key = p.kind == POS_KEY;
    if (p.kind == POS_LENGTH) p = machine_pos(m, p.a);
    if (key) p = machine_pos(m, p.b);
    if (p.kind != POS_LEX || p.b >> 8 != SUB_CHAR) return *exact = false, 0;
    if (*exact) return room > VOCAB_PLAIN_MAX ? VOCAB_PLAIN_MAX : room;
    if (key && !json_key_free(m, object)) return 0;
    return m->ir->lexers[p.a].plain[p.c];
}

static bool pos_mask_fill(MaskCache *c, Machine *m, uint32_t pos, PosMask *out) {
    const GrammarVocab *v = c->vocab;
    bool exact;
    uint32_t plain = pos_plain(m, pos, &exact);
    memcpy(out->bits, v->plain[plain], v->n_words * sizeof *out->bits);
    out->trie = exact || plain >= VOCAB_PLAIN_MAX ? VOCAB_NOT_PLAIN
                : plain >= VOCAB_LONG             ? VOCAB_NOT_SHORT
                                                  : VOCAB_ALL;
    c->n_found = 0;
    m->growth = 0;
    uint32_t state = machine_state_of(m, (Config){pos, MACHINE_UNKNOWN_STACK});
    walk(c, m, &v->tries[out->trie], 0, state, out->bits, true);
    if (m->failed) return false;
    out->growth = m->growth;
    out->n_escapes = c->n_found;
    out->escapes = mem_resize_array(NULL, c->n_found, sizeof *out->escapes);
    if (!out->escapes) return machine_fail(m, ERR_NOMEM);
    if (c->n_found) memcpy(out->escapes, c->found, c->n_found * sizeof *out->escapes);
    return true;
}

static const PosMask *pos_mask_get(MaskCache *c, Machine *m, uint32_t pos) {
    pos = pos_representative(m, c->vocab, pos);
    uint32_t i = table_find(&c->pos_ids, &pos, 1);
    if (i != TABLE_NONE) return &c->pos_masks[i];
    if (c->pos_ids.n == c->cap_pos) {
        uint32_t cap = c->cap_pos ? c->cap_pos * 2 : 32;
        PosMask *p = mem_resize_array(c->pos_masks, cap, sizeof *p);
        if (!p) return machine_fail(m, ERR_NOMEM), NULL;
        c->pos_masks = p;
        c->cap_pos = cap;
    }
    PosMask fresh = {.bits = mem_alloc(c->vocab->n_words * sizeof(uint64_t))};
    bool is_new, ok = fresh.bits && pos_mask_fill(c, m, pos, &fresh);
    if (ok) i = table_intern(&c->pos_ids, &pos, 1, &is_new);
    if (!ok || i == TABLE_NONE) {
        mem_free(fresh.bits);
        mem_free(fresh.escapes);
        return machine_fail(m, ERR_NOMEM), NULL;
    }
    c->pos_masks[i] = fresh;
    c->used_bytes += c->vocab->n_words * sizeof(uint64_t) + fresh.n_escapes * sizeof(MaskEscape);
    return &c->pos_masks[i];
}

/* ---- state masks ---- */

static void config_mask(MaskCache *c, Machine *m, Config config, uint64_t *bits) {
    uint32_t kind = table_key(&m->positions, config.pos)[0];
    if (kind == POS_FINISHED || kind == POS_ESCAPE) return;
    const PosMask *pm = pos_mask_get(c, m, config.pos);
    if (!pm) return;
    if (m->depth[config.stack] + pm->growth >
        m->max_depth) { /* the limit is near: look at it exactly */
        walk(c, m, &c->vocab->tries[VOCAB_ALL], 0, machine_state_of(m, config), bits, false);
        return;
    }
    for (uint32_t i = 0; i < c->vocab->n_words; i++) bits[i] |= pm->bits[i];
    uint32_t label = UINT32_MAX, popped = MACHINE_DEAD;
    for (uint32_t i = 0; i < pm->n_escapes && !m->failed; i++) {
        if (pm->escapes[i].label != label)
            popped = machine_pop(m, config.stack, label = pm->escapes[i].label);
        walk(c, m, &c->vocab->tries[pm->trie], pm->escapes[i].node, popped, bits, false);
    }
}

static bool token_ref_add(void *arg, uint32_t lo, uint32_t hi) {
    MaskCache *c = arg;
    for (uint32_t id = lo; id <= hi && id < c->vocab->n_tokens; id++)
        if (!grammar_vocab_is_eos(c->vocab, id)) c->scratch[id / 64] |= (uint64_t)1 << id % 64;
    return true;
}

static bool state_mask_keep(MaskCache *c, uint32_t state) {
    size_t bytes = c->vocab->n_words * sizeof(uint64_t);
    if (c->state_ids.n == c->cap_state) {
        uint32_t cap = c->cap_state ? c->cap_state * 2 : 32;
        uint64_t **p = mem_resize_array(c->state_masks, cap, sizeof *p);
        if (!p) return false;
        c->state_masks = p;
        c->cap_state = cap;
    }
    uint64_t *copy = mem_alloc(bytes);
    bool fresh;
    uint32_t i = copy ? table_intern(&c->state_ids, &state, 1, &fresh) : TABLE_NONE;
    if (i == TABLE_NONE) return mem_free(copy), false;
    memcpy(copy, c->scratch, bytes);
    c->state_masks[i] = copy;
    c->used_bytes += bytes;
    return true;
}

bool mask_compute(Grammar *g, uint32_t state, uint64_t *bits, Err *err) {
    MaskCache *c = &g->masks;
    Machine *m = &g->machine;
    size_t bytes = c->vocab->n_words * sizeof(uint64_t);
    uint32_t i = table_find(&c->state_ids, &state, 1);
    if (i != TABLE_NONE) {
        memcpy(bits, c->state_masks[i], bytes);
        return true;
    }
    if (c->used_bytes > g->max_run_bytes / 2) mask_clear(c);
    memset(c->scratch, 0, bytes);
    for (uint32_t k = 0; k < machine_n_configs(m, state) && !m->failed; k++)
        config_mask(c, m, machine_config(m, state, k), c->scratch);
    if (!m->failed && g->ir.uses_tokens) machine_tokens(m, state, token_ref_add, c);
    if (!m->failed && !state_mask_keep(c, state)) machine_fail(m, ERR_NOMEM);
    if (m->failed) return machine_error(m, err);
    memcpy(bits, c->scratch, bytes);
    return true;
}
