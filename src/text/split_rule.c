/* The published patterns are variations on a few shapes; a rule is a shape and its parameters:
 *
 *   words   GPT-2: an optional blank and letters. CL100K: an optional character that is no letter,
 *           digit or line end, and letters. O200K: the same with upper case before lower case.
 *           DEEPSEEK: letters and marks; or one ASCII punctuation mark and ASCII letters.
 *   digits  how many together; GPT-2 takes any number after an optional blank
 *   other   an optional blank and what is neither white space, letter nor digit; then line ends
 *           (and slashes)
 *   space   up to the last line end of a run; else the run without its last character; else all */
#include "text/split_rule.h"

#include "base/unicode.h"
#include "base/unicode_tab.h"
#include "text/tok_piece.h"

typedef enum Words { WORDS_GPT2, WORDS_CL100K, WORDS_O200K, WORDS_DEEPSEEK, WORDS_NONE } Words;
typedef enum Quotes {
    QUOTES_NONE,
    QUOTES_EXACT,
    QUOTES_ANY_CASE,
    QUOTES_SUFFIX
} Quotes; /* 's 't 're 've 'm 'll 'd */

struct SplitRule {
    const char *pattern;
    Words words;
    Quotes quotes;
    /* most digits in a piece; 0: any number with a blank in front; 255: digits have no rule */
    uint8_t digits;
    bool line_ends; /* \s*[\r\n]+ */
    bool slashes;   /* [\r\n/]* after punctuation instead of [\r\n]* */
    bool marks;     /* marks count as letters */
    bool end_first; /* \s+$ before everything else about white space */
    /* the pattern is nothing but digits: this many at most; ASCII_3: [0-9][0-9][0-9] */
    uint8_t only_digits;
    bool only_cjk; /* the pattern is DeepSeek's second */
};

enum { ANY_DIGITS = 254, ASCII_3 = 255, NO_DIGITS = 255 };

#define QUOTES_CI "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NOT_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ASCII_PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"

static const SplitRule rules[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     WORDS_GPT2, QUOTES_EXACT, .digits = 0},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s",
     WORDS_GPT2, QUOTES_EXACT, .digits = 0},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", WORDS_GPT2,
     QUOTES_EXACT, .digits = 0},
    {QUOTES_CI "|" NOT_WORD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     WORDS_CL100K, QUOTES_ANY_CASE, .digits = 3, .line_ends = true},
    {QUOTES_CI "|" NOT_WORD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, WORDS_CL100K,
     QUOTES_ANY_CASE, .digits = 1, .line_ends = true},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     WORDS_CL100K, QUOTES_ANY_CASE, .digits = 3, .line_ends = true, .end_first = true},
    {QUOTES_CI
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
     WORDS_CL100K, QUOTES_ANY_CASE, .digits = 1, .line_ends = true, .marks = true},
    {NOT_WORD UPPER "*" LOWER "+" QUOTES_CI "?|" NOT_WORD UPPER "+" LOWER "*" QUOTES_CI
                    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     WORDS_O200K, QUOTES_SUFFIX, .digits = 3, .line_ends = true, .slashes = true},
    {NOT_WORD UPPER "*" LOWER "+|" NOT_WORD UPPER "+" LOWER
                    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     WORDS_O200K, QUOTES_NONE, .digits = 1, .line_ends = true, .slashes = true},
    {ASCII_PUNCT "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                 "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     WORDS_DEEPSEEK, QUOTES_NONE, .digits = NO_DIGITS, .line_ends = true},
    {ASCII_PUNCT
     "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
     WORDS_DEEPSEEK, QUOTES_NONE, .digits = NO_DIGITS, .line_ends = true},
    {"\\p{N}{1,3}", WORDS_NONE, QUOTES_NONE, .only_digits = 3},
    {"\\p{N}", WORDS_NONE, QUOTES_NONE, .only_digits = 1},
    {"\\p{N}+", WORDS_NONE, QUOTES_NONE, .only_digits = ANY_DIGITS},
    {"[0-9][0-9][0-9]", WORDS_NONE, QUOTES_NONE, .only_digits = ASCII_3},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+", WORDS_NONE,
     QUOTES_NONE, .only_cjk = true},
};

