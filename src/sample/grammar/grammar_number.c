#include "sample/grammar/grammar_number.h"

#include <string.h>

#include "sample/grammar/grammar_regex.h"
#include "sample/grammar/grammar_table.h"

enum { NUMBER_MAX_DIGITS = 800 };

/* A JSON number, exactly: neg, digits d[0..n), of which the first `point` are the integer part ("0"
 * has n_int 1). */
typedef struct Decimal {
    bool neg;
    char integer[NUMBER_MAX_DIGITS + 1], fraction[NUMBER_MAX_DIGITS + 1];
    int n_integer, n_fraction;
} Decimal;

static bool decimal_parse(GrammarWork *w, Str text, Decimal *d, const char *what) {
    *d = (Decimal){.neg = str_starts(text, STR("-"))};
    char digits[NUMBER_MAX_DIGITS + 1];
    int n = 0, point = -1;
    int64_t exponent = 0;
    for (size_t i = d->neg; i < text.n; i++) {
        char c = text.p[i];
        if (c == 'e' || c == 'E') {
            Str e = str_from(text, i + 1);
            if (str_starts(e, STR("+"))) e = str_from(e, 1);
            if (!str_to_i64(e, &exponent)) exponent = INT64_MAX;
            break;
        }
        if (c == '.')
            point = n;
        else if (n < NUMBER_MAX_DIGITS)
            digits[n++] = c;
        else
            exponent = INT64_MAX;
    }
    if (point < 0) point = n;
    int from = 0;
    while (from < n && digits[from] == '0') from++;
    while (n > from && digits[n - 1] == '0' && n > point) n--;
    if (from == n) exponent = point = from = n = 0; /* zero */
    if (exponent > NUMBER_MAX_DIGITS || exponent < -NUMBER_MAX_DIGITS ||
        point + exponent > NUMBER_MAX_DIGITS || n - point - exponent > NUMBER_MAX_DIGITS)
        return work_fail(w, ERR_UNSUPPORTED,
                         "%s " STR_F " has too many digits, at most %d are supported", what,
                         STR_A(text), NUMBER_MAX_DIGITS);
    point += (int)exponent;
    for (int i = from < point ? from : point; i < point; i++)
        d->integer[d->n_integer++] = i >= 0 && i < n ? digits[i] : '0';
    for (int i = point; i < n; i++) d->fraction[d->n_fraction++] = i >= 0 ? digits[i] : '0';
    int zeros = 0;
    while (zeros < d->n_integer && d->integer[zeros] == '0') zeros++;
    memmove(d->integer, d->integer + zeros, (size_t)(d->n_integer -= zeros));
    while (d->n_fraction && d->fraction[d->n_fraction - 1] == '0') d->n_fraction--;
    if (!d->n_integer) d->integer[d->n_integer++] = '0';
    if (d->n_integer == 1 && d->integer[0] == '0' && !d->n_fraction) d->neg = false;
    return true;
}

bool number_is_zero_or_less(Str text) {
    bool some = false;
    for (size_t i = 0; i < text.n && text.p[i] != 'e' && text.p[i] != 'E'; i++)
        some |= text.p[i] >= '1' && text.p[i] <= '9';
    return !some || str_starts(text, STR("-"));
}

/* ---- automata over the characters of a number ---- */

/* Where in the spelling a state is; what else it knows is in `a` and `b`, up to the automaton. */
typedef enum NumPhase { NUM_START, NUM_MINUS, NUM_ZERO, NUM_INT, NUM_DOT, NUM_FRAC } NumPhase;

typedef struct NumState {
    uint32_t phase, neg, a, b;
} NumState;

typedef struct NumAutomaton {
    bool (*digit)(const struct NumAutomaton *x, NumState *s,
                  int digit); /* phase already moved; false: dead */
    bool (*dot)(const struct NumAutomaton *x, NumState *s);
    bool (*accept)(const struct NumAutomaton *x, const NumState *s);
    const Decimal *dec;
    unsigned want; /* number_compare */
    uint64_t p;    /* number_multiple: numerator */
    uint32_t k;    /* and power of ten of the denominator */
} NumAutomaton;

