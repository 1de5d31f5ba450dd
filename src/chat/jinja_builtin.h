/* jinja_builtin.h: filters, tests, global functions and methods, and how arguments reach them.
 *
 * A built-in has a table entry with its parameters' names, so that positional and keyword arguments
 * are bound as Python binds them. The function finds them in call->v[0..n_params): what was not
 * given is J_MISSING. Those that take anything (map, format, dict, ...) set `any` and read
 * call->args and call->kwargs. */
#ifndef MLXCEL_CHAT_JINJA_BUILTIN_H
#define MLXCEL_CHAT_JINJA_BUILTIN_H

#include "chat/jinja_value.h"

enum { JBUILTIN_MAX_PARAMS = 8 };

typedef struct JCall {
    JVal self;        /* FILTER, TEST: the subject; METHOD: the object */
    const JVal *args; /* positional, without self */
    size_t n_args;
    const JDict *kwargs; /* NULL when there are none */
    JVal v[JBUILTIN_MAX_PARAMS];
} JCall;

struct JEval;
typedef bool JBuiltinFn(struct JEval *e, JCall *c, JVal *out);

typedef struct JBuiltin {
    const char *name;
    JBuiltinFn *fn;
    const char
        *params; /* "a b c": names; a leading '!' forbids keywords (functions written in C) */
    uint8_t n_required; /* of them */
    bool any;           /* takes arbitrary arguments itself */
} JBuiltin;

struct JFunc {
    JBuiltin spec;
};

const JBuiltin *jfilter_find(Str name);
const JBuiltin *jtest_find(Str name);

bool jbuiltin_call(struct JEval *e, const JBuiltin *b, JVal self, const JVal *args, size_t n_args,
                   const JDict *kwargs, JVal *out);
/* Wrong arguments: fails, naming the function. */
bool jbuiltin_fail_args(JRun *r, const JBuiltin *b, const char *what);

/* Filters and tests are grouped in tables by subject; the look-up goes through them. */
typedef struct JBuiltinTable {
    const JBuiltin *v;
    size_t n;
} JBuiltinTable;
extern const JBuiltinTable jfilters_text, jfilters_html, jfilters_seq, jfilters_number, jtests;

/* Arguments as Python's C functions take them; J_MISSING gives the default. */
bool jarg_int(JRun *r, JVal v, int64_t otherwise, int64_t *out); /* int or bool; clamped */
bool jarg_index(JRun *r, JVal v, int64_t otherwise,
                int64_t *out); /* None is the default too, as in slices */
bool jarg_str(JRun *r, JVal v, const char *what, JStr **out); /* must be a string */
static inline bool jarg_true(JVal v) { return jval_truth(v); }

#endif
