/* utf8.h: UTF-8 in and out. Strict: no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef MLXCEL_BASE_UTF8_H
#define MLXCEL_BASE_UTF8_H

#include "base/str.h"

enum { UTF8_BAD = 0xFFFFFFFF };

/* Decodes one code point at s.p[*at], advancing *at. A bad byte gives UTF8_BAD and advances by one
 * byte. *at < s.n. */
uint32_t utf8_next(Str s, size_t *at);
/* bytes written; 0 for surrogates and above U+10FFFF */
size_t utf8_encode(uint32_t code_point, char out[4]);
bool utf8_valid(Str s);
size_t utf8_count(Str s); /* code points; each bad byte counts one */
/* Bytes at the end of s that begin a sequence which could still become valid (0..3): what a
 * streaming decoder holds. */
size_t utf8_incomplete_tail(Str s);

/* Whether a character of the well-formed text s begins at `at`, or s ends there. */
static inline bool utf8_begins(Str s, size_t at) {
    return at >= s.n || ((unsigned char)s.p[at] & 0xC0) != 0x80;
}

#endif
