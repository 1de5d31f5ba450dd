#include "chat/jinja_format.h"

#include <math.h>
#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_format_number.h"
#include "chat/jinja_html.h"
#include "chat/jinja_number.h"
#include "chat/jinja_repr.h"

/* ---- "%s" % args ---- */

typedef struct Percent {
    JEval *e;
    JRun *r;
    const JStr *format;
    Str s;
    size_t at;
    JBuild b;
    bool markup;
    const JVal *args; /* what is left of the arguments */
    size_t n_args;
    bool has_map;
    JVal map;
} Percent;

typedef struct Spec {
    bool left, zero, alt;
    char sign;
    int64_t width;
    int precision; /* -1: none */
    char type;
} Spec;

static bool percent_next(Percent *p, JVal *out) {
    if (!p->n_args) return jrun_fail(p->r, JEXC_TYPE, "not enough arguments for format string");
    *out = *p->args++;
    p->n_args--;
    return true;
}

static bool percent_key(Percent *p, JVal *arg) {
    size_t from = ++p->at, depth = 1;
    bool found;
    JVal key;
    for (; p->at < p->s.n && depth; p->at++)
        depth += (p->s.p[p->at] == '(') - (p->s.p[p->at] == ')');
    if (depth) return jrun_fail(p->r, JEXC_VALUE, "incomplete format key");
    if (!p->has_map) return jrun_fail(p->r, JEXC_TYPE, "format requires a mapping");
    if (p->map.type == J_UNDEF) return jval_fail_undef(p->r, p->map);
    if (p->map.type != J_DICT)
        return jrun_fail(p->r, JEXC_TYPE, "%s indices must not be strings", jval_type_name(p->map));
    if (!jstr_make(p->r, str_slice(p->s, from, p->at - 1), false, &key)) return false;
    if (!jdict_get(p->r, p->map.u.dict, key, arg, &found)) return false;
    return found ||
           jrun_fail(p->r, JEXC_LOOKUP, "format key '" STR_F "' is missing", STR_A(key.u.str->s));
}

/* A number, or * for the next argument. */
static bool percent_number(Percent *p, int64_t *out) {
    JVal v;
    *out = 0;
    if (p->at < p->s.n && p->s.p[p->at] == '*') {
        p->at++;
        if (!percent_next(p, &v)) return false;
        if (!jval_is_int(v)) return jrun_fail(p->r, JEXC_TYPE, "* wants int");
        *out = jint_clamp(v);
    } else {
        while (p->at < p->s.n && p->s.p[p->at] >= '0' && p->s.p[p->at] <= '9' &&
               *out <= JFORMAT_MAX_WIDTH)
            *out = *out * 10 + (p->s.p[p->at++] - '0');
    }
    if (*out > JFORMAT_MAX_WIDTH || *out < -JFORMAT_MAX_WIDTH)
        return jrun_fail(p->r, JEXC_LIMIT, "a format width of more than %d", JFORMAT_MAX_WIDTH);
    return true;
}

static bool percent_spec(Percent *p, Spec *f) {
    int64_t n;
    for (; p->at < p->s.n; p->at++) {
        char c = p->s.p[p->at];
        if (c == '-')
            f->left = true;
        else if (c == '+')
            f->sign = '+';
        else if (c == ' ')
            f->sign = f->sign ? f->sign : ' ';
        else if (c == '#')
            f->alt = true;
        else if (c == '0')
            f->zero = true;
        else
            break;
    }
    f->precision = -1;
    if (!percent_number(p, &f->width)) return false;
    if (f->width < 0) {
        f->left = true;
        f->width = -f->width;
    }
    if (p->at < p->s.n && p->s.p[p->at] == '.') {
        p->at++;
        if (!percent_number(p, &n)) return false;
        f->precision = n < 0 ? 0 : (int)n;
    }
    if (p->at < p->s.n && strchr("hlL", p->s.p[p->at])) p->at++;
    if (p->at >= p->s.n) return jrun_fail(p->r, JEXC_VALUE, "incomplete format");
    f->type = p->s.p[p->at++];
    return true;
}

static void percent_pad(Percent *p, int64_t n) {
    static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
    if (n > 0) jbuild_fill(p->r, &p->b, &blank, (size_t)n);
}

