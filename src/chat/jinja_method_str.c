/* Methods of str that change its shape: case, stripping, padding, replacing, formatting. */
#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_format.h"
#include "chat/jinja_html.h"
#include "chat/jinja_method.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_text.h"

static bool str_upper(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_UPPER, out);
}
static bool str_lower(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_LOWER, out);
}
static bool str_title(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_TITLE, out);
}
static bool str_swapcase(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_SWAP, out);
}
static bool str_casefold(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_FOLD, out);
}

static bool str_capitalize(JEval *e, JCall *c, JVal *out) {
    return jtext_case(e->r, c->self.u.str, JCASE_CAPITALIZE, out);
}

static bool strip(JEval *e, JCall *c, bool left, bool right, JVal *out) {
    JStr *chars = NULL;
    JVal v = c->v[0];
    if (v.type != J_MISSING && v.type != J_NONE && !jarg_str(e->r, v, "strip argument", &chars))
        return false;
    return jtext_strip(e->r, c->self.u.str, chars, left, right, out);
}

static bool str_strip(JEval *e, JCall *c, JVal *out) { return strip(e, c, true, true, out); }
static bool str_lstrip(JEval *e, JCall *c, JVal *out) { return strip(e, c, true, false, out); }
static bool str_rstrip(JEval *e, JCall *c, JVal *out) { return strip(e, c, false, true, out); }

static bool str_replace(JEval *e, JCall *c, JVal *out) {
    JStr *old, *with, *s = c->self.u.str;
    int64_t count;
    JVal escaped;
    if (!jarg_str(e->r, c->v[0], "replace argument", &old)) return false;
    if (s->markup && c->v[1].type != J_MISSING) {
        if (!jhtml_escape(e->r, c->v[1], &escaped)) return false;
        c->v[1] = escaped;
    }
    if (!jarg_str(e->r, c->v[1], "replace argument", &with) || !jarg_int(e->r, c->v[2], -1, &count))
        return false;
    return jtext_replace(e->r, s, old, with, count, out) &&
           jstr_as_markup(e->r, *out, s->markup, out);
}

static bool pad(JEval *e, JCall *c, int align, JVal *out) {
    int64_t width;
    JStr *fill = NULL;
    if (!jarg_int(e->r, c->v[0], 0, &width)) return false;
    if (c->v[1].type != J_MISSING) {
        JVal v = c->v[1];
        if (c->self.u.str->markup && !jhtml_escape(e->r, v, &v)) return false;
        if (!jarg_str(e->r, v, "the fill character", &fill)) return false;
        if (jstr_only_cp(fill) == UINT32_MAX)
            return jrun_fail(e->r, JEXC_TYPE,
                             "the fill character must be exactly one character long");
    }
    return jtext_pad(e->r, c->self.u.str, width, fill, align, out);
}

static bool str_center(JEval *e, JCall *c, JVal *out) { return pad(e, c, 0, out); }
static bool str_ljust(JEval *e, JCall *c, JVal *out) { return pad(e, c, -1, out); }
static bool str_rjust(JEval *e, JCall *c, JVal *out) { return pad(e, c, 1, out); }

static bool str_zfill(JEval *e, JCall *c, JVal *out) {
    static const JStr zero = {.s = {"0", 1}, .n_cp = 1};
    JStr *s = c->self.u.str;
    int64_t width, len = (int64_t)jstr_n_cp(s);
    JBuild b = {0};
    if (!jarg_int(e->r, c->v[0], 0, &width)) return false;
    if (width <= len) return *out = c->self, true;
    size_t sign = s->s.n && (s->s.p[0] == '-' || s->s.p[0] == '+');
    jbuild_put_range(e->r, &b, s, 0, sign);
    jbuild_fill(e->r, &b, &zero, (size_t)(width - len));
    jbuild_put_range(e->r, &b, s, sign, s->s.n);
    return jbuild_done(e->r, &b, out) && jstr_as_markup(e->r, *out, s->markup, out);
}

static bool str_expandtabs(JEval *e, JCall *c, JVal *out) {
    static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
    JStr *s = c->self.u.str;
    int64_t size, column = 0;
    JBuild b = {0};
    if (!jarg_int(e->r, c->v[0], 8, &size) || !jrun_spend(e->r, s->s.n / 8)) return false;
    for (size_t at = 0; at < s->s.n && !b.failed;) {
        size_t from = at;
        uint32_t cp = jstr_next(s->s, &at);
        if (cp == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            jbuild_fill(e->r, &b, &blank, (size_t)n);
            column += n;
            continue;
        }
        column = cp == '\n' || cp == '\r' ? 0 : column + 1;
        jbuild_put_range(e->r, &b, s, from, at);
    }
    return jbuild_done(e->r, &b, out) && jstr_as_markup(e->r, *out, s->markup, out);
}

static bool str_removeprefix(JEval *e, JCall *c, JVal *out) {
    JStr *x, *s = c->self.u.str;
    if (!jarg_str(e->r, c->v[0], "removeprefix() argument", &x)) return false;
    return jstr_slice(e->r, s, str_starts(s->s, x->s) ? x->s.n : 0, s->s.n, out);
}

static bool str_removesuffix(JEval *e, JCall *c, JVal *out) {
    JStr *x, *s = c->self.u.str;
    if (!jarg_str(e->r, c->v[0], "removesuffix() argument", &x)) return false;
    return jstr_slice(e->r, s, 0, str_ends(s->s, x->s) ? s->s.n - x->s.n : s->s.n, out);
}

static bool str_format(JEval *e, JCall *c, JVal *out) {
    return jformat_braces(e, c->self.u.str, c->args, c->n_args, c->kwargs, false, jval_none(), out);
}

