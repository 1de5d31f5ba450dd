/* Normalization (UAX 15). Text that no form can change is copied; from the last such character
 * before one that may change, a segment is decomposed, put into canonical order with a counting
 * sort (a run of marks has no length limit) and recomposed. */
#include "base/unicode.h"

#include <string.h>

#include "base/mem.h"
#include "base/unicode_tab.h"
#include "base/utf8.h"

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_N_L = 19,
    HANGUL_N_V = 21,
    HANGUL_N_T = 28,
    HANGUL_N_S = HANGUL_N_L * HANGUL_N_V * HANGUL_N_T
};

typedef struct Segment {
    uint32_t *cps, *spare;
    size_t n, cap;
    bool failed;
} Segment;

uint8_t unicode_combining_class(uint32_t cp) { return cp < UNICODE_MAX ? UNICODE_TAB(ccc, cp) : 0; }

static bool is_composing(UnicodeForm form) { return form == UNICODE_NFC || form == UNICODE_NFKC; }

/* Not touched by this form, and not touching what stands before it. */
static bool is_inert(UnicodeForm form, uint32_t cp) {
    if (cp < 0xA0) return true;
    if (cp >= UNICODE_MAX) return true;
    return (UNICODE_TAB(category, cp) &
            (form == UNICODE_NFC ? UNICODE_TAB_NFC_MAYBE : UNICODE_TAB_NORM)) == 0;
}

static void segment_push(Segment *g, uint32_t cp) {
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 64;
        uint32_t *p = mem_resize_array(g->cps, cap, 2 * sizeof *p);
        if (!p) {
            g->failed = true;
            return;
        }
        g->cps = p;
        g->cap = cap;
        g->spare = p + cap;
    }
    g->cps[g->n++] = cp;
}

static const UnicodeDecomp *decomp_find(uint32_t cp) {
    size_t lo = 0, n = unicode_n_decomps;
    while (n > 0) {
        size_t half = n / 2;
        if (unicode_decomps[lo + half].cp < cp) {
            lo += half + 1;
            n -= half + 1;
        } else {
            if (unicode_decomps[lo + half].cp == cp) return &unicode_decomps[lo + half];
            n = half;
        }
    }
    return NULL;
}

static void segment_push_decomposed(Segment *g, uint32_t cp, bool compat) {
    if (cp >= HANGUL_S && cp < HANGUL_S + HANGUL_N_S) {
        uint32_t i = cp - HANGUL_S, t = i % HANGUL_N_T;
        segment_push(g, HANGUL_L + i / (HANGUL_N_V * HANGUL_N_T));
        segment_push(g, HANGUL_V + i % (HANGUL_N_V * HANGUL_N_T) / HANGUL_N_T);
        if (t) segment_push(g, HANGUL_T + t);
        return;
    }
    const UnicodeDecomp *d =
        cp < UNICODE_MAX && (UNICODE_TAB(category, cp) & UNICODE_TAB_NORM) ? decomp_find(cp) : NULL;
    size_t n = d ? (compat ? d->n_compat : d->n_canon) : 0;
    if (n == 0) {
        segment_push(g, cp);
        return;
    }
    const uint32_t *to = unicode_decomp_pool + (compat ? d->compat : d->canon);
    for (size_t i = 0; i < n; i++) segment_push(g, to[i]);
}

/* Sorts cps[from..to), all non-starters, by combining class; stable. */
static void segment_sort_marks(Segment *g, size_t from, size_t to) {
    bool sorted = true;
    for (size_t i = from + 1; i < to && sorted; i++)
        sorted = unicode_combining_class(g->cps[i - 1]) <= unicode_combining_class(g->cps[i]);
    if (sorted) return;
    if (to - from <= 16) {
        for (size_t i = from + 1; i < to; i++) {
            uint32_t cp = g->cps[i];
            size_t j = i;
            for (; j > from && unicode_combining_class(g->cps[j - 1]) > unicode_combining_class(cp);
                 j--)
                g->cps[j] = g->cps[j - 1];
            g->cps[j] = cp;
        }
        return;
    }
    size_t start[257] = {0};
    for (size_t i = from; i < to; i++) start[unicode_combining_class(g->cps[i]) + 1]++;
    for (size_t i = 1; i < 257; i++) start[i] += start[i - 1];
    for (size_t i = from; i < to; i++)
        g->spare[start[unicode_combining_class(g->cps[i])]++] = g->cps[i];
    memcpy(g->cps + from, g->spare, (to - from) * sizeof *g->cps);
}

