#include "chat/jinja_parse.h"

#include <string.h>

#include "chat/jinja_str.h"

JNode *jparse_node(JParser *p, JKind kind) {
    JNode *n = jrun_new(p->r, JNode);
    if (!n || !jrun_spend(p->r, 1)) return NULL;
    n->kind = kind;
    n->line = p->t->line;
    return n;
}

bool jparse_adopt(JParser *p, JNode *parent, const JNode *child) {
    if (child->depth + 1 > parent->depth) parent->depth = (uint16_t)(child->depth + 1);
    if (parent->depth <= JPARSE_MAX_HEIGHT) return true;
    p->r->line = p->t->line;
    return jrun_fail(p->r, JEXC_LIMIT, "an expression is nested too deeply");
}

bool jparse_push(JParser *p, JNode *parent, JNodes *list, JNode *child) {
    size_t n = list->n;
    if (n == 0 || (n >= 4 && !(n & (n - 1)))) { /* room doubles at powers of two */
        JNode **bigger = jrun_array(p->r, JNode *, n ? n * 2 : 4);
        if (!bigger) return false;
        if (n) memcpy(bigger, list->p, n * sizeof *bigger);
        list->p = bigger;
    }
    list->p[list->n++] = child;
    return jparse_adopt(p, parent, child);
}

bool jparse_is_name(const JParser *p, const char *name) {
    return p->t->type == JT_NAME && str_eqc(p->t->text, name);
}

bool jparse_skip(JParser *p, JTok type) {
    if (p->t->type != type) return false;
    p->t++;
    return true;
}

bool jparse_skip_name(JParser *p, const char *name) {
    if (!jparse_is_name(p, name)) return false;
    p->t++;
    return true;
}

bool jparse_fail_token(JParser *p, const char *expected) {
    p->r->line = p->t->line;
    if (p->t->type == JT_NAME)
        return jrun_fail(p->r, JEXC_SYNTAX, "expected %s, got '" STR_F "'", expected,
                         STR_A(p->t->text));
    return jrun_fail(p->r, JEXC_SYNTAX, "expected %s, got '%s'", expected,
                     jlex_describe(p->t->type));
}

bool jparse_expect(JParser *p, JTok type) {
    return jparse_skip(p, type) || jparse_fail_token(p, jlex_describe(type));
}

bool jparse_expect_name(JParser *p, const char *name) {
    return jparse_skip_name(p, name) || jparse_fail_token(p, name);
}

bool jparse_enter(JParser *p) {
    if (p->depth++ < JPARSE_MAX_DEPTH) return true;
    p->r->line = p->t->line;
    return jrun_fail(p->r, JEXC_LIMIT, "nested more than %d levels deep", JPARSE_MAX_DEPTH);
}

static bool parse_body(JParser *p, JNode *owner, JNodes *body, const char *const *ends);

/* The body of a tag up to (not including) one of the end words. */
static bool parse_statements(JParser *p, JNode *owner, JNodes *body, const char *const *ends) {
    jparse_skip(p, JT_COLON);
    if (!jparse_expect(p, JT_BLOCK_END)) return false;
    if (!parse_body(p, owner, body, ends)) return false;
    if (p->t->type != JT_EOF) return true;
    p->r->line = p->t->line;
    return jrun_fail(p->r, JEXC_SYNTAX, "unexpected end of template, looking for '%s'", ends[0]);
}

static bool parse_until(JParser *p, JNode *owner, JNodes *body, const char *end) {
    const char *const ends[] = {end, NULL};
    if (!parse_statements(p, owner, body, ends)) return false;
    p->t++;
    return true;
}

static bool parse_for(JParser *p, JNode *n) {
    static const char *const ends[] = {"endfor", "else", NULL};
    if (!jparse_target(p, JTUPLE_STOP_IN, &n->a) || !jparse_expect_name(p, "in")) return false;
    if (!jparse_tuple(p, JTUPLE_NO_COND | JTUPLE_STOP_RECURSIVE, &n->b)) return false;
    if (jparse_skip_name(p, "if") && !jparse_expression(p, true, &n->c)) return false;
    n->flag = jparse_skip_name(p, "recursive");
    if (!parse_statements(p, n, &n->body, ends)) return false;
    bool has_else = jparse_is_name(p, "else");
    p->t++;
    return !has_else || parse_until(p, n, &n->orelse, "endfor");
}

static bool parse_if(JParser *p, JNode *n) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    JNode *branch = n;
    for (;;) {
        if (!jparse_tuple(p, JTUPLE_NO_COND, &branch->a)) return false;
        if (!parse_statements(p, n, &branch->body, ends)) return false;
        if (jparse_skip_name(p, "elif")) {
            if (!(branch = jparse_node(p, JN_IF)) || !jparse_push(p, n, &n->items, branch))
                return false;
            continue;
        }
        bool has_else = jparse_is_name(p, "else");
        p->t++;
        return !has_else || parse_until(p, n, &n->orelse, "endif");
    }
}

