#include "cli/args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "mlxcel.h"

void args_deinit(Args *a) { arena_deinit(&a->arena); }

Str opt_name(const Opt *o) {
    Str rest = str_c(o->names), word = STR_NONE;
    while (str_split(&rest, ' ', &word))
        if (str_starts(word, STR("--"))) return str_from(word, 2);
    return str_from(word, 1);
}

static bool has_name(const Opt *o, Str name) {
    Str rest = str_c(o->names), word;
    while (str_split(&rest, ' ', &word))
        if (str_eq(word, name)) return true;
    return false;
}

const Opt *args_find(const Command *c, Str name) {
    for (const OptGroup *const *g = c->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if (has_name(&(*g)->opts[i], name)) return &(*g)->opts[i];
    return NULL;
}

static bool takes_value(const Opt *o) { return o->kind != OPT_FLAG && o->kind != OPT_SWITCH; }

/* --no-x, where x is a flag. */
static const Opt *find_negated(const Command *c, Str name, Arena *a) {
    if (!str_starts(name, STR("--no-"))) return NULL;
    Str rest = str_from(name, 5);
    char *plain = arena_alloc(a, rest.n + 3);
    if (!plain) return NULL;
    memcpy(plain, "--", 2);
    memcpy(plain + 2, rest.p, rest.n);
    const Opt *o = args_find(c, (Str){plain, rest.n + 2});
    return o && !takes_value(o) ? o : NULL;
}

/* Edits between two words: insert, delete, replace, swap of neighbours. */
static unsigned distance(Str a, Str b) {
    enum { MAX = 40 };
    unsigned row[3][MAX + 1];
    if (a.n > MAX || b.n > MAX) return MAX;
    for (size_t j = 0; j <= b.n; j++) row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a.n; i++) {
        unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b.n; j++) {
            unsigned best = last[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[a.n % 3][b.n];
}

const char *args_nearest(Str word, const char *const *words, size_t n) {
    const char *best = NULL;
    unsigned least = word.n < 5 ? 2 : word.n < 9 ? 3 : 4; /* fewer edits than this */
    for (size_t i = 0; i < n; i++) {
        unsigned d = distance(word, str_c(words[i]));
        if (d < least) least = d, best = words[i];
    }
    return best;
}

/* All spellings of a command's flags, NUL-terminated. */
static size_t spellings(const Command *c, Arena *a, const char **out, size_t max) {
    size_t n = 0;
    for (const OptGroup *const *g = c->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++) {
            Str rest = str_c((*g)->opts[i].names), word;
            while (n < max && str_split(&rest, ' ', &word))
                if ((out[n] = arena_dupz(a, word))) n++;
        }
    return n;
}

static bool unknown_flag(Args *a, Str name, Err *err) {
    enum { MAX = 512 };
    const char **words = arena_array(&a->arena, const char *, MAX);
    const char *near =
        words ? args_nearest(name, words, spellings(a->command, &a->arena, words, MAX)) : NULL;
    if (near)
        return err_set(err, ERR_INPUT,
                       "unknown flag " STR_F "; did you mean %s? (mlxcel %s --help lists all)",
                       STR_A(name), near, a->command->name);
    return err_set(err, ERR_INPUT, "unknown flag " STR_F " (mlxcel %s --help lists all)",
                   STR_A(name), a->command->name);
}

static bool parse_bool(Str v, bool *out) {
    static const char *const YES[] = {"true", "1", "on", "enabled", "yes"};
    static const char *const NO[] = {"false", "0", "off", "disabled", "no"};
    for (int i = 0; i < 5; i++) {
        if (str_ieq(v, str_c(YES[i]))) return *out = true, true;
        if (str_ieq(v, str_c(NO[i]))) return *out = false, true;
    }
    return false;
}

static bool check_number(const Opt *o, const char *name, Str v, Err *err) {
    double x;
    int64_t i;
    bool ok = o->kind == OPT_INT ? str_to_i64(v, &i) : str_to_f64(v, &x);
    if (ok && o->kind == OPT_INT) x = (double)i;
    if (ok && ((o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max))) return true;
    const char *what = o->kind == OPT_INT ? "a whole number" : "a number";
    if (o->min == 0 && o->max == 0)
        return err_set(err, ERR_INPUT, "%s is \"" STR_F "\"; %s is accepted", name, STR_A(v), what);
    if (o->max >= 1e15)
        return err_set(err, ERR_INPUT, "%s is \"" STR_F "\"; %s from %g is accepted", name,
                       STR_A(v), what, o->min);
    return err_set(err, ERR_INPUT, "%s is \"" STR_F "\"; %s from %.10g to %.10g is accepted", name,
                   STR_A(v), what, o->min, o->max);
}

static bool check_choice(const Opt *o, const char *name, Str v, Err *err) {
    Str rest = str_c(o->param), word;
    Buf list = {0};
    for (size_t i = 0; str_split(&rest, ' ', &word); i++) {
        if (str_eq(word, v)) return buf_deinit(&list), true;
        buf_putf(&list, "%s" STR_F, !i ? "" : rest.n ? ", " : " and ", STR_A(word));
    }
    err_set(err, ERR_INPUT, "%s is \"" STR_F "\"; %s are accepted", name, STR_A(v),
            buf_cstr(&list));
    buf_deinit(&list);
    return false;
}

static bool check_value(const Opt *o, const char *name, const char *text, Err *err) {
    mlxcel_error why;
    if (o->kind == OPT_INT || o->kind == OPT_NUM) return check_number(o, name, str_c(text), err);
    if (o->kind == OPT_CHOICE) return check_choice(o, name, str_c(text), err);
    if (o->kind == OPT_PARAM && !mlxcel_parameter_check(o->param, text, &why))
        return err_set(err, ERR_INPUT, "%s: %s", name, why.message);
    return true;
}

static bool add(Args *a, ArgValue v, Err *err) {
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 32;
        ArgValue *more = arena_array(&a->arena, ArgValue, cap);
        if (!more) return err_nomem(err, "the command line");
        if (a->n) memcpy(more, a->values, a->n * sizeof *more);
        a->values = more;
        a->cap = cap;
    }
    a->values[a->n++] = v;
    return true;
}

/* One argument that begins with a dash; *i moves over its value. */
static bool take_flag(Args *a, int argc, char **argv, int *i, Err *err) {
    Str word = str_c(argv[*i]), name = word;
    const char *value = NULL;
    size_t eq = str_find_char(word, '=', 0);
    if (eq != STR_NPOS && str_starts(word, STR("--"))) {
        name = str_slice(word, 0, eq);
        value = argv[*i] + eq + 1;
    }
    ArgValue v = {.opt = args_find(a->command, name)};
    if (!v.opt) {
        v.opt = find_negated(a->command, name, &a->arena);
        v.off = true;
    }
    if (!v.opt) return unknown_flag(a, name, err);
    const char *shown = arena_dupz(&a->arena, name);
    if (!shown) return err_nomem(err, "the command line");
    if (!takes_value(v.opt)) {
        bool on = true;
        if (value && !parse_bool(str_c(value), &on))
            return err_set(err, ERR_INPUT, "%s is \"%s\"; true or false is accepted", shown, value);
        v.off = v.off == on;
        return add(a, v, err);
    }
    if (!value) {
        if (*i + 1 >= argc)
            return err_set(err, ERR_INPUT, "%s needs a value (%s)", shown, v.opt->value);
        value = argv[++*i];
    }
    v.text = value;
    return check_value(v.opt, shown, value, err) && add(a, v, err);
}

static bool given(const Args *a, const Opt *o) {
    for (size_t i = 0; i < a->n; i++)
        if (a->values[i].opt == o) return true;
    return false;
}

bool args_env_name(const Opt *o, char name[ARGS_ENV_NAME]) {
    Str key = opt_name(o);
    if (key.n > 48 || !strstr(o->names, "--")) return false;
    memcpy(name, "MLXCEL_", 7);
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        name[7 + i] = c == '-' ? '_' : (char)(c >= 'a' && c <= 'z' ? c - 32 : c);
    }
    name[7 + key.n] = 0;
    return true;
}

