#include <string.h>

#include "chat/jinja_eval.h"
#include "chat/jinja_global.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"

static JScope *scope_at(const JEval *e, uint32_t up) {
    JScope *s = e->scope;
    while (up--) s = s->parent;
    return s;
}

JVal *jexec_slot(const JEval *e, JRef ref) { return &scope_at(e, ref.up)->slots[ref.slot]; }

bool jexec_resolve(JEval *e, Str name, JVal *out) {
    for (const JContext *c = e->scope->ctx; c; c = c->parent)
        if (c->vars && jdict_find_str(c->vars, name, out) && out->type != J_MISSING) return true;
    if (e->input && jdict_find_str(e->input, name, out)) return true;
    const JFunc *f = jglobal_find(name);
    *out = f ? (JVal){.type = J_FUNC, .u.func = f} : jval_missing();
    return true;
}

bool jexec_enter(JEval *e, const JScopeInfo *info) {
    JVal *slots = e->scope->slots;
    for (size_t i = 0; i < info->n_loads; i++) {
        const JLoad *l = &info->loads[i];
        switch (l->kind) {
        case JLOAD_PARAM:
            break;
        case JLOAD_RESOLVE:
            if (!jrun_spend(e->r, 1) || !jexec_resolve(e, l->name, &slots[l->slot])) return false;
            break;
        case JLOAD_ALIAS:
            slots[l->slot] = *jexec_slot(e, l->from);
            break;
        case JLOAD_UNDEFINED:
            slots[l->slot] = jval_missing();
            break;
        }
    }
    return true;
}

void jexec_leave(JEval *e, const JScopeInfo *info) {
    for (size_t i = 0; i < info->n_loads; i++)
        e->scope->slots[info->loads[i].slot] = jval_missing();
}

bool jexec_put(JEval *e, JVal v, JEsc esc) {
    JVal s = v;
    if (jexec_escapes(e, esc)) {
        if (!jhtml_escape(e->r, v, &s)) return false;
    } else if (v.type != J_STR) {
        if (v.type == J_UNDEF) return true;
        if (v.type != J_INT && !jrepr_soft(e->r, v, &s)) return false;
        if (v.type == J_INT) {
            jrepr_put(e->r, e->out, v);
            return !e->out->failed;
        }
    }
    jbuild_put_jstr(e->r, e->out, s.u.str);
    return !e->out->failed;
}

static bool exec_output(JEval *e, const JNode *n) {
    for (size_t i = 0; i < n->items.n; i++) {
        const JNode *piece = n->items.p[i];
        JVal v;
        if (piece->kind == JN_DATA) {
            jbuild_put(e->r, e->out, piece->value.u.str->s, false);
            if (e->out->failed) return false;
            continue;
        }
        if (piece->line) e->r->line = piece->line;
        if (!jeval_expr(e, piece, &v) || !jexec_put(e, v, (JEsc)n->esc)) return false;
    }
    return true;
}

static bool exec_unpack(JEval *e, const JNode *target, JVal v) {
    JList *l;
    if (v.type != J_UNDEF && !jiter_can(v))
        return jrun_fail(e->r, JEXC_TYPE, "cannot unpack non-iterable %s object",
                         jval_type_name(v));
    if (!jiter_list(e->r, v, &l)) return false;
    if (l->n != target->items.n)
        return jrun_fail(e->r, JEXC_VALUE, "%s values to unpack (expected %zu, got %zu)",
                         l->n > target->items.n ? "too many" : "not enough", target->items.n, l->n);
    for (size_t i = 0; i < l->n; i++)
        if (!jexec_assign(e, target->items.p[i], l->v[i])) return false;
    return true;
}

bool jexec_assign(JEval *e, const JNode *target, JVal v) {
    if (target->kind == JN_TUPLE) return exec_unpack(e, target, v);
    JVal *slot = jexec_slot(e, target->ref);
    if (target->kind == JN_NAME) return *slot = v, true;
    if (slot->type != J_NS)
        return jrun_fail(e->r, JEXC_RUNTIME, "cannot assign attribute on non-namespace object");
    return jdict_put(e->r, slot->u.ns->attrs, target->value, v);
}

