#include "chat/jinja_html.h"

#include <string.h>

#include "chat/jinja_repr.h"

bool jhtml_put_escaped(JRun *r, JBuild *b, const JStr *s) {
    size_t run = 0;
    if (!jrun_spend_bytes(r, s->s.n)) return false;
    for (size_t i = 0; i < s->s.n && !b->failed; i++) {
        Str to;
        switch (s->s.p[i]) {
        case '&':
            to = STR("&amp;");
            break;
        case '<':
            to = STR("&lt;");
            break;
        case '>':
            to = STR("&gt;");
            break;
        case '"':
            to = STR("&#34;");
            break;
        case '\'':
            to = STR("&#39;");
            break;
        default:
            continue;
        }
        jbuild_put_range(r, b, s, run, i);
        jbuild_put(r, b, to, jstr_has_user(s));
        run = i + 1;
    }
    jbuild_put_range(r, b, s, run, s->s.n);
    return !b->failed;
}

bool jhtml_escape(JRun *r, JVal v, JVal *out) {
    JBuild b = {0};
    if (v.type == J_STR && v.u.str->markup) return *out = v, true;
    if (!jrepr_soft(r, v, &v) || !jhtml_put_escaped(r, &b, v.u.str)) return false;
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, true, out);
}

static const JHtmlEntity *entity_find(Str name) {
    size_t lo = 0, hi = jhtml_n_entities;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = str_cmp(name, str_c(jhtml_entities[mid].name));
        if (c == 0) return &jhtml_entities[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

/* What browsers make of numbers that are not characters: Windows-1252 for the C1 range, and nothing
 * for some. */
static bool numeric_char(uint64_t n, uint32_t *out) {
    static const uint16_t c1[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                    0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                    0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                    0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
    *out = (uint32_t)n;
    if (n >= 0x80 && n < 0xA0) return *out = c1[n - 0x80], true;
    if (n == 0 || (n >= 0xD800 && n <= 0xDFFF) || n > 0x10FFFF) return *out = 0xFFFD, true;
    bool control = (n >= 1 && n <= 8) || n == 0xB || (n >= 0xE && n <= 0x1F) || n == 0x7F;
    return !control && !(n >= 0xFDD0 && n <= 0xFDEF) && (n & 0xFFFE) != 0xFFFE;
}

/* &#38; or &#x26; at s.p[0] == '#'; gives how much was read, 0 if it is no reference. */
static size_t numeric_read(JRun *r, JBuild *b, Str s, bool user) {
    bool hex = s.n > 1 && (s.p[1] | 32) == 'x';
    size_t at = hex ? 2 : 1, from = at;
    uint64_t n = 0;
    uint32_t cp;
    for (; at < s.n; at++) {
        char c = s.p[at];
        bool digit = c >= '0' && c <= '9', letter = hex && (c | 32) >= 'a' && (c | 32) <= 'f';
        if (!digit && !letter) break;
        if (n < 0x1000000)
            n = n * (hex ? 16 : 10) + (uint64_t)(digit ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (at == from) return 0;
    if (at < s.n && s.p[at] == ';') at++;
    if (numeric_char(n, &cp)) jbuild_put_cp(r, b, cp, user);
    return at;
}

/* The longest name that s begins with; without a semicolon only old names count, and they may be
 * cut short. */
static size_t named_read(JRun *r, JBuild *b, Str s, bool user) {
    size_t n = 0;
    while (n < s.n && n < 32 && !strchr("\t\n\f <&#;", s.p[n]) && s.p[n]) n++;
    if (n < s.n && s.p[n] == ';') n++;
    for (; n > 1; n--) {
        const JHtmlEntity *hit = entity_find(str_slice(s, 0, n));
        if (!hit) continue;
        jbuild_put(r, b, str_c(hit->text), user);
        return n;
    }
    return 0;
}

bool jhtml_unescape(JRun *r, const JStr *s, JVal *out) {
    JBuild b = {0};
    size_t at = 0, from = 0;
    bool user = jstr_has_user(s);
    while ((at = str_find_char(s->s, '&', at)) != STR_NPOS && !b.failed) {
        jbuild_put_range(r, &b, s, from, at);
        Str rest = str_from(s->s, at + 1);
        bool numeric = rest.n && rest.p[0] == '#';
        size_t n = numeric ? numeric_read(r, &b, rest, user) : named_read(r, &b, rest, user);
        if (!jrun_spend(r, 4)) return false;
        if (n)
            from = at + 1 + n;
        else
            from = at;
        at = n ? from : at + 1;
    }
    jbuild_put_range(r, &b, s, from, s->s.n);
    return jbuild_done(r, &b, out);
}
