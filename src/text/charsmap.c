#include "text/charsmap.h"

#include "base/unicode.h"
#include "text/tok_piece.h"

static uint32_t unit_at(const Charsmap *m, size_t i) {
    const unsigned char *p = (const unsigned char *)m->trie.p + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool charsmap_open(Charsmap *m, Str blob, Err *err) {
    *m = (Charsmap){0};
    if (blob.n == 0) return true;
    if (blob.n < 4)
        return err_set(err, ERR_INPUT, "character map has %zu bytes, at least 4 are needed",
                       blob.n);
    m->trie = (Str){blob.p, 4};
    size_t n = unit_at(m, 0);
    if (n > blob.n - 4 || n % 4 != 0)
        return err_set(err, ERR_INPUT, "character map says its trie has %zu bytes, the map has %zu",
                       n, blob.n);
    m->trie = str_slice(blob, 4, 4 + n);
    m->pool = str_from(blob, 4 + n);
    return true;
}

/* Units of Darts-clone: label in the low byte, bit 8 says a value follows, the rest is the
 * offset to the children. */
static uint32_t unit_offset(uint32_t u) { return (u >> 10) << ((u & 0x200) >> 6); }

bool charsmap_find(const Charsmap *m, Str s, bool shortest, size_t *len, Str *replacement) {
    size_t n = m->trie.n / 4;
    if (n == 0) return false;
    size_t value = SIZE_MAX;
    uint32_t unit = unit_at(m, 0);
    size_t pos = unit_offset(unit);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == 0) break;
        pos ^= c;
        if (pos >= n) break;
        unit = unit_at(m, pos);
        if ((unit & 0x800000FFu) != c) break;
        pos ^= unit_offset(unit);
        if (unit & 0x100) {
            if (pos >= n) break;
            value = unit_at(m, pos) & 0x7FFFFFFFu;
            *len = i + 1;
            if (shortest) break;
        }
    }
    if (value == SIZE_MAX || value >= m->pool.n) return false;
    size_t end = str_find_char(m->pool, '\0', value);
    *replacement = str_slice(m->pool, value, end == STR_NPOS ? m->pool.n : end);
    return true;
}

bool charsmap_put_graphemes(const Charsmap *m, Str s, Buf *out) {
    bool changed = false;
    size_t len;
    Str with;
    for (size_t at = 0; at < s.n;) {
        size_t end = at + 1 < s.n && (unsigned char)s.p[at] < 0x80 &&
                             (unsigned char)s.p[at + 1] < 0x80 && s.p[at] != '\r'
                         ? at + 1
                         : unicode_grapheme_end(s, at);
        if (end - at < 6 && charsmap_find(m, str_slice(s, at, end), true, &len, &with)) {
            buf_put(out, with);
            changed = true;
        } else {
            for (size_t i = at; i < end;) {
                Str c = str_slice(s, i, i + utf8_length_of(s.p[i]));
                bool found = charsmap_find(m, c, true, &len, &with);
                buf_put(out, found ? with : c);
                changed = changed || found;
                i += c.n;
            }
        }
        at = end;
    }
    return changed;
}
