#include "sample/grammar/grammar_formula.h"

#include <stdlib.h>
#include <string.h>

enum { FORMULA_MAX_NODES = 200000 };

static Fid node_intern(Formulas *f, const uint32_t *key, uint32_t n) {
    bool fresh;
    if (!work_spend(f->w, n)) return F_ERROR;
    if (f->nodes.n > FORMULA_MAX_NODES) {
        work_fail(f->w, ERR_LIMIT, "the schema is too complex: more than %d subformulas",
                  FORMULA_MAX_NODES);
        return F_ERROR;
    }
    uint32_t id = table_intern(&f->nodes, key, n, &fresh);
    if (id == TABLE_NONE) work_fail(f->w, ERR_NOMEM, "out of memory for a grammar");
    return id;
}

bool formulas_init(Formulas *f, GrammarWork *w) {
    *f = (Formulas){.w = w};
    return node_intern(f, (uint32_t[]){FK_CONST, 0}, 2) == F_NEVER &&
           node_intern(f, (uint32_t[]){FK_CONST, 1}, 2) == F_ALWAYS;
}

void formulas_deinit(Formulas *f) { table_deinit(&f->nodes); }

FKind formula_kind(const Formulas *f, Fid x) { return (FKind)table_key(&f->nodes, x)[0]; }
uint32_t formula_n(const Formulas *f, Fid x) { return table_len(&f->nodes, x) - 1; }
uint32_t formula_kid(const Formulas *f, Fid x, uint32_t i) {
    return table_key(&f->nodes, x)[1 + i];
}
const Atom *formula_atom_of(const Formulas *f, Fid x) { return &f->atoms[formula_kid(f, x, 0)]; }

static bool atom_same(const Atom *a, const Atom *b) {
    return a->kind == b->kind && a->mask == b->mask && a->index == b->index && a->min == b->min &&
           a->max == b->max && a->values == b->values && a->n_values == b->n_values &&
           a->dfa == b->dfa && str_eq(a->key, b->key) && a->goal == b->goal && a->of == b->of &&
           a->but == b->but;
}

Fid formula_atom(Formulas *f, Atom a) {
    if (a.goal == F_ERROR || f->w->failed) return F_ERROR;
    /* recent atoms repeat (one key seen by several branches); a full index is not worth it */
    uint32_t from = f->n_atoms > 64 ? f->n_atoms - 64 : 0;
    for (uint32_t i = f->n_atoms; i-- > from;)
        if (atom_same(&f->atoms[i], &a)) return node_intern(f, (uint32_t[]){FK_ATOM, i}, 2);
    if (f->n_atoms == f->cap_atoms) {
        uint32_t cap = f->cap_atoms ? f->cap_atoms * 2 : 64;
        Atom *atoms = work_grow(f->w, f->atoms, f->n_atoms, cap, sizeof *atoms);
        if (!atoms) return F_ERROR;
        f->atoms = atoms;
        f->cap_atoms = cap;
    }
    f->atoms[f->n_atoms] = a;
    return node_intern(f, (uint32_t[]){FK_ATOM, f->n_atoms++}, 2);
}

Fid formula_schema(Formulas *f, uint32_t schema) {
    return node_intern(f, (uint32_t[]){FK_SCHEMA, schema}, 2);
}

Fid formula_not(Formulas *f, Fid x) {
    if (x == F_ERROR) return x;
    if (x == F_NEVER) return F_ALWAYS;
    if (x == F_ALWAYS) return F_NEVER;
    if (formula_kind(f, x) == FK_NOT) return formula_kid(f, x, 0);
    return node_intern(f, (uint32_t[]){FK_NOT, x}, 2);
}

static int fid_cmp(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* key[1..n] hold kids: flattens nested nodes of the same kind is not done (sharing is worth more),
 * but constants, repeats and x with not-x go away. */
Fid formula_all(Formulas *f, FKind kind, const Fid *kids, uint32_t n) {
    Fid unit = kind == FK_AND ? F_ALWAYS : F_NEVER, zero = kind == FK_AND ? F_NEVER : F_ALWAYS;
    uint32_t *key = work_array(f->w, uint32_t, (size_t)n + 1), m = 1;
    if (!key || !work_spend(f->w, n)) return F_ERROR;
    key[0] = kind;
    for (uint32_t i = 0; i < n; i++) {
        if (kids[i] == F_ERROR) return F_ERROR;
        if (kids[i] == zero) return zero;
        if (kids[i] != unit) key[m++] = kids[i];
    }
    if (m > 2) qsort(key + 1, m - 1, sizeof *key, fid_cmp);
    uint32_t unique = 1;
    for (uint32_t i = 1; i < m; i++)
        if (i == 1 || key[i] != key[i - 1]) key[unique++] = key[i];
    for (uint32_t i = 1; i < unique; i++) {
        if (formula_kind(f, key[i]) != FK_NOT) continue;
        Fid inner = formula_kid(f, key[i], 0);
        if (bsearch(&inner, key + 1, unique - 1, sizeof *key, fid_cmp)) return zero;
    }
    if (unique == 1) return unit;
    return unique == 2 ? key[1] : node_intern(f, key, unique);
}

Fid formula_and(Formulas *f, Fid a, Fid b) { return formula_all(f, FK_AND, (Fid[]){a, b}, 2); }
Fid formula_or(Formulas *f, Fid a, Fid b) { return formula_all(f, FK_OR, (Fid[]){a, b}, 2); }
