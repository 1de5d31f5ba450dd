#include "sample/grammar/grammar_regex.h"

#include <string.h>

#include "base/utf8.h"

enum { REGEX_MAX_DEPTH = 100, REGEX_MAX_COUNT = 100000, REGEX_MAX_LOOKS = 16 };

typedef struct Parser {
    GrammarWork *w;
    Str s;
    size_t at;
    int depth;
    /* lookaheads at the front of the current top-level alternative */
    Re *looks[REGEX_MAX_LOOKS];
    bool look_wanted[REGEX_MAX_LOOKS];
    int n_looks;
    bool front; /* at depth 0, nothing but ^ and lookaheads seen yet */
    bool begin_seen;
} Parser;

static Re *parse_alternatives(Parser *p);

static Re *bad(Parser *p, ErrKind kind, const char *what) {
    work_fail(p->w, kind, "pattern \"" STR_F "\": %s at byte %zu", STR_A(p->s), what, p->at);
    return NULL;
}

static bool more(const Parser *p) { return p->at < p->s.n; }
static char peek(const Parser *p) { return more(p) ? p->s.p[p->at] : 0; }
static bool looking_at(const Parser *p, const char *z) {
    return str_starts(str_from(p->s, p->at), str_c(z));
}

static bool take(Parser *p, const char *z) {
    if (!looking_at(p, z)) return false;
    p->at += strlen(z);
    return true;
}

static bool take_hex(Parser *p, int n, uint32_t *out) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++) {
        char c = p->at + (size_t)i < p->s.n ? p->s.p[p->at + (size_t)i] : 0;
        uint32_t d = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                          : 99;
        if (d == 99) return false;
        v = v * 16 + d;
    }
    p->at += (size_t)n;
    *out = v;
    return true;
}

/* ---- escapes ---- */

static bool add_negated(GrammarWork *w, CpSet *set, CpSet *part, bool negate) {
    CpSet out;
    if (!cpset_normalize(w, part)) return false;
    if (!negate) return cpset_add_set(w, set, part);
    return cpset_negate(w, part, &out) && cpset_add_set(w, set, &out);
}

static bool class_escape(Parser *p, char c, CpSet *set) {
    GrammarWork *w = p->w;
    CpSet part = {0};
    switch (c | 32) {
    case 'd':
        cpset_add(w, &part, '0', '9');
        break;
    case 'w':
        cpset_add(w, &part, '0', '9');
        cpset_add(w, &part, 'A', 'Z');
        cpset_add(w, &part, '_', '_');
        cpset_add(w, &part, 'a', 'z');
        break;
    case 's': {
        static const CpRange spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                         {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                         {0xFEFF, 0xFEFF}};
        for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
            cpset_add(w, &part, spaces[i].lo, spaces[i].hi);
        break;
    }
    case 'p': {
        size_t end = str_find_char(p->s, '}', p->at);
        if (peek(p) != '{' || end == STR_NPOS)
            return bad(p, ERR_INPUT, "\\p without {name}") != NULL;
        bool known;
        Str name = str_slice(p->s, p->at + 1, end);
        if (!cpset_add_property(w, &part, name, &known)) return false;
        if (!known)
            return work_fail(w, ERR_UNSUPPORTED,
                             "pattern: the property \\p{" STR_F "} is not supported", STR_A(name));
        p->at = end + 1;
        break;
    }
    }
    return add_negated(w, set, &part, c >= 'A' && c <= 'Z');
}

/* \uXXXX (a surrogate pair is joined) or \u{X..}; p stands behind the u. */
static bool take_unicode(Parser *p, uint32_t *cp) {
    if (take(p, "{")) {
        uint32_t v = 0, digit;
        size_t n = 0;
        for (; take_hex(p, 1, &digit) && v <= SET_MAX_CP; n++) v = v * 16 + digit;
        if (!n || v > SET_MAX_CP || !take(p, "}"))
            return bad(p, ERR_INPUT, "bad escape \\u{..}") != NULL;
        *cp = v;
        return true;
    }
    if (!take_hex(p, 4, cp)) return bad(p, ERR_INPUT, "\\u without four hex digits") != NULL;
    size_t here = p->at;
    uint32_t low;
    if (*cp >= 0xD800 && *cp <= 0xDBFF && take(p, "\\u") && take_hex(p, 4, &low) && low >= 0xDC00 &&
        low <= 0xDFFF)
        *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    else
        p->at = here;
    return true;
}

