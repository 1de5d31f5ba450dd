#include "sample/grammar/grammar_re.h"

#include <stdlib.h>
#include <string.h>

#include "sample/grammar/grammar_table.h"

/* ---- trees ---- */

Re *re_new(GrammarWork *w, ReKind kind) {
    Re *re = work_new(w, Re);
    if (re) re->kind = kind;
    return re;
}

bool re_add(GrammarWork *w, Re *parent, Re *kid) {
    if (!parent || !kid) return false;
    if (parent->n == parent->cap) {
        uint32_t cap = parent->cap ? parent->cap * 2 : 4;
        Re **kids = work_grow(w, parent->kids, parent->n, cap, sizeof(Re *));
        if (!kids) return false;
        parent->kids = kids;
        parent->cap = cap;
    }
    parent->kids[parent->n++] = kid;
    return work_spend(w, 1);
}

Re *re_set(GrammarWork *w, uint32_t lo, uint32_t hi) {
    Re *re = re_new(w, RE_SET);
    return re && cpset_add(w, &re->set, lo, hi) && cpset_normalize(w, &re->set) ? re : NULL;
}

Re *re_repeat(GrammarWork *w, Re *kid, uint32_t min, uint32_t max) {
    Re *re = re_new(w, RE_REPEAT);
    if (!re || !re_add(w, re, kid)) return NULL;
    re->min = min;
    re->max = max;
    return re;
}

/* ---- NFA ---- */

typedef enum NfaKind { NFA_SPLIT, NFA_SET, NFA_CALL, NFA_ASSERT, NFA_FINAL } NfaKind;

typedef struct NfaNode {
    NfaKind kind;
    uint32_t out, out2; /* out2: NFA_SPLIT only; DFA_DEAD = none */
    uint32_t what;      /* NFA_CALL: rule; NFA_ASSERT: ReAssert */
    const CpSet *set;
} NfaNode;

typedef struct Nfa {
    GrammarWork *w;
    NfaNode *nodes;
    uint32_t n, cap;
    bool asserts, word_edges;
} Nfa;

enum { NFA_MAX_NODES = 300000 };

static uint32_t nfa_node(Nfa *a, NfaNode node) {
    if (a->n == a->cap) {
        if (a->n >= NFA_MAX_NODES) {
            work_fail(a->w, ERR_LIMIT,
                      "a pattern of the grammar is too large: its repetitions unfold to more than "
                      "%d parts",
                      NFA_MAX_NODES);
            return DFA_DEAD;
        }
        uint32_t cap = a->cap ? a->cap * 2 : 64;
        NfaNode *nodes = work_grow(a->w, a->nodes, a->n, cap, sizeof *nodes);
        if (!nodes) return DFA_DEAD;
        a->nodes = nodes;
        a->cap = cap;
    }
    if (!work_spend(a->w, 1)) return DFA_DEAD;
    a->nodes[a->n] = node;
    return a->n++;
}

static uint32_t nfa_emit(Nfa *a, const Re *re, uint32_t next);

static uint32_t nfa_emit_repeat(Nfa *a, const Re *re, uint32_t next) {
    uint32_t at = next;
    if (re->max == RE_INFINITE) {
        at = nfa_node(a, (NfaNode){.kind = NFA_SPLIT, .out = DFA_DEAD, .out2 = next});
        uint32_t body = at == DFA_DEAD ? at : nfa_emit(a, re->kids[0], at);
        if (body == DFA_DEAD) return DFA_DEAD;
        a->nodes[at].out = body;
    }
    for (uint32_t i = re->min; re->max != RE_INFINITE && i < re->max; i++) {
        uint32_t body = nfa_emit(a, re->kids[0], at);
        if (body == DFA_DEAD) return DFA_DEAD;
        at = nfa_node(a, (NfaNode){.kind = NFA_SPLIT, .out = body, .out2 = next});
        if (at == DFA_DEAD) return at;
    }
    for (uint32_t i = 0; i < re->min && at != DFA_DEAD; i++) at = nfa_emit(a, re->kids[0], at);
    return at;
}

