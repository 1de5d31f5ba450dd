/* float_rows.inc.h: what kernels of 32 outputs and named rows of f32 activations share: row r < R has
 * its sums in two vectors, a##r and b##r; n0 and n1 are how many outputs of each there are. For
 * kernels over FArgs `args`, one instruction set a file. */
#ifndef MLXCEL_BACKEND_CPU_FLOAT_ROWS_INC_H
#define MLXCEL_BACKEND_CPU_FLOAT_ROWS_INC_H

#include "backend/cpu/qkern.h"

#define F_DECLARE(r) vf a##r = vf_zero(), b##r = vf_zero();
#define F_OUT(r)                                                                                   \
    if (r < R) {                                                                                   \
        if (args->add) {                                                                           \
            a##r = vf_add(a##r, vf_load_n(args->add, n0));                                         \
            b##r = vf_add(b##r, vf_load_n(args->add + 16, n1));                                    \
        }                                                                                          \
        vf_store_n(args->out + r * args->out_stride, a##r, n0);                                    \
        if (n1) vf_store_n(args->out + r * args->out_stride + 16, b##r, n1);                       \
    }

#endif
