/* plan.h: one scratch block for all values of a program. Liveness is one pass over the ops; values
 * whose lives do not overlap share memory, and an elementwise op may write over an operand that
 * dies there. Offsets are in columns per row: spaces are symbolic, so a value's bytes are known
 * only with the step's row counts. */
#ifndef MLXCEL_OP_PLAN_H
#define MLXCEL_OP_PLAN_H

#include "op/program.h"

typedef struct Plan {
    /* per value: where it begins, in floats per row; a view has its base's */
    const uint32_t *col_offset;
    uint32_t slab_cols[SPACE_MAX]; /* floats per row that each space's slab needs in all */
} Plan;

/* With room for max rows, value v lies at slab[space] + col_offset[v] * max, rows of
 * round-up-to-16(cols of its base) floats one after the other; a view begins col0 floats into each
 * row. So every row begins on a 64-byte line. */
static inline uint32_t plan_stride(uint32_t cols) { return (cols + 15) / 16 * 16; }

bool plan_make(const Program *p, Arena *a, Plan *out, Err *err) MUST_CHECK;

#endif
