/* Formulas seen by one type: literals, strings, numbers, and the disjunctive form that arrays and
 * objects need. */
#include <stdlib.h>
#include <string.h>

#include "sample/grammar/grammar_goal.h"
#include "sample/grammar/grammar_number.h"

enum { DNF_MAX = 2000 };

const Atom *goal_atom(const Goals *g, uint32_t number) { return &g->s.f.atoms[number]; }

/* The formula behind a reference; F_ERROR on failure. */
static Fid look_up(Goals *g, Fid x) {
    while (x != F_ERROR && formula_kind(&g->s.f, x) == FK_SCHEMA)
        x = schema_formula(&g->s, formula_kid(&g->s.f, x, 0));
    return x;
}

/* ---- true or false for one value: literals, lengths ---- */

typedef struct Question {
    enum {
        ASK_LITERAL,
        ASK_LENGTH,
        ASK_NUMBER
    } what; /* ASK_NUMBER: a number of which nothing is known */
    JsonType literal;
    uint64_t length;
} Question;

static bool atom_answer(const Atom *a, const Question *q) {
    if (a->kind == ATOM_TYPE)
        return (a->mask & (q->what == ASK_LENGTH     ? TYPE_STRING
                           : q->what == ASK_NUMBER   ? TYPE_NUMBER
                           : q->literal == JSON_NULL ? TYPE_NULL
                                                     : TYPE_BOOL)) != 0;
    if (a->kind == ATOM_LENGTH && q->what == ASK_LENGTH)
        return q->length >= a->min && q->length <= a->max;
    if (a->kind != ATOM_ENUM) return true;
    for (size_t i = 0; q->what == ASK_LITERAL && i < a->n_values; i++)
        if (a->values[i].type == q->literal) return true;
    return false;
}

static bool formula_answer(Goals *g, Fid x, const Question *q) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return false;
    FKind kind = formula_kind(&g->s.f, x);
    switch (kind) {
    case FK_CONST:
        return x == F_ALWAYS;
    case FK_ATOM:
        return atom_answer(formula_atom_of(&g->s.f, x), q);
    case FK_NOT:
        return !formula_answer(g, formula_kid(&g->s.f, x, 0), q);
    default:
        for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++)
            if (formula_answer(g, formula_kid(&g->s.f, x, i), q) != (kind == FK_AND))
                return kind != FK_AND;
        return kind == FK_AND;
    }
}

bool goal_literal_holds(Goals *g, Fid x, JsonType literal) {
    return formula_answer(g, x, &(Question){.what = ASK_LITERAL, .literal = literal});
}

bool goal_length_holds(Goals *g, Fid x, uint64_t length) {
    return formula_answer(g, x, &(Question){.what = ASK_LENGTH, .length = length});
}

/* ---- walks over the atoms of a formula ---- */

static bool has_value_of(const Atom *a, JsonType type) {
    for (size_t i = 0; i < a->n_values; i++)
        if (a->values[i].type == type) return true;
    return false;
}

/* Whether some atom of x satisfies test. */
static bool some_atom(Goals *g, Fid x, bool (*test)(const Atom *a)) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return false;
    switch (formula_kind(&g->s.f, x)) {
    case FK_CONST:
        return false;
    case FK_ATOM:
        return test(formula_atom_of(&g->s.f, x));
    case FK_NOT:
        return some_atom(g, formula_kid(&g->s.f, x, 0), test);
    default:
        for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++)
            if (some_atom(g, formula_kid(&g->s.f, x, i), test)) return true;
        return false;
    }
}

static bool needs_text_dfa(const Atom *a) {
    return a->kind == ATOM_STRING || (a->kind == ATOM_ENUM && has_value_of(a, JSON_STRING));
}

static bool looks_at_number(const Atom *a) {
    if (a->kind == ATOM_TYPE)
        return (a->mask & TYPE_NUMBER) == TYPE_INTEGER || (a->mask & TYPE_NUMBER) == TYPE_FRACTION;
    return a->kind == ATOM_NUMBER || (a->kind == ATOM_ENUM && has_value_of(a, JSON_NUMBER));
}

