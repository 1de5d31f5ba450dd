#include "chat/jinja_repr.h"

#include <math.h>
#include <string.h>

#include "base/unicode.h"
#include "chat/jinja_big.h"
#include "chat/jinja_builtin.h"
#include "chat/jinja_float.h"
#include "chat/jinja_macro.h"

static void repr_at(JRun *r, JBuild *b, JVal v, int depth);

static void build_fail(JRun *r, JBuild *b) {
    if (!b->failed) jrun_fail(r, JEXC_LIMIT, "a value is nested too deeply");
    b->failed = true;
}

static bool printable(uint32_t cp) {
    if (cp < 0x7F) return cp >= 0x20;
    const uint32_t not_printable = UNICODE_SEPARATORS | UNICODE_BIT(UNICODE_CC) |
                                   UNICODE_BIT(UNICODE_CF) | UNICODE_BIT(UNICODE_CS) |
                                   UNICODE_BIT(UNICODE_CO) | UNICODE_BIT(UNICODE_CN);
    return !UNICODE_IN(cp, not_printable);
}

static void put_hex(JRun *r, JBuild *b, char kind, uint32_t cp, int digits, bool user) {
    static const char hex[] = "0123456789abcdef";
    char text[12] = {'\\', kind};
    for (int i = 0; i < digits; i++) text[2 + i] = hex[cp >> ((digits - 1 - i) * 4) & 15];
    jbuild_put(r, b, (Str){text, (size_t)digits + 2}, user);
}

static void put_escaped(JRun *r, JBuild *b, uint32_t cp, char quote, bool ascii, bool user) {
    char two[2] = {'\\', 0};
    if (cp == (uint32_t)quote || cp == '\\')
        two[1] = (char)cp;
    else if (cp == '\n')
        two[1] = 'n';
    else if (cp == '\r')
        two[1] = 'r';
    else if (cp == '\t')
        two[1] = 't';
    if (two[1])
        jbuild_put(r, b, (Str){two, 2}, user);
    else if (cp < 0x7F ? cp >= 0x20 : !ascii && printable(cp))
        jbuild_put_cp(r, b, cp, user);
    else
        put_hex(r, b,
                cp < 0x100     ? 'x'
                : cp < 0x10000 ? 'u'
                               : 'U',
                cp,
                cp < 0x100     ? 2
                : cp < 0x10000 ? 4
                               : 8,
                user);
}

static char quote_of(Str s) { /* single, unless that would need an escape and double would not */
    bool single = str_find_char(s, '\'', 0) != STR_NPOS;
    return single && str_find_char(s, '"', 0) == STR_NPOS ? '"' : '\'';
}

static void put_string(JRun *r, JBuild *b, const JStr *s) {
    bool user = jstr_has_user(s);
    char quote = quote_of(s->s);
    jbuild_putc(r, b, quote, user);
    size_t run = 0, at = 0;
    while (at < s->s.n && !b->failed) { /* plain ASCII goes in pieces */
        unsigned char c = (unsigned char)s->s.p[at];
        if (c >= 0x20 && c < 0x7F && c != '\\' && c != (unsigned char)quote) {
            at++;
            continue;
        }
        jbuild_put(r, b, str_slice(s->s, run, at), user);
        put_escaped(r, b, jstr_next(s->s, &at), quote, false, user);
        run = at;
    }
    jbuild_put(r, b, str_from(s->s, run), user);
    jbuild_putc(r, b, quote, user);
}

static void put_bytes(JRun *r, JBuild *b, const JStr *s) {
    bool user = jstr_has_user(s);
    char quote = quote_of(s->s);
    jbuild_putc(r, b, 'b', user);
    jbuild_putc(r, b, quote, user);
    for (size_t i = 0; i < s->s.n; i++)
        put_escaped(r, b, (unsigned char)s->s.p[i], quote, true, user);
    jbuild_putc(r, b, quote, user);
}