/* An escape that stands for one character; p stands behind the backslash. */
static bool char_escape(Parser *p, bool in_class, uint32_t *cp) {
    char c = peek(p);
    static const char from[] = "tnvfr", to[] = "\t\n\v\f\r";
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) return p->at++, *cp = (uint32_t)to[simple - from], true;
    if (c == 'b' && in_class) return p->at++, *cp = 8, true;
    if (take(p, "x")) return take_hex(p, 2, cp) || bad(p, ERR_INPUT, "\\x without two hex digits");
    if (take(p, "u")) return take_unicode(p, cp);
    if (c == 'c') {
        char l = p->at + 1 < p->s.n ? (char)(p->s.p[p->at + 1] | 32) : 0;
        if (l < 'a' || l > 'z') return bad(p, ERR_INPUT, "\\c without a letter") != NULL;
        *cp = (uint32_t)(l - 'a' + 1);
        p->at += 2;
        return true;
    }
    if (c == '0' && !(p->at + 1 < p->s.n && p->s.p[p->at + 1] >= '0' && p->s.p[p->at + 1] <= '9'))
        return p->at++, *cp = 0, true;
    if (c >= '0' && c <= '9')
        return bad(p, ERR_UNSUPPORTED,
                   in_class ? "octal escapes are not supported"
                            : "a back reference is not supported") != NULL;
    if (c == 'k') return bad(p, ERR_UNSUPPORTED, "a back reference is not supported") != NULL;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return bad(p, ERR_UNSUPPORTED, "an unknown escape is not supported") != NULL;
    if (!more(p)) return bad(p, ERR_INPUT, "a backslash without a character") != NULL;
    *cp = utf8_next(p->s, &p->at);
    return *cp != UTF8_BAD || bad(p, ERR_INPUT, "invalid UTF-8");
}

/* ---- classes ---- */

static bool is_class_escape(char c) { return c && strchr("dDwWsSpP", c); }

/* One member of a class: a character (*single) or an escaped class. */
static bool class_member(Parser *p, CpSet *set, uint32_t *cp, bool *single) {
    *single = true;
    if (take(p, "\\")) {
        char c = peek(p);
        if (is_class_escape(c)) {
            p->at++;
            *single = false;
            return class_escape(p, c, set);
        }
        return char_escape(p, true, cp);
    }
    *cp = utf8_next(p->s, &p->at);
    return *cp != UTF8_BAD || bad(p, ERR_INPUT, "invalid UTF-8");
}

static Re *parse_class(Parser *p) {
    bool negate = take(p, "^");
    CpSet set = {0};
    while (more(p) && peek(p) != ']') {
        uint32_t lo, hi;
        bool single, single_hi = true;
        if (!class_member(p, &set, &lo, &single)) return NULL;
        if (single) hi = lo;
        if (looking_at(p, "-") && p->at + 1 < p->s.n && p->s.p[p->at + 1] != ']') {
            size_t dash = p->at++;
            if (!single) {
                p->at = dash; /* [\w-x]: the dash is itself */
                p->at++;
                cpset_add(p->w, &set, '-', '-');
                continue;
            }
            if (!class_member(p, &set, &hi, &single_hi)) return NULL;
            if (!single_hi) {
                cpset_add(p->w, &set, '-', '-');
                hi = lo;
            }
            if (hi < lo) return bad(p, ERR_INPUT, "a range whose end is below its begin");
        }
        if (single && !cpset_add(p->w, &set, lo, hi)) return NULL;
    }
    if (!take(p, "]")) return bad(p, ERR_INPUT, "a class without end");
    Re *re = re_new(p->w, RE_SET);
    if (!re || !cpset_normalize(p->w, &set)) return NULL;
    if (!negate) re->set = set;
    if (negate && !cpset_negate(p->w, &set, &re->set)) return NULL;
    return re;
}

static Re *dot(GrammarWork *w) {
    Re *re = re_new(w, RE_SET);
    CpSet ends = {0};
    cpset_add(w, &ends, '\n', '\n');
    cpset_add(w, &ends, '\r', '\r');
    cpset_add(w, &ends, 0x2028, 0x2029);
    return re && cpset_negate(w, &ends, &re->set) ? re : NULL;
}

static Re *assertion(Parser *p, ReAssert what) {
    Re *re = re_new(p->w, RE_ASSERT);
    if (re) re->assertion = what;
    return re;
}

/* ---- groups ---- */

static Re *parse_group_body(Parser *p) {
    if (++p->depth > REGEX_MAX_DEPTH) return bad(p, ERR_LIMIT, "groups nested more than 100 deep");
    Re *re = parse_alternatives(p);
    p->depth--;
    if (!re) return NULL;
    return take(p, ")") ? re : bad(p, ERR_INPUT, "a group without end");
}