static bool check_namespaces(JEval *e, const JNode *target) {
    if (target->kind == JN_NSREF && jexec_slot(e, target->ref)->type != J_NS)
        return jrun_fail(e->r, JEXC_RUNTIME, "cannot assign attribute on non-namespace object");
    for (size_t i = 0; target->kind == JN_TUPLE && i < target->items.n; i++)
        if (!check_namespaces(e, target->items.p[i])) return false;
    return true;
}

/* What the top level sets is seen by macros and blocks through the context. */
static bool export_names(JEval *e, const JNode *target) {
    JContext *ctx = e->scope->ctx;
    if (!ctx->vars && !(ctx->vars = jdict_new(e->r, 0))) return false;
    if (target->kind == JN_NAME)
        return jdict_put_str(e->r, ctx->vars, target->name, *jexec_slot(e, target->ref));
    for (size_t i = 0; target->kind == JN_TUPLE && i < target->items.n; i++)
        if (!export_names(e, target->items.p[i])) return false;
    return true;
}

static bool exec_set(JEval *e, const JNode *n) {
    JVal v;
    if (!check_namespaces(e, n->a) || !jeval_expr(e, n->b, &v) || !jexec_assign(e, n->a, v))
        return false;
    return !n->toplevel || export_names(e, n->a);
}

/* Runs a body with its output in a string. A break or continue inside leaves the text behind, as in
 * Python. */
static bool exec_captured(JEval *e, const JNodes *body, bool *jumped, JVal *text) {
    JBuild b = {.max = e->out->max}, *saved = e->out;
    e->out = &b;
    bool ok = jexec_body(e, body);
    e->out = saved;
    *jumped = e->jump != JJUMP_NONE;
    return ok && jbuild_done(e->r, &b, text);
}

static bool exec_setblock(JEval *e, const JNode *n) {
    JVal text;
    bool jumped;
    if (!jexec_enter(e, n->scope) || !exec_captured(e, &n->body, &jumped, &text)) return false;
    if (jumped) return true;
    if (n->b && n->b->esc && jexec_escapes(e, (JEsc)n->b->esc) &&
        !jstr_as_markup(e->r, text, true, &text))
        return false;
    if (n->b && !jeval_filter_on(e, n->b, text, &text)) return false;
    if (e->autoescape) {
        JVal s = text;
        if (!jrepr_soft(e->r, s, &s) || !jstr_as_markup(e->r, s, true, &text)) return false;
    }
    if (!check_namespaces(e, n->a) || !jexec_assign(e, n->a, text)) return false;
    jexec_leave(e, n->scope);
    return !n->toplevel || export_names(e, n->a);
}

/* Results that Python hands to "".join: strings only. */
static bool put_joined(JEval *e, JVal v) {
    if (v.type != J_STR)
        return jrun_fail(e->r, JEXC_TYPE, "a block produced %s instead of text", jval_type_name(v));
    jbuild_put_jstr(e->r, e->out, v.u.str);
    return !e->out->failed;
}

static bool exec_filterblock(JEval *e, const JNode *n) {
    JVal text;
    bool jumped;
    if (!jexec_enter(e, n->scope) || !exec_captured(e, &n->body, &jumped, &text)) return false;
    if (jumped) return true;
    if (jexec_escapes(e, (JEsc)n->a->esc) && !jstr_as_markup(e->r, text, true, &text)) return false;
    if (!jeval_filter_on(e, n->a, text, &text) || !put_joined(e, text)) return false;
    jexec_leave(e, n->scope);
    return true;
}

static bool exec_with(JEval *e, const JNode *n) {
    if (!jexec_enter(e, n->scope)) return false;
    for (size_t i = 0; i < n->items.n; i++) {
        JVal v;
        if (!jeval_expr(e, n->more.p[i], &v) || !jexec_assign(e, n->items.p[i], v)) return false;
    }
    if (!jexec_body(e, &n->body)) return false;
    if (e->jump == JJUMP_NONE) jexec_leave(e, n->scope);
    return true;
}

static bool exec_autoescape(JEval *e, const JNode *n) {
    JVal on;
    bool saved = e->autoescape;
    if (!jexec_enter(e, n->scope) || !jeval_expr(e, n->a, &on)) return false;
    e->autoescape = jval_truth(on);
    bool ok = jexec_body(e, &n->body);
    if (e->jump == JJUMP_NONE) {
        e->autoescape = saved;
        jexec_leave(e, n->scope);
    }
    return ok;
}

/* Items of a filtered for: draws from the inner iterator, binds the test's own copy of the target,
 * runs the test. */
