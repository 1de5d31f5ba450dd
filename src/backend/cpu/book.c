#include "backend/cpu/book.h"

#include <string.h>

#include "backend/cpu/turn.h"

/* Element i of a field lies at from + i / run * jump + i % run * width in the file's block. */
typedef struct BookField {
    uint8_t from, to, width, count, run, jump;
} BookField;

/* Fields wider than a byte are split into byte planes wherever bits have to be taken out of them. */
enum { MAX_FIELDS = 6 };
#define WORD_PLANES(from, to, jump)                                                                \
    {from, to, 1, 8, 1, jump}, {from + 1, to + 8, 1, 8, 1, jump},                                  \
        {from + 2, to + 16, 1, 8, 1, jump}, {                                                      \
        from + 3, to + 24, 1, 8, 1, jump                                                           \
    }
static const struct {
    DType type;
    BookField fields[MAX_FIELDS];
} BOOKS[] = {
    {DTYPE_IQ2_XXS, {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 32, 4, 8}, WORD_PLANES(6, 34, 8)}},
    {DTYPE_IQ2_XS,
     {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 32, 1, 2}, {3, 34, 1, 32, 1, 2}, {66, 66, 1, 8, 8, 0}}},
    {DTYPE_IQ2_S, {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 80, 80, 0}}},
    {DTYPE_IQ3_XXS, {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 64, 64, 0}, WORD_PLANES(66, 66, 4)}},
    {DTYPE_IQ3_S, {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 108, 108, 0}}},
    {DTYPE_IQ1_S,
     {{0, 0, 2, 1, 1, 0}, {2, 2, 1, 32, 32, 0}, {34, 34, 1, 8, 1, 2}, {35, 42, 1, 8, 1, 2}}},
    {DTYPE_IQ1_M, {{0, 0, 1, 48, 48, 0}, {48, 48, 1, 4, 1, 2}, {49, 52, 1, 4, 1, 2}}},
    {DTYPE_TQ1_0, {{0, 0, 4, 13, 13, 0}, {52, 52, 2, 1, 1, 0}}},
};

static const BookField *fields_of(DType t) {
    for (size_t i = 0; i < sizeof BOOKS / sizeof *BOOKS; i++)
        if (BOOKS[i].type == t) return BOOKS[i].fields;
    return NULL;
}

static size_t in_file(const BookField *f, unsigned i) {
    return f->from + (size_t)(i / f->run) * f->jump + (size_t)(i % f->run) * f->width;
}

static size_t in_tile(const BookField *f, unsigned i, uint32_t lane) {
    return (size_t)TILE_ROWS * f->to + ((size_t)i * TILE_ROWS + lane) * f->width;
}

void book_put(DType t, const uint8_t *block, uint32_t lane, unsigned char *tile_block) {
    for (const BookField *f = fields_of(t), *end = f + MAX_FIELDS; f < end && f->count; f++)
        for (unsigned i = 0; i < f->count; i++)
            memcpy(tile_block + in_tile(f, i, lane), block + in_file(f, i), f->width);
}

void book_put_rows(DType t, const uint8_t *const *rows, size_t at, unsigned char *tile_block) {
    for (const BookField *f = fields_of(t), *end = f + MAX_FIELDS; f < end && f->count; f++) {
        unsigned i = 0;
        for (; f->width == 1 && f->run >= f->count && i + TILE_ROWS <= f->count; i += TILE_ROWS)
            turn_bytes(rows, at + in_file(f, i), tile_block + in_tile(f, i, 0), TILE_ROWS);
        for (; i < f->count; i++)
            for (uint32_t lane = 0; lane < TILE_ROWS; lane++)
                memcpy(tile_block + in_tile(f, i, lane), rows[lane] + at + in_file(f, i), f->width);
    }
}

void book_get(DType t, const unsigned char *tile_block, uint32_t lane, uint8_t *block) {
    for (const BookField *f = fields_of(t), *end = f + MAX_FIELDS; f < end && f->count; f++)
        for (unsigned i = 0; i < f->count; i++)
            memcpy(block + in_file(f, i), tile_block + in_tile(f, i, lane), f->width);
}