static bool num_step(const NumAutomaton *x, NumState *s, char c) {
    if (c == '-') {
        if (s->phase != NUM_START) return false;
        s->phase = NUM_MINUS;
        s->neg = 1;
        return true;
    }
    if (c == '.') {
        if (s->phase != NUM_ZERO && s->phase != NUM_INT) return false;
        if (!x->dot(x, s)) return false;
        s->phase = NUM_DOT;
        return true;
    }
    switch ((NumPhase)s->phase) {
    case NUM_START:
    case NUM_MINUS:
        s->phase = c == '0' ? NUM_ZERO : NUM_INT;
        break;
    case NUM_ZERO:
        return false;
    case NUM_INT:
        break;
    case NUM_DOT:
        s->phase = NUM_FRAC;
        break;
    case NUM_FRAC:
        break;
    }
    return x->digit(x, s, c - '0');
}

static Dfa *num_build(GrammarWork *w, const NumAutomaton *x) {
    static const char symbols[] = "-.0123456789"; /* ascending, as edges must be */
    WordTable t = {0};
    DfaBuilder b = {.w = w};
    NumState s = {0};
    bool fresh;
    uint32_t key[4];
    memcpy(key, &s, sizeof key);
    if (table_intern(&t, key, 4, &fresh) == TABLE_NONE)
        work_fail(w, ERR_NOMEM, "out of memory for a grammar");
    for (uint32_t q = 0; q < t.n && !w->failed; q++) {
        NumState from;
        memcpy(&from, table_key(&t, q), sizeof from);
        for (const char *c = symbols; *c; c++) {
            NumState to = from;
            if (!num_step(x, &to, *c)) continue;
            memcpy(key, &to, sizeof key);
            uint32_t id = table_intern(&t, key, 4, &fresh);
            if (id == TABLE_NONE)
                work_fail(w, ERR_NOMEM, "out of memory for a grammar");
            else
                dfabuild_edge(&b, (uint32_t)*c, (uint32_t)*c, id);
        }
        bool ends = from.phase == NUM_ZERO || from.phase == NUM_INT || from.phase == NUM_FRAC;
        dfabuild_state(&b, ends && x->accept(x, &from) ? 0 : -1);
    }
    table_deinit(&t);
    return w->failed ? NULL : dfa_minimize(w, dfabuild_finish(&b, 0));
}

/* ---- comparing: a = digits of the integer part read (one past the bound's: longer), b = 0 equal
 * so far, 1 less, 2 greater ---- */

enum { CMP_EQUAL, CMP_LESS, CMP_GREATER };

static uint32_t cmp_digit(int digit, char bound) {
    int b = bound - '0';
    return digit == b ? CMP_EQUAL : digit < b ? CMP_LESS : CMP_GREATER;
}

static bool compare_digit(const NumAutomaton *x, NumState *s, int digit) {
    const Decimal *d = x->dec;
    if (s->phase == NUM_FRAC) {
        if (s->b != CMP_EQUAL) return true;
        s->b = cmp_digit(digit, s->a < (uint32_t)d->n_fraction ? d->fraction[s->a] : '0');
        if (s->a < (uint32_t)d->n_fraction) s->a++;
        if (s->b != CMP_EQUAL) s->a = 0;
        return true;
    }
    uint32_t n = (uint32_t)d->n_integer;
    if (s->a < n && s->b == CMP_EQUAL) s->b = cmp_digit(digit, d->integer[s->a]);
    if (s->a <= n) s->a++;
    if (s->a > n) s->b = CMP_EQUAL; /* longer is greater whatever the digits were */
    return true;
}

static uint32_t compare_integer(const Decimal *d, const NumState *s) {
    uint32_t n = (uint32_t)d->n_integer;
    return s->a < n ? CMP_LESS : s->a > n ? CMP_GREATER : s->b;
}

static bool compare_dot(const NumAutomaton *x, NumState *s) {
    s->b = compare_integer(x->dec, s);
    s->a = 0;
    return true;
}

