/* GBNF, llama.cpp's dialect of BNF.
 *
 *   name ::= alternatives            # comment to the end of the line
 *   "literal"  [class]  [^class]  .  name  ( ... )  <[token id]>  !<[token id]>
 *   item*  item+  item?  item{m}  item{m,}  item{m,n}
 *
 * Escapes in literals and classes: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. Alternatives
 * go on to the next line only behind '|' or inside brackets. Every rule becomes a raw lexer; left
 * recursion is refused. */
#include "base/map.h"
#include "base/utf8.h"
#include "sample/grammar/grammar_re.h"
#include "sample/grammar/grammar_run.h"

enum { GBNF_MAX_DEPTH = 100, GBNF_MAX_RULES = 10000, GBNF_MAX_COUNT = 100000 };

typedef struct Rule {
    Str name;
    Re *body; /* NULL: used, not defined yet */
    Dfa *dfa;
    bool nullable, live;
} Rule;

typedef struct Gbnf {
    GrammarWork *w;
    Str s;
    size_t at;
    int depth; /* of brackets */
    Map names; /* -> index of rule */
    Rule *rules;
    uint32_t n, cap;
    bool tokens;
} Gbnf;

static Re *parse_alternatives(Gbnf *p);

static bool bad(Gbnf *p, ErrKind kind, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < p->at && i < p->s.n; i++) line += p->s.p[i] == '\n';
    return work_fail(p->w, kind, "grammar line %zu: %s", line, what);
}

static char peek(const Gbnf *p) { return p->at < p->s.n ? p->s.p[p->at] : 0; }
static bool at_end(const Gbnf *p) { return p->at >= p->s.n; }
static bool looking_at(const Gbnf *p, const char *z) {
    return str_starts(str_from(p->s, p->at), str_c(z));
}

/* Blanks and comments; line ends too if allowed. */
static void skip_space(Gbnf *p, bool lines) {
    for (; !at_end(p); p->at++) {
        char c = peek(p);
        if (c == '#')
            while (p->at + 1 < p->s.n && p->s.p[p->at + 1] != '\n' && p->s.p[p->at + 1] != '\r')
                p->at++;
        else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
            break;
    }
}

/* ---- names ---- */

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static Str take_name(Gbnf *p) {
    size_t from = p->at;
    while (!at_end(p) && is_name_char(peek(p))) p->at++;
    return str_slice(p->s, from, p->at);
}

static bool rule_named(Gbnf *p, Str name, uint32_t *out) {
    uint64_t i;
    if (map_get(&p->names, name, &i)) return *out = (uint32_t)i, true;
    if (p->n == GBNF_MAX_RULES)
        return work_fail(p->w, ERR_LIMIT, "the grammar has more than %d rules", GBNF_MAX_RULES);
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? p->cap * 2 : 16;
        Rule *rules = work_grow(p->w, p->rules, p->n, cap, sizeof *rules);
        if (!rules) return false;
        p->rules = rules;
        p->cap = cap;
    }
    if (!map_put(&p->names, name, p->n))
        return work_fail(p->w, ERR_NOMEM, "out of memory for a grammar");
    p->rules[p->n] = (Rule){.name = name};
    *out = p->n++;
    return true;
}

/* ---- characters ---- */

static bool take_hex(Gbnf *p, int n, uint32_t *cp) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++, p->at++) {
        char c = peek(p);
        uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                         : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                              : 99;
        if (digit == 99)
            return bad(p, ERR_INPUT,
                       "a bad hexadecimal escape, \\xHH, \\uHHHH or \\UHHHHHHHH is accepted");
        v = v << 4 | digit;
    }
    if (v > SET_MAX_CP || (v >= 0xD800 && v <= 0xDFFF))
        return bad(p, ERR_INPUT, "an escape that is not a Unicode character");
    *cp = v;
    return true;
}

static bool take_char(Gbnf *p, uint32_t *cp) {
    if (peek(p) != '\\') {
        *cp = utf8_next(p->s, &p->at);
        return *cp != UTF8_BAD || bad(p, ERR_INPUT, "invalid UTF-8");
    }
    p->at++;
    char c = peek(p);
    if (at_end(p)) return bad(p, ERR_INPUT, "a backslash at the end");
    p->at++;
    switch (c) {
    case 'x':
        return take_hex(p, 2, cp);
    case 'u':
        return take_hex(p, 4, cp);
    case 'U':
        return take_hex(p, 8, cp);
    case 't':
        *cp = '\t';
        return true;
    case 'r':
        *cp = '\r';
        return true;
    case 'n':
        *cp = '\n';
        return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
    case '\'':
    case '/':
        *cp = (uint32_t)c;
        return true;
    default:
        return bad(
            p, ERR_INPUT,
            "an unknown escape, \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\x \\u \\U are accepted");
    }
}

