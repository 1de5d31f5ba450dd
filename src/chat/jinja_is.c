/* The tests: `x is defined`, `x is divisibleby 3`, ... */
#include "chat/jinja_eval.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_text.h"
#include "chat/jinja_casing.h"

static bool yes(JVal *out, bool b) { return *out = jval_bool(b), true; }

static bool is_defined(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type != J_UNDEF);
}
static bool is_undefined(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_UNDEF);
}
static bool is_none(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_NONE);
}
static bool is_boolean(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_BOOL);
}
static bool is_true(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_BOOL && c->self.u.b);
}
static bool is_false(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_BOOL && !c->self.u.b);
}
static bool is_float(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_FLOAT);
}
static bool is_string(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_STR);
}
static bool is_mapping(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_DICT);
}
static bool is_number(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, jval_is_num(c->self));
}
static bool is_iterable(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, jiter_can(c->self));
}

static bool is_integer(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_INT || c->self.type == J_BIG);
}

static bool is_sequence(JEval *e, JCall *c, JVal *out) {
    JType t = c->self.type;
    (void)e;
    return yes(out, t == J_STR || t == J_BYTES || t == J_LIST || t == J_TUPLE || t == J_DICT ||
                        t == J_RANGE || t == J_UNDEF);
}

static bool is_callable(JEval *e, JCall *c, JVal *out) {
    JType t = c->self.type;
    (void)e;
    return yes(out, t == J_FUNC || t == J_MACRO || t == J_METHOD || t == J_JOINER || t == J_LOOP ||
                        t == J_BLOCK || t == J_UNDEF);
}

static bool is_escaped(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, c->self.type == J_STR && c->self.u.str->markup);
}

static bool remainder_is(JEval *e, JVal v, JVal by, int64_t want, JVal *out) {
    JVal rem;
    bool same;
    if (!jops_binary(e, JN_MOD, v, by, &rem) || !jval_equal(e->r, rem, jval_int(want), &same))
        return false;
    return yes(out, same);
}

static bool is_odd(JEval *e, JCall *c, JVal *out) {
    return remainder_is(e, c->self, jval_int(2), 1, out);
}
static bool is_even(JEval *e, JCall *c, JVal *out) {
    return remainder_is(e, c->self, jval_int(2), 0, out);
}
static bool is_divisibleby(JEval *e, JCall *c, JVal *out) {
    return remainder_is(e, c->self, c->v[0], 0, out);
}

static bool is_cased(JEval *e, JCall *c, bool upper, JVal *out) {
    JVal s;
    if (!jrepr_str(e->r, c->self, &s) || !jrun_spend(e->r, s.u.str->s.n / 16)) return false;
    return yes(out, upper ? jcasing_is_upper(s.u.str->s) : jcasing_is_lower(s.u.str->s));
}

static bool is_lower(JEval *e, JCall *c, JVal *out) { return is_cased(e, c, false, out); }
static bool is_upper(JEval *e, JCall *c, JVal *out) { return is_cased(e, c, true, out); }

static bool is_named(JEval *e, JCall *c, bool filter, JVal *out) {
    uint64_t h;
    if (!jval_hash(e->r, c->self, &h)) return false;
    if (c->self.type != J_STR) return yes(out, false);
    return yes(out, (filter ? jfilter_find : jtest_find)(c->self.u.str->s) != NULL);
}

static bool is_filter(JEval *e, JCall *c, JVal *out) { return is_named(e, c, true, out); }
static bool is_test(JEval *e, JCall *c, JVal *out) { return is_named(e, c, false, out); }
static bool is_sameas(JEval *e, JCall *c, JVal *out) {
    return (void)e, yes(out, jval_same(c->self, c->v[0]));
}

static bool is_compared(JEval *e, JCall *c, JOper op, JVal *out) {
    bool b;
    return jops_compare(e, op, c->self, c->v[0], &b) && yes(out, b);
}

static bool is_in(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_IN, out); }
static bool is_eq(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_EQ, out); }
static bool is_ne(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_NE, out); }
static bool is_lt(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_LT, out); }
static bool is_le(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_LE, out); }
static bool is_gt(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_GT, out); }
static bool is_ge(JEval *e, JCall *c, JVal *out) { return is_compared(e, c, JOP_GE, out); }

static const JBuiltin entries[] = {
    {"defined", is_defined, "", 0, false},
    {"undefined", is_undefined, "", 0, false},
    {"none", is_none, "", 0, false},
    {"string", is_string, "", 0, false},
    {"mapping", is_mapping, "", 0, false},
    {"iterable", is_iterable, "", 0, false},
    {"sequence", is_sequence, "", 0, false},
    {"true", is_true, "", 0, false},
    {"false", is_false, "", 0, false},
    {"boolean", is_boolean, "", 0, false},
    {"number", is_number, "", 0, false},
    {"integer", is_integer, "", 0, false},
    {"float", is_float, "", 0, false},
    {"odd", is_odd, "", 0, false},
    {"even", is_even, "", 0, false},
    {"divisibleby", is_divisibleby, "num", 1, false},
    {"equalto", is_eq, "!b", 1, false},
    {"eq", is_eq, "!b", 1, false},
    {"==", is_eq, "!b", 1, false},
    {"ne", is_ne, "!b", 1, false},
    {"!=", is_ne, "!b", 1, false},
    {"lt", is_lt, "!b", 1, false},
    {"lessthan", is_lt, "!b", 1, false},
    {"<", is_lt, "!b", 1, false},
    {"le", is_le, "!b", 1, false},
    {"<=", is_le, "!b", 1, false},
    {"gt", is_gt, "!b", 1, false},
    {"greaterthan", is_gt, "!b", 1, false},
    {">", is_gt, "!b", 1, false},
    {"ge", is_ge, "!b", 1, false},
    {">=", is_ge, "!b", 1, false},
    {"in", is_in, "seq", 1, false},
    {"lower", is_lower, "", 0, false},
    {"upper", is_upper, "", 0, false},
    {"callable", is_callable, "!", 0, false},
    {"sameas", is_sameas, "other", 1, false},
    {"escaped", is_escaped, "", 0, false},
    {"filter", is_filter, "", 0, false},
    {"test", is_test, "", 0, false},
};
const JBuiltinTable jtests = {entries, sizeof entries / sizeof *entries};