/* Emits re in front of node `next`; returns its first node. Depth is bounded by the parsers'
 * nesting limit. */
static uint32_t nfa_emit(Nfa *a, const Re *re, uint32_t next) {
    switch (re->kind) {
    case RE_EMPTY:
        return nfa_node(a, (NfaNode){.kind = NFA_SPLIT, .out = next, .out2 = DFA_DEAD});
    case RE_SET:
        return nfa_node(a, (NfaNode){.kind = NFA_SET, .out = next, .set = &re->set});
    case RE_CALL:
        return nfa_node(a, (NfaNode){.kind = NFA_CALL, .out = next, .what = re->rule});
    case RE_ASSERT:
        a->asserts = true;
        a->word_edges |= re->assertion == RE_WORD_EDGE || re->assertion == RE_NOT_WORD_EDGE;
        return nfa_node(a, (NfaNode){.kind = NFA_ASSERT, .out = next, .what = re->assertion});
    case RE_REPEAT:
        return nfa_emit_repeat(a, re, next);
    case RE_CAT:
        if (!re->n) return nfa_node(a, (NfaNode){.kind = NFA_SPLIT, .out = next, .out2 = DFA_DEAD});
        for (uint32_t i = re->n; i-- > 0 && next != DFA_DEAD;)
            next = nfa_emit(a, re->kids[i], next);
        return next;
    case RE_ALT: {
        uint32_t at = DFA_DEAD;
        for (uint32_t i = re->n; i-- > 0;) {
            uint32_t arm = nfa_emit(a, re->kids[i], next);
            if (arm == DFA_DEAD) return arm;
            at = nfa_node(a, (NfaNode){.kind = NFA_SPLIT, .out = arm, .out2 = at});
            if (at == DFA_DEAD) return at;
        }
        return at;
    }
    }
    return DFA_DEAD;
}

/* ---- determinizing ---- */

/* What stands before or after a position. */
typedef enum Around { AROUND_EDGE, AROUND_WORD, AROUND_OTHER } Around;

typedef struct Det {
    Nfa a;
    GrammarWork *w;
    WordTable
        subsets; /* {Around before, sorted node ids}: closed over splits, assertions still in it */
    uint32_t *mark; /* per node: stamp of the closure that holds it */
    uint32_t stamp;
    uint32_t *list, n_list; /* closure under construction */
    uint32_t *stack;
    struct DetCut {
        uint32_t at, node;
        bool opens;
    } * cuts; /* range ends of one state's sets */
    uint32_t n_cuts, cap_cuts;
    uint32_t *key;
} Det;

static bool assert_holds(ReAssert what, Around before, Around after) {
    switch (what) {
    case RE_BEGIN:
        return before == AROUND_EDGE;
    case RE_END:
        return after == AROUND_EDGE;
    case RE_WORD_EDGE:
        return (before == AROUND_WORD) != (after == AROUND_WORD);
    case RE_NOT_WORD_EDGE:
        return (before == AROUND_WORD) == (after == AROUND_WORD);
    }
    return false;
}

static void closure_begin(Det *d) {
    d->stamp++;
    d->n_list = 0;
}

/* Adds node and what it reaches by splits; with resolve also through the assertions that hold
 * there. */
static bool closure_add(Det *d, uint32_t node, bool resolve, Around before, Around after) {
    uint32_t n = 0, spent = 1;
    d->stack[n++] = node;
    while (n) {
        uint32_t i = d->stack[--n];
        if (i == DFA_DEAD || d->mark[i] == d->stamp) continue;
        d->mark[i] = d->stamp;
        spent++;
        const NfaNode *x = &d->a.nodes[i];
        if (x->kind == NFA_SPLIT) {
            d->stack[n++] = x->out2;
            d->stack[n++] = x->out;
        } else if (x->kind == NFA_ASSERT && resolve) {
            if (assert_holds((ReAssert)x->what, before, after)) d->stack[n++] = x->out;
        } else {
            d->list[d->n_list++] = i;
        }
    }
    return work_spend(d->w, spent);
}

