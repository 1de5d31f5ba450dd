/* Conjunctions of atoms as array and object forms. */
#include <string.h>

#include "base/map.h"
#include "sample/grammar/grammar_goal.h"

enum { FORM_MAX_PREFIX = 2000, FORM_MAX_NAMES = 4096, FORM_MAX_PATTERNS = 24, FORM_MAX_EXISTS = 4 };

static bool list_add(Goals *g, uint32_t **list, uint32_t *n, uint32_t value) {
    uint32_t *more = work_grow(g->w, *list, *n, *n + 1, sizeof *more);
    if (!more) return false;
    *list = more;
    more[(*n)++] = value;
    return true;
}

static uint32_t count_of(uint64_t n) { return n > 0x7FFFFFFF ? IR_UNBOUNDED : (uint32_t)n; }

/* ---- arrays ---- */

typedef struct ArrayPlan {
    uint64_t min, max;
    uint32_t n_prefix, n_contains;
    Atom contains[IR_MAX_CONTAINS];
} ArrayPlan;

static bool array_plan(Goals *g, const Conj *c, ArrayPlan *p) {
    *p = (ArrayPlan){.max = UINT64_MAX};
    const char *unique = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const Atom *a = goal_atom(g, c->atoms[i]);
        uint32_t reach = a->kind == ATOM_ITEM                                ? a->index + 1
                         : a->kind == ATOM_ITEMS || a->kind == ATOM_CONTAINS ? a->index
                                                                             : 0;
        if (reach > p->n_prefix) p->n_prefix = reach;
        if (a->kind == ATOM_COUNT_ITEMS && a->min > p->min) p->min = a->min;
        if (a->kind == ATOM_COUNT_ITEMS && a->max < p->max) p->max = a->max;
        if (a->kind == ATOM_UNIQUE) unique = a->keyword;
        if (a->kind != ATOM_CONTAINS || (!a->min && a->max == UINT64_MAX)) continue;
        if (p->n_contains == IR_MAX_CONTAINS)
            return work_fail(g->w, ERR_UNSUPPORTED,
                             "more than %d contains for one array cannot be enforced",
                             IR_MAX_CONTAINS);
        p->contains[p->n_contains++] = *a;
    }
    if (p->n_prefix > FORM_MAX_PREFIX)
        return work_fail(g->w, ERR_LIMIT, "prefixItems with more than %d elements",
                         FORM_MAX_PREFIX);
    if (unique && p->max > 1)
        return work_fail(
            g->w, ERR_UNSUPPORTED,
            "schema keyword uniqueItems cannot be enforced (arrays of at most one element apart)");
    return true;
}

/* What an element at this index has to satisfy, for every choice of contains it counts for. */
static bool element_goals(Goals *g, const Conj *c, const ArrayPlan *p, uint32_t index,
                          IrElement *out) {
    Fid base = F_ALWAYS;
    for (uint32_t i = 0; i < c->n && base != F_ERROR; i++) {
        const Atom *a = goal_atom(g, c->atoms[i]);
        if ((a->kind == ATOM_ITEM && a->index == index) ||
            (a->kind == ATOM_ITEMS && a->index <= index))
            base = formula_and(&g->s.f, base, a->goal);
    }
    for (uint32_t choice = 0; choice < 1u << IR_MAX_CONTAINS; choice++) {
        Fid all = choice >> p->n_contains ? F_NEVER : base;
        for (uint32_t k = 0; k < p->n_contains && all != F_ERROR; k++) {
            bool counted = choice >> k & 1;
            if (index < p->contains[k].index)
                all = counted ? F_NEVER : all;
            else if (counted)
                all = formula_and(&g->s.f, all, p->contains[k].goal);
            else if (p->contains[k].max != UINT64_MAX)
                all = formula_and(&g->s.f, all, formula_not(&g->s.f, p->contains[k].goal));
        }
        out->goals[choice] = goal_of(g, all);
    }
    return !g->w->failed;
}

