#include "json/json_scan.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/utf8.h"

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool ends_run(unsigned char c) { return c == '"' || c == '\\' || c < 0x20; }

#if defined(__SSE2__)

/* 16 bytes at a time; *i stops at the block that holds the end of the run, or where fewer than
 * 16 are left. True: *i is the end itself. */
static bool string_blocks(const char *p, size_t *i, size_t n, bool *high) {
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1F);
    while (n - *i >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + *i));
        __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(_mm_min_epu8(v, control), v));
        unsigned mask = (unsigned)_mm_movemask_epi8(stop), above = (unsigned)_mm_movemask_epi8(v);
        if (mask) {
            unsigned k = (unsigned)__builtin_ctz(mask);
            if (above & ((1u << k) - 1)) *high = true;
            *i += k;
            return true;
        }
        if (above) *high = true;
        *i += 16;
    }
    return false;
}

static size_t space_blocks(const char *p, size_t i, size_t n) {
    const __m128i blank = _mm_set1_epi8(' '), line = _mm_set1_epi8('\n');
    while (n - i >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        unsigned mask = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(v, blank), _mm_cmpeq_epi8(v, line)));
        if (mask != 0xFFFF) return i + (unsigned)__builtin_ctz(~mask);
        i += 16;
    }
    return i;
}

#else

#define BYTES(c) (0x0101010101010101ull * (c))
#define HAS_ZERO(w) (((w)-BYTES(1)) & ~(w)&BYTES(0x80))

static bool string_blocks(const char *p, size_t *i, size_t n, bool *high) {
    for (; n - *i >= 8; *i += 8) {
        uint64_t w;
        memcpy(&w, p + *i, 8);
        uint64_t quote = w ^ BYTES('"'), slash = w ^ BYTES('\\');
        uint64_t below = (w - BYTES(0x20)) & ~w & BYTES(0x80);
        if (HAS_ZERO(quote) | HAS_ZERO(slash) | below) return false;
        if (w & BYTES(0x80)) *high = true;
    }
    return false;
}

static size_t space_blocks(const char *p, size_t i, size_t n) {
    (void)p, (void)n;
    return i;
}

#endif

size_t json_scan_string(const char *p, size_t i, size_t n, bool *high) {
    if (string_blocks(p, &i, n, high)) return i;
    for (; i < n && !ends_run((unsigned char)p[i]); i++) {
        if ((unsigned char)p[i] >= 0x80) *high = true;
    }
    return i;
}

size_t json_scan_space(const char *p, size_t i, size_t n) {
    if (i == n || !is_space(p[i])) return i;
    if (i + 1 < n && !is_space(p[i + 1])) return i + 1;
    i = space_blocks(p, i, n);
    while (i < n && is_space(p[i])) i++;
    return i;
}

size_t json_scan_number(const char *p, size_t i, size_t n) {
    while (i < n && (is_digit(p[i]) || p[i] == '-' || p[i] == '.' || p[i] == '+' || p[i] == 'e' ||
                     p[i] == 'E')) {
        i++;
    }
    return i;
}

size_t json_scan_word(const char *p, size_t i, size_t n) {
    while (i < n &&
           (is_digit(p[i]) || (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z'))) {
        i++;
    }
    return i;
}

static size_t digits(Str s, size_t i) {
    while (i < s.n && is_digit(s.p[i])) i++;
    return i;
}

bool json_number_valid(Str s) {
    size_t i = s.n > 0 && s.p[0] == '-';
    size_t end = digits(s, i);
    if (end == i || (s.p[i] == '0' && end > i + 1)) return false;
    i = end;
    if (i < s.n && s.p[i] == '.') {
        end = digits(s, i + 1);
        if (end == i + 1) return false;
        i = end;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '+' || s.p[i] == '-')) i++;
        end = digits(s, i);
        if (end == i) return false;
        i = end;
    }
    return i == s.n;
}

size_t json_utf8_bad(Str raw) {
    if (utf8_valid(raw)) return STR_NPOS;
    for (size_t i = 0; i < raw.n;) {
        size_t from = i;
        if (utf8_next(raw, &i) == UTF8_BAD) return from;
    }
    return STR_NPOS;
}

int json_hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = is_digit(c)              ? c - '0'
                : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                         : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* The \uXXXX at raw.p[i]: its code unit, -1 if there is none. */
static int unit_at(Str raw, size_t i) {
    if (raw.n - i < 6 || raw.p[i] != '\\' || raw.p[i + 1] != 'u') return -1;
    return json_hex4(raw.p + i + 2);
}

size_t json_escape_bad(Str raw, bool lone_is_bad) {
    size_t i = 0;
    while ((i = str_find_char(raw, '\\', i)) != STR_NPOS) {
        if (i + 1 >= raw.n) return i;
        if (raw.p[i + 1] != 'u') {
            if (raw.p[i + 1] == '\0' || !strchr("\"\\/bfnrt", raw.p[i + 1])) return i;
            i += 2;
            continue;
        }
        int unit = unit_at(raw, i);
        if (unit < 0) return i;
        bool high = unit >= 0xD800 && unit < 0xDC00;
        int next = high && i + 6 < raw.n ? unit_at(raw, i + 6) : -1;
        bool pair = next >= 0xDC00 && next < 0xE000;
        if (lone_is_bad && unit >= 0xD800 && unit < 0xE000 && !pair) return i;
        i += pair ? 12 : 6;
    }
    return STR_NPOS;
}
