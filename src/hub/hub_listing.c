#include "hub/hub_listing.h"

#include <stdlib.h>

#include "hub/hub_name.h"
#include "json/json.h"

static Str text_of(const Json *j, const char *key) {
    Str s = STR_NONE;
    json_str(json_get(j, key), &s);
    return s;
}

static bool take_size(const Json *j, HubFile *f) {
    int64_t n;
    const Json *v = json_get(j, "size");
    if (!v || json_is(v, JSON_NULL)) return true;
    if (!json_i64(v, &n) || n < 0 || n > (int64_t)1 << 50) return false;
    f->size = (uint64_t)n;
    f->has_size = true;
    return true;
}

static bool take_file(const Json *j, HubFile *f, Arena *a, Err *err) {
    const Json *lfs = json_get(j, "lfs");
    Str path = text_of(j, json_get(j, "rfilename") ? "rfilename" : "path"), sha = STR_NONE,
        oid = text_of(j, json_get(j, "blobId") ? "blobId" : "oid");
    *f = (HubFile){0};
    if (!hub_file_check(path, err)) return false;
    if (!take_size(j, f) || (json_is(lfs, JSON_OBJECT) && !take_size(lfs, f)))
        return err_set(err, ERR_CORRUPT, "the hub's listing has no sensible size for " STR_F,
                       STR_A(path));
    if (json_is(lfs, JSON_OBJECT)) {
        sha = text_of(lfs, json_get(lfs, "sha256") ? "sha256" : "oid");
        if (str_starts(sha, STR("sha256:"))) sha = str_from(sha, 7);
        if (!hub_is_hex(sha, 64))
            return err_set(err, ERR_CORRUPT, "the hub's listing has no sha256 for " STR_F,
                           STR_A(path));
    }
    f->path = (Str){arena_dupz(a, path), path.n};
    f->sha256 = (Str){arena_dupz(a, sha), sha.n};
    if (!sha.n && hub_is_hex(oid, 40)) f->oid = (Str){arena_dupz(a, oid), oid.n};
    return (f->path.p && f->sha256.p) || err_nomem(err, "the list of files");
}

static int by_path(const void *a, const void *b) {
    return str_cmp(((const HubFile *)a)->path, ((const HubFile *)b)->path);
}

/* A name may be there once, and none may be a folder of another. Sorted. */
static bool check_names(const HubListing *l, Err *err) {
    for (size_t i = 1; i < l->n; i++) {
        Str a = l->files[i - 1].path, b = l->files[i].path;
        if (str_eq(a, b) || (str_starts(b, a) && b.p[a.n] == '/'))
            return err_set(err, ERR_CORRUPT,
                           "the repository lists \"" STR_F "\" twice, as a file and as a folder",
                           STR_A(a));
    }
    return true;
}

bool hub_listing_parse(Str text, Arena *a, HubListing *out, Err *err) {
    static const JsonOptions OPTIONS = {.max_bytes = 64 << 20, .dup = JSON_DUP_LAST};
    Json *doc;
    *out = (HubListing){0};
    if (!json_parse(text, &OPTIONS, a, &doc, err)) return err_wrap(err, "the hub's listing");
    const Json *list = json_is(doc, JSON_ARRAY) ? doc : json_get(doc, "siblings");
    if (!json_is(list, JSON_ARRAY))
        return err_set(err, ERR_CORRUPT, "the hub's answer has no list of files (\"siblings\")");
    if (list->n > HUB_MAX_FILES)
        return err_set(err, ERR_LIMIT, "the repository has %zu files, at most %d are accepted",
                       list->n, HUB_MAX_FILES);
    Str sha = text_of(doc, "sha");
    if (sha.n && !hub_is_blob_name(sha))
        return err_set(err, ERR_CORRUPT, "the hub names commit \"" STR_F "\"", STR_A(sha));
    out->commit = (Str){arena_dupz(a, sha), sha.n};
    out->files = arena_array(a, HubFile, list->n + 1);
    if (!out->files || !out->commit.p) return err_nomem(err, "the list of files");
    for (size_t i = 0; i < list->n; i++) {
        Str type = text_of(&list->items[i], "type");
        if (type.n && !str_eqc(type, "file")) continue;
        if (!take_file(&list->items[i], &out->files[out->n++], a, err)) return false;
    }
    qsort(out->files, out->n, sizeof *out->files, by_path);
    return check_names(out, err);
}