bool goal_add_array(Goals *g, IrGoal *goal, const Conj *c) {
    ArrayPlan p;
    if (!array_plan(g, c, &p)) return false;
    if (p.min > p.max || count_of(p.min) == IR_UNBOUNDED) return true;
    IrArray a = {.n_prefix = p.n_prefix,
                 .n_contains = p.n_contains,
                 .min = (uint32_t)p.min,
                 .max = count_of(p.max)};
    a.elements = work_array(g->w, IrElement, (size_t)p.n_prefix + 1);
    if (!a.elements) return false;
    for (uint32_t i = 0; i <= p.n_prefix; i++)
        if (!element_goals(g, c, &p, i, &a.elements[i])) return false;
    for (uint32_t k = 0; k < p.n_contains; k++) {
        a.contains[k] = (IrContains){count_of(p.contains[k].min), count_of(p.contains[k].max),
                                     p.contains[k].index};
        if (a.contains[k].min == IR_UNBOUNDED || a.contains[k].min > a.contains[k].max) return true;
    }
    if (g->n_arrays == g->cap_arrays) {
        uint32_t cap = g->cap_arrays ? g->cap_arrays * 2 : 16;
        GoalArray *more = work_grow(g->w, g->arrays, g->n_arrays, cap, sizeof *more);
        if (!more) return false;
        g->arrays = more;
        g->cap_arrays = cap;
    }
    g->arrays[g->n_arrays] = (GoalArray){.ir = a};
    return list_add(g, &goal->arrays, &goal->n_arrays, g->n_arrays++);
}

/* A copy without dead goals; without contains, max is cut at the first index where nothing may
 * stand. */
static bool array_alive_form(Goals *g, const GoalArray *a, IrArray *out) {
    *out = a->ir;
    out->elements = work_array(g->w, IrElement, (size_t)a->ir.n_prefix + 1);
    if (!out->elements) return false;
    for (uint32_t i = 0; i <= a->ir.n_prefix; i++) {
        for (uint32_t k = 0; k < 1u << IR_MAX_CONTAINS; k++) {
            uint32_t goal = a->ir.elements[i].goals[k];
            out->elements[i].goals[k] = goal != IR_NONE && g->live[goal] ? goal : IR_NONE;
        }
        if (!out->n_contains && out->elements[i].goals[0] == IR_NONE && i < out->max) out->max = i;
    }
    if (!out->n_contains && out->n_prefix > out->max) out->n_prefix = out->max;
    return ir_array_prepare(g->w, out);
}

bool goal_array_live(Goals *g, GoalArray *a) {
    IrArray form;
    IrArrayState start = {0};
    if (!array_alive_form(g, a, &form)) return false;
    return form.n_contains ? ir_array_can_finish(&form, &start) : form.min <= form.max;
}

bool goal_array_finish(Goals *g, GoalArray *a) {
    IrArray form;
    if (!array_alive_form(g, a, &form)) return false;
    a->ir = form;
    return true;
}

/* ---- objects ---- */

typedef struct ObjectPlan {
    Map names; /* name -> bit */
    Str *words;
    uint32_t n_names, cap_names;
    const Dfa *patterns[FORM_MAX_PATTERNS];
    uint32_t n_patterns;
    uint64_t min, max;
} ObjectPlan;

static bool plan_name(Goals *g, ObjectPlan *p, Str name) {
    uint64_t bit;
    if (map_get(&p->names, name, &bit)) return true;
    if (p->n_names == FORM_MAX_NAMES)
        return work_fail(g->w, ERR_LIMIT, "properties with more than %d names", FORM_MAX_NAMES);
    if (!map_put(&p->names, name, p->n_names))
        return work_fail(g->w, ERR_NOMEM, "out of memory for a grammar");
    if (p->n_names == p->cap_names) {
        uint32_t cap = p->cap_names ? p->cap_names * 2 : 16;
        Str *words = work_grow(g->w, p->words, p->n_names, cap, sizeof *words);
        if (!words) return false;
        p->words = words;
        p->cap_names = cap;
    }
    p->words[p->n_names++] = name;
    return true;
}

