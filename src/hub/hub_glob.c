#include "hub/hub_glob.h"

/* The set that begins at pattern[at] == '['; *next is what follows it. An unclosed one is an
 * ordinary bracket. */
static bool in_set(Str pattern, size_t at, char c, size_t *next) {
    size_t i = at + 1;
    bool negated = i < pattern.n && pattern.p[i] == '!', found = false;
    if (negated) i++;
    for (size_t first = i; i < pattern.n && (pattern.p[i] != ']' || i == first); i++) {
        char lo = pattern.p[i], hi = lo;
        if (i + 2 < pattern.n && pattern.p[i + 1] == '-' && pattern.p[i + 2] != ']') {
            hi = pattern.p[i + 2];
            i += 2;
        }
        found = found ||
                ((unsigned char)c >= (unsigned char)lo && (unsigned char)c <= (unsigned char)hi);
    }
    *next = i + 1;
    if (i >= pattern.n) {
        *next = at + 1;
        return c == '[';
    }
    return found != negated;
}

/* Does one byte match the element at pattern[at]? */
static bool element(Str pattern, size_t at, char c, size_t *next) {
    *next = at + 1;
    if (pattern.p[at] == '?') return true;
    if (pattern.p[at] == '[') return in_set(pattern, at, c, next);
    return pattern.p[at] == c;
}

bool hub_glob(Str pattern, Str text) {
    size_t p = 0, t = 0, star = STR_NPOS, retry = 0, next;
    if (pattern.n && pattern.p[pattern.n - 1] == '/') return str_starts(text, pattern);
    while (t < text.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            retry = t;
        } else if (p < pattern.n && element(pattern, p, text.p[t], &next)) {
            p = next;
            t++;
        } else if (star != STR_NPOS) { /* the last star takes one byte more */
            p = star + 1;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*') p++;
    return p == pattern.n;
}
