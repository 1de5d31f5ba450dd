/* err.h: errors as values.
 *
 * A fallible function returns bool (true = done) and takes an Err * last. The Err lives in the
 * caller's frame: no heap, no globals. err_set() fills it and returns false, so a failing line
 * reads
 *
 *     if (n > MAX) return err_set(err, ERR_LIMIT, "%s has %zu layers, at most %d are accepted", path, n, MAX);
 *
 * err_wrap() puts context in front on the way up. Messages name the thing, the value found and what
 * is accepted; lower case, no full stop. A NULL Err * is allowed: the message is dropped. */
#ifndef MLXCEL_BASE_ERR_H
#define MLXCEL_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Kinds by who can fix it. errkind_exit() and errkind_http() are the one table that maps them
 * outwards. */
typedef enum ErrKind {
    ERR_NONE,
    ERR_INPUT,       /* the request is wrong: change it */
    ERR_UNSUPPORTED, /* well-formed, but not something this build does */
    ERR_NOT_FOUND,   /* a file, model or object that is not there */
    ERR_LIMIT,       /* larger than a stated limit */
    ERR_BUSY,        /* try again later */
    ERR_CANCELLED,   /* the caller asked to stop */
    ERR_NOMEM,       /* memory ran out */
    ERR_IO,          /* the system refused to read or write */
    ERR_CORRUPT,     /* a file breaks its format */
    ERR_INTERNAL,    /* a bug of ours */
    ERR_KIND_COUNT
} ErrKind;

enum { ERR_MSG_MAX = 400 };

typedef struct Err {
    ErrKind kind;
    /* NUL-terminated UTF-8, cut with "..." when too long; control characters shown as \xNN */
    char msg[ERR_MSG_MAX];
} Err;

bool err_set(Err *err, ErrKind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* "<prefix>: <old message>"; false */
bool err_wrap(Err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "out of memory for <what>"; false */
bool err_nomem(Err *err, const char *what);
/* As macros they show the compiler that they return false: else it takes results behind a failed
 * call for uninitialized. */
#define ERR_FALSE(call)                                                                            \
    __extension__({                                                                                \
        call;                                                                                      \
        false;                                                                                     \
    })
#define err_set(...) ERR_FALSE((err_set)(__VA_ARGS__))
#define err_wrap(...) ERR_FALSE((err_wrap)(__VA_ARGS__))
#define err_nomem(...) ERR_FALSE((err_nomem)(__VA_ARGS__))

const char *errkind_name(ErrKind kind);
int errkind_exit(ErrKind kind); /* 0 or 1; wrong usage (2) is decided by cli/ */
int errkind_http(ErrKind kind); /* HTTP status */

#endif
