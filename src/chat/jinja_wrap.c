#include "chat/jinja_wrap.h"

#include "base/unicode.h"
#include "chat/jinja_text.h"

/* A piece of text that is not broken inside: a word, a run of blanks, or part of a word up to a
 * hyphen. */
typedef struct Chunk {
    size_t from, to; /* bytes */
    int64_t n_cp;
    bool blank;
} Chunk;

typedef struct Chunks {
    JRun *r;
    Chunk *v;
    size_t n, cap;
} Chunks;

/* textwrap's own white space, which is not Unicode's. */
static bool wrap_blank(uint32_t cp) { return cp == ' ' || (cp >= 9 && cp <= 13); }

static bool chunk_push(Chunks *c, JStr *s, size_t from, size_t to, bool blank) {
    if (from >= to) return true;
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 32;
        Chunk *bigger = jrun_array(c->r, Chunk, cap);
        if (!bigger) return false;
        for (size_t i = 0; i < c->n; i++) bigger[i] = c->v[i];
        c->v = bigger;
        c->cap = cap;
    }
    int64_t n = 0;
    for (size_t at = from; at < to; n++) jstr_next(s->s, &at);
    c->v[c->n++] = (Chunk){from, to, n, blank};
    return jrun_spend(c->r, 1 + (to - from) / 16);
}

static uint32_t cp_at(JStr *s, size_t at) {
    return at < s->s.n ? jstr_next(s->s, &(size_t){at}) : 0;
}
static uint32_t cp_before(JStr *s, size_t at) {
    return at > 0 ? jstr_prev(s->s, &(size_t){at}) : 0;
}

static bool word_letter(uint32_t cp) { /* [^\d\W] */
    bool digit = cp < 0x80 ? cp >= '0' && cp <= '9' : unicode_is_decimal(cp);
    return cp && jtext_is_word(cp) && !digit;
}

static bool word_punct(uint32_t cp) {
    return cp && (jtext_is_word(cp) || cp == '!' || cp == '"' || cp == '\'' || cp == '&' ||
                  cp == '.' || cp == ',' || cp == '?');
}

/* Is there a break behind the hyphen that ends at `at`, as in "well-known"? Two letters, or
 * letter-hyphen-letter, must stand before it and a letter, perhaps a hyphen, and a letter behind.
 * What stands before may belong to the piece before. */
static bool hyphen_break(JStr *s, size_t start, size_t at) {
    size_t before = at - 1, behind = at;
    if (before <= start || !word_letter(cp_at(s, at))) return false;
    jstr_next(s->s, &behind);
    if (cp_at(s, behind) == '-') behind++;
    if (!word_letter(cp_at(s, behind)) || !word_letter(jstr_prev(s->s, &before))) return false;
    uint32_t second = cp_before(s, before);
    if (second == '-') second = cp_before(s, before - 1);
    return word_letter(second);
}

static size_t em_dash(JStr *s,
                      size_t at) { /* a run of two or more hyphens at `at`: where it ends */
    size_t end = at;
    while (end < s->s.n && s->s.p[end] == '-') end++;
    return end - at >= 2 ? end : 0;
}

static bool split_word(Chunks *c, JStr *s, size_t from, size_t to) {
    size_t start = from;
    for (size_t at = from; at < to;) {
        size_t dash = s->s.p[at] == '-' ? em_dash(s, at) : 0;
        if (dash && dash <= to) {
            bool between = at > from && word_punct(cp_before(s, at)) &&
                           jtext_is_word(cp_at(s, dash)) && dash < to;
            if (between) {
                if (!chunk_push(c, s, start, at, false) || !chunk_push(c, s, at, dash, false))
                    return false;
                start = dash;
            }
            at = dash;
            continue;
        }
        bool hyphen = s->s.p[at] == '-';
        jstr_next(s->s, &at);
        if (!hyphen || at >= to || !hyphen_break(s, start, at)) continue;
        if (!chunk_push(c, s, start, at, false)) return false;
        start = at;
    }
    return chunk_push(c, s, start, to, false);
}

