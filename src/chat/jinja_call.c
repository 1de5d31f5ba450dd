#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_method.h"
#include "chat/jinja_repr.h"

enum { CALL_MAX_ARGS = 100000 };

static bool args_spread(JEval *e, JVal list, JList *args) {
    JIter *it;
    bool done;
    if (!jiter_open(e->r, list, &it)) return false;
    for (;;) {
        JVal v;
        if (!jiter_next(e->r, it, &v, &done)) return false;
        if (done) return true;
        if (args->n >= CALL_MAX_ARGS)
            return jrun_fail(e->r, JEXC_LIMIT, "more than %d arguments", CALL_MAX_ARGS);
        if (!jlist_push(e->r, args, v)) return false;
    }
}

static bool kwargs_put(JEval *e, JDict *kwargs, JVal key, JVal v) {
    JVal seen;
    if (key.type != J_STR) return jrun_fail(e->r, JEXC_TYPE, "keywords must be strings");
    if (jdict_find_str(kwargs, key.u.str->s, &seen))
        return jrun_fail(e->r, JEXC_TYPE, "multiple values for keyword argument '" STR_F "'",
                         STR_A(key.u.str->s));
    return jdict_put(e->r, kwargs, key, v);
}

static bool kwargs_eval(JEval *e, const JNode *n, JVal *caller, JDict *kwargs) {
    JVal v, key;
    for (size_t i = 0; i < n->more.n; i++) {
        const JNode *kw = n->more.p[i];
        if (!jeval_expr(e, kw->a, &v) || !jstr_make(e->r, kw->name, false, &key)) return false;
        if (!kwargs_put(e, kwargs, key, v)) return false;
    }
    if (caller &&
        (!jstr_make(e->r, STR("caller"), false, &key) || !kwargs_put(e, kwargs, key, *caller)))
        return false;
    if (!n->c) return true;
    if (!jeval_expr(e, n->c, &v)) return false;
    if (v.type == J_UNDEF) return jval_fail_undef(e->r, v);
    if (v.type != J_DICT)
        return jrun_fail(e->r, JEXC_TYPE, "argument after ** must be a mapping, not %s",
                         jval_type_name(v));
    for (size_t i = 0; i < v.u.dict->n; i++)
        if (!kwargs_put(e, kwargs, v.u.dict->keys[i], v.u.dict->vals[i])) return false;
    return true;
}

bool jcall_args(JEval *e, const JNode *n, JVal *caller, JVal **args, size_t *n_args,
                JDict **kwargs) {
    JList *l = jlist_new(e->r, n->items.n);
    JVal v;
    *kwargs = NULL;
    if (!l) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!jeval_expr(e, n->items.p[i], &l->v[i])) return false;
    l->n = n->items.n;
    if (n->b && (!jeval_expr(e, n->b, &v) || !args_spread(e, v, l))) return false;
    if (n->more.n || n->c || caller) {
        if (!(*kwargs = jdict_new(e->r, n->more.n + 1)) || !kwargs_eval(e, n, caller, *kwargs))
            return false;
    }
    *args = l->v;
    *n_args = l->n;
    return true;
}

bool jcall_node(JEval *e, const JNode *n, JVal *caller, JVal *out) {
    JVal callee, *args;
    size_t n_args;
    JDict *kwargs;
    if (!jeval_expr(e, n->a, &callee) || !jcall_args(e, n, caller, &args, &n_args, &kwargs))
        return false;
    return jcall_value(e, callee, args, n_args, kwargs, out);
}

static bool call_enter(JEval *e) {
    if (e->n_calls >= JEVAL_MAX_CALLS)
        return jrun_fail(e->r, JEXC_LIMIT, "maximum recursion depth exceeded (%d nested calls)",
                         JEVAL_MAX_CALLS);
    e->n_calls++;
    return true;
}

/* Runs fn's body in its own activation and gives back what it printed. */
static bool run_function(JEval *e, const JNode *n, JScope *scope, JVal *out) {
    JBuild b = {.max = e->out->max}, *saved_out = e->out;
    JScope *saved_scope = e->scope;
    e->out = &b;
    e->scope = scope;
    bool ok = jexec_body(e, &n->body);
    e->out = saved_out;
    e->scope = saved_scope;
    return ok && jbuild_done(e->r, &b, out);
}

/* Arguments of a macro, as jinja2's Macro.__call__ sorts them. */
typedef struct MacroArgs {
    JVal *v; /* one per declared argument; J_MISSING if not given */
    JVal caller;
    JDict *kwargs;
    JList *varargs;
} MacroArgs;