static bool plan_pattern(Goals *g, ObjectPlan *p, const Dfa *d) {
    if (!d) return false;
    for (uint32_t i = 0; i < p->n_patterns; i++)
        if (p->patterns[i] == d) return true;
    if (p->n_patterns == FORM_MAX_PATTERNS)
        return work_fail(g->w, ERR_LIMIT,
                         "patternProperties with more than %d patterns for one object",
                         FORM_MAX_PATTERNS);
    p->patterns[p->n_patterns++] = d;
    return true;
}

static bool plan_cover(Goals *g, ObjectPlan *p, const Atom *a) {
    if (a->kind == ATOM_PATTERN) return plan_pattern(g, p, a->dfa);
    if (a->kind == ATOM_NAMES) return plan_pattern(g, p, goal_text(g, a->goal));
    for (uint32_t i = 0; a->but && i < a->but->n_keys; i++)
        if (!plan_name(g, p, a->but->keys[i])) return false;
    for (uint32_t i = 0; a->but && i < a->but->n_patterns; i++)
        if (!plan_pattern(g, p, a->but->patterns[i])) return false;
    return true;
}

static bool object_plan(Goals *g, const Conj *c, ObjectPlan *p) {
    p->max = UINT64_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        Atom a = *goal_atom(g, c->atoms[i]);
        if (a.kind == ATOM_COUNT_MEMBERS && a.min > p->min) p->min = a.min;
        if (a.kind == ATOM_COUNT_MEMBERS && a.max < p->max) p->max = a.max;
        if ((a.kind == ATOM_KEY || a.kind == ATOM_REQUIRED) && !plan_name(g, p, a.key))
            return false;
        if (a.kind == ATOM_EXISTS) a = *goal_atom(g, a.of);
        if (!plan_cover(g, p, &a)) return false;
    }
    return true;
}

/* A class of names under construction: the name spelled (IR_NONE: others) and the patterns that
 * match. */
typedef struct NameClass {
    uint32_t name, matched; /* matched: mask of ObjectPlan.patterns */
} NameClass;

static bool class_matches(const ObjectPlan *p, const NameClass *k, const Dfa *d) {
    for (uint32_t i = 0; i < p->n_patterns; i++)
        if (p->patterns[i] == d) return k->matched >> i & 1;
    return false;
}

/* Whether a member of that class falls under atom a (PATTERN, REST; NAMES: breaks it). */
static bool class_covered(Goals *g, const ObjectPlan *p, const NameClass *k, const Atom *a) {
    if (a->kind == ATOM_PATTERN) return class_matches(p, k, a->dfa);
    if (a->kind == ATOM_NAMES) return !class_matches(p, k, goal_text(g, a->goal));
    if (a->kind != ATOM_REST) return false;
    for (uint32_t i = 0; i < a->but->n_patterns; i++)
        if (class_matches(p, k, a->but->patterns[i])) return false;
    for (uint32_t i = 0; i < a->but->n_keys && k->name != IR_NONE; i++)
        if (str_eq(a->but->keys[i], p->words[k->name])) return false;
    return true;
}

static Fid class_formula(Goals *g, const Conj *c, const ObjectPlan *p, const NameClass *k) {
    Fid all = F_ALWAYS;
    for (uint32_t i = 0; i < c->n && all != F_ERROR && all != F_NEVER; i++) {
        Atom a = *goal_atom(g, c->atoms[i]);
        bool mine = a.kind == ATOM_KEY ? k->name != IR_NONE && str_eq(a.key, p->words[k->name])
                                       : class_covered(g, p, k, &a);
        if (mine) all = formula_and(&g->s.f, all, a.kind == ATOM_NAMES ? F_NEVER : a.goal);
        if (!work_spend(g->w, 1)) return F_ERROR;
    }
    return all;
}

