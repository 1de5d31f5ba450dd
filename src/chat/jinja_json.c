#include <math.h>

#include "chat/jinja_big.h"
#include "chat/jinja_float.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_sort.h"

typedef struct JsonOut {
    JRun *r;
    JBuild b;
    const JJsonStyle *style;
    bool user; /* anything of the user's inside */
} JsonOut;

static void json_put(JsonOut *o, Str s) { jbuild_put(o->r, &o->b, s, false); }

static void json_unicode(JsonOut *o, uint32_t unit) {
    static const char hex[] = "0123456789abcdef";
    char text[6] = {
        '\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
    json_put(o, (Str){text, 6});
}

static void json_char(JsonOut *o, uint32_t cp) {
    switch (cp) {
    case '"':
        json_put(o, STR("\\\""));
        return;
    case '\\':
        json_put(o, STR("\\\\"));
        return;
    case '\n':
        json_put(o, STR("\\n"));
        return;
    case '\r':
        json_put(o, STR("\\r"));
        return;
    case '\t':
        json_put(o, STR("\\t"));
        return;
    case '\b':
        json_put(o, STR("\\b"));
        return;
    case '\f':
        json_put(o, STR("\\f"));
        return;
    default:
        break;
    }
    if (cp >= 0x10000) { /* only with ensure_ascii */
        json_unicode(o, 0xD800 + ((cp - 0x10000) >> 10));
        cp = 0xDC00 + ((cp - 0x10000) & 0x3FF);
    }
    json_unicode(o, cp);
}

static void json_string(JsonOut *o, const JStr *s) {
    o->user |= jstr_has_user(s);
    json_put(o, STR("\""));
    size_t run = 0, at = 0;
    while (at < s->s.n && !o->b.failed) {
        unsigned char c = (unsigned char)s->s.p[at];
        bool plain = c < 0x80 ? c >= 0x20 && c != '"' && c != '\\' : !o->style->ascii;
        if (plain) {
            at++;
            continue;
        }
        json_put(o, str_slice(s->s, run, at));
        json_char(o, jstr_next(s->s, &at));
        run = at;
    }
    json_put(o, str_from(s->s, run));
    json_put(o, STR("\""));
}

static void json_float(JsonOut *o, double f) {
    char text[JFLOAT_REPR_MAX];
    if (isnan(f))
        json_put(o, STR("NaN"));
    else if (isinf(f))
        json_put(o, f > 0 ? STR("Infinity") : STR("-Infinity"));
    else
        json_put(o, (Str){text, jfloat_repr(f, text)});
}

static void json_fail(JsonOut *o, JExc exc, const char *fmt, const char *what) {
    if (!o->b.failed) {
        if (exc == JEXC_LIMIT)
            jrun_fail(o->r, exc, "a value is nested too deeply");
        else
            jrun_fail(o->r, exc, "%s%s", fmt, what);
    }
    o->b.failed = true;
}

static void json_break(JsonOut *o, int depth) {
    if (!o->style->indented) return;
    json_put(o, STR("\n"));
    jbuild_fill(o->r, &o->b, o->style->indent.u.str, (size_t)depth);
}

static void json_value(JsonOut *o, JVal v, int depth);

static void json_list(JsonOut *o, const JList *l, int depth) {
    if (!l->n) {
        json_put(o, STR("[]"));
        return;
    }
    json_put(o, STR("["));
    for (size_t i = 0; i < l->n && !o->b.failed; i++) {
        if (i) jbuild_put_jstr(o->r, &o->b, o->style->item_sep.u.str);
        json_break(o, depth + 1);
        json_value(o, l->v[i], depth + 1);
    }
    json_break(o, depth);
    json_put(o, STR("]"));
}

static void json_key(JsonOut *o, JVal key) {
    switch (key.type) {
    case J_STR:
        json_string(o, key.u.str);
        return;
    case J_NONE:
    case J_BOOL:
    case J_INT:
    case J_BIG:
    case J_FLOAT:
        json_put(o, STR("\""));
        json_value(o, key, 0);
        json_put(o, STR("\""));
        return;
    default:
        json_fail(o, JEXC_TYPE, "keys must be str, int, float, bool or None, not ",
                  jval_type_name(key));
    }
}

static void json_dict(JsonOut *o, const JDict *d, int depth) {
    JList *items = NULL;
    if (!d->n) {
        json_put(o, STR("{}"));
        return;
    }
    if (o->style->sort_keys && !jsort_dict_items(o->r, d, &items)) {
        o->b.failed = true;
        return;
    }
    json_put(o, STR("{"));
    for (size_t i = 0; i < d->n && !o->b.failed; i++) {
        if (i) jbuild_put_jstr(o->r, &o->b, o->style->item_sep.u.str);
        json_break(o, depth + 1);
        json_key(o, items ? items->v[i].u.list->v[0] : d->keys[i]);
        jbuild_put_jstr(o->r, &o->b, o->style->key_sep.u.str);
        json_value(o, items ? items->v[i].u.list->v[1] : d->vals[i], depth + 1);
    }
    json_break(o, depth);
    json_put(o, STR("}"));
}

static void json_value(JsonOut *o, JVal v, int depth) {
    if (depth > JRUN_MAX_DATA_DEPTH) json_fail(o, JEXC_LIMIT, "", "");
    if (o->b.failed || !jrun_spend(o->r, 1)) {
        o->b.failed = true;
        return;
    }
    switch (v.type) {
    case J_NONE:
        json_put(o, STR("null"));
        return;
    case J_BOOL:
        json_put(o, v.u.b ? STR("true") : STR("false"));
        return;
    case J_INT:
    case J_BIG:
        jrepr_put(o->r, &o->b, v);
        return;
    case J_FLOAT:
        json_float(o, v.u.f);
        return;
    case J_STR:
        json_string(o, v.u.str);
        return;
    case J_LIST:
    case J_TUPLE:
        json_list(o, v.u.list, depth);
        return;
    case J_DICT:
        json_dict(o, v.u.dict, depth);
        return;
    default:
        json_fail(o, JEXC_TYPE, "not JSON serializable: an object of type ", jval_type_name(v));
    }
}

bool jrepr_json(JRun *r, JVal v, const JJsonStyle *style, JVal *out) {
    JsonOut o = {.r = r, .style = style};
    json_value(&o, v, 0);
    if (o.user && !o.b.failed) jbuild_mark_user(r, &o.b);
    return jbuild_done(r, &o.b, out);
}
