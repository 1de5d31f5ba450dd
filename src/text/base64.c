#include "text/base64.h"

static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(Str s, char *out, size_t *n) {
    while (s.n && s.p[s.n - 1] == '=') s.n--;
    if (s.n % 4 == 1) return false;
    size_t k = 0;
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t i = 0; i < s.n; i++) {
        int d = digit(s.p[i]);
        if (d < 0) return false;
        bits = bits << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[k++] = (char)(bits >> n_bits);
        }
    }
    *n = k;
    return true;
}
