#include "sample/grammar/grammar_goal.h"

#include <stdlib.h>
#include <string.h>

#include "sample/grammar/grammar_number.h"
#include "sample/grammar/grammar_regex.h"
#include "sample/grammar/grammar_run.h"

enum { GOAL_MAX = 20000, GOAL_EMPTY_DEPTH = 5 };

/* Blanks between tokens: none, one, or a line end with its indentation. Bounded, so that a model
 * cannot idle in blanks. */
#define SPACE_PATTERN " ?|\\n[ \\t]{0,60}"

/* ---- numbering ---- */

uint32_t goal_of(Goals *g, Fid f) {
    bool fresh;
    if (f == F_NEVER || f == F_ERROR || g->w->failed) return IR_NONE;
    uint32_t id = table_intern(&g->ids, &f, 1, &fresh);
    if (id == TABLE_NONE) return work_fail(g->w, ERR_NOMEM, "out of memory for a grammar"), IR_NONE;
    if (!fresh) return id;
    if (id >= GOAL_MAX)
        return work_fail(g->w, ERR_LIMIT, "the schema needs more than %d kinds of value", GOAL_MAX),
               IR_NONE;
    if (id >= g->cap_goals) {
        uint32_t cap = g->cap_goals ? g->cap_goals * 2 : 64;
        IrGoal *goals = work_grow(g->w, g->goals, g->cap_goals, cap, sizeof *goals);
        Fid *formulas = work_grow(g->w, g->formulas, g->cap_goals, cap, sizeof *formulas);
        bool *live = work_grow(g->w, g->live, g->cap_goals, cap, sizeof *live);
        if (!goals || !formulas || !live) return IR_NONE;
        g->goals = goals;
        g->formulas = formulas;
        g->live = live;
        g->cap_goals = cap;
    }
    g->formulas[id] = f;
    return id;
}

/* The content of an automaton as words. */
static uint32_t *dfa_words_of(Goals *g, const Dfa *d, LexMode mode, uint32_t *n) {
    uint32_t n_edges = d->edge_at[d->n];
    uint32_t *key = work_array(g->w, uint32_t, 2 + 2 * (size_t)d->n + 3 * (size_t)n_edges);
    if (!key || !work_spend(g->w, d->n + n_edges)) return NULL;
    *n = 0;
    key[(*n)++] = mode;
    key[(*n)++] = d->start;
    for (uint32_t q = 0; q < d->n; q++) {
        key[(*n)++] = (uint32_t)d->label[q];
        key[(*n)++] = d->edge_at[q + 1];
    }
    memcpy(key + *n, d->edges, 3 * (size_t)n_edges * sizeof *key);
    *n += 3 * n_edges;
    return key;
}

static bool lexer_push(Goals *g, const Dfa *d, LexMode mode, uint32_t *out) {
    if (g->n_lexers == g->cap_lexers) {
        uint32_t cap = g->cap_lexers ? g->cap_lexers * 2 : 32;
        IrLexer *lexers = work_grow(g->w, g->lexers, g->n_lexers, cap, sizeof *lexers);
        if (!lexers) return false;
        g->lexers = lexers;
        g->cap_lexers = cap;
    }
    g->lexers[g->n_lexers] = (IrLexer){.dfa = d, .mode = mode};
    *out = g->n_lexers++;
    return true;
}

/* Equal automata share a lexer, so they share masks. Member names have lexers of their own
 * (lexer_ids maps to numbers). */
bool goal_lexer(Goals *g, const Dfa *d, LexMode mode, uint32_t *out) {
    uint32_t n, *key = d ? dfa_words_of(g, d, mode, &n) : NULL;
    bool fresh;
    if (!key) return false;
    uint32_t id = table_intern(&g->lexer_ids, key, n, &fresh);
    if (id == TABLE_NONE) return work_fail(g->w, ERR_NOMEM, "out of memory for a grammar");
    if (!fresh) return *out = id, true;
    return lexer_push(g, d, mode, out); /* filled before any name lexer: ids agree */
}

/* ---- expanding one goal ---- */

static bool list_push(Goals *g, uint32_t **list, uint32_t *n, uint32_t value) {
    if ((*n & (*n - 1)) == 0) { /* full at powers of two */
        uint32_t *more = work_grow(g->w, *list, *n, *n ? *n * 2 : 1, sizeof *more);
        if (!more) return false;
        *list = more;
    }
    (*list)[(*n)++] = value;
    return true;
}

