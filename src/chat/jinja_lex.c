#include "chat/jinja_lex.h"

#include <string.h>

#include "base/unicode.h"
#include "base/utf8.h"
#include "chat/jinja_big.h"
#include "chat/jinja_str.h"

enum { LEX_MAX_BALANCE = 1000 };

typedef struct Lexer {
    JRun *r;
    Str s;
    size_t at;
    int line;
    bool line_starting; /* the last match ended with a line end */
    char balance[LEX_MAX_BALANCE];
    size_t n_balance;
    JTokens *out;
} Lexer;

static bool lex_push(Lexer *x, JToken t) {
    JTokens *o = x->out;
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        JToken *bigger = jrun_array(x->r, JToken, cap);
        if (!bigger) return false;
        if (o->n) memcpy(bigger, o->t, o->n * sizeof *bigger);
        o->t = bigger;
        o->cap = cap;
    }
    t.line = x->line;
    o->t[o->n++] = t;
    return jrun_spend(x->r, 1);
}

static bool lex_fail(Lexer *x, const char *what) {
    x->r->line = x->line;
    return jrun_fail(x->r, JEXC_SYNTAX, "%s", what);
}

/* Moves to `to`, counting lines. */
static void lex_move(Lexer *x, size_t to) {
    for (size_t i = x->at; i < to; i++) x->line += x->s.p[i] == '\n';
    if (to > x->at) x->line_starting = x->s.p[to - 1] == '\n';
    x->at = to;
}

static bool lex_is(const Lexer *x, size_t at, const char *z) {
    size_t n = strlen(z);
    return at <= x->s.n && x->s.n - at >= n && memcmp(x->s.p + at, z, n) == 0;
}

static size_t lex_skip_space(const Lexer *x, size_t at) {
    while (at < x->s.n) {
        size_t next = at;
        if (!jstr_is_space(jstr_next(x->s, &next))) break;
        at = next;
    }
    return at;
}

static size_t lex_rstrip(const Lexer *x, size_t from, size_t to) {
    while (to > from) {
        size_t at = to;
        if (!jstr_is_space(jstr_prev(x->s, &at)) || at < from) break;
        to = at;
    }
    return to;
}

/* The end of a tag that closes at `at` (`%}` or `#}`), with - + and the newline that trim_blocks
 * eats; 0 if none. */
static size_t lex_tag_end(const Lexer *x, size_t at, const char *close) {
    if (at < x->s.n && x->s.p[at] == '+' && lex_is(x, at + 1, close)) return at + 3;
    if (at < x->s.n && x->s.p[at] == '-' && lex_is(x, at + 1, close))
        return lex_skip_space(x, at + 3);
    if (!lex_is(x, at, close)) return 0;
    at += 2;
    return at < x->s.n && x->s.p[at] == '\n' ? at + 1 : at;
}

/* Template text from..tag, where a tag with the given sign follows: white space before it goes as
 * the rules say. */
static bool lex_data(Lexer *x, size_t tag, char sign, bool is_variable) {
    size_t from = x->at, to = tag;
    if (sign == '-') {
        to = lex_rstrip(x, from, tag);
    } else if (sign != '+' && !is_variable) { /* lstrip_blocks */
        size_t line = tag;
        while (line > from && x->s.p[line - 1] != '\n') line--;
        if ((line > from || x->line_starting) && lex_skip_space(x, line) >= tag) to = line;
    }
    if (to > from && !lex_push(x, (JToken){.type = JT_DATA, .text = str_slice(x->s, from, to)}))
        return false;
    return true;
}

static char lex_sign(const Lexer *x, size_t at) {
    return at < x->s.n && (x->s.p[at] == '-' || x->s.p[at] == '+') ? x->s.p[at] : 0;
}

