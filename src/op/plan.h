/* plan.h: one scratch block for all values of a program. Liveness is one pass over the ops; values whose lives do not
 * overlap share memory, and an elementwise op may write over an operand that dies there. Offsets are in columns per row:
 * spaces are symbolic, so a value's bytes are known only with the step's row counts. */
#ifndef MLXCEL_OP_PLAN_H
#define MLXCEL_OP_PLAN_H

#include "op/program.h"

typedef struct Plan {
    const uint32_t *col_offset; /* per value: where its row begins in its space's slab, in floats; views resolved */
    uint32_t slab_cols[SPACE_COUNT]; /* floats per row of each space's slab: slab row stride differs from cols, see below */
} Plan;

/* Value v of n rows lies at slab_base[space] + col_offset[v] * max_rows, row-major [rows][row_stride(v)]. */
bool plan_make(const Program *p, Arena *a, Plan *out, Err *err) MUST_CHECK;

#endif
