#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

void buf_deinit(Buf *b) {
    mem_free(b->p);
    *b = (Buf){.max = b->max};
}

void buf_clear(Buf *b) {
    b->n = 0;
    b->failed = false;
}

bool buf_reserve(Buf *b, size_t more) {
    if (b->failed) return false;
    if (b->cap - b->n >= more) return true;
    size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
    if (more > max || b->n > max - more) return !(b->failed = true);
    size_t cap = b->cap ? b->cap : 64;
    while (cap < b->n + more) cap = cap > max / 2 ? max : cap * 2;
    char *p = mem_realloc(b->p, cap);
    if (!p) return !(b->failed = true);
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_put(Buf *b, Str s) {
    if (!s.n || !buf_reserve(b, s.n)) return;
    memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
}

void buf_putc(Buf *b, char c) {
    if (buf_reserve(b, 1)) b->p[b->n++] = c;
}

void buf_putf(Buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    char small[256];
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        buf_put(b, (Str){small, (size_t)n});
    } else if (n >= 0 && buf_reserve(b, (size_t)n + 1)) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void buf_put_utf8(Buf *b, uint32_t code_point) {
    char c[4];
    buf_put(b, (Str){c, utf8_encode(code_point, c)});
}

bool buf_check(const Buf *b, const char *what, Err *err) {
    if (!b->failed) return true;
    size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
    if (b->n < max && b->cap < max) return err_nomem(err, what);
    return err_set(err, ERR_LIMIT, "%s is longer than the limit of %zu bytes", what, max);
}

const char *buf_cstr(Buf *b) {
    if (!buf_reserve(b, 1)) return "";
    b->p[b->n] = 0;
    return b->p;
}
