/* Methods of everything but str: list, tuple, dict and its views, range, numbers, bytes, loop,
 * cycler. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "chat/jinja_big.h"
#include "chat/jinja_method.h"

static bool list_index(JEval *e, JCall *c, JVal *out) {
    const JList *l = c->self.u.list;
    int64_t lo, hi, n = (int64_t)l->n;
    if (!jarg_int(e->r, c->v[1], 0, &lo) || !jarg_int(e->r, c->v[2], INT64_MAX, &hi)) return false;
    if (lo < 0) lo = lo < -n ? 0 : lo + n;
    if (hi < 0) hi = hi < -n ? 0 : hi + n;
    for (int64_t i = lo; i < hi && i < n; i++) {
        bool same;
        if (!jrun_spend(e->r, 1) || !jval_equal(e->r, l->v[i], c->v[0], &same)) return false;
        if (same) return *out = jval_int(i), true;
    }
    return jrun_fail(e->r, JEXC_VALUE, "the value is not in the %s", jval_type_name(c->self));
}

static bool list_count(JEval *e, JCall *c, JVal *out) {
    const JList *l = c->self.u.list;
    int64_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool same;
        if (!jrun_spend(e->r, 1) || !jval_equal(e->r, l->v[i], c->v[0], &same)) return false;
        n += same;
    }
    *out = jval_int(n);
    return true;
}

static bool copy_self(JEval *e, JCall *c, JVal *out) { /* values are immutable here */
    (void)e;
    *out = c->self;
    return true;
}

static const JBuiltin list_entries[] = {
    {"index", list_index, "!value start stop", 1, false},
    {"count", list_count, "!value", 1, false},
    {"copy", copy_self, "!", 0, false},
};
const JBuiltinTable jmethods_list = {list_entries, 3};
const JBuiltinTable jmethods_tuple = {list_entries, 2};

static bool dict_get(JEval *e, JCall *c, JVal *out) {
    bool found;
    if (!jdict_get(e->r, c->self.u.dict, c->v[0], out, &found)) return false;
    if (!found) *out = c->v[1].type == J_MISSING ? jval_none() : c->v[1];
    return true;
}

static bool dict_view(JEval *e, JCall *c, JViewKind kind, JVal *out) {
    JView *v = jrun_new(e->r, JView);
    if (!v) return false;
    *v = (JView){c->self.u.dict, kind};
    *out = (JVal){.type = J_VIEW, .u.view = v};
    return true;
}

static bool dict_items(JEval *e, JCall *c, JVal *out) { return dict_view(e, c, JVIEW_ITEMS, out); }
static bool dict_keys(JEval *e, JCall *c, JVal *out) { return dict_view(e, c, JVIEW_KEYS, out); }
static bool dict_values(JEval *e, JCall *c, JVal *out) {
    return dict_view(e, c, JVIEW_VALUES, out);
}

static bool dict_fromkeys(JEval *e, JCall *c, JVal *out) {
    JIter *it;
    JDict *d = jdict_new(e->r, 0);
    bool done;
    if (!d || !jiter_open(e->r, c->v[0], &it)) return false;
    for (;;) {
        JVal key;
        if (!jiter_next(e->r, it, &key, &done)) return false;
        if (done) return *out = jval_dict(d), true;
        if (!jdict_put(e->r, d, key, c->v[1].type == J_MISSING ? jval_none() : c->v[1]))
            return false;
    }
}

static const JBuiltin dict_entries[] = {
    {"fromkeys", dict_fromkeys, "!iterable value", 1, false},
    {"get", dict_get, "!key default", 1, false},
    {"items", dict_items, "!", 0, false},
    {"keys", dict_keys, "!", 0, false},
    {"values", dict_values, "!", 0, false},
    {"copy", copy_self, "!", 0, false},
};
const JBuiltinTable jmethods_dict = {dict_entries, sizeof dict_entries / sizeof *dict_entries};
const JBuiltinTable jmethods_dict_type = {dict_entries, 1};

