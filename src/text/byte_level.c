#include "text/byte_level.h"

#include "base/utf8.h"

/* Bytes that are not themselves: 0-32, 127-160 and 173, numbered in that order. */
uint32_t byte_level_char(uint8_t b) {
    if (b <= 32) return 256u + b;
    if (b >= 127 && b <= 160) return 256u + 33 + (b - 127u);
    if (b == 173) return 256u + 67;
    return b;
}

int byte_level_byte(uint32_t cp) {
    if (cp < 256) return byte_level_char((uint8_t)cp) == cp ? (int)cp : -1;
    cp -= 256;
    if (cp <= 32) return (int)cp;
    if (cp < 67) return (int)(cp - 33 + 127);
    return cp == 67 ? 173 : -1;
}

size_t byte_level_encode(Str bytes, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t cp = byte_level_char((uint8_t)bytes.p[i]);
        if (cp < 0x80) {
            out[n++] = (char)cp;
        } else {
            out[n++] = (char)(0xC0 | cp >> 6);
            out[n++] = (char)(0x80 | (cp & 0x3F));
        }
    }
    return n;
}

void byte_level_put(Buf *out, Str bytes) {
    if (bytes.n > SIZE_MAX / 2 || !buf_reserve(out, 2 * bytes.n)) {
        out->failed = true;
        return;
    }
    out->n += byte_level_encode(bytes, out->p + out->n);
}

bool byte_level_decode(Str text, Buf *out) {
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = utf8_next(text, &i);
        if (cp == UTF8_BAD || byte_level_byte(cp) < 0) return false;
    }
    for (size_t i = 0; i < text.n;) buf_putc(out, (char)byte_level_byte(utf8_next(text, &i)));
    return true;
}