size_t splitrule_count(void) { return sizeof rules / sizeof *rules; }
Str splitrule_pattern(size_t i) { return str_c(rules[i].pattern); }
const SplitRule *splitrule_gpt2(void) { return &rules[0]; }

const SplitRule *splitrule_find(Str pattern) {
    for (size_t i = 0; i < splitrule_count(); i++)
        if (str_eqc(pattern, rules[i].pattern)) return &rules[i];
    return NULL;
}

/* Classes of characters as bits; a table for the categories, one for ASCII. */
enum {
    C_UPPER = 1,  /* Lu Lt */
    C_LOWER = 2,  /* Ll */
    C_MIDDLE = 4, /* Lm Lo: both cases in o200k */
    C_MARK = 8,
    C_NUMBER = 16,
    C_SPACE = 32,
    C_LINE_END = 64, /* \r \n */
    C_SIGN = 128,    /* P S */
    C_LETTER = C_UPPER | C_LOWER | C_MIDDLE
};

static const uint8_t category_class[UNICODE_CATEGORY_COUNT] = {
    [UNICODE_LU] = C_UPPER,  [UNICODE_LL] = C_LOWER,  [UNICODE_LT] = C_UPPER,
    [UNICODE_LM] = C_MIDDLE, [UNICODE_LO] = C_MIDDLE, [UNICODE_MN] = C_MARK,
    [UNICODE_MC] = C_MARK,   [UNICODE_ME] = C_MARK,   [UNICODE_ND] = C_NUMBER,
    [UNICODE_NL] = C_NUMBER, [UNICODE_NO] = C_NUMBER, [UNICODE_PC] = C_SIGN,
    [UNICODE_PD] = C_SIGN,   [UNICODE_PS] = C_SIGN,   [UNICODE_PE] = C_SIGN,
    [UNICODE_PI] = C_SIGN,   [UNICODE_PF] = C_SIGN,   [UNICODE_PO] = C_SIGN,
    [UNICODE_SM] = C_SIGN,   [UNICODE_SC] = C_SIGN,   [UNICODE_SK] = C_SIGN,
    [UNICODE_SO] = C_SIGN,   [UNICODE_ZS] = C_SPACE,  [UNICODE_ZL] = C_SPACE,
    [UNICODE_ZP] = C_SPACE,
};

#define U C_UPPER
#define L C_LOWER
#define N C_NUMBER
#define P C_SIGN
#define W C_SPACE
#define E (C_SPACE | C_LINE_END)
static const uint8_t ascii_class[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, W, E, W, W, E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    W, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, N, N, N, N, N, N, N, N, N, N, P, P, P, P, P, P,
    P, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, P, P, P, P, P,
    P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, 0,
};
#undef U
#undef L
#undef N
#undef P
#undef W
#undef E

/* Class of the character at `at` and its length; 0 length at the end. */
static inline uint32_t class_at(Str s, size_t at, uint32_t *len) {
    if (at >= s.n) return *len = 0, 0;
    unsigned char c = (unsigned char)s.p[at];
    if (c < 0x80) return *len = 1, ascii_class[c];
    uint32_t cp = utf8_fast(s.p + at, len);
    if (cp == 0x85) return C_SPACE;
    return category_class[UNICODE_TAB(category, cp) & UNICODE_TAB_CATEGORY];
}

static inline size_t run_of(Str s, size_t at, uint32_t mask) {
    uint32_t len;
    while (at < s.n && (class_at(s, at, &len) & mask)) at += len;
    return at;
}

static inline size_t run_without(Str s, size_t at, uint32_t mask) {
    uint32_t len;
    while (at < s.n && !(class_at(s, at, &len) & mask)) at += len;
    return at;
}

static inline uint32_t fold(Str s, size_t at,
                            uint32_t *len) { /* ASCII letter of any case; long s counts as s */
    *len = 1;
    if (at >= s.n) return 0;
    unsigned char c = (unsigned char)s.p[at];
    if (c == 0xC5 && at + 1 < s.n && (unsigned char)s.p[at + 1] == 0xBF) return *len = 2, 's';
    return c >= 'A' && c <= 'Z' ? c + 32u : c;
}

