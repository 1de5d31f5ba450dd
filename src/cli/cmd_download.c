/* download: a model from the hub to this machine. */
#include "base/os.h"
#include "cli/commands.h"
#include "cli/fetch_model.h"
#include "cli/progress.h"
#include "cli/term.h"

enum { MAX_GLOBS = 64 };

static bool take_globs(const Args *a, const char *flag, const char **out, size_t *n) {
    const char *text;
    *n = 0;
    for (size_t i = 0; (text = args_next(a, flag, &i)) != NULL;) {
        if (*n == MAX_GLOBS) return false;
        out[(*n)++] = text;
    }
    return true;
}

static void say_plan(const mlxcel_download *d) {
    Buf b = {0};
    buf_putf(&b, "%s: %zu files, ", mlxcel_download_repo(d), mlxcel_download_n_files(d));
    progress_put_bytes(&b, mlxcel_download_total_bytes(d));
    buf_put(&b, STR(", of that "));
    progress_put_bytes(&b, mlxcel_download_missing_bytes(d));
    buf_put(&b, STR(" to fetch"));
    cli_note("%s", buf_cstr(&b));
    buf_deinit(&b);
}

static int put_result(const Args *a, const mlxcel_download *d) {
    mlxcel_error why;
    mlxcel_string *s;
    if (!args_flag(a, "json")) {
        out_put_c(mlxcel_download_path(d));
        out_put(STR("\n"));
        return CLI_OK;
    }
    if (!mlxcel_download_json(d, &s, &why)) return cli_fail(&why);
    out_put_c(mlxcel_string_text(s));
    out_put(STR("\n"));
    mlxcel_string_free(s);
    return CLI_OK;
}

/* Without a connection, a model that is here is as good as a download. */
static int offline(const Args *a, const char *name, const mlxcel_error *refused) {
    mlxcel_string *path;
    mlxcel_error why;
    if (args_flag(a, "json") || args_has(a, "local-dir") || !mlxcel_model_find(name, &path, &why))
        return cli_fail(refused);
    out_put_c(mlxcel_string_text(path));
    out_put(STR("\n"));
    mlxcel_string_free(path);
    return CLI_OK;
}

int cmd_download(const Args *a) {
    const char *include[MAX_GLOBS], *exclude[MAX_GLOBS];
    mlxcel_download *d;
    mlxcel_error why;
    mlxcel_download_options o = fetch_options(a);
    const char *name = a->n_rest ? a->rest[0] : args_text(a, "model");
    if (!name) return cli_usage("no model given: mlxcel download OWNER/NAME");
    if (!take_globs(a, "include", include, &o.n_include) ||
        !take_globs(a, "exclude", exclude, &o.n_exclude))
        return cli_usage("--include and --exclude are accepted %d times", MAX_GLOBS);
    o.include = include;
    o.exclude = exclude;
    o.revision = args_text(a, "revision");
    o.local_dir = args_text(a, "local-dir");
    /* the variable names a folder to read from */
    if (args_given(a, "models-dir")) o.models_dir = args_text(a, "models-dir");
    o.n_connections = (uint32_t)args_int(a, "connections", o.n_connections);
    o.n_retries = (uint32_t)args_int(a, "retries", o.n_retries);
    interrupt_hold(true);
    bool ok = mlxcel_download_open(name, &o, &d, &why);
    interrupt_hold(false);
    if (!ok) return why.kind == MLXCEL_INPUT ? offline(a, name, &why) : cli_fail(&why);
    if (term_stderr() || args_flag(a, "verbose") || args_flag(a, "dry-run")) say_plan(d);
    int status = args_flag(a, "dry-run") ? CLI_OK : fetch_run(d);
    if (status == CLI_OK) status = put_result(a, d);
    mlxcel_download_close(d);
    return status;
}
