#include "chat/jinja_urlize.h"

#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_sort.h"
#include "chat/jinja_text.h"

typedef struct Urlize {
    JEval *e;
    JRun *r;
    JBuild *b;
    JVal limit;      /* of the shown text, code points; J_MISSING: none */
    Str rel, target; /* ready attributes with a blank in front, or empty */
    bool user;
    JList *schemes;
} Urlize;

static bool host_char(uint32_t cp) { return jtext_is_word(cp) || cp == '%' || cp == '-'; }

/* Dots separate labels of [\w%-]; gives the last label, or fails. least and most bound a label's
 * length. */
static bool labels_ok(Str host, size_t least, size_t most, Str *last) {
    size_t from = 0, n = 0;
    for (size_t at = 0; at < host.n;) {
        uint32_t cp = jstr_next(host, &at);
        if (cp == '.') {
            if (n < least || n > most) return false;
            from = at;
            n = 0;
        } else if (host_char(cp)) {
            n++;
        } else {
            return false;
        }
    }
    *last = str_from(host, from);
    return true;
}

static bool tld_ok(Str s) {
    bool letters = s.n >= 2 && s.n <= 63;
    for (size_t i = 0; i < s.n && letters; i++)
        letters = (s.p[i] | 32) >= 'a' && (s.p[i] | 32) <= 'z';
    if (letters) return true;
    if (s.n < 4 || !str_ieq(str_slice(s, 0, 4), STR("xn--"))) return false;
    size_t n = 0, at = 4;
    while (at < s.n) {
        uint32_t cp = jstr_next(s, &at);
        if (!jtext_is_word(cp) && cp != '%') return false;
        n++;
    }
    return n >= 2 && n <= 59;
}

static bool known_tld(Str s) {
    static const char *const known[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_ieq(s, str_c(known[i]))) return true;
    return false;
}

static bool ipv4_ok(Str s) {
    size_t parts = 0, n = 0;
    for (size_t i = 0; i <= s.n; i++) {
        if (i < s.n && s.p[i] >= '0' && s.p[i] <= '9') {
            n++;
            continue;
        }
        if ((i < s.n && s.p[i] != '.') || n < 1 || n > 3) return false;
        parts++;
        n = 0;
    }
    return parts == 4;
}

static size_t hex_run(Str s, size_t at) {
    size_t n = 0;
    while (n < 4 && at + n < s.n &&
           ((s.p[at + n] >= '0' && s.p[at + n] <= '9') ||
            ((s.p[at + n] | 32) >= 'a' && (s.p[at + n] | 32) <= 'f')))
        n++;
    return n;
}

static bool
ipv6_ok(Str s) { /* in brackets: two groups with a colon, then one to six with or without */
    if (s.n < 4 || s.p[0] != '[' || s.p[s.n - 1] != ']') return false;
    s = str_slice(s, 1, s.n - 1);
    size_t at = 0, groups = 0;
    for (; groups < 2; groups++) {
        at += hex_run(s, at);
        if (at >= s.n || s.p[at++] != ':') return false;
    }
    for (groups = 0; at < s.n && groups < 6; groups++) {
        size_t before = at;
        at += hex_run(s, at);
        if (at < s.n && s.p[at] == ':') at++;
        if (at == before) return false;
    }
    return at >= s.n;
}

static bool host_ok(Str host, bool scheme, bool www) {
    Str last;
    if (scheme && (ipv4_ok(host) || ipv6_ok(host))) return true;
    if (scheme && labels_ok(host, 1, host.n, &last) && tld_ok(last)) return true;
    if (www && labels_ok(str_from(host, 4), 1, host.n, &last) && tld_ok(last)) return true;
    return !scheme && labels_ok(host, 2, 63, &last) && last.p != host.p && known_tld(last);
}

static bool starts_nocase(Str s, Str prefix) {
    return s.n >= prefix.n && str_ieq(str_slice(s, 0, prefix.n), prefix);
}

static bool is_url(Str s) {
    size_t from = starts_nocase(s, STR("https://")) ? 8 : starts_nocase(s, STR("http://")) ? 7 : 0;
    bool www = !from && starts_nocase(s, STR("www."));
    size_t end = from;
    while (end < s.n && s.p[end] != '/' && s.p[end] != '?' && s.p[end] != '#') end++;
    Str host = str_slice(s, from, end);
    if (host_ok(host, from > 0, www)) return true;
    size_t digits = 0;
    while (digits < host.n && host.p[host.n - 1 - digits] >= '0' &&
           host.p[host.n - 1 - digits] <= '9')
        digits++;
    bool port = digits >= 1 && digits <= 5 && digits < host.n && host.p[host.n - 1 - digits] == ':';
    return port && host_ok(str_slice(host, 0, host.n - 1 - digits), from > 0, www);
}

