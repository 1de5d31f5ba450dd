#include "chat/jinja_parse.h"

#include <string.h>

#include "chat/jinja_str.h"

typedef bool ParseFn(JParser *p, JNode **out);

static bool parse_binary_node(JParser *p, JKind kind, JNode *left, JNode *right, int line,
                              JNode **out) {
    JNode *n = jparse_node(p, kind);
    if (!n) return false;
    n->line = line;
    n->a = left;
    n->b = right;
    *out = n;
    return jparse_adopt(p, n, left) && (!right || jparse_adopt(p, n, right));
}

/* left-associative chain: next (op next)* */
static bool parse_chain(JParser *p, ParseFn *next, const JTok *ops, const JKind *kinds,
                        size_t n_ops, JNode **out) {
    int line = p->t->line;
    if (!next(p, out)) return false;
    for (;;) {
        size_t i = 0;
        while (i < n_ops && ops[i] != p->t->type) i++;
        if (i == n_ops) return true;
        p->t++;
        JNode *right;
        if (!next(p, &right) || !parse_binary_node(p, kinds[i], *out, right, line, out))
            return false;
    }
}

static bool parse_call_args(JParser *p, JNode *n);
static bool parse_unary(JParser *p, bool with_filter, JNode **out);

static bool parse_operand(JParser *p, JNode **out) { return parse_unary(p, true, out); }

static bool parse_pow(JParser *p, JNode **out) {
    static const JTok ops[] = {JT_POW};
    static const JKind kinds[] = {JN_POW};
    return parse_chain(p, parse_operand, ops, kinds, 1, out);
}

static bool parse_math2(JParser *p, JNode **out) {
    static const JTok ops[] = {JT_MUL, JT_DIV, JT_FLOORDIV, JT_MOD};
    static const JKind kinds[] = {JN_MUL, JN_DIV, JN_FLOORDIV, JN_MOD};
    return parse_chain(p, parse_pow, ops, kinds, 4, out);
}

static bool parse_concat(JParser *p, JNode **out) {
    if (!parse_math2(p, out)) return false;
    if (p->t->type != JT_TILDE) return true;
    JNode *n = jparse_node(p, JN_CONCAT), *part = *out;
    if (!n || !jparse_push(p, n, &n->items, part)) return false;
    while (jparse_skip(p, JT_TILDE))
        if (!parse_math2(p, &part) || !jparse_push(p, n, &n->items, part)) return false;
    *out = n;
    return true;
}

static bool parse_math1(JParser *p, JNode **out) {
    static const JTok ops[] = {JT_ADD, JT_SUB};
    static const JKind kinds[] = {JN_ADD, JN_SUB};
    return parse_chain(p, parse_concat, ops, kinds, 2, out);
}

static bool parse_compare_op(JParser *p, JOper *op) {
    static const struct {
        JTok tok;
        JOper op;
    } table[] = {{JT_EQ, JOP_EQ},   {JT_NE, JOP_NE}, {JT_LT, JOP_LT},
                 {JT_LTEQ, JOP_LE}, {JT_GT, JOP_GT}, {JT_GTEQ, JOP_GE}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (p->t->type != table[i].tok) continue;
        *op = table[i].op;
        p->t++;
        return true;
    }
    if (jparse_skip_name(p, "in")) return *op = JOP_IN, true;
    if (jparse_is_name(p, "not") && p->t[1].type == JT_NAME && str_eqc(p->t[1].text, "in")) {
        p->t += 2;
        return *op = JOP_NOTIN, true;
    }
    return false;
}

static bool parse_compare(JParser *p, JNode **out) {
    JOper op;
    JNode *cmp = NULL;
    if (!parse_math1(p, out)) return false;
    while (parse_compare_op(p, &op)) {
        JNode *operand = jparse_node(p, JN_OPERAND);
        if (!cmp) {
            if (!(cmp = jparse_node(p, JN_COMPARE))) return false;
            cmp->a = *out;
            if (!jparse_adopt(p, cmp, *out)) return false;
        }
        if (!operand || !parse_math1(p, &operand->a)) return false;
        operand->op = (uint8_t)op;
        if (!jparse_adopt(p, operand, operand->a) || !jparse_push(p, cmp, &cmp->items, operand))
            return false;
    }
    if (cmp) *out = cmp;
    return true;
}