typedef struct ForTest {
    JEval *e;
    const JNode *node;
    JScope scope;
} ForTest;

static bool next_tested(JRun *r, JIter *it, JVal *out, bool *done) {
    ForTest *t = it->state;
    JEval *e = t->e;
    for (;;) {
        JVal yes;
        if (!jiter_next(r, it->inner, out, done) || *done) return *done;
        JScope *saved = e->scope;
        e->scope = &t->scope;
        bool ok = jexec_assign(e, t->node->items.p[0], *out) && jeval_expr(e, t->node->c, &yes);
        e->scope = saved;
        if (!ok || jval_truth(yes)) return ok;
    }
}

static bool for_filtered(JEval *e, const JNode *n, JVal over, JVal *out) {
    ForTest *t = jrun_new(e->r, ForTest);
    JIter *it = jiter_new(e->r, next_tested, "generator");
    if (!t || !it || !jiter_open(e->r, over, &it->inner)) return false;
    *t = (ForTest){.e = e, .node = n, .scope = {.parent = e->scope, .ctx = e->scope->ctx}};
    if (!(t->scope.slots = jrun_array(e->r, JVal, n->scope3->n_slots + 1))) return false;
    JScope *saved = e->scope;
    e->scope = &t->scope;
    bool ok = jexec_enter(e, n->scope3);
    e->scope = saved;
    it->state = t;
    *out = (JVal){.type = J_ITER, .u.iter = it};
    return ok;
}

static bool for_body(JEval *e, const JNode *n, JVal item) {
    if (!jexec_assign(e, n->a, item) || !jexec_enter(e, n->scope)) return false;
    return jexec_body(e, &n->body);
}

bool jexec_loop(JEval *e, const JNode *n, JVal over, int64_t depth0) {
    JLoop *loop = NULL;
    JIter *it = NULL;
    bool any = false, done = false;
    if (n->c && !for_filtered(e, n, over, &over)) return false;
    if (n->scope->loop.up == 0) {
        if (!jloop_new(e->r, over, &loop)) return false;
        loop->depth0 = depth0;
        loop->recurse = n->flag ? n : NULL;
        loop->scope = e->scope->parent;
    } else if (!jiter_open(e->r, over, &it)) {
        return false;
    }
    while (e->jump != JJUMP_BREAK) {
        JVal item;
        e->jump = JJUMP_NONE;
        if (!(loop ? jloop_next(e->r, loop, &item, &done) : jiter_next(e->r, it, &item, &done)))
            return false;
        if (done) break;
        if (loop) *jexec_slot(e, n->scope->loop) = (JVal){.type = J_LOOP, .u.loop = loop};
        if (!for_body(e, n, item)) return false;
        if (e->jump == JJUMP_NONE)
            any = true; /* the else branch is skipped only by an iteration that ran to its end */
    }
    e->jump = JJUMP_NONE;
    jexec_leave(e, n->scope);
    if (any || !n->orelse.n) return true;
    if (!jexec_enter(e, n->scope2) || !jexec_body(e, &n->orelse)) return false;
    if (e->jump == JJUMP_NONE) jexec_leave(e, n->scope2);
    return true;
}

static bool exec_for(JEval *e, const JNode *n) {
    JVal over, text;
    if (!jeval_expr(e, n->b, &over)) return false;
    if (!n->flag) return jexec_loop(e, n, over, 0);
    JLoop first = {.recurse = n, .scope = e->scope, .depth0 = -1};
    JVal loop = {.type = J_LOOP, .u.loop = &first};
    return jcall_value(e, loop, &over, 1, NULL, &text) && put_joined(e, text);
}

static bool exec_if(JEval *e, const JNode *n) {
    JVal test;
    if (!jeval_expr(e, n->a, &test)) return false;
    if (jval_truth(test)) return jexec_body(e, &n->body);
    for (size_t i = 0; i < n->items.n; i++) {
        if (!jeval_expr(e, n->items.p[i]->a, &test)) return false;
        if (jval_truth(test)) return jexec_body(e, &n->items.p[i]->body);
    }
    return jexec_body(e, &n->orelse);
}

static bool make_macro(JEval *e, const JNode *n, JVal *out) {
    JMacro *m = jrun_new(e->r, JMacro);
    if (!m) return false;
    *m = (JMacro){.node = n, .closure = e->scope, .name = n->name};
    *out = (JVal){.type = J_MACRO, .u.macro = m};
    return true;
}

