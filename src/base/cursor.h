/* cursor.h: bounds-checked reading of little-endian binary and of text. Errors are sticky: after a
 * read past the end every further read gives zero and cursor.failed stays true, so a header is read
 * in a row and checked once. */
#ifndef MLXCEL_BASE_CURSOR_H
#define MLXCEL_BASE_CURSOR_H

#include "base/str.h"

typedef struct Cursor {
    const unsigned char *p;
    size_t n, at;
    bool failed;
} Cursor;

static inline Cursor cursor_over(Str s) {
    return (Cursor){(const unsigned char *)s.p, s.n, 0, false};
}
static inline size_t cursor_left(const Cursor *c) { return c->n - c->at; }
uint8_t cursor_u8(Cursor *c);
uint16_t cursor_u16(Cursor *c);
uint32_t cursor_u32(Cursor *c);
uint64_t cursor_u64(Cursor *c);
float cursor_f32(Cursor *c);
double cursor_f64(Cursor *c);
Str cursor_bytes(Cursor *c, uint64_t n); /* a view; fails if fewer are left */
bool cursor_skip(Cursor *c, uint64_t n);
bool cursor_varint(Cursor *c, uint64_t *out); /* protobuf base-128 */

#endif
