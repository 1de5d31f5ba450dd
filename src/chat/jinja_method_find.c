/* Methods of str that look into it or cut it: find, count, startswith, split, partition, and the
 * is... questions. */
#include "base/unicode.h"
#include "chat/jinja_big.h"
#include "chat/jinja_casing.h"
#include "chat/jinja_method.h"
#include "chat/jinja_text.h"

/* The part of the string that optional start and end arguments (code points) select, in bytes. *ok
 * false: start lies behind the end, where even the empty string is not found. */
static bool window(JRun *r, JStr *s, JVal start, JVal end, size_t *from, size_t *to, bool *ok) {
    int64_t n = (int64_t)jstr_n_cp(s), lo, hi;
    if (!jarg_index(r, start, 0, &lo) || !jarg_index(r, end, INT64_MAX, &hi) ||
        !jrun_spend_bytes(r, s->s.n))
        return false;
    if (lo < 0) lo = lo < -n ? 0 : lo + n;
    if (hi < 0) hi = hi < -n ? 0 : hi + n;
    if (hi > n) hi = n;
    *ok = lo <= hi;
    *from = jstr_byte_of(s, (size_t)lo);
    *to = *ok ? jstr_byte_of(s, (size_t)hi) : *from;
    return true;
}

/* Byte offset of a find, STR_NPOS if there is none. */
static bool find_in(JEval *e, JCall *c, bool from_right, size_t *at) {
    JStr *s = c->self.u.str, *x;
    size_t from, to;
    bool ok;
    if (!jarg_str(e->r, c->v[0], "the text to find", &x)) return false;
    if (!window(e->r, s, c->v[1], c->v[2], &from, &to, &ok)) return false;
    Str part = str_slice(s->s, from, to);
    *at = !ok ? STR_NPOS : from_right ? jtext_rfind(e->r, part, x->s) : str_find(part, x->s, 0);
    if (*at != STR_NPOS) *at += from;
    return e->r->exc == JEXC_NONE;
}

static bool find_result(JEval *e, JCall *c, bool from_right, bool must, JVal *out) {
    size_t at;
    if (!find_in(e, c, from_right, &at)) return false;
    if (at == STR_NPOS && must) return jrun_fail(e->r, JEXC_VALUE, "substring not found");
    *out = jval_int(at == STR_NPOS ? -1 : (int64_t)jstr_cp_of(c->self.u.str, at));
    return true;
}

static bool str_find_(JEval *e, JCall *c, JVal *out) {
    return find_result(e, c, false, false, out);
}
static bool str_rfind_(JEval *e, JCall *c, JVal *out) {
    return find_result(e, c, true, false, out);
}
static bool str_index(JEval *e, JCall *c, JVal *out) { return find_result(e, c, false, true, out); }
static bool str_rindex(JEval *e, JCall *c, JVal *out) { return find_result(e, c, true, true, out); }

static bool str_count(JEval *e, JCall *c, JVal *out) {
    JStr *s = c->self.u.str, *x;
    size_t from, to;
    int64_t n = 0;
    bool ok;
    if (!jarg_str(e->r, c->v[0], "the text to count", &x)) return false;
    if (!window(e->r, s, c->v[1], c->v[2], &from, &to, &ok)) return false;
    Str part = str_slice(s->s, from, to);
    if (!x->s.n) {
        JVal sub;
        if (!jstr_slice(e->r, s, from, to, &sub)) return false;
        n = ok ? (int64_t)jstr_n_cp(sub.u.str) + 1 : 0;
    }
    for (size_t at = 0; x->s.n && (at = str_find(part, x->s, at)) != STR_NPOS; at += x->s.n) {
        n++;
        if (!jrun_spend(e->r, !(n & 3))) return false;
    }
    *out = jval_int(n);
    return true;
}

