#include "chat/jinja_scope.h"

#include "chat/jinja_builtin.h"
#include "chat/jinja_symbols.h"

typedef struct Frame {
    JSymbols *sym;
    JFuncInfo *func;
    bool toplevel, soft, in_loop;
    JEsc esc;
} Frame;

typedef struct Pass {
    JRun *r;
    JTree *tree;
    size_t cap_blocks;
} Pass;

static bool pass_node(Pass *p, JNode *n, const Frame *f);

static bool pass_all(Pass *p, const JNodes *list, const Frame *f) {
    for (size_t i = 0; i < list->n; i++)
        if (!pass_node(p, list->p[i], f)) return false;
    return true;
}

static bool pass_fail(Pass *p, const JNode *n, const char *what, Str name) {
    p->r->line = n->line;
    return jrun_fail(p->r, JEXC_SYNTAX, "%s: '" STR_F "'", what, STR_A(name));
}

static JFuncInfo *func_new(Pass *p, const JFuncInfo *parent) {
    JFuncInfo *f = jrun_new(p->r, JFuncInfo);
    if (f) f->depth = parent ? parent->depth + 1 : 0;
    return f;
}

/* A scope inside f; func NULL stays in the same function. */
static bool frame_inner(Pass *p, const Frame *f, JFuncInfo *func, Frame *out) {
    *out =
        (Frame){.func = func ? func : f->func, .in_loop = func ? false : f->in_loop, .esc = f->esc};
    return (out->sym = jsymbols_new(p->r, f->sym, out->func)) != NULL;
}

static bool name_ref(Pass *p, const JNode *n, Str name, const Frame *f, JRef *out) {
    const JSymbols *owner = NULL;
    const JSymbol *y = jsymbols_find(p->r, f->sym, name, &owner);
    if (!y) return pass_fail(p, n, "this name cannot be used here", name);
    *out = (JRef){(uint32_t)(f->func->depth - owner->func->depth), y->slot};
    return true;
}

/* Turns a finished scope's symbols into what entering it does. */
static bool scope_info(Pass *p, const Frame *f, JScopeInfo **out) {
    const JSymbols *s = f->sym;
    const JRef none = {.up = 1};
    JScopeInfo *info = jrun_new(p->r, JScopeInfo);
    if (!info || !(info->loads = jrun_array(p->r, JLoad, s->n + 1))) return false;
    info->caller = info->kwargs = info->varargs = info->loop = info->self = info->super = none;
    for (size_t i = 0; i < s->n; i++) {
        const JSymbol *y = &s->v[i];
        JLoad *l = &info->loads[info->n_loads++];
        *l = (JLoad){.kind = y->load, .slot = y->slot, .name = y->name};
        if (y->load == JLOAD_ALIAS)
            l->from = (JRef){(uint32_t)(f->func->depth - y->alias_func->depth), y->alias_slot};
    }
    *out = info;
    return true;
}

static bool declare_special(Pass *p, const Frame *f, const char *name, JRef *out) {
    if (!jsymbols_declare(p->r, f->sym, str_c(name))) return false;
    const JSymbol *y = jsymbols_find(p->r, f->sym, str_c(name), NULL);
    *out = (JRef){0, y->slot};
    return true;
}

/* The body of a macro, call or generation block: a function of its own. */
static bool pass_macro_body(Pass *p, JNode *n, const Frame *f) {
    static const char *const special[] = {"caller", "kwargs", "varargs"};
    Frame in;
    JRef ref[3] = {{.up = 1}, {.up = 1}, {.up = 1}};
    unsigned used;
    JFuncInfo *func = func_new(p, f->func);
    if (!func || !frame_inner(p, f, func, &in)) return false;
    if (!jsymbols_visit_all(p->r, in.sym, &n->items) || !jsymbols_visit_all(p->r, in.sym, &n->more))
        return false;
    if (!jsymbols_visit_all(p->r, in.sym, &n->body)) return false;
    if (!jsymbols_undeclared(p->r, &n->body, special, 3, &used)) return false;
    for (unsigned i = 0; i < 3; i++) {
        size_t at = 0;
        while (at < n->items.n && !str_eqc(n->items.p[at]->name, special[i])) at++;
        bool is_argument = at < n->items.n;
        if (i == 0 && is_argument && (used & 1) && at < n->items.n - n->more.n)
            return pass_fail(p, n, "this argument must be left out or have a default",
                             str_c("caller"));
        if ((used >> i & 1) && !is_argument && !declare_special(p, &in, special[i], &ref[i]))
            return false;
    }
    if (!scope_info(p, &in, &n->scope)) return false;
    n->scope->caller = ref[0];
    n->scope->kwargs = ref[1];
    n->scope->varargs = ref[2];
    if (!pass_all(p, &n->items, &in) || !pass_all(p, &n->more, &in) || !pass_all(p, &n->body, &in))
        return false;
    n->scope->n_slots = (uint32_t)func->n;
    return true;
}

