#include <math.h>

#include "base/mem.h"
#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_format.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"

static bool ops_fail(JRun *r, const char *op, JVal a, JVal b) {
    return jrun_fail(r, JEXC_TYPE, "unsupported operand type(s) for %s: '%s' and '%s'", op,
                     jval_type_name(a), jval_type_name(b));
}

static bool to_double(JRun *r, JVal v, double *out) {
    if (v.type == J_FLOAT) return *out = v.u.f, true;
    return jint_to_double(r, v, out);
}

static bool concat_strings(JRun *r, JVal a, JVal b, JVal *out) {
    bool markup = a.u.str->markup || b.u.str->markup;
    JBuild buf = {0};
    if (markup && (!jhtml_escape(r, a, &a) || !jhtml_escape(r, b, &b))) return false;
    jbuild_put_jstr(r, &buf, a.u.str);
    jbuild_put_jstr(r, &buf, b.u.str);
    return jbuild_done(r, &buf, out) && (!markup || jstr_as_markup(r, *out, true, out));
}

static bool concat_lists(JRun *r, const JList *a, const JList *b, JType type, JVal *out) {
    JList *l = jlist_new(r, a->n + b->n);
    if (!l || !jrun_spend(r, (a->n + b->n) / 8)) return false;
    for (size_t i = 0; i < a->n; i++) l->v[l->n++] = a->v[i];
    for (size_t i = 0; i < b->n; i++) l->v[l->n++] = b->v[i];
    *out = (JVal){.type = type, .u.list = l};
    return true;
}

static bool ops_add(JRun *r, JVal a, JVal b, JVal *out) {
    double x, y;
    if (jval_is_int(a) && jval_is_int(b)) return jint_add(r, a, b, out);
    if (jval_is_num(a) && jval_is_num(b)) {
        if (!to_double(r, a, &x) || !to_double(r, b, &y)) return false;
        return *out = jval_float(x + y), true;
    }
    if (a.type == J_STR && b.type == J_STR) return concat_strings(r, a, b, out);
    if (a.type == b.type && jval_is_seq(a)) return concat_lists(r, a.u.list, b.u.list, a.type, out);
    if (a.type == J_STR || jval_is_seq(a))
        return jrun_fail(r, JEXC_TYPE, "can only concatenate %s (not \"%s\") to %s",
                         jval_type_name(a), jval_type_name(b), jval_type_name(a));
    return ops_fail(r, "+", a, b);
}

static bool repeat(JRun *r, JVal v, JVal count, JVal *out) {
    int64_t n = jint_clamp(count);
    if (n < 0) n = 0;
    if (v.type == J_STR) {
        JBuild b = {0};
        jbuild_fill(r, &b, v.u.str, (size_t)n);
        return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, v.u.str->markup, out);
    }
    size_t total;
    const JList *from = v.u.list;
    if (!size_mul(from->n, (size_t)n, &total))
        return jrun_fail(r, JEXC_LIMIT, "a list of too many elements");
    JList *l = jlist_new(r, total);
    if (!l || !jrun_spend(r, total / 8)) return false;
    for (; l->n < total; l->n++) l->v[l->n] = from->v[l->n % from->n];
    *out = (JVal){.type = v.type, .u.list = l};
    return true;
}

static bool ops_mul(JRun *r, JVal a, JVal b, JVal *out) {
    double x, y;
    if (jval_is_int(a) && jval_is_int(b)) return jint_mul(r, a, b, out);
    if (jval_is_num(a) && jval_is_num(b)) {
        if (!to_double(r, a, &x) || !to_double(r, b, &y)) return false;
        return *out = jval_float(x * y), true;
    }
    if ((a.type == J_STR || jval_is_seq(a)) && jval_is_int(b)) return repeat(r, a, b, out);
    if ((b.type == J_STR || jval_is_seq(b)) && jval_is_int(a)) return repeat(r, b, a, out);
    return ops_fail(r, "*", a, b);
}

static double float_floordiv(double x, double y, double *mod) { /* as CPython's float divmod */
    double m = fmod(x, y), div = (x - m) / y, whole;
    if (m != 0) {
        if ((y < 0) != (m < 0)) {
            m += y;
            div -= 1;
        }
    } else {
        m = copysign(0, y);
    }
    whole = div != 0 ? floor(div) : copysign(0, x / y);
    if (div != 0 && div - whole > 0.5) whole += 1;
    *mod = m;
    return whole;
}