static bool add_lexer(Goals *g, IrGoal *goal, const Dfa *d, LexMode mode) {
    uint32_t lexer;
    if (!d) return false;
    return !d->n ||
           (goal_lexer(g, d, mode, &lexer) && list_push(g, &goal->lexers, &goal->n_lexers, lexer));
}

static bool add_literals(Goals *g, IrGoal *goal, Fid f) {
    static const char *const words[] = {"null", "true", "false"};
    static const JsonType literals[] = {JSON_NULL, JSON_TRUE, JSON_FALSE};
    Str some[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        if (goal_literal_holds(g, f, literals[i])) some[n++] = str_c(words[i]);
    if (!n || g->w->failed) return !g->w->failed;
    Dfa *d = dfa_words(g->w, some, n, false);
    for (uint32_t q = 0; d && q < d->n; q++) d->label[q] = d->label[q] >= 0 ? 0 : -1;
    return add_lexer(g, goal, d ? dfa_minimize(g->w, d) : NULL, LEX_RAW);
}

static int u64_cmp(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t clamp_count(uint64_t n) { return n > 0x7FFFFFFF ? IR_UNBOUNDED : (uint32_t)n; }

/* Only lengths matter: intervals of allowed lengths, counted while matching instead of state by
 * state. */
static bool add_lengths(Goals *g, IrGoal *goal, Fid f) {
    uint64_t *cuts = NULL;
    uint32_t n = 0, cap = 0;
    if (!goal_length_cuts(g, f, &cuts, &n, &cap)) return false;
    uint64_t *at = work_array(g->w, uint64_t, (size_t)n + 1);
    goal->lengths = work_array(g->w, IrLength, (size_t)n + 1);
    if (!at || !goal->lengths) return false;
    if (n) memcpy(at + 1, cuts, n * sizeof *at);
    n++;
    qsort(at, n, sizeof *at, u64_cmp);
    for (uint32_t i = 0; i < n; i++) {
        if ((i + 1 < n && at[i] == at[i + 1]) || !goal_length_holds(g, f, at[i])) continue;
        uint64_t min = at[i];
        while (i + 1 < n && (at[i + 1] == at[i] || goal_length_holds(g, f, at[i + 1]))) i++;
        uint64_t max = i + 1 < n ? at[i + 1] - 1 : UINT64_MAX;
        if (clamp_count(min) == IR_UNBOUNDED) continue; /* no text is that long */
        goal->lengths[goal->n_lengths++] = (IrLength){(uint32_t)min, clamp_count(max)};
    }
    if (goal->n_lengths != 1 || goal->lengths[0].min || goal->lengths[0].max != IR_UNBOUNDED)
        return !g->w->failed;
    goal->n_lengths = 0; /* every string */
    return add_lexer(g, goal, g->any_text, LEX_JSON);
}

static bool goal_expand(Goals *g, uint32_t id) {
    Fid f = g->formulas[id];
    IrGoal goal = {0};
    bool any;
    if (!add_literals(g, &goal, f)) return false;
    bool ok = goal_lengths_only(g, f) ? add_lengths(g, &goal, f)
                                      : add_lexer(g, &goal, goal_text(g, f), LEX_JSON);
    if (!ok) return false;
    const Dfa *number = goal_number(g, f, &any);
    if (number && !any) number = number_tidy(g->w, number);
    if (!add_lexer(g, &goal, number, LEX_RAW)) return false;
    Dnf arrays = {0}, objects = {0};
    if (!goal_dnf(g, f, false, TYPE_ARRAY, &arrays) ||
        !goal_dnf(g, f, false, TYPE_OBJECT, &objects))
        return false;
    for (uint32_t i = 0; i < arrays.n; i++)
        if (!goal_add_array(g, &goal, &arrays.conj[i])) return false;
    for (uint32_t i = 0; i < objects.n; i++)
        if (!goal_add_object(g, &goal, &objects.conj[i], 0)) return false;
    g->goals[id] = goal;
    return true;
}

/* ---- is a formula surely empty? ---- */

static bool maybe_value(Goals *g, Fid x, int depth);

static bool maybe_array(Goals *g, const Conj *c, int depth) {
    uint64_t min = 0, max = UINT64_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        const Atom *a = goal_atom(g, c->atoms[i]);
        uint64_t lo = a->kind == ATOM_COUNT_ITEMS          ? a->min
                      : a->kind == ATOM_CONTAINS && a->min ? a->min + a->index
                                                           : 0;
        if (lo > min) min = lo;
        if (a->kind == ATOM_COUNT_ITEMS && a->max < max) max = a->max;
    }
    if (min > max) return false;
    for (uint64_t k = 0; k < min && k < 8; k++) {
        Fid all = F_ALWAYS;
        for (uint32_t i = 0; i < c->n && all != F_ERROR; i++) {
            const Atom *a = goal_atom(g, c->atoms[i]);
            if ((a->kind == ATOM_ITEM && a->index == k) || (a->kind == ATOM_ITEMS && a->index <= k))
                all = formula_and(&g->s.f, all, a->goal);
        }
        if (all == F_ERROR || !maybe_value(g, all, depth - 1)) return false;
    }
    return true;
}

static bool maybe_object(Goals *g, const Conj *c, int depth) {
    uint64_t min = 0, max = UINT64_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        Atom a = *goal_atom(g, c->atoms[i]);
        if (a.kind == ATOM_COUNT_MEMBERS && a.min > min) min = a.min;
        if (a.kind == ATOM_COUNT_MEMBERS && a.max < max) max = a.max;
        if (a.kind != ATOM_REQUIRED) continue;
        Fid all = goal_key_formula(g, c, a.key);
        if (all == F_ERROR || !maybe_value(g, all, depth - 1)) return false;
    }
    return min <= max;
}

