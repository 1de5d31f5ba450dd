#include "base/cursor.h"

#include <string.h>

static bool take(Cursor *c, void *out, size_t n) {
    if (c->failed || cursor_left(c) < n) {
        c->failed = true;
        memset(out, 0, n);
        return false;
    }
    memcpy(out, c->p + c->at, n);
    c->at += n;
    return true;
}

/* The host is little-endian (checked at compile time), so the bytes are the value. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "mlxcel reads checkpoints on little-endian hosts");

uint8_t cursor_u8(Cursor *c) {
    uint8_t v;
    take(c, &v, sizeof v);
    return v;
}
uint16_t cursor_u16(Cursor *c) {
    uint16_t v;
    take(c, &v, sizeof v);
    return v;
}
uint32_t cursor_u32(Cursor *c) {
    uint32_t v;
    take(c, &v, sizeof v);
    return v;
}
uint64_t cursor_u64(Cursor *c) {
    uint64_t v;
    take(c, &v, sizeof v);
    return v;
}
float cursor_f32(Cursor *c) {
    float v;
    take(c, &v, sizeof v);
    return v;
}
double cursor_f64(Cursor *c) {
    double v;
    take(c, &v, sizeof v);
    return v;
}

Str cursor_bytes(Cursor *c, uint64_t n) {
    if (c->failed || cursor_left(c) < n) {
        c->failed = true;
        return STR_NONE;
    }
    Str s = {(const char *)c->p + c->at, (size_t)n};
    c->at += (size_t)n;
    return s;
}

bool cursor_skip(Cursor *c, uint64_t n) {
    cursor_bytes(c, n);
    return !c->failed;
}

bool cursor_varint(Cursor *c, uint64_t *out) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = cursor_u8(c);
        if (c->failed) return false;
        if (shift == 63 && b > 1) break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    c->failed = true;
    return false;
}
