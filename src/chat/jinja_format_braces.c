/* "{0.name!r:>10}".format(...), as string.Formatter in the sandbox does it. */
#include "chat/jinja_big.h"
#include "chat/jinja_format.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"

typedef struct Braces {
    JEval *e;
    JRun *r;
    const JVal *args;
    size_t n_args;
    const JDict *kwargs;
    bool has_map, markup;
    JVal map;
    int64_t next; /* automatic number of the next field; -1: fields are numbered by hand */
    bool by_hand;
} Braces;

typedef struct BraceField {
    Str name, spec;
    char conversion;
} BraceField;

static bool field_first(Braces *x, Str name, JVal *out) {
    int64_t i;
    JVal key;
    bool found = false;
    if (str_to_i64(name, &i) && i >= 0 && name.p[0] != '-') {
        if ((uint64_t)i >= x->n_args)
            return jrun_fail(x->r, JEXC_LOOKUP, "replacement index %lld out of range",
                             (long long)i);
        *out = x->args[i];
        return true;
    }
    if (!jstr_make(x->r, name, false, &key)) return false;
    if (x->has_map) {
        if (x->map.type == J_UNDEF) return jval_fail_undef(x->r, x->map);
        if (x->map.type != J_DICT)
            return jrun_fail(x->r, JEXC_TYPE, "'%s' object is not a mapping",
                             jval_type_name(x->map));
        if (!jdict_get(x->r, x->map.u.dict, key, out, &found)) return false;
    } else if (x->kwargs && !jdict_get(x->r, x->kwargs, key, out, &found)) {
        return false;
    }
    return found ||
           jrun_fail(x->r, JEXC_LOOKUP, "format field '" STR_F "' is missing", STR_A(name));
}

/* first(.attribute | [subscript])* */
static bool field_value(Braces *x, Str name, JVal *out) {
    size_t at = 0;
    while (at < name.n && name.p[at] != '.' && name.p[at] != '[') at++;
    if (!field_first(x, str_slice(name, 0, at), out)) return false;
    while (at < name.n) {
        bool attr = name.p[at] == '.';
        size_t from = ++at;
        if (!jrun_spend(x->r, 1)) return false;
        while (at < name.n && (attr ? name.p[at] != '.' && name.p[at] != '[' : name.p[at] != ']'))
            at++;
        Str part = str_slice(name, from, at);
        if (!part.n) return jrun_fail(x->r, JEXC_VALUE, "empty attribute in format string");
        if (attr) {
            if (!jattr_get(x->e, *out, part, out)) return false;
            continue;
        }
        if (at >= name.n) return jrun_fail(x->r, JEXC_VALUE, "missing ']' in format string");
        if (++at < name.n && name.p[at] != '.' && name.p[at] != '[')
            return jrun_fail(x->r, JEXC_VALUE,
                             "only '.' or '[' may follow ']' in format field specifier");
        JVal key;
        int64_t i;
        if (str_to_i64(part, &i) && part.p[0] != '-')
            key = jval_int(i);
        else if (!jstr_make(x->r, part, false, &key))
            return false;
        if (!jattr_item(x->e, *out, key, out)) return false;
    }
    return true;
}

static bool braces_run(Braces *x, const JStr *format, int depth, JVal *out);

static bool field_convert(Braces *x, char conversion, JVal *v) {
    switch (conversion) {
    case 0:
        return true;
    case 's':
        return jrepr_str(x->r, *v, v);
    case 'r':
        return jrepr_repr(x->r, *v, v);
    case 'a':
        return jrepr_ascii(x->r, *v, v);
    default:
        return jrun_fail(x->r, JEXC_VALUE, "unknown conversion specifier %c", conversion);
    }
}

