#include "cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/term.h"

enum { BAR = 24, REDRAW_MS = 50, DELAY_MAX_S = 1000000 };

#define WIPE "\r\033[K"

static volatile sig_atomic_t shown;
static uint64_t visible_ns, drawn_ns;  /* of what is under way */
static uint64_t first_ns, first_bytes; /* the rate counts from the first report */

static bool is_set(const char *name) {
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

bool progress_allowed(void) {
    return !is_set("HF_HUB_DISABLE_PROGRESS_BARS") && !is_set("MLXCEL_NO_PROGRESS");
}

double progress_delay(void) {
    const char *v = getenv("MLXCEL_PROGRESS_DELAY");
    double s;
    return v && str_to_f64(str_c(v), &s) && s >= 0 && s <= DELAY_MAX_S ? s : 1;
}

void progress_begin(double delay_s) {
    visible_ns = os_now_ns() + (uint64_t)(delay_s * 1e9);
    first_ns = drawn_ns = 0;
}

void progress_put_bytes(Buf *b, uint64_t n) {
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

void progress_put(Buf *b, uint64_t done, uint64_t total, const char *more) {
    uint64_t now = os_now_ns();
    /* What was there before, as of a download that goes on, came at no rate. */
    if (!first_ns) first_ns = now, first_bytes = done;
    double seconds = (double)(now - first_ns) / 1e9;
    double rate = seconds > 0.2 && done > first_bytes ? (double)(done - first_bytes) / seconds : 0;
    buf_putf(b, "%3.0f%% ", total ? 100 * (double)done / (double)total : 100.0);
    progress_put_bytes(b, done);
    buf_put(b, STR(" of "));
    progress_put_bytes(b, total);
    if (*more) buf_putf(b, ", %s", more);
    if (rate <= 0) return;
    buf_put(b, STR(", "));
    progress_put_bytes(b, (uint64_t)rate);
    buf_put(b, STR("/s, left "));
    put_time(b, done < total ? (uint64_t)((double)(total - done) / rate) : 0);
}

void progress_show(uint64_t done, uint64_t total, const char *more) {
    uint64_t now = os_now_ns();
    if (!first_ns) first_ns = now, first_bytes = done;
    bool soon = drawn_ns && done < total && now - drawn_ns < REDRAW_MS * 1000000ull;
    if (now < visible_ns || soon) return;
    if (!term_stderr() || !progress_allowed()) return;
    Buf b = {0};
    size_t full = total ? (size_t)((double)BAR * (double)done / (double)total) : BAR;
    buf_putc(&b, '[');
    for (size_t i = 0; i < BAR; i++) buf_putc(&b, i < full ? '#' : '.');
    buf_put(&b, STR("] "));
    progress_put(&b, done, total, more);
    /* The last column stays free: some terminals wrap when it is written. */
    size_t columns = (size_t)os_terminal_columns(STDERR_FILENO);
    if (b.n >= columns) b.n = columns - 1;
    /* Names of files and tensors are shown, never obeyed. */
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < 0x20 || b.p[i] > 0x7E) b.p[i] = '?';
    shown = true;
    fprintf(stderr, "\r%.*s\033[K", (int)b.n, b.p);
    fflush(stderr);
    drawn_ns = now;
    buf_deinit(&b);
}

void progress_hide(void) {
    if (!shown) return;
    fputs(WIPE, stderr);
    fflush(stderr);
    shown = false;
    drawn_ns = 0;
}

void progress_keep(void) {
    if (shown) fputc('\n', stderr);
    shown = false;
}

void progress_abandon(void) {
    if (shown && write(STDERR_FILENO, WIPE, sizeof WIPE - 1) < 0) shown = false;
}

bool progress_of_loading(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    if (done < total)
        progress_show(done, total, "loading");
    else
        progress_hide();
    return true;
}
