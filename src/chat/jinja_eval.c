#include "chat/jinja_eval.h"

#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"

static bool eval_node(JEval *e, const JNode *n, JVal *out);

bool jeval_expr(JEval *e, const JNode *n, JVal *out) {
    if (n->kind == JN_CONST) return *out = n->value, true;
    if (!jrun_spend(e->r, 1)) return false;
    if (e->r->depth >= JRUN_MAX_DEPTH)
        return jrun_fail(e->r, JEXC_LIMIT, "evaluation is nested too deeply");
    e->r->depth++;
    bool ok = eval_node(e, n, out);
    e->r->depth--;
    return ok;
}

static bool eval_name(JEval *e, const JNode *n, JVal *out) {
    *out = *jexec_slot(e, n->ref);
    return out->type != J_MISSING || jval_undef_name(e->r, n->name, out);
}

static bool eval_list(JEval *e, const JNodes *nodes, JType type, JVal *out) {
    JList *l = jlist_new(e->r, nodes->n);
    if (!l) return false;
    for (size_t i = 0; i < nodes->n; i++)
        if (!jeval_expr(e, nodes->p[i], &l->v[i])) return false;
    l->n = nodes->n;
    *out = (JVal){.type = type, .u.list = l};
    return true;
}

static bool eval_dict(JEval *e, const JNode *n, JVal *out) {
    JDict *d = jdict_new(e->r, n->items.n);
    if (!d) return false;
    for (size_t i = 0; i < n->items.n; i++) {
        JVal key, val;
        if (!jeval_expr(e, n->items.p[i], &key) || !jeval_expr(e, n->more.p[i], &val)) return false;
        if (!jdict_put(e->r, d, key, val)) return false;
    }
    *out = jval_dict(d);
    return true;
}

static bool eval_cond(JEval *e, const JNode *n, JVal *out) {
    JVal test;
    if (!jeval_expr(e, n->a, &test)) return false;
    if (jval_truth(test)) return jeval_expr(e, n->b, out);
    if (n->c) return jeval_expr(e, n->c, out);
    return jval_undef_hint(
        e->r, STR("the inline if-expression evaluated to false and no else section was defined"),
        out);
}

static bool eval_binary(JEval *e, const JNode *n, JVal *out) {
    JVal a, b;
    return jeval_expr(e, n->a, &a) && jeval_expr(e, n->b, &b) && jops_binary(e, n->kind, a, b, out);
}

static bool eval_unary(JEval *e, const JNode *n, JVal *out) {
    JVal a;
    return jeval_expr(e, n->a, &a) && jops_unary(e, n->kind, a, out);
}

static bool eval_logic(JEval *e, const JNode *n, JVal *out) {
    if (!jeval_expr(e, n->a, out)) return false;
    if (jval_truth(*out) != (n->kind == JN_AND)) return true;
    return jeval_expr(e, n->b, out);
}

static bool eval_not(JEval *e, const JNode *n, JVal *out) {
    JVal a;
    if (!jeval_expr(e, n->a, &a)) return false;
    *out = jval_bool(!jval_truth(a));
    return true;
}

static bool eval_compare(JEval *e, const JNode *n, JVal *out) {
    JVal left, right;
    bool yes = true;
    if (!jeval_expr(e, n->a, &left)) return false;
    for (size_t i = 0; i < n->items.n && yes; i++) {
        const JNode *operand = n->items.p[i];
        if (!jeval_expr(e, operand->a, &right)) return false;
        if (!jops_compare(e, (JOper)operand->op, left, right, &yes)) return false;
        left = right;
    }
    *out = jval_bool(yes);
    return true;
}

static bool eval_concat(JEval *e, const JNode *n, JVal *out) {
    bool escape = jexec_escapes(e, (JEsc)n->esc), markup = false;
    JList *parts = jlist_new(e->r, n->items.n);
    JBuild b = {0};
    if (!parts) return false;
    for (size_t i = 0; i < n->items.n; i++) {
        JVal v;
        if (!jeval_expr(e, n->items.p[i], &v) || !jrepr_soft(e->r, v, &parts->v[i])) return false;
        markup |= escape && parts->v[i].u.str->markup;
    }
    for (size_t i = 0; i < n->items.n; i++) {
        JVal part = parts->v[i];
        if (markup && !jhtml_escape(e->r, part, &part)) return false;
        jbuild_put_jstr(e->r, &b, part.u.str);
    }
    return jbuild_done(e->r, &b, out) && (!markup || jstr_as_markup(e->r, *out, true, out));
}

