#include "hub/hub_fetch.h"

#ifdef HAVE_DOWNLOAD
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/os.h"
#include "hub/hub_chunks.h"

enum { MAX_CONNECTIONS = 32, TICK_MS = 100 };

typedef enum JobState { JOB_NEW, JOB_OPEN, JOB_DONE } JobState;

typedef struct Job {
    HubItem *item;
    HubChunks chunks;
    JobState state;
    char address[2048];  /* where the contents are; "" until the endpoint said so */
    bool known;          /* one answer came, so more connections may be opened */
    bool restarted;      /* once */
    unsigned n_failures; /* since bytes came */
    unsigned n_busy, n_redirects;
    uint64_t not_before_ns;
} Job;

typedef struct Fetch Fetch;

typedef struct Conn {
    Fetch *f;
    CURL *easy;
    void *headers;
    Job *job; /* NULL: free */
    int slot;
    uint64_t from, n;
    bool ranged, brought;
    HubHead head;
    bool rewind; /* the server sends the file from its start instead of a range */
} Conn;

struct Fetch {
    const HubHttp *h;
    const HubFetchOptions *o;
    CURLM *multi;
    Job *jobs;
    size_t n_jobs, n_conns;
    Conn conns[MAX_CONNECTIONS];
    uint64_t told_ns;
    bool waiting;
    Err err; /* the first failure */
};

static bool failed(const Fetch *f) { return f->err.kind != ERR_NONE; }

static bool sink(void *ctx, Str bytes, Err *err) {
    Job *j = ctx;
    return hub_blob_write(&j->item->blob, bytes, err);
}

static void init_chunks(Fetch *f, Job *j) {
    hub_chunks_init(&j->chunks, j->item->blob.size, j->item->blob.written, f->o->chunk_bytes,
                    2 * f->n_conns, sink, j);
}

/* Everything of the file came: check it, give it its name. A wrong prefix of an earlier run gets a
 * second chance from the start. */
static void finish(Fetch *f, Job *j) {
    HubBlob *b = &j->item->blob;
    if (hub_blob_finish(b, &f->err)) {
        hub_blob_close(b);
        hub_chunks_deinit(&j->chunks);
        j->state = JOB_DONE;
        return;
    }
    if (f->err.kind != ERR_CORRUPT) return;
    if (j->restarted) {
        unlink(b->part.p); /* it leads nowhere */
        return;
    }
    j->restarted = true;
    f->err = (Err){0};
    if (!hub_blob_restart(b, &f->err)) return;
    hub_chunks_deinit(&j->chunks);
    init_chunks(f, j);
}

/* false: another process has it for now. */
static bool open_job(Fetch *f, Job *j) {
    HubBlob *b = &j->item->blob;
    bool mine;
    if (!hub_blob_lock(b, &mine, &f->err) || !mine) return false;
    if (!hub_blob_open(b, &f->err)) return false;
    if (b->done) {
        hub_blob_close(b);
        j->state = JOB_DONE;
        return true;
    }
    j->state = JOB_OPEN;
    init_chunks(f, j);
    if (hub_chunks_done(&j->chunks)) finish(f, j);
    return !failed(f);
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx) {
    Conn *c = ctx;
    hub_head_line(&c->head, (Str){p, size * n});
    return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx) {
    Conn *c = ctx;
    Job *j = c->job;
    Fetch *f = c->f;
    if (c->head.status != 200 && c->head.status != 206) return size * n; /* an error's page */
    bool right = c->head.status == 206 ? c->ranged && c->head.from == c->from
                                       : !c->ranged || (c->from == 0 && c->n == j->chunks.size);
    if (!right) {
        c->rewind = true;
        return 0;
    }
    j->known = c->brought = true;
    j->n_failures = 0;
    return hub_chunks_data(&j->chunks, c->slot, (Str){p, size * n}, &f->err) ? size * n : 0;
}

static bool start(Fetch *f, Conn *c, Job *j) {
    char range[64];
    const char *url = j->address[0] ? j->address : j->item->url.p;
    int slot = hub_chunks_take(&j->chunks);
    if (slot < 0) return false;
    *c = (Conn){.f = f, .job = j, .slot = slot, .easy = curl_easy_init()};
    c->head.linked_size = UINT64_MAX;
    hub_chunks_range(&j->chunks, slot, &c->from, &c->n);
    j->n_busy++;
    if (!c->easy) {
        err_nomem(&f->err, "a connection");
        return false;
    }
    if (!hub_http_setup(f->h, c->easy, url, &c->headers, &f->err)) return false;
    c->ranged = !j->chunks.whole;
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)c->from,
             (unsigned long long)(c->from + c->n - 1));
    if (c->ranged) curl_easy_setopt(c->easy, CURLOPT_RANGE, range);
    curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    return curl_multi_add_handle(f->multi, c->easy) == CURLM_OK ||
           err_nomem(&f->err, "a connection");
}

