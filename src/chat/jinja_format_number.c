#include "chat/jinja_format_number.h"

#include <math.h>
#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_float.h"

static Str sign_of(bool neg, char sign) {
    if (neg) return STR("-");
    return sign == '+' ? STR("+") : sign == ' ' ? STR(" ") : STR_NONE;
}

static bool join2(JRun *r, Str a, Str b, Str *out) {
    char *p = jrun_alloc(r, a.n + b.n + 1);
    if (!p) return false;
    if (a.n) memcpy(p, a.p, a.n);
    if (b.n) memcpy(p + a.n, b.p, b.n);
    *out = (Str){p, a.n + b.n};
    return true;
}

static size_t whole_digits(Str s) { /* leading digits: what grouping applies to */
    size_t n = 0;
    while (n < s.n &&
           ((s.p[n] >= '0' && s.p[n] <= '9') || ((s.p[n] | 32) >= 'a' && (s.p[n] | 32) <= 'f')))
        n++;
    return n;
}

static size_t int_part(Str s, const JNumFormat *f) {
    bool hex = f->type == 'x' || f->type == 'X';
    size_t n = 0;
    if (hex) return whole_digits(s);
    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9') n++;
    return n;
}

static int group_size(const JNumFormat *f) {
    return f->type == 'x' || f->type == 'X' || f->type == 'b' || f->type == 'o' ? 4 : 3;
}

/* Digits with separators, padded with zeros so that the whole is `least` columns or a little
 * more. */
static bool group(JRun *r, Str *digits, const JNumFormat *f, int64_t least) {
    size_t n = int_part(*digits, f), every = (size_t)group_size(f), rest = digits->n - n;
    size_t want = least > (int64_t)rest ? (size_t)least - rest : 0, total = n;
    if (!f->grouping) {
        if (want <= n) return true;
        total = want;
    } else {
        while (total + (total - 1) / every < want) total++;
    }
    size_t seps = f->grouping && total ? (total - 1) / every : 0;
    char *p = jrun_alloc(r, total + seps + rest + 1);
    if (!p) return false;
    size_t at = total + seps;
    for (size_t i = 0; i < total; i++) { /* from the right */
        if (f->grouping && i && i % every == 0) p[--at] = f->grouping;
        p[--at] = i < n ? digits->p[n - 1 - i] : '0';
    }
    if (rest) memcpy(p + total + seps, digits->p + n, rest);
    *digits = (Str){p, total + seps + rest};
    return true;
}

bool jnumformat_int(JRun *r, JVal v, const JNumFormat *f, JNumText *out) {
    int base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    bool neg = jint_sign(v) < 0;
    Str prefix = STR_NONE;
    if (!jint_format(r, v, base, f->type == 'X', &out->digits)) return false;
    if (neg) out->digits = str_from(out->digits, 1);
    if (f->alt && base != 10)
        prefix = base == 2        ? STR("0b")
                 : base == 8      ? STR("0o")
                 : f->type == 'X' ? STR("0X")
                                  : STR("0x");
    if (!join2(r, sign_of(neg, f->sign), prefix, &out->head)) return false;
    if (f->precision > JFLOAT_MAX_PRECISION)
        return jrun_fail(r, JEXC_LIMIT, "a precision of %d, at most %d is accepted", f->precision,
                         JFLOAT_MAX_PRECISION);
    if (f->precision > 0 && !f->grouping) {
        if (!group(r, &out->digits, f, f->precision)) return false;
    }
    return !f->grouping || group(r, &out->digits, f, 0);
}

/* Puts a point behind the mantissa's digits, where there is none. */
static bool with_point(JRun *r, Str text, Str *out) {
    size_t e = str_find_char(text, 'e', 0), end = e == STR_NPOS ? text.n : e;
    if (str_find_char(text, '.', 0) != STR_NPOS) return *out = text, true;
    return join2(r, str_slice(text, 0, end), STR("."), out) &&
           join2(r, *out, str_from(text, end), out);
}

/* Drops zeros at the end of a mantissa with a point, and the point when nothing is left behind
 * it. */
