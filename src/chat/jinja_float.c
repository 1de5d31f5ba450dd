#include "chat/jinja_float.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_str.h"

static double float_read(const char *digits, size_t n, int exp10) {
    char text[40];
    double f = 0;
    int len = snprintf(text, sizeof text, "%.*se%d", (int)n, digits, exp10);
    str_to_f64((Str){text, (size_t)len}, &f);
    return f;
}

/* Digits of f rounded to n places, as "d.ddd" without the dot; the value is digits * 10^(*exp10 - n
 * + 1). */
static bool float_try(double f, int n, char digits[20], int *exp10) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", n - 1, f);
    const char *e = strchr(text, 'e');
    if (!e) return false;
    int sign = e[1] == '-' ? -1 : 1, exp = 0;
    for (const char *p = e + 2; *p; p++) exp = exp * 10 + (*p - '0');
    *exp10 = sign * exp;
    size_t k = 0;
    for (const char *p = text; p < e; p++)
        if (*p != '.') digits[k++] = *p;
    if (float_read(digits, k, *exp10 - n + 1) == f) return true;
    /* Next to a power of two the neighbour above may be as short and read back where the nearest
     * does not. */
    for (size_t i = k; i-- > 0;) {
        if (digits[i]++ != '9') return float_read(digits, k, *exp10 - n + 1) == f;
        digits[i] = '0';
    }
    return false;
}

size_t jfloat_repr(double f, char out[JFLOAT_REPR_MAX]) {
    if (isnan(f)) return (size_t)snprintf(out, JFLOAT_REPR_MAX, "nan");
    if (isinf(f)) return (size_t)snprintf(out, JFLOAT_REPR_MAX, f < 0 ? "-inf" : "inf");
    char digits[20];
    int exp10 = 0, n = 0;
    double a = fabs(f);
    size_t at = 0;
    if (signbit(f)) out[at++] = '-';
    if (a == 0) {
        digits[n++] = '0';
    } else {
        int from =
            a < 1e-300
                ? 1
                /* any 15 digits survive, so the shortest is among them; not so for subnormals */
                : 15;
        for (n = from; n < 17 && !float_try(a, n, digits, &exp10); n++) {
        }
        if (n == 17) float_try(a, 17, digits, &exp10);
        while (n > 1 && digits[n - 1] == '0') n--;
    }
    if (exp10 < -4 || exp10 >= 16) {
        out[at++] = digits[0];
        if (n > 1) out[at++] = '.';
        memcpy(out + at, digits + 1, (size_t)n - 1);
        at += (size_t)n - 1;
        return at + (size_t)snprintf(out + at, JFLOAT_REPR_MAX - at, "e%c%02d",
                                     exp10 < 0 ? '-' : '+', abs(exp10));
    }
    if (exp10 < 0) {
        out[at++] = '0';
        out[at++] = '.';
        for (int i = -1; i > exp10; i--) out[at++] = '0';
    }
    for (int i = 0; i < n || i <= exp10; i++) {
        out[at++] = i < n ? digits[i] : '0';
        if (exp10 >= 0 && i == exp10) out[at++] = '.';
    }
    if (out[at - 1] == '.') out[at++] = '0';
    return at;
}

bool jfloat_parse(Str s, double *out) {
    char text[400];
    size_t at = 0, n = 0;
    bool neg = false;
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
    s = str_from(s, at);
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        neg = s.p[0] == '-';
        s = str_from(s, 1);
    }
    if (str_ieq(s, STR("inf")) || str_ieq(s, STR("infinity")))
        return *out = neg ? -INFINITY : INFINITY, true;
    if (str_ieq(s, STR("nan"))) return *out = NAN, true;
    if (!s.n || s.p[0] == '-' || s.p[0] == '+' || s.n >= sizeof text - 4) return false;
    for (size_t i = 0; i < s.n; i++) {
        bool digit = s.p[i] >= '0' && s.p[i] <= '9';
        if (s.p[i] == '_') { /* only between digits */
            if (!i || i + 1 >= s.n || s.p[i - 1] < '0' || s.p[i - 1] > '9' || s.p[i + 1] < '0' ||
                s.p[i + 1] > '9')
                return false;
            continue;
        }
        if (s.p[i] == '.' && (!i || s.p[i - 1] < '0' || s.p[i - 1] > '9'))
            text[n++] = '0';                                   /* ".5" */
        if (!digit && i && s.p[i - 1] == '.') text[n++] = '0'; /* "5.e3" */
        text[n++] = s.p[i];
        if (n >= sizeof text - 4) return false;
    }
    if (text[n - 1] == '.') {
        if (s.n == 1) return false;
        text[n++] = '0';
    }
    if (s.n == 1 && s.p[0] == '.') return false;
    double f;
    if (!str_to_f64((Str){text, n}, &f)) { /* out of range? */
        char *end;
        text[n] = 0;
        for (size_t i = 0; i < n; i++)
            if (!strchr("0123456789.eE+-", text[i])) return false;
        f = strtod(text, &end);
        if (end != text + n || !isinf(f)) return false;
    }
    *out = neg ? -f : f;
    return true;
}

double jfloat_round(double f, int n_digits) {
    char text[400];
    double out = f;
    if (!isfinite(f) || n_digits > 330) return f;
    if (n_digits < -308) return copysign(0, f);
    if (n_digits >= 0) {
        if (fabs(f) >= 1e22) return f; /* an integer already, and its text would not fit */
        int n = snprintf(text, sizeof text, "%.*f", n_digits > 340 ? 340 : n_digits, f);
        if (n <= 0 || (size_t)n >= sizeof text) return f;
        str_to_f64((Str){text, (size_t)n}, &out);
        return copysign(fabs(out), f);
    }
    /* Left of the point: keep the leading digits of the exact value. */
    int n = snprintf(text, sizeof text, "%.0f", trunc(fabs(f)));
    int keep = n + n_digits; /* digits that stay */
    if (keep < 0) return copysign(0, f);
    bool above = fabs(f) != trunc(fabs(f)), half = text[keep] == '5';
    for (int i = keep + 1; i < n; i++) above |= text[i] != '0';
    bool odd = keep > 0 && (text[keep - 1] - '0') % 2;
    bool up = text[keep] > '5' || (half && (above || odd));
    for (int i = keep; i < n; i++) text[i] = '0';
    str_to_f64((Str){text, (size_t)n}, &out);
    return copysign(up ? out + pow(10, -n_digits) : out, f);
}

bool jfloat_format(JRun *r, double f, char type, int precision, bool alt, Str *out) {
    bool upper = type >= 'A' && type <= 'Z';
    if (isnan(f) || isinf(f)) {
        *out = isnan(f) ? (upper ? STR("NAN") : STR("nan")) : (upper ? STR("INF") : STR("inf"));
        return true;
    }
    if (precision > JFLOAT_MAX_PRECISION)
        return jrun_fail(r, JEXC_LIMIT, "a precision of %d, at most %d is accepted", precision,
                         JFLOAT_MAX_PRECISION);
    size_t room = (size_t)precision + 330;
    char *text = jrun_alloc(r, room), spec[8] = {'%', '#', '.', '*', type, 0};
    if (!text || !jrun_spend(r, (uint64_t)precision)) return false;
    if (!alt) memmove(spec + 1, spec + 2, 4);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(text, room, spec, precision, fabs(f));
#pragma GCC diagnostic pop
    if (n < 0 || (size_t)n >= room)
        return jrun_fail(r, JEXC_LIMIT, "a number is too long to print");
    *out = (Str){text, (size_t)n};
    return true;
}