/* true: its range is complete. */
static bool release(Fetch *f, Conn *c, bool ended) {
    bool complete = true;
    if (c->easy) {
        curl_multi_remove_handle(f->multi, c->easy);
        curl_easy_cleanup(c->easy);
    }
    curl_slist_free_all(c->headers);
    if (c->job) {
        complete = hub_chunks_release(&c->job->chunks, c->slot, ended);
        c->job->n_busy--;
    }
    *c = (Conn){0};
    return complete;
}

/* All of the file anew, or over one connection; its other connections end. */
static void restart(Fetch *f, Job *j, bool whole) {
    for (size_t i = 0; i < f->n_conns; i++)
        if (f->conns[i].job == j) release(f, &f->conns[i], false);
    if (hub_blob_restart(&j->item->blob, &f->err)) hub_chunks_restart(&j->chunks, whole);
}

/* Later, unless it was too often. why: the last failure. */
static void postpone(Fetch *f, Job *j, unsigned retry_after_s, const Err *why) {
    if (j->n_failures++ >= f->h->n_retries) {
        f->err = *why;
        return;
    }
    unsigned step = j->n_failures < 7 ? j->n_failures - 1 : 6;
    uint64_t ms = retry_after_s ? retry_after_s * 1000u : 500u << step;
    j->not_before_ns = os_now_ns() + ms * 1000000u;
}

static void on_status(Fetch *f, Job *j, const HubHead *head, const char *next) {
    Err why = {0};
    Str what = j->item->blob.what;
    hub_status_error(f->h, head, what, &why);
    if (next[0]) {
        bool ok = hub_redirect_check(j->address[0] ? j->address : j->item->url.p, next, &f->err);
        if (ok && ++j->n_redirects > HUB_MAX_REDIRECTS)
            err_set(&f->err, ERR_IO, STR_F ": more than %d redirects", STR_A(what),
                    HUB_MAX_REDIRECTS);
        snprintf(j->address, sizeof j->address, "%s", next);
    } else if (head->status == 416 && !j->restarted) {
        j->restarted = true;
        restart(f, j, false);
    } else if (hub_status_passes(head->status)) {
        postpone(f, j, head->retry_after_s, &why);
    } else if (j->address[0] && (head->status == 401 || head->status == 403)) {
        j->address[0] = 0; /* a signed address has expired */
        j->n_redirects = 0;
        postpone(f, j, 0, &why);
    } else {
        f->err = why;
    }
}

/* What the hub says about the file must be what its listing said. */
static void check_head(Fetch *f, const Job *j, const HubHead *head) {
    const HubBlob *b = &j->item->blob;
    Str linked = str_c(head->linked_etag);
    if (b->size != UINT64_MAX && head->linked_size != UINT64_MAX && head->linked_size != b->size)
        err_set(&f->err, ERR_CORRUPT, STR_F " has %llu bytes, the listing says %llu",
                STR_A(b->what), (unsigned long long)head->linked_size, (unsigned long long)b->size);
    else if (b->sha256.n && linked.n == 64 && !str_ieq(linked, b->sha256))
        err_set(&f->err, ERR_CORRUPT, STR_F " has sha256 " STR_F ", the listing says " STR_F,
                STR_A(b->what), STR_A(linked), STR_A(b->sha256));
}

static void on_end(Fetch *f, Conn *c, CURLcode code) {
    Job *j = c->job;
    HubHead head = c->head;
    bool rewind = c->rewind, ok = code == CURLE_OK && (head.status == 200 || head.status == 206);
    char next[sizeof j->address] = "", *to = NULL;
    Err why = {0};
    if (head.status >= 300 && head.status < 400 &&
        curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to) == CURLE_OK && to)
        snprintf(next, sizeof next, "%s", to);
    bool complete = release(f, c, ok);
    if (failed(f)) return;
    check_head(f, j, &head);
    if (failed(f)) return;
    if (hub_chunks_done(&j->chunks)) { /* however the connections end that brought it */
        if (!j->n_busy) finish(f, j);
    } else if (rewind) {
        restart(f, j, true);
    } else if (code == CURLE_OK && !ok) {
        on_status(f, j, &head, next);
    } else if (code != CURLE_OK) {
        err_set(&why, ERR_IO, STR_F ": %s", STR_A(j->item->blob.what), curl_easy_strerror(code));
        postpone(f, j, 0, &why);
    } else if (!complete) {
        err_set(&why, ERR_IO, STR_F ": the server sends fewer bytes than were asked for",
                STR_A(j->item->blob.what));
        postpone(f, j, 0, &why);
    }
}

