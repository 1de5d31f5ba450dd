#include "chat/jinja_global.h"

#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_repr.h"

static bool global_range(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    int64_t at[3] = {0, 0, 1};
    if (!c->n_args || c->n_args > 3 || (c->kwargs && c->kwargs->n))
        return jrun_fail(r, JEXC_TYPE, "range takes 1 to 3 positional arguments");
    for (size_t i = 0; i < c->n_args; i++)
        if (!jarg_int(r, c->args[i], 0, &at[c->n_args == 1 ? 1 : i])) return false;
    if (!at[2]) return jrun_fail(r, JEXC_VALUE, "range: the step must not be zero");
    uint64_t n = 0;
    if (at[2] > 0 && at[0] < at[1])
        n = ((uint64_t)at[1] - (uint64_t)at[0] - 1) / (uint64_t)at[2] + 1;
    if (at[2] < 0 && at[1] < at[0])
        n = ((uint64_t)at[0] - (uint64_t)at[1] - 1) / (0 - (uint64_t)at[2]) + 1;
    if (n > JGLOBAL_MAX_RANGE)
        return jrun_fail(r, JEXC_OVERFLOW, "range of %llu elements, at most %d are accepted",
                         (unsigned long long)n, JGLOBAL_MAX_RANGE);
    JRange *g = jrun_new(r, JRange);
    if (!g) return false;
    *g = (JRange){at[0], at[1], at[2], (size_t)n};
    *out = (JVal){.type = J_RANGE, .u.range = g};
    return true;
}

static bool dict_from_pairs(JRun *r, JVal pairs, JDict *d) {
    JIter *it;
    JVal item;
    bool done;
    if (!jiter_open(r, pairs, &it)) return false;
    for (;;) {
        JList *pair;
        if (!jiter_next(r, it, &item, &done)) return false;
        if (done) return true;
        if (!jiter_list(r, item, &pair)) return false;
        if (pair->n != 2)
            return jrun_fail(r, JEXC_VALUE, "dict: an element has length %zu; 2 is required",
                             pair->n);
        if (!jdict_put(r, d, pair->v[0], pair->v[1])) return false;
    }
}

static bool dict_from_call(JRun *r, const JCall *c, JDict **out) {
    JDict *d = jdict_new(r, c->kwargs ? c->kwargs->n : 0);
    if (!d) return false;
    *out = d;
    if (c->n_args > 1)
        return jrun_fail(r, JEXC_TYPE, "dict expected at most 1 argument, got %zu", c->n_args);
    if (c->n_args && c->args[0].type == J_DICT) {
        if (!jdict_merge(r, d, c->args[0].u.dict)) return false;
    } else if (c->n_args && !dict_from_pairs(r, c->args[0], d)) {
        return false;
    }
    return !c->kwargs || jdict_merge(r, d, c->kwargs);
}

static bool global_dict(JEval *e, JCall *c, JVal *out) {
    JDict *d;
    if (!dict_from_call(e->r, c, &d)) return false;
    *out = jval_dict(d);
    return true;
}

static bool global_namespace(JEval *e, JCall *c, JVal *out) {
    JNs *ns = jrun_new(e->r, JNs);
    if (!ns || !dict_from_call(e->r, c, &ns->attrs)) return false;
    *out = (JVal){.type = J_NS, .u.ns = ns};
    return true;
}

static bool global_cycler(JEval *e, JCall *c, JVal *out) {
    if (!c->n_args)
        return jrun_fail(e->r, JEXC_RUNTIME, "cycler: at least one item has to be provided");
    if (c->kwargs && c->kwargs->n)
        return jrun_fail(e->r, JEXC_TYPE, "cycler takes no keyword arguments");
    JCycler *y = jrun_new(e->r, JCycler);
    if (!y || !(y->items = jlist_new(e->r, c->n_args))) return false;
    memcpy(y->items->v, c->args, c->n_args * sizeof *c->args);
    y->items->n = c->n_args;
    *out = (JVal){.type = J_CYCLER, .u.cycler = y};
    return true;
}

static bool global_joiner(JEval *e, JCall *c, JVal *out) {
    JJoiner *j = jrun_new(e->r, JJoiner);
    if (!j) return false;
    j->sep = c->v[0];
    if (j->sep.type == J_MISSING && !jstr_make(e->r, STR(", "), false, &j->sep)) return false;
    *out = (JVal){.type = J_JOINER, .u.joiner = j};
    return true;
}

static bool global_lipsum(JEval *e, JCall *c, JVal *out) {
    (void)c;
    (void)out;
    return jrun_fail(e->r, JEXC_RUNTIME, "lipsum is refused: a prompt must not depend on chance");
}

static bool global_raise(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    (void)out;
    JVal text;
    if (!jrepr_str(r, c->v[0], &text)) return false;
    Str s = text.u.str->s;
    if (r->raised) buf_put(r->raised, s);
    r->exc = JEXC_RAISE;
    return err_set(r->err, ERR_INPUT, "%.*s", (int)(s.n > ERR_MSG_MAX ? ERR_MSG_MAX : s.n),
                   s.p ? s.p : "");
}

static bool global_strftime(JEval *e, JCall *c, JVal *out) {
    JStr *format;
    JTime now;
    if (!jarg_str(e->r, c->v[0], "strftime_now argument", &format)) return false;
    if (!e->now) now = jtime_now();
    return jtime_format(e->r, e->now ? e->now : &now, format, out);
}

static const JFunc functions[] = {
    {{"range", global_range, "", 0, true}},
    {{"dict", global_dict, "", 0, true}},
    {{"namespace", global_namespace, "", 0, true}},
    {{"cycler", global_cycler, "", 0, true}},
    {{"joiner", global_joiner, "sep", 0, false}},
    {{"lipsum", global_lipsum, "", 0, true}},
    {{"raise_exception", global_raise, "message", 1, false}},
    {{"strftime_now", global_strftime, "format", 1, false}},
};

const JFunc *jglobal_find(Str name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (str_eqc(name, functions[i].spec.name)) return &functions[i];
    return NULL;
}

bool jglobal_is_dict(const JFunc *f) { return f->spec.fn == global_dict; }