/* `{% raw %}` at `at`? Gives the end of the tag. */
static bool lex_raw_begin(const Lexer *x, size_t at, size_t *end) {
    at += 2;
    if (lex_sign(x, at)) at++;
    at = lex_skip_space(x, at);
    if (!lex_is(x, at, "raw")) return false;
    at = lex_skip_space(x, at + 3);
    if (lex_is(x, at, "-%}")) return *end = lex_skip_space(x, at + 3), true;
    if (lex_is(x, at, "%}")) return *end = at + 2, true;
    return false;
}

static bool lex_raw_end(const Lexer *x, size_t at, size_t *end) {
    at += 2;
    if (lex_sign(x, at)) at++;
    at = lex_skip_space(x, at);
    if (!lex_is(x, at, "endraw")) return false;
    return (*end = lex_tag_end(x, lex_skip_space(x, at + 6), "%}")) != 0;
}

static bool lex_raw(Lexer *x, size_t tag, size_t end) {
    if (!lex_data(x, tag, lex_sign(x, tag + 2), false)) return false;
    lex_move(x, end);
    if (x->at >= x->s.n) return true;
    for (size_t at = x->at;;) {
        at = str_find(x->s, STR("{%"), at);
        if (at == STR_NPOS) return lex_fail(x, "missing end of raw directive");
        if (lex_raw_end(x, at, &end)) {
            if (!lex_data(x, at, lex_sign(x, at + 2), false)) return false;
            lex_move(x, end);
            return true;
        }
        at++;
    }
}

static bool lex_comment(Lexer *x, size_t tag) {
    if (!lex_data(x, tag, lex_sign(x, tag + 2), false)) return false;
    lex_move(x, tag + 2 + (lex_sign(x, tag + 2) ? 1 : 0));
    if (x->at >= x->s.n) return true;
    size_t close = str_find(x->s, STR("#}"), x->at);
    if (close == STR_NPOS) return lex_fail(x, "missing end of comment tag");
    if (close > x->at && (x->s.p[close - 1] == '-' || x->s.p[close - 1] == '+')) close--;
    lex_move(x, lex_tag_end(x, close, "#}"));
    return true;
}

static bool digit_in(char c, int base) {
    if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return true;
    return c >= '0' && c <= (base >= 10 ? '9' : '0' + base - 1);
}

/* Digits with single underscores between (or, with lead, before) them; gives where they end. */
static size_t lex_digits(const Lexer *x, size_t at, int base, bool lead) {
    for (;;) {
        size_t next = at;
        if (lead && next < x->s.n && x->s.p[next] == '_') next++;
        if (next >= x->s.n || !digit_in(x->s.p[next], base)) return at;
        at = next + 1;
        lead = true;
    }
}

static bool lex_without_underscores(Lexer *x, size_t from, size_t to, Str *out) {
    char *p = jrun_alloc(x->r, to - from + 1);
    size_t n = 0;
    if (!p) return false;
    for (size_t i = from; i < to; i++)
        if (x->s.p[i] != '_') p[n++] = x->s.p[i];
    *out = (Str){p, n};
    return true;
}

static size_t lex_float_end(const Lexer *x) {
    size_t at = lex_digits(x, x->at, 10, false), end = 0;
    if (x->at > 0 && x->s.p[x->at - 1] == '.') return 0;
    if (at < x->s.n && x->s.p[at] == '.') {
        size_t frac = lex_digits(x, at + 1, 10, false);
        if (frac > at + 1) end = at = frac;
    }
    if (at < x->s.n && (x->s.p[at] | 32) == 'e') {
        size_t e = at + 1;
        if (e < x->s.n && (x->s.p[e] == '+' || x->s.p[e] == '-')) e++;
        size_t exp = lex_digits(x, e, 10, false);
        if (exp > e) end = exp;
    }
    return end;
}