static Re *parse_literal(Gbnf *p) {
    Re *cat = re_new(p->w, RE_CAT);
    while (!at_end(p) && peek(p) != '"') {
        uint32_t cp;
        if (!take_char(p, &cp) || !re_add(p->w, cat, re_set(p->w, cp, cp))) return NULL;
    }
    if (at_end(p)) return bad(p, ERR_INPUT, "a literal without end"), NULL;
    p->at++;
    return cat;
}

static Re *parse_class(Gbnf *p) {
    bool negate = peek(p) == '^';
    CpSet set = {0};
    p->at += negate;
    while (!at_end(p) && peek(p) != ']') {
        uint32_t lo, hi;
        if (!take_char(p, &lo)) return NULL;
        hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->s.n && p->s.p[p->at + 1] != ']') {
            p->at++;
            if (!take_char(p, &hi)) return NULL;
            if (hi < lo)
                return bad(p, ERR_INPUT, "a character range whose end is below its begin"), NULL;
        }
        if (!cpset_add(p->w, &set, lo, hi)) return NULL;
    }
    if (at_end(p)) return bad(p, ERR_INPUT, "a character class without end"), NULL;
    p->at++;
    Re *re = re_new(p->w, RE_SET);
    if (!re || !cpset_normalize(p->w, &set)) return NULL;
    if (!negate) re->set = set;
    return !negate || cpset_negate(p->w, &set, &re->set) ? re : NULL;
}

/* <[id]>, or any other token with ! in front. */
static Re *parse_token(Gbnf *p, bool negate) {
    uint64_t id;
    size_t end = str_find_char(p->s, ']', p->at);
    if (!looking_at(p, "<[") || end == STR_NPOS || end + 1 >= p->s.n || p->s.p[end + 1] != '>' ||
        !str_to_u64(str_slice(p->s, p->at + 2, end), &id) || id > SET_TOKEN_MAX - SET_TOKEN_BASE)
        return bad(p, ERR_UNSUPPORTED,
                   "a token is written <[id]>; tokens by text are not supported"),
               NULL;
    p->at = end + 2;
    p->tokens = true;
    uint32_t cp = SET_TOKEN_BASE + (uint32_t)id;
    if (!negate) return re_set(p->w, cp, cp);
    Re *re = re_new(p->w, RE_SET);
    if (!re) return NULL;
    if (id) cpset_add(p->w, &re->set, SET_TOKEN_BASE, cp - 1);
    cpset_add(p->w, &re->set, cp + 1, SET_TOKEN_MAX);
    return cpset_normalize(p->w, &re->set) ? re : NULL;
}

/* ---- expressions ---- */

static bool take_count(Gbnf *p, uint32_t *out) {
    size_t from = p->at;
    uint64_t v = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        v = v * 10 + (uint64_t)(peek(p) - '0');
        if (v > GBNF_MAX_COUNT) return bad(p, ERR_LIMIT, "a repetition of more than 100000");
    }
    if (p->at == from) return bad(p, ERR_INPUT, "a repetition {m}, {m,} or {m,n} needs numbers");
    *out = (uint32_t)v;
    skip_space(p, true);
    return true;
}

static bool take_braces(Gbnf *p, uint32_t *min, uint32_t *max) {
    p->at++;
    skip_space(p, true);
    *min = 0;
    if (peek(p) != ',' && !take_count(p, min)) return false;
    *max = *min;
    if (peek(p) == ',') {
        p->at++;
        skip_space(p, true);
        *max = RE_INFINITE;
        if (peek(p) != '}' && !take_count(p, max)) return false;
    }
    if (peek(p) != '}') return bad(p, ERR_INPUT, "a repetition without closing brace");
    p->at++;
    return *min <= *max || bad(p, ERR_INPUT, "a repetition whose maximum is below its minimum");
}

static Re *parse_group(Gbnf *p) {
    if (++p->depth > GBNF_MAX_DEPTH)
        return bad(p, ERR_LIMIT, "brackets nested more than 100 deep"), NULL;
    p->at++;
    skip_space(p, true);
    Re *re = parse_alternatives(p);
    p->depth--;
    if (!re) return NULL;
    skip_space(p, true);
    if (peek(p) != ')') return bad(p, ERR_INPUT, "a bracket without end"), NULL;
    p->at++;
    return re;
}

