/* args.h: the command line as tables. A command is a row of main.c's table and names the groups of
 * flags that it takes; a flag is a row of a group. Parsing, environment twins, "did you mean", and
 * --help all come from these tables.
 *
 *     -x VALUE  --long VALUE  --long=VALUE  --flag  --no-flag  --  (what follows are no flags)
 *
 * Every flag with a long name has a twin in the environment, MLXCEL_ and its first long name
 * (--ctx-size: MLXCEL_CTX_SIZE). The command line wins over the environment. Values are looked up
 * by the first long name:
 *
 *     const char *model = args_text(a, "model");
 *     int64_t n = args_int(a, "n-predict", -1); */
#ifndef MLXCEL_CLI_ARGS_H
#define MLXCEL_CLI_ARGS_H

#include "base/arena.h"
#include "base/err.h"

typedef enum OptKind {
    OPT_FLAG, /* no value; --no-x takes it back */
    OPT_TEXT,
    OPT_INT,
    OPT_NUM,
    OPT_CHOICE, /* one of the words of param */
    OPT_PARAM,  /* a parameter of mlxcel_request_set, checked by the library */
    OPT_SWITCH  /* the same for a yes or no: no value, means "true" */
} OptKind;

typedef struct Opt {
    const char *names; /* "-n --n-predict --max-tokens" */
    OptKind kind;
    const char *value; /* how help calls the value */
    const char *help;  /* NULL: not shown */
    double min, max;   /* INT, NUM; both 0: any */
    /* PARAM, SWITCH: the library's name for it; CHOICE: the words, blanks between */
    const char *param;
    const char *env; /* another name in the environment beside the regular one */
} Opt;

typedef struct OptGroup {
    const char *title; /* NULL: accepted, not shown */
    const Opt *opts;
    size_t n;
} OptGroup;

typedef struct Args Args;

typedef struct Command {
    const char *name, *alias;      /* alias NULL: none */
    const char *usage;             /* what follows the name */
    const char *summary;           /* one line */
    const char *about;             /* NULL, or some lines for its own help */
    const char *examples;          /* whole lines */
    const OptGroup *const *groups; /* NULL-terminated */
    size_t max_rest;               /* arguments that are no flags */
    int (*run)(const Args *a);     /* exit status */
} Command;

typedef struct ArgValue {
    const Opt *opt;
    const char *text; /* NULL for flags */
    bool off;         /* --no-x */
    bool env;         /* from the environment */
} ArgValue;

struct Args {
    const Command *command;
    Arena arena;
    ArgValue *values; /* in the order given; those of the environment last */
    size_t n, cap;
    const char **rest;
    size_t n_rest;
};

/* false: wrong usage, and err says what. */
bool args_parse(Args *a, const Command *c, int argc, char **argv, Err *err) MUST_CHECK;
void args_deinit(Args *a);

bool args_has(const Args *a, const char *name);
bool args_given(const Args *a, const char *name);       /* on the command line itself */
const char *args_text(const Args *a, const char *name); /* the last one given; NULL if none */
bool args_flag(const Args *a, const char *name);        /* given, and not taken back */
int64_t args_int(const Args *a, const char *name, int64_t other);
/* All of a repeated flag: for (size_t i = 0; (text = args_next(a, "stop", &i)) != NULL;) */
const char *args_next(const Args *a, const char *name, size_t *i);
/* All parameters given, in order: the library's name and the value. */
bool args_next_param(const Args *a, size_t *i, const char **name, const char **value);

const Opt *args_find(const Command *c, Str name); /* by any spelling, dashes included */
enum { ARGS_ENV_NAME = 64 };
/* The twin in the environment; false: there is none (no long name). */
bool args_env_name(const Opt *o, char name[ARGS_ENV_NAME]);
Str opt_name(const Opt *o); /* the first long name, without dashes */
/* The nearest of n words, or NULL if none is near. */
const char *args_nearest(Str word, const char *const *words, size_t n);

#endif
