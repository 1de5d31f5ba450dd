/* rm: what the notes say this program wrote, and nothing else. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "hub/hub_find.h"
#include "hub/hub_place.h"
#include "hub/hub_store.h"

enum { NOTES_MAX = 64 << 20 };

/* Counts and deletes one file; one that is gone already is fine. */
static bool drop(const char *path, bool dry, HubRemoval *out, Err *err) {
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISDIR(st.st_mode)) return true;
    if (S_ISREG(st.st_mode)) out->bytes += (uint64_t)st.st_size;
    out->n_files++;
    if (dry || unlink(path) == 0) return true;
    return err_set(err, ERR_IO, "cannot delete %s: %s", path, strerror(errno));
}

/* Does a link below dir lead to this blob? Somebody else's snapshot keeps it. */
static bool is_used(Str dir, Str blob, int depth, Arena *a) {
    Str *names;
    size_t n;
    char to[512];
    Err none;
    if (depth > 16 || !os_list_dir(dir.p, a, &names, &n, &none)) return false;
    for (size_t i = 0; i < n; i++) {
        Str path = hub_join(a, dir, "/", names[i]);
        if (!path.p) return true;
        ssize_t len = readlink(path.p, to, sizeof to);
        if (len > 0 && str_ends((Str){to, (size_t)len}, blob)) return true;
        if (len < 0 && os_is_dir(path.p) && is_used(path, blob, depth + 1, a)) return true;
    }
    return false;
}

/* Folders that are empty now, from the innermost out. */
static void prune(Str dir, int depth, Arena *a) {
    Str *names;
    size_t n;
    struct stat st;
    Err none;
    if (depth > 16 || !os_list_dir(dir.p, a, &names, &n, &none)) return;
    for (size_t i = 0; i < n; i++) {
        Str path = hub_join(a, dir, "/", names[i]);
        if (path.p && lstat(path.p, &st) == 0 && S_ISDIR(st.st_mode)) prune(path, depth + 1, a);
    }
    rmdir(dir.p);
}

/* One line of the notes. Blobs go last: links decide whether they are used. */
static bool remove_line(Str folder, Str line, bool blobs, bool dry, Arena *a, HubRemoval *out,
                        Err *err) {
    size_t blank = str_find_char(line, ' ', 0);
    if (blank == STR_NPOS) return true;
    Str kind = str_slice(line, 0, blank), name = str_from(line, blank + 1);
    bool blob = str_eqc(kind, "blob");
    if (blob != blobs || !hub_file_check(name, NULL)) return true;
    const char *under = blob ? "/blobs/" : str_eqc(kind, "ref") ? "/refs/" : "/snapshots/";
    Str path = hub_join(a, folder, under, name);
    Str part = hub_join(a, path, ".incomplete", STR_NONE);
    if (!path.p || !part.p) return err_nomem(err, "a path");
    if (blob && !dry && is_used(hub_join(a, folder, "/snapshots", STR_NONE), name, 0, a))
        return true;
    return drop(path.p, dry, out, err) && (!blob || drop(part.p, dry, out, err));
}

static bool remove_noted(Str folder, Str notes, bool dry, Arena *a, HubRemoval *out, Err *err) {
    for (int blobs = 0; blobs < 2; blobs++) {
        Str rest = notes, line;
        while (str_split(&rest, '\n', &line))
            if (!remove_line(folder, line, blobs == 1, dry, a, out, err)) return false;
    }
    return true;
}

static bool not_ours(const HubEnv *env, Str name, Str folder, Arena *a, Err *err) {
    Str path = STR_NONE;
    if (folder.p && os_is_dir(folder.p))
        return err_set(err, ERR_NOT_FOUND,
                       STR_F " was not downloaded by mlxcel, so it is not deleted; it is in %s",
                       STR_A(name), folder.p);
    if (!hub_store_find(env, name, a, &path, err)) return false;
    if (path.p)
        return err_set(err, ERR_NOT_FOUND,
                       STR_F " was not downloaded by mlxcel, so it is not deleted; it is at %s",
                       STR_A(name), path.p);
    return err_set(err, ERR_NOT_FOUND, STR_F " is not on this machine (mlxcel list shows what is)",
                   STR_A(name));
}

bool hub_store_remove(const HubEnv *env, Str name, bool dry, Arena *a, HubRemoval *out, Err *err) {
    HubName n;
    Buf notes = {0};
    Str folder;
    Err none;
    *out = (HubRemoval){0};
    if (!hub_name_parse(name, &n, &none)) return not_ours(env, name, STR_NONE, a, err);
    if (n.quant.n || n.revision.n)
        return err_set(err, ERR_INPUT,
                       "\"" STR_F "\" names a part; rm takes owner/name and deletes all of it",
                       STR_A(name));
    if (!hub_find_folder(env, &n, a, &folder, err)) return false;
    Str file = folder.p ? hub_join(a, folder, "/" HUB_NOTES, STR_NONE) : STR_NONE;
    if (!file.p || !os_is_file(file.p)) return not_ours(env, name, folder, a, err);
    bool ok = os_read_file(file.p, NOTES_MAX, &notes, err) &&
              remove_noted(folder, buf_str(&notes), dry, a, out, err);
    buf_deinit(&notes);
    out->folder = folder;
    if (!ok || dry) return ok;
    unlink(file.p);
    prune(folder, 0, a);
    /* The locks of its blobs are left: another process may wait on one. */
    return true;
}
