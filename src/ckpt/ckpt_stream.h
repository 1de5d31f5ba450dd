/* ckpt_stream.h: the bytes that a loader will ask for, read ahead of it by threads of its own, in
 * large pieces.
 *
 * Three ways, piece by piece: what the page cache has is left for the loader's own reads. On a fast
 * device, and where the cache is not to be filled, pieces are read past the cache into a small
 * window and copied from there. On a slow one (SLOW_RATE) the cache is asked to read ahead: it costs
 * processor time that is there, and the next start finds the file in memory.
 *
 *     CkptStream *s = ckpt_stream_new(files, ranges, n, &opt, err);
 *     loader:  if (!ckpt_stream_take(s, i_file, at, out, n)) ... read it as always ...
 *              ckpt_stream_pass(s, i_range);
 *     ckpt_stream_free(s);
 *
 * take is for any thread. Nothing here can fail but for memory: what did not come is not taken, and
 * the loader's own read says why. */
#ifndef MLXCEL_CKPT_CKPT_STREAM_H
#define MLXCEL_CKPT_CKPT_STREAM_H

#include "base/os.h"

typedef struct CkptRange {
    int i_file;
    uint64_t at, n; /* bytes */
} CkptRange;

typedef struct CkptStreamOptions {
    bool keep_cached;  /* the files may stay in the page cache */
    bool never_direct; /* only ask the page cache to read ahead */
    /* Of one piece, a multiple of OS_DIRECT_ALIGN, 128 KiB at least; 0: by the sum of the ranges, none
     * where they are few bytes. */
    size_t slot_bytes;
} CkptStreamOptions;

typedef struct CkptStream CkptStream;

/* Ranges in the order in which they will be asked for; best mostly ascending in their files. What
 * two of them share is read once, by the page cache. */
CkptStream *ckpt_stream_new(const OsFile *const *files, size_t n_files, const CkptRange *ranges,
                            size_t n, const CkptStreamOptions *opt, Err *err);
void ckpt_stream_free(CkptStream *s); /* NULL is allowed */
bool ckpt_stream_take(CkptStream *s, int i_file, uint64_t at, void *out, size_t n) MUST_CHECK;
/* Ranges before this one will not be asked for any more. */
void ckpt_stream_pass(CkptStream *s, size_t i_range);
/* Memory that a stream over so many bytes takes. */
uint64_t ckpt_stream_window_bytes(uint64_t n_bytes);

#endif
