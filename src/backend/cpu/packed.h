/* packed.h: weights as the CPU kernels read them. A matrix is tiles of 16 outputs (lanes), one
 * contiguous stream per tile; K goes in units of 32 columns (the last one padded; activations are
 * zero there). A unit of b-bit codes is b x 64 bytes, each 64 bytes = 4 for every lane; byte i of a
 * lane belongs to column 4q + i of the unit, q = 0..7:
 *
 *     8 bits   vector q
 *     4 bits   vector q/2, low nibble for even q, high for odd   (3, 2, 1 more bits: planes behind)
 *     2 bits   vector q/4, bits 2(q%4)
 *     1 bit    one vector, bit q
 *
 * Scales either ride in the stream (16-bit ones of groups of 32..256: 64 bytes, then the units they
 * belong to) or stand at the head of the tile (everything else), decoded to f32 once per tile.
 * Float codes: tiles of 32 outputs, a unit of the first 16, then one of the others. Code books: as
 * in the file (book.h). Plain floats: tiles of 32 outputs, [k][32].
 *
 *     in the stream, no bias, group 32   | g0 g1 (2 x 16 x 2 B) | unit g0 | unit g1 |
 *     with bias                          | scale bias           | unit |            */
#ifndef MLXCEL_BACKEND_CPU_PACKED_H
#define MLXCEL_BACKEND_CPU_PACKED_H

#include "backend/host.h"

enum { TILE_ROWS = 16, FLOAT_TILE_ROWS = 32, UNIT_COLS = 32, CODE_VEC = 64 };
enum { PACKED_NESTED = 256, PACKED_VECTOR_SPARE = 16 /* kernels read whole vectors */ };

typedef enum PackedKind {
    PACKED_CODES, /* integer codes: int8 activations, exact integer sums */
    PACKED_BOOK,  /* the same, expanded from a code book once per tile (book.h) */
    PACKED_WIDEN, /* codes that mean floats (fp8, nf4): widened in the tile, f32 multiply-adds */
    PACKED_FLOATS /* f32, f16, bf16 */
} PackedKind;

typedef struct PackedMat {
    PackedKind kind;
    uint32_t n, k, n_tiles, tile_rows;
    unsigned bits;
    uint32_t n_units; /* ceil(k / 32) */
    uint32_t group, n_groups;
    uint32_t units_per_group; /* 0: groups of 16, two to a unit */
    WOffset offset;
    int zero;           /* WOFFSET_CONST */
    int zero_base;      /* WOFFSET_ZERO: what zero_bits of each count from */
    unsigned zero_bits; /* 2, 4 or 8 */
    bool in_stream;     /* where the scales are */
    DType scale_dtype;  /* of scales, d, dmin, biases */
    WSub sub;           /* two-level scales (wform.h) */
    unsigned sub_bits;
    uint32_t super, n_super;
    float unit, nested_offset;
    bool has_table;
    bool row_acts;     /* wform.h */
    bool odd_codes;    /* PACKED_WIDEN: some are infinities or NaN, which no fast path widens */
    uint8_t table[16]; /* value + 128; zero is then 128 */
    float values[16];  /* PACKED_WIDEN of 4 bits */
    DType plain;       /* PACKED_FLOATS; PACKED_WIDEN of 8 bits: F8_E4M3 or F8_E5M2 */
    DType book;        /* PACKED_BOOK */
    uint32_t *perm;    /* column p of the codes multiplies activation perm[p]; or NULL. Owned */
    float *nested;     /* WSUB_NESTED: 256 values. Owned */
    size_t head_bytes, tile_bytes;
    unsigned char *data;
    size_t n_bytes;
} PackedMat;

struct BackWeight { /* of the cpu backend */
    uint32_t n, k;
    float *vector; /* WEIGHT_VECTOR, else NULL */
    int n_parts;
    PackedMat *parts; /* stacked along n */
};

/* Everything but the data, from the source's form. */
void packed_shape(const WeightSource *s, PackedMat *m);
/* What loading will allocate, whole pages. */
uint64_t packed_weight_bytes(WeightKind kind, const WeightSource *parts, int n_parts);
bool packed_weight_load(Pool *pool, WeightKind kind, const WeightSource *parts, int n_parts,
                        BackWeight **out, Err *err) MUST_CHECK;
void packed_weight_free(BackWeight *w);

/* Where things are. */
static inline size_t dtype_size16(DType t) { return t == DTYPE_F32 ? 4 : 2; }
/* Integer codes, multiplied with int8 activations? */
static inline bool packed_is_int(const PackedMat *m) { return m->kind <= PACKED_BOOK; }
static inline const unsigned char *packed_tile(const PackedMat *m, uint32_t tile) {
    return m->data + m->tile_bytes * tile;
}
/* Groups whose scales share 64 bytes in the stream, and the bytes of one such block. */
static inline uint32_t stream_groups(const PackedMat *m) {
    return m->offset == WOFFSET_BIAS ? 1 : 2;
}
static inline size_t stream_block_bytes(const PackedMat *m) {
    return CODE_VEC + (size_t)stream_groups(m) * m->units_per_group * m->bits * CODE_VEC;
}
static inline size_t stream_scale_at(const PackedMat *m, uint32_t g) {
    uint32_t n = stream_groups(m);
    return g / n * stream_block_bytes(m) + g % n * 32;
}
static inline size_t packed_unit_at(const PackedMat *m, uint32_t u) {
    size_t unit_bytes = (size_t)m->bits * CODE_VEC * (m->tile_rows / TILE_ROWS);
    if (!m->in_stream) return m->head_bytes + u * unit_bytes;
    uint32_t n = stream_groups(m) * m->units_per_group;
    return u / n * stream_block_bytes(m) + CODE_VEC + u % n * unit_bytes;
}
/* Groups of a tile: zero points take tile_rows * zero_bits / 8 bytes each. */
static inline int packed_zero_at(const PackedMat *m, const unsigned char *zeros, uint32_t g,
                                 uint32_t lane) {
    uint32_t per = 8 / m->zero_bits;
    const unsigned char *z = zeros + (size_t)g * m->tile_rows / per;
    return m->zero_base +
           (z[lane / per] >> m->zero_bits * (lane % per) & ((1 << m->zero_bits) - 1));
}
/* Parts of the head, in this order: scales or d; biases, zeros or dmin; sub; sub_min (sub_bits 4:
 * in the high nibble of sub). */
typedef struct PackedHead {
    size_t scale, bias, sub, sub_min, end;
} PackedHead;
PackedHead packed_head(const PackedMat *m);

/* One row, decoded: exactly scale * (value - zero), or fmaf(scale, value, bias). */
void packed_decode_row(const PackedMat *m, uint32_t row, float *out);
/* Columns [k0, k0 + n) of codes as they are packed (perm not undone); not of books. */
void packed_decode_cols(const PackedMat *m, uint32_t row, uint32_t k0, uint32_t n, float *out);

#endif
