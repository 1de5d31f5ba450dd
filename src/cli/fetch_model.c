#include "cli/fetch_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/progress.h"
#include "cli/term.h"

/* Small enough for any machine, and of a family that runs. */
#define SMALL_MODEL "mlx-community/Qwen3-0.6B-4bit"

enum { LINE_S = 5 };

/* One download at a time in a command. */
static struct {
    bool lines, running;
    uint64_t line_ns;
} show;

const char *fetch_default_model(void) {
    const char *v = getenv("MLXCEL_DEFAULT_MODEL");
    return v && *v ? v : SMALL_MODEL;
}

static void put_more(Buf *b, const mlxcel_download_progress *p) {
    buf_putf(b, "%zu of %zu files", p->n_done, p->n_files);
    if (p->waiting) buf_put(b, STR(" (waiting for another process)"));
}

static bool on_progress(void *ctx, const mlxcel_download_progress *p) {
    (void)ctx;
    if (interrupted()) return false;
    if (!show.running || !p->n_files) return true;
    if (!progress_allowed()) return true;
    Buf more = {0}, line = {0};
    put_more(&more, p);
    if (term_stderr()) {
        progress_show(p->done_bytes, p->total_bytes, buf_cstr(&more));
    } else if (show.lines && os_now_ns() - show.line_ns > LINE_S * 1000000000ull) {
        show.line_ns = os_now_ns();
        progress_put(&line, p->done_bytes, p->total_bytes, buf_cstr(&more));
        cli_note("%s", buf_cstr(&line));
    }
    buf_deinit(&line);
    buf_deinit(&more);
    return true;
}

mlxcel_download_options fetch_options(const Args *a) {
    mlxcel_download_options o = mlxcel_download_options_default();
    o.progress = on_progress;
    show.lines = args_flag(a, "verbose");
    return o;
}

int fetch_run(mlxcel_download *d) {
    mlxcel_error why;
    show.running = true;
    show.line_ns = 0;
    progress_begin(0);
    interrupt_hold(true);
    bool ok = mlxcel_download_run(d, &why);
    interrupt_hold(false);
    show.running = false;
    progress_keep();
    if (ok) return CLI_OK;
    bool stopped = interrupted();
    cli_fail(&why);
    return stopped ? CLI_INTERRUPTED : CLI_FAILED;
}

int fetch_missing(const Args *a, const char *name) {
    mlxcel_error why;
    mlxcel_string *path;
    mlxcel_download *d;
    Buf b = {0};
    if (mlxcel_model_find(name, &path, &why)) {
        mlxcel_string_free(path);
        return CLI_OK;
    }
    bool is_name = why.kind == MLXCEL_NOT_FOUND && strstr(why.message, "mlxcel download") != NULL;
    if (!is_name) return cli_fail(&why);
    mlxcel_download_options o = fetch_options(a);
    interrupt_hold(true);
    bool ok = mlxcel_download_open(name, &o, &d, &why);
    interrupt_hold(false);
    if (!ok) return cli_fail(&why);
    buf_putf(&b, "mlxcel: downloading %s: %zu files, ", mlxcel_download_repo(d),
             mlxcel_download_n_files(d));
    progress_put_bytes(&b, mlxcel_download_missing_bytes(d));
    buf_putf(&b, ", to %s", mlxcel_download_path(d));
    cli_note("%s", buf_cstr(&b));
    buf_deinit(&b);
    int status = fetch_run(d);
    mlxcel_download_close(d);
    return status;
}