static const char *env_of(const Opt *o, char name[ARGS_ENV_NAME]) {
    const char *v = o->env ? getenv(o->env) : NULL;
    if (v && *v) {
        memcpy(name, o->env, strlen(o->env) + 1);
        return v;
    }
    v = args_env_name(o, name) ? getenv(name) : NULL;
    return v && *v ? v : NULL;
}

static bool take_env(Args *a, const Opt *o, Err *err) {
    char name[ARGS_ENV_NAME];
    const char *text = given(a, o) ? NULL : env_of(o, name);
    ArgValue v = {.opt = o, .text = text, .env = true};
    bool on;
    if (!text) return true;
    if (!takes_value(o)) {
        if (!parse_bool(str_c(text), &on))
            return err_set(err, ERR_INPUT, "%s is \"%s\"; true or false is accepted", name, text);
        v.text = NULL;
        v.off = !on;
        return add(a, v, err);
    }
    return check_value(o, name, text, err) && add(a, v, err);
}

bool args_parse(Args *a, const Command *c, int argc, char **argv, Err *err) {
    bool flags = true;
    *a = (Args){.command = c};
    a->rest = arena_array(&a->arena, const char *, (size_t)argc + 1);
    if (!a->rest) return err_nomem(err, "the command line");
    for (int i = 0; i < argc; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (flags && argv[i][0] == '-' && argv[i][1]) {
            if (!take_flag(a, argc, argv, &i, err)) return false;
        } else if (a->n_rest == c->max_rest) {
            return err_set(err, ERR_INPUT,
                           "unexpected argument \"%s\" (mlxcel %s --help shows the usage)", argv[i],
                           c->name);
        } else {
            a->rest[a->n_rest++] = argv[i];
        }
    }
    for (const OptGroup *const *g = c->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if (!take_env(a, &(*g)->opts[i], err)) return false;
    return true;
}

static const ArgValue *last(const Args *a, const char *name) {
    for (size_t i = a->n; i-- > 0;)
        if (str_eqc(opt_name(a->values[i].opt), name)) return &a->values[i];
    return NULL;
}

bool args_has(const Args *a, const char *name) { return last(a, name) != NULL; }

bool args_given(const Args *a, const char *name) {
    const ArgValue *v = last(a, name);
    return v && !v->env;
}

const char *args_text(const Args *a, const char *name) {
    const ArgValue *v = last(a, name);
    return v ? v->text : NULL;
}

bool args_flag(const Args *a, const char *name) {
    const ArgValue *v = last(a, name);
    return v && !v->off;
}

int64_t args_int(const Args *a, const char *name, int64_t other) {
    int64_t x;
    return str_to_i64(str_c(args_text(a, name)), &x) ? x : other;
}

const char *args_next(const Args *a, const char *name, size_t *i) {
    while (*i < a->n) {
        const ArgValue *v = &a->values[(*i)++];
        if (str_eqc(opt_name(v->opt), name)) return v->text;
    }
    return NULL;
}

bool args_next_param(const Args *a, size_t *i, const char **name, const char **value) {
    while (*i < a->n) {
        const ArgValue *v = &a->values[(*i)++];
        if (v->opt->kind != OPT_PARAM && v->opt->kind != OPT_SWITCH) continue;
        *name = v->opt->param;
        *value = v->opt->kind == OPT_PARAM ? v->text : v->off ? "false" : "true";
        return true;
    }
    return false;
}
