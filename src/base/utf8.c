#include "base/utf8.h"

/* Length and lowest value of a sequence by its first byte (RFC 3629). */
static int lead_length(unsigned char b) {
    if (b < 0x80) return 1;
    if (b >= 0xC2 && b <= 0xDF) return 2;
    if (b >= 0xE0 && b <= 0xEF) return 3;
    if (b >= 0xF0 && b <= 0xF4) return 4;
    return 0;
}

/* The second byte's range is narrower after four lead bytes: overlong forms, surrogates, above
 * U+10FFFF. */
static bool second_ok(unsigned char lead, unsigned char b) {
    unsigned char lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return b >= lo && b <= hi;
}

uint32_t utf8_next(Str s, size_t *at) {
    const unsigned char *p = (const unsigned char *)s.p + *at;
    size_t left = s.n - *at;
    int n = lead_length(p[0]);
    if (n == 1) {
        *at += 1;
        return p[0];
    }
    if (n == 0 || left < (size_t)n || !second_ok(p[0], p[1])) goto bad;
    uint32_t cp = (uint32_t)p[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) goto bad;
        cp = cp << 6 | (p[i] & 0x3F);
    }
    *at += (size_t)n;
    return cp;
bad:
    *at += 1;
    return UTF8_BAD;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xD800 && cp <= 0xDFFF) return 0;
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    if (cp > 0x10FFFF) return 0;
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool utf8_valid(Str s) {
    for (size_t at = 0; at < s.n;)
        if (utf8_next(s, &at) == UTF8_BAD) return false;
    return true;
}

size_t utf8_count(Str s) {
    size_t n = 0;
    for (size_t at = 0; at < s.n; n++) utf8_next(s, &at);
    return n;
}

size_t utf8_incomplete_tail(Str s) {
    for (size_t k = 1; k <= 3 && k <= s.n; k++) {
        const unsigned char *p = (const unsigned char *)s.p + s.n - k;
        if ((p[0] & 0xC0) == 0x80) continue;
        int n = lead_length(p[0]);
        if (n <= (int)k) return 0;
        if (k >= 2 && !second_ok(p[0], p[1])) return 0;
        return k;
    }
    return 0;
}