static bool affix(JEval *e, JCall *c, bool starts, JVal *out) {
    JStr *s = c->self.u.str;
    size_t from, to;
    bool ok, hit = false;
    if (!window(e->r, s, c->v[1], c->v[2], &from, &to, &ok)) return false;
    Str part = str_slice(s->s, from, to);
    const JVal *choice = &c->v[0];
    size_t n = 1;
    if (c->v[0].type == J_TUPLE) {
        choice = c->v[0].u.list->v;
        n = c->v[0].u.list->n;
    }
    for (size_t i = 0; i < n && !hit; i++) {
        if (choice[i].type != J_STR)
            return jrun_fail(e->r, JEXC_TYPE,
                             "startswith or endswith takes str or a tuple of str, not %s",
                             jval_type_name(choice[i]));
        hit = ok && (starts ? str_starts : str_ends)(part, choice[i].u.str->s);
        if (!jrun_spend(e->r, 1)) return false;
    }
    *out = jval_bool(hit);
    return true;
}

static bool str_startswith(JEval *e, JCall *c, JVal *out) { return affix(e, c, true, out); }
static bool str_endswith(JEval *e, JCall *c, JVal *out) { return affix(e, c, false, out); }

static const JBuiltin find_entries[] = {
    {"startswith", str_startswith, "!prefix start end", 1, false},
    {"endswith", str_endswith, "!suffix start end", 1, false},
    {"find", str_find_, "!sub start end", 1, false},
    {"rfind", str_rfind_, "!sub start end", 1, false},
    {"index", str_index, "!sub start end", 1, false},
    {"rindex", str_rindex, "!sub start end", 1, false},
    {"count", str_count, "!sub start end", 1, false},
};
const JBuiltinTable jmethods_str_find = {find_entries, sizeof find_entries / sizeof *find_entries};

static bool split(JEval *e, JCall *c, bool from_right, JVal *out) {
    JStr *sep = NULL;
    int64_t max;
    JVal v = c->v[0];
    if (v.type != J_MISSING && v.type != J_NONE && !jarg_str(e->r, v, "the separator", &sep))
        return false;
    if (!jarg_int(e->r, c->v[1], -1, &max)) return false;
    return jtext_split(e->r, c->self.u.str, sep, max < 0 ? -1 : max, from_right, out);
}

static bool str_split_(JEval *e, JCall *c, JVal *out) { return split(e, c, false, out); }
static bool str_rsplit(JEval *e, JCall *c, JVal *out) { return split(e, c, true, out); }

static bool str_splitlines(JEval *e, JCall *c, JVal *out) {
    JList *l;
    int64_t keep = 0;
    if (c->v[0].type != J_MISSING && !jarg_int(e->r, c->v[0], 0, &keep)) return false;
    if (!jtext_lines(e->r, c->self.u.str, keep != 0, &l)) return false;
    *out = jval_list(l);
    return true;
}

static bool partition(JEval *e, JCall *c, bool from_right, JVal *out) {
    JRun *r = e->r;
    JStr *s = c->self.u.str, *sep;
    if (!jarg_str(r, c->v[0], "the separator", &sep)) return false;
    if (!sep->s.n) return jrun_fail(r, JEXC_VALUE, "empty separator");
    if (!jrun_spend_bytes(r, s->s.n)) return false;
    size_t at = from_right ? jtext_rfind(r, s->s, sep->s) : str_find(s->s, sep->s, 0);
    if (r->exc) return false;
    size_t end = at == STR_NPOS ? 0 : at + sep->s.n;
    if (at == STR_NPOS) at = end = from_right ? 0 : s->s.n;
    JList *l = jlist_new(r, 3);
    if (!l) return false;
    l->n = 3;
    *out = jval_tuple(l);
    return jstr_slice(r, s, 0, at, &l->v[0]) && jstr_slice(r, s, at, end, &l->v[1]) &&
           jstr_slice(r, s, end, s->s.n, &l->v[2]);
}

static bool str_partition(JEval *e, JCall *c, JVal *out) { return partition(e, c, false, out); }
static bool str_rpartition(JEval *e, JCall *c, JVal *out) { return partition(e, c, true, out); }

static const JBuiltin split_entries[] = {
    {"split", str_split_, "sep maxsplit", 0, false},
    {"rsplit", str_rsplit, "sep maxsplit", 0, false},
    {"splitlines", str_splitlines, "keepends", 0, false},
    {"partition", str_partition, "!sep", 1, false},
    {"rpartition", str_rpartition, "!sep", 1, false},
};
const JBuiltinTable jmethods_str_split = {split_entries,
                                          sizeof split_entries / sizeof *split_entries};

typedef bool CharTest(uint32_t cp);

