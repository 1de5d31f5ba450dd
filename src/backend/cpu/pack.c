/* The packer: takes rows of a source in chunks on all threads and lays them out in tiles
 * (packed.h). */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/book.h"
#include "backend/cpu/pack_direct.h"
#include "base/fp.h"
#include "base/mem.h"

/* Rows of one chunk in canonical arrays (wform.h), or as stored (floats, books). */
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
    mem_free(c->rows.scale);
    mem_free(c->rows.zero);
    mem_free(c->rows.bias);
    mem_free(c->rows.d);
    mem_free(c->rows.dmin);
    mem_free(c->rows.sub);
    mem_free(c->rows.sub_min);
    mem_free(c->plain);
    wsource_scratch_deinit(&c->scratch);
}

static size_t book_row_bytes(const PackedMat *m) {
    return (size_t)(m->k / BOOK_COLS) * dtype_info(m->book)->block_bytes;
}

static bool chunk_init(Chunk *c, const PackedMat *m, uint32_t n) {
    if (m->kind == PACKED_FLOATS)
        return (c->plain = mem_calloc((size_t)n * m->k, dtype_size16(m->plain))) != NULL;
    if (m->kind == PACKED_BOOK) return (c->plain = mem_calloc(n, book_row_bytes(m))) != NULL;
    size_t groups = (size_t)n * m->n_groups, supers = (size_t)n * m->n_super;
    WRows *r = &c->rows;
    if (!(r->codes = mem_calloc(n, m->k))) return false;
    supers += supers == 0; /* without a level above, an array is still asked for */
    if (m->sub == WSUB_NONE) {
        bool zero = m->offset == WOFFSET_ZERO, bias = m->offset == WOFFSET_BIAS;
        r->scale = mem_calloc(groups, sizeof *r->scale);
        if (zero) r->zero = mem_calloc(groups, sizeof *r->zero);
        if (bias) r->bias = mem_calloc(groups, sizeof *r->bias);
        return r->scale && (!zero || r->zero) && (!bias || r->bias);
    }
    r->d = mem_calloc(supers, sizeof *r->d);
    r->dmin = mem_calloc(supers, sizeof *r->dmin);
    r->sub = mem_calloc(groups, 1);
    r->sub_min = mem_calloc(groups, 1);
    return r->d && r->dmin && r->sub && r->sub_min;
}

static void float_put(unsigned char *p, DType t, size_t i, float v) {
    uint32_t w = t == DTYPE_F32   ? fp_bits(v)
                 : t == DTYPE_F16 ? fp_f32_to_f16(v)
                                  : fp_f32_to_bf16(v);
    memcpy(p + i * dtype_size16(t), &w, dtype_size16(t));
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

/* Zero points below the base or above what the bits hold are refused. */
static bool put_zero(const PackedMat *m, unsigned char *zeros, uint32_t g, uint32_t lane, int z) {
    uint32_t per = 8 / m->zero_bits;
    if (z < m->zero_base || z - m->zero_base >= 1 << m->zero_bits) return false;
    zeros[(size_t)g * m->tile_rows / per + lane / per] |=
        (unsigned char)((z - m->zero_base) << m->zero_bits * (lane % per));
    return true;
}

static void sub_scales(const PackedMat *m, const WRows *r, size_t at, uint32_t lane,
                       unsigned char *tile) {
    PackedHead h = packed_head(m);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        size_t from = at * m->n_groups + g, to = (size_t)g * m->tile_rows + lane;
        unsigned min = m->offset == WOFFSET_BIAS ? r->sub_min[from] : 0;
        if (m->sub_bits == 4) {
            tile[h.sub + to] = (unsigned char)((r->sub[from] & 15u) | (min & 15u) << 4);
            continue;
        }
        tile[h.sub + to] = r->sub[from];
        if (m->offset == WOFFSET_BIAS) tile[h.sub_min + to] = (unsigned char)min;
    }
    for (uint32_t s = 0; s < m->n_super; s++) {
        size_t from = at * m->n_super + s, to = (size_t)s * m->tile_rows + lane;
        float_put(tile + h.scale, m->scale_dtype, to, r->d[from]);
        if (m->offset == WOFFSET_BIAS) float_put(tile + h.bias, m->scale_dtype, to, r->dmin[from]);
    }
}