static bool percent_text(Percent *p, const Spec *f, JVal v) {
    JVal s;
    bool (*text)(JRun *, JVal, JVal *) = f->type == 's'   ? jrepr_str
                                         : f->type == 'r' ? jrepr_repr
                                                          : jrepr_ascii;
    if (!text(p->r, v, &s)) return false;
    if (f->type == 's' && v.type == J_STR && v.u.str->markup && p->markup) s = v;
    if (p->markup && !jhtml_escape(p->r, s, &s)) return false;
    JStr *str = s.u.str;
    size_t to = f->precision >= 0 ? jstr_byte_of(str, (size_t)f->precision) : str->s.n;
    JVal cut;
    if (!jstr_slice(p->r, str, 0, to, &cut)) return false;
    int64_t pad = f->width - (int64_t)jstr_n_cp(cut.u.str);
    if (!f->left) percent_pad(p, pad);
    jbuild_put_jstr(p->r, &p->b, cut.u.str);
    if (f->left) percent_pad(p, pad);
    return !p->b.failed;
}

static bool percent_put_number(Percent *p, const Spec *f, JNumText *t, const JNumFormat *nf) {
    if (f->zero && !f->left && !jnumformat_zero_fill(p->r, t, nf, f->width)) return false;
    int64_t pad = f->width - (int64_t)(t->head.n + t->digits.n);
    if (!f->left) percent_pad(p, pad);
    jbuild_put(p->r, &p->b, t->head, false);
    jbuild_put(p->r, &p->b, t->digits, false);
    if (f->left) percent_pad(p, pad);
    return !p->b.failed;
}

static bool percent_int(Percent *p, const Spec *f, JVal v) {
    bool decimal = f->type == 'd' || f->type == 'i' || f->type == 'u';
    JNumFormat nf = {
        .type = decimal ? 'd' : f->type, .sign = f->sign, .alt = f->alt, .precision = f->precision};
    JNumText t;
    if (v.type == J_UNDEF) return jval_fail_undef(p->r, v);
    if (v.type == J_FLOAT && decimal) {
        if (!isfinite(v.u.f))
            return jrun_fail(p->r, JEXC_VALUE, "cannot convert float NaN or infinity to integer");
        if (!jint_from_double(p->r, v.u.f, &v)) return false;
    }
    if (!jval_is_int(v))
        return jrun_fail(p->r, JEXC_TYPE, "%%%c format: a number is required, not %s", f->type,
                         jval_type_name(v));
    return jnumformat_int(p->r, v, &nf, &t) && percent_put_number(p, f, &t, &nf);
}

static bool percent_float(Percent *p, const Spec *f, JVal v) {
    JNumFormat nf = {.type = f->type, .sign = f->sign, .alt = f->alt, .precision = f->precision};
    JNumText t;
    double x;
    bool ok = jval_is_num(v);
    if (v.type == J_UNDEF) return jval_fail_undef(p->r, v);
    if (!ok) return jrun_fail(p->r, JEXC_TYPE, "must be real number, not %s", jval_type_name(v));
    if (!jnumber_float(p->r, v, &x, &ok)) return false;
    return jnumformat_float(p->r, x, &nf, &t) && percent_put_number(p, f, &t, &nf);
}

static bool percent_char(Percent *p, const Spec *f, JVal v) {
    JVal s = v;
    if (jval_is_int(v)) {
        int64_t cp = jint_clamp(v);
        char utf8[4];
        if (cp < 0 || cp > 0x10FFFF)
            return jrun_fail(p->r, JEXC_OVERFLOW, "%%c arg not in range(0x110000)");
        if (!jstr_copy(p->r, (Str){utf8, jstr_encode((uint32_t)cp, utf8)}, true, &s)) return false;
    } else if (v.type != J_STR || jstr_only_cp(v.u.str) == UINT32_MAX) {
        return jrun_fail(p->r, JEXC_TYPE, "%%c requires int or char");
    }
    Spec plain = *f;
    plain.type = 's';
    plain.precision = -1;
    return percent_text(p, &plain, s);
}

