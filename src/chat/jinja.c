#include "chat/jinja.h"

#include <string.h>

#include "base/mem.h"
#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_float.h"
#include "chat/jinja_lex.h"
#include "chat/jinja_parse.h"
#include "chat/jinja_scope.h"

enum {
    COMPILE_MAX_OPS = 250 * 1000, /* ten times what the largest published templates need */
    COMPILE_MAX_BYTES = 64 << 20,
    RENDER_MAX_BYTES = 512 << 20,
    CONTEXT_MAX_DEPTH = 512
};

struct Jinja {
    Arena arena;
    JTree tree;
    Str source;
};

bool jinja_compile(Str source, Jinja **out, Err *err) {
    *out = NULL;
    if (source.n > JINJA_MAX_SOURCE)
        return err_set(err, ERR_LIMIT, "template has %zu bytes, at most %d are accepted", source.n,
                       JINJA_MAX_SOURCE);
    Jinja *t = mem_calloc(1, sizeof *t);
    if (!t) return err_nomem(err, "a chat template");
    t->arena.max_bytes = COMPILE_MAX_BYTES;
    JRun r = {.arena = &t->arena, .err = err, .ops = COMPILE_MAX_OPS};
    JTokens tokens;
    t->source = arena_dup(&t->arena, source);
    bool ok = t->source.p || !source.n || jrun_fail_nomem(&r);
    ok = ok && jlex_run(&r, source, &tokens) && jparse_run(&r, &tokens, &t->tree.body) &&
         jscope_resolve(&r, &t->tree);
    if (ok)
        *out = t;
    else
        jinja_free(t);
    return ok;
}

void jinja_free(Jinja *t) {
    if (!t) return;
    arena_deinit(&t->arena);
    mem_free(t);
}

Str jinja_source(const Jinja *t) { return t->source; }

/* JSON -> values. */
typedef struct Convert {
    JRun *r;
    const JinjaInput *in;
    bool trusted;
} Convert;

static bool convert_number(JRun *r, Str text, JVal *out) {
    bool whole = true;
    double f;
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '.' || text.p[i] == 'e' || text.p[i] == 'E') whole = false;
    if (!whole) {
        if (!jfloat_parse(text, &f))
            return jrun_fail(r, JEXC_VALUE, "the context has a bad number: " STR_F, STR_A(text));
        *out = jval_float(f);
        return true;
    }
    bool neg = text.n && text.p[0] == '-';
    return jint_parse(r, str_from(text, neg), 10, neg, out);
}

static bool role_is_trusted(const Convert *c, const Json *j) {
    if (!str_eqc(j->key, "role")) return false;
    for (size_t i = 0; i < c->in->n_trusted_roles; i++)
        if (str_eq(j->text, c->in->trusted_roles[i])) return true;
    return false;
}

static bool convert(const Convert *c, const Json *j, int depth, JVal *out) {
    JRun *r = c->r;
    if (depth > CONTEXT_MAX_DEPTH)
        return jrun_fail(r, JEXC_LIMIT, "the context is nested too deeply");
    switch (j->type) {
    case JSON_NULL:
        *out = jval_none();
        return true;
    case JSON_FALSE:
        *out = jval_bool(false);
        return true;
    case JSON_TRUE:
        *out = jval_bool(true);
        return true;
    case JSON_NUMBER:
        return convert_number(r, j->text, out);
    case JSON_STRING:
        return jstr_make(r, j->text, !c->trusted && !role_is_trusted(c, j), out);
    case JSON_ARRAY: {
        JList *l = jlist_new(r, j->n);
        if (!l) return false;
        for (; l->n < j->n; l->n++)
            if (!convert(c, &j->items[l->n], depth + 1, &l->v[l->n])) return false;
        *out = jval_list(l);
        return true;
    }
    case JSON_OBJECT: {
        JDict *d = jdict_new(r, j->n);
        if (!d) return false;
        for (size_t i = 0; i < j->n; i++) {
            JVal key, val;
            if (!jstr_make(r, j->items[i].key, !c->trusted, &key)) return false;
            if (!convert(c, &j->items[i], depth + 1, &val) || !jdict_put(r, d, key, val))
                return false;
        }
        *out = jval_dict(d);
        return true;
    }
    }
    return jrun_fail(r, JEXC_VALUE, "the context holds an unknown kind of value");
}