static bool parse_with(JParser *p, JNode *n) {
    JNode *target, *value;
    while (p->t->type != JT_BLOCK_END) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (!jparse_target(p, 0, &target) || !jparse_expect(p, JT_ASSIGN)) return false;
        if (!jparse_expression(p, true, &value)) return false;
        if (!jparse_push(p, n, &n->items, target) || !jparse_push(p, n, &n->more, value))
            return false;
    }
    return parse_until(p, n, &n->body, "endwith");
}

static bool node_is_blank(const JNode *n) {
    if (n->kind != JN_OUTPUT) return false;
    for (size_t i = 0; i < n->items.n; i++) {
        if (n->items.p[i]->kind != JN_DATA) return false;
        Str s = n->items.p[i]->value.u.str->s;
        for (size_t at = 0; at < s.n;)
            if (!jstr_is_space(jstr_next(s, &at))) return false;
    }
    return true;
}

static bool parse_block(JParser *p, JNode *n) {
    if (p->t->type != JT_NAME) return jparse_fail_token(p, "name");
    n->name = (p->t++)->text;
    n->flag = jparse_skip_name(p, "scoped");
    n->op = jparse_skip_name(p, "required");
    if (p->t->type == JT_SUB) return jparse_fail_token(p, "a block name without hyphens");
    if (!parse_until(p, n, &n->body, "endblock")) return false;
    for (size_t i = 0; n->op && i < n->body.n; i++)
        if (!node_is_blank(n->body.p[i]))
            return jparse_fail_token(p, "nothing but white space in a required block");
    if (p->t->type == JT_NAME && str_eq(p->t->text, n->name)) p->t++;
    return true;
}

static bool parse_signature(JParser *p, JNode *n) {
    JNode *arg, *value;
    if (!jparse_expect(p, JT_LPAREN)) return false;
    while (p->t->type != JT_RPAREN) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (!jparse_target_name(p, JCTX_PARAM, &arg)) return false;
        for (size_t i = 0; i < n->items.n; i++)
            if (str_eq(n->items.p[i]->name, arg->name))
                return jparse_fail_token(p, "argument names that differ");
        if (jparse_skip(p, JT_ASSIGN)) {
            if (!jparse_expression(p, true, &value) || !jparse_push(p, n, &n->more, value))
                return false;
        } else if (n->more.n) {
            return jparse_fail_token(p, "a default, as an argument before has one");
        }
        if (!jparse_push(p, n, &n->items, arg)) return false;
    }
    p->t++;
    return true;
}

static bool parse_callblock(JParser *p, JNode *n) {
    if (p->t->type == JT_LPAREN && !parse_signature(p, n)) return false;
    if (!jparse_expression(p, true, &n->a) || !jparse_adopt(p, n, n->a)) return false;
    if (n->a->kind != JN_CALL) return jparse_fail_token(p, "a call");
    return parse_until(p, n, &n->body, "endcall");
}

static bool parse_macro(JParser *p, JNode *n) {
    JNode *name;
    if (!jparse_target_name(p, JCTX_STORE, &name)) return false;
    n->name = name->name;
    return parse_signature(p, n) && parse_until(p, n, &n->body, "endmacro");
}

static bool parse_set(JParser *p, JNode *n) {
    if (!jparse_target(p, JTUPLE_NSREF, &n->a)) return false;
    if (jparse_skip(p, JT_ASSIGN)) return jparse_tuple(p, 0, &n->b) && jparse_adopt(p, n, n->b);
    n->kind = JN_SETBLOCK;
    if (!jparse_filter(p, NULL, false, &n->b)) return false;
    return parse_until(p, n, &n->body, "endset");
}

static bool parse_print(JParser *p, JNode *n) {
    JNode *value;
    while (p->t->type != JT_BLOCK_END) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (!jparse_expression(p, true, &value) || !jparse_push(p, n, &n->items, value))
            return false;
    }
    return true;
}

static bool parse_filterblock(JParser *p, JNode *n) {
    return jparse_filter(p, NULL, true, &n->a) && parse_until(p, n, &n->body, "endfilter");
}

static bool parse_autoescape(JParser *p, JNode *n) {
    return jparse_expression(p, true, &n->a) && parse_until(p, n, &n->body, "endautoescape");
}

static bool parse_generation(JParser *p, JNode *n) {
    return parse_until(p, n, &n->body, "endgeneration");
}

static bool parse_nothing(JParser *p, JNode *n) { return (void)p, (void)n, true; }

static bool parse_context_clause(JParser *p) {
    bool with = jparse_is_name(p, "with") || jparse_is_name(p, "without");
    if (!with || p->t[1].type != JT_NAME || !str_eqc(p->t[1].text, "context")) return false;
    p->t += 2;
    return true;
}

static bool parse_extends(JParser *p, JNode *n) { return jparse_expression(p, true, &n->a); }

