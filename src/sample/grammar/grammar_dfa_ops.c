#include <string.h>

#include "base/utf8.h"
#include "sample/grammar/grammar_dfa.h"
#include "sample/grammar/grammar_table.h"

static bool edges_full(DfaBuilder *b, uint32_t to) {
    return dfabuild_edge(b, 0, 0xD7FF, to) && dfabuild_edge(b, 0xE000, SET_MAX_CP, to);
}

Dfa *dfa_any(GrammarWork *w) {
    DfaBuilder b = {.w = w};
    return edges_full(&b, 0) && dfabuild_state(&b, 0) ? dfabuild_finish(&b, 0) : NULL;
}

Dfa *dfa_length(GrammarWork *w, uint64_t min, uint64_t max) {
    if (min > max) return dfa_empty(w);
    uint64_t last = max == UINT64_MAX ? min : max;
    if (last >= w->max_states) {
        work_fail(
            w, ERR_LIMIT,
            "a length of %llu is above the limit of %u where it has to be counted state by state",
            (unsigned long long)last, w->max_states - 1);
        return NULL;
    }
    DfaBuilder b = {.w = w};
    for (uint32_t i = 0; i <= last; i++) {
        if (i < last)
            edges_full(&b, i + 1);
        else if (max == UINT64_MAX)
            edges_full(&b, i);
        dfabuild_state(&b, i >= min ? 0 : -1);
    }
    return w->failed ? NULL : dfabuild_finish(&b, 0);
}

/* ---- word sets ---- */

typedef struct Trie {
    struct TrieNode {
        uint32_t child, sibling, cp; /* children sorted by cp; 0 = none */
        int32_t word;
    } * nodes;
    uint32_t n, cap;
} Trie;

static uint32_t trie_step(GrammarWork *w, Trie *t, uint32_t at, uint32_t cp) {
    uint32_t before = 0, c = t->nodes[at].child;
    while (c && t->nodes[c].cp < cp) {
        before = c;
        c = t->nodes[c].sibling;
        if (!work_spend(w, 1)) return 0;
    }
    if (c && t->nodes[c].cp == cp) return c;
    if (t->n == t->cap) {
        struct TrieNode *nodes = work_grow(w, t->nodes, t->n, t->cap * 2, sizeof *nodes);
        if (!nodes) return 0;
        t->nodes = nodes;
        t->cap *= 2;
    }
    t->nodes[t->n] = (struct TrieNode){.sibling = c, .cp = cp, .word = -1};
    if (before)
        t->nodes[before].sibling = t->n;
    else
        t->nodes[at].child = t->n;
    return t->n++;
}

static bool trie_state(DfaBuilder *b, const Trie *t, uint32_t at, bool rest, uint32_t sink,
                       int32_t rest_label) {
    uint32_t from = 0;
    for (uint32_t c = t->nodes[at].child; c; c = t->nodes[c].sibling) {
        uint32_t cp = t->nodes[c].cp;
        if (rest && cp > from && !dfabuild_edge(b, from, cp - 1, sink)) return false;
        if (!dfabuild_edge(b, cp, cp, c)) return false;
        from = cp + 1;
    }
    if (rest && !dfabuild_edge(b, from, SET_MAX_CP, sink)) return false;
    int32_t word = t->nodes[at].word;
    return dfabuild_state(b, word >= 0 ? word : rest ? rest_label : -1);
}

Dfa *dfa_words(GrammarWork *w, const Str *words, size_t n, bool rest) {
    Trie t = {.nodes = work_array(w, struct TrieNode, 64), .n = 1, .cap = 64};
    if (!t.nodes) return NULL;
    t.nodes[0].word = -1;
    for (size_t i = 0; i < n; i++) {
        uint32_t node = 0;
        /* A lone surrogate (WTF-8 from the JSON reader): no valid UTF-8 text can spell it. */
        bool bad = false;
        for (size_t at = 0; at < words[i].n && !bad;) {
            uint32_t cp = utf8_next(words[i], &at);
            if ((bad = cp == UTF8_BAD)) break;
            node = trie_step(w, &t, node, cp);
            if (!node) return NULL;
        }
        if (!bad && t.nodes[node].word < 0) t.nodes[node].word = (int32_t)i;
    }
    DfaBuilder b = {.w = w};
    for (uint32_t i = 0; i < t.n; i++)
        if (!trie_state(&b, &t, i, rest, t.n, (int32_t)n)) return NULL;
    if (rest && !(edges_full(&b, t.n) && dfabuild_state(&b, (int32_t)n))) return NULL;
    return dfa_trim(w, dfabuild_finish(&b, 0), NULL);
}