static bool clone_target(Pass *p, const JNode *target, JNode **out) {
    JNode *n = jrun_new(p->r, JNode);
    if (!n) return false;
    *n = *target;
    *out = n;
    if (n->kind != JN_TUPLE || !n->items.n) return true;
    JNode **items = jrun_array(p->r, JNode *, n->items.n);
    if (!items) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!clone_target(p, n->items.p[i], &items[i])) return false;
    n->items.p = items;
    return true;
}

/* The `if` of a for: a generator function with its own copy of the loop variables. */
static bool pass_for_test(Pass *p, JNode *n, const Frame *f) {
    Frame test;
    JFuncInfo *func = func_new(p, f->func);
    JNode **copy = jrun_array(p->r, JNode *, 1);
    if (!func || !copy || !frame_inner(p, f, func, &test) || !clone_target(p, n->a, &copy[0]))
        return false;
    n->items = (JNodes){copy, 1};
    if (!jsymbols_visit(p->r, test.sym, copy[0], true) ||
        !jsymbols_visit(p->r, test.sym, n->c, false))
        return false;
    if (!scope_info(p, &test, &n->scope3)) return false;
    if (!pass_node(p, copy[0], &test) || !pass_node(p, n->c, &test)) return false;
    n->scope3->n_slots = (uint32_t)func->n;
    return true;
}

typedef struct Search {
    Pass *p;
    bool failed, scoped_block;
} Search;

static bool search_for(void *arg, JNode *n) {
    Search *s = arg;
    if (!jrun_spend(s->p->r, 1)) return !(s->failed = true);
    if (n->kind == JN_BLOCK && n->flag) s->scoped_block = true;
    if (n->kind == JN_NAME && n->op == JCTX_STORE && str_eqc(n->name, "loop")) {
        pass_fail(s->p, n, "special in a for loop and cannot be set", n->name);
        return !(s->failed = true);
    }
    return jnode_children(n, search_for, s);
}

static bool pass_for(Pass *p, JNode *n, const Frame *f) {
    static const char *const loop_name[] = {"loop"};
    Frame body, orelse;
    Search search = {.p = p};
    unsigned reads_loop;
    JRef loop = {.up = 1};
    JFuncInfo *func = NULL;
    if (n->flag && !(func = func_new(p, f->func))) return false;
    if (!frame_inner(p, f, func, &body) || !frame_inner(p, f, func, &orelse)) return false;
    if (!jnode_children(n, search_for, &search) && search.failed) return false;
    if (!jsymbols_undeclared(p->r, &n->body, loop_name, 1, &reads_loop)) return false;
    if ((n->flag || reads_loop || search.scoped_block) && !declare_special(p, &body, "loop", &loop))
        return false;
    if (!jsymbols_visit(p->r, body.sym, n->a, true) ||
        !jsymbols_visit_all(p->r, body.sym, &n->body))
        return false;
    if (!jsymbols_visit_all(p->r, orelse.sym, &n->orelse)) return false;
    if (n->c && !pass_for_test(p, n, f)) return false;
    if (!scope_info(p, &body, &n->scope) || !scope_info(p, &orelse, &n->scope2)) return false;
    n->scope->loop = loop;
    body.in_loop = true;
    if (!pass_node(p, n->b, f) || !pass_node(p, n->a, &body)) return false;
    if (!pass_all(p, &n->body, &body) || !pass_all(p, &n->orelse, &orelse)) return false;
    if (func) n->scope->n_slots = (uint32_t)func->n;
    return true;
}

static bool pass_if(Pass *p, JNode *n, const Frame *f) {
    Frame soft = *f;
    soft.soft = true;
    return pass_node(p, n->a, &soft) && pass_all(p, &n->body, &soft) &&
           pass_all(p, &n->items, &soft) && pass_all(p, &n->orelse, &soft);
}