static Re *parse_capture(Parser *p) {
    Re *wrap = re_new(p->w, RE_CAT), *body = parse_group_body(p);
    if (!re_add(p->w, wrap, body)) return NULL;
    wrap->group = true;
    return wrap;
}

static Re *parse_lookahead(Parser *p, bool wanted) {
    if (p->depth || !p->front || p->n_looks == REGEX_MAX_LOOKS)
        return bad(p, ERR_UNSUPPORTED,
                   "lookahead is only supported at the front of a pattern, found one");
    Re *body = parse_group_body(p);
    if (!body) return NULL;
    p->looks[p->n_looks] = body;
    p->look_wanted[p->n_looks++] = wanted;
    return re_new(p->w, RE_EMPTY);
}

static Re *parse_group(Parser *p, bool *is_look) {
    if (take(p, "?:")) return parse_group_body(p);
    *is_look = looking_at(p, "?=") || looking_at(p, "?!");
    if (take(p, "?=")) return parse_lookahead(p, true);
    if (take(p, "?!")) return parse_lookahead(p, false);
    if (looking_at(p, "?<=") || looking_at(p, "?<!"))
        return bad(p, ERR_UNSUPPORTED, "lookbehind is not supported, found one");
    if (take(p, "?<")) {
        size_t end = str_find_char(p->s, '>', p->at);
        if (end == STR_NPOS || end == p->at) return bad(p, ERR_INPUT, "a bad group name");
        p->at = end + 1;
        return parse_capture(p);
    }
    if (looking_at(p, "?"))
        return bad(p, ERR_UNSUPPORTED,
                   "inline flags and special groups are not supported, found one");
    return parse_capture(p);
}

/* ---- terms ---- */

static Re *parse_atom(Parser *p, bool *repeatable, bool *is_look) {
    uint32_t cp;
    *repeatable = true;
    *is_look = false;
    char c = peek(p);
    if (c == '(') return p->at++, parse_group(p, is_look);
    if (c == '[') return p->at++, parse_class(p);
    if (c == '.') return p->at++, dot(p->w);
    if (c == '*' || c == '+' || c == '?')
        return bad(p, ERR_INPUT, "a quantifier without anything to repeat");
    *repeatable = false;
    if (c == '^') return p->at++, assertion(p, RE_BEGIN);
    if (c == '$') return p->at++, assertion(p, RE_END);
    if (take(p, "\\b")) return assertion(p, RE_WORD_EDGE);
    if (take(p, "\\B")) return assertion(p, RE_NOT_WORD_EDGE);
    *repeatable = true;
    if (take(p, "\\")) {
        c = peek(p);
        if (is_class_escape(c)) {
            p->at++;
            Re *re = re_new(p->w, RE_SET);
            return re && class_escape(p, c, &re->set) && cpset_normalize(p->w, &re->set) ? re
                                                                                         : NULL;
        }
        return char_escape(p, false, &cp) ? re_set(p->w, cp, cp) : NULL;
    }
    cp = utf8_next(p->s, &p->at);
    return cp == UTF8_BAD ? bad(p, ERR_INPUT, "invalid UTF-8") : re_set(p->w, cp, cp);
}

static bool take_count(Parser *p, uint32_t *out) {
    size_t from = p->at;
    uint64_t v = 0;
    while (peek(p) >= '0' && peek(p) <= '9' && more(p)) {
        v = v * 10 + (uint64_t)(p->s.p[p->at++] - '0');
        if (v > REGEX_MAX_COUNT)
            return bad(p, ERR_LIMIT, "a repetition of more than 100000") != NULL;
    }
    *out = (uint32_t)v;
    return p->at > from;
}

/* {m} {m,} {m,n}; false without moving if the brace is not a quantifier (then it is a literal). */
static bool take_braces(Parser *p, uint32_t *min, uint32_t *max) {
    size_t from = p->at;
    if (!take(p, "{") || !take_count(p, min)) return p->at = from, false;
    *max = *min;
    if (take(p, ",")) {
        *max = RE_INFINITE;
        if (peek(p) != '}' && !take_count(p, max)) return p->at = from, false;
    }
    if (!take(p, "}")) return p->at = from, false;
    if (*max < *min) bad(p, ERR_INPUT, "a repetition whose maximum is below its minimum");
    return true;
}