Fid goal_key_formula(Goals *g, const Conj *c, Str key) {
    Fid all = F_ALWAYS;
    for (uint32_t i = 0; i < c->n && all != F_ERROR; i++) {
        Atom a = *goal_atom(g, c->atoms[i]);
        bool mine = false, rest = a.kind == ATOM_REST;
        if (a.kind == ATOM_KEY) mine = str_eq(a.key, key);
        if (a.kind == ATOM_PATTERN) mine = dfa_matches(a.dfa, key);
        if (a.kind == ATOM_NAMES) {
            const Dfa *names = goal_text(g, a.goal);
            mine = names && !dfa_matches(names, key);
            a.goal = F_NEVER;
        }
        for (uint32_t k = 0; rest && k < a.but->n_keys; k++) rest = !str_eq(a.but->keys[k], key);
        for (uint32_t k = 0; rest && a.kind == ATOM_REST && k < a.but->n_patterns; k++)
            rest = !dfa_matches(a.but->patterns[k], key);
        if (mine || rest) all = formula_and(&g->s.f, all, a.goal);
    }
    return all;
}

/* The automaton of all names; its labels are classes. */
static const Dfa *classes_build(Goals *g, const ObjectPlan *p, NameClass **classes, uint32_t *n) {
    Dfa *d = dfa_words(g->w, p->words, p->n_names, true);
    *n = p->n_names + 1;
    *classes = work_array(g->w, NameClass, *n);
    if (!d || !*classes) return NULL;
    for (uint32_t i = 0; i < *n; i++) (*classes)[i] = (NameClass){i < p->n_names ? i : IR_NONE, 0};
    for (uint32_t i = 0; i < p->n_patterns; i++) {
        DfaPair *pairs;
        uint32_t n_pairs;
        if (!(d = dfa_split(g->w, d, p->patterns[i], &pairs, &n_pairs))) return NULL;
        NameClass *split = work_array(g->w, NameClass, n_pairs);
        if (!split) return NULL;
        for (uint32_t k = 0; k < n_pairs; k++) {
            split[k] = (*classes)[pairs[k].a];
            if (pairs[k].in_b) split[k].matched |= 1u << i;
        }
        *classes = split;
        *n = n_pairs;
    }
    return d;
}

/* Replaces the EXISTS atom at `at` by each name that could be the witness. A free name as witness
 * cannot be enforced: a later member of the same name could take its place. */
static bool witness_split(Goals *g, IrGoal *goal, const Conj *c, uint32_t at, const ObjectPlan *p,
                          const NameClass *classes, uint32_t n_classes, int depth) {
    Atom exists = *goal_atom(g, c->atoms[at]), of = *goal_atom(g, exists.of);
    if (depth == FORM_MAX_EXISTS)
        return work_fail(g->w, ERR_UNSUPPORTED,
                         "schema keyword %s cannot be enforced under so many not, oneOf or if",
                         exists.keyword);
    for (uint32_t k = 0; k < n_classes; k++) {
        if (!class_covered(g, p, &classes[k], &of)) continue;
        Fid value = class_formula(g, c, p, &classes[k]);
        value = value == F_ERROR ? value : formula_and(&g->s.f, value, exists.goal);
        if (value == F_ERROR) return false;
        if (value == F_NEVER || goal_surely_empty(&g->s, value)) continue;
        if (classes[k].name == IR_NONE)
            return work_fail(g->w, ERR_UNSUPPORTED,
                             "schema keyword %s cannot be enforced under not, oneOf, if or else",
                             exists.keyword);
        Str key = p->words[classes[k].name];
        Fid there = formula_atom(
            &g->s.f, (Atom){.kind = ATOM_REQUIRED, .key = key, .keyword = exists.keyword});
        Fid is = formula_atom(
            &g->s.f,
            (Atom){.kind = ATOM_KEY, .key = key, .goal = exists.goal, .keyword = exists.keyword});
        if (there == F_ERROR || is == F_ERROR) return false;
        Conj one = {work_array(g->w, uint32_t, (size_t)c->n + 1), 0};
        if (!one.atoms) return false;
        for (uint32_t i = 0; i < c->n; i++)
            if (i != at) one.atoms[one.n++] = c->atoms[i];
        one.atoms[one.n++] = formula_kid(&g->s.f, there, 0);
        one.atoms[one.n++] = formula_kid(&g->s.f, is, 0);
        if (!goal_add_object(g, goal, &one, depth + 1)) return false;
    }
    return !g->w->failed;
}

