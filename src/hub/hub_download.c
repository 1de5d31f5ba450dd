#include "hub/hub_download.h"

#include "base/os.h"
#include "hub/hub_place.h"

#ifdef HAVE_DOWNLOAD
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { CONNECTIONS = 8, CHUNK_BYTES = 4 << 20, STALL_S = 15 };

/* Between requests nothing moves, but the caller may want to stop. */
static bool go(void *ctx) {
    HubDownload *d = ctx;
    HubProgress p = {.file = "", .total_bytes = d->total_bytes};
    return !d->ask.progress || d->ask.progress(d->ask.ctx, &p);
}

static Str join(HubDownload *d, Str a, const char *b, Str c) {
    return hub_join(&d->arena, a, b, c);
}

static bool set_up(HubDownload *d, Err *err) {
    HubName *n = &d->name;
    uint64_t stall;
    if (!hub_env_read(&d->arena, &d->env, err) || !hub_name_parse(d->ask.name, n, err))
        return false;
    if (!n->owner.n) n->owner = d->env.default_org;
    d->revision = d->ask.revision.n ? d->ask.revision : n->revision;
    if (!d->revision.n) d->revision = STR("main");
    if (!hub_revision_check(d->revision, err)) return false;
    d->revision = join(d, d->revision, "", STR_NONE);
    d->repo = join(d, n->owner, "/", n->name);
    d->folder = hub_name_folder(n, &d->arena);
    d->folder = join(d, d->env.cache, "/", d->folder);
    d->ask.rule.quant = n->quant;
    d->http = (HubHttp){.env = &d->env, .go = go, .ctx = d, .n_retries = d->ask.n_retries};
    d->http.stall_s = STALL_S;
    if (str_to_u64(str_c(getenv("HF_HUB_DOWNLOAD_TIMEOUT")), &stall) && stall > 0 && stall < 3600)
        d->http.stall_s = (unsigned)stall;
    if (d->ask.models_dir.n && d->ask.local_dir.n)
        return err_set(err, ERR_INPUT,
                       "both models_dir and local_dir are given; one of them is accepted");
    if (d->ask.models_dir.n) {
        d->ask.local_dir = join(d, d->ask.models_dir, "/", d->repo);
        if (!d->ask.local_dir.p) return err_nomem(err, "a name");
    }
    if (!d->repo.p || !d->folder.p || !d->revision.p) return err_nomem(err, "a name");
    if (d->env.offline)
        return err_set(err, ERR_INPUT, STR_F " is not fetched: HF_HUB_OFFLINE is set",
                       STR_A(d->repo));
    return hub_endpoint_check(&d->env, err);
}

static void put_escaped(Buf *b, Str path) {
    static const char HEX[] = "0123456789ABCDEF";
    for (size_t i = 0; i < path.n; i++) {
        unsigned char c = (unsigned char)path.p[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            (c && strchr("/-_.~", c))) {
            buf_putc(b, (char)c);
        } else {
            buf_putc(b, '%');
            buf_putc(b, HEX[c >> 4]);
            buf_putc(b, HEX[c & 15]);
        }
    }
}

/* A slash in a revision is no separator: refs%2Fpr%2F1. */
static void put_revision(Buf *b, Str revision) {
    for (size_t i = 0; i < revision.n; i++)
        if (revision.p[i] == '/')
            buf_put(b, STR("%2F"));
        else
            buf_putc(b, revision.p[i]);
}

static Str resolve_url(HubDownload *d, Str path) {
    Buf b = {0};
    buf_putf(&b, "%s/%s/resolve/", d->env.endpoint.p, d->repo.p);
    put_revision(&b, d->commit.n ? d->commit : d->revision);
    buf_putc(&b, '/');
    put_escaped(&b, path);
    Str s = join(d, buf_str(&b), "", STR_NONE);
    buf_deinit(&b);
    return s;
}

