#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "task/convert_plan.h"

enum { MAX_COPY_BYTES = 256 << 20 };

static const char *join(Arena *a, const char *dir, Str name) {
    Buf b = {0};
    buf_putf(&b, "%s/%.*s", dir, (int)name.n, name.p);
    const char *path = b.failed ? NULL : arena_dupz(a, buf_str(&b));
    buf_deinit(&b);
    return path;
}

bool outdir_open(OutDir *d, const char *path, bool force, Arena *a, Err *err) {
    Str *names, p = str_c(path);
    size_t n = 0;
    Buf b = {0};
    *d = (OutDir){0};
    while (p.n > 1 && p.p[p.n - 1] == '/') p.n--;
    d->path = arena_dupz(a, p);
    buf_putf(&b, "%.*s.part%ld", (int)p.n, p.p, (long)getpid());
    const char *temporary = arena_dupz(a, buf_str(&b));
    buf_deinit(&b);
    if (!d->path || !temporary) return err_nomem(err, "a path");
    if (p.n == 0) return err_set(err, ERR_INPUT, "the output has no name");
    if (os_exists(d->path) && !os_is_dir(d->path))
        return err_set(err, ERR_INPUT, "%s is a file; a directory is written", d->path);
    d->exists = os_exists(d->path);
    if (d->exists && !os_list_dir(d->path, a, &names, &n, err)) return false;
    if (n && !force)
        return err_set(err, ERR_INPUT, "%s is not empty (--force writes over it)", d->path);
    /* the directory itself must be new: nobody else's files are to be moved or removed */
    size_t slash = str_rfind(p, STR("/"));
    if (slash != STR_NPOS && slash > 0) {
        const char *parent = arena_dupz(a, str_slice(p, 0, slash));
        if (!parent) return err_nomem(err, "a path");
        if (!os_make_dirs(parent, err)) return false;
    }
    if (mkdir(temporary, 0777) != 0)
        return err_set(err, ERR_IO, "cannot create %s: %s", temporary, strerror(errno));
    d->temporary = temporary;
    return true;
}

/* Not weights, and nothing that is written anew or tells of another quantization. */
static bool is_companion(Str name) {
    static const char *const KINDS[] = {".json",  ".jsonl",    ".jinja", ".txt",
                                        ".model", ".tiktoken", ".py"};
    static const char *const NOT[] = {"config.json", "hf_quant_config.json", "quantize_config.json",
                                      "quant_config.json", "recipe.yaml"};
    if (str_ends(name, STR(".index.json")) || str_starts(name, STR("."))) return false;
    for (size_t i = 0; i < sizeof NOT / sizeof *NOT; i++)
        if (str_eqc(name, NOT[i])) return false;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (str_ends(name, str_c(KINDS[i]))) return true;
    return str_starts(name, STR("LICENSE"));
}

static bool copy_file(const char *from, const char *to, Err *err) {
    Buf text = {0};
    bool ok =
        os_read_file(from, MAX_COPY_BYTES, &text, err) && os_write_file(to, buf_str(&text), err);
    buf_deinit(&text);
    return ok;
}

/* A module of a sentence-transformers checkpoint ("1_Pooling", "2_Dense"): its files, as they are. */
static bool copy_module(const char *from, const char *to, Arena *a, Err *err) {
    Str *names;
    size_t n;
    if (!os_list_dir(from, a, &names, &n, err) || !os_make_dirs(to, err)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *file = join(a, from, names[i]), *copy = join(a, to, names[i]);
        if (!file || !copy) return err_nomem(err, "a path");
        if (os_is_file(file) && !copy_file(file, copy, err)) return false;
    }
    return true;
}

static bool is_module(Str name) {
    return name.n > 2 && name.p[0] >= '0' && name.p[0] <= '9' && name.p[1] == '_';
}

bool outdir_copy(const OutDir *d, const Checkpoint *ck, Arena *a, Err *err) {
    Str *names;
    size_t n;
    const char *dir = arena_dupz(a, ck->dir);
    if (!dir) return err_nomem(err, "a path");
    if (!os_list_dir(dir, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *from = join(a, dir, names[i]), *to = join(a, d->temporary, names[i]);
        if (!from || !to) return err_nomem(err, "a path");
        bool ok = true;
        if (is_module(names[i]) && os_is_dir(from))
            ok = copy_module(from, to, a, err);
        else if (is_companion(names[i]) && os_is_file(from))
            ok = copy_file(from, to, err);
        if (!ok) return false;
    }
    return true;
}

static bool is_weights(Str name) {
    return str_ends(name, STR(".safetensors")) || str_ends(name, STR(".safetensors.index.json"));
}

/* All files of one directory into another, which stays; one level down too. */
static bool move_files(const char *from_dir, const char *to_dir, Arena *a, Err *err) {
    Str *names;
    size_t n;
    if (!os_list_dir(from_dir, a, &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *from = join(a, from_dir, names[i]), *to = join(a, to_dir, names[i]);
        if (!from || !to) return err_nomem(err, "a path");
        if (os_is_dir(from) && os_is_dir(to)) {
            if (!move_files(from, to, a, err)) return false;
        } else if (rename(from, to) != 0) {
            return err_set(err, ERR_IO, "cannot write %s: %s", to, strerror(errno));
        }
    }
    return true;
}

/* Into a directory that has files: each new one takes its place, weights of before go. */
static bool move_over(const OutDir *d, Arena *a, Err *err) {
    Str *old;
    size_t n_old;
    if (!os_list_dir(d->path, a, &old, &n_old, err)) return false;
    for (size_t i = 0; i < n_old; i++) {
        const char *path = join(a, d->path, old[i]);
        if (!path) return err_nomem(err, "a path");
        if (is_weights(old[i]) && unlink(path) != 0)
            return err_set(err, ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    return move_files(d->temporary, d->path, a, err);
}

bool outdir_finish(OutDir *d, Arena *a, Err *err) {
    /* an empty directory gives way to the new one */
    if (rename(d->temporary, d->path) == 0) {
        d->temporary = NULL;
        return true;
    }
    if (!d->exists || (errno != ENOTEMPTY && errno != EEXIST))
        return err_set(err, ERR_IO, "cannot write %s: %s", d->path, strerror(errno));
    return move_over(d, a, err);
}

/* What we made, and modules below it; never followed through links. */
static void remove_tree(const char *dir, int depth, Arena *a) {
    Str *names;
    size_t n = 0;
    Err ignored = {0};
    if (os_list_dir(dir, a, &names, &n, &ignored))
        for (size_t i = 0; i < n; i++) {
            const char *path = join(a, dir, names[i]);
            if (path && unlink(path) != 0 && depth > 0) remove_tree(path, depth - 1, a);
        }
    rmdir(dir);
}

void outdir_drop(OutDir *d, Arena *a) {
    if (d->temporary) remove_tree(d->temporary, 1, a);
    d->temporary = NULL;
}