static bool eval_getattr(JEval *e, const JNode *n, JVal *out) {
    JVal obj;
    return jeval_expr(e, n->a, &obj) && jattr_get(e, obj, n->name, out);
}

static bool eval_slice(JEval *e, const JNode *n, JSlice *s) {
    const JNode *part[3] = {n->a, n->b, n->c};
    JVal *to[3] = {&s->start, &s->stop, &s->step};
    for (int i = 0; i < 3; i++) {
        *to[i] = jval_none();
        if (part[i] && !jeval_expr(e, part[i], to[i])) return false;
    }
    return true;
}

static bool eval_getitem(JEval *e, const JNode *n, JVal *out) {
    JVal obj, key;
    JSlice s;
    if (!jeval_expr(e, n->a, &obj)) return false;
    if (n->b->kind == JN_SLICE) return eval_slice(e, n->b, &s) && jattr_slice(e, obj, &s, out);
    return jeval_expr(e, n->b, &key) && jattr_item(e, obj, key, out);
}

static bool eval_slice_value(JEval *e, const JNode *n, JVal *out) {
    JSlice *s = jrun_new(e->r, JSlice);
    if (!s || !eval_slice(e, n, s)) return false;
    *out = (JVal){.type = J_SLICE, .u.slice = s};
    return true;
}

bool jeval_filter_on(JEval *e, const JNode *n, JVal subject, JVal *out) {
    JVal *args;
    size_t n_args;
    JDict *kwargs;
    if (n->a && !jeval_filter_on(e, n->a, subject, &subject)) return false;
    if (!jcall_args(e, n, NULL, &args, &n_args, &kwargs)) return false;
    if (!n->fn) return jrun_fail(e->r, JEXC_RUNTIME, "no filter named '" STR_F "'", STR_A(n->name));
    return jbuiltin_call(e, n->fn, subject, args, n_args, kwargs, out);
}

static bool eval_builtin(JEval *e, const JNode *n, JVal *out) {
    JVal subject, *args = NULL;
    size_t n_args = 0;
    JDict *kwargs = NULL;
    if (!jeval_expr(e, n->a, &subject)) return false;
    bool plain = !n->items.n && !n->more.n && !n->b && !n->c;
    if (!plain && !jcall_args(e, n, NULL, &args, &n_args, &kwargs)) return false;
    if (!n->fn)
        return jrun_fail(e->r, JEXC_RUNTIME, "no %s named '" STR_F "'",
                         n->kind == JN_FILTER ? "filter" : "test", STR_A(n->name));
    return jbuiltin_call(e, n->fn, subject, args, n_args, kwargs, out);
}

static bool eval_node(JEval *e, const JNode *n, JVal *out) {
    switch (n->kind) {
    case JN_NAME:
        return eval_name(e, n, out);
    case JN_CONST:
    case JN_DATA:
        *out = n->value;
        return true;
    case JN_TUPLE:
        return eval_list(e, &n->items, J_TUPLE, out);
    case JN_LIST:
        return eval_list(e, &n->items, J_LIST, out);
    case JN_DICT:
        return eval_dict(e, n, out);
    case JN_COND:
        return eval_cond(e, n, out);
    case JN_OR:
    case JN_AND:
        return eval_logic(e, n, out);
    case JN_NOT:
        return eval_not(e, n, out);
    case JN_NEG:
    case JN_POS:
        return eval_unary(e, n, out);
    case JN_ADD:
    case JN_SUB:
    case JN_MUL:
    case JN_DIV:
    case JN_FLOORDIV:
    case JN_MOD:
    case JN_POW:
        return eval_binary(e, n, out);
    case JN_CONCAT:
        return eval_concat(e, n, out);
    case JN_COMPARE:
        return eval_compare(e, n, out);
    case JN_FILTER:
    case JN_TEST:
        return eval_builtin(e, n, out);
    case JN_CALL:
        return jcall_node(e, n, NULL, out);
    case JN_GETATTR:
        return eval_getattr(e, n, out);
    case JN_GETITEM:
        return eval_getitem(e, n, out);
    case JN_SLICE:
        return eval_slice_value(e, n, out);
    default:
        return jrun_fail(e->r, JEXC_RUNTIME, "internal: node %d is not an expression",
                         (int)n->kind);
    }
}
