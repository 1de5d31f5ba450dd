/* npy_write.h: float32 arrays as .npy files (NumPy's format, version 1), written row by row, and
 * read row by row. A file gets its name only when it is complete. */
#ifndef MLXCEL_CLI_NPY_WRITE_H
#define MLXCEL_CLI_NPY_WRITE_H

#include <stdio.h>

#include "base/os.h"

typedef struct NpyOut {
    FILE *f;
    char *temporary; /* NULL: written in place (a pipe, a device) */
    const char *path;
    uint64_t n_left; /* floats still to come */
} NpyOut;

bool npy_create(NpyOut *o, const char *path, const uint64_t *shape, int n_dims, Arena *a,
                Err *err) MUST_CHECK;
bool npy_put(NpyOut *o, const float *x, size_t n, Err *err) MUST_CHECK;
bool npy_finish(NpyOut *o, Err *err) MUST_CHECK;
void npy_drop(NpyOut *o); /* after a failure; fine after npy_finish too */

typedef struct NpyIn {
    OsFile file;
    bool open;
    uint64_t data_at, rows, cols;
} NpyIn;

bool npy_open(NpyIn *in, const char *path, Err *err) MUST_CHECK; /* a float32 matrix */
bool npy_row(const NpyIn *in, uint64_t row, float *out, Err *err) MUST_CHECK;
void npy_close(NpyIn *in);

#endif
