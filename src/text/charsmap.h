/* charsmap.h: SentencePiece's precompiled character map: a double array (Darts) of UTF-8
 * sequences whose values are offsets of NUL-terminated replacements. Every index is checked, so
 * a hostile map reads nothing outside. */
#ifndef MLXCEL_TEXT_CHARSMAP_H
#define MLXCEL_TEXT_CHARSMAP_H

#include "base/buf.h"
#include "base/err.h"

typedef struct Charsmap {
    Str trie; /* 32-bit little-endian units */
    Str pool; /* replacements */
} Charsmap;

/* blob: 32-bit length of the trie in bytes, the trie, the replacements. The map is a view of it. */
bool charsmap_open(Charsmap *m, Str blob, Err *err) MUST_CHECK;
/* The longest sequence that s begins with (shortest = false) or the shortest: its length and
 * replacement. */
bool charsmap_find(const Charsmap *m, Str s, bool shortest, size_t *len, Str *replacement);
/* As the tokenizers package applies it: grapheme by grapheme, then character by character. True
 * if something changed. */
bool charsmap_put_graphemes(const Charsmap *m, Str s, Buf *out);

#endif
