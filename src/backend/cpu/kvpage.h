/* kvpage.h: how the CPU keeps 64 tokens of one head. Keys are transposed, so that 64 scores are
 * vectors of keys and need no horizontal sums; values lie token by token.
 *
 *     keys    f32 f16 bf16  [dim][64]               values  [64][cols16]
 *             q8_0          [dim][64] int8                  [64][cols16] int8
 *             q4_0          [dim/2][64], the low            [64][cols32/2]: of 32 columns, low
 *                           nibble is the even column       nibbles the first 16, high the others
 *
 * Quantized: 64 f16 scales behind, one per token. A token's bytes are its own: rows are written by
 * different threads. */
#ifndef MLXCEL_BACKEND_CPU_KVPAGE_H
#define MLXCEL_BACKEND_CPU_KVPAGE_H

#include "backend/host.h"
#include "base/mem.h"

typedef struct KvShape {
    PlaneType type;
    uint32_t cols;     /* of a head */
    uint32_t pad_cols; /* values: columns as stored */
    size_t scale_at;   /* quantized: offset of the scales in a head */
    size_t head_bytes; /* multiple of 64 */
} KvShape;

static inline KvShape kv_shape(PlaneUse use, PlaneType type, uint32_t cols) {
    KvShape s = {.type = type, .cols = cols};
    uint32_t round = type == PLANE_Q4_0 ? 32 : 16;
    s.pad_cols = use == PLANE_KEY ? (type == PLANE_Q4_0 ? cols + cols % 2 : cols)
                                  : (cols + round - 1) / round * round;
    size_t n = (size_t)s.pad_cols * PAGE_TOKENS;
    s.scale_at = type == PLANE_F32                         ? 4 * n
                 : type == PLANE_F16 || type == PLANE_BF16 ? 2 * n
                 : type == PLANE_Q8_0                      ? n
                                                           : n / 2;
    bool quantized = type == PLANE_Q8_0 || type == PLANE_Q4_0;
    s.head_bytes = size_align(s.scale_at + (quantized ? 2 * PAGE_TOKENS : 0), 64);
    return s;
}

#endif