static bool lex_number(Lexer *x) {
    Str text;
    JToken t = {.type = JT_FLOAT};
    size_t end = lex_float_end(x), from = x->at;
    if (end) {
        double f;
        if (!lex_without_underscores(x, from, end, &text)) return false;
        if (!str_to_f64(text, &f))
            f = 1e308 * 10; /* out of range reads as infinity, as in Python */
        t.value = jval_float(f);
    } else {
        int base = 10;
        t.type = JT_INTEGER;
        char kind = from + 1 < x->s.n && x->s.p[from] == '0' ? (char)(x->s.p[from + 1] | 32) : 0;
        if (kind == 'b' || kind == 'o' || kind == 'x') {
            base = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
            end = lex_digits(x, from + 2, base, true);
            if (end == from + 2)
                base = 10;
            else
                from += 2;
        }
        if (base == 10)
            end = x->s.p[from] == '0' ? lex_digits(x, from, 1, false)
                                      : lex_digits(x, from, 10, false);
        if (!lex_without_underscores(x, from, end, &text)) return false;
        if (!jint_parse(x->r, text, base, false, &t.value)) return false;
    }
    if (!lex_push(x, t)) return false;
    lex_move(x, end);
    return true;
}

static bool name_char(uint32_t cp, bool first) {
    if (cp < 0x80)
        return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || cp == '_' ||
               (!first && cp >= '0' && cp <= '9');
    uint32_t more = UNICODE_MARKS | UNICODE_BIT(UNICODE_ND) | UNICODE_BIT(UNICODE_PC);
    return UNICODE_IN(cp, UNICODE_LETTERS | UNICODE_BIT(UNICODE_NL) | (first ? 0 : more));
}

static bool lex_name(Lexer *x) {
    size_t at = x->at;
    while (at < x->s.n) {
        size_t next = at;
        if (!name_char(jstr_next(x->s, &next), at == x->at)) break;
        at = next;
    }
    if (at == x->at) return lex_fail(x, "unexpected character in a tag");
    if (!lex_push(x, (JToken){.type = JT_NAME, .text = str_slice(x->s, x->at, at)})) return false;
    lex_move(x, at);
    return true;
}

static bool lex_hex(Lexer *x, Str s, size_t *at, size_t n, uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        char c = *at < s.n ? s.p[*at] : 0;
        if (!digit_in(c, 16))
            return lex_fail(x, "a \\x, \\u or \\U escape in a string is cut short");
        *out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        (*at)++;
    }
    return *out <= 0x10FFFF || lex_fail(x, "a \\U escape in a string is above U+10FFFF");
}

/* One escape; s.p[*at] is the character behind the backslash. */
static bool lex_escape(Lexer *x, Str s, size_t *at, JBuild *b) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    uint32_t cp;
    char c = s.p[*at];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        (*at)++;
        jbuild_putc(x->r, b, to[simple - from], false);
    } else if (c == '\n') {
        (*at)++;
    } else if (c >= '0' && c <= '7') {
        cp = 0;
        for (int i = 0; i < 3 && *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '7'; i++)
            cp = cp * 8 + (uint32_t)(s.p[(*at)++] - '0');
        jbuild_put_cp(x->r, b, cp, false);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        (*at)++;
        if (!lex_hex(x, s, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp)) return false;
        jbuild_put_cp(x->r, b, cp, false);
    } else if (c == 'N') {
        return lex_fail(x, "\\N{...} escapes are not supported");
    } else if ((unsigned char)c < 0x80) {
        jbuild_putc(x->r, b, '\\', false);
        jbuild_putc(x->r, b, c, false);
        (*at)++;
    } else { /* Jinja escapes it first, and the backslash then eats that escape's own */
        static const char hex[] = "0123456789abcdef";
        cp = jstr_next(s, at);
        int digits = cp < 0x100 ? 2 : cp < 0x10000 ? 4 : 8;
        jbuild_putc(x->r, b, '\\', false);
        jbuild_putc(x->r, b, digits == 2 ? 'x' : digits == 4 ? 'u' : 'U', false);
        while (digits--) jbuild_putc(x->r, b, hex[cp >> (digits * 4) & 15], false);
    }
    return true;
}