static bool parse_not(JParser *p, JNode **out) {
    size_t n_not = 0;
    int line = p->t->line;
    while (jparse_skip_name(p, "not")) n_not++;
    if (!parse_compare(p, out)) return false;
    while (n_not--)
        if (!parse_binary_node(p, JN_NOT, *out, NULL, line, out)) return false;
    return true;
}

static bool parse_and(JParser *p, JNode **out) {
    int line = p->t->line;
    if (!parse_not(p, out)) return false;
    while (jparse_skip_name(p, "and")) {
        JNode *right;
        if (!parse_not(p, &right) || !parse_binary_node(p, JN_AND, *out, right, line, out))
            return false;
    }
    return true;
}

static bool parse_or(JParser *p, JNode **out) {
    int line = p->t->line;
    if (!parse_and(p, out)) return false;
    while (jparse_skip_name(p, "or")) {
        JNode *right;
        if (!parse_and(p, &right) || !parse_binary_node(p, JN_OR, *out, right, line, out))
            return false;
    }
    return true;
}

static bool parse_cond(JParser *p, JNode **out) {
    int line = p->t->line;
    if (!parse_or(p, out)) return false;
    while (jparse_skip_name(p, "if")) {
        JNode *test, *n = jparse_node(p, JN_COND);
        if (!n || !parse_or(p, &test)) return false;
        n->line = line;
        n->a = test;
        n->b = *out;
        if (jparse_skip_name(p, "else")) {
            if (!jparse_enter(p) || !parse_cond(p, &n->c) || !jparse_adopt(p, n, n->c))
                return false;
            p->depth--;
        }
        if (!jparse_adopt(p, n, n->a) || !jparse_adopt(p, n, n->b)) return false;
        *out = n;
    }
    return true;
}

bool jparse_expression(JParser *p, bool with_cond, JNode **out) {
    if (!jparse_enter(p)) return false;
    bool ok = with_cond ? parse_cond(p, out) : parse_or(p, out);
    p->depth--;
    return ok;
}

static bool parse_const(JParser *p, JVal v, JNode **out) {
    JNode *n = jparse_node(p, JN_CONST);
    if (!n) return false;
    n->value = v;
    *out = n;
    return true;
}

static bool parse_name(JParser *p, bool with_nsref, JNode **out) {
    Str name = p->t->text;
    if (str_eqc(name, "true") || str_eqc(name, "True")) {
        if (!parse_const(p, jval_bool(true), out)) return false;
    } else if (str_eqc(name, "false") || str_eqc(name, "False")) {
        if (!parse_const(p, jval_bool(false), out)) return false;
    } else if (str_eqc(name, "none") || str_eqc(name, "None")) {
        if (!parse_const(p, jval_none(), out)) return false;
    } else {
        bool nsref = with_nsref && p->t[1].type == JT_DOT;
        JNode *n = jparse_node(p, nsref ? JN_NSREF : JN_NAME);
        if (!n) return false;
        n->name = name;
        *out = n;
        if (nsref) {
            p->t += 2;
            Str attr = p->t->text;
            if (p->t->type != JT_NAME) return jparse_fail_token(p, "name");
            if (!jstr_make(p->r, attr, false, &n->value)) return false;
            jstr_n_cp(n->value.u.str);
        }
    }
    p->t++;
    return true;
}

static bool parse_string(JParser *p, JNode **out) {
    JBuild b = {0};
    JVal v = p->t->value;
    if (p->t[1].type == JT_STRING) {
        const JToken *t = p->t;
        for (; t->type == JT_STRING; t++) jbuild_put_jstr(p->r, &b, t->value.u.str);
        if (!jbuild_done(p->r, &b, &v)) return false;
        jstr_n_cp(v.u.str);
    }
    if (!parse_const(p, v, out)) return false;
    while (p->t->type == JT_STRING) p->t++;
    return true;
}

static bool parse_list(JParser *p, JNode **out) {
    JNode *n = jparse_node(p, JN_LIST), *item;
    if (!n) return false;
    *out = n;
    p->t++;
    while (p->t->type != JT_RBRACKET) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (p->t->type == JT_RBRACKET) break;
        if (!jparse_expression(p, true, &item) || !jparse_push(p, n, &n->items, item)) return false;
    }
    return jparse_expect(p, JT_RBRACKET);
}