static bool field_put(Braces *x, JBuild *b, const BraceField *f, int depth) {
    JVal v, spec, text;
    Str name = f->name;
    bool digits = name.n > 0;
    for (size_t i = 0; i < name.n; i++) digits = digits && name.p[i] >= '0' && name.p[i] <= '9';
    if (!name.n) {
        if (x->by_hand)
            return jrun_fail(x->r, JEXC_VALUE,
                             "cannot switch from manual to automatic field numbering");
        Str n;
        if (!jint_format(x->r, jval_int(x->next++), 10, false, &n)) return false;
        name = n;
    } else if (digits) {
        if (x->next > 0)
            return jrun_fail(x->r, JEXC_VALUE,
                             "cannot switch from automatic to manual field numbering");
        x->by_hand = true;
    }
    if (!field_value(x, name, &v) || !field_convert(x, f->conversion, &v)) return false;
    JStr raw = {.s = f->spec, .n_cp = JSTR_COUNT_LATER};
    if (!braces_run(x, &raw, depth - 1, &spec)) return false;
    if (x->markup && v.type == J_STR && v.u.str->markup) {
        if (spec.u.str->s.n)
            return jrun_fail(x->r, JEXC_VALUE, "a format specifier cannot be used with safe text");
        text = v;
    } else if (!jformat_value(x->e, v, spec.u.str->s, &text)) {
        return false;
    }
    if (x->markup && !jhtml_escape(x->r, text, &text)) return false;
    jbuild_put_jstr(x->r, b, text.u.str);
    return !b->failed;
}

/* The field that begins behind an opening brace at *at; leaves *at behind its closing one. */
static bool field_parse(Braces *x, Str s, size_t *at, BraceField *f) {
    size_t from = *at, depth = 1, end = from, stop;
    while (end < s.n && depth) {
        depth += (s.p[end] == '{') - (s.p[end] == '}');
        end++;
    }
    if (depth) return jrun_fail(x->r, JEXC_VALUE, "expected '}' before end of string");
    *at = end--;
    bool bracket = false;
    for (stop = from; stop < end; stop++) {
        char c = s.p[stop];
        if (c == '{') return jrun_fail(x->r, JEXC_VALUE, "unexpected '{' in field name");
        if (c == '[')
            bracket = true;
        else if (c == ']')
            bracket = false;
        else if (!bracket && (c == ':' || c == '!'))
            break;
    }
    *f = (BraceField){.name = str_slice(s, from, stop)};
    if (stop < end && s.p[stop] == '!') {
        if (stop + 1 >= end) return jrun_fail(x->r, JEXC_VALUE, "unmatched '{' in format spec");
        f->conversion = s.p[++stop];
        if (++stop < end && s.p[stop] != ':')
            return jrun_fail(x->r, JEXC_VALUE, "expected ':' after conversion specifier");
    }
    if (stop < end) f->spec = str_slice(s, stop + 1, end);
    return true;
}

static bool braces_run(Braces *x, const JStr *format, int depth, JVal *out) {
    JBuild b = {0};
    Str s = format->s;
    if (depth < 0) return jrun_fail(x->r, JEXC_VALUE, "max string recursion exceeded");
    for (size_t at = 0, from = 0;; from = at) {
        BraceField f = {0};
        while (at < s.n && s.p[at] != '{' && s.p[at] != '}') at++;
        jbuild_put_range(x->r, &b, format, from, at);
        if (at >= s.n) return jbuild_done(x->r, &b, out);
        if (!jrun_spend(x->r, 1)) return false;
        if (at + 1 < s.n && s.p[at + 1] == s.p[at]) { /* {{ or }} */
            jbuild_put_range(x->r, &b, format, at, at + 1);
            at += 2;
            continue;
        }
        if (s.p[at] == '}')
            return jrun_fail(x->r, JEXC_VALUE, "single '}' encountered in format string");
        if (++at >= s.n)
            return jrun_fail(x->r, JEXC_VALUE, "single '{' encountered in format string");
        if (!field_parse(x, s, &at, &f) || !field_put(x, &b, &f, depth)) return false;
    }
}

bool jformat_braces(JEval *e, const JStr *format, const JVal *args, size_t n_args,
                    const JDict *kwargs, bool has_map, JVal map, JVal *out) {
    Braces x = {.e = e,
                .r = e->r,
                .args = args,
                .n_args = n_args,
                .kwargs = kwargs,
                .has_map = has_map,
                .map = map,
                .markup = format->markup};
    return braces_run(&x, format, 2, out) && jstr_as_markup(e->r, *out, format->markup, out);
}
