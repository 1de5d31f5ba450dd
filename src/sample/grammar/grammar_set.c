#include "sample/grammar/grammar_set.h"

#include <stdlib.h>

#include "base/unicode.h"

bool cpset_add(GrammarWork *w, CpSet *s, uint32_t lo, uint32_t hi) {
    if (lo > hi) return true;
    if (s->n && s->r[s->n - 1].hi != UINT32_MAX && s->r[s->n - 1].hi + 1 == lo) {
        s->r[s->n - 1].hi = hi;
        return true;
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        CpRange *r = work_grow(w, s->r, s->n, cap, sizeof *r);
        if (!r) return false;
        s->r = r;
        s->cap = cap;
    }
    s->r[s->n++] = (CpRange){lo, hi};
    return work_spend(w, 1);
}

bool cpset_add_set(GrammarWork *w, CpSet *s, const CpSet *other) {
    for (uint32_t i = 0; i < other->n; i++)
        if (!cpset_add(w, s, other->r[i].lo, other->r[i].hi)) return false;
    return true;
}

static int range_cmp(const void *a, const void *b) {
    const CpRange *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

bool cpset_normalize(GrammarWork *w, CpSet *s) {
    if (s->n) qsort(s->r, s->n, sizeof *s->r, range_cmp);
    CpSet out = {0};
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t lo = s->r[i].lo, hi = s->r[i].hi;
        while (i + 1 < s->n && (s->r[i + 1].lo <= hi || s->r[i + 1].lo == hi + 1)) {
            i++;
            if (s->r[i].hi > hi) hi = s->r[i].hi;
        }
        if (hi < 0xD800 || lo > 0xDFFF) {
            if (!cpset_add(w, &out, lo, hi)) return false;
            continue;
        }
        if (lo < 0xD800 && !cpset_add(w, &out, lo, 0xD7FF)) return false;
        if (hi > 0xDFFF && !cpset_add(w, &out, 0xE000, hi)) return false;
    }
    *s = out;
    return !w->failed;
}

bool cpset_negate(GrammarWork *w, const CpSet *s, CpSet *out) {
    *out = (CpSet){0};
    uint32_t from = 0;
    for (uint32_t i = 0; i < s->n && s->r[i].lo <= SET_MAX_CP; i++) {
        if (s->r[i].lo > from && !cpset_add(w, out, from, s->r[i].lo - 1)) return false;
        from = s->r[i].hi + 1;
    }
    if (from <= SET_MAX_CP && !cpset_add(w, out, from, SET_MAX_CP)) return false;
    return cpset_normalize(w, out);
}

/* General categories by short and long name; a mask of UNICODE_BIT. */
static const struct {
    const char *name, *longer;
    uint32_t mask;
} categories[] = {
    {"L", "Letter", UNICODE_LETTERS},
    {"LC", "Cased_Letter", 0x7u << UNICODE_LU},
    {"Lu", "Uppercase_Letter", UNICODE_BIT(UNICODE_LU)},
    {"Ll", "Lowercase_Letter", UNICODE_BIT(UNICODE_LL)},
    {"Lt", "Titlecase_Letter", UNICODE_BIT(UNICODE_LT)},
    {"Lm", "Modifier_Letter", UNICODE_BIT(UNICODE_LM)},
    {"Lo", "Other_Letter", UNICODE_BIT(UNICODE_LO)},
    {"M", "Mark", UNICODE_MARKS},
    {"Mn", "Nonspacing_Mark", UNICODE_BIT(UNICODE_MN)},
    {"Mc", "Spacing_Mark", UNICODE_BIT(UNICODE_MC)},
    {"Me", "Enclosing_Mark", UNICODE_BIT(UNICODE_ME)},
    {"N", "Number", UNICODE_NUMBERS},
    {"Nd", "Decimal_Number", UNICODE_BIT(UNICODE_ND)},
    {"Nd", "digit", UNICODE_BIT(UNICODE_ND)},
    {"Nl", "Letter_Number", UNICODE_BIT(UNICODE_NL)},
    {"No", "Other_Number", UNICODE_BIT(UNICODE_NO)},
    {"P", "Punctuation", UNICODE_PUNCTS},
    {"P", "punct", UNICODE_PUNCTS},
    {"Pc", "Connector_Punctuation", UNICODE_BIT(UNICODE_PC)},
    {"Pd", "Dash_Punctuation", UNICODE_BIT(UNICODE_PD)},
    {"Ps", "Open_Punctuation", UNICODE_BIT(UNICODE_PS)},
    {"Pe", "Close_Punctuation", UNICODE_BIT(UNICODE_PE)},
    {"Pi", "Initial_Punctuation", UNICODE_BIT(UNICODE_PI)},
    {"Pf", "Final_Punctuation", UNICODE_BIT(UNICODE_PF)},
    {"Po", "Other_Punctuation", UNICODE_BIT(UNICODE_PO)},
    {"S", "Symbol", UNICODE_SYMBOLS},
    {"Sm", "Math_Symbol", UNICODE_BIT(UNICODE_SM)},
    {"Sc", "Currency_Symbol", UNICODE_BIT(UNICODE_SC)},
    {"Sk", "Modifier_Symbol", UNICODE_BIT(UNICODE_SK)},
    {"So", "Other_Symbol", UNICODE_BIT(UNICODE_SO)},
    {"Z", "Separator", UNICODE_SEPARATORS},
    {"Zs", "Space_Separator", UNICODE_BIT(UNICODE_ZS)},
    {"Zl", "Line_Separator", UNICODE_BIT(UNICODE_ZL)},
    {"Zp", "Paragraph_Separator", UNICODE_BIT(UNICODE_ZP)},
    {"C", "Other", UNICODE_BIT(UNICODE_CN) | 0xFu << UNICODE_CC},
    {"Cc", "Control", UNICODE_BIT(UNICODE_CC)},
    {"Cf", "Format", UNICODE_BIT(UNICODE_CF)},
    {"Cn", "Unassigned", UNICODE_BIT(UNICODE_CN)},
    {"Co", "Private_Use", UNICODE_BIT(UNICODE_CO)},
    {"Any", "Any", UINT32_MAX},
};

bool cpset_add_property(GrammarWork *w, CpSet *s, Str name, bool *known) {
    size_t eq = str_find_char(name, '=', 0);
    if (eq != STR_NPOS) {
        Str left = str_slice(name, 0, eq);
        *known = str_eqc(left, "gc") || str_eqc(left, "General_Category");
        if (!*known) return true;
        name = str_from(name, eq + 1);
    }
    *known = true;
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof categories / sizeof categories[0] && !mask; i++)
        if (str_eqc(name, categories[i].name) || str_eqc(name, categories[i].longer))
            mask = categories[i].mask;
    if (str_eqc(name, "ASCII")) return cpset_add(w, s, 0, 0x7F);
    bool space = str_eqc(name, "White_Space");
    if (!mask && !space) {
        *known = false;
        return true;
    }
    if (!work_spend(w, SET_MAX_CP / 16)) return false;
    uint32_t from = 0;
    bool in = false;
    for (uint32_t cp = 0; cp <= SET_MAX_CP + 1; cp++) {
        bool now = cp <= SET_MAX_CP && (space ? unicode_is_space(cp) : UNICODE_IN(cp, mask));
        if (now && !in) from = cp;
        if (!now && in && !cpset_add(w, s, from, cp - 1)) return false;
        in = now;
    }
    return true;
}