static bool is_email(Str s) {
    size_t at_sign = str_rfind(s, STR("@")), dot;
    if (at_sign == STR_NPOS || at_sign == 0) return false;
    Str domain = str_from(s, at_sign + 1);
    dot = str_rfind(domain, STR("."));
    if (dot == STR_NPOS || dot == 0 || dot + 1 >= domain.n) return false;
    for (size_t at = 0; at < domain.n;) {
        size_t from = at;
        uint32_t cp = jstr_next(domain, &at);
        bool inner = from > 0 && from <= dot && (cp == '.' || cp == '-');
        if (!jtext_is_word(cp) && !inner) return false;
    }
    return true;
}

static void put(Urlize *u, Str s) { jbuild_put(u->r, u->b, s, u->user); }

/* The address as shown: cut at the limit, if there is one. */
static void put_shown(Urlize *u, Str shown) {
    JStr s = {.s = shown, .n_cp = JSTR_COUNT_LATER};
    JSlice cut = {jval_none(), u->limit, jval_none()};
    JVal n = jval_int((int64_t)jstr_n_cp(&s)), text;
    bool longer = false;
    if (u->limit.type != J_MISSING && !jval_compare(u->r, JCMP_GT, n, u->limit, &longer))
        u->b->failed = true;
    if (!longer) {
        put(u, shown);
        return;
    }
    if (!jattr_slice(u->e, jval_str(&s), &cut, &text)) {
        u->b->failed = true;
        return;
    }
    put(u, text.u.str->s);
    put(u, STR("..."));
}

static void put_link(Urlize *u, Str scheme, Str target, Str shown, bool attributes, bool trimmed) {
    put(u, STR("<a href=\""));
    put(u, scheme);
    put(u, target);
    put(u, STR("\""));
    if (attributes) {
        put(u, u->rel);
        put(u, u->target);
    }
    put(u, STR(">"));
    if (trimmed)
        put_shown(u, shown);
    else
        put(u, shown);
    put(u, STR("</a>"));
}

static void put_middle(Urlize *u, Str m) {
    if (is_url(m)) {
        bool scheme = str_starts(m, STR("https://")) || str_starts(m, STR("http://"));
        put_link(u, scheme ? STR_NONE : STR("https://"), m, m, true, true);
        return;
    }
    if (str_starts(m, STR("mailto:")) && is_email(str_from(m, 7))) {
        put_link(u, STR_NONE, m, str_from(m, 7), false, false);
        return;
    }
    bool bare = str_find_char(m, '@', 0) != STR_NPOS && !str_starts(m, STR("www.")) &&
                !str_starts(m, STR("@"));
    if (bare && str_find_char(m, ':', 0) == STR_NPOS && is_email(m)) {
        put_link(u, STR("mailto:"), m, m, false, false);
        return;
    }
    for (size_t i = 0; u->schemes && i < u->schemes->n; i++) {
        Str scheme = u->schemes->v[i].u.str->s;
        if (str_eq(m, scheme) || !str_starts(m, scheme)) continue;
        put_link(u, STR_NONE, m, m, true, false);
        return;
    }
    put(u, m);
}

static size_t count_of(Str s, Str x) {
    size_t n = 0;
    for (size_t at = 0; (at = str_find(s, x, at)) != STR_NPOS; at += x.n) n++;
    return n;
}

static size_t tail_from(Str s) { /* where trailing punctuation begins */
    for (;;) {
        char c = s.n ? s.p[s.n - 1] : 0;
        if (str_ends(s, STR("&gt;")))
            s.n -= 4;
        else if (c == ')' || c == '>' || c == '.' || c == ',' || c == '\n')
            s.n--;
        else
            return s.n;
    }
}

static void put_word(Urlize *u, Str word) {
    static const Str pairs[3][2] = {
        {{"(", 1}, {")", 1}}, {{"<", 1}, {">", 1}}, {{"&lt;", 4}, {"&gt;", 4}}};
    size_t head = 0;
    for (;;) {
        if (head < word.n && (word.p[head] == '(' || word.p[head] == '<'))
            head++;
        else if (str_starts(str_from(word, head), STR("&lt;")))
            head += 4;
        else
            break;
    }
    Str rest = str_from(word, head);
    size_t cut = tail_from(rest);
    for (int i = 0; i < 3;
         i++) { /* an opening bracket inside takes its closing one back from the tail */
        Str middle = str_slice(rest, 0, cut), tail = str_from(rest, cut);
        size_t open = count_of(middle, pairs[i][0]), n = count_of(tail, pairs[i][1]);
        if (open <= count_of(middle, pairs[i][1])) continue;
        for (size_t k = 0; k < open && k < n; k++)
            cut = str_find(rest, pairs[i][1], cut) + pairs[i][1].n;
    }
    put(u, str_slice(word, 0, head));
    put_middle(u, str_slice(rest, 0, cut));
    put(u, str_from(rest, cut));
}