static bool str_format_map(JEval *e, JCall *c, JVal *out) {
    if (c->kwargs && c->kwargs->n)
        return jrun_fail(e->r, JEXC_TYPE, "format_map() takes no keyword arguments");
    if (c->n_args != 1)
        return jrun_fail(e->r, JEXC_TYPE, "format_map() takes exactly one argument (%zu given)",
                         c->n_args);
    return jformat_braces(e, c->self.u.str, NULL, 0, NULL, true, c->args[0], out);
}

static bool str_join(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JStr *sep = c->self.u.str;
    JIter *it;
    JBuild b = {0};
    bool done;
    if (!jiter_can(c->v[0])) return jrun_fail(r, JEXC_TYPE, "can only join an iterable");
    if (!jiter_open(r, c->v[0], &it)) return false;
    for (size_t i = 0;; i++) {
        JVal v;
        if (!jiter_next(r, it, &v, &done)) return false;
        if (done) break;
        if (sep->markup && !jhtml_escape(r, v, &v)) return false;
        if (v.type != J_STR)
            return jrun_fail(r, JEXC_TYPE, "sequence item %zu: expected str instance, %s found", i,
                             jval_type_name(v));
        if (i) jbuild_put_jstr(r, &b, sep);
        jbuild_put_jstr(r, &b, v.u.str);
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, sep->markup, out);
}

static bool str_encode(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    Str enc = STR("utf-8");
    JStr *s = c->self.u.str, *name;
    if (c->v[0].type != J_MISSING) {
        if (!jarg_str(r, c->v[0], "encode() argument", &name)) return false;
        enc = name->s;
    }
    bool utf8 = str_ieq(enc, STR("utf-8")) || str_ieq(enc, STR("utf8"));
    bool ascii = str_ieq(enc, STR("ascii")) || str_ieq(enc, STR("us-ascii"));
    if (!utf8 && !ascii)
        return jrun_fail(r, JEXC_LOOKUP, "encoding '" STR_F "' is not supported (utf-8, ascii)",
                         STR_A(enc));
    for (size_t at = 0; at < s->s.n;) {
        uint32_t cp = jstr_next(s->s, &at);
        if ((cp >= 0xD800 && cp <= 0xDFFF) || (ascii && cp >= 0x80))
            return jrun_fail(r, JEXC_VALUE, "'" STR_F "' codec can't encode character U+%04X",
                             STR_A(enc), (unsigned)cp);
    }
    JStr *copy = jrun_new(r, JStr);
    if (!copy) return false;
    *copy = *s;
    copy->markup = false;
    *out = (JVal){.type = J_BYTES, .u.str = copy};
    return true;
}

/* table[code point]: *found is false where Python would see a LookupError. */
static bool translate_look(JEval *e, JVal table, int64_t cp, JVal *to, bool *found) {
    if (table.type == J_DICT) return jdict_get(e->r, table.u.dict, jval_int(cp), to, found);
    if (table.type == J_UNDEF) return jval_fail_undef(e->r, table);
    if (!jval_is_seq(table) && table.type != J_STR && table.type != J_RANGE &&
        table.type != J_BYTES)
        return jrun_fail(e->r, JEXC_TYPE, "'%s' object is not subscriptable",
                         jval_type_name(table));
    if (!jattr_item(e, table, jval_int(cp), to)) return false;
    *found = to->type != J_UNDEF;
    return true;
}

static bool str_translate(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JStr *s = c->self.u.str;
    JBuild b = {0};
    for (size_t at = 0; at < s->s.n && !b.failed;) {
        size_t from = at;
        JVal to;
        bool found;
        int64_t cp = jstr_next(s->s, &at);
        if (!jrun_spend(r, 1) || !translate_look(e, c->v[0], cp, &to, &found)) return false;
        if (!found)
            jbuild_put_range(r, &b, s, from, at);
        else if (to.type == J_STR)
            jbuild_put_jstr(r, &b, to.u.str);
        else if (to.type == J_INT && to.u.i >= 0 && to.u.i <= 0x10FFFF)
            jbuild_put_cp(r, &b, (uint32_t)to.u.i, true);
        else if (to.type != J_NONE)
            return jrun_fail(r, JEXC_TYPE,
                             "translate(): a value must be an integer, string or None");
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, s->markup, out);
}

static const JBuiltin entries[] = {
    {"strip", str_strip, "!chars", 0, false},
    {"lstrip", str_lstrip, "!chars", 0, false},
    {"rstrip", str_rstrip, "!chars", 0, false},
    {"upper", str_upper, "!", 0, false},
    {"lower", str_lower, "!", 0, false},
    {"title", str_title, "!", 0, false},
    {"capitalize", str_capitalize, "!", 0, false},
    {"swapcase", str_swapcase, "!", 0, false},
    {"casefold", str_casefold, "!", 0, false},
    {"replace", str_replace, "!old new count", 2, false},
    {"join", str_join, "!iterable", 1, false},
    {"format", str_format, "", 0, true},
    {"format_map", str_format_map, "", 0, true},
    {"center", str_center, "!width fillchar", 1, false},
    {"ljust", str_ljust, "!width fillchar", 1, false},
    {"rjust", str_rjust, "!width fillchar", 1, false},
    {"zfill", str_zfill, "!width", 1, false},
    {"expandtabs", str_expandtabs, "tabsize", 0, false},
    {"removeprefix", str_removeprefix, "!prefix", 1, false},
    {"removesuffix", str_removesuffix, "!suffix", 1, false},
    {"encode", str_encode, "encoding errors", 0, false},
    {"translate", str_translate, "!table", 1, false},
};
const JBuiltinTable jmethods_str_shape = {entries, sizeof entries / sizeof *entries};
