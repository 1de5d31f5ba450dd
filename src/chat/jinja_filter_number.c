#include <math.h>
#include <stdio.h>

#include "base/unicode.h"
#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_float.h"
#include "chat/jinja_number.h"

static Str strip(Str s) {
    size_t at = 0;
    while (at < s.n) {
        size_t next = at;
        if (!jstr_is_space(jstr_next(s, &next))) break;
        at = next;
    }
    while (s.n > at) {
        size_t prev = s.n;
        if (!jstr_is_space(jstr_prev(s, &prev))) break;
        s.n = prev;
    }
    return str_from(s, at);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return (c | 32) - 'a' + 10;
    return 99;
}

/* Decimal digits of other scripts become ASCII ones; they come in runs of ten. *ok false where a
 * character is neither. */
static bool ascii_digits(JRun *r, Str s, Str *out) {
    char *p = NULL;
    size_t n = 0, at = 0;
    *out = s;
    while (at < s.n && (unsigned char)s.p[at] < 0x80) at++;
    if (at == s.n) return true;
    if (!(p = jrun_alloc(r, s.n + 1))) return false;
    for (at = 0; at < s.n;) {
        size_t from = at;
        uint32_t cp = jstr_next(s, &at), value = 0;
        if (cp >= 0x1D7CE && cp <= 0x1D7FF)
            value = (cp - 0x1D7CE) % 10;
        else
            while (cp >= 0x80 && value < 9 && unicode_is_decimal(cp - value - 1)) value++;
        if (cp >= 0x80 && unicode_is_decimal(cp))
            p[n++] = (char)('0' + value);
        else
            while (from < at) p[n++] = s.p[from++];
    }
    *out = (Str){p, n};
    return true;
}

/* int(text, base) with its prefixes and underscores; *ok false where Python raises ValueError. */
static bool int_of_text(JRun *r, Str s, int64_t base, JVal *out, bool *ok) {
    bool neg = false, prefixed = false;
    *ok = false;
    if (base < 0 || base == 1 || base > 36) return true;
    s = strip(s);
    if (!ascii_digits(r, s, &s)) return false;
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        neg = s.p[0] == '-';
        s = str_from(s, 1);
    }
    if (s.n >= 2 && s.p[0] == '0') {
        char c = (char)(s.p[1] | 32);
        int64_t meant = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (meant && (base == 0 || base == meant)) {
            base = meant;
            s = str_from(s, 2);
            prefixed = true;
        }
    }
    bool decimal_zero = base == 0; /* then a leading zero allows only zeros */
    if (base == 0) base = 10;
    char *digits = jrun_alloc(r, s.n + 1);
    size_t n = 0;
    if (!digits) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '_') {
            if ((!i && !prefixed) || i + 1 >= s.n || (i && s.p[i - 1] == '_')) return true;
            continue;
        }
        if (digit_of(s.p[i]) >= base) return true;
        digits[n++] = s.p[i];
    }
    if (!n) return true;
    for (size_t i = 1; decimal_zero && digits[0] == '0' && i < n; i++)
        if (digits[i] != '0') return true;
    if (n > JBIG_MAX_DIGITS && (base & (base - 1))) return true;
    *ok = true;
    return jint_parse(r, (Str){digits, n}, (int)base, neg, out);
}

bool jnumber_int(JRun *r, JVal v, JVal base, JVal *out, bool *ok) {
    *ok = true;
    switch (v.type) {
    case J_BOOL:
        *out = jval_int(v.u.b);
        return true;
    case J_INT:
    case J_BIG:
        *out = v;
        return true;
    case J_FLOAT:
        if (isnan(v.u.f)) return *ok = false, true;
        if (isinf(v.u.f))
            return jrun_fail(r, JEXC_OVERFLOW, "cannot convert float infinity to integer");
        return jint_from_double(r, v.u.f, out);
    case J_STR: {
        int64_t b = 10;
        if (base.type != J_MISSING) {
            if (!jval_is_int(base)) return *ok = false, true;
            b = jint_clamp(base);
        }
        return int_of_text(r, v.u.str->s, b, out, ok);
    }
    case J_UNDEF:
        return jval_fail_undef(r, v);
    default:
        *ok = false;
        return true;
    }
}

bool jnumber_float(JRun *r, JVal v, double *out, bool *ok) {
    *ok = true;
    switch (v.type) {
    case J_FLOAT:
        *out = v.u.f;
        return true;
    case J_BOOL:
    case J_INT:
    case J_BIG:
        return jint_to_double(r, v, out);
    case J_STR: {
        Str s;
        if (!ascii_digits(r, v.u.str->s, &s)) return false;
        *ok = jfloat_parse(s, out);
        return true;
    }
    case J_UNDEF:
        return jval_fail_undef(r, v);
    default:
        *ok = false;
        return true;
    }
}

static bool filter_int(JEval *e, JCall *c, JVal *out) {
    bool ok;
    double f;
    if (!jnumber_int(e->r, c->self, c->v[1], out, &ok)) return false;
    if (ok) return true;
    if (!jnumber_float(e->r, c->self, &f, &ok)) return false;
    if (ok && isfinite(f)) return jint_from_double(e->r, f, out);
    *out = c->v[0].type == J_MISSING ? jval_int(0) : c->v[0];
    return true;
}

static bool filter_float(JEval *e, JCall *c, JVal *out) {
    bool ok;
    double f;
    if (!jnumber_float(e->r, c->self, &f, &ok)) return false;
    *out = ok ? jval_float(f) : c->v[0].type == J_MISSING ? jval_float(0) : c->v[0];
    return true;
}

