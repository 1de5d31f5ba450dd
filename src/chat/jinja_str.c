#include "chat/jinja_str.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

static bool build_reserve(JRun *r, JBuild *b, size_t more) {
    if (b->failed) return false;
    if (b->max && more > b->max - b->n) {
        b->failed = true;
        return jrun_fail(r, JEXC_LIMIT, "more than %zu bytes of text", b->max);
    }
    if (b->cap - b->n >= more) return true;
    size_t cap = b->cap ? b->cap * 2 : 64;
    if (cap - b->n < more) cap = b->n + more;
    char *p = jrun_alloc(r, cap);
    if (!p) return !(b->failed = true);
    if (b->n) memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return true;
}

/* Extends the last segment, or opens one when the writer changes. n bytes have just been added. */
static void build_note(JRun *r, JBuild *b, bool user) {
    if (b->n_segs && b->segs[b->n_segs - 1].user == user) {
        b->segs[b->n_segs - 1].end = b->n;
        return;
    }
    if (b->n_segs == b->cap_segs) {
        size_t cap = b->cap_segs ? b->cap_segs * 2 : 4;
        JSeg *segs = jrun_array(r, JSeg, cap);
        if (!segs) {
            b->failed = true;
            return;
        }
        if (b->n_segs) memcpy(segs, b->segs, b->n_segs * sizeof *segs);
        b->segs = segs;
        b->cap_segs = cap;
    }
    b->segs[b->n_segs++] = (JSeg){b->n, user};
}

void jbuild_put(JRun *r, JBuild *b, Str s, bool user) {
    if (!s.n || !build_reserve(r, b, s.n)) return;
    if (!jrun_spend(r, s.n / JRUN_BYTES_PER_OP + !(++b->n_puts & 7))) {
        b->failed = true;
        return;
    }
    memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    build_note(r, b, user);
}

void jbuild_putc(JRun *r, JBuild *b, char c, bool user) { jbuild_put(r, b, (Str){&c, 1}, user); }

void jbuild_put_cp(JRun *r, JBuild *b, uint32_t cp, bool user) {
    char utf8[4];
    jbuild_put(r, b, (Str){utf8, jstr_encode(cp, utf8)}, user);
}

void jbuild_put_range(JRun *r, JBuild *b, const JStr *s, size_t from, size_t to) {
    if (s->origin != JORIGIN_MIXED) {
        jbuild_put(r, b, str_slice(s->s, from, to), s->origin == JORIGIN_USER);
        return;
    }
    size_t start = 0;
    for (size_t i = 0; i < s->n_segs && start < to && !b->failed; i++) {
        size_t lo = start > from ? start : from, hi = s->segs[i].end < to ? s->segs[i].end : to;
        if (lo < hi) jbuild_put(r, b, str_slice(s->s, lo, hi), s->segs[i].user);
        start = s->segs[i].end;
        if (!jrun_spend(r, i % 16 == 15)) b->failed = true;
    }
}

void jbuild_put_jstr(JRun *r, JBuild *b, const JStr *s) { jbuild_put_range(r, b, s, 0, s->s.n); }

void jbuild_fill(JRun *r, JBuild *b, const JStr *s, size_t times) {
    size_t bytes;
    if (!s->s.n || !times || b->failed) return;
    if (!size_mul(s->s.n, times, &bytes)) {
        b->failed = true;
        jrun_fail(r, JEXC_LIMIT, "%zu copies of %zu bytes are too long a string", times, s->s.n);
        return;
    }
    if (!build_reserve(r, b, bytes)) return;
    if (s->origin == JORIGIN_MIXED) {
        for (size_t i = 0; i < times && !b->failed; i++) jbuild_put_jstr(r, b, s);
        return;
    }
    if (!jrun_spend_bytes(r, bytes)) {
        b->failed = true;
        return;
    }
    char *to = b->p + b->n;
    memcpy(to, s->s.p, s->s.n);
    for (size_t done = s->s.n; done < bytes;) { /* what is there doubles */
        size_t more = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, more);
        done += more;
    }
    b->n += bytes;
    build_note(r, b, s->origin == JORIGIN_USER);
}

void jbuild_mark_user(JRun *r, JBuild *b) {
    b->n_segs = 0;
    if (b->n) build_note(r, b, true);
}

bool jbuild_done(JRun *r, JBuild *b, JVal *out) {
    if (b->failed) return false;
    JStr *s = jrun_new(r, JStr);
    if (!s) return false;
    *s = (JStr){.s = {b->p, b->n}, .n_cp = JSTR_COUNT_LATER};
    if (b->n_segs == 1) {
        s->origin = b->segs[0].user ? JORIGIN_USER : JORIGIN_TEMPLATE;
    } else if (b->n_segs > 1) {
        s->origin = JORIGIN_MIXED;
        s->segs = b->segs;
        s->n_segs = b->n_segs;
    }
    *out = jval_str(s);
    return true;
}

JStr *jstr_new(JRun *r, Str s, JOrigin origin) {
    JStr *j = jrun_new(r, JStr);
    if (j) *j = (JStr){.s = s, .n_cp = JSTR_COUNT_LATER, .origin = (uint8_t)origin};
    return j;
}

bool jstr_make(JRun *r, Str s, bool user, JVal *out) {
    JStr *j = jstr_new(r, s, user ? JORIGIN_USER : JORIGIN_TEMPLATE);
    if (!j) return false;
    *out = jval_str(j);
    return true;
}

