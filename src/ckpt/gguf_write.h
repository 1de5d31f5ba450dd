/* gguf_write.h: writes one GGUF file, version 3 (formats.md section 2). Keys and tensors are named
 * first; data may then come in any order and in pieces, so nothing is ever held.
 *
 *     GgufOut out;
 *     gguf_write_init(&out, &arena);
 *     gguf_write_str(&out, "general.architecture", STR("llama"));
 *     ok = gguf_write_tensor(&out, &tensor, err) ...                      name, dtype, shape
 *     ok = ok && gguf_write_open(&out, path, err);
 *     ok = ok && gguf_write_put(&out, i, at, bytes, n_bytes, err) ...     all bytes of all tensors
 *     ok = ok && gguf_write_finish(&out, err);
 *     gguf_write_drop(&out);
 *
 * Errors of the keys are the Buf's, told by gguf_write_open(). The file appears whole at finish or
 * not at all. */
#ifndef MLXCEL_CKPT_GGUF_WRITE_H
#define MLXCEL_CKPT_GGUF_WRITE_H

#include "base/buf.h"
#include "ckpt/file_write.h"
#include "ckpt/gguf.h"

typedef struct GgufOut {
    Buf keys;
    uint64_t n_keys;
    CkptTensor *tensors; /* offset: from the file's start, after open */
    uint64_t *written;
    size_t n_tensors, cap;
    FileOut file;
    Arena *a;
} GgufOut;

void gguf_write_init(GgufOut *o, Arena *a);
void gguf_write_u32(GgufOut *o, const char *key, uint32_t v);
void gguf_write_f32(GgufOut *o, const char *key, float v);
void gguf_write_bool(GgufOut *o, const char *key, bool v);
void gguf_write_str(GgufOut *o, const char *key, Str v);
void gguf_write_strs(GgufOut *o, const char *key, const Str *v, size_t n);
void gguf_write_i32s(GgufOut *o, const char *key, const int32_t *v, size_t n);
void gguf_write_f32s(GgufOut *o, const char *key, const float *v, size_t n);
void gguf_write_bools(GgufOut *o, const char *key, const bool *v, size_t n);
void gguf_write_bytes(GgufOut *o, const char *key, Str first, Str second); /* as one array */
void gguf_write_value(GgufOut *o, const GgufValue *v); /* of another file, as it is */

/* ERR_LIMIT: a name of more than GGUF_MAX_NAME bytes, or more than GGUF_MAX_DIMS dimensions. */
bool gguf_write_tensor(GgufOut *o, const CkptTensor *t, Err *err) MUST_CHECK;
bool gguf_write_open(GgufOut *o, const char *path, Err *err) MUST_CHECK;
bool gguf_write_put(GgufOut *o, size_t i, uint64_t at, const void *bytes, size_t n,
                    Err *err) MUST_CHECK;
bool gguf_write_finish(GgufOut *o, Err *err) MUST_CHECK;
void gguf_write_drop(GgufOut *o);

#endif
