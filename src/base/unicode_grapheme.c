/* Extended grapheme clusters: the rules of UAX 29 (GB3 to GB13 and GB9c) as a walk over pairs. */
#include "base/unicode.h"
#include "base/unicode_tab.h"
#include "base/utf8.h"

enum {
    G_OTHER,
    G_CR,
    G_LF,
    G_CONTROL,
    G_EXTEND,
    G_ZWJ,
    G_REGIONAL,
    G_PREPEND,
    G_SPACING,
    G_L,
    G_V,
    G_T,
    G_LV,
    G_LVT
};
enum { IN_NONE, IN_CONSONANT, IN_EXTEND, IN_LINKER };

typedef struct Walk {
    int last;          /* class of the character before */
    bool pictographic; /* a pictograph, then only Extend: a ZWJ would join the next pictograph
                          (GB11) */
    bool zwj_joins;    /* ... and the ZWJ was the last character */
    int n_regional;    /* regional indicators in a row */
    bool consonant;    /* Indic consonant, then only Extend and Linker (GB9c) */
    bool linked;       /* ... with at least one Linker */
} Walk;

static uint8_t grapheme_bits(uint32_t cp) {
    return cp < UNICODE_MAX ? UNICODE_TAB(grapheme, cp) : 0;
}

static bool is_control(int g) { return g == G_CR || g == G_LF || g == G_CONTROL; }

static bool joins(const Walk *w, uint8_t bits) {
    int a = w->last, b = bits & 15;
    if (a == G_CR && b == G_LF) return true;
    if (is_control(a) || is_control(b)) return false;
    if (a == G_L && (b == G_L || b == G_V || b == G_LV || b == G_LVT)) return true;
    if ((a == G_LV || a == G_V) && (b == G_V || b == G_T)) return true;
    if ((a == G_LVT || a == G_T) && b == G_T) return true;
    if (b == G_EXTEND || b == G_ZWJ || b == G_SPACING || a == G_PREPEND) return true;
    if (w->linked && (bits >> 4 & 3) == IN_CONSONANT) return true;
    if (w->zwj_joins && (bits & 0x40)) return true;
    return a == G_REGIONAL && b == G_REGIONAL && w->n_regional % 2 == 1;
}

static void walk_step(Walk *w, uint8_t bits) {
    int g = bits & 15, in = bits >> 4 & 3;
    w->zwj_joins = w->pictographic && g == G_ZWJ;
    w->pictographic = (bits & 0x40) != 0 || (w->pictographic && g == G_EXTEND);
    w->n_regional = g == G_REGIONAL ? w->n_regional + 1 : 0;
    if (in == IN_CONSONANT) {
        w->consonant = true;
        w->linked = false;
    } else if (w->consonant && in == IN_LINKER) {
        w->linked = true;
    } else if (in != IN_EXTEND) {
        w->consonant = w->linked = false;
    }
    w->last = g;
}

size_t unicode_grapheme_end(Str s, size_t at) {
    Walk w = {0};
    uint32_t cp = utf8_next(s, &at);
    walk_step(&w, cp == UTF8_BAD ? 0 : grapheme_bits(cp));
    while (at < s.n) {
        size_t next = at;
        cp = utf8_next(s, &next);
        uint8_t bits = cp == UTF8_BAD ? G_CONTROL : grapheme_bits(cp);
        if (!joins(&w, bits)) break;
        walk_step(&w, bits);
        at = next;
    }
    return at;
}
