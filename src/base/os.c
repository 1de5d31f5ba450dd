#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

static ErrKind errno_kind(int e) {
    return e == ENOENT || e == ENOTDIR ? ERR_NOT_FOUND : e == ENOMEM ? ERR_NOMEM : ERR_IO;
}

static const char *mode_name(mode_t m) {
    if (S_ISDIR(m)) return "a directory";
    if (S_ISFIFO(m)) return "a pipe";
    if (S_ISSOCK(m)) return "a socket";
    return "a device";
}

/* The device's own setting, 128 KiB where it cannot be learnt. A partition has it from its disk. */
static uint32_t device_ahead(dev_t dev) {
    static const char *const PLACES[][2] = {{"/sys/class/bdi", "read_ahead_kb"},
                                            {"/sys/dev/block", "queue/read_ahead_kb"},
                                            {"/sys/dev/block", "../queue/read_ahead_kb"}};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        char path[96], text[16];
        snprintf(path, sizeof path, "%s/%u:%u/%s", PLACES[i][0], major(dev), minor(dev),
                 PLACES[i][1]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t n = read(fd, text, sizeof text);
        uint64_t kib = 0;
        close(fd);
        for (ssize_t c = 0; c < n && text[c] >= '0' && text[c] <= '9'; c++)
            kib = kib * 10 + (uint64_t)(text[c] - '0');
        if (kib) return (uint32_t)(kib < 128 ? 128 : kib > 8192 ? 8192 : kib) << 10;
    }
    return 128 << 10;
}

/* O_NONBLOCK: opening a pipe without a writer must not hang; on regular files it changes
 * nothing. */
bool os_file_open(OsFile *f, const char *path, Err *err) {
    struct stat st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0)
        return err_set(err, errno_kind(errno), "cannot open %s: %s", path, strerror(errno));
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode)) {
        static const uint64_t LARGE = 16 << 20; /* others are hardly read ahead */
        f->size_bytes = (uint64_t)st.st_size;
        f->ahead_bytes = f->size_bytes < LARGE ? 128 << 10 : device_ahead(st.st_dev);
        return true;
    }
    os_file_close(f);
    return err_set(err, ERR_INPUT, "%s is %s, a regular file is needed", path,
                   mode_name(st.st_mode));
}

bool os_file_read_at(const OsFile *f, uint64_t at, void *out, size_t n, Err *err) {
    char *p = out;
    while (n > 0) {
        ssize_t got = pread(f->fd, p, n > (1u << 30) ? (1u << 30) : n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_set(err, ERR_IO, "read failed: %s", strerror(errno));
        if (got == 0) return err_set(err, ERR_CORRUPT, "file ends %zu bytes early (it shrank?)", n);
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

/* In pieces: of one call the kernel takes no more than the device's read-ahead. */
void os_file_will_need(const OsFile *f, uint64_t at, uint64_t n) {
    for (uint64_t end = at + n, piece = f->ahead_bytes; at < end; at += piece)
        posix_fadvise(f->fd, (off_t)at, (off_t)(end - at < piece ? end - at : piece),
                      POSIX_FADV_WILLNEED);
}

void os_file_drop_cache(const OsFile *f, uint64_t at, uint64_t n) {
    posix_fadvise(f->fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED);
}

void os_file_close(OsFile *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

bool os_read_file(const char *path, size_t max_bytes, Buf *out, Err *err) {
    OsFile f = {.fd = -1};
    if (!os_file_open(&f, path, err)) return false;
    bool ok = false;
    if (f.size_bytes > max_bytes) {
        err_set(err, ERR_LIMIT, "%s has %llu bytes, at most %zu are accepted", path,
                (unsigned long long)f.size_bytes, max_bytes);
        goto done;
    }
    buf_clear(out);
    if (out->max && out->max < f.size_bytes) out->max = f.size_bytes;
    if (!buf_reserve(out, f.size_bytes)) {
        err_nomem(err, path);
        goto done;
    }
    if (!os_file_read_at(&f, 0, out->p, f.size_bytes, err)) {
        err_wrap(err, "%s", path);
        goto done;
    }
    out->n = f.size_bytes;
    ok = true;
done:
    os_file_close(&f);
    return ok;
}

bool os_read_fd(int fd, size_t max_bytes, Buf *out, Err *err) {
    for (;;) {
        if (!buf_reserve(out, 65536)) return err_nomem(err, "input");
        ssize_t got = read(fd, out->p + out->n, 65536);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_set(err, ERR_IO, "read failed: %s", strerror(errno));
        if (got == 0) return true;
        out->n += (size_t)got;
        if (out->n > max_bytes)
            return err_set(err, ERR_LIMIT, "input is longer than %zu bytes", max_bytes);
    }
}

static bool write_all(int fd, Str data) {
    for (size_t at = 0; at < data.n;) {
        ssize_t n = write(fd, data.p + at, data.n - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

bool os_write_file(const char *path, Str data, Err *err) {
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.tmp%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return err_set(err, ERR_LIMIT, "path too long: %s", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    bool ok = write_all(fd, data);
    if (close(fd) != 0) ok = false;
    if (ok && rename(temporary, path) == 0) return true;
    err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    unlink(temporary);
    return false;
}

bool os_exists(const char *path) { return access(path, F_OK) == 0; }

bool os_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool os_is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int by_name(const void *a, const void *b) {
    return str_cmp(*(const Str *)a, *(const Str *)b);
}

bool os_list_dir(const char *path, Arena *a, Str **names, size_t *n, Err *err) {
    DIR *d = opendir(path);
    if (!d) return err_set(err, errno_kind(errno), "cannot list %s: %s", path, strerror(errno));
    size_t cap = 64, count = 0;
    Str *list = arena_array(a, Str, cap);
    bool ok = list != NULL;
    for (struct dirent *e; ok && (e = readdir(d));) {
        Str name = str_c(e->d_name);
        if (str_eqc(name, ".") || str_eqc(name, "..")) continue;
        if (count == cap) {
            Str *more = arena_array(a, Str, cap * 2);
            if (more) memcpy(more, list, cap * sizeof *list);
            list = more;
            cap *= 2;
        }
        ok = list && (list[count++] = arena_dup(a, name)).p;
    }
    closedir(d);
    if (!ok) return err_nomem(err, path);
    qsort(list, count, sizeof *list, by_name);
    *names = list;
    *n = count;
    return true;
}

bool os_make_dirs(const char *path, Err *err) {
    char z[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof z)
        return err_set(err, ERR_INPUT, "bad directory path of %zu bytes", n);
    memcpy(z, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (z[i] != '/' && z[i] != 0) continue;
        char c = z[i];
        z[i] = 0;
        if (mkdir(z, 0777) != 0 && errno != EEXIST)
            return err_set(err, ERR_IO, "cannot create %s: %s", z, strerror(errno));
        z[i] = c;
    }
    return true;
}

uint64_t os_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t os_random_u64(void) {
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != (ssize_t)sizeof v)
        v = os_now_ns() * 0x9E3779B97F4A7C15u;
    return v;
}