static bool parse_dict(JParser *p, JNode **out) {
    JNode *n = jparse_node(p, JN_DICT), *key, *value;
    if (!n) return false;
    *out = n;
    p->t++;
    while (p->t->type != JT_RBRACE) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (p->t->type == JT_RBRACE) break;
        if (!jparse_expression(p, true, &key) || !jparse_expect(p, JT_COLON)) return false;
        if (!jparse_expression(p, true, &value)) return false;
        if (!jparse_push(p, n, &n->items, key) || !jparse_push(p, n, &n->more, value)) return false;
    }
    return jparse_expect(p, JT_RBRACE);
}

bool jparse_primary(JParser *p, bool with_nsref, JNode **out) {
    switch (p->t->type) {
    case JT_NAME:
        return parse_name(p, with_nsref, out);
    case JT_STRING:
        return parse_string(p, out);
    case JT_INTEGER:
    case JT_FLOAT:
        if (!parse_const(p, p->t->value, out)) return false;
        p->t++;
        return true;
    case JT_LPAREN:
        p->t++;
        return jparse_tuple(p, JTUPLE_PARENS, out) && jparse_expect(p, JT_RPAREN);
    case JT_LBRACKET:
        return parse_list(p, out);
    case JT_LBRACE:
        return parse_dict(p, out);
    default:
        return jparse_fail_token(p, "an expression");
    }
}

static bool tuple_ends(const JParser *p, unsigned flags) {
    if (p->t->type == JT_VAR_END || p->t->type == JT_BLOCK_END || p->t->type == JT_RPAREN)
        return true;
    if ((flags & JTUPLE_STOP_IN) && jparse_is_name(p, "in")) return true;
    return (flags & JTUPLE_STOP_RECURSIVE) && jparse_is_name(p, "recursive");
}