/* ---- boolean operations ---- */

Dfa *dfa_not(GrammarWork *w, const Dfa *d) {
    if (!d) return NULL;
    if (!d->n) return dfa_any(w);
    DfaBuilder b = {.w = w};
    uint32_t sink = d->n;
    for (uint32_t q = 0; q <= d->n; q++) {
        uint32_t from = 0;
        for (uint32_t e = q < d->n ? d->edge_at[q] : 0; q < d->n && e < d->edge_at[q + 1]; e++) {
            if (d->edges[e].lo > from) dfabuild_edge(&b, from, d->edges[e].lo - 1, sink);
            dfabuild_edge(&b, d->edges[e].lo, d->edges[e].hi, d->edges[e].to);
            from = d->edges[e].hi + 1;
        }
        if (from <= SET_MAX_CP) dfabuild_edge(&b, from, SET_MAX_CP, sink);
        dfabuild_state(&b, q < d->n && d->label[q] >= 0 ? -1 : 0);
    }
    return w->failed ? NULL : dfa_minimize(w, dfabuild_finish(&b, d->start));
}

typedef enum ProductMode { PRODUCT_AND, PRODUCT_OR, PRODUCT_SPLIT } ProductMode;

typedef struct Product {
    GrammarWork *w;
    const Dfa *a, *b;
    ProductMode mode;
    WordTable states; /* (qa, qb) */
    WordTable pairs;  /* (label of a, in b) of PRODUCT_SPLIT */
    DfaBuilder out;
} Product;

static bool product_edge(Product *p, uint32_t lo, uint32_t hi, uint32_t ta, uint32_t tb) {
    if (ta == DFA_DEAD && (tb == DFA_DEAD || p->mode != PRODUCT_OR)) return true;
    if (tb == DFA_DEAD && p->mode == PRODUCT_AND) return true;
    bool fresh;
    uint32_t to = table_intern(&p->states, (uint32_t[]){ta, tb}, 2, &fresh);
    if (to == TABLE_NONE) return work_fail(p->w, ERR_NOMEM, "out of memory for a grammar");
    return dfabuild_edge(&p->out, lo, hi, to);
}

/* Walks the two sorted edge lists together, interval by interval. */
static bool product_edges(Product *p, uint32_t qa, uint32_t qb) {
    const Dfa *a = p->a, *b = p->b;
    uint32_t i = qa == DFA_DEAD ? 0 : a->edge_at[qa],
             i_end = qa == DFA_DEAD ? 0 : a->edge_at[qa + 1];
    uint32_t j = qb == DFA_DEAD ? 0 : b->edge_at[qb],
             j_end = qb == DFA_DEAD ? 0 : b->edge_at[qb + 1];
    uint32_t from = 0;
    while (i < i_end || j < j_end) {
        uint32_t lo_a = i < i_end ? a->edges[i].lo : UINT32_MAX,
                 lo_b = j < j_end ? b->edges[j].lo : UINT32_MAX;
        uint32_t lo = lo_a < lo_b ? lo_a : lo_b;
        if (from < lo) from = lo;
        bool in_a = i < i_end && lo_a <= from, in_b = j < j_end && lo_b <= from;
        uint32_t hi = UINT32_MAX;
        if (in_a) hi = a->edges[i].hi;
        if (in_b && b->edges[j].hi < hi) hi = b->edges[j].hi;
        if (!in_a && i < i_end && lo_a - 1 < hi) hi = lo_a - 1;
        if (!in_b && j < j_end && lo_b - 1 < hi) hi = lo_b - 1;
        if (!product_edge(p, from, hi, in_a ? a->edges[i].to : DFA_DEAD,
                          in_b ? b->edges[j].to : DFA_DEAD))
            return false;
        if (in_a && a->edges[i].hi == hi) i++;
        if (in_b && b->edges[j].hi == hi) j++;
        from = hi + 1;
    }
    return true;
}