static bool view_isdisjoint(JEval *e, JCall *c, JVal *out) {
    JIter *it;
    bool done, hit = false;
    if (c->self.u.view->kind == JVIEW_VALUES)
        return jrun_fail(e->r, JEXC_TYPE, "dict_values has no isdisjoint");
    if (!jiter_open(e->r, c->v[0], &it)) return false;
    while (!hit) {
        JVal v;
        if (!jiter_next(e->r, it, &v, &done)) return false;
        if (done) break;
        if (!jval_contains(e->r, v, c->self, &hit)) return false;
    }
    *out = jval_bool(!hit);
    return true;
}

static const JBuiltin view_entries[] = {{"isdisjoint", view_isdisjoint, "!other", 1, false}};
const JBuiltinTable jmethods_view = {view_entries, 1};

static bool range_count(JEval *e, JCall *c, JVal *out) {
    bool in;
    if (!jval_contains(e->r, c->v[0], c->self, &in)) return false;
    *out = jval_int(in);
    return true;
}

static bool range_index(JEval *e, JCall *c, JVal *out) {
    bool in;
    JVal off;
    const JRange *g = c->self.u.range;
    if (!jval_contains(e->r, c->v[0], c->self, &in)) return false;
    if (!in || !jval_is_int(c->v[0]))
        return jrun_fail(e->r, JEXC_VALUE, "the value is not in the range");
    return jint_sub(e->r, c->v[0], jval_int(g->start), &off) &&
           jint_divmod(e->r, off, jval_int(g->step), out, NULL);
}

static const JBuiltin range_entries[] = {{"count", range_count, "!value", 1, false},
                                         {"index", range_index, "!value", 1, false}};
const JBuiltinTable jmethods_range = {range_entries, 2};

static bool int_bit_length(JEval *e, JCall *c, JVal *out) {
    (void)e;
    *out = jval_int((int64_t)jint_bit_length(c->self));
    return true;
}

