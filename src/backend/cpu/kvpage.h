/* kvpage.h: how the CPU keeps 64 tokens of one head. Keys are transposed, so that 64 scores are
 * vectors of keys and need no horizontal sums; values lie token by token.
 *
 *     keys    f32 f16 bf16  [dim][64]               values  [64][cols16]
 *             q8_0          [dim][64] int8                  [64][cols16] int8
 *             q4_0          [dim/2][64], the low            [64][cols32/2]: of 32 columns, low
 *                           nibble is the even column       nibbles the first 16, high the others
 *
 * Latents (key and value in one) lie as values do. A plane of rate r has 64 / r rows in a page,
 * rounded up. Quantized: f16 scales behind, one per row. A token's bytes are its own: rows are
 * written by different threads. */
#ifndef MLXCEL_BACKEND_CPU_KVPAGE_H
#define MLXCEL_BACKEND_CPU_KVPAGE_H

#include "backend/host.h"
#include "base/mem.h"

typedef struct KvShape {
    PlaneType type;
    uint32_t cols;     /* of a head */
    uint32_t rows;     /* in a page */
    uint32_t pad_cols; /* values: columns as stored */
    size_t scale_at;   /* quantized: offset of the scales in a head */
    size_t head_bytes; /* multiple of 64 */
} KvShape;

static inline KvShape kv_shape(const ProgPlane *p, PlaneType type) {
    KvShape s = {.type = type, .cols = p->head_cols};
    uint32_t round = type == PLANE_Q4_0 ? 32 : 16, cols = s.cols;
    s.rows = host_page_rows(p);
    s.pad_cols = p->use == PLANE_KEY ? (type == PLANE_Q4_0 ? cols + cols % 2 : cols)
                                     : (cols + round - 1) / round * round;
    size_t n = (size_t)s.pad_cols * s.rows;
    s.scale_at = type == PLANE_F32                         ? 4 * n
                 : type == PLANE_F16 || type == PLANE_BF16 ? 2 * n
                 : type == PLANE_Q8_0                      ? n
                                                           : n / 2;
    s.scale_at = size_align(s.scale_at, 2);
    bool quantized = type == PLANE_Q8_0 || type == PLANE_Q4_0;
    s.head_bytes = size_align(s.scale_at + (quantized ? 2 * s.rows : 0), 64);
    return s;
}

/* Where column c of row t lies, counted in elements (q4_0: in bytes; the nibble by use). */
typedef struct KvPlace {
    size_t at;
    int shift;
} KvPlace;

static inline KvPlace kv_place(const KvShape *s, PlaneUse use, uint32_t t, uint32_t c) {
    if (use == PLANE_KEY) {
        if (s->type == PLANE_Q4_0) return (KvPlace){(size_t)(c / 2) * s->rows + t, c % 2 ? 4 : 0};
        return (KvPlace){(size_t)c * s->rows + t, 0};
    }
    if (s->type == PLANE_Q4_0)
        return (KvPlace){((size_t)t * s->pad_cols + c / 32 * 32) / 2 + c % 16, c % 32 < 16 ? 0 : 4};
    return (KvPlace){(size_t)t * s->pad_cols + c, 0};
}

#endif