bool jstr_copy(JRun *r, Str s, bool user, JVal *out) {
    char *p = jrun_alloc(r, s.n);
    if (!p) return false;
    if (s.n) memcpy(p, s.p, s.n);
    return jstr_make(r, (Str){p, s.n}, user, out);
}

bool jstr_slice(JRun *r, JStr *s, size_t from, size_t to, JVal *out) {
    if (from > to) from = to;
    if (from == 0 && to == s->s.n) return *out = jval_str(s), true;
    JStr *j = jrun_new(r, JStr);
    if (!j) return false;
    *j = (JStr){.s = str_slice(s->s, from, to),
                .n_cp = JSTR_COUNT_LATER,
                .origin = s->origin,
                .markup = s->markup};
    if (s->n_cp == s->s.n) j->n_cp = j->s.n; /* ASCII */
    *out = jval_str(j);
    if (s->origin != JORIGIN_MIXED) return true;
    size_t first = 0, last;
    while (first < s->n_segs && s->segs[first].end <= from) first++;
    for (last = first; last < s->n_segs && s->segs[last].end < to; last++) {
    }
    if (!jrun_spend(r, last / 16)) return false;
    if (from == to || first == last) {
        j->origin = from < to && s->segs[first].user ? JORIGIN_USER : JORIGIN_TEMPLATE;
        return true;
    }
    JSeg *segs = jrun_array(r, JSeg, last - first + 1);
    if (!segs) return false;
    for (size_t i = first; i <= last; i++) {
        size_t end = s->segs[i].end < to ? s->segs[i].end : to;
        segs[i - first] = (JSeg){end - from, s->segs[i].user};
    }
    j->segs = segs;
    j->n_segs = last - first + 1;
    return true;
}

bool jstr_as_markup(JRun *r, JVal v, bool markup, JVal *out) {
    *out = v;
    if (v.u.str->markup == markup) return true;
    JStr *j = jrun_new(r, JStr);
    if (!j) return false;
    *j = *v.u.str;
    j->markup = markup;
    out->u.str = j;
    return true;
}

bool jstr_has_user(const JStr *s) { return s->origin != JORIGIN_TEMPLATE; }

uint32_t jstr_next(Str s, size_t *at) {
    const unsigned char *p = (const unsigned char *)s.p + *at;
    size_t left = s.n - *at;
    if (p[0] < 0x80) return (*at)++, p[0];
    if (p[0] >= 0xC2 && p[0] < 0xE0 && left >= 2)
        return *at += 2, (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (p[0] >= 0xE0 && p[0] < 0xF0 && left >= 3)
        return *at += 3,
               (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    if (p[0] >= 0xF0 && p[0] < 0xF5 && left >= 4)
        return *at += 4, (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
                             (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    return (*at)++, 0xDC00u + p[0]; /* a stray byte, as Python's surrogateescape */
}

uint32_t jstr_prev(Str s, size_t *at) {
    size_t from = *at - 1;
    while (from > 0 && *at - from < 4 && ((unsigned char)s.p[from] & 0xC0) == 0x80) from--;
    size_t end = from;
    uint32_t cp = jstr_next((Str){s.p, *at}, &end);
    if (end != *at) { /* not one sequence: take the byte alone */
        from = *at - 1;
        cp = 0xDC00u + (unsigned char)s.p[from];
    }
    *at = from;
    return cp;
}

size_t jstr_encode(uint32_t cp, char out[4]) {
    if (cp < 0xD800 || cp > 0xDFFF) return utf8_encode(cp, out);
    out[0] = (char)(0xE0 | cp >> 12);
    out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[2] = (char)(0x80 | (cp & 0x3F));
    return 3;
}

static bool str_is_ascii(Str s) {
    size_t i = 0;
    uint64_t w, any = 0;
    for (; i + 8 <= s.n; i += 8) {
        memcpy(&w, s.p + i, 8);
        any |= w;
    }
    for (; i < s.n; i++) any |= (unsigned char)s.p[i];
    return !(any & 0x8080808080808080u);
}

size_t jstr_n_cp(JStr *s) {
    if (s->n_cp != JSTR_COUNT_LATER) return s->n_cp;
    if (str_is_ascii(s->s)) return s->n_cp = s->s.n;
    size_t n = 0, at = 0;
    while (at < s->s.n) {
        jstr_next(s->s, &at);
        n++;
    }
    return s->n_cp = n;
}

size_t jstr_byte_of(JStr *s, size_t cp) {
    size_t n = jstr_n_cp(s);
    if (cp >= n) return s->s.n;
    if (n == s->s.n) return cp;
    size_t at = 0;
    if (cp <= n / 2) {
        while (cp--) jstr_next(s->s, &at);
        return at;
    }
    at = s->s.n;
    for (size_t back = n - cp; back > 0; back--) jstr_prev(s->s, &at);
    return at;
}

size_t jstr_cp_of(JStr *s, size_t byte) {
    if (jstr_n_cp(s) == s->s.n) return byte;
    size_t n = 0, at = 0;
    while (at < byte) {
        jstr_next(s->s, &at);
        n++;
    }
    return n;
}

bool jstr_is_space(uint32_t cp) {
    if (cp < 0x80) return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool jstr_is_line_end(uint32_t cp) {
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

uint32_t jstr_only_cp(const JStr *s) {
    if (!s->s.n) return UINT32_MAX;
    size_t at = 0;
    uint32_t cp = jstr_next(s->s, &at);
    return at == s->s.n ? cp : UINT32_MAX;
}
