#include "ckpt/file_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static bool failed(const FileOut *f, Err *err) {
    return err_set(err, ERR_IO, "cannot write %s: %s", f->path, strerror(errno));
}

bool fileout_open(FileOut *f, const char *path, Arena *a, Err *err) {
    Buf name = {0};
    *f = FILEOUT_NONE;
    buf_putf(&name, "%s.part%ld", path, (long)getpid());
    f->path = arena_dupz(a, str_c(path));
    f->temporary = arena_dupz(a, buf_str(&name));
    bool ok = !name.failed && f->path && f->temporary;
    buf_deinit(&name);
    if (!ok) return err_nomem(err, "a path");
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    return f->fd >= 0 || failed(f, err);
}

bool fileout_put(FileOut *f, uint64_t at, const void *bytes, size_t n, Err *err) {
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = pwrite(f->fd, p, n > (1u << 30) ? (1u << 30) : n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return failed(f, err);
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return true;
}

bool fileout_finish(FileOut *f, Err *err) {
    int fd = f->fd;
    f->fd = -1;
    bool synced = fsync(fd) == 0 || errno == EINVAL;
    if (close(fd) != 0 || !synced || rename(f->temporary, f->path) != 0) return failed(f, err);
    f->temporary = NULL;
    return true;
}

void fileout_drop(FileOut *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    if (f->temporary) unlink(f->temporary);
    f->temporary = NULL;
}