static bool parse_include(JParser *p, JNode *n) {
    if (!jparse_expression(p, true, &n->a)) return false;
    if (jparse_is_name(p, "ignore") && p->t[1].type == JT_NAME && str_eqc(p->t[1].text, "missing"))
        p->t += 2;
    parse_context_clause(p);
    return true;
}

static bool parse_import(JParser *p, JNode *n) {
    JNode *name;
    if (!jparse_expression(p, true, &n->a) || !jparse_expect_name(p, "as")) return false;
    if (!jparse_target_name(p, JCTX_STORE, &name) || !jparse_push(p, n, &n->items, name))
        return false;
    parse_context_clause(p);
    return true;
}

static bool parse_from(JParser *p, JNode *n) {
    JNode *name;
    if (!jparse_expression(p, true, &n->a) || !jparse_expect_name(p, "import")) return false;
    for (;;) {
        if (n->items.n && !jparse_expect(p, JT_COMMA)) return false;
        if (n->items.n && parse_context_clause(p)) return true;
        if (p->t->type == JT_NAME && str_starts(p->t->text, STR("__")))
            return jparse_fail_token(p, "a name without leading double underscore");
        if (!jparse_target_name(p, JCTX_STORE, &name)) return false;
        if (jparse_skip_name(p, "as") && !jparse_target_name(p, JCTX_STORE, &name)) return false;
        if (!jparse_push(p, n, &n->items, name)) return false;
        if (parse_context_clause(p) || p->t->type != JT_COMMA) return true;
    }
}

static const struct {
    const char *word;
    JKind kind;
    bool (*parse)(JParser *p, JNode *n);
} statements[] = {
    {"for", JN_FOR, parse_for},
    {"if", JN_IF, parse_if},
    {"set", JN_SET, parse_set},
    {"macro", JN_MACRO, parse_macro},
    {"call", JN_CALLBLOCK, parse_callblock},
    {"generation", JN_GENERATION, parse_generation},
    {"break", JN_BREAK, parse_nothing},
    {"continue", JN_CONTINUE, parse_nothing},
    {"filter", JN_FILTERBLOCK, parse_filterblock},
    {"with", JN_WITH, parse_with},
    {"print", JN_OUTPUT, parse_print},
    {"block", JN_BLOCK, parse_block},
    {"autoescape", JN_AUTOESCAPE, parse_autoescape},
    {"extends", JN_EXTENDS, parse_extends},
    {"include", JN_INCLUDE, parse_include},
    {"import", JN_IMPORT, parse_import},
    {"from", JN_IMPORT, parse_from},
};

static bool parse_statement(JParser *p, JNode **out) {
    if (p->t->type != JT_NAME) return jparse_fail_token(p, "a tag name");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!str_eqc(p->t->text, statements[i].word)) continue;
        JNode *n = jparse_node(p, statements[i].kind);
        if (!n || !jparse_enter(p)) return false;
        p->t++;
        if (!statements[i].parse(p, n)) return false;
        p->depth--;
        *out = n;
        return true;
    }
    p->r->line = p->t->line;
    return jrun_fail(p->r, JEXC_SYNTAX, "unknown tag '" STR_F "'", STR_A(p->t->text));
}

static bool parse_output(JParser *p, JNode *output) {
    JNode *n;
    if (p->t->type == JT_DATA) {
        if (!(n = jparse_node(p, JN_DATA)) || !jstr_make(p->r, p->t->text, false, &n->value))
            return false;
        jstr_n_cp(n->value.u.str);
        p->t++;
    } else {
        p->t++;
        if (!jparse_tuple(p, 0, &n) || !jparse_expect(p, JT_VAR_END)) return false;
    }
    return jparse_push(p, output, &output->items, n);
}

static bool at_end_word(const JParser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (jparse_is_name(p, *ends)) return true;
    return false;
}

static bool parse_body(JParser *p, JNode *owner, JNodes *body, const char *const *ends) {
    JNode *output = NULL, *n = NULL;
    while (p->t->type != JT_EOF) {
        if (p->t->type != JT_BLOCK_BEGIN) {
            if (!output &&
                (!(output = jparse_node(p, JN_OUTPUT)) || !jparse_push(p, owner, body, output)))
                return false;
            if (!parse_output(p, output) || !jparse_adopt(p, owner, output)) return false;
            continue;
        }
        output = NULL;
        p->t++;
        if (at_end_word(p, ends)) return true;
        if (!parse_statement(p, &n) || !jparse_push(p, owner, body, n)) return false;
        if (!jparse_expect(p, JT_BLOCK_END)) return false;
    }
    return true;
}

bool jparse_run(JRun *r, const JTokens *tokens, JNodes *body) {
    JParser p = {.r = r, .t = tokens->t};
    JNode *root = jparse_node(&p, JN_OUTPUT);
    return root && parse_body(&p, root, body, NULL);
}
