#include "chat/jinja_symbols.h"

#include <string.h>

JSymbols *jsymbols_new(JRun *r, JSymbols *parent, JFuncInfo *func) {
    JSymbols *s = jrun_new(r, JSymbols);
    if (s) *s = (JSymbols){.parent = parent, .func = func, .level = parent ? parent->level + 1 : 0};
    return s;
}

static bool func_slot(JRun *r, JFuncInfo *f, Str name, int level, uint32_t *slot) {
    if (!jrun_spend(r, f->n / 8)) return false;
    for (size_t i = 0; i < f->n; i++) {
        if (f->idents[i].level != level || !str_eq(f->idents[i].name, name)) continue;
        *slot = (uint32_t)i;
        return true;
    }
    if (f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 16;
        JFuncIdent *bigger = jrun_array(r, JFuncIdent, cap);
        if (!bigger) return false;
        if (f->n) memcpy(bigger, f->idents, f->n * sizeof *bigger);
        f->idents = bigger;
        f->cap = cap;
    }
    f->idents[f->n] = (JFuncIdent){name, level};
    *slot = (uint32_t)f->n++;
    return true;
}

static JSymbol *symbols_own(JRun *r, const JSymbols *s, Str name) {
    jrun_spend(r, s->n / 8);
    for (size_t i = 0; i < s->n; i++)
        if (str_eq(s->v[i].name, name)) return &s->v[i];
    return NULL;
}

const JSymbol *jsymbols_find(JRun *r, const JSymbols *s, Str name, const JSymbols **owner) {
    for (; s; s = s->parent) {
        const JSymbol *y = symbols_own(r, s, name);
        if (!y) continue;
        if (owner) *owner = s;
        return y;
    }
    return NULL;
}

static JSymbol *symbols_define(JRun *r, JSymbols *s, Str name, JLoadKind load) {
    JSymbol *y = symbols_own(r, s, name);
    if (!y) {
        if (s->n == s->cap) {
            size_t cap = s->cap ? s->cap * 2 : 8;
            JSymbol *bigger = jrun_array(r, JSymbol, cap);
            if (!bigger) return NULL;
            if (s->n) memcpy(bigger, s->v, s->n * sizeof *bigger);
            s->v = bigger;
            s->cap = cap;
        }
        y = &s->v[s->n];
        *y = (JSymbol){.name = name};
        if (!func_slot(r, s->func, name, s->level, &y->slot)) return NULL;
        s->n++;
    }
    y->load = load;
    return y;
}

/* The load of a variable that this scope sets: the outer one's value if there is one, else as
 * given. */
static void symbol_alias(JRun *r, const JSymbols *s, JSymbol *y, JLoadKind otherwise) {
    const JSymbols *owner = NULL;
    const JSymbol *outer = jsymbols_find(r, s->parent, y->name, &owner);
    y->load = outer ? JLOAD_ALIAS : otherwise;
    if (!outer) return;
    y->alias_func = owner->func;
    y->alias_slot = outer->slot;
}

bool jsymbols_declare(JRun *r, JSymbols *s, Str name) {
    JSymbol *y = symbols_define(r, s, name, JLOAD_PARAM);
    if (!y) return false;
    y->stored = true;
    return true;
}

static bool symbols_store(JRun *r, JSymbols *s, Str name) {
    JSymbol *y = symbols_own(r, s, name);
    if (!y) {
        if (!(y = symbols_define(r, s, name, JLOAD_UNDEFINED))) return false;
        symbol_alias(r, s, y, JLOAD_UNDEFINED);
    }
    y->stored = true;
    return true;
}

static bool symbols_load(JRun *r, JSymbols *s, Str name) {
    return jsymbols_find(r, s, name, NULL) || symbols_define(r, s, name, JLOAD_RESOLVE);
}

static JSymbols *symbols_copy(JRun *r, const JSymbols *s) {
    JSymbols *c = jrun_new(r, JSymbols);
    if (!c) return NULL;
    *c = *s;
    c->cap = s->n + 4;
    if (!(c->v = jrun_array(r, JSymbol, c->cap))) return NULL;
    if (s->n) memcpy(c->v, s->v, s->n * sizeof *c->v);
    return c;
}

/* After an if: what the branches set is known from here on, and starts as the outer or context
 * value. */
