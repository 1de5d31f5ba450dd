#include "hub/hub_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/os.h"

enum { PIECE = 4 << 20 };

void hub_blob_init(HubBlob *b) { b->fd = b->lock_fd = -1; }

static bool make_parent(Str path, Err *err) {
    Buf b = {0};
    size_t slash = str_rfind(path, STR("/"));
    if (slash == STR_NPOS || slash == 0) return true;
    buf_put(&b, str_slice(path, 0, slash));
    bool ok = os_make_dirs(buf_cstr(&b), err);
    buf_deinit(&b);
    return ok;
}

bool hub_blob_lock(HubBlob *b, bool *mine, Err *err) {
    *mine = false;
    if (b->lock_fd < 0) {
        if (!make_parent(b->lock, err)) return false;
        b->lock_fd = open(b->lock.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (b->lock_fd < 0)
            return err_set(err, ERR_IO, "cannot open %s: %s", b->lock.p, strerror(errno));
    }
    *mine = flock(b->lock_fd, LOCK_EX | LOCK_NB) == 0;
    if (*mine || errno == EWOULDBLOCK || errno == EINTR) return true;
    return err_set(err, ERR_IO, "cannot lock %s: %s", b->lock.p, strerror(errno));
}

/* Feeds the check sums with a file's bytes; *n: how many there were. */
static bool read_all(const HubBlob *b, int fd, HubDigest *d, uint64_t *n, Err *err) {
    char *piece = mem_alloc(PIECE);
    ssize_t got = piece ? 1 : -1;
    bool ok = piece || err_nomem(err, "a piece of a file");
    *n = 0;
    while (ok && got > 0) {
        got = pread(fd, piece, PIECE, (off_t)*n);
        if (got < 0 && errno == EINTR) {
            got = 1;
        } else if (got < 0) {
            ok = err_set(err, ERR_IO, STR_F ": read failed: %s", STR_A(b->what), strerror(errno));
        } else {
            hub_digest_update(d, (Str){piece, (size_t)got});
            *n += (uint64_t)got;
            if (b->go && !b->go(b->ctx))
                ok = err_set(err, ERR_CANCELLED, "the download was stopped");
        }
    }
    mem_free(piece);
    return ok;
}

bool hub_blob_matches(const HubBlob *b, const char *path, Err *err) {
    struct stat st;
    HubDigest d;
    uint64_t n;
    *err = (Err){0};
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    if (b->size != UINT64_MAX && (uint64_t)st.st_size != b->size) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool ok = hub_digest_init(&d, b->sha256, b->oid, (uint64_t)st.st_size, err) &&
              read_all(b, fd, &d, &n, err);
    bool same = ok && hub_digest_check(&d, b->what, NULL);
    hub_digest_deinit(&d);
    close(fd);
    return same;
}

/* Somebody else may have completed it before the lock was ours. */
static bool is_there(HubBlob *b) {
    struct stat st;
    return lstat(b->path.p, &st) == 0 && S_ISREG(st.st_mode) &&
           (b->size == UINT64_MAX || (uint64_t)st.st_size == b->size);
}

bool hub_blob_restart(HubBlob *b, Err *err) {
    hub_digest_deinit(&b->digest);
    b->written = 0;
    if (ftruncate(b->fd, 0) != 0 || lseek(b->fd, 0, SEEK_SET) != 0)
        return err_set(err, ERR_IO, "cannot truncate %s: %s", b->part.p, strerror(errno));
    return hub_digest_init(&b->digest, b->sha256, b->oid, b->size, err);
}

bool hub_blob_open(HubBlob *b, Err *err) {
    if (!b->replace && is_there(b)) return b->done = true, true;
    struct stat st;
    if (!make_parent(b->path, err) || !make_parent(b->part, err)) return false;
    b->fd = open(b->part.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (b->fd < 0 || fstat(b->fd, &st) != 0)
        return err_set(err, ERR_IO, "cannot write %s: %s", b->part.p, strerror(errno));
    /* Of an unknown size nothing says where to go on; a longer one is no prefix. */
    if (b->size == UINT64_MAX || (uint64_t)st.st_size > b->size) return hub_blob_restart(b, err);
    if (!hub_digest_init(&b->digest, b->sha256, b->oid, b->size, err) ||
        !read_all(b, b->fd, &b->digest, &b->written, err))
        return false;
    return lseek(b->fd, (off_t)b->written, SEEK_SET) >= 0 ||
           err_set(err, ERR_IO, "cannot write %s: %s", b->part.p, strerror(errno));
}

bool hub_blob_write(HubBlob *b, Str bytes, Err *err) {
    for (size_t at = 0; at < bytes.n;) {
        ssize_t n = write(b->fd, bytes.p + at, bytes.n - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return err_set(err, ERR_IO, "cannot write %s: %s", b->part.p, strerror(errno));
        at += (size_t)n;
        b->written += (uint64_t)n;
    }
    hub_digest_update(&b->digest, bytes);
    return true;
}

bool hub_blob_finish(HubBlob *b, Err *err) {
    if (!hub_digest_check(&b->digest, b->what, err)) return false;
    if (fsync(b->fd) != 0 || rename(b->part.p, b->path.p) != 0)
        return err_set(err, ERR_IO, "cannot write %s: %s", b->path.p, strerror(errno));
    b->done = true;
    return true;
}

void hub_blob_close(HubBlob *b) {
    hub_digest_deinit(&b->digest);
    if (b->fd >= 0) close(b->fd);
    if (b->lock_fd >= 0) close(b->lock_fd);
    hub_blob_init(b);
}