static bool macro_bind(JEval *e, const JMacro *m, const JVal *args, size_t n_args,
                       const JDict *kwargs, MacroArgs *out) {
    const JNode *n = m->node;
    const JScopeInfo *info = n->scope;
    size_t n_declared = n->items.n, n_used = n_args < n_declared ? n_args : n_declared, n_taken = 0;
    bool found_caller = false;
    JVal v;
    out->v = jrun_array(e->r, JVal, n_declared + 1);
    out->kwargs = jdict_new(e->r, 0);
    out->varargs = jlist_new(e->r, n_args - n_used);
    if (!out->v || !out->kwargs || !out->varargs) return false;
    for (size_t i = 0; i < n_declared; i++) {
        Str name = n->items.p[i]->name;
        if (i < n_used) {
            out->v[i] = args[i];
        } else if (kwargs && jdict_find_str(kwargs, name, &v)) {
            out->v[i] = v;
            n_taken++;
        }
        if (str_eqc(name, "caller")) found_caller = true;
    }
    if (info->caller.up == 0 && !found_caller) {
        if (kwargs && jdict_find_str(kwargs, STR("caller"), &v)) {
            n_taken++;
            out->caller = v;
        }
        if ((out->caller.type == J_MISSING || out->caller.type == J_NONE) &&
            !jval_undef_hint(e->r, STR("no caller defined"), &out->caller))
            return false;
    }
    for (size_t i = 0; kwargs && n_taken < kwargs->n && i < kwargs->n; i++) {
        Str key = kwargs->keys[i].u.str->s;
        bool taken = info->caller.up == 0 && !found_caller && str_eqc(key, "caller");
        for (size_t j = n_used; j < n_declared && !taken; j++)
            taken = str_eq(n->items.p[j]->name, key);
        if (taken) continue;
        if (info->kwargs.up)
            return jrun_fail(e->r, JEXC_TYPE,
                             "macro '" STR_F "' takes no keyword argument '" STR_F "'",
                             STR_A(m->name), STR_A(key));
        if (!jdict_put(e->r, out->kwargs, kwargs->keys[i], kwargs->vals[i])) return false;
    }
    if (n_args > n_declared && info->varargs.up)
        return jrun_fail(e->r, JEXC_TYPE, "macro '" STR_F "' takes not more than %zu argument(s)",
                         STR_A(m->name), n_declared);
    for (size_t i = n_used; i < n_args; i++) out->varargs->v[out->varargs->n++] = args[i];
    return true;
}

static bool macro_defaults(JEval *e, const JNode *n, const MacroArgs *a) {
    for (size_t i = 0; i < n->items.n; i++) {
        JVal *slot = jexec_slot(e, n->items.p[i]->ref);
        size_t with = n->items.n - n->more.n;
        if (a->v[i].type != J_MISSING) continue;
        if (i >= with) {
            if (!jeval_expr(e, n->more.p[i - with], slot)) return false;
        } else if (!jval_undef_hint(e->r, STR("a parameter of the macro was not provided"), slot)) {
            return false;
        }
    }
    return true;
}

bool jcall_macro(JEval *e, const JMacro *m, const JVal *args, size_t n_args, const JDict *kwargs,
                 JVal *out) {
    const JNode *n = m->node;
    MacroArgs a = {0};
    JScope *scope = jrun_new(e->r, JScope), *saved = e->scope;
    if (!scope || !macro_bind(e, m, args, n_args, kwargs, &a) || !call_enter(e)) return false;
    *scope = (JScope){.parent = m->closure, .ctx = m->closure->ctx};
    if (!(scope->slots = jrun_array(e->r, JVal, n->scope->n_slots + 1))) return false;
    for (size_t i = 0; i < n->items.n; i++) scope->slots[n->items.p[i]->ref.slot] = a.v[i];
    if (!n->scope->caller.up) scope->slots[n->scope->caller.slot] = a.caller;
    if (!n->scope->kwargs.up) scope->slots[n->scope->kwargs.slot] = jval_dict(a.kwargs);
    if (!n->scope->varargs.up) scope->slots[n->scope->varargs.slot] = jval_tuple(a.varargs);
    e->scope = scope;
    bool ok = jexec_enter(e, n->scope) && macro_defaults(e, n, &a);
    e->scope = saved;
    ok = ok && run_function(e, n, scope, out);
    e->n_calls--;
    return ok && jstr_as_markup(e->r, *out, e->autoescape, out);
}

