#include "ckpt/ckpt_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/os_direct.h"

enum {
    N_READERS = 2, /* while one's request is at the device, the other's waits there already */
    N_SLOTS = 8,
    MIN_SLOT = 512 << 10,
    MAX_SLOT = 4 << 20,
    MAX_GAP = 64 << 10,      /* between ranges of one piece: cheaper read than sought */
    AHEAD_BYTES = 64 << 20,  /* of the page cache's read-ahead */
    MIN_BYTES = 32 << 20,    /* less is read before any of this pays */
    JUDGED_BYTES = 48 << 20, /* after so many the device is known */
    SLOW_RATE = 1000         /* bytes per microsecond: 1 GB/s */
};

typedef enum PieceState {
    PIECE_AHEAD,   /* no reader has come to it */
    PIECE_CLAIMED, /* by one, with a slot kept for it */
    PIECE_READING, /* into its slot */
    PIECE_READY,
    PIECE_PLAIN /* not here (any more): to be read by whoever wants it */
} PieceState;

typedef struct Piece {
    uint64_t from, to;    /* wanted bytes of its file; what is read around them is aligned */
    uint64_t want, taken; /* bytes that ranges have in it, and that were asked for so far */
    int i_file, slot;
    uint32_t n_users; /* copying out of the slot */
    PieceState state;
    bool again; /* several ranges have bytes of it: it comes by the page cache, which keeps it */
    bool passed;
} Piece;

typedef struct PieceKey {
    int i_file;
    uint64_t from;
    size_t piece;
} PieceKey;

struct CkptStream {
    const OsFile *const *files;
    OsDirect *direct; /* per file; NULL: none of them can be read past the cache */
    size_t n_files;
    Piece *pieces;
    size_t n_pieces, cap;
    PieceKey *keys;                /* the same, by position */
    size_t *first_piece;           /* of each range, then n_pieces */
    unsigned char *pages, *window; /* N_SLOTS of slot_bytes, aligned in what was allocated */
    size_t slot_bytes;
    bool slot_used[N_SLOTS];
    int n_free;
    bool keep_cached, plain, stop;
    size_t next;                              /* piece for the next free reader */
    size_t behind;                            /* pieces before this one were passed */
    size_t asked;                             /* the furthest piece that anything was asked of */
    uint64_t rate_bytes, rate_ns, busy_since; /* of direct reads, while any was under way */
    int n_busy;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[N_READERS];
    int n_threads;
};

uint64_t ckpt_stream_window_bytes(uint64_t n_bytes) {
    uint64_t slot = n_bytes / (N_SLOTS * 32) / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN;
    if (n_bytes < MIN_BYTES) return 0;
    return N_SLOTS * (slot < MIN_SLOT ? MIN_SLOT : slot > MAX_SLOT ? MAX_SLOT : slot);
}

static bool piece_add(CkptStream *s, int i_file, uint64_t from, Err *err) {
    if (s->n_pieces == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        Piece *more = mem_resize_array(s->pieces, cap, sizeof *more);
        if (!more) return err_nomem(err, "read-ahead");
        s->pieces = more;
        s->cap = cap;
    }
    s->pieces[s->n_pieces++] = (Piece){.i_file = i_file, .from = from, .to = from, .slot = -1};
    return true;
}

static uint64_t read_from(const Piece *p) { return p->from / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN; }
static size_t read_bytes(const Piece *p) {
    return size_align((size_t)(p->to - read_from(p)), OS_DIRECT_ALIGN);
}

/* Extends the last piece, where the bytes begin near its end, and begins others. *first: the least of
 * these pieces and what it was. */
static bool add_bytes(CkptStream *s, int i_file, uint64_t at, uint64_t end, size_t *first,
                      Err *err) {
    while (at < end) {
        Piece *p = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;
        if (!p || p->i_file != i_file || at < p->to || at - p->to > MAX_GAP ||
            at >= read_from(p) + s->slot_bytes) {
            if (!piece_add(s, i_file, at, err)) return false;
            p = &s->pieces[s->n_pieces - 1];
        }
        if (s->n_pieces - 1 < *first) *first = s->n_pieces - 1;
        uint64_t most = read_from(p) + s->slot_bytes;
        p->to = at = end < most ? end : most;
    }
    return true;
}

/* What pieces of the ranges before have is not read a second time. */
static bool cover(CkptStream *s, const CkptRange *r, size_t *first, Err *err) {
    uint64_t at = r->at, end = at + r->n;
    const size_t n = s->n_pieces;
    size_t i = n;
    *first = n;
    while (i > 0 && s->pieces[i - 1].i_file == r->i_file && s->pieces[i - 1].to > at) i--;
    for (; i < n && at < end; i++) {
        Piece *p = &s->pieces[i];
        const uint64_t from = p->from, to = p->to;
        if (to <= at || from >= end) continue;
        p->again = true;
        if (i < *first) *first = i;
        if (from > at && !add_bytes(s, r->i_file, at, from, first, err)) return false;
        at = to;
    }
    return add_bytes(s, r->i_file, at, end, first, err);
}

