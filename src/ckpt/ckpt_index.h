/* ckpt_index.h: which .safetensors files of a directory make up a checkpoint (formats.md section
 * 9).
 *
 * In this order: model.safetensors if there is something of that name (an index beside it is
 * then ignored: it may be stale); the files that model.safetensors.index.json names; else
 * model*.safetensors, else every *.safetensors but adapters. */
#ifndef MLXCEL_CKPT_CKPT_INDEX_H
#define MLXCEL_CKPT_CKPT_INDEX_H

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"

typedef struct CkptIndex {
    Str *files; /* n_files plain names */
    size_t n_files;
    Map tensor_file; /* with an index: tensor name -> index into files; otherwise empty */
} CkptIndex;

/* names: what the directory holds. */
bool ckpt_index_find(const char *dir, const Str *names, size_t n_names, Arena *a, CkptIndex *out,
                     Err *err) MUST_CHECK;
/* Reads the text of an index file. */
bool ckpt_index_parse(Str text, Arena *a, CkptIndex *out, Err *err) MUST_CHECK;
void ckpt_index_deinit(CkptIndex *index);
bool ckpt_has_name(const Str *names, size_t n_names, const char *name);

#endif
