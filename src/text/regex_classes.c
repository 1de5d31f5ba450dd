#include "text/regex_classes.h"

#include "base/unicode.h"
#include "text/char_class.h"

enum { MAX_SETS = 16, MAX_USES = 64 };
/* Not sets of categories: \w and \p{Han}. */
#define WORD_MASK (1u << 31)
#define HAN_MASK (1u << 30)

static const struct {
    const char *name;
    uint32_t mask;
} properties[] = {
    {"l", UNICODE_LETTERS},
    {"m", UNICODE_MARKS},
    {"n", UNICODE_NUMBERS},
    {"p", UNICODE_PUNCTS},
    {"s", UNICODE_SYMBOLS},
    {"z", UNICODE_SEPARATORS},
    {"lu", UNICODE_BIT(UNICODE_LU)},
    {"ll", UNICODE_BIT(UNICODE_LL)},
    {"lt", UNICODE_BIT(UNICODE_LT)},
    {"lm", UNICODE_BIT(UNICODE_LM)},
    {"lo", UNICODE_BIT(UNICODE_LO)},
    {"mn", UNICODE_BIT(UNICODE_MN)},
    {"mc", UNICODE_BIT(UNICODE_MC)},
    {"me", UNICODE_BIT(UNICODE_ME)},
    {"nd", UNICODE_BIT(UNICODE_ND)},
    {"nl", UNICODE_BIT(UNICODE_NL)},
    {"no", UNICODE_BIT(UNICODE_NO)},
    {"pc", UNICODE_BIT(UNICODE_PC)},
    {"pd", UNICODE_BIT(UNICODE_PD)},
    {"ps", UNICODE_BIT(UNICODE_PS)},
    {"pe", UNICODE_BIT(UNICODE_PE)},
    {"pi", UNICODE_BIT(UNICODE_PI)},
    {"pf", UNICODE_BIT(UNICODE_PF)},
    {"po", UNICODE_BIT(UNICODE_PO)},
    {"sm", UNICODE_BIT(UNICODE_SM)},
    {"sc", UNICODE_BIT(UNICODE_SC)},
    {"sk", UNICODE_BIT(UNICODE_SK)},
    {"so", UNICODE_BIT(UNICODE_SO)},
    {"han", HAN_MASK},
};

typedef struct Sets { /* sets already spelled out */
    uint32_t masks[MAX_SETS];
    size_t from[MAX_SETS], to[MAX_SETS];
    size_t n, uses;
    Buf text;
} Sets;

/* Oniguruma's \w: as UTS 18 has it, without the joiners, and with six superscripts and fractions
 * of Latin-1. */
static bool is_onig_word(uint32_t cp) {
    if (cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || (cp >= 0xBC && cp <= 0xBE)) return true;
    return cp != 0x200C && cp != 0x200D && charclass_is_word(cp);
}

/* unicode_script() knows the characters up to Unicode 9; these came later. */
static bool is_han(uint32_t cp) {
    static const uint32_t later[][2] = {{0x4DB6, 0x4DBF},   {0x9FD6, 0x9FFF},   {0x16FE2, 0x16FE3},
                                        {0x16FF0, 0x16FF1}, {0x2A6D7, 0x2A6DF}, {0x2B735, 0x2B739},
                                        {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x30000, 0x3134A},
                                        {0x31350, 0x323AF}};
    if (unicode_script(cp) == UNICODE_SCRIPT_HAN) return true;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (cp >= later[i][0] && cp <= later[i][1]) return true;
    return false;
}

static bool in_set(uint32_t cp, uint32_t mask) {
    if (mask == HAN_MASK) return is_han(cp);
    return mask == WORD_MASK ? is_onig_word(cp) : UNICODE_IN(cp, mask);
}

static void spell_out(uint32_t mask, Buf *out) {
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (!in_set(cp, mask)) continue;
        uint32_t end = cp;
        while (end + 1 < 0x110000 && in_set(end + 1, mask)) end++;
        if (end == cp)
            buf_putf(out, "\\x{%X}", cp);
        else
            buf_putf(out, "\\x{%X}-\\x{%X}", cp, end);
        cp = end;
    }
}

