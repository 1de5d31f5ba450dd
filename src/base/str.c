#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Str str_c(const char *z) { return (Str){z, z ? strlen(z) : 0}; }

bool str_eq(Str a, Str b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
bool str_eqc(Str a, const char *z) { return str_eq(a, str_c(z)); }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

bool str_ieq(Str a, Str b) {
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i])) return false;
    return true;
}

int str_cmp(Str a, Str b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(Str s, Str prefix) {
    return s.n >= prefix.n && str_eq((Str){s.p, prefix.n}, prefix);
}

bool str_ends(Str s, Str suffix) {
    return s.n >= suffix.n && str_eq(str_from(s, s.n - suffix.n), suffix);
}

Str str_slice(Str s, size_t from, size_t to) {
    if (to > s.n) to = s.n;
    if (from > to) from = to;
    return (Str){s.p ? s.p + from : NULL, to - from};
}

Str str_from(Str s, size_t from) { return str_slice(s, from, s.n); }

size_t str_find(Str s, Str needle, size_t from) {
    if (needle.n == 0) return from <= s.n ? from : STR_NPOS;
    if (from >= s.n || s.n - from < needle.n) return STR_NPOS;
    const char *hit = memmem(s.p + from, s.n - from, needle.p, needle.n);
    return hit ? (size_t)(hit - s.p) : STR_NPOS;
}

size_t str_rfind(Str s, Str needle) {
    if (needle.n > s.n) return STR_NPOS;
    for (size_t i = s.n - needle.n + 1; i-- > 0;)
        if (str_eq((Str){s.p + i, needle.n}, needle)) return i;
    return STR_NPOS;
}

size_t str_find_char(Str s, char c, size_t from) {
    if (from >= s.n) return STR_NPOS;
    const char *hit = memchr(s.p + from, c, s.n - from);
    return hit ? (size_t)(hit - s.p) : STR_NPOS;
}

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

Str str_trim(Str s) {
    while (s.n && blank(s.p[0])) s = str_from(s, 1);
    while (s.n && blank(s.p[s.n - 1])) s.n--;
    return s;
}

bool str_split(Str *rest, char sep, Str *part) {
    if (!rest->p) return false;
    size_t at = str_find_char(*rest, sep, 0);
    if (at == STR_NPOS) {
        *part = *rest;
        *rest = STR_NONE;
    } else {
        *part = str_slice(*rest, 0, at);
        *rest = str_from(*rest, at + 1);
    }
    return true;
}

bool str_to_u64(Str s, uint64_t *out) {
    uint64_t v = 0;
    if (!s.n) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

bool str_to_i64(Str s, int64_t *out) {
    bool neg = s.n && s.p[0] == '-';
    uint64_t v;
    if (!str_to_u64(str_from(s, neg), &v)) return false;
    if (v > (uint64_t)INT64_MAX + neg) return false;
    *out = neg ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* strtod is correctly rounded in glibc; the shape is checked first because it also takes hex, inf,
 * nan and blanks, and the process never calls setlocale(LC_NUMERIC). */
bool str_to_f64(Str s, double *out) {
    char z[512];
    size_t i = 0, digits = 0;
    if (!s.n || s.n >= sizeof z) return false;
    if (s.p[i] == '-') i++;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) digits++;
    if (i < s.n && s.p[i] == '.')
        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) digits++;
    if (!digits) return false;
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '-' || s.p[i] == '+')) i++;
        size_t at = i;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9') i++;
        if (i == at) return false;
    }
    if (i != s.n) return false;
    memcpy(z, s.p, s.n);
    z[s.n] = 0;
    double v = strtod(z, NULL);
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Multiply-and-fold over 8-byte words (the idea of wyhash): fast on short keys, and seeded. */
uint64_t str_hash(Str s, uint64_t seed) {
    uint64_t h = seed ^ 0x9E3779B97F4A7C15u, w;
    size_t i = 0;
    for (; i + 8 <= s.n; i += 8) {
        memcpy(&w, s.p + i, 8);
        h = mix(h ^ w, 0xD6E8FEB86659FD93u);
    }
    w = 0;
    if (s.n > i) memcpy(&w, s.p + i, s.n - i);
    return mix(h ^ w, 0xA0761D6478BD642Fu ^ s.n);
}