static bool split_chunks(Chunks *c, JStr *s, size_t from, size_t to, bool hyphens) {
    for (size_t at = from; at < to;) {
        size_t end = at, next = at;
        bool blank = wrap_blank(jstr_next(s->s, &next));
        while (end < to) {
            next = end;
            if (wrap_blank(jstr_next(s->s, &next)) != blank) break;
            end = next;
        }
        if (blank || !hyphens ? !chunk_push(c, s, at, end, blank) : !split_word(c, s, at, end))
            return false;
        at = end;
    }
    return true;
}

/* Takes what fits of a word that is longer than a line; breaks behind a hyphen if there is one in
 * reach. */
static size_t break_word(JStr *s, Chunk *w, int64_t room, bool hyphens) {
    size_t at = w->from, hyphen = 0;
    bool other = false;
    for (int64_t i = 0; i < room && at < w->to; i++) {
        bool is_hyphen = s->s.p[at] == '-';
        jstr_next(s->s, &at);
        if (is_hyphen && other && i + 1 <= room && at > w->from) hyphen = at;
        other |= !is_hyphen;
    }
    return hyphens && hyphen && w->n_cp > room ? hyphen : at;
}

/* The line being filled: pieces follow each other in the text, so its ends say all. */
typedef struct Line {
    size_t from, to, last; /* bytes; `last` is where the last piece begins */
    int64_t n_cp;
    bool any;
} Line;

static void line_take(Line *l, Chunk *c, size_t to, int64_t n_cp) {
    if (!l->any) l->from = c->from;
    l->any = true;
    l->last = c->from;
    l->to = to;
    l->n_cp += n_cp;
    c->from = to;
    c->n_cp -= n_cp;
}

static bool all_space(JStr *s, size_t from, size_t to) {
    while (from < to)
        if (!jstr_is_space(jstr_next(s->s, &from))) return false;
    return true;
}

/* A chunk wider than a line: as much as fits goes into this one, or all of it where words must not
 * be broken. */
static void take_long(JStr *s, Line *l, Chunk *c, const JWrap *w) {
    int64_t room = w->width < 1 ? 1 : w->width - l->n_cp, taken = 0;
    if (!w->break_long) {
        if (!l->any) line_take(l, c, c->to, c->n_cp);
        return;
    }
    size_t cut = break_word(s, c, room, w->break_hyphens);
    for (size_t at = c->from; at < cut; taken++) jstr_next(s->s, &at);
    line_take(l, c, cut, taken);
}

static bool wrap_paragraph(JRun *r, JStr *s, size_t from, size_t to, const JWrap *w, JBuild *b) {
    Chunks c = {.r = r};
    bool first = true;
    if (!split_chunks(&c, s, from, to, w->break_hyphens)) return false;
    for (size_t i = 0; i < c.n;) {
        Line l = {0};
        if (!first && all_space(s, c.v[i].from, c.v[i].to)) i++;
        for (; i < c.n && l.n_cp + c.v[i].n_cp <= w->width; i++)
            line_take(&l, &c.v[i], c.v[i].to, c.v[i].n_cp);
        if (i < c.n && c.v[i].n_cp > w->width) {
            take_long(s, &l, &c.v[i], w);
            if (c.v[i].from >= c.v[i].to) i++;
        }
        if (!jrun_spend(r, 1)) return false;
        if (l.any &&
            all_space(
                s, l.last,
                l.to)) { /* a blank at the end goes; an empty piece shields the one before it */
            l.any = l.last > l.from;
            l.to = l.last;
        }
        if (!l.any) continue;
        if (!first) jbuild_put_jstr(r, b, w->newline.u.str);
        jbuild_put_range(r, b, s, l.from, l.to);
        first = false;
        if (b->failed) return false;
    }
    return true;
}

bool jwrap_text(JRun *r, JStr *s, const JWrap *w, JVal *out) {
    JList *lines;
    JBuild b = {0};
    if (!jtext_lines(r, s, false, &lines)) return false;
    if (w->width <= 0 && lines->n)
        return jrun_fail(r, JEXC_VALUE, "invalid width %lld (must be > 0)", (long long)w->width);
    for (size_t i = 0; i < lines->n; i++) {
        JStr *line = lines->v[i].u.str;
        if (i) jbuild_put_jstr(r, &b, w->newline.u.str);
        if (!wrap_paragraph(r, line, 0, line->s.n, w, &b)) return false;
    }
    return jbuild_done(r, &b, out);
}