static bool lex_string(Lexer *x) {
    char quote = x->s.p[x->at];
    size_t end = x->at + 1;
    bool escapes = false;
    while (end < x->s.n && x->s.p[end] != quote) {
        if (x->s.p[end] == '\\') {
            escapes = true;
            end++;
        }
        end++;
    }
    if (end >= x->s.n) return lex_fail(x, "a string is not closed");
    Str s = str_slice(x->s, x->at + 1, end);
    JToken t = {.type = JT_STRING};
    if (!escapes) {
        if (!jstr_make(x->r, s, false, &t.value)) return false;
    } else {
        JBuild b = {0};
        for (size_t at = 0; at < s.n;) {
            size_t stop = str_find_char(s, '\\', at);
            if (stop == STR_NPOS) stop = s.n;
            jbuild_put(x->r, &b, str_slice(s, at, stop), false);
            at = stop + 1;
            if (stop < s.n && !lex_escape(x, s, &at, &b)) return false;
        }
        if (!jbuild_done(x->r, &b, &t.value)) return false;
    }
    jstr_n_cp(t.value.u.str); /* counted now: the compiled template is shared by threads */
    if (!lex_push(x, t)) return false;
    lex_move(x, end + 1);
    return true;
}

static bool lex_balance(Lexer *x, JTok type) {
    char close = type == JT_LBRACE ? '}' : type == JT_LPAREN ? ')' : type == JT_LBRACKET ? ']' : 0;
    if (close) {
        if (x->n_balance == LEX_MAX_BALANCE) return lex_fail(x, "brackets are nested too deeply");
        x->balance[x->n_balance++] = close;
        return true;
    }
    char c = type == JT_RBRACE ? '}' : type == JT_RPAREN ? ')' : type == JT_RBRACKET ? ']' : 0;
    if (!c) return true;
    x->r->line = x->line;
    if (!x->n_balance) return jrun_fail(x->r, JEXC_SYNTAX, "unexpected '%c'", c);
    char want = x->balance[--x->n_balance];
    return want == c || jrun_fail(x->r, JEXC_SYNTAX, "unexpected '%c', expected '%c'", c, want);
}

static const struct {
    const char *text;
    JTok type;
} lex_operators[] = {
    {"**", JT_POW},     {"//", JT_FLOORDIV}, {"==", JT_EQ},    {"!=", JT_NE},
    {">=", JT_GTEQ},    {"<=", JT_LTEQ},     {"+", JT_ADD},    {"-", JT_SUB},
    {"/", JT_DIV},      {"*", JT_MUL},       {"%", JT_MOD},    {"~", JT_TILDE},
    {"[", JT_LBRACKET}, {"]", JT_RBRACKET},  {"(", JT_LPAREN}, {")", JT_RPAREN},
    {"{", JT_LBRACE},   {"}", JT_RBRACE},    {">", JT_GT},     {"<", JT_LT},
    {"=", JT_ASSIGN},   {".", JT_DOT},       {":", JT_COLON},  {"|", JT_PIPE},
    {",", JT_COMMA},    {";", JT_SEMICOLON},
};

static bool lex_operator(Lexer *x, bool *hit) {
    for (size_t i = 0; i < sizeof lex_operators / sizeof *lex_operators; i++) {
        if (!lex_is(x, x->at, lex_operators[i].text)) continue;
        *hit = true;
        if (!lex_balance(x, lex_operators[i].type)) return false;
        if (!lex_push(x, (JToken){.type = lex_operators[i].type})) return false;
        lex_move(x, x->at + strlen(lex_operators[i].text));
        return true;
    }
    return true;
}

static size_t lex_inside_end(const Lexer *x, bool is_variable) {
    if (x->n_balance) return 0;
    if (!is_variable) return lex_tag_end(x, x->at, "%}");
    if (lex_is(x, x->at, "-}}")) return lex_skip_space(x, x->at + 3);
    return lex_is(x, x->at, "}}") ? x->at + 2 : 0;
}