static bool object_form(Goals *g, IrGoal *goal, const Conj *c, ObjectPlan *p, const Dfa *keys,
                        const NameClass *classes, uint32_t n) {
    IrObject o = {.n_classes = n,
                  .n_named = p->n_names,
                  .n_words = (p->n_names + 31) / 32,
                  .min = count_of(p->min),
                  .max = count_of(p->max)};
    o.classes = work_array(g->w, IrClass, n);
    o.required = work_array(g->w, uint32_t, o.n_words);
    if (!o.classes || !o.required) return false;
    for (uint32_t k = 0; k < n; k++) {
        Fid value = class_formula(g, c, p, &classes[k]);
        if (value == F_ERROR) return false;
        o.classes[k] = (IrClass){goal_of(g, value), classes[k].name};
    }
    for (uint32_t i = 0; i < c->n; i++) {
        const Atom *a = goal_atom(g, c->atoms[i]);
        uint64_t bit;
        if (a->kind != ATOM_REQUIRED || !map_get(&p->names, a->key, &bit) ||
            o.required[bit / 32] >> bit % 32 & 1)
            continue;
        o.required[bit / 32] |= 1u << bit % 32;
        o.n_required++;
    }
    if (g->n_objects == g->cap_objects) {
        uint32_t cap = g->cap_objects ? g->cap_objects * 2 : 16;
        GoalObject *more = work_grow(g->w, g->objects, g->n_objects, cap, sizeof *more);
        if (!more) return false;
        g->objects = more;
        g->cap_objects = cap;
    }
    g->objects[g->n_objects] = (GoalObject){.ir = o, .keys = keys};
    return !g->w->failed && list_add(g, &goal->objects, &goal->n_objects, g->n_objects++);
}

static bool object_build(Goals *g, IrGoal *goal, const Conj *c, ObjectPlan *p, int depth) {
    NameClass *classes;
    uint32_t n;
    if (!object_plan(g, c, p)) return false;
    if (p->min > p->max || count_of(p->min) == IR_UNBOUNDED) return true;
    const Dfa *keys = classes_build(g, p, &classes, &n);
    if (!keys) return false;
    for (uint32_t i = 0; i < c->n; i++)
        if (goal_atom(g, c->atoms[i])->kind == ATOM_EXISTS)
            return witness_split(g, goal, c, i, p, classes, n, depth);
    return object_form(g, goal, c, p, keys, classes, n);
}

bool goal_add_object(Goals *g, IrGoal *goal, const Conj *c, int depth) {
    ObjectPlan p = {0};
    bool ok = object_build(g, goal, c, &p, depth);
    map_deinit(&p.names);
    return ok;
}

static bool class_live(const Goals *g, const IrClass *k) {
    return k->goal != IR_NONE && g->live[k->goal];
}

