/* jinja_run.h: what every step of the template engine carries: where memory comes from, how much
 * work is left, and the error being raised. One JRun exists per compilation and per rendering, on
 * one thread.
 *
 * A template is hostile until proven otherwise, so nothing here is unlimited: each step spends from
 * `ops`, each allocation spends from it too (memory is time), the arena has a cap, and `depth`
 * bounds recursion. Fallible functions of the engine take the JRun first and return false after
 * jrun_fail(); the Err lives in the JRun, so no function here takes one. `exc` keeps the Python
 * class of the error for the few places where Jinja catches some and not others.
 *
 *     if (!jrun_spend(r, n)) return false;
 *     JList *l = jrun_new(r, JList);   if (!l) return false;      the error is already set */
#ifndef MLXCEL_CHAT_JINJA_RUN_H
#define MLXCEL_CHAT_JINJA_RUN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

typedef enum JExc {
    JEXC_NONE,
    JEXC_TYPE,
    JEXC_VALUE,
    JEXC_LOOKUP,
    JEXC_OVERFLOW,
    JEXC_ZERODIV,
    JEXC_UNDEFINED,
    JEXC_SECURITY,
    JEXC_RUNTIME, /* TemplateRuntimeError and what has no class of its own here */
    JEXC_SYNTAX,
    JEXC_RAISE, /* the template called raise_exception */
    JEXC_LIMIT  /* budget, memory: never caught */
} JExc;

enum {
    JRUN_BYTES_PER_OP = 64,   /* allocating or copying this much costs one operation */
    JRUN_MAX_DEPTH = 2500,    /* nested evaluations; about a megabyte of stack */
    JRUN_MAX_DATA_DEPTH = 900 /* nesting of a value that is printed, compared or hashed */
};

typedef struct JRun {
    Arena *arena;
    Err *err;
    uint64_t ops; /* left */
    int depth;
    JExc exc;
    Buf *raised; /* receives the exact message of raise_exception; may be NULL */
    int line;    /* of the statement being run or parsed, for messages */
} JRun;

bool jrun_fail(JRun *r, JExc exc, const char *fmt, ...) PRINTF_LIKE(3, 4); /* false */
bool jrun_fail_nomem(JRun *r);                                             /* false */
bool jrun_fail_ops(JRun *r);                                               /* false */
/* Forgets an error that Jinja would have caught; false if it is one that cannot be caught. */
bool jrun_catch(JRun *r);
void *jrun_alloc(JRun *r, size_t bytes); /* zeroed; NULL with the error set */
void *jrun_alloc_n(JRun *r, size_t n, size_t size);
#define jrun_new(r, T) ((T *)jrun_alloc((r), sizeof(T)))
#define jrun_array(r, T, n) ((T *)jrun_alloc_n((r), (n), sizeof(T)))

static inline bool jrun_spend(JRun *r, uint64_t ops) {
    if (r->ops < ops) return jrun_fail_ops(r);
    r->ops -= ops;
    return true;
}

static inline bool jrun_spend_bytes(JRun *r, size_t bytes) {
    return jrun_spend(r, bytes / JRUN_BYTES_PER_OP);
}

#endif
