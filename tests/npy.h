/* npy.h: reads the .npy files of the goldens (float32 or int32, C order). Tests only. */
#ifndef MLXCEL_TESTS_NPY_H
#define MLXCEL_TESTS_NPY_H

#include "base/buf.h"

typedef struct Npy {
    Buf bytes;
    const float *data; /* n floats, aligned; NULL: */
    const int32_t *ints;
    size_t shape[8], n;
    int n_dims;
} Npy;

bool npy_load(const char *path, Npy *out, Err *err) MUST_CHECK;
void npy_free(Npy *a);

#endif