static Re *parse_term(Parser *p) {
    bool repeatable, is_look;
    bool begin = peek(p) == '^';
    Re *re = parse_atom(p, &repeatable, &is_look);
    if (!p->depth && begin) p->begin_seen = true;
    if (!p->depth && !begin && !is_look) p->front = false;
    for (int n = 0; re && !p->w->failed; n++) {
        uint32_t min = 0, max = RE_INFINITE;
        if (take(p, "+"))
            min = 1;
        else if (take(p, "?"))
            max = 1;
        else if (!take(p, "*") && !take_braces(p, &min, &max))
            break;
        if (n || !repeatable || is_look)
            return bad(p, ERR_INPUT, "a quantifier without anything to repeat");
        take(p, "?"); /* lazy: the same language */
        re = re_repeat(p->w, re, min, max);
    }
    return p->w->failed ? NULL : re;
}

static Re *parse_sequence(Parser *p) {
    Re *cat = re_new(p->w, RE_CAT);
    while (more(p) && peek(p) != '|' && peek(p) != ')')
        if (!re_add(p->w, cat, parse_term(p))) return NULL;
    return cat;
}

static Re *parse_alternatives(Parser *p) {
    Re *first = parse_sequence(p);
    if (!first || peek(p) != '|') return first;
    Re *alt = re_new(p->w, RE_ALT);
    if (!re_add(p->w, alt, first)) return NULL;
    while (take(p, "|"))
        if (!re_add(p->w, alt, parse_sequence(p))) return NULL;
    return alt;
}

/* ---- whole patterns ---- */

static Re *anything(GrammarWork *w) {
    Re *re = re_set(w, 0, SET_MAX_CP);
    return re ? re_repeat(w, re, 0, RE_INFINITE) : NULL;
}

static Dfa *wrap_compile(GrammarWork *w, Re *body, RegexMode mode) {
    Re *cat = re_new(w, RE_CAT);
    if ((mode == REGEX_SEARCH || mode == REGEX_SUFFIX) && !re_add(w, cat, anything(w))) return NULL;
    if (!re_add(w, cat, body)) return NULL;
    if ((mode == REGEX_SEARCH || mode == REGEX_PREFIX) && !re_add(w, cat, anything(w))) return NULL;
    return re_compile(w, cat);
}

/* One top-level alternative: its language, cut down by the lookaheads in front of it. */
static Dfa *alternative_dfa(Parser *p, RegexMode mode) {
    p->n_looks = 0;
    p->front = true;
    p->begin_seen = false;
    Re *body = parse_sequence(p);
    if (!body) return NULL;
    if (p->n_looks && (mode == REGEX_SEARCH || mode == REGEX_SUFFIX) && !p->begin_seen) {
        bad(p, ERR_UNSUPPORTED, "a lookahead is only supported behind ^, found one");
        return NULL;
    }
    Dfa *d = wrap_compile(p->w, body, mode);
    for (int i = 0; i < p->n_looks && d; i++) {
        Dfa *look = wrap_compile(p->w, p->looks[i], REGEX_PREFIX);
        d = dfa_and(p->w, d, p->look_wanted[i] ? look : dfa_not(p->w, look));
    }
    return d;
}

Dfa *regex_dfa(GrammarWork *w, Str pattern, RegexMode mode) {
    Parser p = {.w = w, .s = pattern};
    if (memmem(pattern.p ? pattern.p : "", pattern.n, "(?=", 3) ||
        memmem(pattern.p ? pattern.p : "", pattern.n, "(?!", 3)) {
        Dfa *d = alternative_dfa(&p, mode);
        while (d && take(&p, "|")) d = dfa_or(w, d, alternative_dfa(&p, mode));
        if (d && more(&p)) bad(&p, ERR_INPUT, "a group end without begin");
        return w->failed ? NULL : d;
    }
    Re *re = parse_alternatives(&p);
    if (re && more(&p)) re = bad(&p, ERR_INPUT, "a group end without begin");
    return re ? wrap_compile(w, re, mode) : NULL;
}

static bool holds_group(const Re *re) {
    return re->group || (re->kind == RE_REPEAT && re->kids[0]->group);
}

bool regex_cut_at_group(GrammarWork *w, Str pattern, Dfa **before, Dfa **rest) {
    Parser p = {.w = w, .s = pattern};
    *before = NULL;
    Re *re = parse_alternatives(&p);
    if (re && more(&p)) re = bad(&p, ERR_INPUT, "a group end without begin");
    if (!re) return false;
    uint32_t at = 0;
    while (re->kind == RE_CAT && at < re->n && !holds_group(re->kids[at])) at++;
    if (re->kind == RE_CAT && at && at < re->n) {
        Re front = *re, back = *re;
        front.n = at;
        back.kids += at;
        back.n -= at;
        *before = re_compile(w, &front);
        *rest = re_compile(w, &back);
        return *before && *rest;
    }
    *rest = re_compile(w, re);
    return *rest != NULL;
}