/* One question about the repository; status 404 is an answer. */
static bool ask(HubDownload *d, const char *kind, const char *query, HubReply *r, Err *err) {
    Buf url = {0};
    buf_putf(&url, "%s/api/models/%s/%s/", d->env.endpoint.p, d->repo.p, kind);
    put_revision(&url, d->revision);
    buf_putf(&url, "%s", query);
    bool ok = hub_http_get(&d->http, buf_cstr(&url), false, r, err);
    buf_deinit(&url);
    return ok;
}

static bool list_files(HubDownload *d, Err *err) {
    HubReply r = {0};
    bool ok = ask(d, "revision", "?blobs=true", &r, err);
    HubHead first = r.head;
    /* copies of the hub that know only the tree */
    if (ok && r.head.status == 404 && !r.head.code[0])
        ok = ask(d, "tree", "?recursive=true", &r, err);
    if (ok && r.head.status != 200) ok = hub_status_error(&d->http, &first, d->repo, err);
    ok = ok && hub_listing_parse(buf_str(&r.body), &d->arena, &d->listing, err);
    if (!ok && err->kind == ERR_CORRUPT) err_wrap(err, "%s", d->repo.p);
    d->commit = d->listing.commit;
    buf_deinit(&r.body);
    return ok;
}

/* What a listing left out: size and hash of one file, and the commit. */
static bool ask_file(HubDownload *d, HubFile *f, Err *err) {
    HubReply r = {0};
    bool ok = hub_http_get(&d->http, resolve_url(d, f->path).p, true, &r, err);
    HubHead *h = &r.head;
    buf_deinit(&r.body);
    if (!ok) return false;
    if (h->status >= 400) return hub_status_error(&d->http, h, f->path, err);
    Str etag = str_c(h->linked_etag[0] ? h->linked_etag : h->etag), commit = str_c(h->commit);
    uint64_t size = h->linked_size != UINT64_MAX ? h->linked_size : h->length;
    if (!f->has_size && size != UINT64_MAX) f->size = size, f->has_size = true;
    if (hub_is_hex(etag, 64) && !f->sha256.n)
        f->sha256 = join(d, etag, "", STR_NONE);
    else if (!f->sha256.n && !f->oid.n && etag.n)
        f->etag = join(d, etag, "", STR_NONE);
    if (!d->commit.n && hub_is_blob_name(commit)) d->commit = join(d, commit, "", STR_NONE);
    return true;
}

/* The name of a file's blob: its hash as the hub says it. */
static Str blob_name(HubDownload *d, const HubFile *f) {
    char hex[65];
    Str key = f->sha256.n ? f->sha256 : f->oid.n ? f->oid : f->etag;
    if (key.n && hub_is_blob_name(key)) return key;
    Buf b = {0};
    buf_putf(&b, "%s %s %s", key.n ? key.p : "", d->commit.p, f->path.p);
    Str name = hub_digest_text(buf_str(&b), hex) ? join(d, STR("etag-"), "", str_c(hex)) : STR_NONE;
    buf_deinit(&b);
    return name;
}

Str hub_download_target(HubDownload *d, const HubFile *f) {
    if (d->ask.local_dir.n) return join(d, d->ask.local_dir, "/", f->path);
    return join(d, join(d, d->folder, "/blobs/", blob_name(d, f)), "", STR_NONE);
}

static bool fill_blob(HubDownload *d, const HubFile *f, HubBlob *b, Err *err) {
    *b = (HubBlob){.what = f->path,
                   .size = f->has_size ? f->size : UINT64_MAX,
                   .sha256 = f->sha256,
                   .oid = f->oid,
                   .go = go,
                   .ctx = d};
    hub_blob_init(b);
    Str name = blob_name(d, f);
    b->path = hub_download_target(d, f);
    if (d->ask.local_dir.n) {
        Str side = join(d, d->ask.local_dir, "/.cache/huggingface/download/", f->path);
        b->part = join(d, join(d, side, ".", name), ".incomplete", STR_NONE);
        b->lock = join(d, side, ".lock", STR_NONE);
    } else {
        Str locks = join(d, d->env.cache, "/.locks", str_from(d->folder, d->env.cache.n));
        b->part = join(d, b->path, ".incomplete", STR_NONE);
        b->lock = join(d, join(d, locks, "/", name), ".lock", STR_NONE);
    }
    return (name.p && b->path.p && b->part.p && b->lock.p) || err_nomem(err, "a path");
}

