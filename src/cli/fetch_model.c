#include "cli/fetch_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/term.h"

/* Small enough for any machine, and of a family that runs. */
#define SMALL_MODEL "mlx-community/Qwen3-0.6B-4bit"

enum { LINE_S = 5, BAR = 24 };

/* One download at a time in a command. */
static struct {
    bool shown, lines, running;
    uint64_t start_ns, start_bytes, line_ns;
} show;

const char *fetch_default_model(void) {
    const char *v = getenv("MLXCEL_DEFAULT_MODEL");
    return v && *v ? v : SMALL_MODEL;
}

void fetch_put_bytes(Buf *b, uint64_t n) {
    static const char *const UNITS[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)n;
    int i = 0;
    while (v >= 999.5 && i < 4) v /= 1000, i++;
    buf_putf(b, i && v < 99.95 ? "%.1f %s" : "%.0f %s", v, UNITS[i]);
}

static void put_time(Buf *b, uint64_t s) {
    if (s >= 3600)
        buf_putf(b, "%llu:%02llu:%02llu", (unsigned long long)(s / 3600),
                 (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
    else
        buf_putf(b, "%llu:%02llu", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
}

static void put_progress(Buf *b, const mlxcel_download_progress *p) {
    double seconds = (double)(os_now_ns() - show.start_ns) / 1e9;
    uint64_t new = p->done_bytes > show.start_bytes ? p->done_bytes - show.start_bytes : 0;
    double rate = seconds > 0.2 ? (double)new / seconds : 0;
    double share = p->total_bytes ? (double)p->done_bytes / (double)p->total_bytes : 1;
    buf_putf(b, "%3.0f%% ", 100 * share);
    fetch_put_bytes(b, p->done_bytes);
    buf_put(b, STR(" of "));
    fetch_put_bytes(b, p->total_bytes);
    buf_putf(b, ", %zu of %zu files", p->n_done, p->n_files);
    if (rate > 0) {
        buf_put(b, STR(", "));
        fetch_put_bytes(b, (uint64_t)rate);
        buf_put(b, STR("/s, left "));
        put_time(b, (uint64_t)((double)(p->total_bytes - p->done_bytes) / rate));
    }
    if (p->waiting) buf_put(b, STR(" (waiting for another process)"));
}

static void draw(const mlxcel_download_progress *p) {
    Buf b = {0};
    size_t full = p->total_bytes
                      ? (size_t)((double)BAR * (double)p->done_bytes / (double)p->total_bytes)
                      : BAR;
    buf_put(&b, STR("\r["));
    for (size_t i = 0; i < BAR; i++) buf_putc(&b, i < full ? '#' : '.');
    buf_put(&b, STR("] "));
    put_progress(&b, p);
    size_t columns = (size_t)os_terminal_columns(2);
    if (b.n > columns) b.n = columns;
    fprintf(stderr, "%.*s\033[K", (int)b.n, b.p);
    fflush(stderr);
    show.shown = true;
    buf_deinit(&b);
}

static bool on_progress(void *ctx, const mlxcel_download_progress *p) {
    (void)ctx;
    if (interrupted()) return false;
    if (!show.running || !p->n_files) return true;
    if (!show.start_ns) show.start_ns = os_now_ns(), show.start_bytes = p->done_bytes;
    const char *no = getenv("HF_HUB_DISABLE_PROGRESS_BARS"), *own = getenv("MLXCEL_NO_PROGRESS");
    bool quiet = (no && *no && strcmp(no, "0") != 0) || (own && *own && strcmp(own, "0") != 0);
    if (quiet) return true;
    if (term_stderr()) {
        draw(p);
    } else if (show.lines && os_now_ns() - show.line_ns > LINE_S * 1000000000ull) {
        Buf b = {0};
        show.line_ns = os_now_ns();
        put_progress(&b, p);
        cli_note("%s", buf_cstr(&b));
        buf_deinit(&b);
    }
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
    show.start_ns = show.line_ns = 0;
    interrupt_hold(true);
    bool ok = mlxcel_download_run(d, &why);
    interrupt_hold(false);
    show.running = false;
    if (show.shown) fprintf(stderr, "\n");
    show.shown = false;
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
    fetch_put_bytes(&b, mlxcel_download_missing_bytes(d));
    buf_putf(&b, ", to %s", mlxcel_download_path(d));
    cli_note("%s", buf_cstr(&b));
    buf_deinit(&b);
    int status = fetch_run(d);
    mlxcel_download_close(d);
    return status;
}