static bool product_label(Product *p, uint32_t qa, uint32_t qb, int32_t *out) {
    int32_t la = qa == DFA_DEAD ? -1 : p->a->label[qa], lb = qb == DFA_DEAD ? -1 : p->b->label[qb];
    *out = -1;
    if (p->mode == PRODUCT_AND) *out = la >= 0 && lb >= 0 ? la : -1;
    if (p->mode == PRODUCT_OR) *out = la >= 0 || lb >= 0 ? 0 : -1;
    if (p->mode == PRODUCT_SPLIT && la >= 0) {
        bool fresh;
        uint32_t id = table_intern(&p->pairs, (uint32_t[]){(uint32_t)la, lb >= 0}, 2, &fresh);
        if (id == TABLE_NONE) return work_fail(p->w, ERR_NOMEM, "out of memory for a grammar");
        *out = (int32_t)id;
    }
    return true;
}

static Dfa *product_run(Product *p) {
    bool fresh;
    uint32_t sa = p->a->n ? p->a->start : DFA_DEAD, sb = p->b->n ? p->b->start : DFA_DEAD;
    if (table_intern(&p->states, (uint32_t[]){sa, sb}, 2, &fresh) == TABLE_NONE) {
        work_fail(p->w, ERR_NOMEM, "out of memory for a grammar");
        return NULL;
    }
    for (uint32_t q = 0; q < p->states.n; q++) {
        uint32_t qa = table_key(&p->states, q)[0], qb = table_key(&p->states, q)[1];
        int32_t label;
        if (!product_edges(p, qa, qb) || !product_label(p, qa, qb, &label) ||
            !dfabuild_state(&p->out, label))
            return NULL;
    }
    return dfa_minimize(p->w, dfabuild_finish(&p->out, 0));
}

static Dfa *product(GrammarWork *w, const Dfa *a, const Dfa *b, ProductMode mode) {
    if (!a || !b) return NULL;
    Product p = {.w = w, .a = a, .b = b, .mode = mode, .out = {.w = w}};
    Dfa *d = product_run(&p);
    table_deinit(&p.states);
    table_deinit(&p.pairs);
    return d;
}

Dfa *dfa_and(GrammarWork *w, const Dfa *a, const Dfa *b) { return product(w, a, b, PRODUCT_AND); }
Dfa *dfa_or(GrammarWork *w, const Dfa *a, const Dfa *b) { return product(w, a, b, PRODUCT_OR); }

Dfa *dfa_split(GrammarWork *w, const Dfa *a, const Dfa *b, DfaPair **pairs, uint32_t *n_pairs) {
    if (!a || !b) return NULL;
    Product p = {.w = w, .a = a, .b = b, .mode = PRODUCT_SPLIT, .out = {.w = w}};
    Dfa *d = product_run(&p);
    *n_pairs = p.pairs.n;
    *pairs = work_array(w, DfaPair, p.pairs.n);
    for (uint32_t i = 0; *pairs && i < p.pairs.n; i++)
        (*pairs)[i] = (DfaPair){(int32_t)table_key(&p.pairs, i)[0], table_key(&p.pairs, i)[1] != 0};
    table_deinit(&p.states);
    table_deinit(&p.pairs);
    return *pairs ? d : NULL;
}

bool dfa_is_finite(GrammarWork *w, const Dfa *d) {
    /* trimmed, so finite means no cycle: take states without unfinished successors away until none
     * is left */
    uint32_t *open = work_array(w, uint32_t, d->n);
    if (!open) return false;
    for (uint32_t n_done = 0, before = DFA_DEAD; n_done != before;) {
        before = n_done;
        if (!work_spend(w, d->n + (d->n ? d->edge_at[d->n] : 0))) return false;
        for (uint32_t q = d->n; q-- > 0;) {
            if (open[q]) continue;
            bool wait = false;
            for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1] && !wait; e++)
                wait = !open[d->edges[e].to];
            if (!wait) open[q] = 1, n_done++;
        }
        if (n_done == d->n) return true;
    }
    return d->n == 0;
}