/* Bytes on disk already, whole or not. A local file with other contents makes room for the new one. */
static uint64_t bytes_there(const HubBlob *b) {
    struct stat st;
    if (lstat(b->path.p, &st) == 0 && S_ISREG(st.st_mode) &&
        (b->size == UINT64_MAX || (uint64_t)st.st_size == b->size))
        return b->size == UINT64_MAX ? 0 : b->size;
    return lstat(b->part.p, &st) == 0 && (uint64_t)st.st_size <= b->size ? (uint64_t)st.st_size : 0;
}

static bool count(HubDownload *d, Err *err) {
    HubBlob b;
    for (size_t i = 0; i < d->listing.n; i++) {
        const HubFile *f = &d->listing.files[i];
        if (!f->chosen) continue;
        if (!fill_blob(d, f, &b, err)) return false;
        d->n_files++;
        d->total_bytes += f->size;
        d->missing_bytes += f->has_size ? f->size - bytes_there(&b) : 0;
    }
    return true;
}

/* A chosen .gguf is what to open; else the folder. */
static bool find_path(HubDownload *d, Err *err) {
    Str root = d->ask.local_dir;
    if (!root.n) root = join(d, join(d, d->folder, "/snapshots/", d->commit), "", STR_NONE);
    const HubFile *first = NULL;
    bool plain = false;
    for (size_t i = 0; i < d->listing.n; i++) {
        const HubFile *f = &d->listing.files[i];
        if (!f->chosen) continue;
        plain = plain || str_ends(f->path, STR(".safetensors"));
        if (!first && hub_is_gguf_model(f->path)) first = f;
    }
    d->path = first && !plain ? join(d, root, "/", first->path) : root;
    return d->path.p || err_nomem(err, "a path");
}

bool hub_download_plan(HubDownload *d, Err *err) {
    if (!set_up(d, err) || !list_files(d, err)) return false;
    if (!hub_choose(d->listing.files, d->listing.n, &d->ask.rule, &d->arena, err))
        return err_wrap(err, "%s", d->repo.p);
    for (size_t i = 0; i < d->listing.n; i++) {
        HubFile *f = &d->listing.files[i];
        bool lacks = !f->has_size || (!f->sha256.n && !f->oid.n) || !d->commit.n;
        if (f->chosen && lacks && !ask_file(d, f, err)) return false;
    }
    if (!d->commit.n)
        return err_set(err, ERR_CORRUPT, "%s does not say which commit \"%s\" is",
                       d->env.endpoint.p, d->revision.p);
    return count(d, err) && find_path(d, err);
}

static bool check_space(const HubDownload *d, Str dir, Err *err) {
    struct statvfs v;
    if (statvfs(dir.p, &v) != 0) return true; /* some file systems do not say */
    uint64_t there = (uint64_t)v.f_bavail * v.f_frsize;
    return there >= d->missing_bytes ||
           err_set(err, ERR_LIMIT, STR_F " takes %.2f GB more, %s has %.2f GB left", STR_A(d->repo),
                   (double)d->missing_bytes / 1e9, dir.p, (double)there / 1e9);
}

/* Local files are the user's: a link in the way is refused; one with other contents stays until the
 * new one is complete. */