static bool symbols_join(JRun *r, JSymbols *s, JSymbols *const branch[3]) {
    size_t n_before = s->n;
    bool *was_stored = jrun_array(r, bool, n_before + 1);
    if (!was_stored) return false;
    for (size_t i = 0; i < n_before; i++) was_stored[i] = s->v[i].stored;
    for (int b = 0; b < 3; b++) {
        for (size_t i = 0; i < branch[b]->n; i++) {
            const JSymbol *from = &branch[b]->v[i];
            JSymbol *y = symbols_define(r, s, from->name, from->load);
            if (!y) return false;
            bool stored = y->stored || from->stored;
            *y = *from;
            y->stored = stored;
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        if (!s->v[i].stored || (i < n_before && was_stored[i])) continue;
        symbol_alias(r, s, &s->v[i], JLOAD_RESOLVE);
    }
    return true;
}

static bool visit_if(JRun *r, JSymbols *s, JNode *n) {
    JSymbols *branch[3];
    const JNodes *part[3] = {&n->body, &n->items, &n->orelse};
    if (!jsymbols_visit(r, s, n->a, false)) return false;
    for (int b = 0; b < 3; b++) {
        if (!(branch[b] = symbols_copy(r, s))) return false;
        if (!jsymbols_visit_all(r, branch[b], part[b])) return false;
    }
    return symbols_join(r, s, branch);
}

typedef struct VisitArg {
    JRun *r;
    JSymbols *s;
    bool as_param;
} VisitArg;

static bool visit_child(void *arg, JNode *child) {
    VisitArg *a = arg;
    return jsymbols_visit(a->r, a->s, child, a->as_param);
}

bool jsymbols_visit_all(JRun *r, JSymbols *s, const JNodes *list) {
    for (size_t i = 0; i < list->n; i++)
        if (!jsymbols_visit(r, s, list->p[i], false)) return false;
    return true;
}

bool jsymbols_visit(JRun *r, JSymbols *s, JNode *n, bool as_param) {
    if (!n) return true;
    if (!jrun_spend(r, 1)) return false;
    switch (n->kind) {
    case JN_NAME:
        if (as_param || n->op == JCTX_PARAM) return jsymbols_declare(r, s, n->name);
        return n->op == JCTX_STORE ? symbols_store(r, s, n->name) : symbols_load(r, s, n->name);
    case JN_NSREF:
        return symbols_load(r, s, n->name);
    case JN_IF:
        return visit_if(r, s, n);
    case JN_MACRO:
        return symbols_store(r, s, n->name);
    case JN_SET:
        return jsymbols_visit(r, s, n->b, false) && jsymbols_visit(r, s, n->a, false);
    case JN_FOR:
        return jsymbols_visit(r, s, n->b, false);
    case JN_CALLBLOCK:
    case JN_FILTERBLOCK:
    case JN_SETBLOCK:
        return jsymbols_visit(r, s, n->a, false);
    case JN_WITH:
        return jsymbols_visit_all(r, s, &n->more);
    case JN_GENERATION:
    case JN_AUTOESCAPE:
    case JN_BLOCK:
        return true;
    default: {
        VisitArg a = {r, s, as_param};
        return jnode_children(n, visit_child, &a);
    }
    }
}

static bool children_of(const JNodes *list, JChildFn *fn, void *arg) {
    for (size_t i = 0; i < list->n; i++)
        if (!fn(arg, list->p[i])) return false;
    return true;
}

bool jnode_children(JNode *n, JChildFn *fn, void *arg) {
    bool subject_last = n->kind == JN_FILTER || n->kind == JN_TEST || n->kind == JN_CALL;
    bool body_first = n->kind == JN_FILTERBLOCK;
    if (body_first && !children_of(&n->body, fn, arg)) return false;
    if (n->a && !fn(arg, n->a)) return false;
    if (!subject_last) {
        if (n->b && !fn(arg, n->b)) return false;
        if (n->c && n->kind != JN_FOR && !fn(arg, n->c)) return false;
    }
    bool targets_of_test = n->kind == JN_FOR; /* items of a for are a copy of its target */
    if (n->kind == JN_IF && !children_of(&n->body, fn, arg)) return false;
    if (!targets_of_test && !children_of(&n->items, fn, arg)) return false;
    if (!children_of(&n->more, fn, arg)) return false;
    if (subject_last) {
        if (n->b && !fn(arg, n->b)) return false;
        if (n->c && !fn(arg, n->c)) return false;
    }
    if (!body_first && n->kind != JN_IF && !children_of(&n->body, fn, arg)) return false;
    if (!children_of(&n->orelse, fn, arg)) return false;
    return n->kind != JN_FOR || !n->c || fn(arg, n->c);
}

typedef struct Undeclared {
    JRun *r;
    const char *const *names;
    unsigned n_names, wanted, found;
    bool failed;
} Undeclared;

static bool undeclared_visit(void *arg, JNode *n) {
    Undeclared *u = arg;
    if (!jrun_spend(u->r, 1)) return !(u->failed = true);
    if (n->kind == JN_BLOCK) return true;
    if (n->kind != JN_NAME) return jnode_children(n, undeclared_visit, u);
    for (unsigned i = 0; i < u->n_names; i++) {
        if (!str_eqc(n->name, u->names[i])) continue;
        if (n->op == JCTX_LOAD && (u->wanted >> i & 1))
            u->found |= 1u << i;
        else
            u->wanted &= ~(1u << i);
    }
    return true;
}

bool jsymbols_undeclared(JRun *r, const JNodes *body, const char *const *names, unsigned n_names,
                         unsigned *out) {
    Undeclared u = {.r = r, .names = names, .n_names = n_names, .wanted = (1u << n_names) - 1};
    for (size_t i = 0; i < body->n && !u.failed; i++) undeclared_visit(&u, body->p[i]);
    *out = u.found;
    return !u.failed;
}