static bool int_bit_count(JEval *e, JCall *c, JVal *out) {
    int64_t i, n = 0;
    (void)e;
    if (jint_to_i64(c->self, &i))
        n = __builtin_popcountll(i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
    else
        for (size_t k = 0; k < c->self.u.big->n; k++)
            n += __builtin_popcount(c->self.u.big->limb[k]);
    *out = jval_int(n);
    return true;
}

static bool int_conjugate(JEval *e, JCall *c, JVal *out) {
    (void)e;
    *out = c->self.type == J_BOOL ? jval_int(c->self.u.b) : c->self;
    return true;
}

static bool int_ratio(JEval *e, JCall *c, JVal *out) {
    JVal n = c->self.type == J_BOOL ? jval_int(c->self.u.b) : c->self;
    return jlist_pair(e->r, n, jval_int(1), out);
}

static bool number_is_integer(JEval *e, JCall *c, JVal *out) {
    (void)e;
    *out = jval_bool(c->self.type != J_FLOAT ||
                     (isfinite(c->self.u.f) && c->self.u.f == trunc(c->self.u.f)));
    return true;
}

static bool float_ratio(JEval *e, JCall *c, JVal *out) {
    double f = c->self.u.f;
    JVal num, den = jval_int(1), two = jval_int(2);
    int shift = 0;
    if (!isfinite(f))
        return jrun_fail(e->r, JEXC_VALUE, "cannot convert infinity or NaN to integer ratio");
    while (f != trunc(f)) {
        f *= 2;
        shift++;
    }
    if (!jint_from_double(e->r, f, &num) || !jint_pow(e->r, two, (uint64_t)shift, &den))
        return false;
    return jlist_pair(e->r, num, den, out);
}

static const JBuiltin int_entries[] = {
    {"bit_length", int_bit_length, "!", 0, false},
    {"bit_count", int_bit_count, "!", 0, false},
    {"conjugate", int_conjugate, "!", 0, false},
    {"as_integer_ratio", int_ratio, "!", 0, false},
};
const JBuiltinTable jmethods_int = {int_entries, sizeof int_entries / sizeof *int_entries};

static const JBuiltin float_entries[] = {
    {"is_integer", number_is_integer, "!", 0, false},
    {"conjugate", copy_self, "!", 0, false},
    {"as_integer_ratio", float_ratio, "!", 0, false},
};
const JBuiltinTable jmethods_float = {float_entries, sizeof float_entries / sizeof *float_entries};

static bool bytes_decode(JEval *e, JCall *c, JVal *out) {
    const JStr *s = c->self.u.str;
    JStr *name;
    Str enc = STR("utf-8");
    if (c->v[0].type != J_MISSING) {
        if (!jarg_str(e->r, c->v[0], "decode() argument", &name)) return false;
        enc = name->s;
    }
    if (!str_ieq(enc, STR("utf-8")) && !str_ieq(enc, STR("utf8")) && !str_ieq(enc, STR("ascii")))
        return jrun_fail(e->r, JEXC_LOOKUP, "encoding '" STR_F "' is not supported (utf-8, ascii)",
                         STR_A(enc));
    if (!utf8_valid(s->s)) return jrun_fail(e->r, JEXC_VALUE, "the bytes are not valid UTF-8");
    JStr *copy = jrun_new(e->r, JStr);
    if (!copy) return false;
    *copy = *s;
    copy->n_cp = JSTR_COUNT_LATER;
    *out = jval_str(copy);
    return true;
}

static bool bytes_hex(JEval *e, JCall *c, JVal *out) {
    static const char digit[] = "0123456789abcdef";
    const JStr *s = c->self.u.str;
    JBuild b = {0};
    for (size_t i = 0; i < s->s.n && !b.failed; i++) {
        unsigned char byte = (unsigned char)s->s.p[i];
        jbuild_putc(e->r, &b, digit[byte >> 4], jstr_has_user(s));
        jbuild_putc(e->r, &b, digit[byte & 15], jstr_has_user(s));
    }
    return jrun_spend(e->r, s->s.n / 8) && jbuild_done(e->r, &b, out);
}

static const JBuiltin bytes_entries[] = {
    {"decode", bytes_decode, "encoding errors", 0, false},
    {"hex", bytes_hex, "!", 0, false},
};
const JBuiltinTable jmethods_bytes = {bytes_entries, 2};

static bool loop_cycle(JEval *e, JCall *c, JVal *out) {
    if (c->kwargs && c->kwargs->n)
        return jrun_fail(e->r, JEXC_TYPE, "loop.cycle takes no keyword arguments");
    if (!c->n_args) return jrun_fail(e->r, JEXC_TYPE, "no items for cycling given");
    *out = c->args[(size_t)c->self.u.loop->index0 % c->n_args];
    return true;
}

static bool loop_changed(JEval *e, JCall *c, JVal *out) {
    bool changed;
    if (c->kwargs && c->kwargs->n)
        return jrun_fail(e->r, JEXC_TYPE, "loop.changed takes no keyword arguments");
    if (!jloop_changed(e->r, c->self.u.loop, c->args, c->n_args, &changed)) return false;
    *out = jval_bool(changed);
    return true;
}

static const JBuiltin loop_entries[] = {{"cycle", loop_cycle, "", 0, true},
                                        {"changed", loop_changed, "", 0, true}};
const JBuiltinTable jmethods_loop = {loop_entries, 2};

static bool cycler_next(JEval *e, JCall *c, JVal *out) {
    JCycler *y = c->self.u.cycler;
    (void)e;
    *out = y->items->v[y->at];
    y->at = (y->at + 1) % y->items->n;
    return true;
}

static bool cycler_reset(JEval *e, JCall *c, JVal *out) {
    (void)e;
    c->self.u.cycler->at = 0;
    *out = jval_none();
    return true;
}

static const JBuiltin cycler_entries[] = {{"next", cycler_next, "", 0, false},
                                          {"reset", cycler_reset, "", 0, false}};
const JBuiltinTable jmethods_cycler = {cycler_entries, 2};