bool jcall_block(JEval *e, const JNode *block, JContext *ctx) {
    const JScopeInfo *info = block->scope;
    JScope *scope = jrun_new(e->r, JScope), *saved = e->scope;
    if (!scope || !call_enter(e)) return false;
    scope->ctx = ctx;
    if (!(scope->slots = jrun_array(e->r, JVal, info->n_slots + 1))) return false;
    if (!info->self.up) scope->slots[info->self.slot] = (JVal){.type = J_SELF};
    if (!info->super.up &&
        !jval_undef_hint(e->r, STR("there is no parent block"), &scope->slots[info->super.slot]))
        return false;
    e->scope = scope;
    bool ok = jexec_enter(e, info) && jexec_body(e, &block->body);
    e->scope = saved;
    e->n_calls--;
    return ok;
}

static bool call_block_ref(JEval *e, const JBlockRef *b, JVal *out) {
    JBuild buf = {.max = e->out->max}, *saved = e->out;
    e->out = &buf;
    bool ok = jcall_block(e, b->node, b->ctx);
    e->out = saved;
    return ok && jbuild_done(e->r, &buf, out) && jstr_as_markup(e->r, *out, e->autoescape, out);
}

/* loop(items): the body of a recursive for, once more. */
static bool call_loop(JEval *e, const JLoop *l, const JVal *args, size_t n_args,
                      const JDict *kwargs, JVal *out) {
    const JNode *n = l->recurse;
    if (!n)
        return jrun_fail(e->r, JEXC_TYPE,
                         "the loop must have the 'recursive' marker to be called recursively");
    JVal over;
    if (n_args == 1 && !kwargs)
        over = args[0];
    else if (n_args || !kwargs || kwargs->n != 1 || !jdict_find_str(kwargs, STR("iterable"), &over))
        return jrun_fail(e->r, JEXC_TYPE, "loop() takes exactly one argument");
    JBuild b = {.max = e->out->max}, *saved_out = e->out;
    JScope *saved = e->scope, *scope = jrun_new(e->r, JScope), *closure = l->scope;
    if (!scope || !call_enter(e)) return false;
    *scope = (JScope){.parent = closure, .ctx = closure->ctx};
    if (!(scope->slots = jrun_array(e->r, JVal, n->scope->n_slots + 1))) return false;
    e->scope = scope;
    e->out = &b;
    bool ok = jexec_loop(e, n, over, l->depth0 + 1);
    e->out = saved_out;
    e->scope = saved;
    e->n_calls--;
    return ok && jbuild_done(e->r, &b, out) && jstr_as_markup(e->r, *out, e->autoescape, out);
}

bool jcall_value(JEval *e, JVal callee, const JVal *args, size_t n_args, const JDict *kwargs,
                 JVal *out) {
    switch (callee.type) {
    case J_MACRO:
        return jcall_macro(e, callee.u.macro, args, n_args, kwargs, out);
    case J_METHOD:
        return jbuiltin_call(e, callee.u.method->spec, callee.u.method->self, args, n_args, kwargs,
                             out);
    case J_FUNC:
        return jbuiltin_call(e, &callee.u.func->spec, callee, args, n_args, kwargs, out);
    case J_LOOP:
        return call_loop(e, callee.u.loop, args, n_args, kwargs, out);
    case J_UNDEF:
        return jval_fail_undef(e->r, callee);
    case J_JOINER: {
        JJoiner *j = callee.u.joiner;
        if (n_args || (kwargs && kwargs->n))
            return jrun_fail(e->r, JEXC_TYPE, "a joiner takes no arguments");
        if (j->used) return *out = j->sep, true;
        j->used = true;
        return jstr_make(e->r, STR(""), false, out);
    }
    case J_BLOCK:
        if (n_args || (kwargs && kwargs->n))
            return jrun_fail(e->r, JEXC_TYPE, "a block takes no arguments");
        return call_block_ref(e, callee.u.block, out);
    default:
        return jrun_fail(e->r, JEXC_TYPE, "'%s' object is not callable", jval_type_name(callee));
    }
}

bool jcall_filter(JEval *e, Str name, JVal subject, const JVal *args, size_t n, const JDict *kwargs,
                  JVal *out) {
    const JBuiltin *b = jfilter_find(name);
    if (!b) return jrun_fail(e->r, JEXC_RUNTIME, "no filter named '" STR_F "'", STR_A(name));
    return jbuiltin_call(e, b, subject, args, n, kwargs, out);
}

bool jcall_test(JEval *e, Str name, JVal subject, const JVal *args, size_t n, const JDict *kwargs,
                bool *out) {
    JVal v;
    const JBuiltin *b = jtest_find(name);
    if (!b) return jrun_fail(e->r, JEXC_RUNTIME, "no test named '" STR_F "'", STR_A(name));
    if (!jbuiltin_call(e, b, subject, args, n, kwargs, &v)) return false;
    *out = jval_truth(v);
    return true;
}