static bool maybe_value(Goals *g, Fid x, int depth) {
    bool any;
    if (x == F_NEVER || g->w->failed) return false;
    if (depth < 0 || x == F_ALWAYS) return true;
    if (goal_literal_holds(g, x, JSON_NULL) || goal_literal_holds(g, x, JSON_TRUE) ||
        goal_literal_holds(g, x, JSON_FALSE))
        return true;
    const Dfa *d = goal_text(g, x);
    if (!d || d->n) return true;
    d = goal_number(g, x, &any);
    if (!d || d->n) return true;
    Dnf arrays = {0}, objects = {0};
    if (!goal_dnf(g, x, false, TYPE_ARRAY, &arrays) ||
        !goal_dnf(g, x, false, TYPE_OBJECT, &objects))
        return true;
    for (uint32_t i = 0; i < arrays.n; i++)
        if (maybe_array(g, &arrays.conj[i], depth)) return true;
    for (uint32_t i = 0; i < objects.n; i++)
        if (maybe_object(g, &objects.conj[i], depth)) return true;
    return false;
}

bool goal_surely_empty(Schema *s, Fid x) {
    Goals *g = s->goals;
    return x != F_ERROR && !maybe_value(g, x, GOAL_EMPTY_DEPTH) && !g->w->failed;
}

/* ---- all goals ---- */

static bool goals_init(Goals *g, GrammarWork *w, const Json *root) {
    *g = (Goals){.w = w};
    if (!schema_init(&g->s, w, root)) return false;
    g->s.surely_empty = goal_surely_empty;
    g->s.goals = g;
    g->any_text = dfa_any(w);
    g->plain_number = number_plain(w);
    g->any_number = number_any(w);
    g->integer = number_integer(w);
    return !w->failed;
}

static void goals_deinit(Goals *g) {
    schema_deinit(&g->s);
    table_deinit(&g->ids);
    table_deinit(&g->lexer_ids);
    table_deinit(&g->text_ids);
}

/* Least fixpoint: a goal is live if one of its ways needs live goals only. */
static bool goals_find_live(Goals *g) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t id = g->ids.n; id-- > 0;) {
            if (g->live[id]) continue;
            const IrGoal *goal = &g->goals[id];
            bool live = goal->n_lexers || goal->n_lengths;
            for (uint32_t i = 0; i < goal->n_objects && !live; i++)
                live = goal_object_live(g, &g->objects[goal->objects[i]]);
            for (uint32_t i = 0; i < goal->n_arrays && !live; i++)
                live = goal_array_live(g, &g->arrays[goal->arrays[i]]);
            if (!work_spend(g->w, 1 + goal->n_objects + goal->n_arrays)) return false;
            if (live) g->live[id] = again = true;
        }
    }
    return true;
}