static void segment_order(Segment *g) {
    for (size_t i = 0; i < g->n;) {
        if (unicode_combining_class(g->cps[i]) == 0) {
            i++;
            continue;
        }
        size_t j = i + 1;
        while (j < g->n && unicode_combining_class(g->cps[j]) != 0) j++;
        segment_sort_marks(g, i, j);
        i = j;
    }
}

static uint32_t compose(uint32_t a, uint32_t b) /* 0: no composite */
{
    if (a >= HANGUL_L && a < HANGUL_L + HANGUL_N_L && b >= HANGUL_V && b < HANGUL_V + HANGUL_N_V)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_N_V + (b - HANGUL_V)) * HANGUL_N_T;
    if (a >= HANGUL_S && a < HANGUL_S + HANGUL_N_S && (a - HANGUL_S) % HANGUL_N_T == 0 &&
        b > HANGUL_T && b < HANGUL_T + HANGUL_N_T)
        return a + (b - HANGUL_T);
    size_t lo = 0, n = unicode_n_pairs;
    while (n > 0) {
        size_t half = n / 2;
        const UnicodePair *p = &unicode_pairs[lo + half];
        if (p->first < a || (p->first == a && p->second < b)) {
            lo += half + 1;
            n -= half + 1;
        } else {
            if (p->first == a && p->second == b) return p->composed;
            n = half;
        }
    }
    return 0;
}

static void segment_compose(Segment *g) {
    size_t n = 0, starter = SIZE_MAX;
    uint8_t last = 0; /* class of the last character kept after the starter */
    for (size_t i = 0; i < g->n; i++) {
        uint32_t cp = g->cps[i];
        uint8_t ccc = unicode_combining_class(cp);
        if (starter != SIZE_MAX && (n == starter + 1 || (last < ccc && last != 0))) {
            uint32_t c = compose(g->cps[starter], cp);
            if (c) {
                g->cps[starter] = c;
                continue;
            }
        }
        if (ccc == 0) starter = n;
        last = ccc;
        g->cps[n++] = cp;
    }
    g->n = n;
}

static void segment_flush(Segment *g, UnicodeForm form, Buf *out) {
    segment_order(g);
    if (is_composing(form)) segment_compose(g);
    for (size_t i = 0; i < g->n; i++) buf_put_utf8(out, g->cps[i]);
    g->n = 0;
}

bool unicode_is_plain(UnicodeForm form, Str s) {
    for (size_t at = 0; at < s.n;) {
        if ((unsigned char)s.p[at] < 0x80) {
            at++;
            continue;
        }
        uint32_t cp = utf8_next(s, &at);
        if (cp != UTF8_BAD && !is_inert(form, cp)) return false;
    }
    return true;
}

void unicode_normalize(UnicodeForm form, Str s, Buf *out) {
    Segment g = {0};
    bool compat = form == UNICODE_NFKC || form == UNICODE_NFKD;
    size_t copied = 0, last = 0,
           at = 0; /* copied: written up to here; last: start of the last inert character */
    while (at < s.n) {
        size_t here = at;
        if ((unsigned char)s.p[at] < 0x80) {
            last = at++;
            continue;
        }
        uint32_t cp = utf8_next(s, &at);
        if (cp == UTF8_BAD) {
            last = at;
            continue;
        }
        if (is_inert(form, cp)) {
            last = here;
            continue;
        }
        if (last < copied) last = copied;
        buf_put(out, str_slice(s, copied, last));
        at = last;
        while (at < s.n) {
            here = at;
            cp = utf8_next(s, &at);
            if (cp == UTF8_BAD || (here > last && is_inert(form, cp))) {
                at = here;
                break;
            }
            segment_push_decomposed(&g, cp, compat);
        }
        segment_flush(&g, form, out);
        copied = last = at;
    }
    buf_put(out, str_from(s, copied));
    if (g.failed) out->failed = true;
    mem_free(g.cps);
}