static int by_position(const void *a, const void *b) {
    const PieceKey *x = a, *y = b;
    if (x->i_file != y->i_file) return x->i_file < y->i_file ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* The piece that has the byte, or NULL. */
static Piece *piece_find(const CkptStream *s, int i_file, uint64_t at) {
    size_t lo = 0, hi = s->n_pieces;
    while (lo < hi) { /* the last that begins no later */
        size_t mid = lo + (hi - lo) / 2;
        const PieceKey *k = &s->keys[mid];
        if (k->i_file < i_file || (k->i_file == i_file && k->from <= at))
            lo = mid + 1;
        else
            hi = mid;
    }
    Piece *p = lo ? &s->pieces[s->keys[lo - 1].piece] : NULL;
    return p && p->i_file == i_file && at < p->to ? p : NULL;
}

static uint64_t part_of(const Piece *p, uint64_t at, uint64_t n) {
    return n < p->to - at ? n : p->to - at;
}

static bool plan(CkptStream *s, const CkptRange *ranges, size_t n, Err *err) {
    if (!(s->first_piece = mem_calloc(n + 1, sizeof *s->first_piece)))
        return err_nomem(err, "read-ahead");
    for (size_t i = 0; i < n; i++)
        if (!cover(s, &ranges[i], &s->first_piece[i], err)) return false;
    s->first_piece[n] = s->n_pieces;
    for (size_t i = n; i-- > 0;) /* the least of any that follow */
        if (s->first_piece[i] > s->first_piece[i + 1]) s->first_piece[i] = s->first_piece[i + 1];
    if (!(s->keys = mem_calloc(s->n_pieces + 1, sizeof *s->keys)))
        return err_nomem(err, "read-ahead");
    for (size_t i = 0; i < s->n_pieces; i++)
        s->keys[i] = (PieceKey){s->pieces[i].i_file, s->pieces[i].from, i};
    qsort(s->keys, s->n_pieces, sizeof *s->keys, by_position);
    for (size_t i = 0; i < n; i++) {
        Piece *p;
        for (uint64_t at = ranges[i].at, end = at + ranges[i].n, part;
             at < end && (p = piece_find(s, ranges[i].i_file, at)) != NULL; at += part)
            p->want += part = part_of(p, at, end - at);
    }
    return true;
}

static void slot_free(CkptStream *s, Piece *p, PieceState state) {
    s->slot_used[p->slot] = false;
    s->n_free++;
    p->slot = -1;
    p->state = state;
    pthread_cond_broadcast(&s->changed);
}

static void maybe_done(CkptStream *s, Piece *p) {
    if (p->state == PIECE_READY && !p->n_users && (p->passed || p->taken >= p->want))
        slot_free(s, p, PIECE_PLAIN);
}

/* How fast the device is: bytes over the time in which any request was at it. */
static void busy_begin(CkptStream *s) {
    if (s->n_busy++ == 0) s->busy_since = os_now_ns();
}

static void busy_end(CkptStream *s, size_t n) {
    s->rate_bytes += n;
    if (--s->n_busy == 0) s->rate_ns += os_now_ns() - s->busy_since;
    if (s->keep_cached && s->rate_bytes >= JUDGED_BYTES && s->rate_ns &&
        s->rate_bytes < s->rate_ns / 1000 * SLOW_RATE)
        s->plain = true;
}

static bool by_cache(const CkptStream *s, const Piece *p) {
    return s->plain || p->again || !s->direct || s->direct[p->i_file].fd < 0;
}

/* Is the next piece for later: without a slot, or so far ahead that the cache might drop it again? */
static bool must_wait(const CkptStream *s) {
    return s->n_free == 0 ||
           (by_cache(s, &s->pieces[s->next]) && s->next > s->asked + AHEAD_BYTES / s->slot_bytes);
}

/* One piece past the page cache; the lock is held, but not while reading. */
static void read_direct(CkptStream *s, Piece *p) {
    int slot = 0;
    while (s->slot_used[slot]) slot++;
    s->slot_used[slot] = true;
    s->n_free--;
    p->slot = slot;
    p->state = PIECE_READING;
    busy_begin(s);
    pthread_mutex_unlock(&s->lock);
    const OsDirect *d = &s->direct[p->i_file];
    ptrdiff_t got =
        os_direct_read(d, read_from(p), s->window + (size_t)slot * s->slot_bytes, read_bytes(p));
    pthread_mutex_lock(&s->lock);
    busy_end(s, read_bytes(p));
    p->state = PIECE_READY;
    if (got < 0) s->plain = true; /* it was promised when the file was opened: no more of that */
    if (got < 0 || (uint64_t)got < p->to - read_from(p))
        slot_free(s, p, PIECE_PLAIN);
    else
        maybe_done(s, p);
    pthread_cond_broadcast(&s->changed);
}

/* Is the next piece to be left to the page cache? Then it is, and perhaps advised. */
static bool leave_plain(CkptStream *s, Piece *p) {
    const OsDirect *d = s->direct ? &s->direct[p->i_file] : NULL;
    bool plain = by_cache(s, p), passed = p->passed;
    pthread_mutex_unlock(&s->lock);
    bool cached = d && d->fd >= 0 && os_direct_is_cached(d, p->from, (size_t)(p->to - p->from));
    if (plain && !cached && !passed)
        os_file_will_need(s->files[p->i_file], p->from, p->to - p->from);
    pthread_mutex_lock(&s->lock);
    return plain || cached || passed;
}

static void *reader_main(void *arg) {
    CkptStream *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop && s->next < s->n_pieces) {
        if (must_wait(s)) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        Piece *p = &s->pieces[s->next++];
        p->state = PIECE_CLAIMED;
        s->n_free--; /* kept for it */
        bool plain = leave_plain(s, p);
        s->n_free++;
        if (!plain) {
            read_direct(s, p);
            continue;
        }
        p->state = PIECE_PLAIN;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static size_t pages_bytes(const CkptStream *s) { return N_SLOTS * s->slot_bytes + OS_DIRECT_ALIGN; }

static bool open_files(CkptStream *s, const CkptStreamOptions *opt, Err *err) {
    if (opt->never_direct) return true;
    if (!(s->direct = mem_calloc(s->n_files, sizeof *s->direct)))
        return err_nomem(err, "read-ahead");
    for (size_t i = 0; i < s->n_files; i++)
        if (!os_direct_open(&s->direct[i], s->files[i])) s->direct[i].fd = -1;
    return true;
}

CkptStream *ckpt_stream_new(const OsFile *const *files, size_t n_files, const CkptRange *ranges,
                            size_t n, const CkptStreamOptions *opt, Err *err) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += ranges[i].n;
    CkptStream *s = mem_calloc(1, sizeof *s);
    if (!s) return err_nomem(err, "read-ahead"), NULL;
    s->files = files;
    s->n_files = n_files;
    s->keep_cached = opt->keep_cached;
    s->plain = opt->never_direct;
    s->n_free = N_SLOTS;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    uint64_t window =
        opt->slot_bytes ? (uint64_t)opt->slot_bytes * N_SLOTS : ckpt_stream_window_bytes(sum);
    if (!window) return s; /* without pieces nothing is taken */
    s->slot_bytes = (size_t)window / N_SLOTS;
    bool ok = plan(s, ranges, n, err) && open_files(s, opt, err);
    if (ok && !(s->pages = mem_alloc_pages(pages_bytes(s)))) ok = err_nomem(err, "read-ahead");
    if (ok) s->window = s->pages + (-(uintptr_t)s->pages & (OS_DIRECT_ALIGN - 1));
    for (; ok && s->n_threads < N_READERS; s->n_threads++)
        if (pthread_create(&s->threads[s->n_threads], NULL, reader_main, s) != 0) break;
    if (ok) return s;
    ckpt_stream_free(s);
    return NULL;
}

void ckpt_stream_free(CkptStream *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
    for (size_t i = 0; s->direct && i < s->n_files; i++) os_direct_close(&s->direct[i]);
    if (s->pages) mem_free_pages(s->pages, pages_bytes(s));
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    mem_free(s->direct);
    mem_free(s->pieces);
    mem_free(s->keys);
    mem_free(s->first_piece);
    mem_free(s);
}

/* Waits for a piece that is on its way, or that a reader will begin with next. */
static bool piece_wait(CkptStream *s, const Piece *p) {
    size_t i = (size_t)(p - s->pieces);
    while (p->state == PIECE_CLAIMED || p->state == PIECE_READING ||
           (p->state == PIECE_AHEAD && s->n_threads && s->n_free > 0 && i < s->next + N_READERS))
        pthread_cond_wait(&s->changed, &s->lock);
    return p->state == PIECE_READY;
}

static void asked(CkptStream *s, const Piece *p) {
    size_t i = (size_t)(p - s->pieces);
    if (i <= s->asked) return;
    s->asked = i;
    pthread_cond_broadcast(&s->changed);
}

bool ckpt_stream_take(CkptStream *s, int i_file, uint64_t at, void *out, size_t n) {
    char *to = out;
    bool ok = true;
    Piece *p;
    pthread_mutex_lock(&s->lock);
    for (uint64_t part; n > 0 && (p = piece_find(s, i_file, at)) != NULL; at += part, n -= part) {
        part = part_of(p, at, n);
        asked(s, p);
        if ((ok = ok && piece_wait(s, p))) {
            p->n_users++;
            pthread_mutex_unlock(&s->lock);
            memcpy(to, s->window + (size_t)p->slot * s->slot_bytes + (at - read_from(p)), part);
            pthread_mutex_lock(&s->lock);
            p->n_users--;
            to += part;
        }
        p->taken += part;
        maybe_done(s, p);
    }
    pthread_mutex_unlock(&s->lock);
    return ok && n == 0;
}

void ckpt_stream_pass(CkptStream *s, size_t i_range) {
    if (!s->n_pieces) return;
    pthread_mutex_lock(&s->lock);
    for (; s->behind < s->first_piece[i_range]; s->behind++) {
        s->pieces[s->behind].passed = true;
        maybe_done(s, &s->pieces[s->behind]);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}