bool goal_lengths_only(Goals *g, Fid x) { return !some_atom(g, x, needs_text_dfa); }

bool goal_length_cuts(Goals *g, Fid x, uint64_t **cuts, uint32_t *n, uint32_t *cap) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return false;
    FKind kind = formula_kind(&g->s.f, x);
    if (kind == FK_ATOM) {
        const Atom *a = formula_atom_of(&g->s.f, x);
        if (a->kind != ATOM_LENGTH) return true;
        if (*n + 2 > *cap) {
            uint64_t *more = work_grow(g->w, *cuts, *n, *cap = *cap * 2 + 16, sizeof *more);
            if (!more) return false;
            *cuts = more;
        }
        (*cuts)[(*n)++] = a->min;
        if (a->max != UINT64_MAX) (*cuts)[(*n)++] = a->max + 1;
        return true;
    }
    uint32_t n_kids = kind == FK_NOT ? 1 : kind == FK_CONST ? 0 : formula_n(&g->s.f, x);
    for (uint32_t i = 0; i < n_kids; i++)
        if (!goal_length_cuts(g, formula_kid(&g->s.f, x, i), cuts, n, cap)) return false;
    return true;
}

/* ---- strings ---- */

static const Dfa *enum_text(Goals *g, const Atom *a) {
    Str *words = work_array(g->w, Str, a->n_values);
    size_t n = 0;
    for (size_t i = 0; words && i < a->n_values; i++)
        if (a->values[i].type == JSON_STRING) words[n++] = a->values[i].text;
    Dfa *d = words ? dfa_words(g->w, words, n, false) : NULL;
    for (uint32_t q = 0; d && q < d->n; q++) d->label[q] = d->label[q] >= 0 ? 0 : -1;
    return d ? dfa_minimize(g->w, d) : NULL;
}

static const Dfa *atom_text(Goals *g, const Atom *a) {
    switch (a->kind) {
    case ATOM_TYPE:
        return a->mask & TYPE_STRING ? g->any_text : dfa_empty(g->w);
    case ATOM_ENUM:
        return enum_text(g, a);
    case ATOM_STRING:
        return a->dfa;
    case ATOM_LENGTH:
        return dfa_length(g->w, a->min, a->max);
    default:
        return g->any_text;
    }
}

static const Dfa *text_compute(Goals *g, Fid x) {
    FKind kind = formula_kind(&g->s.f, x);
    switch (kind) {
    case FK_CONST:
        return x == F_ALWAYS ? g->any_text : dfa_empty(g->w);
    case FK_ATOM:
        return atom_text(g, formula_atom_of(&g->s.f, x));
    case FK_NOT: {
        const Dfa *d = goal_text(g, formula_kid(&g->s.f, x, 0));
        return d == g->any_text ? dfa_empty(g->w) : d ? dfa_not(g->w, d) : NULL;
    }
    default: {
        const Dfa *sum = NULL;
        for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++) {
            const Dfa *d = goal_text(g, formula_kid(&g->s.f, x, i));
            if (!d) return NULL;
            if (!sum)
                sum = d;
            else if (kind == FK_AND)
                sum = d == g->any_text ? sum : sum == g->any_text ? d : dfa_and(g->w, sum, d);
            else
                sum = d == g->any_text || sum == g->any_text ? g->any_text : dfa_or(g->w, sum, d);
            if (!sum) return NULL;
        }
        return sum;
    }
    }
}

const Dfa *goal_text(Goals *g, Fid x) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return NULL;
    bool fresh;
    uint32_t id = table_find(&g->text_ids, &x, 1);
    if (id != TABLE_NONE) return g->text_dfas[id];
    const Dfa *d = text_compute(g, x);
    if (!d) return NULL;
    id = table_intern(&g->text_ids, &x, 1, &fresh);
    if (id == TABLE_NONE) return work_fail(g->w, ERR_NOMEM, "out of memory for a grammar"), NULL;
    if (id >= g->cap_text_dfas) {
        uint32_t cap = g->cap_text_dfas ? g->cap_text_dfas * 2 : 64;
        const Dfa **more = work_grow(g->w, g->text_dfas, g->cap_text_dfas, cap, sizeof(Dfa *));
        if (!more) return NULL;
        g->text_dfas = more;
        g->cap_text_dfas = cap;
    }
    return g->text_dfas[id] = d;
}

