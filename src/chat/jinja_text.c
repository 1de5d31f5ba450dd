#include "chat/jinja_text.h"

#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"

bool jtext_is_alnum(uint32_t cp) {
    if (cp < 0x80) return (cp >= '0' && cp <= '9') || ((cp | 32) >= 'a' && (cp | 32) <= 'z');
    return unicode_is_letter(cp) || unicode_is_number(cp);
}

bool jtext_is_word(uint32_t cp) { return cp == '_' || jtext_is_alnum(cp); }

bool jtext_is_digit(uint32_t cp) {
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    return unicode_is_decimal(cp) || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 ||
           (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) ||
           (cp >= 0x2460 && cp <= 0x2468) || (cp >= 0x2474 && cp <= 0x247C) ||
           (cp >= 0x2488 && cp <= 0x2490) || cp == 0x24EA || (cp >= 0x24F5 && cp <= 0x24FD) ||
           cp == 0x24FF || (cp >= 0x2776 && cp <= 0x277E) || (cp >= 0x2780 && cp <= 0x2788) ||
           (cp >= 0x278A && cp <= 0x2792) || (cp >= 0x1369 && cp <= 0x1371) || cp == 0x19DA ||
           (cp >= 0x10A40 && cp <= 0x10A43) || (cp >= 0x10E60 && cp <= 0x10E68) ||
           (cp >= 0x11052 && cp <= 0x1105A) || (cp >= 0x1F100 && cp <= 0x1F10A);
}

static bool case_ascii(JRun *r, JStr *s, JCase kind, JVal *out) {
    char *p = jrun_alloc(r, s->s.n + 1);
    JStr *j = jrun_new(r, JStr);
    bool inside = false; /* of a word, for title */
    if (!p || !j || !jrun_spend(r, s->s.n / 16)) return false;
    for (size_t i = 0; i < s->s.n; i++) {
        char c = s->s.p[i];
        bool up = c >= 'A' && c <= 'Z', low = c >= 'a' && c <= 'z';
        bool to_upper = kind == JCASE_UPPER || (kind == JCASE_SWAP && low) ||
                        (kind == JCASE_CAPITALIZE && !i) || (kind == JCASE_TITLE && !inside);
        p[i] = to_upper && low ? (char)(c - 32) : !to_upper && up ? (char)(c + 32) : c;
        inside = up || low;
    }
    *j = *s;
    j->s.p = p;
    *out = jval_str(j);
    return true;
}

static void fold_put(Buf *b, uint32_t cp) {
    uint32_t up[3], low[3];
    if (cp == 0x1E9E) {
        buf_put(b, STR("ss"));
        return;
    }
    bool kept = cp == 0x131 || (cp >= 0x13A0 &&
                                cp <= 0x13F5); /* dotless i and upper Cherokee fold to themselves */
    bool cherokee = (cp >= 0x13F8 && cp <= 0x13FD) || (cp >= 0xAB70 && cp <= 0xABBF);
    size_t n = kept ? 0 : unicode_upper(cp, up);
    if (!n) buf_put_utf8(b, cp);
    for (size_t i = 0; i < n; i++) {
        size_t m = cherokee ? 0 : unicode_lower(up[i], low);
        if (!m) buf_put_utf8(b, up[i]);
        for (size_t k = 0; k < m; k++) buf_put_utf8(b, low[k]);
    }
}

/* Upper case letters take what the lowered whole has in their place: a final sigma depends on its
 * neighbours. */
static void swap_all(Buf *b, Str s) {
    Buf lowered = {.max = b->max};
    size_t at = 0, low = 0;
    uint32_t to[3];
    unicode_put_lower(&lowered, s);
    while (at < s.n && !lowered.failed) {
        uint32_t cp = jstr_next(s, &at);
        size_t n = unicode_lower(cp, to), from = low;
        while (n-- && low < lowered.n) jstr_next(buf_str(&lowered), &low);
        if (unicode_is_upper(cp)) {
            buf_put(b, str_slice(buf_str(&lowered), from, low));
            continue;
        }
        to[0] = cp;
        n = unicode_is_lower(cp) ? unicode_upper(cp, to) : 1;
        for (size_t i = 0; i < n; i++) buf_put_utf8(b, to[i]);
    }
    b->failed |= lowered.failed;
    buf_deinit(&lowered);
}