static bool pass_filterblock(Pass *p, JNode *n, const Frame *f) {
    Frame in;
    if (!frame_inner(p, f, NULL, &in)) return false;
    if (!jsymbols_visit_all(p->r, in.sym, &n->body) || !jsymbols_visit(p->r, in.sym, n->a, false))
        return false;
    return scope_info(p, &in, &n->scope) && pass_all(p, &n->body, &in) && pass_node(p, n->a, &in);
}

static bool pass_with(Pass *p, JNode *n, const Frame *f) {
    Frame in;
    if (!frame_inner(p, f, NULL, &in)) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!jsymbols_visit(p->r, in.sym, n->items.p[i], true)) return false;
    if (!jsymbols_visit_all(p->r, in.sym, &n->body) || !scope_info(p, &in, &n->scope)) return false;
    return pass_all(p, &n->items, &in) && pass_all(p, &n->more, f) && pass_all(p, &n->body, &in);
}

static bool pass_setblock(Pass *p, JNode *n, const Frame *f) {
    Frame in;
    n->toplevel = f->toplevel;
    if (!frame_inner(p, f, NULL, &in)) return false;
    if (!jsymbols_visit_all(p->r, in.sym, &n->body) || !scope_info(p, &in, &n->scope)) return false;
    return pass_all(p, &n->body, &in) && pass_node(p, n->a, f) &&
           (!n->b || pass_node(p, n->b, &in));
}

static bool pass_autoescape(Pass *p, JNode *n, const Frame *f) {
    Frame in;
    if (!frame_inner(p, f, NULL, &in)) return false;
    if (!jsymbols_visit(p->r, in.sym, n->a, false) || !jsymbols_visit_all(p->r, in.sym, &n->body))
        return false;
    if (!scope_info(p, &in, &n->scope) || !pass_node(p, n->a, &in)) return false;
    in.esc = n->a->kind != JN_CONST ? JESC_ASK : jval_truth(n->a->value) ? JESC_ON : JESC_OFF;
    return pass_all(p, &n->body, &in);
}

static bool pass_block(Pass *p, JNode *n, const Frame *f) {
    if (n->flag) { /* scoped: what the scopes around have set goes along */
        size_t room = 0;
        for (const JSymbols *s = f->sym; s; s = s->parent) room += s->n;
        if (!(n->scope2 = jrun_new(p->r, JScopeInfo))) return false;
        if (!(n->scope2->stored = jrun_array(p->r, JStored, room + 1))) return false;
        for (const JSymbols *s = f->sym; s; s = s->parent) {
            for (size_t i = 0; i < s->n; i++) {
                JStored *to = &n->scope2->stored[n->scope2->n_stored];
                if (!s->v[i].stored) continue;
                to->name = s->v[i].name;
                if (!name_ref(p, n, to->name, f, &to->ref)) return false;
                n->scope2->n_stored++;
            }
        }
    }
    return true;
}

static bool pass_builtin(Pass *p, JNode *n, const Frame *f) {
    bool is_filter = n->kind == JN_FILTER;
    n->fn = is_filter ? jfilter_find(n->name) : jtest_find(n->name);
    n->esc = (uint8_t)f->esc;
    if (!n->fn && !f->soft)
        return pass_fail(p, n, is_filter ? "no such filter" : "no such test", n->name);
    return true;
}

typedef struct ChildPass {
    Pass *p;
    const Frame *f;
} ChildPass;

static bool pass_child(void *arg, JNode *child) {
    ChildPass *c = arg;
    return pass_node(c->p, child, c->f);
}

static bool pass_children(Pass *p, JNode *n, const Frame *f) {
    ChildPass c = {p, f};
    return jnode_children(n, pass_child, &c);
}

static bool pass_cond(Pass *p, JNode *n, const Frame *f) {
    Frame soft = *f;
    soft.soft = true;
    return pass_children(p, n, &soft);
}

