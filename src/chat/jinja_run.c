#include "chat/jinja_run.h"

#include <stdio.h>

#include "base/mem.h"

static ErrKind run_kind(JExc exc) { return exc == JEXC_LIMIT ? ERR_LIMIT : ERR_INPUT; }

bool jrun_fail(JRun *r, JExc exc, const char *fmt, ...) {
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    r->exc = exc;
    if (r->line > 0) return err_set(r->err, run_kind(exc), "template line %d: %s", r->line, msg);
    return err_set(r->err, run_kind(exc), "template: %s", msg);
}

bool jrun_fail_nomem(JRun *r) {
    r->exc = JEXC_LIMIT;
    return err_nomem(r->err, "a chat template");
}

bool jrun_fail_ops(JRun *r) {
    r->ops = 0;
    return jrun_fail(r, JEXC_LIMIT,
                     "the budget of operations is used up; the template does too much work");
}

bool jrun_catch(JRun *r) {
    if (r->exc == JEXC_LIMIT || r->exc == JEXC_RAISE) return false;
    r->exc = JEXC_NONE;
    return true;
}

void *jrun_alloc(JRun *r, size_t bytes) {
    if (!jrun_spend_bytes(r, bytes)) return NULL;
    void *p = arena_alloc(r->arena, bytes);
    if (p) return p;
    size_t cap = r->arena->max_bytes ? r->arena->max_bytes : ARENA_MAX_DEFAULT;
    if (r->arena->used_bytes + bytes > cap)
        jrun_fail(r, JEXC_LIMIT, "more than %zu bytes of working memory are needed", cap);
    else
        jrun_fail_nomem(r);
    return NULL;
}

void *jrun_alloc_n(JRun *r, size_t n, size_t size) {
    size_t bytes;
    if (size_mul(n, size, &bytes)) return jrun_alloc(r, bytes);
    jrun_fail(r, JEXC_LIMIT, "%zu elements of %zu bytes do not fit in memory", n, size);
    return NULL;
}
