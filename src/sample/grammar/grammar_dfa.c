#include "sample/grammar/grammar_dfa.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "sample/grammar/grammar_table.h"

/* ---- building ---- */

static bool builder_room(DfaBuilder *b) {
    if (b->n > b->w->max_states)
        return work_fail(b->w, ERR_LIMIT, "an automaton of the grammar needs more than %u states",
                         b->w->max_states);
    if (b->n + 2 <= b->cap) return true;
    uint32_t cap = b->cap ? b->cap * 2 : 16;
    uint32_t *edge_at =
        work_grow(b->w, b->edge_at, b->edge_at ? b->n + 1 : 0, cap + 1, sizeof *edge_at);
    uint32_t *call_at =
        work_grow(b->w, b->call_at, b->call_at ? b->n + 1 : 0, cap + 1, sizeof *call_at);
    int32_t *label = work_grow(b->w, b->label, b->n, cap, sizeof *label);
    if (!edge_at || !call_at || !label) return false;
    b->edge_at = edge_at;
    b->call_at = call_at;
    b->label = label;
    b->cap = cap;
    return true;
}

bool dfabuild_edge(DfaBuilder *b, uint32_t lo, uint32_t hi, uint32_t to) {
    if (lo >= 0xD800 && lo <= 0xDFFF) lo = 0xE000; /* surrogates are not text */
    if (hi >= 0xD800 && hi <= 0xDFFF) hi = 0xD7FF;
    if (lo > hi) return true;
    if (!builder_room(b)) return false;
    if (b->n_edges > b->edge_at[b->n]) {
        DfaEdge *last = &b->edges[b->n_edges - 1];
        /* nothing lies in the surrogate gap, so ranges may merge across it */
        if (last->to == to && (last->hi + 1 == lo || (last->hi == 0xD7FF && lo == 0xE000))) {
            last->hi = hi;
            return true;
        }
    }
    if (b->n_edges == b->cap_edges) {
        uint32_t cap = b->cap_edges ? b->cap_edges * 2 : 32;
        DfaEdge *edges = work_grow(b->w, b->edges, b->n_edges, cap, sizeof *edges);
        if (!edges) return false;
        b->edges = edges;
        b->cap_edges = cap;
    }
    b->edges[b->n_edges++] = (DfaEdge){lo, hi, to};
    return work_spend(b->w, 1);
}

bool dfabuild_call(DfaBuilder *b, uint32_t rule, uint32_t to) {
    if (!builder_room(b)) return false;
    if (b->n_calls == b->cap_calls) {
        uint32_t cap = b->cap_calls ? b->cap_calls * 2 : 16;
        DfaCall *calls = work_grow(b->w, b->calls, b->n_calls, cap, sizeof *calls);
        if (!calls) return false;
        b->calls = calls;
        b->cap_calls = cap;
    }
    b->calls[b->n_calls++] = (DfaCall){rule, to};
    return work_spend(b->w, 1);
}

bool dfabuild_state(DfaBuilder *b, int32_t label) {
    if (!builder_room(b)) return false;
    b->label[b->n++] = label;
    b->edge_at[b->n] = b->n_edges;
    b->call_at[b->n] = b->n_calls;
    return work_spend(b->w, 1);
}

Dfa *dfabuild_finish(DfaBuilder *b, uint32_t start) {
    if (!builder_room(b)) return NULL;
    Dfa *d = work_new(b->w, Dfa);
    if (!d) return NULL;
    *d = (Dfa){
        .n = b->n, .start = start, .edge_at = b->edge_at, .edges = b->edges, .label = b->label};
    if (b->n_calls) {
        d->call_at = b->call_at;
        d->calls = b->calls;
    }
    return d;
}

/* ---- reading ---- */