bool jparse_tuple(JParser *p, unsigned flags, JNode **out) {
    JNode *tuple = jparse_node(p, JN_TUPLE), *item;
    bool is_tuple = false;
    if (!tuple || !jparse_enter(p)) return false;
    for (;;) {
        if (tuple->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (tuple_ends(p, flags)) break;
        bool ok = (flags & JTUPLE_TARGET) ? jparse_primary(p, flags & JTUPLE_NSREF, &item)
                                          : jparse_expression(p, !(flags & JTUPLE_NO_COND), &item);
        if (!ok || !jparse_push(p, tuple, &tuple->items, item)) return false;
        if (p->t->type != JT_COMMA) break;
        is_tuple = true;
    }
    p->depth--;
    *out = tuple;
    if (is_tuple) return true;
    if (tuple->items.n) return *out = tuple->items.p[0], true;
    return (flags & JTUPLE_PARENS) || jparse_fail_token(p, "an expression");
}

static bool parse_subscribed(JParser *p, JNode **out) {
    JNode *part[3] = {0}, *n;
    if (p->t->type != JT_COLON) {
        if (!jparse_expression(p, true, &part[0])) return false;
        if (p->t->type != JT_COLON) return *out = part[0], true;
    }
    p->t++;
    for (int i = 1; i < 3; i++) {
        if (i == 2 && !jparse_skip(p, JT_COLON)) break;
        if (p->t->type == JT_COLON || p->t->type == JT_RBRACKET || p->t->type == JT_COMMA) continue;
        if (!jparse_expression(p, true, &part[i])) return false;
    }
    if (!(n = jparse_node(p, JN_SLICE))) return false;
    n->a = part[0];
    n->b = part[1];
    n->c = part[2];
    for (int i = 0; i < 3; i++)
        if (part[i] && !jparse_adopt(p, n, part[i])) return false;
    *out = n;
    return true;
}

static bool parse_subscript(JParser *p, JNode *object, JNode **out) {
    bool dot = p->t->type == JT_DOT;
    JNode *n = jparse_node(p, dot && p->t[1].type == JT_NAME ? JN_GETATTR : JN_GETITEM);
    if (!n || !jparse_adopt(p, n, object)) return false;
    n->a = object;
    *out = n;
    p->t++;
    if (dot) {
        if (p->t->type == JT_NAME) {
            n->name = p->t->text;
            p->t++;
            return true;
        }
        if (p->t->type != JT_INTEGER) return jparse_fail_token(p, "a name or number");
        if (!parse_const(p, p->t->value, &n->b)) return false;
        p->t++;
        return true;
    }
    JNode *tuple = jparse_node(p, JN_TUPLE), *item;
    if (!tuple) return false;
    while (p->t->type != JT_RBRACKET) {
        if (tuple->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (!parse_subscribed(p, &item) || !jparse_push(p, tuple, &tuple->items, item))
            return false;
    }
    p->t++;
    n->b = tuple->items.n == 1 ? tuple->items.p[0] : tuple;
    return jparse_adopt(p, n, n->b);
}

static bool parse_keyword(JParser *p, JNode *call) {
    JNode *kw = jparse_node(p, JN_KEYWORD);
    if (!kw) return false;
    kw->name = p->t->text;
    for (size_t i = 0; i < call->more.n; i++)
        if (str_eq(call->more.p[i]->name, kw->name))
            return jparse_fail_token(p, "a keyword not given before");
    p->t += 2;
    return jparse_expression(p, true, &kw->a) && jparse_adopt(p, kw, kw->a) &&
           jparse_push(p, call, &call->more, kw);
}

static bool parse_call_arg(JParser *p, JNode *n) {
    JNode *arg;
    if (p->t->type == JT_MUL) {
        if (n->b || n->c) return jparse_fail_token(p, "a valid argument");
        p->t++;
        return jparse_expression(p, true, &n->b) && jparse_adopt(p, n, n->b);
    }
    if (p->t->type == JT_POW) {
        if (n->c) return jparse_fail_token(p, "a valid argument");
        p->t++;
        return jparse_expression(p, true, &n->c) && jparse_adopt(p, n, n->c);
    }
    if (p->t->type == JT_NAME && p->t[1].type == JT_ASSIGN) {
        if (n->c) return jparse_fail_token(p, "a valid argument");
        return parse_keyword(p, n);
    }
    if (n->b || n->c || n->more.n) return jparse_fail_token(p, "a keyword argument");
    return jparse_expression(p, true, &arg) && jparse_push(p, n, &n->items, arg);
}

/* (args, name=value, *list, **dict) into the node of a call, filter or test. */
static bool parse_call_args(JParser *p, JNode *n) {
    bool comma = false;
    if (!jparse_expect(p, JT_LPAREN)) return false;
    while (p->t->type != JT_RPAREN) {
        if (comma && !jparse_expect(p, JT_COMMA)) return false;
        if (comma && p->t->type == JT_RPAREN) break;
        if (!parse_call_arg(p, n)) return false;
        comma = true;
    }
    p->t++;
    return true;
}

static bool parse_call(JParser *p, JNode *callee, JNode **out) {
    JNode *n = jparse_node(p, JN_CALL);
    if (!n || !jparse_adopt(p, n, callee)) return false;
    n->a = callee;
    *out = n;
    return parse_call_args(p, n);
}

/* a.b or a word followed by dots, as filter and test names may be. */
static bool parse_dotted(JParser *p, Str *out) {
    JBuild b = {0};
    JVal v;
    if (p->t->type != JT_NAME) return jparse_fail_token(p, "name");
    *out = (p->t++)->text;
    if (p->t->type != JT_DOT) return true;
    jbuild_put(p->r, &b, *out, false);
    while (jparse_skip(p, JT_DOT)) {
        if (p->t->type != JT_NAME) return jparse_fail_token(p, "name");
        jbuild_putc(p->r, &b, '.', false);
        jbuild_put(p->r, &b, (p->t++)->text, false);
    }
    if (!jbuild_done(p->r, &b, &v)) return false;
    *out = v.u.str->s;
    return true;
}

bool jparse_filter(JParser *p, JNode *subject, bool start_inline, JNode **out) {
    *out = subject;
    while (start_inline || p->t->type == JT_PIPE) {
        if (!start_inline) p->t++;
        start_inline = false;
        JNode *n = jparse_node(p, JN_FILTER);
        if (!n || !parse_dotted(p, &n->name)) return false;
        if (p->t->type == JT_LPAREN && !parse_call_args(p, n)) return false;
        n->a = *out;
        if (n->a && !jparse_adopt(p, n, n->a)) return false;
        *out = n;
    }
    return true;
}

static bool parse_postfix(JParser *p, JNode **out) {
    for (;;) {
        if (p->t->type == JT_DOT || p->t->type == JT_LBRACKET) {
            if (!parse_subscript(p, *out, out)) return false;
        } else if (p->t->type == JT_LPAREN) {
            if (!parse_call(p, *out, out)) return false;
        } else {
            return true;
        }
    }
}

static bool test_takes_bare_argument(const JParser *p) {
    switch (p->t->type) {
    case JT_NAME:
        return !jparse_is_name(p, "else") && !jparse_is_name(p, "or") && !jparse_is_name(p, "and");
    case JT_STRING:
    case JT_INTEGER:
    case JT_FLOAT:
    case JT_LBRACKET:
    case JT_LBRACE:
        return true;
    default:
        return false;
    }
}

static bool parse_is(JParser *p, JNode *subject, JNode **out) {
    int line = p->t->line;
    JNode *n = jparse_node(p, JN_TEST), *arg;
    if (!n || !jparse_adopt(p, n, subject)) return false;
    p->t++;
    bool negated = jparse_skip_name(p, "not");
    if (!parse_dotted(p, &n->name)) return false;
    n->a = subject;
    if (p->t->type == JT_LPAREN) {
        if (!parse_call_args(p, n)) return false;
    } else if (test_takes_bare_argument(p)) {
        if (jparse_is_name(p, "is"))
            return jparse_fail_token(p, "something else: tests cannot be chained with is");
        if (!jparse_primary(p, false, &arg) || !parse_postfix(p, &arg)) return false;
        if (!jparse_push(p, n, &n->items, arg)) return false;
    }
    *out = n;
    return !negated || parse_binary_node(p, JN_NOT, n, NULL, line, out);
}

static bool parse_unary(JParser *p, bool with_filter, JNode **out) {
    JKind kind = p->t->type == JT_SUB ? JN_NEG : JN_POS;
    int line = p->t->line;
    if (p->t->type == JT_SUB || p->t->type == JT_ADD) {
        p->t++;
        if (!jparse_enter(p) || !parse_unary(p, false, out)) return false;
        p->depth--;
        if (!parse_binary_node(p, kind, *out, NULL, line, out)) return false;
    } else if (!jparse_primary(p, false, out)) {
        return false;
    }
    if (!parse_postfix(p, out)) return false;
    while (with_filter) {
        if (p->t->type == JT_PIPE) {
            if (!jparse_filter(p, *out, false, out)) return false;
        } else if (jparse_is_name(p, "is")) {
            if (!parse_is(p, *out, out)) return false;
        } else if (p->t->type == JT_LPAREN) {
            if (!parse_call(p, *out, out)) return false;
        } else {
            return true;
        }
    }
    return true;
}

static bool target_ok(const JNode *n) {
    if (n->kind == JN_NAME || n->kind == JN_NSREF) return true;
    if (n->kind != JN_TUPLE) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!target_ok(n->items.p[i])) return false;
    return true;
}

static void target_set_ctx(JNode *n, JCtx ctx) {
    if (n->kind == JN_NAME) n->op = (uint8_t)ctx;
    for (size_t i = 0; n->kind == JN_TUPLE && i < n->items.n; i++)
        target_set_ctx(n->items.p[i], ctx);
}

bool jparse_target(JParser *p, unsigned flags, JNode **out) {
    const JToken *at = p->t;
    if (!jparse_tuple(p, flags | JTUPLE_TARGET, out)) return false;
    if (!target_ok(*out)) {
        p->t = at;
        return jparse_fail_token(p, "something that can be assigned to");
    }
    target_set_ctx(*out, JCTX_STORE);
    return true;
}

bool jparse_target_name(JParser *p, JCtx ctx, JNode **out) {
    static const char *const constant[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constant / sizeof *constant; i++)
        if (jparse_is_name(p, constant[i]))
            return jparse_fail_token(p, "a name that can be assigned to");
    if (p->t->type != JT_NAME) return jparse_fail_token(p, "name");
    JNode *n = jparse_node(p, JN_NAME);
    if (!n) return false;
    n->name = p->t->text;
    n->op = (uint8_t)ctx;
    p->t++;
    *out = n;
    return true;
}