bool jtext_case(JRun *r, JStr *s, JCase kind, JVal *out) {
    if (jstr_n_cp(s) == s->s.n) return case_ascii(r, s, kind, out);
    if (!jrun_spend(r, s->s.n / 4)) return false;
    Buf b = {.max = s->s.n * 3 + 16};
    size_t at = 0;
    switch (kind) {
    case JCASE_LOWER:
        unicode_put_lower(&b, s->s);
        break;
    case JCASE_UPPER:
        unicode_put_upper(&b, s->s);
        break;
    case JCASE_TITLE:
        unicode_put_title(&b, s->s);
        break;
    case JCASE_CAPITALIZE:
        unicode_put_capitalized(&b, s->s);
        break;
    case JCASE_SWAP:
        swap_all(&b, s->s);
        break;
    case JCASE_FOLD:
        while (at < s->s.n) fold_put(&b, jstr_next(s->s, &at));
        break;
    }
    bool ok = b.failed ? jrun_fail_nomem(r) : jstr_copy(r, buf_str(&b), jstr_has_user(s), out);
    buf_deinit(&b);
    return ok && jstr_as_markup(r, *out, s->markup, out);
}

static bool strip_has(const JStr *chars, uint32_t cp) {
    if (!chars) return jstr_is_space(cp);
    for (size_t at = 0; at < chars->s.n;)
        if (jstr_next(chars->s, &at) == cp) return true;
    return false;
}

bool jtext_strip(JRun *r, JStr *s, const JStr *chars, bool left, bool right, JVal *out) {
    size_t from = 0, to = s->s.n, cost = chars ? chars->s.n / 16 : 0;
    while (left && from < to) {
        size_t next = from;
        if (!strip_has(chars, jstr_next(s->s, &next))) break;
        from = next;
        if (!jrun_spend(r, cost + !(from & 31))) return false;
    }
    while (right && to > from) {
        size_t prev = to;
        if (!strip_has(chars, jstr_prev(s->s, &prev))) break;
        to = prev;
        if (!jrun_spend(r, cost + !(to & 31))) return false;
    }
    return jstr_slice(r, s, from, to, out);
}

bool jtext_replace(JRun *r, JStr *s, const JStr *old, const JStr *with, int64_t count, JVal *out) {
    JBuild b = {0};
    size_t from = 0, at = 0, step;
    if (!jrun_spend_bytes(r, s->s.n)) return false;
    if (!old->s.n) { /* between all characters and at both ends */
        for (; count != 0 && !b.failed; count -= count > 0) {
            jbuild_put_jstr(r, &b, with);
            if (at >= s->s.n) return jbuild_done(r, &b, out);
            step = at;
            jstr_next(s->s, &at);
            jbuild_put_range(r, &b, s, step, at);
            if (!jrun_spend(r, 1)) return false;
        }
        jbuild_put_range(r, &b, s, at, s->s.n);
        return jbuild_done(r, &b, out);
    }
    for (; count != 0 && !b.failed; count -= count > 0) {
        at = str_find(s->s, old->s, from);
        if (at == STR_NPOS) break;
        if (!jrun_spend(r, 1)) return false;
        jbuild_put_range(r, &b, s, from, at);
        jbuild_put_jstr(r, &b, with);
        from = at + old->s.n;
    }
    if (!from) return *out = jval_str(s), true;
    jbuild_put_range(r, &b, s, from, s->s.n);
    return jbuild_done(r, &b, out);
}

static bool push_slice(JRun *r, JList *l, JStr *s, size_t from, size_t to) {
    JVal v;
    return jrun_spend(r, 1) && jstr_slice(r, s, from, to, &v) && jlist_push(r, l, v);
}

static size_t skip_class(const JStr *s, size_t at, bool space) {
    while (at < s->s.n) {
        size_t next = at;
        if (jstr_is_space(jstr_next(s->s, &next)) != space) break;
        at = next;
    }
    return at;
}

static size_t skip_class_back(const JStr *s, size_t at, bool space) {
    while (at > 0) {
        size_t prev = at;
        if (jstr_is_space(jstr_prev(s->s, &prev)) != space) break;
        at = prev;
    }
    return at;
}