uint32_t dfa_next(const Dfa *d, uint32_t q, uint32_t cp) {
    uint32_t lo = d->edge_at[q], hi = d->edge_at[q + 1];
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (d->edges[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->edge_at[q + 1] && d->edges[lo].lo <= cp ? d->edges[lo].to : DFA_DEAD;
}

bool dfa_matches(const Dfa *d, Str utf8) {
    if (!d->n) return false;
    uint32_t q = d->start;
    for (size_t at = 0; at < utf8.n;) {
        uint32_t cp = utf8_next(utf8, &at);
        if (cp == UTF8_BAD || (q = dfa_next(d, q, cp)) == DFA_DEAD) return false;
    }
    return d->label[q] >= 0;
}

/* ---- trimming ---- */

/* Marks the states that can reach acceptance, by repeated sweeps backwards: most edges point
 * forwards, so few are needed. */
static bool live_mark(GrammarWork *w, const Dfa *d, const bool *rule_live, bool *live) {
    for (bool again = true; again;) {
        again = false;
        if (!work_spend(w, d->n + d->edge_at[d->n])) return false;
        for (uint32_t q = d->n; q-- > 0;) {
            if (live[q]) continue;
            bool on = d->label[q] >= 0;
            for (uint32_t e = d->edge_at[q]; !on && e < d->edge_at[q + 1]; e++)
                on = live[d->edges[e].to];
            for (uint32_t c = d->call_at ? d->call_at[q] : 0;
                 !on && d->call_at && c < d->call_at[q + 1]; c++)
                on = live[d->calls[c].to] && (!rule_live || rule_live[d->calls[c].rule]);
            if (on) live[q] = again = true;
        }
    }
    return true;
}

bool dfa_is_productive(GrammarWork *w, const Dfa *d, const bool *rule_live) {
    if (!d->n) return false;
    bool *live = work_array(w, bool, d->n);
    return live && live_mark(w, d, rule_live, live) && live[d->start];
}

static bool call_kept(const DfaCall *c, const bool *live, const bool *rule_live) {
    return live[c->to] && (!rule_live || rule_live[c->rule]);
}

/* Numbers the live states reachable from the start, breadth first. */
static uint32_t reach_number(const Dfa *d, const bool *live, const bool *rule_live,
                             uint32_t *number, uint32_t *order) {
    uint32_t n = 0;
    for (uint32_t q = 0; q < d->n; q++) number[q] = DFA_DEAD;
    order[n] = d->start;
    number[d->start] = n++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t q = order[i];
        for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1]; e++) {
            uint32_t to = d->edges[e].to;
            if (live[to] && number[to] == DFA_DEAD) order[number[to] = n++] = to;
        }
        for (uint32_t c = d->call_at ? d->call_at[q] : 0; d->call_at && c < d->call_at[q + 1];
             c++) {
            uint32_t to = d->calls[c].to;
            if (call_kept(&d->calls[c], live, rule_live) && number[to] == DFA_DEAD)
                order[number[to] = n++] = to;
        }
    }
    return n;
}

Dfa *dfa_empty(GrammarWork *w) {
    DfaBuilder b = {.w = w};
    return dfabuild_finish(&b, 0);
}

Dfa *dfa_trim(GrammarWork *w, const Dfa *d, const bool *rule_live) {
    if (!d) return NULL;
    bool *live = work_array(w, bool, d->n);
    uint32_t *number = work_array(w, uint32_t, d->n), *order = work_array(w, uint32_t, d->n);
    if (!live || !number || !order || !live_mark(w, d, rule_live, live)) return NULL;
    if (!d->n || !live[d->start]) return dfa_empty(w);
    uint32_t n = reach_number(d, live, rule_live, number, order);
    DfaBuilder b = {.w = w};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t q = order[i];
        for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1]; e++)
            if (live[d->edges[e].to])
                dfabuild_edge(&b, d->edges[e].lo, d->edges[e].hi, number[d->edges[e].to]);
        for (uint32_t c = d->call_at ? d->call_at[q] : 0; d->call_at && c < d->call_at[q + 1]; c++)
            if (call_kept(&d->calls[c], live, rule_live))
                dfabuild_call(&b, d->calls[c].rule, number[d->calls[c].to]);
        dfabuild_state(&b, d->label[q]);
    }
    return w->failed ? NULL : dfabuild_finish(&b, 0);
}

