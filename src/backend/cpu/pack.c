/* The packer: takes rows of a source in chunks on all threads and lays them out in tiles
 * (packed.h). */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/book.h"
#include "backend/cpu/pack_direct.h"
#include "backend/cpu/pack_scales.h"
#include "backend/cpu/packed_edge.h"
#include "base/mem.h"

/* Rows of one chunk in canonical arrays (wform.h), or as stored (floats). */
typedef struct Chunk {
    WRows rows;
    unsigned char *plain;
    WeightScratch scratch;
} Chunk;

typedef struct PackJob {
    const WeightSource *source;
    PackedMat *m;
    bool is_direct;
    DirectForm direct;
    uint32_t chunk_rows;
    atomic_uint next; /* first row of the next chunk */
    atomic_bool failed, odd_codes;
    Err err; /* of the thread that set failed first */
} PackJob;

static void chunk_deinit(Chunk *c) {
    mem_free(c->rows.codes);
    pack_scales_deinit(&c->rows);
    mem_free(c->plain);
    wsource_scratch_deinit(&c->scratch);
}

static bool chunk_init(Chunk *c, const PackedMat *m, uint32_t n) {
    if (m->kind == PACKED_FLOATS)
        return (c->plain = mem_calloc((size_t)n * m->k, dtype_size16(m->plain))) != NULL;
    if (m->kind == PACKED_BOOK) return true;
    return (c->rows.codes = mem_calloc(n, m->k)) != NULL &&
           (m->is_shared || pack_scales_init(&c->rows, m, n));
}

/* 16 rows x 64 columns of codes, a cache line of each row, transposed to two units. */
static void unit_gather(const uint8_t *codes, uint32_t k, uint32_t n_rows, uint32_t k0,
                        uint8_t q[16][CODE_VEC]) {
    uint32_t cols = k - k0 < 2 * UNIT_COLS ? k - k0 : 2 * UNIT_COLS;
    if (cols == 2 * UNIT_COLS && n_rows == TILE_ROWS) { /* nearly always: loops of known lengths */
        const uint8_t *row = codes + k0;
        for (int lane = 0; lane < TILE_ROWS; lane++, row += k)
            for (int c = 0; c < 16; c++) memcpy(&q[c][lane * 4], row + 4 * c, 4);
        return;
    }
    if (cols < 2 * UNIT_COLS || n_rows < TILE_ROWS) memset(q, 0, 16 * CODE_VEC);
    for (uint32_t lane = 0; lane < n_rows; lane++) {
        const uint8_t *row = codes + (size_t)lane * k + k0;
        uint32_t c = 0;
        for (; c + 4 <= cols; c += 4) memcpy(&q[c / 4][lane * 4], row + c, 4);
        for (; c < cols; c++) q[c / 4][lane * 4 + c % 4] = row[c];
    }
}

static void unit_pack(uint8_t q[8][CODE_VEC], unsigned bits, unsigned char *out) {
    if (bits == 8) {
        memcpy(out, q, 8 * CODE_VEC);
        return;
    }
    unsigned shift = 0;
    if (bits & 4) {
        for (int v = 0; v < 4; v++, out += CODE_VEC)
            for (int i = 0; i < CODE_VEC; i++)
                out[i] = (unsigned char)((q[2 * v][i] & 15) | (q[2 * v + 1][i] & 15) << 4);
        shift = 4;
    }
    if (bits & 2) {
        for (int v = 0; v < 2; v++, out += CODE_VEC) {
            memset(out, 0, CODE_VEC);
            for (int c = 0; c < 4; c++)
                for (int i = 0; i < CODE_VEC; i++)
                    out[i] |= (unsigned char)((q[4 * v + c][i] >> shift & 3) << 2 * c);
        }
        shift += 2;
    }
    if (bits & 1) {
        memset(out, 0, CODE_VEC);
        for (int c = 0; c < 8; c++)
            for (int i = 0; i < CODE_VEC; i++)
                out[i] |= (unsigned char)((q[c][i] >> shift & 1) << c);
    }
}

/* Infinities and NaN among one-byte floats. */
static bool has_odd_codes(const PackedMat *m, const uint8_t *codes, size_t n) {
    unsigned odd = 0;
    if (m->plain == DTYPE_F8_E4M3)
        for (size_t i = 0; i < n; i++) odd |= (codes[i] & 0x7f) == 0x7f;
    if (m->plain == DTYPE_F8_E5M2)
        for (size_t i = 0; i < n; i++) odd |= (codes[i] & 0x7c) == 0x7c;
    return odd != 0;
}

/* A unit of half a tile with h lanes. */
static void unit_put(const PackedMat *m, uint8_t q[8][CODE_VEC], uint32_t h, uint32_t u,
                     unsigned char *to) {
    uint8_t unit[8 * CODE_VEC];
    bool last = (u + 1) * UNIT_COLS > m->k;
    if (h == TILE_ROWS && !last) {
        unit_pack(q, m->bits, to);
        return;
    }
    unit_pack(q, m->bits, unit);
    if (last) {
        packed_edge_put(m, unit, h, to);
        return;
    }
    for (uint32_t v = 0; v < m->bits; v++)
        memcpy(to + 4 * (size_t)h * v, unit + v * CODE_VEC, 4 * (size_t)h);
}

