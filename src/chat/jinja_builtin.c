#include "chat/jinja_builtin.h"

#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"

static const JBuiltin *table_find(const JBuiltinTable *t, Str name) {
    for (size_t i = 0; i < t->n; i++)
        if (str_eqc(name, t->v[i].name)) return &t->v[i];
    return NULL;
}

const JBuiltin *jfilter_find(Str name) {
    const JBuiltinTable *const tables[] = {&jfilters_text, &jfilters_seq, &jfilters_number,
                                           &jfilters_html};
    const JBuiltin *b = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !b; i++)
        b = table_find(tables[i], name);
    return b;
}

const JBuiltin *jtest_find(Str name) { return table_find(&jtests, name); }

bool jbuiltin_fail_args(JRun *r, const JBuiltin *b, const char *what) {
    return jrun_fail(r, JEXC_TYPE, "%s(): %s", b->name, what);
}

/* The i-th word of "a b c"; empty beyond the end. */
static Str param_name(const char *params, size_t i) {
    Str rest = str_c(params), word = STR_NONE;
    for (size_t k = 0; k <= i; k++)
        if (!str_split(&rest, ' ', &word)) return STR_NONE;
    return word;
}

static size_t n_params(const char *params) {
    size_t n = *params != 0;
    for (; *params; params++) n += *params == ' ';
    return n;
}

static bool bind_keyword(JRun *r, const JBuiltin *b, const char *params, size_t n, JVal key, JVal v,
                         JCall *c) {
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(param_name(params, i), key.u.str->s)) continue;
        if (c->v[i].type != J_MISSING)
            return jbuiltin_fail_args(r, b, "an argument was given twice");
        c->v[i] = v;
        return true;
    }
    return jrun_fail(r, JEXC_TYPE, "%s() got an unexpected keyword argument '" STR_F "'", b->name,
                     STR_A(key.u.str->s));
}

bool jbuiltin_call(JEval *e, const JBuiltin *b, JVal self, const JVal *args, size_t n_args,
                   const JDict *kwargs, JVal *out) {
    JCall c = {.self = self, .args = args, .n_args = n_args, .kwargs = kwargs};
    const char *params = b->params;
    if (!jrun_spend(e->r, 1)) return false;
    if (b->any) return b->fn(e, &c, out);
    bool positional_only = *params == '!';
    if (positional_only) params++;
    size_t n = n_params(params);
    if (n_args > n) return jbuiltin_fail_args(e->r, b, "too many arguments");
    if (n_args) memcpy(c.v, args, n_args * sizeof *args);
    if (kwargs && kwargs->n) {
        if (positional_only)
            return jbuiltin_fail_args(e->r, b, "keyword arguments are not accepted");
        for (size_t i = 0; i < kwargs->n; i++)
            if (!bind_keyword(e->r, b, params, n, kwargs->keys[i], kwargs->vals[i], &c))
                return false;
    }
    for (size_t i = 0; i < b->n_required; i++)
        if (c.v[i].type == J_MISSING) return jbuiltin_fail_args(e->r, b, "an argument is missing");
    return b->fn(e, &c, out);
}

bool jarg_int(JRun *r, JVal v, int64_t otherwise, int64_t *out) {
    if (v.type == J_MISSING) return *out = otherwise, true;
    if (v.type == J_UNDEF) return jval_fail_undef(r, v);
    if (!jval_is_int(v))
        return jrun_fail(r, JEXC_TYPE, "'%s' object cannot be interpreted as an integer",
                         jval_type_name(v));
    *out = jint_clamp(v);
    return true;
}

bool jarg_index(JRun *r, JVal v, int64_t otherwise, int64_t *out) {
    if (v.type == J_NONE) return *out = otherwise, true;
    return jarg_int(r, v, otherwise, out);
}

bool jarg_str(JRun *r, JVal v, const char *what, JStr **out) {
    if (v.type != J_STR)
        return jrun_fail(r, JEXC_TYPE, "%s must be str, not %s", what, jval_type_name(v));
    *out = v.u.str;
    return true;
}