static bool percent_one(Percent *p) {
    Spec f = {0};
    JVal v = jval_missing();
    if (p->at < p->s.n && p->s.p[p->at] == '%') {
        p->at++;
        jbuild_putc(p->r, &p->b, '%', jstr_has_user(p->format));
        return !p->b.failed;
    }
    if (p->at < p->s.n && p->s.p[p->at] == '(' && !percent_key(p, &v)) return false;
    if (!percent_spec(p, &f)) return false;
    if (v.type == J_MISSING && !percent_next(p, &v)) return false;
    switch (f.type) {
    case 's':
    case 'r':
    case 'a':
        return percent_text(p, &f, v);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        return percent_int(p, &f, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return percent_float(p, &f, v);
    case 'c':
        return percent_char(p, &f, v);
    default:
        return jrun_fail(p->r, JEXC_VALUE, "unsupported format character 0x%x",
                         (unsigned char)f.type);
    }
}

bool jformat_percent(JEval *e, const JStr *format, JVal args, JVal *out) {
    Percent p = {.e = e,
                 .r = e->r,
                 .format = format,
                 .s = format->s,
                 .markup = format->markup,
                 .args = &args,
                 .n_args = 1};
    if (args.type == J_TUPLE) {
        p.args = args.u.list->v;
        p.n_args = args.u.list->n;
    } else if (args.type == J_DICT || args.type == J_LIST || args.type == J_RANGE ||
               args.type == J_UNDEF || args.type == J_BYTES) {
        p.has_map = true;
        p.map = args;
    }
    while (p.at < p.s.n) {
        size_t next = str_find_char(p.s, '%', p.at);
        if (next == STR_NPOS) next = p.s.n;
        jbuild_put_range(p.r, &p.b, format, p.at, next);
        p.at = next + 1;
        if (!jrun_spend(p.r, 1) || (next < p.s.n && !percent_one(&p)) || p.b.failed) return false;
    }
    if (p.n_args && !p.has_map)
        return jrun_fail(p.r, JEXC_TYPE, "not all arguments converted during string formatting");
    return jbuild_done(p.r, &p.b, out) && jstr_as_markup(p.r, *out, p.markup, out);
}

/* ---- format(value, spec) ---- */

typedef struct Mini { /* [[fill]align][sign][z][#][0][width][grouping][.precision][type] */
    JStr *fill;       /* one character; NULL: blank */
    char align;       /* < > = ^ or 0 */
    int64_t width;
    JNumFormat num;
    bool zero;
    char type; /* 0: none given */
} Mini;

static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

static bool mini_number(JRun *r, Str s, size_t *at, int64_t *out) {
    *out = 0;
    while (*at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9') {
        *out = *out * 10 + (s.p[(*at)++] - '0');
        if (*out > JFORMAT_MAX_WIDTH)
            return jrun_fail(r, JEXC_LIMIT, "a format width of more than %d", JFORMAT_MAX_WIDTH);
    }
    return true;
}

static bool mini_parse(JRun *r, Str s, Mini *m) {
    size_t at = 0, first = 0;
    int64_t n;
    *m = (Mini){.num.precision = -1};
    if (s.n) jstr_next(s, &first);
    if (first && first < s.n && is_align(s.p[first])) {
        if (!(m->fill = jstr_new(r, str_slice(s, 0, first), JORIGIN_TEMPLATE))) return false;
        m->align = s.p[first];
        at = first + 1;
    } else if (s.n && is_align(s.p[0])) {
        m->align = s.p[at++];
    }
    if (at < s.n && (s.p[at] == '+' || s.p[at] == '-' || s.p[at] == ' ')) {
        m->num.sign = s.p[at] == '-' ? '-' : s.p[at];
        at++;
    }
    if (at < s.n && s.p[at] == 'z') m->num.no_neg_zero = true, at++;
    if (at < s.n && s.p[at] == '#') m->num.alt = true, at++;
    if (at < s.n && s.p[at] == '0' && !m->fill) m->zero = true, at++;
    if (!mini_number(r, s, &at, &m->width)) return false;
    if (at < s.n && (s.p[at] == ',' || s.p[at] == '_')) m->num.grouping = s.p[at++];
    if (at < s.n && s.p[at] == '.') {
        size_t before = ++at;
        if (!mini_number(r, s, &at, &n)) return false;
        if (at == before) return jrun_fail(r, JEXC_VALUE, "format specifier missing precision");
        m->num.precision = (int)n;
    }
    if (s.n - at > 1)
        return jrun_fail(r, JEXC_VALUE, "invalid format specifier '" STR_F "'", STR_A(s));
    if (at < s.n) m->type = s.p[at];
    return true;
}

static bool mini_put(JRun *r, const Mini *m, JStr *head, JStr *text, char align, JVal *out) {
    static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
    static const JStr zero = {.s = {"0", 1}, .n_cp = 1};
    const JStr *fill = m->fill ? m->fill : m->zero ? &zero : &blank;
    int64_t pad = m->width - (int64_t)(head->s.n + jstr_n_cp(text));
    if (pad < 0) pad = 0;
    int64_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    JBuild b = {0};
    jbuild_fill(r, &b, fill, (size_t)before);
    jbuild_put_jstr(r, &b, head);
    if (align == '=') jbuild_fill(r, &b, fill, (size_t)pad);
    jbuild_put_jstr(r, &b, text);
    if (align != '=') jbuild_fill(r, &b, fill, (size_t)(pad - before));
    return jbuild_done(r, &b, out);
}

static bool format_text(JRun *r, JStr *s, const Mini *m, JVal *out) {
    JStr none = {0};
    JVal cut;
    if (m->type && m->type != 's')
        return jrun_fail(r, JEXC_VALUE, "unknown format code '%c' for a string", m->type);
    if (m->num.sign || m->num.alt || m->num.grouping || m->num.no_neg_zero || m->align == '=')
        return jrun_fail(
            r, JEXC_VALUE,
            "sign, '=', '#', 'z' and grouping are not allowed in a string format specifier");
    size_t to = m->num.precision >= 0 ? jstr_byte_of(s, (size_t)m->num.precision) : s->s.n;
    return jstr_slice(r, s, 0, to, &cut) &&
           mini_put(r, m, &none, cut.u.str, m->align ? m->align : '<', out);
}

static bool format_number(JRun *r, JVal v, const Mini *m, JVal *out) {
    JNumFormat f = m->num;
    JNumText t;
    double x;
    bool ok, as_int = jval_is_int(v) && (!m->type || strchr("bcdoxXn", m->type));
    if (f.sign == '-') f.sign = 0;
    if (f.grouping && m->type &&
        (m->type == 'n' || m->type == 'c' || (f.grouping == ',' && strchr("boxX", m->type))))
        return jrun_fail(r, JEXC_VALUE, "cannot specify '%c' with '%c'", f.grouping, m->type);
    if (as_int) {
        if (f.precision >= 0)
            return jrun_fail(r, JEXC_VALUE, "precision not allowed in integer format specifier");
        if (f.no_neg_zero)
            return jrun_fail(
                r, JEXC_VALUE,
                "negative zero coercion (z) not allowed in format specifier with integer");
        if (m->type == 'c') {
            int64_t cp = jint_clamp(v);
            char utf8[4];
            JVal s;
            JStr none = {0};
            if (m->num.sign || f.alt)
                return jrun_fail(r, JEXC_VALUE,
                                 "sign and '#' are not allowed with integer format specifier 'c'");
            if (cp < 0 || cp > 0x10FFFF)
                return jrun_fail(r, JEXC_OVERFLOW, "%%c arg not in range(0x110000)");
            if (!jstr_copy(r, (Str){utf8, jstr_encode((uint32_t)cp, utf8)}, true, &s)) return false;
            return mini_put(r, m, &none, s.u.str, m->align ? m->align : m->zero ? '=' : '>', out);
        }
        f.type = m->type && m->type != 'n' ? m->type : 'd';
        if (!jnumformat_int(r, v, &f, &t)) return false;
    } else {
        if (m->type && !strchr("eEfFgGn%", m->type))
            return jrun_fail(r, JEXC_VALUE, "unknown format code '%c' for %s", m->type,
                             jval_type_name(v));
        f.type = m->type ? m->type : 'r';
        if (!jnumber_float(r, v, &x, &ok) || !jnumformat_float(r, x, &f, &t)) return false;
    }
    char align = m->align ? m->align : m->zero ? '=' : '>';
    bool zeros = align == '=' && (m->zero || (m->fill && str_eqc(m->fill->s, "0")));
    if (zeros && !jnumformat_zero_fill(r, &t, &f, m->width)) return false;
    JStr head = {.s = t.head, .n_cp = t.head.n}, text = {.s = t.digits, .n_cp = t.digits.n};
    return mini_put(r, m, &head, &text, align, out);
}

bool jformat_value(JEval *e, JVal v, Str spec, JVal *out) {
    Mini m;
    if (!spec.n) return jrepr_str(e->r, v, out);
    if (!jval_is_num(v) && v.type != J_STR)
        return jrun_fail(e->r, JEXC_TYPE, "unsupported format string passed to %s.__format__",
                         jval_type_name(v));
    if (!mini_parse(e->r, spec, &m)) return false;
    return v.type == J_STR ? format_text(e->r, v.u.str, &m, out) : format_number(e->r, v, &m, out);
}
