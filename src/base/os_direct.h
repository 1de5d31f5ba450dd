/* os_direct.h: reading a file past the page cache, for what is read once and is large. Nothing is
 * copied and no cache pages are made, which costs more processor time than a fast device leaves.
 *
 *     OsDirect d;
 *     if (os_direct_open(&d, &file)) {
 *         if (!os_direct_is_cached(&d, at, n)) got = os_direct_read(&d, at, buf, n);
 *         os_direct_close(&d);
 *     } */
#ifndef MLXCEL_BASE_OS_DIRECT_H
#define MLXCEL_BASE_OS_DIRECT_H

#include "base/os.h"

enum { OS_DIRECT_ALIGN = 4096 }; /* of positions, lengths and memory: enough for every device */

typedef struct OsDirect {
    int fd;
    void *map; /* never touched: only the kernel is asked about it. NULL: not to be had */
    size_t map_bytes;
} OsDirect;

/* false: the file system does not offer it, or the kernel would not say to us what is cached */
bool os_direct_open(OsDirect *d, const OsFile *f);
void os_direct_close(OsDirect *d);
/* Is (nearly) all of the range in the page cache, so that an ordinary read is the faster one? */
bool os_direct_is_cached(const OsDirect *d, uint64_t at, size_t n);
/* Up to n bytes; fewer at the end of the file. -1: failed, for whatever reason. */
ptrdiff_t os_direct_read(const OsDirect *d, uint64_t at, void *out, size_t n);

#endif