static bool all_are(JEval *e, JCall *c, CharTest *test, bool when_empty, JVal *out) {
    Str s = c->self.u.str->s;
    bool ok = s.n > 0 || when_empty;
    if (!jrun_spend(e->r, s.n / 16)) return false;
    for (size_t at = 0; at < s.n && ok;) ok = test(jstr_next(s, &at));
    *out = jval_bool(ok);
    return true;
}

static bool cp_decimal(uint32_t cp) {
    return cp < 0x80 ? cp >= '0' && cp <= '9' : unicode_is_decimal(cp);
}
static bool cp_numeric(uint32_t cp) {
    return cp < 0x80 ? cp >= '0' && cp <= '9' : unicode_is_numeric(cp);
}
static bool cp_alpha(uint32_t cp) { return unicode_is_letter(cp); }
static bool cp_alnum(uint32_t cp) { return unicode_is_letter(cp) || cp_numeric(cp); }
static bool cp_ascii(uint32_t cp) { return cp < 0x80; }

static bool cp_printable(uint32_t cp) {
    const uint32_t hidden = UNICODE_SEPARATORS | UNICODE_BIT(UNICODE_CC) | UNICODE_BIT(UNICODE_CF) |
                            UNICODE_BIT(UNICODE_CS) | UNICODE_BIT(UNICODE_CO) |
                            UNICODE_BIT(UNICODE_CN);
    return cp == ' ' || !UNICODE_IN(cp, hidden);
}

static bool str_isdigit(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, jtext_is_digit, false, out);
}
static bool str_isdecimal(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_decimal, false, out);
}
static bool str_isnumeric(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_numeric, false, out);
}
static bool str_isalpha(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_alpha, false, out);
}
static bool str_isalnum(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_alnum, false, out);
}
static bool str_isspace(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, jstr_is_space, false, out);
}
static bool str_isascii(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_ascii, true, out);
}
static bool str_isprintable(JEval *e, JCall *c, JVal *out) {
    return all_are(e, c, cp_printable, true, out);
}

static bool str_isupper(JEval *e, JCall *c, JVal *out) {
    *out = jval_bool(jcasing_is_upper(c->self.u.str->s));
    return jrun_spend(e->r, c->self.u.str->s.n / 16);
}

static bool str_islower(JEval *e, JCall *c, JVal *out) {
    *out = jval_bool(jcasing_is_lower(c->self.u.str->s));
    return jrun_spend(e->r, c->self.u.str->s.n / 16);
}

static bool str_istitle(JEval *e, JCall *c, JVal *out) {
    *out = jval_bool(jcasing_is_title(c->self.u.str->s));
    return jrun_spend(e->r, c->self.u.str->s.n / 16);
}

static bool str_isidentifier(JEval *e, JCall *c, JVal *out) {
    Str s = c->self.u.str->s;
    bool ok = s.n > 0;
    for (size_t at = 0, i = 0; at < s.n && ok; i++) {
        uint32_t cp = jstr_next(s, &at),
                 more = UNICODE_MARKS | UNICODE_BIT(UNICODE_ND) | UNICODE_BIT(UNICODE_PC);
        ok =
            cp == '_' || UNICODE_IN(cp, UNICODE_LETTERS | UNICODE_BIT(UNICODE_NL) | (i ? more : 0));
    }
    *out = jval_bool(ok);
    return jrun_spend(e->r, s.n / 16);
}

static const JBuiltin is_entries[] = {
    {"isdigit", str_isdigit, "!", 0, false},     {"isdecimal", str_isdecimal, "!", 0, false},
    {"isnumeric", str_isnumeric, "!", 0, false}, {"isalpha", str_isalpha, "!", 0, false},
    {"isalnum", str_isalnum, "!", 0, false},     {"isspace", str_isspace, "!", 0, false},
    {"isascii", str_isascii, "!", 0, false},     {"isprintable", str_isprintable, "!", 0, false},
    {"isupper", str_isupper, "!", 0, false},     {"islower", str_islower, "!", 0, false},
    {"istitle", str_istitle, "!", 0, false},     {"isidentifier", str_isidentifier, "!", 0, false},
};
const JBuiltinTable jmethods_str_is = {is_entries, sizeof is_entries / sizeof *is_entries};