static bool compare_accept(const NumAutomaton *x, const NumState *s) {
    const Decimal *d = x->dec;
    uint32_t size = s->phase == NUM_FRAC ? s->b : compare_integer(d, s);
    uint32_t n_read = s->phase == NUM_FRAC ? s->a : 0;
    if (size == CMP_EQUAL && n_read < (uint32_t)d->n_fraction) size = CMP_LESS;
    bool bound_zero = d->n_integer == 1 && d->integer[0] == '0' && !d->n_fraction;
    unsigned is;
    if (s->neg)
        is = !d->neg && !bound_zero ? NUMBER_LESS
             : size == CMP_EQUAL    ? NUMBER_EQUAL
             : size == CMP_LESS     ? NUMBER_GREATER
                                    : NUMBER_LESS;
    else
        is = d->neg              ? NUMBER_GREATER
             : size == CMP_EQUAL ? NUMBER_EQUAL
             : size == CMP_LESS  ? NUMBER_LESS
                                 : NUMBER_GREATER;
    return (is & x->want) != 0;
}

Dfa *number_compare(GrammarWork *w, Str text, unsigned accept, const char *what) {
    Decimal d;
    if (!decimal_parse(w, text, &d, what)) return NULL;
    NumAutomaton x = {.digit = compare_digit,
                      .dot = compare_dot,
                      .accept = compare_accept,
                      .dec = &d,
                      .want = accept};
    return num_build(w, &x);
}

/* ---- multiples of p / 10^k: a = remainder of the digits read, b = digits of the fraction read
 * ---- */

static bool multiple_digit(const NumAutomaton *x, NumState *s, int digit) {
    if (s->phase == NUM_FRAC && s->b == x->k) return digit == 0;
    s->a = (uint32_t)((s->a * 10u + (uint32_t)digit) % x->p);
    if (s->phase == NUM_FRAC) s->b++;
    return true;
}

static bool multiple_dot(const NumAutomaton *x, NumState *s) { return (void)x, (void)s, true; }

static bool multiple_accept(const NumAutomaton *x, const NumState *s) {
    uint64_t r = s->a;
    for (uint32_t i = s->b; i < x->k; i++) r = r * 10 % x->p;
    return r == 0;
}

Dfa *number_multiple(GrammarWork *w, Str text) {
    Decimal d;
    if (!decimal_parse(w, text, &d, "multipleOf")) return NULL;
    NumAutomaton x = {.digit = multiple_digit,
                      .dot = multiple_dot,
                      .accept = multiple_accept,
                      .k = (uint32_t)d.n_fraction};
    for (int i = 0; i < d.n_integer + d.n_fraction && x.p < 1000000; i++)
        x.p = x.p * 10 +
              (uint64_t)((i < d.n_integer ? d.integer[i] : d.fraction[i - d.n_integer]) - '0');
    if (x.p * (x.k + 2) * 2 > w->max_states || x.p == 0 ||
        d.n_integer + d.n_fraction > NUMBER_MAX_DIGITS) {
        work_fail(w, ERR_UNSUPPORTED,
                  "multipleOf " STR_F " cannot be enforced: it needs too many states", STR_A(text));
        return NULL;
    }
    return num_build(w, &x);
}

Dfa *number_integer(GrammarWork *w) { return number_multiple(w, STR("1")); }
Dfa *number_plain(GrammarWork *w) {
    return regex_dfa(w, STR("-?(0|[1-9][0-9]*)(\\.[0-9]+)?"), REGEX_WHOLE);
}
Dfa *number_any(GrammarWork *w) {
    return regex_dfa(w, STR("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?"), REGEX_WHOLE);
}

const Dfa *number_tidy(GrammarWork *w, const Dfa *d) {
    if (!d || !d->n) return d;
    Dfa *fractions = dfa_and(w, d, dfa_not(w, number_integer(w)));
    if (!fractions) return NULL;
    if (!fractions->n) d = dfa_and(w, d, regex_dfa(w, STR("-?[0-9]+(\\.0)?"), REGEX_WHOLE));
    Dfa *short_ones =
        dfa_and(w, d, regex_dfa(w, STR("-?[0-9]+(\\.(0|[0-9]*[1-9]))?"), REGEX_WHOLE));
    return short_ones && dfa_is_finite(w, short_ones) ? short_ones : d;
}