/* ---- minimizing ---- */

enum { MINIMIZE_MAX_STATES = 4000 };

/* One round of Moore's refinement: classes by (class, label, edges to classes). Returns the number
 * of classes. */
static uint32_t moore_round(GrammarWork *w, const Dfa *d, const uint32_t *class, uint32_t *next,
                            WordTable *t, uint32_t *key) {
    table_clear(t);
    for (uint32_t q = 0; q < d->n; q++) {
        uint32_t n = 0;
        key[n++] = class[q];
        for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1]; e++) {
            uint32_t to = class[d->edges[e].to];
            if (n > 1 && key[n - 1] == to && key[n - 2] + 1 == d->edges[e].lo) {
                key[n - 2] = d->edges[e].hi;
                continue;
            }
            key[n++] = d->edges[e].lo;
            key[n++] = d->edges[e].hi;
            key[n++] = to;
        }
        key[n++] = DFA_DEAD;
        for (uint32_t c = d->call_at ? d->call_at[q] : 0; d->call_at && c < d->call_at[q + 1];
             c++) {
            key[n++] = d->calls[c].rule;
            key[n++] = class[d->calls[c].to];
        }
        bool fresh;
        next[q] = table_intern(t, key, n, &fresh);
        if (next[q] == TABLE_NONE || !work_spend(w, n)) {
            work_fail(w, ERR_NOMEM, "out of memory for a grammar");
            return 0;
        }
    }
    return t->n;
}

static Dfa *quotient_build(GrammarWork *w, const Dfa *d, const uint32_t *class, uint32_t n) {
    uint32_t *member = work_array(w, uint32_t, n);
    if (!member) return NULL;
    for (uint32_t q = d->n; q-- > 0;) member[class[q]] = q;
    DfaBuilder b = {.w = w};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t q = member[i];
        for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1]; e++)
            dfabuild_edge(&b, d->edges[e].lo, d->edges[e].hi, class[d->edges[e].to]);
        for (uint32_t c = d->call_at ? d->call_at[q] : 0; d->call_at && c < d->call_at[q + 1]; c++)
            dfabuild_call(&b, d->calls[c].rule, class[d->calls[c].to]);
        dfabuild_state(&b, d->label[q]);
    }
    return w->failed ? NULL : dfabuild_finish(&b, class[d->start]);
}

Dfa *dfa_minimize(GrammarWork *w, const Dfa *d) {
    if (!(d = dfa_trim(w, d, NULL))) return NULL;
    if (d->n < 2 || d->n > MINIMIZE_MAX_STATES) return dfa_trim(w, d, NULL);
    uint32_t widest = 0;
    for (uint32_t q = 0; q < d->n; q++) {
        uint32_t n = 3 * (d->edge_at[q + 1] - d->edge_at[q]);
        if (d->call_at) n += 2 * (d->call_at[q + 1] - d->call_at[q]);
        if (n > widest) widest = n;
    }
    uint32_t *class = work_array(w, uint32_t, d->n), *next = work_array(w, uint32_t, d->n);
    uint32_t *key = work_array(w, uint32_t, widest + 4);
    if (!class || !next || !key) return NULL;
    for (uint32_t q = 0; q < d->n; q++) class[q] = (uint32_t)(d->label[q] + 1);
    WordTable t = {0};
    uint32_t n = 0;
    for (;;) {
        uint32_t n_next = moore_round(w, d, class, next, &t, key);
        memcpy(class, next, d->n * sizeof *class);
        if (w->failed || n_next == n) break;
        n = n_next;
    }
    table_deinit(&t);
    return w->failed ? NULL : quotient_build(w, d, class, n);
}
