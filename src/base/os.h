/* os.h: what we ask of the operating system: files, time, memory figures, processors, terminals. */
#ifndef MLXCEL_BASE_OS_H
#define MLXCEL_BASE_OS_H

#include "base/arena.h"
#include "base/buf.h"

typedef struct OsFile {
    /* -1 when closed; zero-initialised is NOT open: use OS_FILE_NONE or test path */
    int fd;
    uint64_t size_bytes;  /* at open */
    uint32_t ahead_bytes; /* what the device reads ahead of one request */
} OsFile;

/* Regular files only (a link to one is fine): a FIFO, device or directory is an error that says so,
 * and never blocks. */
bool os_file_open(OsFile *f, const char *path, Err *err) MUST_CHECK;
/* exactly n bytes */
bool os_file_read_at(const OsFile *f, uint64_t at, void *out, size_t n, Err *err) MUST_CHECK;
/* tells the page cache that a range will be read soon (it begins to read, and this returns), or is
 * done with */
void os_file_will_need(const OsFile *f, uint64_t at, uint64_t n);
void os_file_drop_cache(const OsFile *f, uint64_t at, uint64_t n);
void os_file_close(OsFile *f);
/* whole regular file */
bool os_read_file(const char *path, size_t max_bytes, Buf *out, Err *err) MUST_CHECK;
/* to end of file: pipes too */
bool os_read_fd(int fd, size_t max_bytes, Buf *out, Err *err) MUST_CHECK;
/* temporary beside it, then rename */
bool os_write_file(const char *path, Str data, Err *err) MUST_CHECK;

bool os_exists(const char *path);
bool os_is_dir(const char *path);
bool os_is_file(const char *path); /* regular, links followed */
/* sorted, no . and .. */
bool os_list_dir(const char *path, Arena *a, Str **names, size_t *n, Err *err) MUST_CHECK;
bool os_make_dirs(const char *path, Err *err) MUST_CHECK;

uint64_t os_now_ns(void);    /* monotonic */
uint64_t os_rss_bytes(void); /* resident now */
uint64_t os_rss_peak_bytes(void);
uint64_t os_memory_available_bytes(void); /* MemAvailable, capped by the cgroup limit */
/* usable: affinity mask, then cgroup quota rounded up; at least 1 */
int os_n_cpus(void);
int os_n_cores(void);            /* physical cores among them, at least 1 */
int os_terminal_columns(int fd); /* 80 if unknown */
uint64_t os_random_u64(void);

#endif