/* Codes of 16 rows at most, the half of a tile that begins at lane `lane`. */
static void half_put(const PackedMat *m, const uint8_t *codes, uint32_t lanes, uint32_t lane,
                     uint32_t h, unsigned char *tile) {
    uint8_t q[16][CODE_VEC];
    for (uint32_t u = 0; u < m->n_units; u++) {
        if (u % 2 == 0) unit_gather(codes, m->k, h, u * UNIT_COLS, q);
        bool last = (u + 1) * UNIT_COLS > m->k;
        size_t half = lane == 0 ? 0
                      : last    ? packed_edge_bytes(m, TILE_ROWS)
                                : packed_half_bytes(m, TILE_ROWS);
        unit_put(m, q + u % 2 * 8, h, u, tile + packed_unit_at(m, lanes, u) + half);
    }
}

static bool pack_codes(PackJob *job, Chunk *c, uint32_t n0, uint32_t n1, Err *err) {
    const PackedMat *m = job->m;
    if (!wsource_rows(job->source, n0, n1, &c->rows, &c->scratch, err)) return false;
    if (has_odd_codes(m, c->rows.codes, (size_t)(n1 - n0) * m->k))
        atomic_store(&job->odd_codes, true);
    for (uint32_t n = n0; n < n1; n += TILE_ROWS) {
        uint32_t n_rows = n1 - n < TILE_ROWS ? n1 - n : TILE_ROWS, at = n / m->tile_rows,
                 lanes = packed_lanes(m, at), lane = n % m->tile_rows;
        unsigned char *tile = m->data + m->tile_bytes * at;
        half_put(m, c->rows.codes + (size_t)(n - n0) * m->k, lanes, lane, n_rows, tile);
        for (uint32_t i = 0; !m->is_shared && i < n_rows; i++)
            if (!pack_lane_scales(m, &c->rows, n - n0 + i, tile, lanes, lane + i))
                return pack_zero_refused(m, job->source->name, n + i, err);
    }
    return true;
}

static bool pack_book(const PackJob *job, Chunk *c, uint32_t n0, uint32_t n1, Err *err) {
    const PackedMat *m = job->m;
    const size_t block = dtype_info(m->book)->block_bytes, row = m->k / BOOK_COLS * block;
    const uint8_t *rows[TILE_ROWS];
    QMatrix held;
    if (!wsource_hold(job->source, n0, n1, &held, &c->scratch, err)) return false;
    for (uint32_t n = n0; n < n1; n += TILE_ROWS) {
        const uint32_t lanes = packed_lanes(m, n / TILE_ROWS);
        unsigned char *to = m->data + m->tile_bytes * (n / TILE_ROWS);
        if (!wsource_lines(job->source, &held, QPART_WEIGHT, n, n + lanes, rows, err)) return false;
        for (size_t at = 0; at < row; at += block, to += lanes * block)
            if (lanes == TILE_ROWS)
                book_put_rows(m->book, rows, at, to);
            else
                for (uint32_t i = 0; i < lanes; i++) memcpy(to + i * block, rows[i] + at, block);
    }
    return true;
}

/* Floats that are stored as something else, or the other way round. */
static bool pack_floats(const PackJob *job, Chunk *c, uint32_t n0, uint32_t n1, Err *err) {
    const PackedMat *m = job->m;
    const WeightSource *s = job->source;
    const size_t size = dtype_size16(m->plain);
    bool stored = s->form->plain == m->plain;
    if (!(stored ? wsource_plain(s, n0, n1, c->plain, &c->scratch, err)
                 : wsource_f32(s, n0, n1, (float *)(void *)c->plain, &c->scratch, err)))
        return false;
    for (uint32_t n = n0; n < n1; n++) {
        const size_t lanes = packed_lanes(m, n / FLOAT_TILE_ROWS);
        const unsigned char *from = c->plain + (size_t)(n - n0) * m->k * size;
        unsigned char *to =
            m->data + m->tile_bytes * (n / FLOAT_TILE_ROWS) + n % FLOAT_TILE_ROWS * size;
        for (uint32_t k = 0; size == 4 && k < m->k; k++)
            memcpy(to + k * lanes * 4, from + k * 4UL, 4);
        for (uint32_t k = 0; size == 2 && k < m->k; k++)
            memcpy(to + k * lanes * 2, from + k * 2UL, 2);
    }
    return true;
}

