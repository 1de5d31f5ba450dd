/* packed.h: weights as the CPU kernels read them. A matrix is tiles of 16 outputs (lanes), one
 * contiguous stream per tile; K goes in units of 32 columns. A unit of b-bit codes is b x 64 bytes,
 * each 64 bytes = 4 for every lane; byte i of a lane belongs to column 4q + i of the unit, q = 0..7:
 *
 *     8 bits   vector q
 *     4 bits   vector q/2, low nibble for even q, high for odd   (3, 2, 1 more bits: planes behind)
 *     2 bits   vector q/4, bits 2(q%4)
 *     1 bit    one vector, bit q
 *
 * Scales either ride in the stream (16-bit ones: 64 bytes, then the units they belong to) or stand at
 * the head of the tile (everything else), decoded to f32 once per tile; those that rows share lie
 * aside. Float codes, and integers whose groups no integer kernel takes (group 0): tiles of 32
 * outputs, a unit of the first 16, then one of the others. Code books: as in the file (book.h). Plain
 * floats: tiles of 32 outputs, [k][32].
 *
 *     in the stream, no bias, group 32   | g0 g1 (2 x 16 x 2 B) | unit g0 | unit g1 |
 *     with bias                          | scale bias           | unit |
 *
 * No tile is padded: the last one has the lanes that are left, everywhere, and the last unit only the
 * bits of the columns that are there (packed_edge.h). */
#ifndef MLXCEL_BACKEND_CPU_PACKED_H
#define MLXCEL_BACKEND_CPU_PACKED_H

#include <string.h>

#include "backend/host.h"
#include "base/fp.h"

enum { TILE_ROWS = 16, FLOAT_TILE_ROWS = 32, UNIT_COLS = 32, CODE_VEC = 64 };
/* Kernels read whole vectors. */
enum { PACKED_NESTED = 256, PACKED_SPARE = 2 * CODE_VEC, PACKED_VECTOR_SPARE = 16 };

typedef enum PackedKind {
    PACKED_CODES, /* integer codes: int8 activations, exact integer sums */
    PACKED_BOOK,  /* the same, expanded from a code book once per tile (book.h) */
    PACKED_WIDEN, /* codes that mean floats (fp8, nf4) or that have group 0: widened in the tile, f32
                     multiply-adds */
    PACKED_FLOATS /* f32, f16, bf16 */
} PackedKind;

typedef struct PackedMat {
    PackedKind kind;
    uint32_t n, k, n_tiles, tile_rows;
    unsigned bits;
    uint32_t n_units; /* ceil(k / 32) */
    uint32_t group, n_groups;
    uint32_t units_per_group;      /* 0: groups of 16, two to a unit */
    uint32_t n_scales, scale_cols; /* wform.h */
    WOffset offset;
    int zero;           /* WOFFSET_CONST */
    int zero_base;      /* WOFFSET_ZERO: what zero_bits of each count from */
    unsigned zero_bits; /* as many as the codes have */
    bool in_stream;     /* where the scales are */
    bool integers;      /* what the codes mean, also widened ones */
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

    /* What the matrix has once, all in one piece of memory (sides): */
    uint32_t *perm;     /* column p of the codes multiplies activation perm[p]; or NULL */
    uint32_t *scale_of; /* wform.h; or NULL */
    uint32_t *rows;     /* stored rows, where those matter and are not row0 .. row0 + n - 1 */
    float *nested;      /* WSUB_NESTED: 256 values */
    float *flat;        /* flat_super: d, from number flat_from on */
    /* flat_scale: the same with a lane for each scale from number shared_from on */
    unsigned char *shared; /* a head (PackedHead) with a lane for each row of scales from
                              shared_from on; tiles then have none */
    bool is_shared;
    WShare share;
    uint32_t row0, shared_from, n_shared, n_flat, n_scale_of;
    uint64_t flat_super, flat_from, flat_scale;
    void *sides;
    size_t side_bytes;

    uint32_t
        tail_mask[8]; /* of the last unit's vectors: the bits that are there; 0: no such unit */
    size_t head_bytes, tile_bytes; /* of a tile with all its lanes */
    unsigned char *data;           /* within BackWeight.data */
    size_t n_bytes;
} PackedMat;

struct BackWeight { /* of the cpu backend */
    uint32_t n, k;
    float *vector; /* WEIGHT_VECTOR, else NULL */
    int n_parts;
    PackedMat *parts; /* stacked along n */
    unsigned char *data;
    size_t n_bytes; /* of data */
};

