/* npy_write.h: arrays of float32 or int64 as .npy files (NumPy's format, version 1), row by row or
 * whole. A file gets its name only when it is complete. Reading: npy_read.h. */
#ifndef MLXCEL_CLI_NPY_WRITE_H
#define MLXCEL_CLI_NPY_WRITE_H

#include <stdio.h>

#include "base/os.h"
#include "mlxcel.h"

typedef struct NpyOut {
    FILE *f;
    char *temporary; /* NULL: written in place (a pipe, a device) */
    const char *path;
    int type;        /* mlxcel_type */
    uint64_t n_left; /* elements still to come */
} NpyOut;

bool npy_create(NpyOut *o, const char *path, int type, const uint64_t *shape, int n_dims, Arena *a,
                Err *err) MUST_CHECK;
/* n elements of the type it was made for */
bool npy_put(NpyOut *o, const void *x, size_t n, Err *err) MUST_CHECK;
bool npy_finish(NpyOut *o, Err *err) MUST_CHECK;
void npy_drop(NpyOut *o); /* after a failure; fine after npy_finish too */
/* all of it at once */
bool npy_write(const char *path, const mlxcel_tensor *t, Arena *a, Err *err) MUST_CHECK;

#endif