static uint64_t json_weight(const Json *j, int depth) {
    uint64_t n = 16 + j->key.n + j->text.n;
    for (size_t i = 0; depth < CONTEXT_MAX_DEPTH && i < j->n; i++)
        n += json_weight(&j->items[i], depth + 1);
    return n;
}

static uint64_t budget_of(const JinjaInput *in) {
    if (in->max_ops) return in->max_ops;
    uint64_t weight = in->context ? json_weight(in->context, 0) : 0;
    for (size_t i = 0; i < in->n_vars; i++)
        weight += in->vars[i].value ? json_weight(in->vars[i].value, 0) : in->vars[i].text.n;
    return JINJA_MAX_OPS + JINJA_OPS_PER_BYTE * weight;
}

static bool convert_input(JRun *r, const JinjaInput *in, JDict **out) {
    Convert c = {r, in, false};
    JVal v;
    if (in->context && in->context->type != JSON_OBJECT)
        return jrun_fail(r, JEXC_VALUE, "the context must be an object, not %s",
                         jsontype_name(in->context->type));
    JDict *d = jdict_new(r, (in->context ? in->context->n : 0) + in->n_vars);
    if (!d) return false;
    for (size_t i = 0; in->context && i < in->context->n; i++) {
        const Json *member = &in->context->items[i];
        if (!convert(&c, member, 0, &v) || !jdict_put_str(r, d, member->key, v)) return false;
    }
    for (size_t i = 0; i < in->n_vars; i++) {
        const JinjaVar *var = &in->vars[i];
        c.trusted = var->trusted;
        if (!(var->value ? convert(&c, var->value, 0, &v)
                         : jstr_make(r, var->text, !var->trusted, &v)))
            return false;
        if (!jdict_put_str(r, d, var->name, v)) return false;
    }
    *out = d;
    return true;
}

/* Copies what was built out of the arena, with its spans. */
static bool output_take(JRun *r, const JBuild *b, JinjaOutput *out) {
    buf_put(&out->text, (Str){b->p, b->n});
    out->spans = mem_calloc(b->n_segs + 1, sizeof *out->spans);
    if (out->text.failed || !out->spans) return jrun_fail_nomem(r);
    size_t from = 0;
    for (size_t i = 0; i < b->n_segs; i++) {
        out->spans[i].text = (Str){out->text.p + from, b->segs[i].end - from};
        out->spans[i].from_template = !b->segs[i].user;
        from = b->segs[i].end;
    }
    out->n_spans = b->n_segs;
    return true;
}

bool jinja_render(const Jinja *t, const JinjaInput *in, JinjaOutput *out, Err *err) {
    Arena arena = {.max_bytes = RENDER_MAX_BYTES};
    JinjaOutput empty = {
        .text = {.max = in->max_output_bytes ? in->max_output_bytes : JINJA_MAX_OUTPUT}};
    uint64_t budget = budget_of(in);
    *out = empty;
    JRun r = {.arena = &arena, .err = err, .ops = budget, .raised = &out->message};
    JTime now;
    JBuild text = {.max = out->text.max};
    JDict *input = NULL;
    bool ok = false;
    if (in->now && !jtime_parse(str_c(in->now), &now)) {
        err_set(err, ERR_INPUT, "the time '%.40s' is not of the form 2026-01-02T03:04:05", in->now);
        goto done;
    }
    if (!convert_input(&r, in, &input)) goto done;
    JEval e = {
        .r = &r, .tree = &t->tree, .input = input, .now = in->now ? &now : NULL, .out = &text};
    ok = jexec_template(&e) && output_take(&r, &text, out);
    out->raised = !ok && r.exc == JEXC_RAISE;
done:
    out->ops = budget - r.ops;
    arena_deinit(&arena);
    return ok;
}

void jinja_output_deinit(JinjaOutput *out) {
    buf_deinit(&out->text);
    buf_deinit(&out->message);
    mem_free(out->spans);
    *out = (JinjaOutput){0};
}
