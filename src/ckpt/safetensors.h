/* safetensors.h: one .safetensors file: its tensor table and its __metadata__ (formats.md
 * section 9).
 *
 * Opening reads the header (its length is checked against the file's first) and nothing of the
 * data. Tensors must cover the data exactly, without holes or overlaps. The table belongs to the
 * Safetensors and lives until safetensors_close(); it is immutable after opening.
 *
 *     Safetensors *st;
 *     if (!safetensors_open(path, &st, err)) return false;
 *     for (size_t i = 0; i < st->n_tensors; i++) ... st->tensors[i] ...
 *     safetensors_close(st); */
#ifndef MLXCEL_CKPT_SAFETENSORS_H
#define MLXCEL_CKPT_SAFETENSORS_H

#include "base/arena.h"
#include "base/os.h"
#include "ckpt/ckpt_tensor.h"

#define SAFETENSORS_MAX_HEADER_BYTES ((uint64_t)256 << 20)

typedef struct SafetensorsPair {
    Str key, value;
} SafetensorsPair;

typedef struct Safetensors {
    Str path;
    OsFile file;
    uint64_t data_offset; /* where tensor data starts in the file */
    /* n_tensors, in the order of the header; offsets count from the file's start. */
    const CkptTensor *tensors;
    size_t n_tensors;
    const SafetensorsPair *metadata; /* n_metadata, the strings of __metadata__ */
    size_t n_metadata;
    struct SafetensorsPrivate *priv;
} Safetensors;

/* ERR_CORRUPT, ERR_LIMIT, ERR_UNSUPPORTED, ERR_NOT_FOUND, ERR_IO. */
bool safetensors_open(const char *path, Safetensors **out, Err *err) MUST_CHECK;
void safetensors_close(Safetensors *st); /* NULL is allowed */

#endif