/* ---- numbers ---- */

static const Dfa *atom_number(Goals *g, const Atom *a) {
    if (a->kind == ATOM_NUMBER) return a->dfa;
    if (a->kind == ATOM_TYPE) {
        uint32_t mask = a->mask & TYPE_NUMBER;
        return mask == TYPE_NUMBER    ? g->plain_number
               : mask == TYPE_INTEGER ? g->integer
                                      : dfa_empty(g->w);
    }
    if (a->kind != ATOM_ENUM) return g->plain_number;
    Dfa *sum = dfa_empty(g->w);
    for (size_t i = 0; i < a->n_values && sum; i++)
        if (a->values[i].type == JSON_NUMBER)
            sum = dfa_or(g->w, sum,
                         number_compare(g->w, a->values[i].text, NUMBER_EQUAL, a->keyword));
    return sum;
}

static const Dfa *number_compute(Goals *g, Fid x) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return NULL;
    FKind kind = formula_kind(&g->s.f, x);
    switch (kind) {
    case FK_CONST:
        return x == F_ALWAYS ? g->plain_number : dfa_empty(g->w);
    case FK_ATOM:
        return atom_number(g, formula_atom_of(&g->s.f, x));
    case FK_NOT: {
        const Dfa *d = number_compute(g, formula_kid(&g->s.f, x, 0));
        if (d == g->plain_number) return dfa_empty(g->w);
        return d ? dfa_and(g->w, g->plain_number, dfa_not(g->w, d)) : NULL;
    }
    default: {
        const Dfa *sum = NULL;
        for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++) {
            const Dfa *d = number_compute(g, formula_kid(&g->s.f, x, i));
            if (!d) return NULL;
            if (!sum)
                sum = d;
            else if (kind == FK_AND)
                sum = d == g->plain_number     ? sum
                      : sum == g->plain_number ? d
                                               : dfa_and(g->w, sum, d);
            else
                sum = d == g->plain_number || sum == g->plain_number ? g->plain_number
                                                                     : dfa_or(g->w, sum, d);
            if (!sum) return NULL;
        }
        return sum;
    }
    }
}

const Dfa *goal_number(Goals *g, Fid x, bool *any) {
    *any = !some_atom(g, x, looks_at_number);
    if (*any)
        return formula_answer(g, x, &(Question){.what = ASK_NUMBER}) ? g->any_number
                                                                     : dfa_empty(g->w);
    return number_compute(g, x);
}

/* ---- disjunctive form ---- */

static bool dnf_push(Goals *g, Dnf *d, Conj c) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->conj[i].n == c.n &&
            (!c.n || !memcmp(d->conj[i].atoms, c.atoms, c.n * sizeof *c.atoms)))
            return true;
    if (d->n == DNF_MAX)
        return work_fail(g->w, ERR_LIMIT, "anyOf, oneOf, not or if combine to more than %d cases",
                         DNF_MAX);
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? d->cap * 2 : 4;
        Conj *conj = work_grow(g->w, d->conj, d->n, cap, sizeof *conj);
        if (!conj) return false;
        d->conj = conj;
        d->cap = cap;
    }
    d->conj[d->n++] = c;
    return work_spend(g->w, d->n + c.n);
}

static bool conj_merge(Goals *g, const Conj *a, const Conj *b, Conj *out) {
    *out = (Conj){.atoms = work_array(g->w, uint32_t, (size_t)a->n + b->n)};
    if (!out->atoms || !work_spend(g->w, a->n + b->n)) return false;
    for (uint32_t i = 0, j = 0; i < a->n || j < b->n;) {
        uint32_t x = i < a->n ? a->atoms[i] : UINT32_MAX, y = j < b->n ? b->atoms[j] : UINT32_MAX;
        out->atoms[out->n++] = x < y ? x : y;
        i += x <= y;
        j += y <= x;
    }
    return true;
}

