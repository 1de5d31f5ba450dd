/* npy_read.h: arrays of .npy files (NumPy's format, versions 1 to 3): whole ones for --input, float32
 * matrices row by row for --kl-base.
 *
 *     mlxcel_tensor t = {.name = "pixel_values"};
 *     if (!npy_read(path, &arena, &t, err)) ...
 *
 * Little-endian numbers and booleans are accepted, in at most MLXCEL_MAX_DIMS dimensions: floats come
 * out as float32, the others as int64. An array in Fortran order is put into C order. The file must
 * be exactly as long as its header says. */
#ifndef MLXCEL_CLI_NPY_READ_H
#define MLXCEL_CLI_NPY_READ_H

#include "base/arena.h"
#include "base/os.h"
#include "mlxcel.h"

enum {
    NPY_HEADER_MAX = 16384,     /* bytes of a header; NumPy itself stops at 10000 */
    NPY_ELEMENTS_MAX = 1 << 30, /* of an array that is read whole */
};

typedef struct NpyKind NpyKind; /* a type of elements */

typedef struct NpyHeader {
    const NpyKind *kind;
    bool fortran; /* the first dimension is the innermost */
    uint32_t n_dims;
    uint64_t dims[MLXCEL_MAX_DIMS];
    uint64_t n; /* elements */
} NpyHeader;

/* The dictionary, as Python writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), } */
bool npy_parse_header(Str text, NpyHeader *out, Err *err) MUST_CHECK;

/* Fills all of out but its name; the data is the arena's. ERR_UNSUPPORTED: another type of elements.
 * ERR_INPUT: a float64 that is too large for a float32, a uint64 for an int64. */
bool npy_read(const char *path, Arena *a, mlxcel_tensor *out, Err *err) MUST_CHECK;

typedef struct NpyIn { /* a float32 matrix in C order */
    OsFile file;
    bool open;
    uint64_t data_at, rows, cols;
} NpyIn;

bool npy_open(NpyIn *in, const char *path, Err *err) MUST_CHECK;
bool npy_row(const NpyIn *in, uint64_t row, float *out, Err *err) MUST_CHECK;
void npy_close(NpyIn *in);

#endif