static void pack_thread(void *arg, int i_thread, int n_threads) {
    (void)i_thread, (void)n_threads;
    PackJob *job = arg;
    const PackedMat *m = job->m;
    Chunk c = {.scratch.no_ahead = true};
    Err err;
    bool ok =
        job->is_direct || chunk_init(&c, m, job->chunk_rows) || err_nomem(&err, job->source->name);
    while (ok && !atomic_load(&job->failed)) {
        uint32_t n0 = atomic_fetch_add(&job->next, job->chunk_rows);
        if (n0 >= m->n) break;
        uint32_t n1 = m->n - n0 < job->chunk_rows ? m->n : n0 + job->chunk_rows;
        ok = job->is_direct ? pack_direct(&job->direct, m, job->source, n0, n1, &c.scratch, &err)
             : m->kind == PACKED_FLOATS ? pack_floats(job, &c, n0, n1, &err)
             : m->kind == PACKED_BOOK   ? pack_book(job, &c, n0, n1, &err)
                                        : pack_codes(job, &c, n0, n1, &err);
    }
    if (!ok && !atomic_exchange(&job->failed, true)) job->err = err;
    chunk_deinit(&c);
}

enum { CHUNK_ELEMENTS = 1 << 18, CHUNK_MAX_ROWS = 4096 };

static bool mat_pack(Pool *pool, const WeightSource *s, PackedMat *m, Err *err) {
    uint32_t share = m->n / (uint32_t)pool_n_threads(pool) / 2,
             rows = m->k ? CHUNK_ELEMENTS / m->k : 0;
    if (rows > share) rows = share;
    if (rows > CHUNK_MAX_ROWS) rows = CHUNK_MAX_ROWS;
    PackJob job = {.source = s, .m = m};
    job.is_direct = pack_direct_form(m, s, &job.direct);
    job.chunk_rows = (rows + FLOAT_TILE_ROWS) / FLOAT_TILE_ROWS * FLOAT_TILE_ROWS;
    pool_run(pool, pack_thread, &job);
    m->odd_codes = atomic_load(&job.odd_codes);
    if (!atomic_load(&job.failed)) return true;
    if (err) *err = job.err;
    return false;
}

/* What is stored by columns is read whole first, in the order of the file: rows of it are pieces from
 * everywhere. */
static bool mat_load(Pool *pool, const WeightSource *s, PackedMat *m, Err *err) {
    if (!pack_sides(s, m, err)) return false;
    if (!wsource_whole_bytes(s)) return mat_pack(pool, s, m, err);
    WeightScratch sc = {.no_ahead = true};
    WeightSource whole = *s;
    bool ok = wsource_hold(s, 0, s->n, &whole.m, &sc, err) && mat_pack(pool, &whole, m, err);
    wsource_scratch_deinit(&sc);
    return ok;
}

static bool vector_load(const WeightSource *parts, int n_parts, BackWeight *w, Err *err) {
    size_t n = 0;
    for (int i = 0; i < n_parts; i++) n += (size_t)parts[i].n * parts[i].k;
    if (!(w->vector = mem_calloc(n + PACKED_VECTOR_SPARE, sizeof(float))))
        return err_nomem(err, parts[0].name);
    w->n = 1;
    w->k = (uint32_t)n;
    WeightScratch sc = {0};
    bool ok = true;
    float *at = w->vector;
    for (int i = 0; ok && i < n_parts; i++) {
        ok = wsource_f32(&parts[i], 0, parts[i].n, at, &sc, err);
        at += (size_t)parts[i].n * parts[i].k;
    }
    wsource_scratch_deinit(&sc);
    return ok;
}

/* One piece of memory for all parts. */
static bool data_alloc(BackWeight *w, const WeightSource *parts, int n_parts) {
    size_t at = 0;
    for (w->n_parts = 0; w->n_parts < n_parts; w->n_parts++) {
        packed_shape(&parts[w->n_parts], &w->parts[w->n_parts]);
        at = packed_data_bytes(at, &w->parts[w->n_parts]);
    }
    w->n_bytes = at + PACKED_SPARE;
    if (!(w->data = mem_alloc_pages(w->n_bytes))) return false;
    at = 0;
    for (PackedMat *m = w->parts; m < w->parts + n_parts; m++) {
        at = packed_data_bytes(at, m);
        m->data = w->data + (at - m->n_bytes);
    }
    return true;
}

bool packed_weight_load(Pool *pool, WeightKind kind, const WeightSource *parts, int n_parts,
                        BackWeight **out, Err *err) {
    BackWeight *w = mem_calloc(1, sizeof *w);
    if (!w) return err_nomem(err, parts[0].name);
    bool ok = true;
    if (kind == WEIGHT_VECTOR) {
        ok = vector_load(parts, n_parts, w, err);
    } else {
        w->k = parts[0].k;
        w->parts = mem_calloc((size_t)n_parts, sizeof *w->parts);
        ok = (w->parts && data_alloc(w, parts, n_parts)) || err_nomem(err, parts[0].name);
        for (int i = 0; ok && i < n_parts; i++) {
            ok = mat_load(pool, &parts[i], &w->parts[i], err);
            w->n += w->parts[i].n;
        }
    }
    if (!ok) {
        packed_weight_free(w);
        return false;
    }
    *out = w;
    return true;
}