static bool without_zeros(JRun *r, Str text, Str *out) {
    size_t mark = str_find_char(text, 'e', 0), end = mark == STR_NPOS ? text.n : mark, e = end;
    if (str_find_char(text, '.', 0) == STR_NPOS) return *out = text, true;
    while (end > 0 && text.p[end - 1] == '0') end--;
    if (end > 0 && text.p[end - 1] == '.') end--;
    return join2(r, str_slice(text, 0, end), str_from(text, e), out);
}

/* The presentation without a type: shortest digits, or `precision` significant ones. Like g, but a
 * fixed number has a digit behind the point, so that the exponent comes one digit earlier. */
static bool float_plain(JRun *r, double v, int precision, bool alt, Str *out) {
    char text[JFLOAT_REPR_MAX];
    if (!isfinite(v)) return jfloat_format(r, v, 'g', 6, false, out);
    if (precision < 0) {
        size_t n = jfloat_repr(fabs(v), text);
        return join2(r, (Str){text, n}, STR_NONE, out) && (!alt || with_point(r, *out, out));
    }
    if (precision == 0) precision = 1;
    if (!jfloat_format(r, v, 'g', precision, true, out)) return false;
    size_t point = str_find_char(*out, '.', 0);
    if (str_find_char(*out, 'e', 0) == STR_NPOS && point + 1 >= out->n) {
        if (!jfloat_format(r, v, 'e', precision - 1, true, out)) return false;
    }
    if (alt) return true;
    if (!without_zeros(r, *out, out)) return false;
    bool fixed = str_find_char(*out, 'e', 0) == STR_NPOS && str_find_char(*out, '.', 0) == STR_NPOS;
    return !fixed || join2(r, *out, STR(".0"), out);
}

bool jnumformat_float(JRun *r, double v, const JNumFormat *f, JNumText *out) {
    int precision = f->precision < 0 ? 6 : f->precision;
    char type = f->type == 'n' ? 'g' : f->type;
    bool percent = type == '%';
    bool neg = signbit(v) && !isnan(v);
    if (percent) {
        v *= 100;
        type = 'f';
    }
    if (type == 'r') {
        if (!float_plain(r, v, f->precision, f->alt, &out->digits)) return false;
    } else {
        if ((type == 'g' || type == 'G') && precision == 0) precision = 1;
        if (!jfloat_format(r, v, type, precision, f->alt, &out->digits)) return false;
    }
    if (f->no_neg_zero && neg) { /* -0.00 loses its sign */
        bool zero = true;
        for (size_t i = 0; i < out->digits.n && (out->digits.p[i] | 32) != 'e'; i++)
            if (out->digits.p[i] >= '1' && out->digits.p[i] <= '9') zero = false;
        if (zero && isfinite(v)) neg = false;
    }
    if (percent && !join2(r, out->digits, STR("%"), &out->digits)) return false;
    out->head = sign_of(neg, f->sign);
    return !f->grouping || group(r, &out->digits, f, 0);
}

bool jnumformat_zero_fill(JRun *r, JNumText *t, const JNumFormat *f, int64_t width) {
    int64_t room = width - (int64_t)t->head.n;
    if (room <= (int64_t)t->digits.n) return true;
    if (int_part(t->digits, f) == 0) { /* inf, nan: zeros in front all the same */
        JBuild b = {0};
        JVal v;
        static const JStr zero = {.s = {"0", 1}, .n_cp = 1};
        jbuild_fill(r, &b, &zero, (size_t)room - t->digits.n);
        jbuild_put(r, &b, t->digits, false);
        if (!jbuild_done(r, &b, &v)) return false;
        t->digits = v.u.str->s;
        return true;
    }
    if (f->grouping) { /* group again from the bare digits */
        char *p = jrun_alloc(r, t->digits.n);
        size_t n = 0;
        if (!p) return false;
        for (size_t i = 0; i < t->digits.n; i++)
            if (t->digits.p[i] != f->grouping) p[n++] = t->digits.p[i];
        t->digits = (Str){p, n};
    }
    return group(r, &t->digits, f, room);
}