static void collect(Fetch *f) {
    CURLMsg *m;
    int left;
    while (!failed(f) && (m = curl_multi_info_read(f->multi, &left))) {
        Conn *c = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        on_end(f, c, code);
    }
}

/* Gives free connections something to do. */
static void assign(Fetch *f) {
    uint64_t now = os_now_ns();
    f->waiting = false;
    for (size_t i = 0, k = 0; k < f->n_jobs && !failed(f); k++) {
        Job *j = &f->jobs[k];
        while (i < f->n_conns && f->conns[i].job) i++;
        if (i == f->n_conns) return;
        if (j->state == JOB_NEW && now >= j->not_before_ns && !open_job(f, j) && !failed(f)) {
            f->waiting = true;
            j->not_before_ns = now + 200000000u;
        }
        while (j->state == JOB_OPEN && now >= j->not_before_ns && (j->known || !j->n_busy)) {
            while (i < f->n_conns && f->conns[i].job) i++;
            if (i == f->n_conns || !start(f, &f->conns[i], j)) break;
        }
    }
}

static bool all_done(const Fetch *f) {
    for (size_t k = 0; k < f->n_jobs; k++)
        if (f->jobs[k].state != JOB_DONE) return false;
    return true;
}

static void tell(Fetch *f, bool now) {
    HubProgress p = {.file = "", .n_files = f->n_jobs, .waiting = f->waiting};
    if (!f->o->progress || (!now && os_now_ns() - f->told_ns < TICK_MS * 1000000ull)) return;
    f->told_ns = os_now_ns();
    for (size_t k = 0; k < f->n_jobs; k++) {
        const Job *j = &f->jobs[k];
        uint64_t size = j->item->blob.size == UINT64_MAX ? 0 : j->item->blob.size;
        p.total_bytes += size;
        p.done_bytes += j->state == JOB_DONE   ? size
                        : j->state == JOB_OPEN ? hub_chunks_got(&j->chunks)
                                               : 0;
        p.n_done += j->state == JOB_DONE;
        if (j->state == JOB_OPEN && !p.file[0]) p.file = j->item->blob.what.p;
    }
    if (!f->o->progress(f->o->ctx, &p) && !failed(f))
        err_set(&f->err, ERR_CANCELLED,
                "the download was stopped; the same command goes on with it");
}

static void loop(Fetch *f) {
    int running;
    while (!failed(f) && !all_done(f)) {
        assign(f);
        if (failed(f)) break;
        curl_multi_perform(f->multi, &running);
        collect(f);
        tell(f, false);
        if (!failed(f) && !all_done(f))
            curl_multi_poll(f->multi, NULL, 0, running ? TICK_MS : 20, NULL);
    }
    tell(f, true);
}

bool hub_fetch(const HubHttp *h, HubItem *items, size_t n, const HubFetchOptions *o, Err *err) {
    Fetch *f = mem_calloc(1, sizeof *f);
    bool ok = f != NULL;
    if (ok) {
        *f = (Fetch){.h = h, .o = o, .multi = curl_multi_init(), .n_jobs = n};
        f->jobs = mem_calloc(n ? n : 1, sizeof *f->jobs);
        f->n_conns = o->n_connections < 1                 ? 1
                     : o->n_connections > MAX_CONNECTIONS ? MAX_CONNECTIONS
                                                          : o->n_connections;
        ok = f->multi && f->jobs;
    }
    if (!ok) err_nomem(err, "a download");
    if (ok) {
        for (size_t i = 0; i < n; i++) f->jobs[i].item = &items[i];
        loop(f);
        ok = !failed(f);
        if (!ok) *err = f->err;
        for (size_t i = 0; i < f->n_conns; i++) release(f, &f->conns[i], false);
        for (size_t i = 0; i < n; i++) {
            hub_chunks_deinit(&f->jobs[i].chunks);
            hub_blob_close(&items[i].blob);
        }
    }
    if (f) {
        mem_free(f->jobs);
        if (f->multi) curl_multi_cleanup(f->multi);
    }
    mem_free(f);
    return ok;
}

#endif