static bool filter_abs(JEval *e, JCall *c, JVal *out) {
    JVal v = c->self;
    if (v.type == J_FLOAT) return *out = jval_float(fabs(v.u.f)), true;
    if (!jval_is_int(v))
        return jrun_fail(e->r, JEXC_TYPE, "bad operand type for abs(): '%s'", jval_type_name(v));
    if (jint_sign(v) < 0) return jint_neg(e->r, v, out);
    *out = v.type == J_BOOL ? jval_int(v.u.b) : v;
    return true;
}

/* round(int, -n): to a multiple of 10^n, half to even. */
static bool round_int(JRun *r, JVal v, int64_t digits, JVal *out) {
    JVal unit, rem, twice, low;
    if (digits >= 0) {
        *out = v.type == J_BOOL ? jval_int(v.u.b) : v;
        return true;
    }
    if (digits < -JBIG_MAX_DIGITS) return *out = jval_int(0), true;
    if (!jint_pow(r, jval_int(10), (uint64_t)-digits, &unit) ||
        !jint_divmod(r, v, unit, &low, &rem))
        return false;
    if (!jint_add(r, rem, rem, &twice)) return false;
    int c = jint_cmp(twice, unit);
    if (c == 0) {
        JVal odd;
        if (!jint_divmod(r, low, jval_int(2), NULL, &odd)) return false;
        c = jint_sign(odd);
    }
    return jint_sub(r, v, rem, out) && (c <= 0 || jint_add(r, *out, unit, out));
}

static bool round_common(JRun *r, JVal v, JVal precision, JVal *out) {
    int64_t digits = 0;
    if (v.type == J_UNDEF) return jval_fail_undef(r, v);
    if (!jval_is_num(v))
        return jrun_fail(r, JEXC_TYPE, "type %s cannot be rounded", jval_type_name(v));
    if (precision.type == J_NONE) {
        if (v.type != J_FLOAT) return round_int(r, v, 0, out);
        if (!isfinite(v.u.f))
            return jrun_fail(r, JEXC_OVERFLOW, "cannot convert float infinity or NaN to integer");
        return jint_from_double(r, jfloat_round(v.u.f, 0), out);
    }
    if (!jarg_int(r, precision, 0, &digits)) return false;
    if (v.type != J_FLOAT) return round_int(r, v, digits, out);
    double f = jfloat_round(v.u.f, digits > 400 ? 400 : digits < -400 ? -400 : (int)digits);
    if (isinf(f) && isfinite(v.u.f))
        return jrun_fail(r, JEXC_OVERFLOW, "rounded value too large to represent");
    *out = jval_float(f);
    return true;
}

static bool filter_round(JEval *e, JCall *c, JVal *out) {
    JVal scale, v;
    double f;
    Str method = STR("common");
    if (c->v[1].type != J_MISSING) method = c->v[1].type == J_STR ? c->v[1].u.str->s : STR("?");
    if (str_eqc(method, "common")) return round_common(e->r, c->self, c->v[0], out);
    bool up = str_eqc(method, "ceil");
    if (!up && !str_eqc(method, "floor"))
        return jrun_fail(e->r, JEXC_RUNTIME, "method must be common, ceil or floor");
    JVal precision = c->v[0].type == J_MISSING ? jval_int(0) : c->v[0];
    if (!jops_binary(e, JN_POW, jval_int(10), precision, &scale) ||
        !jops_binary(e, JN_MUL, c->self, scale, &v))
        return false;
    if (!jval_is_num(v))
        return jrun_fail(e->r, JEXC_TYPE, "must be real number, not %s", jval_type_name(v));
    if (v.type == J_FLOAT) {
        f = up ? ceil(v.u.f) : floor(v.u.f);
        if (!isfinite(f))
            return jrun_fail(e->r, JEXC_OVERFLOW,
                             "cannot convert float infinity or NaN to integer");
        if (!jint_from_double(e->r, f, &v)) return false;
    }
    return jops_binary(e, JN_DIV, v, scale, out);
}

static bool filter_filesizeformat(JEval *e, JCall *c, JVal *out) {
    static const char *const name[2][8] = {
        {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
        {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    bool ok, binary = c->v[0].type != J_MISSING && jval_truth(c->v[0]);
    double bytes, base = binary ? 1024 : 1000, unit = base;
    char text[400];
    int n, i = 0;
    if (!jnumber_float(e->r, c->self, &bytes, &ok)) return false;
    if (!ok)
        return jrun_fail(e->r, JEXC_VALUE, "filesizeformat: not a number: %s",
                         jval_type_name(c->self));
    if (bytes == 1) return jstr_make(e->r, STR("1 Byte"), false, out);
    if (bytes < base) {
        if (isinf(bytes))
            return jrun_fail(e->r, JEXC_OVERFLOW, "cannot convert float infinity to integer");
        n = snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes) + 0.0);
    } else {
        for (i = 0; i < 8; i++) {
            unit *= base;
            if (bytes < unit) break;
        }
        n = snprintf(text, sizeof text, "%.1f %s", base * bytes / unit,
                     name[binary][i < 8 ? i : 7]);
    }
    return jstr_copy(e->r, (Str){text, (size_t)n}, false, out);
}

static const JBuiltin entries[] = {
    {"int", filter_int, "default base", 0, false},
    {"float", filter_float, "default", 0, false},
    {"abs", filter_abs, "!", 0, false},
    {"round", filter_round, "precision method", 0, false},
    {"filesizeformat", filter_filesizeformat, "binary", 0, false},
};
const JBuiltinTable jfilters_number = {entries, sizeof entries / sizeof *entries};