static bool dnf_cross(Goals *g, const Dnf *a, const Dnf *b, Dnf *out) {
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t j = 0; j < b->n; j++) {
            Conj c;
            if (!conj_merge(g, &a->conj[i], &b->conj[j], &c) || !dnf_push(g, out, c)) return false;
        }
    }
    return true;
}

static Fid atom(Goals *g, Atom a) { return formula_atom(&g->s.f, a); }
static Fid conj2(Goals *g, Fid a, Fid b) {
    return a == F_ERROR || b == F_ERROR ? F_ERROR : formula_and(&g->s.f, a, b);
}

/* Exactly this array or object, as atoms. */
static Fid const_formula(Goals *g, const Json *v) {
    bool object = v->type == JSON_OBJECT;
    Fid x = atom(g, (Atom){.kind = object ? ATOM_COUNT_MEMBERS : ATOM_COUNT_ITEMS,
                           .min = v->n,
                           .max = v->n,
                           .keyword = "const"});
    KeyCover *cover = work_new(g->w, KeyCover);
    Str *keys = work_array(g->w, Str, v->n);
    if (!cover || !keys) return F_ERROR;
    for (uint32_t i = 0; i < v->n && x != F_ERROR; i++) {
        Fid same = atom(
            g,
            (Atom){.kind = ATOM_ENUM, .values = &v->items[i], .n_values = 1, .keyword = "const"});
        Str key = keys[i] = v->items[i].key;
        if (object)
            x = conj2(g, x, atom(g, (Atom){.kind = ATOM_REQUIRED, .key = key, .keyword = "const"}));
        x = conj2(
            g, x,
            object
                ? atom(g, (Atom){.kind = ATOM_KEY, .key = key, .goal = same, .keyword = "const"})
                : atom(g, (Atom){.kind = ATOM_ITEM, .index = i, .goal = same, .keyword = "const"}));
    }
    *cover = (KeyCover){.keys = keys, .n_keys = (uint32_t)v->n};
    if (!object) return x;
    return conj2(
        g, x,
        atom(g, (Atom){.kind = ATOM_REST, .but = cover, .goal = F_NEVER, .keyword = "const"}));
}

static Fid enum_formula(Goals *g, const Atom *a, JsonType type) {
    Fid any = F_NEVER;
    const Json *values = a->values;
    size_t n = a->n_values;
    for (size_t i = 0; i < n && any != F_ERROR; i++) {
        if (values[i].type != type) continue;
        Fid one = const_formula(g, &values[i]);
        any = one == F_ERROR ? F_ERROR : formula_or(&g->s.f, any, one);
    }
    return any;
}

/* What it means that atom number i does not hold, in atoms that hold. */
static Fid atom_negated(Goals *g, uint32_t i) {
    Atom a = *goal_atom(g, i), b = a;
    Fid opposite = formula_not(&g->s.f, a.goal), x;
    switch (a.kind) {
    case ATOM_COUNT_ITEMS:
    case ATOM_COUNT_MEMBERS:
        x = F_NEVER;
        b.min = 0, b.max = a.min - 1;
        if (a.min) x = formula_or(&g->s.f, x, atom(g, b));
        b.min = a.max + 1, b.max = UINT64_MAX;
        return a.max != UINT64_MAX ? formula_or(&g->s.f, x, atom(g, b)) : x;
    case ATOM_ITEM:
        b.goal = opposite;
        return conj2(g, atom(g, b),
                     atom(g, (Atom){.kind = ATOM_COUNT_ITEMS,
                                    .min = (uint64_t)a.index + 1,
                                    .max = UINT64_MAX,
                                    .keyword = a.keyword}));
    case ATOM_ITEMS:
        return atom(g, (Atom){.kind = ATOM_CONTAINS,
                              .index = a.index,
                              .min = 1,
                              .max = UINT64_MAX,
                              .goal = opposite,
                              .keyword = a.keyword});
    case ATOM_CONTAINS:
        x = F_NEVER;
        b.min = 0, b.max = a.min - 1;
        if (a.min) x = formula_or(&g->s.f, x, atom(g, b));
        b.min = a.max + 1, b.max = UINT64_MAX;
        return a.max != UINT64_MAX ? formula_or(&g->s.f, x, atom(g, b)) : x;
    case ATOM_REQUIRED:
        return atom(g,
                    (Atom){.kind = ATOM_KEY, .key = a.key, .goal = F_NEVER, .keyword = a.keyword});
    case ATOM_KEY:
        b.goal = opposite;
        return conj2(g, atom(g, b),
                     atom(g, (Atom){.kind = ATOM_REQUIRED, .key = a.key, .keyword = a.keyword}));
    case ATOM_PATTERN:
    case ATOM_REST:
        return atom(g,
                    (Atom){.kind = ATOM_EXISTS, .of = i, .goal = opposite, .keyword = a.keyword});
    case ATOM_NAMES:
        return atom(g,
                    (Atom){.kind = ATOM_EXISTS, .of = i, .goal = F_ALWAYS, .keyword = a.keyword});
    default:
        work_fail(g->w, ERR_UNSUPPORTED,
                  "schema keyword %s cannot be enforced under not, oneOf, if or else", a.keyword);
        return F_ERROR;
    }
}