static bool exec_macro(JEval *e, const JNode *n) {
    JVal m;
    if (!make_macro(e, n, &m)) return false;
    *jexec_slot(e, n->ref) = m;
    if (!n->toplevel) return true;
    JContext *ctx = e->scope->ctx;
    if (!ctx->vars && !(ctx->vars = jdict_new(e->r, 0))) return false;
    return jdict_put_str(e->r, ctx->vars, n->name, m);
}

static bool exec_callblock(JEval *e, const JNode *n) {
    JVal caller, text;
    return make_macro(e, n, &caller) && jcall_node(e, n->a, &caller, &text) && put_joined(e, text);
}

static bool exec_generation(JEval *e, const JNode *n) {
    JVal caller, text;
    return make_macro(e, n, &caller) && jcall_macro(e, caller.u.macro, NULL, 0, NULL, &text) &&
           put_joined(e, text);
}

static bool exec_block(JEval *e, const JNode *n) {
    JContext *ctx = e->scope->ctx;
    if (n->op)
        return jrun_fail(e->r, JEXC_RUNTIME, "required block '" STR_F "' not found",
                         STR_A(n->name));
    if (n->flag) {
        ctx = jrun_new(e->r, JContext);
        if (!ctx || !(ctx->vars = jdict_new(e->r, n->scope2->n_stored))) return false;
        ctx->parent = e->scope->ctx;
        for (size_t i = 0; i < n->scope2->n_stored; i++) {
            const JStored *s = &n->scope2->stored[i];
            JVal v = *jexec_slot(e, s->ref), seen;
            if (v.type == J_MISSING || jdict_find_str(ctx->vars, s->name, &seen)) continue;
            if (!jdict_put_str(e->r, ctx->vars, s->name, v)) return false;
        }
    }
    return jcall_block(e, n, ctx);
}

static bool exec_node(JEval *e, const JNode *n) {
    switch (n->kind) {
    case JN_OUTPUT:
        return exec_output(e, n);
    case JN_FOR:
        return exec_for(e, n);
    case JN_IF:
        return exec_if(e, n);
    case JN_SET:
        return exec_set(e, n);
    case JN_SETBLOCK:
        return exec_setblock(e, n);
    case JN_MACRO:
        return exec_macro(e, n);
    case JN_CALLBLOCK:
        return exec_callblock(e, n);
    case JN_GENERATION:
        return exec_generation(e, n);
    case JN_FILTERBLOCK:
        return exec_filterblock(e, n);
    case JN_WITH:
        return exec_with(e, n);
    case JN_BLOCK:
        return exec_block(e, n);
    case JN_AUTOESCAPE:
        return exec_autoescape(e, n);
    case JN_BREAK:
        e->jump = JJUMP_BREAK;
        return true;
    case JN_CONTINUE:
        e->jump = JJUMP_CONTINUE;
        return true;
    case JN_EXTENDS:
    case JN_INCLUDE:
    case JN_IMPORT:
        return jrun_fail(e->r, JEXC_TYPE,
                         "other templates cannot be loaded (include, import, extends)");
    default:
        return jrun_fail(e->r, JEXC_RUNTIME, "internal: node %d is not a statement", (int)n->kind);
    }
}

bool jexec_body(JEval *e, const JNodes *body) {
    for (size_t i = 0; i < body->n && e->jump == JJUMP_NONE; i++) {
        const JNode *n = body->p[i];
        if (!jrun_spend(e->r, 1)) return false;
        if (e->r->depth >= JRUN_MAX_DEPTH)
            return jrun_fail(e->r, JEXC_LIMIT, "blocks are nested too deeply");
        e->r->line = n->line;
        e->r->depth++;
        bool ok = exec_node(e, n);
        e->r->depth--;
        if (!ok) return false;
    }
    return true;
}

bool jexec_template(JEval *e) {
    JContext ctx = {0};
    JScope scope = {.ctx = &ctx};
    const JScopeInfo *info = e->tree->scope;
    if (!(scope.slots = jrun_array(e->r, JVal, info->n_slots + 1))) return false;
    e->scope = &scope;
    if (info->self.up == 0) scope.slots[info->self.slot] = (JVal){.type = J_SELF};
    return jexec_enter(e, info) && jexec_body(e, &e->tree->body);
}