static bool prepare_local(HubDownload *d, const HubFile *f, HubBlob *b, bool *there, Err *err) {
    struct stat st;
    *there = hub_blob_matches(b, b->path.p, err);
    if (err->kind != ERR_NONE) return false;
    b->replace = lstat(b->path.p, &st) == 0;
    if (b->replace && !S_ISREG(st.st_mode))
        return err_set(err, ERR_IO, "%s is no regular file, so it is not replaced", b->path.p);
    return hub_make_folders(d->ask.local_dir, f->path, err);
}

static bool gather(HubDownload *d, HubItem *items, size_t *n, Err *err) {
    bool there = false;
    *n = 0;
    for (size_t i = 0; i < d->listing.n; i++) {
        const HubFile *f = &d->listing.files[i];
        HubItem *it = &items[*n];
        if (!f->chosen) continue;
        if (!fill_blob(d, f, &it->blob, err)) return false;
        if (d->ask.local_dir.n && !prepare_local(d, f, &it->blob, &there, err)) return false;
        if (d->ask.local_dir.n && there) continue;
        it->url = resolve_url(d, f->path);
        if (!it->url.p) return err_nomem(err, "an address");
        ++*n;
    }
    return true;
}

static bool note_new(HubDownload *d, const HubItem *items, size_t n, Err *err) {
    for (size_t i = 0; i < n; i++)
        if (!os_exists(items[i].blob.path.p) &&
            !hub_note(d->folder, "blob", hub_base_name(items[i].blob.path), err))
            return false;
    return true;
}

static bool place(HubDownload *d, Err *err) {
    bool made;
    for (size_t i = 0; i < d->listing.n; i++) {
        const HubFile *f = &d->listing.files[i];
        if (!f->chosen) continue;
        if (!hub_place_link(d->folder, d->commit, f->path, blob_name(d, f), &made, err))
            return false;
        Str name = join(d, d->commit, "/", f->path);
        if (made && !hub_note(d->folder, "link", name, err)) return false;
    }
    if (str_eq(d->revision, d->commit)) return true;
    Str ref = join(d, join(d, d->folder, "/refs/", d->revision), "", STR_NONE);
    bool known = os_exists(ref.p);
    return hub_place_ref(d->folder, d->revision, d->commit, err) &&
           (known || hub_note(d->folder, "ref", d->revision, err));
}

bool hub_download_run(HubDownload *d, Err *err) {
    HubFetchOptions o = {.n_connections = d->ask.n_connections ? d->ask.n_connections : CONNECTIONS,
                         .chunk_bytes = CHUNK_BYTES,
                         .progress = d->ask.progress,
                         .ctx = d->ask.ctx};
    HubItem *items = arena_array(&d->arena, HubItem, d->n_files);
    bool local = d->ask.local_dir.n > 0;
    Str dir = local ? d->ask.local_dir : d->folder;
    size_t n;
    if (!items) return err_nomem(err, "the list of files");
    if (d->ask.models_dir.n &&
        (!os_make_dirs(d->ask.models_dir.p, err) ||
         !hub_make_folders(d->ask.models_dir, join(d, d->repo, "/", STR_NONE), err)))
        return false;
    return os_make_dirs(dir.p, err) && check_space(d, dir, err) && gather(d, items, &n, err) &&
           (local || note_new(d, items, n, err)) && hub_fetch(&d->http, items, n, &o, err) &&
           (local || place(d, err));
}

#else

bool hub_download_plan(HubDownload *d, Err *err) {
    return err_set(err, ERR_UNSUPPORTED,
                   STR_F ": this build cannot download: libcurl and libcrypto were left out of it",
                   STR_A(d->ask.name));
}
bool hub_download_run(HubDownload *d, Err *err) { return hub_download_plan(d, err); }
Str hub_download_target(HubDownload *d, const HubFile *f) {
    return hub_join(&d->arena, d->folder, "/", f->path);
}

#endif

void hub_download_deinit(HubDownload *d) { arena_deinit(&d->arena); }