static bool lex_inside(Lexer *x, size_t tag, bool is_variable) {
    char sign = lex_sign(x, tag + 2);
    if (!lex_data(x, tag, sign, is_variable)) return false;
    lex_move(x, tag);
    if (!lex_push(x, (JToken){.type = is_variable ? JT_VAR_BEGIN : JT_BLOCK_BEGIN})) return false;
    lex_move(x, tag + 2 + (sign ? 1 : 0));
    x->n_balance = 0;
    while (x->at < x->s.n) {
        size_t end = lex_inside_end(x, is_variable);
        if (end) {
            if (!lex_push(x, (JToken){.type = is_variable ? JT_VAR_END : JT_BLOCK_END}))
                return false;
            lex_move(x, end);
            return true;
        }
        size_t blank = lex_skip_space(x, x->at);
        char c = x->s.p[x->at];
        bool hit = false;
        if (blank > x->at) {
            lex_move(x, blank);
        } else if (c >= '0' && c <= '9') {
            if (!lex_number(x)) return false;
        } else if (c == '\'' || c == '"') {
            if (!lex_string(x)) return false;
        } else {
            if (!lex_operator(x, &hit)) return false;
            if (!hit && !lex_name(x)) return false;
        }
    }
    return true;
}

/* The next tag at or behind x->at; what[0] tells its kind. */
static size_t lex_find_tag(const Lexer *x) {
    for (size_t at = x->at;; at++) {
        at = str_find_char(x->s, '{', at);
        if (at == STR_NPOS || at + 1 >= x->s.n) return STR_NPOS;
        char c = x->s.p[at + 1];
        if (c == '%' || c == '{' || c == '#') return at;
    }
}

static bool lex_all(Lexer *x) {
    for (;;) {
        size_t tag = lex_find_tag(x), end;
        if (tag == STR_NPOS) {
            Str rest = str_from(x->s, x->at);
            if (rest.n && !lex_push(x, (JToken){.type = JT_DATA, .text = rest})) return false;
            lex_move(x, x->s.n);
            return lex_push(x, (JToken){.type = JT_EOF});
        }
        char c = x->s.p[tag + 1];
        if (c == '#') {
            if (!lex_comment(x, tag)) return false;
        } else if (c == '%' && lex_raw_begin(x, tag, &end)) {
            if (!lex_raw(x, tag, end)) return false;
        } else if (!lex_inside(x, tag, c == '{')) {
            return false;
        }
    }
}

bool jlex_run(JRun *r, Str source, JTokens *out) {
    if (!utf8_valid(source)) return jrun_fail(r, JEXC_SYNTAX, "the text is not valid UTF-8");
    char *p = jrun_alloc(r, source.n + 1);
    if (!p) return false;
    size_t n = 0;
    for (size_t i = 0; i < source.n; i++) {
        if (source.p[i] != '\r')
            p[n++] = source.p[i];
        else if (i + 1 >= source.n || source.p[i + 1] != '\n')
            p[n++] = '\n';
    }
    if (n && p[n - 1] == '\n') n--;
    Lexer *x = jrun_new(r, Lexer);
    if (!x) return false;
    *x = (Lexer){.r = r, .s = {p, n}, .line = 1, .line_starting = true, .out = out};
    *out = (JTokens){0};
    return lex_all(x);
}

const char *jlex_describe(JTok type) {
    static const char *const name[] = {
        [JT_EOF] = "end of template",
        [JT_DATA] = "template data / text",
        [JT_VAR_BEGIN] = "begin of print statement",
        [JT_VAR_END] = "end of print statement",
        [JT_BLOCK_BEGIN] = "begin of statement block",
        [JT_BLOCK_END] = "end of statement block",
        [JT_NAME] = "name",
        [JT_STRING] = "string",
        [JT_INTEGER] = "integer",
        [JT_FLOAT] = "float",
    };
    if (type <= JT_FLOAT) return name[type];
    for (size_t i = 0; i < sizeof lex_operators / sizeof *lex_operators; i++)
        if (lex_operators[i].type == type) return lex_operators[i].text;
    return "?";
}
