#include "task/convert_rows.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"

enum { PIECE_ELEMENTS = 1 << 20, MAX_PERMUTE = 1 << 16 };

typedef struct Piece { /* what one thread works on, and its memory */
    uint64_t n0, n1;
    float *rows, *spare;
    uint8_t *out[3]; /* codes or rows, scales, biases */
    size_t n_out[3];
    size_t cap; /* elements of rows */
    WeightScratch scratch;
    Err err;
    bool ok;
} Piece;

typedef struct Run {
    const ConvertItem *item;
    Piece *pieces;
    int n_pieces;
    Pool *pool;
    const ConvertSink *sink;
    const ConvertOptions *o;
    uint64_t done, total; /* elements */
} Run;

/* Rows [n0, n1) of the item, from whichever parts they lie in. */
static bool read_rows(const ConvertItem *it, Piece *p, Err *err) {
    uint64_t at = 0, n = p->n0;
    for (uint32_t i = 0; i < it->n_parts && n < p->n1; i++) {
        const WeightSource *s = &it->parts[i];
        uint64_t rows = it->is_vector ? (uint64_t)s->n * s->k : s->n;
        if (n >= at + rows) {
            at += rows;
            continue;
        }
        uint64_t from = n - at, to = (p->n1 < at + rows ? p->n1 : at + rows) - at;
        float *out = p->rows + (n - p->n0) * it->k;
        /* a vector is one row, or (with a map) rows of one column */
        bool lying = it->is_vector && s->n == 1;
        if (lying && (from != 0 || to != rows))
            return err_set(err, ERR_INTERNAL, "%s: a vector in pieces", s->name);
        if (!wsource_f32(s, lying ? 0 : (uint32_t)from, lying ? 1 : (uint32_t)to, out, &p->scratch,
                         err))
            return false;
        n = at + to;
        at += rows;
    }
    return n == p->n1 || err_set(err, ERR_INTERNAL, "%s: rows are missing", it->parts[0].name);
}

/* Within each head: (half, pair) to (pair, half). */
static void permute_rows(const ConvertItem *it, Piece *p) {
    uint64_t d = it->permute, half = d / 2, k = it->k;
    for (uint64_t base = 0; base < p->n1 - p->n0; base += d) {
        float *head = p->rows + base * k;
        for (uint64_t r = 0; r < d; r++)
            memcpy(p->spare + r * k, head + (r / 2 + r % 2 * half) * k, k * sizeof *head);
        memcpy(head, p->spare, d * k * sizeof *head);
    }
}

static void pick(float *x, float *spare, const uint32_t *order, uint64_t n) {
    memcpy(spare, x, n * sizeof *x);
    for (uint64_t i = 0; i < n; i++) x[i] = spare[order[i]];
}

static bool encode(const ConvertItem *it, Piece *p, Err *err) {
    uint64_t n = p->n1 - p->n0, size[3] = {0};
    if (it->is_mlx) {
        if (!encode_mlx_bytes(&it->mlx, it->k, &size[0], &size[1], &size[2], err) ||
            !encode_mlx(&it->mlx, p->rows, n, it->k, p->out[0], p->out[1],
                        size[2] ? p->out[2] : NULL, err))
            return false;
        for (int i = 0; i < 3; i++) p->n_out[i] = (size_t)(size[i] * n);
        return true;
    }
    if (!dtype_bytes(it->dtype, n * it->k, it->k, &size[0], err) ||
        !encode_rows(it->dtype, p->rows, n, it->k, p->out[0], size[0], err))
        return false;
    p->n_out[0] = (size_t)size[0];
    p->n_out[1] = p->n_out[2] = 0;
    return true;
}

static void work(void *arg, int i_thread, int n_threads) {
    Run *r = arg;
    (void)n_threads;
    if (i_thread >= r->n_pieces) return;
    Piece *p = &r->pieces[i_thread];
    const ConvertItem *it = r->item;
    p->ok = read_rows(it, p, &p->err);
    uint64_t n = (p->n1 - p->n0) * it->k;
    for (uint64_t i = 0; p->ok && it->add != 0 && i < n; i++) p->rows[i] += it->add;
    for (uint64_t i = 0; p->ok && it->factor != 0 && i < n; i++) p->rows[i] *= it->factor;
    for (uint64_t i = 0; p->ok && it->row_factors && i < n; i++)
        p->rows[i] *= it->row_factors[p->n0 + i / it->k];
    for (uint64_t i = 0; p->ok && it->neg_exp && i < n; i++) p->rows[i] = -expf(p->rows[i]);
    if (p->ok && it->permute) permute_rows(it, p);
    if (p->ok && it->order) pick(p->rows, p->spare, it->order, it->n);
    for (uint64_t i = 0; p->ok && it->column_order && i < p->n1 - p->n0; i++)
        pick(p->rows + i * it->k, p->spare, it->column_order, it->k);
    p->ok = p->ok && encode(it, p, &p->err);
}

static bool write_piece(const ConvertItem *it, const Piece *p, const ConvertSink *sink, Err *err) {
    for (size_t i = 0; i < 3; i++) {
        if (!p->n_out[i]) continue;
        uint64_t row = p->n_out[i] / (p->n1 - p->n0), at = p->n0 * row;
        bool ok = sink->gguf
                      ? gguf_write_put(sink->gguf, it->first + i, at, p->out[i], p->n_out[i], err)
                      : safetensors_write_put(sink->safetensors, it->first + i, at, p->out[i],
                                              p->n_out[i], err);
        if (!ok) return false;
    }
    return true;
}

