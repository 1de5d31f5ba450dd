#include "base/unicode.h"

#include "base/unicode_tab.h"
#include "base/utf8.h"

static bool in_ranges(const UnicodeRange *r, size_t n, uint32_t cp) {
    size_t lo = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (r[lo + half].to < cp) {
            lo += half + 1;
            n -= half + 1;
        } else {
            if (r[lo + half].from <= cp) return true;
            n = half;
        }
    }
    return false;
}

UnicodeCategory unicode_category(uint32_t cp) {
    if (cp >= UNICODE_MAX) return UNICODE_CN;
    return (UnicodeCategory)(UNICODE_TAB(category, cp) & UNICODE_TAB_CATEGORY);
}

bool unicode_is_old(uint32_t cp) {
    return cp < UNICODE_MAX && (UNICODE_TAB(category, cp) & UNICODE_TAB_OLD) != 0;
}

bool unicode_is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool unicode_is_numeric(uint32_t cp) {
    return unicode_is_number(cp) ||
           (cp >= 0x11DE0 && cp <= 0x11DE9); /* the digits that Unicode 17 added */
}

bool unicode_is_lower(uint32_t cp) {
    return in_ranges(unicode_islower_ranges, unicode_islower_n_ranges, cp);
}
bool unicode_is_upper(uint32_t cp) {
    return in_ranges(unicode_isupper_ranges, unicode_isupper_n_ranges, cp);
}

bool unicode_is_cased(uint32_t cp) {
    if (cp < 0x80) return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    return in_ranges(unicode_cased_ranges, unicode_cased_n_ranges, cp);
}

int unicode_width(uint32_t cp) {
    if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0)) return 0;
    if (cp < 0x300) return 1;
    if (in_ranges(unicode_zero_ranges, unicode_zero_n_ranges, cp)) return 0;
    return in_ranges(unicode_wide_ranges, unicode_wide_n_ranges, cp) ? 2 : 1;
}

uint8_t unicode_script(uint32_t cp) { return cp < UNICODE_MAX ? UNICODE_TAB(script, cp) : 0; }

static const UnicodeCase *case_find(const UnicodeCase *c, size_t n, uint32_t cp) {
    size_t lo = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (c[lo + half].cp < cp) {
            lo += half + 1;
            n -= half + 1;
        } else {
            if (c[lo + half].cp == cp) return &c[lo + half];
            n = half;
        }
    }
    return NULL;
}

static size_t case_map(const UnicodeCase *c, uint32_t cp, uint32_t out[3]) {
    if (!c) {
        out[0] = cp;
        return 1;
    }
    for (size_t i = 0; i < c->n; i++) out[i] = c->to[i];
    return c->n;
}

size_t unicode_lower(uint32_t cp, uint32_t out[3]) {
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    return case_map(case_find(unicode_lower_cases, unicode_lower_n_cases, cp), cp, out);
}

size_t unicode_upper(uint32_t cp, uint32_t out[3]) {
    if (cp < 0x80) {
        out[0] = cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
        return 1;
    }
    return case_map(case_find(unicode_upper_cases, unicode_upper_n_cases, cp), cp, out);
}

size_t unicode_title(uint32_t cp, uint32_t out[3]) {
    const UnicodeCase *c =
        cp < 0x80 ? NULL : case_find(unicode_title_cases, unicode_title_n_cases, cp);
    return c ? case_map(c, cp, out) : unicode_upper(cp, out);
}

static bool is_case_ignorable(uint32_t cp) {
    return in_ranges(unicode_caseignorable_ranges, unicode_caseignorable_n_ranges, cp);
}

/* Unicode 3.13: a sigma is final when a cased letter stands before it and none after it,
 * case-ignorables skipped. */
static bool sigma_is_final(Str s, size_t at, size_t after) {
    bool cased_before = false;
    for (size_t i = at; i > 0;) {
        do i--;
        while (i > 0 && ((unsigned char)s.p[i] & 0xC0) == 0x80);
        size_t j = i;
        uint32_t cp = utf8_next(s, &j);
        if (is_case_ignorable(cp)) continue;
        cased_before = unicode_is_cased(cp);
        break;
    }
    if (!cased_before) return false;
    while (after < s.n) {
        uint32_t cp = utf8_next(s, &after);
        if (is_case_ignorable(cp)) continue;
        return !unicode_is_cased(cp);
    }
    return true;
}

static void put_all(Buf *out, const uint32_t *cps, size_t n) {
    for (size_t i = 0; i < n; i++) buf_put_utf8(out, cps[i]);
}

static void put_lowered(Buf *out, Str s, uint32_t cp, size_t at, size_t after) {
    uint32_t m[3];
    if (cp == 0x3A3 && sigma_is_final(s, at, after)) {
        buf_put_utf8(out, 0x3C2);
        return;
    }
    put_all(out, m, unicode_lower(cp, m));
}

typedef enum CaseMode { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITALIZE } CaseMode;

static void put_cased(Buf *out, Str s, CaseMode mode) {
    bool word_starts =
        true; /* title: the last character was not cased; capitalize: nothing written yet */
    for (size_t at = 0; at < s.n;) {
        size_t start = at;
        uint32_t m[3], cp = utf8_next(s, &at);
        if (cp == UTF8_BAD) {
            buf_putc(out, s.p[start]);
            word_starts = mode == CASE_TITLE;
            continue;
        }
        if (mode == CASE_UPPER)
            put_all(out, m, unicode_upper(cp, m));
        else if (mode != CASE_LOWER && word_starts)
            put_all(out, m, unicode_title(cp, m));
        else
            put_lowered(out, s, cp, start, at);
        word_starts = mode == CASE_TITLE && !unicode_is_cased(cp);
    }
}

void unicode_put_lower(Buf *out, Str s) { put_cased(out, s, CASE_LOWER); }
void unicode_put_upper(Buf *out, Str s) { put_cased(out, s, CASE_UPPER); }
void unicode_put_title(Buf *out, Str s) { put_cased(out, s, CASE_TITLE); }
void unicode_put_capitalized(Buf *out, Str s) { put_cased(out, s, CASE_CAPITALIZE); }