static bool ops_divide(JRun *r, JKind op, JVal a, JVal b, JVal *out) {
    const char *sign = op == JN_DIV ? "/" : op == JN_FLOORDIV ? "//" : "%";
    double x, y, mod;
    if (!jval_is_num(a) || !jval_is_num(b)) return ops_fail(r, sign, a, b);
    if (jval_is_int(a) && jval_is_int(b)) {
        if (op == JN_DIV) return jint_truediv(r, a, b, &x) && (*out = jval_float(x), true);
        return op == JN_MOD ? jint_divmod(r, a, b, NULL, out) : jint_divmod(r, a, b, out, NULL);
    }
    if (!to_double(r, a, &x) || !to_double(r, b, &y)) return false;
    if (y == 0) return jrun_fail(r, JEXC_ZERODIV, "float division by zero");
    if (op == JN_DIV) return *out = jval_float(x / y), true;
    double whole = float_floordiv(x, y, &mod);
    *out = jval_float(op == JN_MOD ? mod : whole);
    return true;
}

static bool ops_pow(JRun *r, JVal a, JVal b, JVal *out) {
    double x, y;
    if (!jval_is_num(a) || !jval_is_num(b)) return ops_fail(r, "**", a, b);
    if (jval_is_int(a) && jval_is_int(b) && jint_sign(b) >= 0) {
        int64_t base = jint_clamp(a);
        if (base >= -1 && base <= 1) { /* any exponent will do */
            JVal two = jval_int(2), parity;
            if (jint_sign(b) == 0 || base == 1) return *out = jval_int(1), true;
            if (base == 0) return *out = jval_int(0), true;
            if (!jint_divmod(r, b, two, NULL, &parity)) return false;
            return *out = jval_int(jint_sign(parity) ? -1 : 1), true;
        }
        if (b.type == J_BIG) return jrun_fail(r, JEXC_LIMIT, "an exponent that large");
        return jint_pow(r, a, (uint64_t)jint_clamp(b), out);
    }
    if (!to_double(r, a, &x) || !to_double(r, b, &y)) return false;
    if (x == 0 && y < 0)
        return jrun_fail(r, JEXC_ZERODIV, "0.0 cannot be raised to a negative power");
    if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
        return jrun_fail(
            r, JEXC_VALUE,
            "a negative number to a fractional power is complex, which is not supported");
    double p = pow(x, y);
    if (isinf(p) && isfinite(x) && isfinite(y))
        return jrun_fail(r, JEXC_OVERFLOW, "the result of ** is too large");
    return *out = jval_float(p), true;
}

bool jops_binary(JEval *e, JKind op, JVal a, JVal b, JVal *out) {
    JRun *r = e->r;
    if (op == JN_MOD && a.type == J_STR) return jformat_percent(e, a.u.str, b, out);
    if (a.type == J_UNDEF) return jval_fail_undef(r, a);
    if (b.type == J_UNDEF) return jval_fail_undef(r, b);
    switch (op) {
    case JN_ADD:
        return ops_add(r, a, b, out);
    case JN_SUB: {
        double x, y;
        if (!jval_is_num(a) || !jval_is_num(b)) return ops_fail(r, "-", a, b);
        if (jval_is_int(a) && jval_is_int(b)) return jint_sub(r, a, b, out);
        if (!to_double(r, a, &x) || !to_double(r, b, &y)) return false;
        return *out = jval_float(x - y), true;
    }
    case JN_MUL:
        return ops_mul(r, a, b, out);
    case JN_POW:
        return ops_pow(r, a, b, out);
    default:
        return ops_divide(r, op, a, b, out);
    }
}

bool jops_unary(JEval *e, JKind op, JVal a, JVal *out) {
    if (a.type == J_UNDEF) return jval_fail_undef(e->r, a);
    if (!jval_is_num(a))
        return jrun_fail(e->r, JEXC_TYPE, "bad operand type for unary %s: '%s'",
                         op == JN_NEG ? "-" : "+", jval_type_name(a));
    if (a.type == J_FLOAT) return *out = jval_float(op == JN_NEG ? -a.u.f : a.u.f), true;
    if (op == JN_NEG) return jint_neg(e->r, a, out);
    *out = a.type == J_BOOL ? jval_int(a.u.b) : a;
    return true;
}

bool jops_compare(JEval *e, JOper op, JVal a, JVal b, bool *out) {
    switch (op) {
    case JOP_EQ:
        return jval_equal(e->r, a, b, out);
    case JOP_NE:
        return jval_equal(e->r, a, b, out) && (*out = !*out, true);
    case JOP_LT:
        return jval_compare(e->r, JCMP_LT, a, b, out);
    case JOP_LE:
        return jval_compare(e->r, JCMP_LE, a, b, out);
    case JOP_GT:
        return jval_compare(e->r, JCMP_GT, a, b, out);
    case JOP_GE:
        return jval_compare(e->r, JCMP_GE, a, b, out);
    case JOP_IN:
        return jval_contains(e->r, a, b, out);
    case JOP_NOTIN:
        return jval_contains(e->r, a, b, out) && (*out = !*out, true);
    }
    return false;
}