/* Rows of a piece: whole heads where they are permuted, and a lying vector at once. */
static uint64_t piece_rows(const ConvertItem *it) {
    uint64_t rows = it->k < PIECE_ELEMENTS ? PIECE_ELEMENTS / it->k : 1;
    uint64_t unit = it->permute ? it->permute : 1;
    if (it->is_vector && (it->parts[0].n == 1 || it->order)) return it->n;
    rows = rows / unit * unit;
    return rows ? rows : unit;
}

static bool piece_room(Piece *p, size_t elements, Err *err) {
    if (elements <= p->cap) return true;
    mem_free(p->rows);
    mem_free(p->spare);
    for (int i = 0; i < 3; i++) mem_free(p->out[i]);
    p->rows = mem_resize_array(NULL, elements, sizeof(float));
    p->spare = mem_resize_array(NULL, elements, sizeof(float));
    bool ok = p->rows && p->spare;
    /* no encoding is longer than f32 */
    for (int i = 0; i < 3; i++) {
        p->out[i] = mem_resize_array(NULL, elements, sizeof(float));
        ok = ok && p->out[i];
    }
    p->cap = ok ? elements : 0;
    return ok || err_nomem(err, "rows to convert");
}

static bool run_item(Run *r, const ConvertItem *it, Err *err) {
    uint64_t step = piece_rows(it);
    size_t elements;
    r->item = it;
    if (it->permute > MAX_PERMUTE || (it->permute && it->n % it->permute))
        return err_set(err, ERR_INTERNAL, "%s: heads of %u rows", it->parts[0].name, it->permute);
    if (!size_mul((size_t)(step < it->n ? step : it->n), (size_t)it->k, &elements))
        return err_nomem(err, "rows to convert");
    for (uint64_t n = 0; n < it->n;) {
        if (r->o->progress && !r->o->progress(r->o->ctx, it->tensor.name, r->done, r->total))
            return err_set(err, ERR_CANCELLED, "stopped");
        r->n_pieces = 0;
        for (; r->n_pieces < pool_n_threads(r->pool) && n < it->n; r->n_pieces++) {
            Piece *p = &r->pieces[r->n_pieces];
            p->n0 = n;
            p->n1 = n = n + step < it->n ? n + step : it->n;
            if (!piece_room(p, elements, err)) return false;
        }
        pool_run(r->pool, work, r);
        for (int i = 0; i < r->n_pieces; i++) {
            const Piece *p = &r->pieces[i];
            if (!p->ok) {
                if (err) *err = p->err;
                return false;
            }
            if (!write_piece(it, p, r->sink, err)) return false;
            r->done += (p->n1 - p->n0) * it->k;
        }
    }
    return true;
}

enum { COPY_BYTES = 4 << 20 };

static bool is_copy(const ConvertItem *it) {
    if (!it->stored || it->is_mlx) return false;
    return !it->n_parts || (it->dtype == it->stored->dtype && it->add == 0 && it->factor == 0 &&
                            !it->row_factors && !it->permute && !it->neg_exp);
}

static bool copy_item(Run *r, const Checkpoint *ck, const ConvertItem *it, Err *err) {
    const CkptTensor *t = it->stored;
    uint8_t *piece = mem_resize_array(NULL, COPY_BYTES, 1);
    bool ok = piece || err_nomem(err, "rows to convert");
    for (uint64_t at = 0; ok && at < t->n_bytes; at += COPY_BYTES) {
        size_t n = t->n_bytes - at < COPY_BYTES ? (size_t)(t->n_bytes - at) : COPY_BYTES;
        if (r->o->progress && !r->o->progress(r->o->ctx, it->tensor.name, r->done, r->total))
            ok = err_set(err, ERR_CANCELLED, "stopped");
        ok = ok && checkpoint_read(ck, t, at, piece, n, err) &&
             safetensors_write_put(r->sink->safetensors, it->first, at, piece, n, err);
    }
    mem_free(piece);
    r->done += it->n * it->k;
    return ok;
}

static uint64_t total_elements(const ConvertItem *items, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all += items[i].n * items[i].k;
    return all;
}

bool convert_run(const Checkpoint *ck, const ConvertItem *items, size_t n, const ConvertSink *sink,
                 const ConvertOptions *o, Err *err) {
    Run r = {.sink = sink, .o = o, .total = total_elements(items, n)};
    Pool *pool = pool_new(o->n_threads > 0 ? o->n_threads : os_n_cores(), err);
    if (!pool) return false;
    int n_threads = pool_n_threads(pool);
    Piece *pieces = mem_calloc((size_t)n_threads, sizeof *pieces);
    bool ok = pieces || err_nomem(err, "rows to convert");
    r.pieces = pieces;
    r.pool = pool;
    for (size_t i = 0; ok && i < n; i++)
        ok = (is_copy(&items[i]) ? copy_item(&r, ck, &items[i], err)
                                 : run_item(&r, &items[i], err)) ||
             err_wrap(err, STR_F, STR_A(items[i].tensor.name));
    if (ok && o->progress) (void)o->progress(o->ctx, STR_NONE, r.total, r.total);
    for (int i = 0; pieces && i < n_threads; i++) {
        Piece *p = &pieces[i];
        mem_free(p->rows);
        mem_free(p->spare);
        for (int k = 0; k < 3; k++) mem_free(p->out[k]);
        wsource_scratch_deinit(&p->scratch);
    }
    mem_free(pieces);
    pool_free(pool);
    return ok;
}
