#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* Here the functions themselves. */
#undef err_set
#undef err_wrap
#undef err_nomem

typedef struct ErrKindInfo {
    const char *name;
    int exit_status, http;
} ErrKindInfo;

static const ErrKindInfo KINDS[ERR_KIND_COUNT] = {
    [ERR_NONE] = {"none", 0, 200},
    [ERR_INPUT] = {"input", 1, 400},
    [ERR_UNSUPPORTED] = {"unsupported", 1, 501},
    [ERR_NOT_FOUND] = {"not found", 1, 404},
    [ERR_LIMIT] = {"limit", 1, 400},
    [ERR_BUSY] = {"busy", 1, 503},
    [ERR_CANCELLED] = {"cancelled", 1, 499},
    [ERR_NOMEM] = {"out of memory", 1, 500},
    [ERR_IO] = {"i/o", 1, 500},
    [ERR_CORRUPT] = {"corrupt", 1, 500},
    [ERR_INTERNAL] = {"internal", 1, 500},
};

/* Names and values in a message come from files: one line, no terminal escapes. */
static void msg_store(Err *err, const char *text) {
    static const char HEX[] = "0123456789abcdef";
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool plain = *p >= 0x20 && *p != 0x7f;
        if (n + (plain ? 1 : 4) + 4 > ERR_MSG_MAX) {
            /* Not in the middle of a UTF-8 sequence. */
            while (n > 0 && ((unsigned char)err->msg[n - 1] & 0xC0) == 0x80) n--;
            if (n > 0 && (unsigned char)err->msg[n - 1] >= 0xC0) n--;
            memcpy(err->msg + n, "...", 3);
            n += 3;
            break;
        }
        if (plain) {
            err->msg[n++] = (char)*p;
        } else {
            const char esc[4] = {'\\', 'x', HEX[*p >> 4], HEX[*p & 15]};
            memcpy(err->msg + n, esc, 4);
            n += 4;
        }
    }
    err->msg[n] = 0;
}

bool err_set(Err *err, ErrKind kind, const char *fmt, ...) {
    if (!err) return false;
    char text[2 * ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err->kind = kind;
    msg_store(err, text);
    return false;
}

bool err_wrap(Err *err, const char *fmt, ...) {
    if (!err) return false;
    char text[2 * ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0;
    if ((size_t)n >= sizeof text) n = (int)sizeof text - 1;
    snprintf(text + n, sizeof text - (size_t)n, ": %s", err->msg);
    msg_store(err, text);
    return false;
}

bool err_nomem(Err *err, const char *what) {
    return err_set(err, ERR_NOMEM, "out of memory for %s", what);
}

const char *errkind_name(ErrKind kind) { return KINDS[kind].name; }
int errkind_exit(ErrKind kind) { return KINDS[kind].exit_status; }
int errkind_http(ErrKind kind) { return KINDS[kind].http; }