static void put_int(JRun *r, JBuild *b, JVal v) {
    Str text;
    if (v.type == J_INT) { /* the common case without a detour */
        char small[24];
        uint64_t u = v.u.i < 0 ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i;
        size_t at = sizeof small;
        do small[--at] = (char)('0' + u % 10);
        while (u /= 10);
        if (v.u.i < 0) small[--at] = '-';
        jbuild_put(r, b, (Str){small + at, sizeof small - at}, false);
        return;
    }
    if (jint_format(r, v, 10, false, &text))
        jbuild_put(r, b, text, false);
    else
        b->failed = true;
}

static void put_seq(JRun *r, JBuild *b, const JList *l, char open, char close, int depth) {
    jbuild_putc(r, b, open, false);
    for (size_t i = 0; i < l->n && !b->failed; i++) {
        if (i) jbuild_put(r, b, STR(", "), false);
        repr_at(r, b, l->v[i], depth);
    }
    if (open == '(' && l->n == 1) jbuild_putc(r, b, ',', false);
    jbuild_putc(r, b, close, false);
}

static void put_dict(JRun *r, JBuild *b, const JDict *d, int depth) {
    jbuild_putc(r, b, '{', false);
    for (size_t i = 0; i < d->n && !b->failed; i++) {
        if (i) jbuild_put(r, b, STR(", "), false);
        repr_at(r, b, d->keys[i], depth);
        jbuild_put(r, b, STR(": "), false);
        repr_at(r, b, d->vals[i], depth);
    }
    jbuild_putc(r, b, '}', false);
}

static void put_view(JRun *r, JBuild *b, const JView *v, int depth) {
    static const char *const head[] = {"dict_keys([", "dict_values([", "dict_items(["};
    jbuild_put(r, b, str_c(head[v->kind]), false);
    for (size_t i = 0; i < v->dict->n && !b->failed; i++) {
        if (i) jbuild_put(r, b, STR(", "), false);
        if (v->kind == JVIEW_ITEMS) jbuild_putc(r, b, '(', false);
        if (v->kind != JVIEW_VALUES) repr_at(r, b, v->dict->keys[i], depth);
        if (v->kind == JVIEW_ITEMS) jbuild_put(r, b, STR(", "), false);
        if (v->kind != JVIEW_KEYS) repr_at(r, b, v->dict->vals[i], depth);
        if (v->kind == JVIEW_ITEMS) jbuild_putc(r, b, ')', false);
    }
    jbuild_put(r, b, STR("])"), false);
}

static void put_range(JRun *r, JBuild *b, const JRange *g) {
    jbuild_put(r, b, STR("range("), false);
    put_int(r, b, jval_int(g->start));
    jbuild_put(r, b, STR(", "), false);
    put_int(r, b, jval_int(g->stop));
    if (g->step != 1) {
        jbuild_put(r, b, STR(", "), false);
        put_int(r, b, jval_int(g->step));
    }
    jbuild_putc(r, b, ')', false);
}

static void put_loop(JRun *r, JBuild *b, JLoop *l) {
    size_t n;
    if (!jloop_length(r, l, &n)) {
        b->failed = true;
        return;
    }
    jbuild_put(r, b, STR("<LoopContext "), false);
    put_int(r, b, jval_int(l->index0 + 1));
    jbuild_putc(r, b, '/', false);
    put_int(r, b, jval_int((int64_t)n));
    jbuild_putc(r, b, '>', false);
}

static void put_object(JRun *r, JBuild *b, JVal v) {
    switch (v.type) {
    case J_MACRO:
        if (!v.u.macro->name.n) {
            jbuild_put(r, b, STR("<Macro anonymous>"), false);
            return;
        }
        jbuild_put(r, b, STR("<Macro '"), false);
        jbuild_put(r, b, v.u.macro->name, false);
        jbuild_put(r, b, STR("'>"), false);
        return;
    case J_FUNC:
        jbuild_put(r, b, STR("<function "), false);
        jbuild_put(r, b, str_c(v.u.func->spec.name), false);
        break;
    default:
        jbuild_put(r, b, STR("<"), false);
        jbuild_put(r, b, str_c(jval_type_name(v)), false);
        jbuild_put(r, b, STR(" object"), false);
        break;
    }
    jbuild_putc(r, b, '>', false);
}

