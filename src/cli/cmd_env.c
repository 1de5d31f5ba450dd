/* env: the environment variables that flags have as twins. docs/environment.md holds this table. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/out.h"

enum { MAX_ROWS = 1024 };

typedef struct EnvRow {
    Str name, flag;
    const Opt *opt;
    Buf commands;
} EnvRow;

static int by_name(const void *a, const void *b) {
    return str_cmp(((const EnvRow *)a)->name, ((const EnvRow *)b)->name);
}

static void add(EnvRow *rows, size_t *n, Str name, const Opt *o, const Command *c) {
    size_t i = 0;
    while (i < *n && !str_eq(rows[i].name, name)) i++;
    if (i == MAX_ROWS || !name.p) return;
    if (i == *n) {
        rows[i] = (EnvRow){.name = name, .flag = opt_name(o), .opt = o};
        ++*n;
    }
    Buf *b = &rows[i].commands;
    Str own = str_c(c->name);
    if (b->n >= own.n && str_ends(buf_str(b), own)) return; /* twice in one command */
    buf_putf(b, "%s%s", b->n ? " " : "", c->name);
}

static void add_command(EnvRow *rows, size_t *n, const Command *c, Arena *a) {
    char name[ARGS_ENV_NAME];
    for (const OptGroup *const *g = c->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++) {
            const Opt *o = &(*g)->opts[i];
            Str twin = STR_NONE;
            if (strstr(o->names, "--help")) continue;
            if (args_env_name(o, name)) twin = (Str){arena_dupz(a, str_c(name)), strlen(name)};
            add(rows, n, twin, o, c);
            if (o->env) add(rows, n, str_c(o->env), o, c);
        }
}

int cmd_env(const Args *a) {
    Arena arena = {0};
    Buf b = {0};
    size_t n = 0;
    Err err = {0};
    EnvRow *rows = arena_array(&arena, EnvRow, MAX_ROWS + 1);
    if (!rows) return cli_fail_err((err_nomem(&err, "the table"), &err));
    for (size_t i = 0; i < N_COMMANDS; i++) add_command(rows, &n, &COMMANDS[i], &arena);
    qsort(rows, n, sizeof *rows, by_name);
    for (size_t i = 0; i < n; i++) {
        const char *value = args_flag(a, "verbose") ? getenv(rows[i].name.p) : NULL;
        buf_putf(&b, "%-30s --%-24.*s %s%s%s\n", rows[i].name.p, (int)rows[i].flag.n,
                 rows[i].flag.p, buf_cstr(&rows[i].commands), value ? " = " : "",
                 value ? value : "");
        buf_deinit(&rows[i].commands);
    }
    out_put(buf_str(&b));
    buf_deinit(&b);
    arena_deinit(&arena);
    return CLI_OK;
}