static bool split_blank(JRun *r, JStr *s, int64_t max, JList *l) {
    size_t at = skip_class(s, 0, true);
    while (at < s->s.n) {
        size_t end = skip_class(s, at, false);
        if (max == 0) return push_slice(r, l, s, at, s->s.n);
        if (!push_slice(r, l, s, at, end)) return false;
        max -= max > 0;
        at = skip_class(s, end, true);
    }
    return true;
}

static bool rsplit_blank(JRun *r, JStr *s, int64_t max, JList *l) {
    size_t end = skip_class_back(s, s->s.n, true);
    while (end > 0) {
        size_t from = skip_class_back(s, end, false);
        if (max == 0) return push_slice(r, l, s, 0, end);
        if (!push_slice(r, l, s, from, end)) return false;
        max -= max > 0;
        end = skip_class_back(s, from, true);
    }
    return true;
}

size_t jtext_rfind(JRun *r, Str s, Str needle) {
    if (!jrun_spend(r, s.n / 64 + (needle.n > 16 ? s.n / 256 * needle.n : 0))) return STR_NPOS;
    if (!needle.n) return s.n;
    return str_rfind(s, needle);
}

static bool split_sep(JRun *r, JStr *s, Str sep, int64_t max, JList *l) {
    size_t from = 0;
    if (!jrun_spend_bytes(r, s->s.n)) return false;
    for (; max != 0; max -= max > 0) {
        size_t at = str_find(s->s, sep, from);
        if (at == STR_NPOS) break;
        if (!push_slice(r, l, s, from, at)) return false;
        from = at + sep.n;
    }
    return push_slice(r, l, s, from, s->s.n);
}

static bool rsplit_sep(JRun *r, JStr *s, Str sep, int64_t max, JList *l) {
    size_t end = s->s.n;
    for (; max != 0; max -= max > 0) {
        size_t at = jtext_rfind(r, str_slice(s->s, 0, end), sep);
        if (at == STR_NPOS) break;
        if (!push_slice(r, l, s, at + sep.n, end)) return false;
        end = at;
    }
    return push_slice(r, l, s, 0, end);
}

bool jtext_split(JRun *r, JStr *s, const JStr *sep, int64_t max, bool from_right, JVal *out) {
    JList *l = jlist_new(r, 0);
    if (sep && !sep->s.n) return jrun_fail(r, JEXC_VALUE, "empty separator");
    if (!l) return false;
    bool ok = sep ? (from_right ? rsplit_sep : split_sep)(r, s, sep->s, max, l)
                  : (from_right ? rsplit_blank : split_blank)(r, s, max, l);
    for (size_t i = 0; ok && from_right && i < l->n / 2; i++) {
        JVal t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    *out = jval_list(l);
    return ok;
}

bool jtext_lines(JRun *r, JStr *s, bool keep_ends, JList **out) {
    JList *l = jlist_new(r, 0);
    size_t from = 0, at = 0;
    if (!l || !jrun_spend(r, s->s.n / 16)) return false;
    *out = l;
    while (at < s->s.n) {
        size_t end = at;
        uint32_t cp = jstr_next(s->s, &at);
        if (!jstr_is_line_end(cp)) continue;
        if (cp == '\r' && at < s->s.n && s->s.p[at] == '\n') at++;
        if (!push_slice(r, l, s, from, keep_ends ? at : end)) return false;
        from = at;
    }
    return from >= s->s.n || push_slice(r, l, s, from, s->s.n);
}

bool jtext_pad(JRun *r, JStr *s, int64_t width, const JStr *fill, int align, JVal *out) {
    static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
    int64_t len = (int64_t)jstr_n_cp(s), pad = width - len;
    JBuild b = {0};
    if (pad <= 0) return *out = jval_str(s), true;
    if (!fill) fill = &blank;
    int64_t left = align < 0 ? 0 : align > 0 ? pad : pad / 2 + (pad & width & 1);
    jbuild_fill(r, &b, fill, (size_t)left);
    jbuild_put_jstr(r, &b, s);
    jbuild_fill(r, &b, fill, (size_t)(pad - left));
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, s->markup, out);
}