static bool pass_node(Pass *p, JNode *n, const Frame *f) {
    if (!jrun_spend(p->r, 1)) return false;
    switch (n->kind) {
    case JN_NAME:
    case JN_NSREF:
        return name_ref(p, n, n->name, f, &n->ref);
    case JN_FOR:
        return pass_for(p, n, f);
    case JN_IF:
        return pass_if(p, n, f);
    case JN_MACRO:
        n->toplevel = f->toplevel;
        return name_ref(p, n, n->name, f, &n->ref) && pass_macro_body(p, n, f);
    case JN_CALLBLOCK:
        return pass_macro_body(p, n, f) && pass_node(p, n->a, f);
    case JN_GENERATION:
        return pass_macro_body(p, n, f);
    case JN_FILTERBLOCK:
        return pass_filterblock(p, n, f);
    case JN_WITH:
        return pass_with(p, n, f);
    case JN_SETBLOCK:
        return pass_setblock(p, n, f);
    case JN_AUTOESCAPE:
        return pass_autoescape(p, n, f);
    case JN_BLOCK:
        return pass_block(p, n, f);
    case JN_SET:
        n->toplevel = f->toplevel;
        break;
    case JN_EXTENDS:
        if (!f->toplevel) return pass_fail(p, n, "must be at the top level", STR("extends"));
        break;
    case JN_BREAK:
    case JN_CONTINUE:
        if (!f->in_loop)
            return pass_fail(p, n, "outside a loop",
                             n->kind == JN_BREAK ? STR("break") : STR("continue"));
        return true;
    case JN_COND:
        return pass_cond(p, n, f);
    case JN_FILTER:
    case JN_TEST:
        if (!pass_builtin(p, n, f)) return false;
        break;
    default:
        break;
    }
    n->esc = (uint8_t)f->esc;
    return pass_children(p, n, f);
}

static bool collect_block(void *arg, JNode *n) {
    Search *s = arg;
    Pass *p = s->p;
    if (!jrun_spend(p->r, 1)) return !(s->failed = true);
    if (n->kind == JN_BLOCK) {
        if (!jrun_spend(p->r, p->tree->n_blocks / 4)) return !(s->failed = true);
        for (size_t i = 0; i < p->tree->n_blocks; i++) {
            if (!str_eq(p->tree->blocks[i]->name, n->name)) continue;
            pass_fail(p, n, "block defined twice", n->name);
            return !(s->failed = true);
        }
        if (p->tree->n_blocks == p->cap_blocks) {
            size_t cap = p->cap_blocks ? p->cap_blocks * 2 : 8;
            JNode **bigger = jrun_array(p->r, JNode *, cap);
            if (!bigger || !jrun_spend(p->r, cap)) return !(s->failed = true);
            for (size_t i = 0; i < p->tree->n_blocks; i++) bigger[i] = p->tree->blocks[i];
            p->tree->blocks = bigger;
            p->cap_blocks = cap;
        }
        p->tree->blocks[p->tree->n_blocks++] = n;
    }
    return jnode_children(n, collect_block, s) || !s->failed;
}

static bool resolve_root(Pass *p, const JNodes *body, bool is_block, JScopeInfo **out) {
    static const char *const names[] = {"self", "super"};
    JFuncInfo *func = func_new(p, NULL);
    Frame f = {.func = func, .toplevel = !is_block};
    JRef self = {.up = 1}, super = {.up = 1};
    unsigned used;
    if (!func || !(f.sym = jsymbols_new(p->r, NULL, func))) return false;
    if (!jsymbols_undeclared(p->r, body, names, is_block ? 2 : 1, &used)) return false;
    if ((used & 1) && !declare_special(p, &f, "self", &self)) return false;
    if ((used & 2) && !declare_special(p, &f, "super", &super)) return false;
    if (!jsymbols_visit_all(p->r, f.sym, body) || !scope_info(p, &f, out)) return false;
    (*out)->self = self;
    (*out)->super = super;
    if (!pass_all(p, body, &f)) return false;
    (*out)->n_slots = (uint32_t)func->n;
    return true;
}

bool jscope_resolve(JRun *r, JTree *tree) {
    Pass p = {.r = r, .tree = tree};
    Search s = {.p = &p};
    for (size_t i = 0; i < tree->body.n; i++) {
        collect_block(&s, tree->body.p[i]);
        if (s.failed) return false;
    }
    if (!resolve_root(&p, &tree->body, false, &tree->scope)) return false;
    for (size_t i = 0; i < tree->n_blocks; i++)
        if (!resolve_root(&p, &tree->blocks[i]->body, true, &tree->blocks[i]->scope)) return false;
    return true;
}
