#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_format.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_text.h"
#include "chat/jinja_wrap.h"

static bool soft(JEval *e, JCall *c, JStr **out) {
    JVal s;
    if (!jrepr_soft(e->r, c->self, &s)) return false;
    *out = s.u.str;
    return true;
}

static bool filter_case(JEval *e, JCall *c, JCase kind, JVal *out) {
    JStr *s;
    return soft(e, c, &s) && jtext_case(e->r, s, kind, out);
}

static bool filter_upper(JEval *e, JCall *c, JVal *out) {
    return filter_case(e, c, JCASE_UPPER, out);
}
static bool filter_lower(JEval *e, JCall *c, JVal *out) {
    return filter_case(e, c, JCASE_LOWER, out);
}
static bool filter_capitalize(JEval *e, JCall *c, JVal *out) {
    return filter_case(e, c, JCASE_CAPITALIZE, out);
}

static bool title_break(uint32_t cp) {
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || jstr_is_space(cp);
}

/* Words begin after white space, hyphens and opening brackets; unlike str.title, digits and quotes
 * do not begin one. */
static bool filter_title(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JStr *s;
    JBuild b = {0};
    if (!soft(e, c, &s)) return false;
    for (size_t at = 0; at < s->s.n && !b.failed;) {
        size_t from = at, first;
        JVal part;
        if (title_break(jstr_next(s->s, &at))) {
            jbuild_put_range(r, &b, s, from, at);
            continue;
        }
        first = at;
        if (!jrun_spend(r, 4)) return false;
        while (at < s->s.n) {
            size_t next = at;
            if (title_break(jstr_next(s->s, &next))) break;
            at = next;
        }
        if (!jstr_slice(r, s, from, first, &part) || !jtext_case(r, part.u.str, JCASE_UPPER, &part))
            return false;
        jbuild_put_jstr(r, &b, part.u.str);
        if (!jstr_slice(r, s, first, at, &part) || !jtext_case(r, part.u.str, JCASE_LOWER, &part))
            return false;
        jbuild_put_jstr(r, &b, part.u.str);
    }
    return jbuild_done(r, &b, out);
}

static bool filter_trim(JEval *e, JCall *c, JVal *out) {
    JStr *s, *chars = NULL;
    if (!soft(e, c, &s)) return false;
    if (c->v[0].type != J_MISSING && c->v[0].type != J_NONE &&
        !jarg_str(e->r, c->v[0], "strip argument", &chars))
        return false;
    return jtext_strip(e->r, s, chars, true, true, out);
}

static bool filter_replace(JEval *e, JCall *c, JVal *out) {
    JVal s, old, with;
    int64_t count;
    if (!jarg_index(e->r, c->v[2], -1, &count)) return false;
    if (e->autoescape) {
        bool is_markup = c->self.type == J_STR && c->self.u.str->markup;
        bool escape = (c->v[0].type == J_STR && c->v[0].u.str->markup) ||
                      (c->v[1].type == J_STR && c->v[1].u.str->markup && !is_markup);
        if (!(escape ? jhtml_escape : jrepr_soft)(e->r, c->self, &s)) return false;
        if (!jrepr_soft(e->r, c->v[0], &old) || !jrepr_soft(e->r, c->v[1], &with)) return false;
        bool markup = s.u.str->markup;
        if (markup && !jhtml_escape(e->r, with, &with)) return false;
        return jtext_replace(e->r, s.u.str, old.u.str, with.u.str, count, out) &&
               jstr_as_markup(e->r, *out, markup, out);
    }
    if (!jrepr_str(e->r, c->self, &s) || !jrepr_str(e->r, c->v[0], &old) ||
        !jrepr_str(e->r, c->v[1], &with))
        return false;
    return jtext_replace(e->r, s.u.str, old.u.str, with.u.str, count, out);
}

static bool filter_string(JEval *e, JCall *c, JVal *out) { return jrepr_soft(e->r, c->self, out); }

static bool filter_default(JEval *e, JCall *c, JVal *out) {
    *out = c->self;
    bool boolean = c->v[1].type != J_MISSING && jval_truth(c->v[1]);
    if (c->self.type != J_UNDEF && !(boolean && !jval_truth(c->self))) return true;
    if (c->v[0].type == J_MISSING) return jstr_make(e->r, STR(""), false, out);
    *out = c->v[0];
    return true;
}