static void repr_at(JRun *r, JBuild *b, JVal v, int depth) {
    char text[JFLOAT_REPR_MAX];
    if (depth > JRUN_MAX_DATA_DEPTH) build_fail(r, b);
    if (b->failed || !jrun_spend(r, 1)) {
        b->failed = true;
        return;
    }
    switch (v.type) {
    case J_MISSING:
        jbuild_put(r, b, STR("missing"), false);
        return;
    case J_UNDEF:
        jbuild_put(r, b, STR("Undefined"), false);
        return;
    case J_NONE:
        jbuild_put(r, b, STR("None"), false);
        return;
    case J_BOOL:
        jbuild_put(r, b, v.u.b ? STR("True") : STR("False"), false);
        return;
    case J_INT:
    case J_BIG:
        put_int(r, b, v);
        return;
    case J_FLOAT:
        jbuild_put(r, b, (Str){text, jfloat_repr(v.u.f, text)}, false);
        return;
    case J_STR:
        if (v.u.str->markup) jbuild_put(r, b, STR("Markup("), false);
        put_string(r, b, v.u.str);
        if (v.u.str->markup) jbuild_putc(r, b, ')', false);
        return;
    case J_BYTES:
        put_bytes(r, b, v.u.str);
        return;
    case J_LIST:
        put_seq(r, b, v.u.list, '[', ']', depth + 1);
        return;
    case J_TUPLE:
        put_seq(r, b, v.u.list, '(', ')', depth + 1);
        return;
    case J_DICT:
        put_dict(r, b, v.u.dict, depth + 1);
        return;
    case J_VIEW:
        put_view(r, b, v.u.view, depth + 1);
        return;
    case J_RANGE:
        put_range(r, b, v.u.range);
        return;
    case J_NS:
        jbuild_put(r, b, STR("<Namespace "), false);
        put_dict(r, b, v.u.ns->attrs, depth + 1);
        jbuild_putc(r, b, '>', false);
        return;
    case J_LOOP:
        put_loop(r, b, v.u.loop);
        return;
    default:
        put_object(r, b, v);
        return;
    }
}

void jrepr_put(JRun *r, JBuild *b, JVal v) { repr_at(r, b, v, 0); }

static bool build_done_whole(JRun *r, JBuild *b, JVal *out) {
    for (size_t i = 0; i < b->n_segs && !b->failed; i++) {
        if (!b->segs[i].user) continue;
        jbuild_mark_user(r, b);
        break;
    }
    return jbuild_done(r, b, out);
}

bool jrepr_repr(JRun *r, JVal v, JVal *out) {
    JBuild b = {0};
    repr_at(r, &b, v, 0);
    return build_done_whole(r, &b, out);
}

bool jrepr_ascii(JRun *r, JVal v, JVal *out) {
    JBuild b = {0};
    JVal text;
    if (!jrepr_repr(r, v, &text)) return false;
    const JStr *s = text.u.str;
    bool user = jstr_has_user(s);
    for (size_t at = 0; at < s->s.n && !b.failed;) {
        size_t from = at;
        uint32_t cp = jstr_next(s->s, &at);
        if (cp < 0x80)
            jbuild_put_range(r, &b, s, from, at);
        else
            put_escaped(r, &b, cp, 0, true, user);
    }
    return jbuild_done(r, &b, out);
}

bool jrepr_soft(JRun *r, JVal v, JVal *out) {
    if (v.type == J_STR) return *out = v, true;
    if (v.type == J_UNDEF) return jstr_make(r, STR(""), false, out);
    return jrepr_repr(r, v, out);
}

bool jrepr_str(JRun *r, JVal v, JVal *out) {
    if (!jrepr_soft(r, v, out)) return false;
    return jstr_as_markup(r, *out, false, out);
}