/* "[ranges]": stands for itself outside brackets and as a nested set inside them. */
static void put_set(Sets *s, uint32_t mask, bool negated, Buf *out) {
    size_t i = 0;
    while (i < s->n && s->masks[i] != mask) i++;
    if (i == s->n && s->n < MAX_SETS) {
        s->masks[i] = mask;
        s->from[i] = s->text.n;
        spell_out(mask, &s->text);
        s->to[i] = s->text.n;
        s->n++;
    }
    s->uses++;
    buf_put(out, negated ? STR("[^") : STR("["));
    if (i < MAX_SETS) buf_put(out, str_slice(buf_str(&s->text), s->from[i], s->to[i]));
    buf_putc(out, ']');
    if (i >= MAX_SETS || s->uses > MAX_USES) out->failed = true;
}

/* {Name} or {^Name} at s: its length with the braces, 0 if it is none of ours. */
static size_t property_at(Str s, uint32_t *mask, bool *negated) {
    size_t end = str_find_char(s, '}', 0);
    if (s.n == 0 || s.p[0] != '{' || end == STR_NPOS) return 0;
    Str name = str_slice(s, 1, end);
    if (str_starts(name, STR("^"))) {
        name = str_from(name, 1);
        *negated = !*negated;
    }
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (str_ieq(name, str_c(properties[i].name))) return *mask = properties[i].mask, end + 1;
    return 0;
}

/* The length of the escape at s if it is a set of ours, which is put out; else 0. */
static size_t put_escape(Sets *sets, Str s, Buf *out) {
    char c = s.n > 1 ? s.p[1] : 0;
    uint32_t mask = 0;
    bool negated = c == 'P' || c == 'W' || c == 'D';
    size_t len = 2;
    if (c == 'p' || c == 'P') {
        size_t n = property_at(str_from(s, 2), &mask, &negated);
        if (!n) return 0;
        len += n;
    } else if (c == 'w' || c == 'W') {
        mask = WORD_MASK;
    } else if (c == 'd' || c == 'D') {
        mask = UNICODE_BIT(UNICODE_ND);
    } else {
        return 0;
    }
    put_set(sets, mask, negated, out);
    return len;
}

/* Options other than the plain group forms: (?i), (?i:, (?-i), (?D) ... A group with options of
 * its own is left as it is. */
static bool opens_options(Str s) {
    return str_starts(s, STR("(?")) && s.n > 2 &&
           ((s.p[2] | 0x20) >= 'a' && (s.p[2] | 0x20) <= 'z');
}

static size_t group_length(Str s) { /* to the bracket that closes the group at s */
    int depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\')
            i++;
        else if (s.p[i] == '(')
            depth++;
        else if (s.p[i] == ')' && --depth == 0)
            return i + 1;
    }
    return s.n;
}

void regexclasses_put(Str pattern, Buf *out) {
    Sets sets = {0};
    Buf b = {.max = (size_t)4 << 20};
    for (size_t i = 0; i < pattern.n;) {
        Str rest = str_from(pattern, i);
        size_t n = 0;
        if (opens_options(rest)) {
            n = group_length(rest);
            size_t colon = str_find_char(rest, ':', 0), close = str_find_char(rest, ')', 0);
            if (close < colon) n = rest.n; /* (?i): to the end of what surrounds it */
            buf_put(&b, str_slice(rest, 0, n));
        } else if (rest.p[0] == '\\') {
            n = put_escape(&sets, rest, &b);
            if (!n) {
                n = rest.n > 1 ? 2 : 1;
                buf_put(&b, str_slice(rest, 0, n));
            }
        } else {
            n = 1;
            buf_putc(&b, rest.p[0]);
        }
        i += n;
    }
    buf_put(out, b.failed || sets.text.failed ? pattern : buf_str(&b));
    buf_deinit(&b);
    buf_deinit(&sets.text);
}
