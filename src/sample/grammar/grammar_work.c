#include "sample/grammar/grammar_work.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool work_fail(GrammarWork *w, ErrKind kind, const char *fmt, ...) {
    if (w->failed) return false;
    w->failed = true;
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return err_set(w->err, kind, "%s", msg);
}

void *work_alloc(GrammarWork *w, size_t n, size_t size) {
    if (w->failed) return NULL;
    void *p = arena_alloc_n(w->arena, n ? n : 1, size);
    if (p) return p;
    size_t max = w->arena->max_bytes ? w->arena->max_bytes : ARENA_MAX_DEFAULT;
    if (n > max / size || w->arena->used_bytes + n * size > max)
        work_fail(w, ERR_LIMIT, "the grammar needs more than %zu MiB to compile", max >> 20);
    else
        work_fail(w, ERR_NOMEM, "out of memory for a grammar");
    return NULL;
}

void *work_grow(GrammarWork *w, void *old, size_t n_old, size_t n_new, size_t size) {
    void *p = work_alloc(w, n_new, size);
    if (p && n_old) memcpy(p, old, n_old * size);
    return p;
}

bool work_spend(GrammarWork *w, uint64_t n) {
    if (w->failed) return false;
    if (w->left < n) {
        w->left = 0;
        return work_fail(
            w, ERR_LIMIT,
            "the grammar is too complex: compiling it exceeds the budget of operations");
    }
    w->left -= n;
    return true;
}
