/* file_write.h: a file that appears whole or not at all: written under another name beside its
 * place, at any offset, and renamed at the end.
 *
 *     FileOut f;
 *     if (!fileout_open(&f, path, &arena, err)) return false;
 *     bool ok = fileout_put(&f, at, bytes, n, err) && fileout_finish(&f, err);
 *     fileout_drop(&f);                                        after a finish: nothing to do */
#ifndef MLXCEL_CKPT_FILE_WRITE_H
#define MLXCEL_CKPT_FILE_WRITE_H

#include "base/arena.h"
#include "base/err.h"

typedef struct FileOut {
    int fd; /* -1: closed */
    const char *path, *temporary;
} FileOut;

#define FILEOUT_NONE ((FileOut){.fd = -1})

bool fileout_open(FileOut *f, const char *path, Arena *a, Err *err) MUST_CHECK;
bool fileout_put(FileOut *f, uint64_t at, const void *bytes, size_t n, Err *err) MUST_CHECK;
/* To disk, closed, renamed. */
bool fileout_finish(FileOut *f, Err *err) MUST_CHECK;
/* Removes what was not finished. */
void fileout_drop(FileOut *f);

#endif