static bool rel_attribute(JEval *e, JVal rel, bool nofollow, Str *out) {
    JRun *r = e->r;
    JVal words = jval_none(), v, no;
    JBuild b = {0};
    JDict *seen = jdict_new(r, 4);
    JList *l = jlist_new(r, 4);
    if (!seen || !l) return false;
    if (rel.type == J_STR && !jtext_split(r, rel.u.str, NULL, -1, false, &words)) return false;
    if (rel.type != J_STR && rel.type != J_MISSING && jval_truth(rel))
        return jrun_fail(r, JEXC_TYPE, "urlize: rel must be text");
    for (size_t i = 0; words.type == J_LIST && i < words.u.list->n; i++)
        if (!jdict_put(r, seen, words.u.list->v[i], jval_none())) return false;
    if (!jstr_make(r, STR("noopener"), false, &v) || !jstr_make(r, STR("nofollow"), false, &no))
        return false;
    if ((nofollow && !jdict_put(r, seen, no, jval_none())) || !jdict_put(r, seen, v, jval_none()))
        return false;
    for (size_t i = 0; i < seen->n; i++)
        if (!jlist_push(r, l, seen->keys[i])) return false;
    if (!jsort_by(r, l->v, l->v, l->n, false)) return false;
    jbuild_put(r, &b, STR(" rel=\""), false);
    for (size_t i = 0; i < l->n; i++) {
        if (i) jbuild_putc(r, &b, ' ', false);
        if (!jhtml_put_escaped(r, &b, l->v[i].u.str)) return false;
    }
    jbuild_putc(r, &b, '"', false);
    if (!jbuild_done(r, &b, &v)) return false;
    *out = v.u.str->s;
    return true;
}

static bool target_attribute(JEval *e, JVal target, Str *out) {
    JBuild b = {0};
    JVal v;
    *out = STR_NONE;
    if (target.type == J_MISSING || !jval_truth(target)) return true;
    if (!jhtml_escape(e->r, target, &v)) return false;
    jbuild_put(e->r, &b, STR(" target=\""), false);
    jbuild_put_jstr(e->r, &b, v.u.str);
    jbuild_putc(e->r, &b, '"', false);
    if (!jbuild_done(e->r, &b, &v)) return false;
    *out = v.u.str->s;
    return true;
}

static bool scheme_ok(Str s) {
    size_t n = s.n, cps = 0;
    while (n > 0 && s.p[n - 1] == '/' && s.n - n < 2) n--;
    if (n == 0 || s.p[n - 1] != ':') return false;
    for (size_t at = 0; at < n - 1; cps++) {
        uint32_t cp = jstr_next(s, &at);
        if (!jtext_is_word(cp) && cp != '.' && cp != '+' && cp != '-') return false;
    }
    return cps >= 2;
}

bool jurlize_filter(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JBuild b = {0};
    JVal text;
    Urlize u = {.e = e, .r = r, .b = &b};
    if (c->v[0].type != J_NONE) u.limit = c->v[0];
    if (!rel_attribute(e, c->v[3], c->v[1].type != J_MISSING && jval_truth(c->v[1]), &u.rel))
        return false;
    if (!target_attribute(e, c->v[2], &u.target)) return false;
    if (c->v[4].type != J_MISSING && c->v[4].type != J_NONE) {
        if (!jiter_list(r, c->v[4], &u.schemes)) return false;
        for (size_t i = 0; i < u.schemes->n; i++)
            if (u.schemes->v[i].type != J_STR || !scheme_ok(u.schemes->v[i].u.str->s))
                return jrun_fail(r, JEXC_RUNTIME, "urlize: not a valid URI scheme prefix");
    }
    if (!jhtml_escape(r, c->self, &text)) return false;
    JStr *s = text.u.str;
    u.user = jstr_has_user(s);
    for (size_t at = 0; at < s->s.n && !b.failed;) {
        size_t from = at, next = at;
        bool blank = jstr_is_space(jstr_next(s->s, &next));
        while (at < s->s.n) {
            next = at;
            if (jstr_is_space(jstr_next(s->s, &next)) != blank) break;
            at = next;
        }
        if (!jrun_spend(r, 2 + (at - from) / 4)) return false;
        if (blank)
            put(&u, str_slice(s->s, from, at));
        else
            put_word(&u, str_slice(s->s, from, at));
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, e->autoescape, out);
}