static bool atom_concerns(const Atom *a, TypeBit type) {
    if (a->kind == ATOM_ENUM) return true;
    return type == TYPE_ARRAY ? a->kind >= ATOM_COUNT_ITEMS && a->kind <= ATOM_UNIQUE
                              : a->kind >= ATOM_COUNT_MEMBERS;
}

static bool dnf_constant(Goals *g, bool value, Dnf *out) {
    return !value || dnf_push(g, out, (Conj){0});
}

static bool dnf_atom(Goals *g, Fid x, bool negated, TypeBit type, Dnf *out) {
    uint32_t i = formula_kid(&g->s.f, x, 0);
    const Atom *a = goal_atom(g, i);
    if (a->kind == ATOM_TYPE) return dnf_constant(g, ((a->mask & type) != 0) != negated, out);
    if (!atom_concerns(a, type)) return dnf_constant(g, !negated, out);
    if (a->kind == ATOM_ENUM) {
        Fid f = enum_formula(g, a, type == TYPE_ARRAY ? JSON_ARRAY : JSON_OBJECT);
        return f != F_ERROR && goal_dnf(g, f, negated, type, out);
    }
    if (negated) {
        Fid f = atom_negated(g, i);
        return f != F_ERROR && goal_dnf(g, f, false, type, out);
    }
    uint32_t *one = work_new(g->w, uint32_t);
    if (!one) return false;
    *one = i;
    return dnf_push(g, out, (Conj){one, 1});
}

bool goal_dnf(Goals *g, Fid x, bool negated, TypeBit type, Dnf *out) {
    x = look_up(g, x);
    if (x == F_ERROR || !work_spend(g->w, 1)) return false;
    FKind kind = formula_kind(&g->s.f, x);
    if (kind == FK_CONST) return dnf_constant(g, (x == F_ALWAYS) != negated, out);
    if (kind == FK_ATOM) return dnf_atom(g, x, negated, type, out);
    if (kind == FK_NOT) return goal_dnf(g, formula_kid(&g->s.f, x, 0), !negated, type, out);
    if ((kind == FK_AND) == negated) {
        for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++)
            if (!goal_dnf(g, formula_kid(&g->s.f, x, i), negated, type, out)) return false;
        return true;
    }
    Dnf sum = {0};
    if (!dnf_push(g, &sum, (Conj){0})) return false;
    for (uint32_t i = 0; i < formula_n(&g->s.f, x); i++) {
        Dnf part = {0}, product = {0};
        if (!goal_dnf(g, formula_kid(&g->s.f, x, i), negated, type, &part) ||
            !dnf_cross(g, &sum, &part, &product))
            return false;
        sum = product;
    }
    for (uint32_t i = 0; i < sum.n; i++)
        if (!dnf_push(g, out, sum.conj[i])) return false;
    return true;
}
