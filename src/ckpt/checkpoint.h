/* checkpoint.h: what lies at a path. A directory with config.json and safetensors (one file, or
 * shards with an index), a .gguf file (or the first of a split set), or a directory that holds just
 * one of those. Opening reads headers only: metadata, tensor table, names of the other files.
 * Nothing is allocated on a file's word: every size is checked against the file's length first.
 *
 *     Checkpoint *ck;
 *     if (!checkpoint_open(path, &ck, err)) return false;
 *     const CkptTensor *t = checkpoint_find(ck, STR("model.norm.weight"));
 *     checkpoint_read(ck, t, 0, buf, t->n_bytes, err);       any thread; pread underneath
 *     checkpoint_close(ck); */
#ifndef MLXCEL_CKPT_CHECKPOINT_H
#define MLXCEL_CKPT_CHECKPOINT_H

#include "base/buf.h"
#include "ckpt/ckpt_stream.h"
#include "ckpt/ckpt_tensor.h"
#include "ckpt/config.h"

enum { CKPT_MAX_FILES = 4096 }; /* weight files of one checkpoint */

typedef enum CkptKind { CKPT_SAFETENSORS, CKPT_GGUF } CkptKind;

typedef struct Checkpoint {
    CkptKind kind;
    Str path;          /* as given */
    Str dir;           /* directory of the files */
    Config config;     /* config.json's root, or the GGUF keys */
    Config generation; /* generation_config.json; .json NULL when absent. For a GGUF: .gguf set */
    /* "quantization" or "quantization_config" of config.json (or of its text_config), or the
     * settings in the other file that quantization_file names ("hf_quant_config.json",
     * "quantize_config.json", "quant_config.json"); NULL if none. */
    const Json *quantization;
    const char *quantization_file;
    const CkptTensor *tensors; /* n_tensors, in the order of the files */
    size_t n_tensors;
    const Str *files; /* paths of the weight files */
    size_t n_files;
    uint64_t tensor_bytes; /* sum of n_bytes */
    struct CheckpointPrivate *priv;
} Checkpoint;

bool checkpoint_open(const char *path, Checkpoint **out, Err *err) MUST_CHECK;
void checkpoint_close(Checkpoint *ck);
const CkptTensor *checkpoint_find(const Checkpoint *ck, Str name); /* NULL if absent */
/* n bytes of the tensor from byte `from`; large sequential reads are the caller's concern.
 * Thread-safe. */
bool checkpoint_read(const Checkpoint *ck, const CkptTensor *t, uint64_t from, void *out, size_t n,
                     Err *err) MUST_CHECK;
/* From here to checkpoint_stream_end, what checkpoint_read is asked for is read ahead in this order
 * (ckpt_stream.h). No other thread may be reading while it begins or ends. */
bool checkpoint_stream_begin(Checkpoint *ck, const CkptRange *ranges, size_t n, bool keep_cached,
                             Err *err) MUST_CHECK;
/* Ranges before this one will not be asked for again. */
void checkpoint_stream_pass(Checkpoint *ck, size_t i_range);
void checkpoint_stream_end(Checkpoint *ck);
void checkpoint_drop_cache(const Checkpoint *ck, const CkptRange *r);
/* A small file beside the weights ("tokenizer.json", "1_Pooling/config.json"): false with
 * ERR_NOT_FOUND when absent. Symlinks are followed; absolute names and ".." are not. */
bool checkpoint_read_file(const Checkpoint *ck, const char *name, size_t max_bytes, Buf *out,
                          Err *err) MUST_CHECK;

#endif
