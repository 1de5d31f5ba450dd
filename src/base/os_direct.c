#include "base/os_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* mincore tells only owners and those who may write; to others it says that all is cached. */
static bool may_ask(const OsFile *f, const char *path) {
    struct stat st;
    return (fstat(f->fd, &st) == 0 && st.st_uid == geteuid()) ||
           faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

bool os_direct_open(OsDirect *d, const OsFile *f) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/fd/%d",
             f->fd); /* the very file, whatever its name is now */
    *d = (OsDirect){.fd = -1};
    if (!may_ask(f, path)) return false;
    d->fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (d->fd < 0) return false;
    d->map_bytes = (size_t)f->size_bytes;
    void *p = mmap(NULL, d->map_bytes, PROT_READ, MAP_SHARED, f->fd, 0);
    d->map = p == MAP_FAILED ? NULL : p;
    return true;
}

void os_direct_close(OsDirect *d) {
    if (d->map) munmap(d->map, d->map_bytes);
    if (d->fd >= 0) close(d->fd);
    *d = (OsDirect){.fd = -1};
}

bool os_direct_is_cached(const OsDirect *d, uint64_t at, size_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char in_core[256];
    size_t n_pages = 0, n_cached = 0;
    if (!d->map || at >= d->map_bytes) return false;
    if (n > d->map_bytes - at) n = d->map_bytes - (size_t)at;
    for (size_t from = (size_t)at / page * page, end = (size_t)at + n; from < end;) {
        size_t pages = (end - from + page - 1) / page;
        if (pages > sizeof in_core) pages = sizeof in_core;
        if (mincore((char *)d->map + from, pages * page, in_core) != 0) return false;
        for (size_t i = 0; i < pages; i++) n_cached += in_core[i] & 1;
        n_pages += pages;
        from += pages * page;
    }
    return n_cached >= n_pages - n_pages / 8;
}

ptrdiff_t os_direct_read(const OsDirect *d, uint64_t at, void *out, size_t n) {
    size_t sum = 0;
    while (sum < n) {
        ssize_t got = pread(d->fd, (char *)out + sum, n - sum, (off_t)(at + sum));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        sum += (size_t)got;
        if (got == 0 || got % OS_DIRECT_ALIGN) break; /* the end of the file */
    }
    return (ptrdiff_t)sum;
}