static int word_cmp(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t subset_intern(Det *d, Around before) {
    qsort(d->list, d->n_list, sizeof *d->list, word_cmp);
    d->key[0] = d->a.asserts ? (uint32_t)before : 0;
    memcpy(d->key + 1, d->list, d->n_list * sizeof *d->list);
    bool fresh;
    uint32_t id = table_intern(&d->subsets, d->key, d->n_list + 1, &fresh);
    if (id == TABLE_NONE) work_fail(d->w, ERR_NOMEM, "out of memory for a grammar");
    if (id != TABLE_NONE && id >= d->w->max_states / 3)
        work_fail(d->w, ERR_LIMIT, "a pattern of the grammar needs more than %u states",
                  d->w->max_states / 3);
    return d->w->failed ? DFA_DEAD : id;
}

static int cut_cmp(const void *a, const void *b) {
    const struct DetCut *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static bool cut_add(Det *d, uint32_t at, uint32_t node, bool opens) {
    if (d->n_cuts == d->cap_cuts) {
        uint32_t cap = d->cap_cuts ? d->cap_cuts * 2 : 64;
        struct DetCut *cuts = work_grow(d->w, d->cuts, d->n_cuts, cap, sizeof *cuts);
        if (!cuts) return false;
        d->cuts = cuts;
        d->cap_cuts = cap;
    }
    d->cuts[d->n_cuts++] = (struct DetCut){at, node, opens};
    return true;
}

/* Collects the ends of the ranges of the listed sets, clipped to [lo, hi]. */
static bool cuts_collect(Det *d, uint32_t lo, uint32_t hi) {
    for (uint32_t i = 0; i < d->n_list; i++) {
        const NfaNode *x = &d->a.nodes[d->list[i]];
        if (x->kind != NFA_SET) continue;
        for (uint32_t r = 0; r < x->set->n; r++) {
            uint32_t from = x->set->r[r].lo, to = x->set->r[r].hi;
            if (from < lo) from = lo;
            if (to > hi) to = hi;
            if (from > to) continue;
            if (!cut_add(d, from, d->list[i], true) || !cut_add(d, to + 1, d->list[i], false))
                return false;
        }
        if (!work_spend(d->w, x->set->n + 1)) return false;
    }
    return true;
}

/* Emits the transitions on [lo, hi], whose characters are all of kind `after`. */
static bool det_region(Det *d, DfaBuilder *out, const uint32_t *subset, uint32_t n_subset,
                       Around before, Around after, uint32_t lo, uint32_t hi, uint32_t *active) {
    closure_begin(d);
    for (uint32_t i = 0; i < n_subset; i++)
        if (!closure_add(d, subset[i], true, before, after)) return false;
    d->n_cuts = 0;
    if (!cuts_collect(d, lo, hi)) return false;
    if (d->n_cuts) qsort(d->cuts, d->n_cuts, sizeof *d->cuts, cut_cmp);
    uint32_t n_active = 0;
    for (uint32_t i = 0; i < d->n_cuts;) {
        uint32_t at = d->cuts[i].at;
        for (; i < d->n_cuts && d->cuts[i].at == at; i++) {
            uint32_t k = 0;
            while (k < n_active && active[k] != d->cuts[i].node) k++;
            if (d->cuts[i].opens) {
                if (k == n_active) active[n_active++] = d->cuts[i].node;
            } else if (k < n_active) {
                active[k] = active[--n_active];
            }
        }
        if (!work_spend(d->w, n_active + 1)) return false;
        if (!n_active || i == d->n_cuts) continue;
        closure_begin(d);
        for (uint32_t k = 0; k < n_active; k++)
            if (!closure_add(d, d->a.nodes[active[k]].out, false, before, after)) return false;
        uint32_t to = subset_intern(d, after);
        if (to == DFA_DEAD || !dfabuild_edge(out, at, d->cuts[i].at - 1, to)) return false;
    }
    return true;
}

static bool det_accepts(Det *d, const uint32_t *subset, uint32_t n, Around before) {
    closure_begin(d);
    for (uint32_t i = 0; i < n; i++)
        if (!closure_add(d, subset[i], true, before, AROUND_EDGE)) return false;
    for (uint32_t i = 0; i < d->n_list; i++)
        if (d->a.nodes[d->list[i]].kind == NFA_FINAL) return true;
    return false;
}

/* One call edge per rule: where several nodes call the same rule, the ways on from there are
 * merged. */
static bool det_calls(Det *d, DfaBuilder *out, const uint32_t *subset, uint32_t n, Around before) {
    for (uint32_t i = 0; i < n; i++) {
        const NfaNode *x = &d->a.nodes[subset[i]];
        if (x->kind != NFA_CALL) continue;
        bool seen = false;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = d->a.nodes[subset[k]].kind == NFA_CALL && d->a.nodes[subset[k]].what == x->what;
        if (!work_spend(d->w, n) || seen) continue;
        closure_begin(d);
        for (uint32_t k = i; k < n; k++) {
            const NfaNode *y = &d->a.nodes[subset[k]];
            if (y->kind == NFA_CALL && y->what == x->what &&
                !closure_add(d, y->out, false, before, before))
                return false;
        }
        uint32_t to = subset_intern(d, before);
        if (to == DFA_DEAD || !dfabuild_call(out, x->what, to)) return false;
    }
    return !d->w->failed;
}

static const struct {
    uint32_t lo, hi;
    Around kind;
} word_regions[] = {
    {0, '/', AROUND_OTHER},   {'0', '9', AROUND_WORD},  {':', '@', AROUND_OTHER},
    {'A', 'Z', AROUND_WORD},  {'[', '^', AROUND_OTHER}, {'_', '_', AROUND_WORD},
    {'`', '`', AROUND_OTHER}, {'a', 'z', AROUND_WORD},  {'{', UINT32_MAX - 1, AROUND_OTHER},
};

static Dfa *det_run(Det *d, uint32_t start) {
    DfaBuilder out = {.w = d->w};
    closure_begin(d);
    if (!closure_add(d, start, false, AROUND_EDGE, AROUND_EDGE) ||
        subset_intern(d, AROUND_EDGE) == DFA_DEAD)
        return NULL;
    uint32_t *subset = work_array(d->w, uint32_t, d->a.n),
             *active = work_array(d->w, uint32_t, d->a.n);
    if (!subset || !active) return NULL;
    for (uint32_t q = 0; q < d->subsets.n && !d->w->failed; q++) {
        const uint32_t *key = table_key(&d->subsets, q);
        uint32_t n = table_len(&d->subsets, q) - 1;
        Around before = (Around)key[0];
        memcpy(subset, key + 1, n * sizeof *subset);
        if (d->a.word_edges) {
            for (size_t r = 0; r < sizeof word_regions / sizeof word_regions[0]; r++)
                det_region(d, &out, subset, n, before, word_regions[r].kind, word_regions[r].lo,
                           word_regions[r].hi, active);
        } else {
            det_region(d, &out, subset, n, before, AROUND_OTHER, 0, UINT32_MAX - 1, active);
        }
        det_calls(d, &out, subset, n, before);
        dfabuild_state(&out, det_accepts(d, subset, n, before) ? 0 : -1);
    }
    return d->w->failed ? NULL : dfa_minimize(d->w, dfabuild_finish(&out, 0));
}

Dfa *re_compile(GrammarWork *w, const Re *re) {
    if (!re || w->failed) return NULL;
    Det d = {.a = {.w = w}, .w = w};
    uint32_t final =
        nfa_node(&d.a, (NfaNode){.kind = NFA_FINAL, .out = DFA_DEAD, .out2 = DFA_DEAD});
    uint32_t start = final == DFA_DEAD ? final : nfa_emit(&d.a, re, final);
    if (start == DFA_DEAD) return NULL;
    d.mark = work_array(w, uint32_t, d.a.n);
    d.list = work_array(w, uint32_t, d.a.n);
    d.stack = work_array(w, uint32_t, (size_t)d.a.n * 2 + 2);
    d.key = work_array(w, uint32_t, (size_t)d.a.n + 1);
    Dfa *dfa = d.mark && d.list && d.stack && d.key ? det_run(&d, start) : NULL;
    table_deinit(&d.subsets);
    return dfa;
}
