/* buf.h: a growing byte buffer with a maximum. Failure (no memory, over max) is sticky, so a long
 * run of puts is checked once, with buf_check(). Zero-initialised is valid (max 0 means
 * BUF_MAX_DEFAULT).
 *
 *     Buf b = {.max = 1 << 20};
 *     buf_put(&b, STR("{\"n\":")); buf_putf(&b, "%d", n); buf_putc(&b, '}');
 *     if (!buf_check(&b, "reply", err)) goto done;
 *     ... buf_str(&b) ...
 *     buf_deinit(&b); */
#ifndef MLXCEL_BASE_BUF_H
#define MLXCEL_BASE_BUF_H

#include "base/err.h"
#include "base/str.h"

#define BUF_MAX_DEFAULT ((size_t)1 << 30)

typedef struct Buf {
    char *p;
    size_t n, cap;
    size_t max;  /* bytes; 0 = BUF_MAX_DEFAULT */
    bool failed; /* sticky: no memory, or max reached; contents up to then stay */
} Buf;

void buf_deinit(Buf *b); /* frees; b becomes zero but keeps max */
void buf_clear(Buf *b);  /* n = 0, failed = false, memory kept */
bool buf_reserve(Buf *b, size_t more);
void buf_put(Buf *b, Str s);
void buf_putc(Buf *b, char c);
void buf_putf(Buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_put_utf8(Buf *b, uint32_t code_point);
/* ERR_LIMIT or ERR_NOMEM if failed */
bool buf_check(const Buf *b, const char *what, Err *err) MUST_CHECK;
const char *buf_cstr(Buf *b); /* NUL-terminated for the OS boundary; "" on failure */
static inline Str buf_str(const Buf *b) { return (Str){b->p, b->n}; }

#endif
