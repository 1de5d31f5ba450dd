/* tok_piece.h: what the stages of encoding pass on: growing lists of pieces of a text and of
 * ids. */
#ifndef MLXCEL_TEXT_TOK_PIECE_H
#define MLXCEL_TEXT_TOK_PIECE_H

#include "base/mem.h"
#include "text/tokenizer.h"

typedef struct Piece { /* bytes from..to of a text */
    uint32_t from, to;
} Piece;

typedef struct PieceList {
    Piece *p;
    size_t n, cap;
    bool failed; /* sticky: no memory */
} PieceList;

static inline bool pieces_grow(PieceList *l) {
    size_t cap = l->cap ? l->cap * 2 : 64;
    Piece *p = mem_resize_array(l->p, cap, sizeof *p);
    if (!p) {
        l->failed = true;
        return false;
    }
    l->p = p;
    l->cap = cap;
    return true;
}

static inline void pieces_push(PieceList *l, size_t from, size_t to) {
    if (l->n == l->cap && !pieces_grow(l)) return;
    l->p[l->n++] = (Piece){(uint32_t)from, (uint32_t)to};
}

static inline void pieces_deinit(PieceList *l) {
    mem_free(l->p);
    *l = (PieceList){0};
}

static inline Str piece_str(Str text, Piece p) {
    return (Str){text.p ? text.p + p.from : NULL, p.to - p.from};
}

/* What a text of n bytes may grow to while it is rewritten: steps of a file cannot multiply it
 * without end. */
static inline size_t text_growth_limit(size_t n) {
    size_t max = (n < TOK_MAX_TEXT_BYTES / 256 ? n * 256 : TOK_MAX_TEXT_BYTES) + ((size_t)1 << 20);
    return max < TOK_MAX_TEXT_BYTES ? max : TOK_MAX_TEXT_BYTES;
}

/* Code points of text that is known to be valid UTF-8. */
static inline uint32_t utf8_fast(const char *s, uint32_t *n) {
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) return *n = 1, p[0];
    if (p[0] < 0xE0) return *n = 2, (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (p[0] < 0xF0)
        return *n = 3, (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    return *n = 4, (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
                       (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

static inline uint32_t utf8_length_of(char lead) {
    unsigned char b = (unsigned char)lead;
    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

#endif
