#include "base/log.h"

#include <pthread.h>
#include <stdio.h>

#include "base/buf.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LogLevel level = LOG_WARN;
static bool holding;
static void (*before_line)(void);
static Buf held = {.max = 64 << 10}; /* warnings waiting for the command's outcome */

void log_set_level(LogLevel l) { level = l; }
LogLevel log_level(void) { return level; }

void log_before_line(void (*fn)(void)) { before_line = fn; }
void log_hold(bool hold) { holding = hold; }

PRINTF_LIKE(2, 0) static void line_out(LogLevel l, const char *fmt, va_list ap) {
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    const char *kind = l == LOG_WARN ? "warning: " : "";
    pthread_mutex_lock(&mutex);
    if (holding && l == LOG_WARN && level < LOG_NOTE) {
        buf_putf(&held, "mlxcel: %s%s\n", kind, text);
    } else {
        if (before_line) before_line();
        fprintf(stderr, "mlxcel: %s%s\n", kind, text);
    }
    pthread_mutex_unlock(&mutex);
}

#define LOG_AT(l)                                                                                  \
    do {                                                                                           \
        if (level < (l)) return;                                                                   \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        line_out((l), fmt, ap);                                                                    \
        va_end(ap);                                                                                \
    } while (0)

void log_warn(const char *fmt, ...) { LOG_AT(LOG_WARN); }
void log_note(const char *fmt, ...) { LOG_AT(LOG_NOTE); }
void log_debug(const char *fmt, ...) { LOG_AT(LOG_DEBUG); }

void log_flush(void) {
    pthread_mutex_lock(&mutex);
    if (held.n && before_line) before_line();
    if (held.n) fwrite(held.p, 1, held.n, stderr);
    buf_deinit(&held);
    pthread_mutex_unlock(&mutex);
}

void log_discard(void) {
    pthread_mutex_lock(&mutex);
    buf_deinit(&held);
    pthread_mutex_unlock(&mutex);
}