static bool forms_finish(Goals *g) {
    for (uint32_t i = 0; i < g->n_objects; i++)
        if ((g->objects[i].live = goal_object_live(g, &g->objects[i])) &&
            !goal_object_finish(g, &g->objects[i]))
            return false;
    for (uint32_t i = 0; i < g->n_arrays; i++)
        if ((g->arrays[i].live = goal_array_live(g, &g->arrays[i])) &&
            !goal_array_finish(g, &g->arrays[i]))
            return false;
    for (uint32_t id = 0; id < g->ids.n; id++) { /* ways that cannot be completed go away */
        IrGoal *goal = &g->goals[id];
        uint32_t n = 0;
        for (uint32_t i = 0; i < goal->n_objects; i++)
            if (g->objects[goal->objects[i]].live) goal->objects[n++] = goal->objects[i];
        goal->n_objects = n;
        n = 0;
        for (uint32_t i = 0; i < goal->n_arrays; i++)
            if (g->arrays[goal->arrays[i]].live) goal->arrays[n++] = goal->arrays[i];
        goal->n_arrays = n;
    }
    return !g->w->failed;
}

static bool goals_to_ir(Goals *g, uint32_t root, GrammarIr *ir) {
    uint32_t space, text;
    if (!goal_lexer(g, regex_dfa(g->w, STR(SPACE_PATTERN), REGEX_WHOLE), LEX_RAW, &space) ||
        !goal_lexer(g, g->any_text, LEX_JSON, &text) || !forms_finish(g))
        return false;
    ir->objects = work_array(g->w, IrObject, g->n_objects);
    ir->arrays = work_array(g->w, IrArray, g->n_arrays);
    if (!ir->objects || !ir->arrays) return false;
    for (uint32_t i = 0; i < g->n_objects; i++) ir->objects[i] = g->objects[i].ir;
    for (uint32_t i = 0; i < g->n_arrays; i++) ir->arrays[i] = g->arrays[i].ir;
    ir->n_objects = g->n_objects;
    ir->n_arrays = g->n_arrays;
    ir->lexers = g->lexers;
    ir->n_lexers = g->n_lexers;
    ir->goals = g->goals;
    ir->n_goals = g->ids.n;
    ir->space_lexer = space;
    ir->string_lexer = text;
    ir->root_is_goal = true;
    ir->root = root;
    return true;
}

static bool schema_compile(Goals *g, const Json *root, GrammarIr *ir) {
    uint32_t entry = schema_enter(&g->s, root, 0, STR("#"), "", STR_NONE);
    if (entry == F_ERROR) return false;
    Fid f = root->type == JSON_TRUE ? F_ALWAYS : root->type == JSON_FALSE ? F_NEVER : F_ERROR;
    if (root->type == JSON_OBJECT) f = schema_formula(&g->s, entry);
    if (f == F_ERROR)
        return g->w->failed ? false
                            : work_fail(g->w, ERR_INPUT,
                                        "the schema is %s, an object or a boolean is accepted",
                                        jsontype_name(root->type));
    uint32_t top = goal_of(g, f);
    for (uint32_t id = 0; id < g->ids.n && !g->w->failed; id++)
        if (!goal_expand(g, id)) return false;
    if (g->w->failed || !goals_find_live(g)) return false;
    if (top == IR_NONE || !g->live[top])
        return work_fail(g->w, ERR_INPUT,
                         "no value is valid for the schema: its keywords contradict each other");
    return goals_to_ir(g, top, ir);
}

bool grammar_compile_schema_tree(const Json *root, const GrammarLimits *limits, Grammar **out,
                                 Err *err) {
    GrammarWork w;
    Goals g;
    Grammar *grammar = grammar_alloc(limits, &w, err);
    if (!grammar) return false;
    if (goals_init(&g, &w, root)) schema_compile(&g, root, &grammar->ir);
    goals_deinit(&g);
    return grammar_finish(grammar, &w, out, err);
}

bool grammar_compile_schema(Str json, const GrammarLimits *limits, Grammar **out, Err *err) {
    Arena arena = {.max_bytes = (size_t)256 << 20};
    Json *root;
    if (!grammar_text_fits(json, limits, "the schema", err)) return false;
    bool ok = json_parse(json, &(JsonOptions){.max_depth = 100}, &arena, &root, err);
    if (!ok) err_wrap(err, "the schema");
    ok = ok && grammar_compile_schema_tree(root, limits, out, err);
    arena_deinit(&arena);
    return ok;
}