/* End of 's 't 're 've 'm 'll 'd at `at`, or 0. */
static size_t match_quote(Str s, size_t at, bool any_case) {
    if (at >= s.n || s.p[at] != '\'') return 0;
    uint32_t len, len2;
    uint32_t a = fold(s, at + 1, &len), b = fold(s, at + 1 + len, &len2);
    if (!any_case) {
        a = at + 1 < s.n ? (unsigned char)s.p[at + 1] : 0;
        b = at + 2 < s.n ? (unsigned char)s.p[at + 2] : 0;
        len = 1;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 1 + len;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    return 0;
}

/* White space at `at`: a whole run is looked at once. */
static size_t match_space(const SplitRule *r, Str s, size_t at) {
    size_t end = at, last = at, line_end = 0; /* last: start of the run's last character */
    uint32_t len, c;
    while (end < s.n && ((c = class_at(s, end, &len)) & C_SPACE)) {
        last = end;
        end += len;
        if (c & C_LINE_END) line_end = end;
    }
    if (r->end_first && end == s.n) return end;
    if (r->line_ends && line_end) return line_end;
    if (end == s.n || last == at) return end;
    return last;
}

static size_t match_number(const SplitRule *r, Str s, size_t at) {
    uint32_t len;
    size_t end = at;
    for (unsigned n = 0; n < r->digits && end < s.n && (class_at(s, end, &len) & C_NUMBER); n++)
        end += len;
    return end;
}

/* ` ?[^\s\p{L}\p{N}]+[\r\n]*`: from is behind the blank. */
static size_t match_other(const SplitRule *r, Str s, size_t from, uint32_t not_these) {
    size_t end = run_without(s, from, not_these);
    if (!r->line_ends) return end;
    while (end < s.n && (s.p[end] == '\r' || s.p[end] == '\n' || (r->slashes && s.p[end] == '/')))
        end++;
    return end;
}

static size_t match_gpt2(const SplitRule *r, Str s, size_t at) {
    size_t end = match_quote(s, at, false);
    if (end) return end;
    size_t from = at + (s.p[at] == ' ');
    uint32_t len, c = class_at(s, from, &len);
    if (len && !(c & C_SPACE)) {
        if (c & C_LETTER) return run_of(s, from, C_LETTER);
        if (c & C_NUMBER) return run_of(s, from, C_NUMBER);
        return run_without(s, from, C_SPACE | C_LETTER | C_NUMBER);
    }
    return match_space(r, s, at);
}

static size_t match_cl100k(const SplitRule *r, Str s, size_t at) {
    size_t end = match_quote(s, at, true);
    if (end) return end;
    uint32_t letters = C_LETTER | (r->marks ? C_MARK : 0), len, next_len;
    uint32_t c = class_at(s, at, &len);
    if (c & C_LETTER) return run_of(s, at + len, letters);
    if (c & C_NUMBER) return match_number(r, s, at);
    uint32_t next = class_at(s, at + len, &next_len);
    if (!(c & C_LINE_END) && (next & letters)) return run_of(s, at + len, letters);
    if (c & letters) return run_of(s, at, letters); /* marks without a letter */
    uint32_t word = C_SPACE | letters | C_NUMBER;
    if (s.p[at] == ' ' && next_len && !(next & word)) return match_other(r, s, at + 1, word);
    if (!(c & C_SPACE)) return match_other(r, s, at, word);
    return match_space(r, s, at);
}

/* UPPER* LOWER+ at `at`, as a backtracking matcher finds it; 0: none. *upper_end: end of the
 * UPPER run. */
static size_t match_cased(Str s, size_t at, size_t *upper_end) {
    size_t end = at,
           last = 0; /* last: end of the last character of the run that LOWER+ could take */
    uint32_t len, c = 0;
    while (end < s.n && ((c = class_at(s, end, &len)) & (C_UPPER | C_MIDDLE | C_MARK))) {
        end += len;
        if (c & (C_MIDDLE | C_MARK)) last = end;
    }
    *upper_end = end;
    if (end < s.n && (c & C_LOWER)) return run_of(s, end, C_LOWER | C_MIDDLE | C_MARK);
    return last;
}

static size_t match_o200k(const SplitRule *r, Str s, size_t at) {
    uint32_t len, next_len, c = class_at(s, at, &len);
    size_t end = 0, upper = 0, upper_bare = 0;
    bool has_prefix = !(c & (C_LINE_END | C_LETTER | C_NUMBER)) && at + len < s.n;
    uint32_t word_class = C_LETTER | C_MARK;
    if (has_prefix && (class_at(s, at + len, &next_len) & word_class))
        end = match_cased(s, at + len, &upper);
    if (!end && (c & word_class)) end = match_cased(s, at, &upper_bare);
    if (!end && has_prefix && upper > at + len) end = upper; /* UPPER+ alone */
    if (!end && upper_bare > at) end = upper_bare;
    if (end) {
        size_t quote = r->quotes == QUOTES_SUFFIX ? match_quote(s, end, true) : 0;
        return quote ? quote : end;
    }
    if (c & C_NUMBER) return match_number(r, s, at);
    uint32_t word = C_SPACE | C_LETTER | C_NUMBER, next = class_at(s, at + len, &next_len);
    if (s.p[at] == ' ' && next_len && !(next & word)) return match_other(r, s, at + 1, word);
    if (!(c & C_SPACE)) return match_other(r, s, at, word);
    return match_space(r, s, at);
}

static bool is_ascii_letter(Str s, size_t at) {
    return at < s.n && ((s.p[at] | 0x20) >= 'a' && (s.p[at] | 0x20) <= 'z');
}

static size_t match_deepseek(const SplitRule *r, Str s, size_t at) {
    uint32_t len, next_len, c = class_at(s, at, &len), next = class_at(s, at + len, &next_len);
    size_t end = at + len;
    if (len == 1 && (c & C_SIGN) && is_ascii_letter(s, end)) {
        while (is_ascii_letter(s, end)) end++;
        return end;
    }
    uint32_t letters = C_LETTER | C_MARK;
    if (!(c & (C_LINE_END | C_LETTER | C_SIGN)) && (next & letters)) return run_of(s, end, letters);
    if (c & letters) return run_of(s, at, letters);
    size_t from = s.p[at] == ' ' && (next & C_SIGN) ? end : at;
    if (from != at || (c & C_SIGN)) {
        end = run_of(s, from, C_SIGN);
        while (end < s.n && (s.p[end] == '\r' || s.p[end] == '\n')) end++;
        return end;
    }
    return c & C_SPACE ? match_space(r, s, at) : 0;
}

static bool is_cjk(uint32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}

static size_t match_lone(const SplitRule *r, Str s, size_t at) {
    uint32_t len;
    size_t end = at;
    if (r->only_cjk) {
        while (end < s.n && (unsigned char)s.p[end] >= 0xE3 && is_cjk(utf8_fast(s.p + end, &len)))
            end += len;
        return end > at ? end : 0;
    }
    if (r->only_digits == ASCII_3) {
        for (size_t i = 0; i < 3; i++)
            if (at + i >= s.n || s.p[at + i] < '0' || s.p[at + i] > '9') return 0;
        return at + 3;
    }
    for (unsigned n = 0; n < r->only_digits && end < s.n && (class_at(s, end, &len) & C_NUMBER);
         end += len)
        n += r->only_digits != ANY_DIGITS;
    return end > at ? end : 0;
}

size_t splitrule_match(const SplitRule *r, Str s, size_t at) {
    switch (r->words) {
    case WORDS_GPT2:
        return match_gpt2(r, s, at);
    case WORDS_CL100K:
        return match_cl100k(r, s, at);
    case WORDS_O200K:
        return match_o200k(r, s, at);
    case WORDS_DEEPSEEK:
        return match_deepseek(r, s, at);
    case WORDS_NONE:
        break;
    }
    return match_lone(r, s, at);
}