/* Everything but the data, from the source's form. */
void packed_shape(const WeightSource *s, PackedMat *m);
/* What loading will allocate. */
uint64_t packed_weight_bytes(WeightKind kind, const WeightSource *parts, int n_parts);
/* Sets side_bytes and, once there are sides, the pointers into them. */
void packed_sides(const WeightSource *s, PackedMat *m);
/* Where the data of a further part ends behind so many bytes. */
size_t packed_data_bytes(size_t sum, const PackedMat *m);
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
/* Lanes of a tile, in memory too. */
static inline uint32_t packed_lanes(const PackedMat *m, uint32_t tile) {
    uint32_t left = m->n - tile * m->tile_rows;
    return left < m->tile_rows ? left : m->tile_rows;
}
/* Groups whose scales share a block of 4 bytes a lane in the stream, and the bytes of one such
 * block with its units. */
static inline uint32_t stream_groups(const PackedMat *m) {
    return m->offset == WOFFSET_BIAS ? 1 : 2;
}
static inline size_t stream_block_bytes(const PackedMat *m, uint32_t lanes) {
    return 4 * (size_t)lanes * (1 + (size_t)stream_groups(m) * m->units_per_group * m->bits);
}
static inline size_t stream_scale_at(const PackedMat *m, uint32_t lanes, uint32_t g) {
    uint32_t n = stream_groups(m);
    return g / n * stream_block_bytes(m, lanes) + g % n * 2 * (size_t)lanes;
}
/* A unit of a tile, its first 16 lanes; the other ones follow. */
size_t packed_unit_at(const PackedMat *m, uint32_t lanes, uint32_t u);
/* Of one half of a tile, h lanes: bytes from the first to the second. */
static inline size_t packed_half_bytes(const PackedMat *m, uint32_t h) {
    return (size_t)m->bits * 4 * h;
}
static inline size_t packed_zero_bytes(const PackedMat *m, uint32_t lanes) { /* of one scale */
    return ((size_t)lanes * m->zero_bits + 7) / 8;
}
static inline int packed_zero_at(const PackedMat *m, const unsigned char *zeros, uint32_t lanes,
                                 uint32_t s, uint32_t lane) {
    uint32_t bit = lane * m->zero_bits, v;
    const unsigned char *z = zeros + s * packed_zero_bytes(m, lanes) + bit / 8;
    v = z[0];
    if (bit % 8 + m->zero_bits > 8) v |= (uint32_t)z[1] << 8;
    return m->zero_base + (int)(v >> bit % 8 & ((1u << m->zero_bits) - 1));
}
/* Scales of one lane of a head. */
static inline uint32_t packed_head_scales(const PackedMat *m) {
    return m->flat_scale ? 1 : m->n_scales;
}
/* Which scale a group, or with group 0 a column, has. */
static inline uint32_t packed_scale_of(const PackedMat *m, uint32_t g) {
    return m->scale_of ? m->scale_of[g] : (m->group ? g * m->group : g) / m->scale_cols;
}
static inline uint32_t packed_stored_row(const PackedMat *m, uint32_t row) {
    return m->rows ? m->rows[row] : m->row0 + row;
}
static inline float packed_float(const unsigned char *p, DType t, size_t i) {
    uint32_t w = 0;
    if (t == DTYPE_F32) {
        memcpy(&w, p + 4 * i, 4);
        return fp_from_bits(w);
    }
    memcpy(&w, p + 2 * i, 2);
    return t == DTYPE_F16 ? fp_f16_to_f32((uint16_t)w) : fp_bf16_to_f32((uint16_t)w);
}
/* Parts of a head of so many lanes, in this order: scales or d; biases, zeros or dmin; sub; sub_min
 * (sub_bits 4: in the high nibble of sub). Of each, [scales][lanes]. */
typedef struct PackedHead {
    size_t scale, bias, sub, sub_min, end;
} PackedHead;
PackedHead packed_head(const PackedMat *m, uint32_t lanes);
/* The head that has the scales of a row, and its lane there. */
typedef struct PackedLane {
    const unsigned char *head;
    uint32_t lanes, lane;
} PackedLane;
static inline PackedLane packed_lane(const PackedMat *m, uint32_t row) {
    if (m->is_shared) {
        uint64_t r = wshare_row(&m->share, packed_stored_row(m, row));
        return (PackedLane){m->shared, m->n_shared, (uint32_t)(r - m->shared_from)};
    }
    uint32_t tile = row / m->tile_rows;
    return (PackedLane){packed_tile(m, tile), packed_lanes(m, tile), row % m->tile_rows};
}

/* One row, decoded: exactly scale * (value - zero), or fmaf(scale, value, bias). */
void packed_decode_row(const PackedMat *m, uint32_t row, float *out);
/* Columns [k0, k0 + n) of codes as they are packed (perm not undone); not of books. */
void packed_decode_cols(const PackedMat *m, uint32_t row, uint32_t k0, uint32_t n, float *out);

#endif
