/* safetensors_write.h: writes a checkpoint of .safetensors files: one, or shards with an index
 * (formats.md section 9). The tensors are named first, with their shapes; the headers follow from
 * that, and data may then come in any order and in pieces, so nothing is ever held.
 *
 *     SafetensorsOut out;
 *     if (!safetensors_write_open(&out, dir, tensors, n, max_bytes, &arena, err)) return false;
 *     ok = safetensors_write_put(&out, i, at, bytes, n_bytes, err) ...      all bytes of all tensors
 *     ok = ok && safetensors_write_finish(&out, err);
 *     safetensors_write_drop(&out);
 *
 * Each file appears whole at finish or not at all (file_write.h). Everything is the arena's. */
#ifndef MLXCEL_CKPT_SAFETENSORS_WRITE_H
#define MLXCEL_CKPT_SAFETENSORS_WRITE_H

#include "ckpt/ckpt_tensor.h"
#include "ckpt/file_write.h"

typedef struct SafetensorsOut {
    const char *dir;
    CkptTensor *tensors; /* a copy, with i_file, offset and n_bytes filled in */
    uint64_t *written;   /* bytes per tensor */
    size_t n_tensors;
    FileOut *files;
    size_t n_files;
    uint64_t total_bytes;
    Arena *a;
} SafetensorsOut;

/* tensors: name, dtype, shape. A file is at most max_bytes of tensors long, unless one tensor is
 * longer. */
bool safetensors_write_open(SafetensorsOut *o, const char *dir, const CkptTensor *tensors, size_t n,
                            uint64_t max_bytes, Arena *a, Err *err) MUST_CHECK;
/* Bytes of tensor i from its byte `at`; each byte once. */
bool safetensors_write_put(SafetensorsOut *o, size_t i, uint64_t at, const void *bytes, size_t n,
                           Err *err) MUST_CHECK;
/* All tensors that were not put as holes: files whose heads can be read before there is data. */
bool safetensors_write_holes(SafetensorsOut *o, Err *err) MUST_CHECK;
/* ERR_INTERNAL if a tensor is not complete. */
bool safetensors_write_finish(SafetensorsOut *o, Err *err) MUST_CHECK;
void safetensors_write_drop(SafetensorsOut *o); /* zero-initialised is allowed */

#endif
