#include "hub/hub_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

enum { NOTES_MAX = 64 << 20 };

bool hub_make_folders(Str root, Str path, Err *err) {
    Buf b = {0};
    struct stat st;
    bool ok = true;
    buf_put(&b, root);
    buf_putc(&b, '/');
    size_t base = b.n;
    buf_put(&b, path);
    buf_cstr(&b);
    ok = buf_check(&b, "path", err);
    for (size_t i = base; ok && i < b.n; i++) {
        if (b.p[i] != '/') continue;
        b.p[i] = 0;
        if (mkdir(b.p, 0777) != 0 && errno != EEXIST)
            ok = err_set(err, ERR_IO, "cannot create %s: %s", b.p, strerror(errno));
        else if (lstat(b.p, &st) != 0 || !S_ISDIR(st.st_mode))
            ok = err_set(err, ERR_IO, "%s is no folder (a link?), so nothing is written into it",
                         b.p);
        b.p[i] = '/';
    }
    buf_deinit(&b);
    return ok;
}

bool hub_note(Str folder, const char *kind, Str name, Err *err) {
    Buf path = {0}, line = {0}, old = {0};
    bool ok = true;
    buf_putf(&path, "%s/" HUB_NOTES, folder.p);
    buf_putf(&line, "%s ", kind);
    buf_put(&line, name);
    buf_putc(&line, '\n');
    int fd = open(buf_cstr(&path), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        ok = err_set(err, ERR_IO, "cannot write %s: %s", path.p, strerror(errno));
    ok = ok && os_read_fd(fd, NOTES_MAX, &old, err);
    if (ok && str_find(buf_str(&old), buf_str(&line), 0) == STR_NPOS &&
        write(fd, line.p, line.n) != (ssize_t)line.n)
        ok = err_set(err, ERR_IO, "cannot write %s: %s", path.p, strerror(errno));
    if (fd >= 0) close(fd);
    buf_deinit(&path);
    buf_deinit(&line);
    buf_deinit(&old);
    return ok;
}

/* "../../blobs/BLOB", one "../" more for every folder in the file's path. */
static void put_target(Buf *b, Str path, Str blob) {
    buf_put(b, STR("../../"));
    for (size_t i = 0; i < path.n; i++)
        if (path.p[i] == '/') buf_put(b, STR("../"));
    buf_put(b, STR("blobs/"));
    buf_put(b, blob);
}

bool hub_place_link(Str folder, Str commit, Str path, Str blob, bool *made, Err *err) {
    Buf root = {0}, at = {0}, target = {0}, new = {0};
    char now[512];
    buf_putf(&root, "%s/snapshots/%s", folder.p, commit.p);
    buf_putf(&at, "%s/%s", buf_cstr(&root), path.p);
    put_target(&target, path, blob);
    *made = false;
    bool ok = os_make_dirs(buf_cstr(&root), err) && hub_make_folders(buf_str(&root), path, err);
    ssize_t n = ok ? readlink(buf_cstr(&at), now, sizeof now) : -1;
    if (ok && n >= 0 && str_eq((Str){now, (size_t)n}, buf_str(&target))) goto done;
    if (!ok) goto done;
    /* a link of its own name first, so that the old one is replaced in one step */
    buf_putf(&new, "%s.new%ld", at.p, (long)getpid());
    unlink(buf_cstr(&new));
    ok = symlink(buf_cstr(&target), new.p) == 0 && rename(new.p, at.p) == 0;
    if (!ok) {
        err_set(err, ERR_IO, "cannot make the link %s: %s", at.p, strerror(errno));
        unlink(new.p);
    }
    *made = ok;
done:
    buf_deinit(&root);
    buf_deinit(&at);
    buf_deinit(&target);
    buf_deinit(&new);
    return ok;
}

bool hub_place_ref(Str folder, Str revision, Str commit, Err *err) {
    Buf root = {0}, at = {0};
    buf_putf(&root, "%s/refs", folder.p);
    buf_putf(&at, "%s/%s", buf_cstr(&root), revision.p);
    bool ok = os_make_dirs(buf_cstr(&root), err) &&
              hub_make_folders(buf_str(&root), revision, err) &&
              os_write_file(buf_cstr(&at), commit, err);
    buf_deinit(&root);
    buf_deinit(&at);
    return ok;
}
