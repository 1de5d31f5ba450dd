#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "cli/progress.h"
#include "json/json_writer.h"

enum { OUT_BYTES = 1 << 16 };

static char pending[OUT_BYTES];
static size_t n_pending;
static int failure; /* errno of the first failed write */

static void write_all(const char *p, size_t n) {
    progress_hide();
    while (n && !failure) {
        ssize_t done = write(STDOUT_FILENO, p, n);
        if (done < 0 && errno != EINTR) failure = errno;
        if (done > 0) p += done, n -= (size_t)done;
    }
}

bool out_flush(void) {
    write_all(pending, n_pending);
    n_pending = 0;
    return !failure;
}

void out_put(Str s) {
    if (s.n > OUT_BYTES - n_pending) out_flush();
    if (s.n > OUT_BYTES) {
        write_all(s.p, s.n);
    } else if (s.n) {
        memcpy(pending + n_pending, s.p, s.n);
        n_pending += s.n;
    }
}

void out_put_c(const char *s) { out_put(str_c(s)); }
bool out_gone(void) { return failure != 0; }

int out_close(int status) {
    out_flush();
    if (!failure || status != CLI_OK || failure == EPIPE) return status;
    Err err = {0};
    err_set(&err, ERR_IO, "cannot write the result: %s", strerror(failure));
    return cli_fail_err(&err);
}

/* One line whatever the message quotes: control characters show as \xNN. */
static int fail_line(const char *message, int status) {
    Buf line = {0};
    mlxcel_log_release(false);
    n_pending = 0; /* no partial result */
    progress_hide();
    for (const char *p = message; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            buf_putf(&line, "\\x%02x", (unsigned)*p);
        else
            buf_putc(&line, *p);
    fprintf(stderr, "mlxcel: %s\n", line.failed ? message : buf_cstr(&line));
    buf_deinit(&line);
    return status;
}

int cli_fail(const mlxcel_error *err) { return fail_line(err->message, CLI_FAILED); }
int cli_fail_err(const Err *err) { return fail_line(err->msg, CLI_FAILED); }

int cli_usage(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_line(text, CLI_USAGE);
}

void cli_note(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    progress_hide();
    fprintf(stderr, "%s\n", text);
}

void cli_warn(const char *text) { log_warn("%s", text); }

/* A line of JSON without what some readers take for the end of a line (U+0085, U+2028, U+2029: they can only stand inside
 * strings, where an escape says the same). */
static void put_json_line(Str s) {
    static const struct {
        Str raw, escape;
    } ENDS[] = {{{"\xC2\x85", 2}, {"\\u0085", 6}},
                {{"\xE2\x80\xA8", 3}, {"\\u2028", 6}},
                {{"\xE2\x80\xA9", 3}, {"\\u2029", 6}}};
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\xC2' && s.p[i] != '\xE2') continue;
        for (size_t k = 0; k < 3; k++) {
            if (!str_starts(str_from(s, i), ENDS[k].raw)) continue;
            out_put(str_slice(s, from, i));
            out_put(ENDS[k].escape);
            from = i + ENDS[k].raw.n;
            i = from - 1;
            break;
        }
    }
    out_put(str_from(s, from));
    out_put(STR("\n"));
}

static bool answer(LineFn *fn, void *ctx, const char *line, size_t n, mlxcel_error *err) {
    mlxcel_string *s;
    Buf text = {0};
    JsonWriter w = {.out = &text};
    if (fn(ctx, line, n, &s, err)) {
        put_json_line((Str){mlxcel_string_text(s), mlxcel_string_size(s)});
        mlxcel_string_free(s);
        return true;
    }
    if (err->kind != MLXCEL_INPUT) return false;
    json_w_object(&w);
    json_w_key(&w, STR("error"));
    json_w_str(&w, str_c(err->message));
    json_w_end(&w);
    put_json_line(buf_str(&text));
    buf_deinit(&text);
    return true;
}

/* Whole lines of what was read are answered; the rest moves to the front. */
static bool answer_ready(LineFn *fn, void *ctx, Buf *in, mlxcel_error *err) {
    size_t from = 0;
    const char *end;
    while ((end = memchr(in->p + from, '\n', in->n - from)) != NULL) {
        size_t n = (size_t)(end - (in->p + from));
        if (!answer(fn, ctx, in->p + from, n, err)) return false;
        from += n + 1;
    }
    memmove(in->p, in->p + from, in->n - from);
    in->n -= from;
    return true;
}

int lines_answer(LineFn *fn, void *ctx) {
    enum { CHUNK = 1 << 16 };
    Buf in = {0};
    mlxcel_error err = {0};
    bool ok = true;
    ssize_t got = 1;
    while (ok && got > 0 && !out_gone()) {
        if (!buf_reserve(&in, CHUNK)) {
            snprintf(err.message, sizeof err.message,
                     "a line of the input is longer than %zu bytes", in.n);
            ok = false;
            break;
        }
        got = read(STDIN_FILENO, in.p + in.n, CHUNK);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0) {
            size_t from = in.n;
            in.n += (size_t)got;
            if (memchr(in.p + from, '\n', (size_t)got)) ok = answer_ready(fn, ctx, &in, &err);
            out_flush();
        }
    }
    if (ok && got == 0 && in.n) ok = answer(fn, ctx, in.p, in.n, &err);
    if (ok && got < 0) {
        snprintf(err.message, sizeof err.message, "cannot read standard input: %s",
                 strerror(errno));
        ok = false;
    }
    buf_deinit(&in);
    return ok ? CLI_OK : cli_fail(&err);
}

/* <(...) of a shell. Opening does not wait for a writer: a pipe that has none is empty, and never hangs us. */
static bool pipe_read(const char *path, size_t max_bytes, Buf *out, Err *err) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    int flags = fcntl(fd, F_GETFL);
    bool ok = flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
    if (!ok)
        err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else
        ok = os_read_fd(fd, max_bytes, out, err);
    close(fd);
    return ok;
}

bool file_read(const char *path, size_t max_bytes, Buf *out, Err *err) {
    struct stat st;
    if (strcmp(path, "-") == 0) return os_read_fd(STDIN_FILENO, max_bytes, out, err);
    if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)) return pipe_read(path, max_bytes, out, err);
    return os_read_file(path, max_bytes, out, err);
}
