/* gguf.h: one GGUF file, version 2 or 3: its keys and its tensor table (formats.md section 2).
 *
 * Opening reads the metadata into memory once, growing as the parse goes, never by a count that
 * the file claims; strings are views of that memory. It is read, not mapped: a file cut while we
 * hold it must not kill the process. Tensor data is not touched. Everything belongs to the Gguf
 * and lives until gguf_close(); after opening it is immutable.
 *
 *     Gguf *g;
 *     if (!gguf_open(path, &g, err)) return false;
 *     const GgufValue *v = gguf_get(g, "tokenizer.ggml.tokens");
 *     const Str *tokens;  size_t n;
 *     if (v && !gguf_strs(v, &arena, &tokens, &n, err)) ...
 *     gguf_close(g); */
#ifndef MLXCEL_CKPT_GGUF_H
#define MLXCEL_CKPT_GGUF_H

#include "base/arena.h"
#include "base/os.h"
#include "ckpt/ckpt_tensor.h"

#define GGUF_MAX_META_BYTES ((uint64_t)256 << 20) /* keys and tensor table together */
enum {
    GGUF_MAX_KEYS = 1 << 16,
    GGUF_MAX_TENSORS = 1 << 20,
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_KEY = 65535, /* bytes */
    GGUF_MAX_NAME = 63,   /* of a tensor, bytes; the format's own limit */
    GGUF_MAX_NESTING = 4, /* arrays in arrays */
    GGUF_MAX_ALIGNMENT = 1 << 20
};

typedef enum GgufType {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} GgufType; /* the numbers are the format's */

typedef struct GgufValue {
    Str key;
    GgufType type;
    GgufType element; /* ARRAY: type of its n elements */
    uint64_t n;       /* ARRAY: elements; otherwise 1 */
    Str bytes;        /* STRING: the text; otherwise the stored little-endian bytes, unaligned */
} GgufValue;

typedef struct Gguf {
    Str path;
    OsFile file;
    uint32_t version;
    uint32_t alignment;
    uint64_t data_offset;  /* where tensor data starts in the file */
    const GgufValue *keys; /* n_keys, in the order of the file */
    size_t n_keys;
    /* n_tensors, in the order of the file; offsets count from the file's start. */
    const CkptTensor *tensors;
    size_t n_tensors;
    /* Of a split set, set by checkpoint_open(): its tensors are found through this one too. */
    struct Gguf *next_part;
    struct GgufPrivate *priv;
} Gguf;

/* ERR_CORRUPT, ERR_LIMIT, ERR_UNSUPPORTED, ERR_NOT_FOUND, ERR_IO. */
bool gguf_open(const char *path, Gguf **out, Err *err) MUST_CHECK;
void gguf_close(Gguf *g); /* NULL is allowed */

const GgufValue *gguf_get(const Gguf *g, const char *key); /* NULL if absent */
const GgufValue *gguf_find(const Gguf *g, Str key);
const CkptTensor *gguf_tensor(const Gguf *g, Str name); /* in this part or those after it */

/* Scalars. false: v is NULL, of another type, or does not fit. Files disagree about widths, so
 * any will do. */
bool gguf_int(const GgufValue *v, int64_t *out);  /* any integer type */
bool gguf_float(const GgufValue *v, double *out); /* f32, f64, any integer type */
bool gguf_bool(const GgufValue *v, bool *out);    /* bool; integers 0 and 1 */
bool gguf_str(const GgufValue *v, Str *out);

/* Arrays, decoded into the arena (strings: only the views are); a scalar counts as an array of
 * one. Ints take bools too, floats take integers, f32s only f32. Another element type is
 * ERR_CORRUPT naming the key. */
bool gguf_strs(const GgufValue *v, Arena *a, const Str **out, size_t *n, Err *err) MUST_CHECK;
bool gguf_ints(const GgufValue *v, Arena *a, const int64_t **out, size_t *n, Err *err) MUST_CHECK;
bool gguf_floats(const GgufValue *v, Arena *a, const double **out, size_t *n, Err *err) MUST_CHECK;
bool gguf_f32s(const GgufValue *v, Arena *a, const float **out, size_t *n, Err *err) MUST_CHECK;

/* Elements one by one, without an arena, of an ARRAY of scalars or strings; element.key is the
 * array's. gguf_next() gives false at the end, and at once for nested arrays.
 *
 *     GgufIter it = gguf_iter(v);
 *     while (gguf_next(&it, &element)) ... */
typedef struct GgufIter {
    const GgufValue *array;
    uint64_t i; /* elements passed */
    size_t at;  /* byte offset of the next one */
} GgufIter;
GgufIter gguf_iter(const GgufValue *array);
bool gguf_next(GgufIter *it, GgufValue *element);

const char *gguftype_name(GgufType t); /* "u32", "string", ... */

#endif