static bool filter_center(JEval *e, JCall *c, JVal *out) {
    JStr *s;
    int64_t width;
    return soft(e, c, &s) && jarg_int(e->r, c->v[0], 80, &width) &&
           jtext_pad(e->r, s, width, NULL, 0, out);
}

static bool filter_format(JEval *e, JCall *c, JVal *out) {
    JVal s, args;
    if (!jrepr_soft(e->r, c->self, &s)) return false;
    if (c->kwargs && c->kwargs->n) {
        if (c->n_args)
            return jrun_fail(e->r, JEXC_RUNTIME,
                             "format: positional and keyword arguments cannot be mixed");
        JDict *d = jdict_new(e->r, c->kwargs->n);
        if (!d || !jdict_merge(e->r, d, c->kwargs)) return false;
        args = jval_dict(d);
    } else {
        JList *l = jlist_new(e->r, c->n_args);
        if (!l) return false;
        if (c->n_args) memcpy(l->v, c->args, c->n_args * sizeof *l->v);
        l->n = c->n_args;
        args = jval_tuple(l);
    }
    return jformat_percent(e, s.u.str, args, out);
}

static bool filter_indent(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JVal pad = c->v[0];
    JBuild b = {0};
    int64_t width;
    if (c->self.type == J_UNDEF) return jval_fail_undef(r, c->self);
    if (c->self.type != J_STR)
        return jrun_fail(r, JEXC_TYPE, "indent works on text, not %s", jval_type_name(c->self));
    if (pad.type != J_STR) {
        if (!jarg_int(r, pad, 4, &width)) return false;
        if (width > 1 << 20)
            return jrun_fail(r, JEXC_LIMIT, "an indent of more than a million columns");
        static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
        JBuild spaces = {0};
        jbuild_fill(r, &spaces, &blank, width > 0 ? (size_t)width : 0);
        if (!jbuild_done(r, &spaces, &pad)) return false;
    }
    bool first = c->v[1].type != J_MISSING && jval_truth(c->v[1]);
    bool blank_lines = c->v[2].type != J_MISSING && jval_truth(c->v[2]);
    JStr *s = c->self.u.str;
    size_t at = 0, n_line = 0;
    if (!jrun_spend(r, s->s.n / 16)) return false;
    for (bool more = true; more; n_line++) {
        size_t end = at, next = at;
        more = false;
        while (next < s->s.n && !more) {
            end = next;
            uint32_t cp = jstr_next(s->s, &next);
            more = jstr_is_line_end(cp);
            if (!more)
                end = next;
            else if (cp == '\r' && next < s->s.n && s->s.p[next] == '\n')
                next++;
        }
        if (n_line) jbuild_putc(r, &b, '\n', false);
        if (n_line ? blank_lines || end > at : first) jbuild_put_jstr(r, &b, pad.u.str);
        jbuild_put_range(r, &b, s, at, end);
        at = next;
        /* Jinja adds a line end before it splits, so text that ends with one keeps an empty last
         * line; a final \r would join with it. */
        if (more && at == s->s.n && s->s.p[at - 1] == '\r') more = false;
        if (b.failed) return false;
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, s->markup, out);
}

static bool filter_truncate(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    int64_t length, leeway;
    size_t len, n_end = 3;
    JVal end, cut;
    if (c->v[2].type == J_MISSING) {
        if (!jstr_make(r, STR("..."), false, &end)) return false;
    } else {
        end = c->v[2];
    }
    if (!jarg_int(r, c->v[0], 255, &length) || !jarg_index(r, c->v[3], 5, &leeway)) return false;
    if (!jval_len(r, end, &n_end)) return false;
    if (length < (int64_t)n_end || leeway < 0)
        return jrun_fail(
            r, JEXC_VALUE,
            "truncate: length must be at least that of the ending, and leeway not negative");
    if (!jval_len(r, c->self, &len)) return false;
    *out = c->self;
    if (length > INT64_MAX - leeway || (int64_t)len <= length + leeway) return true;
    if (c->self.type != J_STR || end.type != J_STR)
        return jrun_fail(r, JEXC_TYPE, "truncate works on text, not %s", jval_type_name(c->self));
    JStr *s = c->self.u.str;
    size_t to = jstr_byte_of(s, (size_t)length - n_end);
    if (c->v[1].type == J_MISSING || !jval_truth(c->v[1])) {
        size_t blank = to;
        while (blank > 0 && s->s.p[blank - 1] != ' ') blank--;
        if (blank) to = blank - 1;
    }
    return jstr_slice(r, s, 0, to, &cut) && jops_binary(e, JN_ADD, cut, end, out);
}