bool goal_object_live(const Goals *g, const GoalObject *o) {
    uint32_t named = 0, required = 0;
    bool region = false;
    for (uint32_t k = 0; k < o->ir.n_classes; k++) {
        if (!class_live(g, &o->ir.classes[k])) continue;
        uint32_t bit = o->ir.classes[k].named;
        if (bit == IR_NONE) {
            region = true;
            continue;
        }
        named++;
        required += o->ir.required[bit / 32] >> bit % 32 & 1;
    }
    return required == o->ir.n_required && o->ir.n_required <= o->ir.max &&
           (region || named >= o->ir.min);
}

/* Per state of the key automaton: which classes can still be reached. Sweeps backwards until
 * nothing changes. */
static bool reach_compute(Goals *g, GoalObject *o, const Dfa *d) {
    IrObject *f = &o->ir;
    f->reach = work_array(g->w, uint32_t, (size_t)d->n * f->n_words);
    f->reach_region = work_array(g->w, uint8_t, d->n);
    f->no_region = work_array(g->w, uint8_t, d->n);
    if (!f->reach || !f->reach_region || !f->no_region) return false;
    for (uint32_t q = 0; q < d->n; q++) {
        if (d->label[q] < 0) continue;
        uint32_t bit = f->classes[d->label[q]].named;
        if (bit == IR_NONE)
            f->reach_region[q] = 1;
        else
            f->reach[(size_t)q * f->n_words + bit / 32] |= 1u << bit % 32;
    }
    for (bool again = true; again;) {
        again = false;
        if (!work_spend(g->w, (uint64_t)d->edge_at[d->n] * (f->n_words + 1))) return false;
        for (uint32_t q = d->n; q-- > 0;) {
            for (uint32_t e = d->edge_at[q]; e < d->edge_at[q + 1]; e++) {
                uint32_t to = d->edges[e].to, *mine = f->reach + (size_t)q * f->n_words,
                         *theirs = f->reach + (size_t)to * f->n_words;
                for (uint32_t i = 0; i < f->n_words; i++) {
                    again |= (theirs[i] & ~mine[i]) != 0;
                    mine[i] |= theirs[i];
                }
                again |= f->reach_region[to] && !f->reach_region[q];
                f->reach_region[q] |= f->reach_region[to];
            }
        }
    }
    return true;
}

bool goal_object_finish(Goals *g, GoalObject *o) {
    IrObject *f = &o->ir;
    Dfa cut = *o->keys;
    cut.label = work_array(g->w, int32_t, cut.n);
    f->usable = work_array(g->w, uint32_t, f->n_words);
    if (!cut.label || !f->usable) return false;
    for (uint32_t k = 0; k < f->n_classes; k++)
        if (class_live(g, &f->classes[k]) && f->classes[k].named != IR_NONE)
            f->usable[f->classes[k].named / 32] |= 1u << f->classes[k].named % 32;
    for (uint32_t q = 0; q < cut.n; q++) {
        int32_t k = o->keys->label[q];
        cut.label[q] = k >= 0 && class_live(g, &f->classes[k]) ? k : -1;
        if (cut.label[q] >= 0 && f->classes[k].named == IR_NONE) f->has_region = true;
    }
    if (f->has_region && f->min > f->n_required + 1)
        return work_fail(g->w, ERR_UNSUPPORTED,
                         "schema keyword minProperties %u cannot be enforced where names are free: "
                         "a name might repeat",
                         f->min);
    Dfa *d = dfa_trim(g->w, &cut, NULL);
    if (!d || !reach_compute(g, o, d)) return false;
    IrLexer lexer = {.dfa = d, .mode = LEX_JSON};
    if (!ir_lexer_analyze(g->w, &lexer, f->reach_region)) return false;
    IrLexer *lexers =
        work_grow(g->w, g->lexers, g->n_lexers, (size_t)g->n_lexers + 1, sizeof *lexers);
    if (!lexers) return false;
    g->lexers = lexers;
    g->cap_lexers = g->n_lexers + 1;
    f->key_lexer = g->n_lexers;
    lexers[g->n_lexers++] = lexer;
    return true;
}
