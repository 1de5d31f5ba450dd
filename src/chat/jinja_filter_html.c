#include <string.h>

#include "chat/jinja_eval.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_text.h"
#include "chat/jinja_urlize.h"

static bool filter_escape(JEval *e, JCall *c, JVal *out) {
    return jhtml_escape(e->r, c->self, out);
}

static bool filter_forceescape(JEval *e, JCall *c, JVal *out) {
    JVal plain;
    return jrepr_str(e->r, c->self, &plain) && jhtml_escape(e->r, plain, out);
}

static bool filter_safe(JEval *e, JCall *c, JVal *out) {
    JVal s;
    return jrepr_soft(e->r, c->self, &s) && jstr_as_markup(e->r, s, true, out);
}

/* Drops <!-- --> and <...>; an unclosed one ends the search and stays. */
static bool strip_tags(JRun *r, JStr *s, JVal *out) {
    JBuild b = {0};
    size_t at = 0;
    for (size_t open; (open = str_find_char(s->s, '<', at)) != STR_NPOS;) {
        bool comment = str_starts(str_from(s->s, open), STR("<!--"));
        size_t close =
            comment ? str_find(s->s, STR("-->"), open + 4) : str_find_char(s->s, '>', open);
        if (close == STR_NPOS) break;
        jbuild_put_range(r, &b, s, at, open);
        at = close + (comment ? 3 : 1);
        if (!jrun_spend(r, 1) || b.failed) return false;
    }
    jbuild_put_range(r, &b, s, at, s->s.n);
    return jbuild_done(r, &b, out);
}

static bool filter_striptags(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JVal s, words;
    JBuild b = {0};
    if (!jrepr_soft(r, c->self, &s) || !jrun_spend_bytes(r, s.u.str->s.n) ||
        !strip_tags(r, s.u.str, &s))
        return false;
    if (!jtext_split(r, s.u.str, NULL, -1, false, &words)) return false;
    for (size_t i = 0; i < words.u.list->n && !b.failed; i++) {
        if (i) jbuild_putc(r, &b, ' ', false);
        jbuild_put_jstr(r, &b, words.u.list->v[i].u.str);
    }
    return jbuild_done(r, &b, &s) && jhtml_unescape(r, s.u.str, out);
}

static bool url_quote(JRun *r, JBuild *b, JVal v, bool query) {
    static const char hex[] = "0123456789ABCDEF";
    JVal s;
    if (v.type == J_BYTES)
        s = v;
    else if (!jrepr_soft(r, v, &s))
        return false;
    bool user = jstr_has_user(s.u.str);
    if (!jrun_spend(r, s.u.str->s.n / 8)) return false;
    for (size_t i = 0; i < s.u.str->s.n && !b->failed; i++) {
        unsigned char ch = (unsigned char)s.u.str->s.p[i];
        bool plain = (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                     strchr("_.-~", ch ? ch : 'x' + 0x80);
        if (ch < 0x80 && ch && (plain || (ch == '/' && !query))) {
            jbuild_putc(r, b, (char)ch, user);
        } else if (ch == ' ' && query) {
            jbuild_putc(r, b, '+', user);
        } else {
            char text[3] = {'%', hex[ch >> 4], hex[ch & 15]};
            jbuild_put(r, b, (Str){text, 3}, user);
        }
    }
    return !b->failed;
}

static bool url_pair(JRun *r, JBuild *b, JVal key, JVal val, bool first) {
    if (!first) jbuild_putc(r, b, '&', false);
    if (!url_quote(r, b, key, true)) return false;
    jbuild_putc(r, b, '=', false);
    return url_quote(r, b, val, true);
}

static bool filter_urlencode(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JBuild b = {0};
    JIter *it;
    bool done;
    if (c->self.type == J_STR || !jiter_can(c->self))
        return url_quote(r, &b, c->self, false) && jbuild_done(r, &b, out);
    if (c->self.type == J_DICT) {
        const JDict *d = c->self.u.dict;
        for (size_t i = 0; i < d->n; i++)
            if (!url_pair(r, &b, d->keys[i], d->vals[i], !i)) return false;
        return jbuild_done(r, &b, out);
    }
    if (!jiter_open(r, c->self, &it)) return false;
    for (bool first = true;; first = false) {
        JVal item;
        JList *pair;
        if (!jiter_next(r, it, &item, &done)) return false;
        if (done) return jbuild_done(r, &b, out);
        if (!jiter_list(r, item, &pair)) return false;
        if (pair->n != 2)
            return jrun_fail(r, JEXC_VALUE, "urlencode takes pairs, not %zu values", pair->n);
        if (!url_pair(r, &b, pair->v[0], pair->v[1], first)) return false;
    }
}

static bool attr_name_ok(Str key) {
    for (size_t i = 0; i < key.n; i++)
        if (strchr(" \t\n\r\f\v/>=", key.p[i]) && key.p[i]) return false;
    return true;
}

static bool filter_xmlattr(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JBuild b = {0};
    bool autospace = c->v[0].type == J_MISSING || jval_truth(c->v[0]), any = false;
    if (c->self.type == J_UNDEF) return jval_fail_undef(r, c->self);
    if (c->self.type != J_DICT)
        return jrun_fail(r, JEXC_TYPE, "xmlattr works on a dict, not %s", jval_type_name(c->self));
    const JDict *d = c->self.u.dict;
    for (size_t i = 0; i < d->n; i++) {
        JVal key, val;
        if (d->vals[i].type == J_NONE || d->vals[i].type == J_UNDEF) continue;
        if (d->keys[i].type != J_STR)
            return jrun_fail(r, JEXC_TYPE, "xmlattr: a name must be str, not %s",
                             jval_type_name(d->keys[i]));
        if (!attr_name_ok(d->keys[i].u.str->s))
            return jrun_fail(r, JEXC_VALUE, "invalid character in attribute name");
        if (!jhtml_escape(r, d->keys[i], &key) || !jhtml_escape(r, d->vals[i], &val)) return false;
        if (any || autospace) jbuild_putc(r, &b, ' ', false);
        any = true;
        jbuild_put_jstr(r, &b, key.u.str);
        jbuild_put(r, &b, STR("=\""), false);
        jbuild_put_jstr(r, &b, val.u.str);
        jbuild_putc(r, &b, '"', false);
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, e->autoescape, out);
}

static const JBuiltin entries[] = {
    {"e", filter_escape, "!", 0, false},
    {"escape", filter_escape, "!", 0, false},
    {"forceescape", filter_forceescape, "", 0, false},
    {"safe", filter_safe, "", 0, false},
    {"striptags", filter_striptags, "", 0, false},
    {"urlencode", filter_urlencode, "", 0, false},
    {"urlize", jurlize_filter, "trim_url_limit nofollow target rel extra_schemes", 0, false},
    {"xmlattr", filter_xmlattr, "autospace", 0, false},
};
const JBuiltinTable jfilters_html = {entries, sizeof entries / sizeof *entries};