static bool filter_wordcount(JEval *e, JCall *c, JVal *out) {
    JStr *s;
    int64_t n = 0;
    bool inside = false;
    if (!soft(e, c, &s) || !jrun_spend(e->r, s->s.n / 8)) return false;
    for (size_t at = 0; at < s->s.n;) {
        bool word = jtext_is_word(jstr_next(s->s, &at));
        n += word && !inside;
        inside = word;
    }
    *out = jval_int(n);
    return true;
}

static bool filter_tojson(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JJsonStyle style = {.ascii = c->v[0].type != J_MISSING && jval_truth(c->v[0]),
                        .sort_keys = c->v[3].type != J_MISSING && jval_truth(c->v[3])};
    JVal indent = c->v[1];
    int64_t width;
    style.indented = indent.type != J_MISSING && indent.type != J_NONE;
    if (style.indented && indent.type != J_STR) {
        static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
        JBuild spaces = {0};
        if (!jarg_int(r, indent, 0, &width)) return false;
        if (width > 1 << 20)
            return jrun_fail(r, JEXC_LIMIT, "an indent of more than a million columns");
        jbuild_fill(r, &spaces, &blank, width > 0 ? (size_t)width : 0);
        if (!jbuild_done(r, &spaces, &indent)) return false;
    }
    style.indent = indent;
    if (c->v[2].type != J_MISSING && c->v[2].type != J_NONE) {
        JList *l;
        if (!jiter_list(r, c->v[2], &l)) return false;
        if (l->n != 2 || l->v[0].type != J_STR || l->v[1].type != J_STR)
            return jrun_fail(r, JEXC_VALUE, "tojson: separators must be two strings");
        style.item_sep = l->v[0];
        style.key_sep = l->v[1];
    } else if (!jstr_make(r, style.indented ? STR(",") : STR(", "), false, &style.item_sep) ||
               !jstr_make(r, STR(": "), false, &style.key_sep)) {
        return false;
    }
    return jrepr_json(r, c->self, &style, out);
}

static bool filter_wordwrap(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    int64_t width;
    JWrap w = {.break_long = c->v[1].type == J_MISSING || jval_truth(c->v[1]),
               .break_hyphens = c->v[3].type == J_MISSING || jval_truth(c->v[3])};
    if (c->self.type == J_UNDEF) return jval_fail_undef(r, c->self);
    if (c->self.type != J_STR)
        return jrun_fail(r, JEXC_TYPE, "wordwrap works on text, not %s", jval_type_name(c->self));
    if (!c->self.u.str->s.n) return *out = c->self, true; /* nothing is looked at then */
    if (!jarg_int(r, c->v[0], 79, &width)) return false;
    w.width = width;
    w.newline = c->v[2];
    if ((c->v[2].type == J_MISSING || c->v[2].type == J_NONE) &&
        !jstr_make(r, STR("\n"), false, &w.newline))
        return false;
    if (w.newline.type != J_STR)
        return jrun_fail(r, JEXC_TYPE, "wordwrap: wrapstring must be text");
    return jwrap_text(r, c->self.u.str, &w, out);
}

static bool filter_pprint(JEval *e, JCall *c, JVal *out) {
    return jrepr_pretty(e->r, c->self, out);
}

static const JBuiltin entries[] = {
    {"trim", filter_trim, "chars", 0, false},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0, false},
    {"default", filter_default, "default_value boolean", 0, false},
    {"d", filter_default, "default_value boolean", 0, false},
    {"upper", filter_upper, "", 0, false},
    {"lower", filter_lower, "", 0, false},
    {"string", filter_string, "", 0, false},
    {"replace", filter_replace, "old new count", 2, false},
    {"indent", filter_indent, "width first blank", 0, false},
    {"capitalize", filter_capitalize, "", 0, false},
    {"title", filter_title, "", 0, false},
    {"center", filter_center, "width", 0, false},
    {"format", filter_format, "", 0, true},
    {"truncate", filter_truncate, "length killwords end leeway", 0, false},
    {"wordcount", filter_wordcount, "", 0, false},
    {"wordwrap", filter_wordwrap, "width break_long_words wrapstring break_on_hyphens", 0, false},
    {"pprint", filter_pprint, "", 0, false},
};
const JBuiltinTable jfilters_text = {entries, sizeof entries / sizeof *entries};