/* Scales of one lane. at: the row in the chunk. */
static bool lane_scales(const PackedMat *m, const WRows *r, size_t at, uint32_t lane,
                        unsigned char *tile) {
    if (m->sub != WSUB_NONE) {
        sub_scales(m, r, at, lane, tile);
        return true;
    }
    PackedHead h = packed_head(m);
    DType t = m->scale_dtype;
    for (uint32_t g = 0; g < m->n_groups; g++) {
        size_t from = at * m->n_groups + g, to = (size_t)g * m->tile_rows + lane;
        if (m->in_stream) {
            unsigned char *p = tile + stream_scale_at(m, g);
            float_put(p, t, lane, r->scale[from]);
            if (m->offset == WOFFSET_BIAS) float_put(p + 32, t, lane, r->bias[from]);
            continue;
        }
        float_put(tile + h.scale, t, to, r->scale[from]);
        if (m->offset == WOFFSET_BIAS) float_put(tile + h.bias, t, to, r->bias[from]);
        if (m->offset == WOFFSET_ZERO && !put_zero(m, tile + h.bias, g, lane, r->zero[from]))
            return false;
    }
    return true;
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

static bool pack_codes(PackJob *job, Chunk *c, uint32_t n0, uint32_t n1, Err *err) {
    const PackedMat *m = job->m;
    if (!wsource_rows(job->source, n0, n1, &c->rows, &c->scratch, err)) return false;
    if (has_odd_codes(m, c->rows.codes, (size_t)(n1 - n0) * m->k))
        atomic_store(&job->odd_codes, true);
    uint8_t q[16][CODE_VEC];
    for (uint32_t n = n0; n < n1; n += TILE_ROWS) {
        unsigned char *tile = m->data + m->tile_bytes * (n / m->tile_rows);
        size_t half = (size_t)(n % m->tile_rows / TILE_ROWS) * m->bits * CODE_VEC;
        uint32_t n_rows = n1 - n < TILE_ROWS ? n1 - n : TILE_ROWS;
        for (uint32_t u = 0; u < m->n_units; u += 2) {
            unit_gather(c->rows.codes + (size_t)(n - n0) * m->k, m->k, n_rows, u * UNIT_COLS, q);
            unit_pack(q, m->bits, tile + packed_unit_at(m, u) + half);
            if (u + 1 < m->n_units)
                unit_pack(q + 8, m->bits, tile + packed_unit_at(m, u + 1) + half);
        }
        for (uint32_t row = n; row < n + n_rows; row++)
            if (!lane_scales(m, &c->rows, row - n0, row % m->tile_rows, tile))
                return err_set(err, ERR_UNSUPPORTED,
                               "%s: a zero point of row %u is outside the range of %u-bit codes",
                               job->source->name, row, m->bits);
    }
    return true;
}

static bool pack_book(const PackJob *job, Chunk *c, uint32_t n0, uint32_t n1, Err *err) {
    const PackedMat *m = job->m;
    const size_t block = dtype_info(m->book)->block_bytes;
    if (!wsource_plain(job->source, n0, n1, c->plain, &c->scratch, err)) return false;
    const unsigned char *from = c->plain;
    for (uint32_t n = n0; n < n1; n++) {
        unsigned char *to = m->data + m->tile_bytes * (n / TILE_ROWS);
        for (uint32_t k = 0; k < m->k; k += BOOK_COLS, from += block, to += TILE_ROWS * block)
            book_put(m->book, from, n % TILE_ROWS, to);
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
        const unsigned char *from = c->plain + (size_t)(n - n0) * m->k * size;
        unsigned char *to =
            m->data + m->tile_bytes * (n / FLOAT_TILE_ROWS) + n % FLOAT_TILE_ROWS * size;
        for (uint32_t k = 0; size == 4 && k < m->k; k++)
            memcpy(to + k * FLOAT_TILE_ROWS * 4UL, from + k * 4UL, 4);
        for (uint32_t k = 0; size == 2 && k < m->k; k++)
            memcpy(to + k * FLOAT_TILE_ROWS * 2UL, from + k * 2UL, 2);
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

static bool mat_load(Pool *pool, const WeightSource *s, PackedMat *m, Err *err) {
    packed_shape(s, m);
    const uint32_t *perm = m->kind == PACKED_FLOATS ? NULL : s->form->perm;
    if (perm) {
        if (!(m->perm = mem_alloc((size_t)m->k * sizeof *perm))) return err_nomem(err, s->name);
        memcpy(m->perm, perm, (size_t)m->k * sizeof *perm);
    }
    if (m->sub == WSUB_NESTED) {
        if (!(m->nested = mem_alloc(PACKED_NESTED * sizeof *m->nested)))
            return err_nomem(err, s->name);
        memcpy(m->nested, s->form->nested, PACKED_NESTED * sizeof *m->nested);
    }
    if (!(m->data = mem_alloc_pages(m->n_bytes))) return err_nomem(err, s->name);
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
        ok = w->parts != NULL || err_nomem(err, parts[0].name);
        for (; ok && w->n_parts < n_parts; w->n += w->parts[w->n_parts - 1].n) {
            const WeightSource *s = &parts[w->n_parts];
            ok = mat_load(pool, s, &w->parts[w->n_parts++], err);
        }
    }
    if (!ok) {
        packed_weight_free(w);
        return false;
    }
    *out = w;
    return true;
}