static Re *parse_item(Gbnf *p) {
    char c = peek(p);
    if (c == '"') return p->at++, parse_literal(p);
    if (c == '[') return p->at++, parse_class(p);
    if (c == '.') return p->at++, re_set(p->w, 0, SET_MAX_CP);
    if (c == '(') return parse_group(p);
    if (c == '<') return parse_token(p, false);
    if (c == '!') return p->at++, parse_token(p, true);
    if (!is_name_char(c))
        return bad(p, ERR_INPUT,
                   c == '*' || c == '+' || c == '?' || c == '{'
                       ? "a repetition without anything to repeat"
                       : "an unexpected character"),
               NULL;
    Re *re = re_new(p->w, RE_CALL);
    return re && rule_named(p, take_name(p), &re->rule) ? re : NULL;
}

/* Whether a name here begins the next rule: it is followed by ::= */
static bool at_rule(Gbnf *p) {
    size_t from = p->at;
    Str name = take_name(p);
    skip_space(p, true);
    bool is = name.n && looking_at(p, "::=");
    p->at = from;
    return is;
}

static Re *parse_sequence(Gbnf *p) {
    Re *cat = re_new(p->w, RE_CAT);
    for (;;) {
        skip_space(p, p->depth > 0);
        char c = peek(p);
        if (at_end(p) || c == '|' || c == ')' || c == '\n' || c == '\r') break;
        Re *item = parse_item(p);
        for (bool more = item != NULL; more;) {
            skip_space(p, p->depth > 0);
            uint32_t min = 0, max = RE_INFINITE;
            c = peek(p);
            more = c == '*' || c == '+' || c == '?' || c == '{';
            if (!more) break;
            if (c == '+') min = 1;
            if (c == '?') max = 1;
            if (c != '{')
                p->at++;
            else if (!take_braces(p, &min, &max))
                return NULL;
            if (!(item = re_repeat(p->w, item, min, max))) return NULL;
        }
        if (!re_add(p->w, cat, item)) return NULL;
    }
    return cat;
}

static Re *parse_alternatives(Gbnf *p) {
    Re *alt = re_new(p->w, RE_ALT);
    for (;;) {
        if (!re_add(p->w, alt, parse_sequence(p))) return NULL;
        if (peek(p) != '|') return alt;
        p->at++;
        size_t from = p->at;
        skip_space(p, true);
        if (p->depth == 0 && at_rule(p))
            p->at = from; /* an empty last alternative, then the next rule */
    }
}

static bool parse_rule(Gbnf *p) {
    uint32_t i;
    Str name = take_name(p);
    if (!name.n) return bad(p, ERR_INPUT, "a rule name is expected");
    skip_space(p, true);
    if (!looking_at(p, "::=")) return bad(p, ERR_INPUT, "::= is expected behind a rule name");
    p->at += 3;
    skip_space(p, true);
    if (!rule_named(p, name, &i)) return false;
    if (p->rules[i].body) return bad(p, ERR_INPUT, "a rule is defined twice");
    Re *body = at_rule(p) ? re_new(p->w, RE_EMPTY) : parse_alternatives(p);
    if (!body) return false;
    p->rules[i].body = body;
    skip_space(p, false);
    if (!at_end(p) && peek(p) != '\n' && peek(p) != '\r' && !at_rule(p))
        return bad(p, ERR_INPUT, "an unexpected bracket or character behind a rule");
    return true;
}

/* ---- checks over all rules ---- */

static bool state_nullable(const Gbnf *p, const Dfa *d, uint32_t q, bool *seen) {
    if (d->label[q] >= 0) return true;
    if (!d->calls || seen[q]) return false;
    seen[q] = true;
    for (uint32_t c = d->call_at[q]; c < d->call_at[q + 1]; c++)
        if (p->rules[d->calls[c].rule].nullable && state_nullable(p, d, d->calls[c].to, seen))
            return true;
    return false;
}

static bool find_nullable(Gbnf *p) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t k = 0; k < 2 * p->n; k++) {
            uint32_t i = k < p->n ? k : 2 * p->n - 1 - k;
            const Dfa *d = p->rules[i].dfa;
            if (p->rules[i].nullable || !d->n) continue;
            bool *seen = work_array(p->w, bool, d->n);
            if (!seen || !work_spend(p->w, d->n)) return false;
            if (state_nullable(p, d, d->start, seen)) p->rules[i].nullable = again = true;
        }
    }
    return true;
}

/* Depth-first over "begins with a call of": a rule met again while it is still open is
 * left-recursive. */
typedef struct LeftFrame {
    uint32_t rule, at; /* next of the rule's leading calls */
} LeftFrame;

static bool leading_calls(Gbnf *p, const Dfa *d, uint32_t **calls, uint32_t *n) {
    bool *seen = work_array(p->w, bool, d->n);
    uint32_t *queue = work_array(p->w, uint32_t, d->n), n_queue = 0, cap = 0;
    *n = 0;
    if (!seen || !queue) return false;
    if (!d->n || !d->calls) return true;
    seen[queue[n_queue++] = d->start] = true;
    for (uint32_t i = 0; i < n_queue; i++) {
        for (uint32_t c = d->call_at[queue[i]]; c < d->call_at[queue[i] + 1]; c++) {
            if (*n == cap) {
                uint32_t *more = work_grow(p->w, *calls, *n, cap = cap ? cap * 2 : 8, sizeof *more);
                if (!more) return false;
                *calls = more;
            }
            (*calls)[(*n)++] = d->calls[c].rule;
            uint32_t to = d->calls[c].to;
            if (p->rules[d->calls[c].rule].nullable && !seen[to])
                seen[queue[n_queue++] = to] = true;
        }
    }
    return work_spend(p->w, n_queue + *n);
}

static bool refuse_left_recursion(Gbnf *p) {
    uint32_t **calls = work_array(p->w, uint32_t *, p->n),
             *n_calls = work_array(p->w, uint32_t, p->n);
    uint8_t *mark = work_array(p->w, uint8_t, p->n); /* 1 open, 2 done */
    LeftFrame *frames = work_array(p->w, LeftFrame, p->n + 1);
    if (!calls || !n_calls || !mark || !frames) return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (!leading_calls(p, p->rules[i].dfa, &calls[i], &n_calls[i])) return false;
    for (uint32_t root = 0; root < p->n; root++) {
        uint32_t n = 0;
        if (mark[root]) continue;
        frames[n++] = (LeftFrame){root, 0};
        mark[root] = 1;
        while (n) {
            LeftFrame *f = &frames[n - 1];
            if (f->at == n_calls[f->rule]) {
                mark[f->rule] = 2;
                n--;
                continue;
            }
            uint32_t to = calls[f->rule][f->at++];
            if (mark[to] == 1)
                return work_fail(
                    p->w, ERR_UNSUPPORTED,
                    "rule " STR_F
                    " is left-recursive, which is not supported; write it with repetition",
                    STR_A(p->rules[to].name));
            if (mark[to]) continue;
            mark[to] = 1;
            frames[n++] = (LeftFrame){to, 0};
        }
    }
    return true;
}

/* Rules that can never finish are cut off, with everything that leads only to them. */
static bool trim_rules(Gbnf *p) {
    bool *live = work_array(p->w, bool, p->n);
    if (!live) return false;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t k = 0; k < 2 * p->n;
             k++) { /* there and back: references mostly point one way */
            uint32_t i = k < p->n ? k : 2 * p->n - 1 - k;
            if (live[i] || !dfa_is_productive(p->w, p->rules[i].dfa, live)) continue;
            live[i] = again = true;
        }
        if (p->w->failed) return false;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (!(p->rules[i].dfa = dfa_trim(p->w, p->rules[i].dfa, live))) return false;
    return true;
}

static bool compile_rules(Gbnf *p, uint32_t root, GrammarIr *ir) {
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->rules[i].body)
            return work_fail(p->w, ERR_INPUT, "rule " STR_F " is used but not defined",
                             STR_A(p->rules[i].name));
        if (!(p->rules[i].dfa = re_compile(p->w, p->rules[i].body))) return false;
    }
    if (!find_nullable(p) || !refuse_left_recursion(p) || !trim_rules(p)) return false;
    if (!p->rules[root].dfa->n)
        return work_fail(p->w, ERR_INPUT, "the grammar matches nothing: no way through root ends");
    ir->lexers = work_array(p->w, IrLexer, p->n);
    for (uint32_t i = 0; ir->lexers && i < p->n; i++)
        ir->lexers[i] = (IrLexer){.dfa = p->rules[i].dfa, .mode = LEX_RAW};
    ir->n_lexers = p->n;
    ir->root = root;
    ir->uses_tokens = p->tokens;
    return !p->w->failed;
}

bool grammar_compile_gbnf(Str text, const GrammarLimits *limits, Grammar **out, Err *err) {
    GrammarWork w;
    if (!grammar_text_fits(text, limits, "the grammar", err)) return false;
    Grammar *g = grammar_alloc(limits, &w, err);
    if (!g) return false;
    Gbnf p = {.w = &w, .s = text};
    skip_space(&p, true);
    while (!at_end(&p) && parse_rule(&p)) skip_space(&p, true);
    uint64_t root;
    if (!w.failed && !map_get(&p.names, STR("root"), &root))
        work_fail(&w, ERR_INPUT, "the grammar has no rule named root");
    if (!w.failed) compile_rules(&p, (uint32_t)root, &g->ir);
    map_deinit(&p.names);
    return grammar_finish(g, &w, out, err);
}
