/* LINEAR on the CPU: activations to int8 once per distinct input, then tiles of outputs over blocks
 * of rows. How tiles and rows are dealt to threads and cut into blocks changes no bit: integer sums
 * are exact and each output's float steps have one order (qtile.inc.c). */
#include <float.h>

#include "backend/cpu/book.h"
#include "backend/cpu/cpu_aux.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/edge.inc.c"
#include "backend/cpu/head.inc.c"
#include "backend/cpu/qkern.h"
#include "base/fp.h"
#include "base/mem.h"

/* ---- activations ---- */

INLINE vf load_cols(const float *x, const uint32_t *perm, uint32_t k, uint32_t n_cols) {
    if (k + 16 <= n_cols && !perm) return vf_load(x + k);
    int n = k >= n_cols ? 0 : n_cols - k < 16 ? (int)(n_cols - k) : 16;
    if (!perm) return vf_load_n(x + k, n);
    float t[16] = {0};
    for (int i = 0; i < n; i++) t[i] = x[perm[k + (uint32_t)i]];
    return vf_load(t);
}

/* Largest magnitude of 32 values; NaN if one is: magnitudes compare as integers, and NaN is above
 * infinity. */
INLINE float abs_max(vf a, vf b) {
    int32_t m[16], most = 0;
    vi ia = vf_as_vi(vf_abs(a)), ib = vf_as_vi(vf_abs(b));
    vi_store(m, vi_max(ia, ib));
    for (int i = 0; i < 16; i++) most = m[i] > most ? m[i] : most;
    return fp_from_bits((uint32_t)most);
}

static void put_corr(void *corr, size_t at, const QActsKey *key, int32_t sum, float scale) {
    float *f = (float *)corr + at;
    if (key->offset == WOFFSET_CONST) {
        ((int32_t *)corr)[at] = -key->zero * sum;
    } else {
        *f = key->offset == WOFFSET_BIAS ? scale * (float)sum : -(float)sum;
    }
}

/* Codes of unit u of code row r in a block that begins at code row r0 and has n_rows of them. */
static void put_unit(const QActs *a, const QActsKey *key, uint32_t r0, uint32_t r, uint32_t n_rows,
                     uint32_t u, vi q0, vi q1, float scale) {
    int8_t *codes = a->codes + (size_t)r0 * a->n_units * UNIT_COLS + 4 * r;
    char *corr = (char *)a->corr + ((size_t)r0 * a->n_corr + r) * 4;
    int8_t b[UNIT_COLS];
    vi_store_i8(b, q0);
    vi_store_i8(b + 16, q1);
    for (int q = 0; q < 8; q++)
        memcpy(codes + ((size_t)u * 8 + (size_t)q) * n_rows * 4, b + 4 * q, 4);
    a->scale[(size_t)r0 * a->n_units + r + (size_t)u * n_rows] = scale;
    if (key->halves) {
        put_corr(corr, (size_t)2 * u * n_rows, key, vi_hsum(q0), scale);
        put_corr(corr, ((size_t)2 * u + 1) * n_rows, key, vi_hsum(q1), scale);
    } else {
        put_corr(corr, (size_t)u * n_rows, key, vi_hsum(vi_add(q0, q1)), scale);
    }
}

/* What rounding to q left of x * inv, in steps of lo: the difference is exact, both being near each
 * other. */
INLINE vi lo_part(vf scaled, vi q) {
    return vf_to_vi(vf_mul(vf_sub(scaled, vi_to_vf(q)), vf_set1((float)ACT_LO_STEPS)));
}

/* The largest magnitude of a whole row. */
static float row_most(const float *x, uint32_t n_cols) {
    float most = 0;
    for (uint32_t k = 0; k < n_cols; k += 2 * TILE_ROWS) {
        float m = abs_max(load_cols(x, NULL, k, n_cols), load_cols(x, NULL, k + TILE_ROWS, n_cols));
        if (!(m <= most)) most = m; /* NaN stays */
        if (most != most) break;
    }
    return most;
}

/* Activation row x to its code row r (precise: rows r and r + 1) of a block of n_rows code rows at
 * r0. */
static void quantize_row(const QActs *a, const QActsKey *key, const float *x, uint32_t n_cols,
                         uint32_t r0, uint32_t r, uint32_t n_rows) {
    float row = key->whole_row ? row_most(x, n_cols) : 0;
    if (row < 1e-5f) row = 1e-5f;
    for (uint32_t u = 0; u < a->n_units; u++) {
        vf x0 = load_cols(x, key->perm, u * UNIT_COLS, n_cols),
           x1 = load_cols(x, key->perm, u * UNIT_COLS + 16, n_cols);
        float most = key->whole_row ? row : abs_max(x0, x1), scale = most / 127.0f,
              inv = most == 0 ? 0 : 127.0f / most;
        if (!(inv <= FLT_MAX))
            inv = 0; /* all values so small that the quotient overflows: they count as zeros */
        if (!(most <= FLT_MAX)) x0 = x1 = vf_set1(0); /* infinite or NaN: the scale alone says so */
        vf s0 = vf_mul(x0, vf_set1(inv)), s1 = vf_mul(x1, vf_set1(inv));
        vi q0 = vf_to_vi(s0), q1 = vf_to_vi(s1);
        put_unit(a, key, r0, r, n_rows, u, q0, q1, scale);
        if (key->precise)
            put_unit(a, key, r0, r + 1, n_rows, u, lo_part(s0, q0), lo_part(s1, q1),
                     scale / (float)ACT_LO_STEPS);
    }
}

static uint32_t block_rows(const QActs *a) { return ACT_BLOCK_ROWS / a->per_row; }

static void quantize_rows(const QActs *a, const QActsKey *key, Mat x, uint32_t from, uint32_t to) {
    uint32_t n = a->per_row, n_blocks = act_n_blocks(x.rows, block_rows(a)), b0, b1;
    for (uint32_t b = 0; b < n_blocks; b++) {
        act_block(x.rows, block_rows(a), b, &b0, &b1);
        for (uint32_t r = b0 > from ? b0 : from; r < b1 && r < to; r++)
            quantize_row(a, key, x.p + r * x.stride, x.cols, b0 * n, (r - b0) * n, (b1 - b0) * n);
    }
}

static bool same_key(const QActsKey *a, const QActsKey *b) {
    return a->valid && a->val == b->val && a->offset == b->offset && a->zero == b->zero &&
           a->halves == b->halves && a->precise == b->precise && a->whole_row == b->whole_row &&
           a->perm == b->perm;
}

/* The input as this matrix wants it. Small steps: every thread for itself. Large ones: shared,
 * between barriers. */
static QActs acts_for(const HostExec *ex, AuxThread *t, const PackedMat *m, const Op *op, Mat x,
                      int i_thread, int n_threads) {
    QActsKey key = {.val = op->in[0],
                    .offset = m->offset,
                    .zero = m->offset == WOFFSET_CONST ? m->zero : 0,
                    .halves = !m->in_stream && m->units_per_group == 0,
                    .precise = op->p.linear.precise && !m->row_acts,
                    .whole_row = m->row_acts,
                    .perm = m->perm,
                    .valid = true};
    QActs a = {.n_units = m->n_units,
               .n_corr = m->n_units * (key.halves ? 2 : 1),
               .per_row = key.precise ? 2 : 1};
    a.n_rows = x.rows * a.per_row;
    size_t elements = (size_t)a.n_rows * m->n_units * UNIT_COLS;
    bool alone = elements <= ACT_PRIVATE_MAX;
    char *p = (char *)ex->aux + (alone ? t->acts_private : t->acts_shared);
    a.codes = (int8_t *)p;
    a.scale = (float *)(void *)(p + size_align(elements, 64));
    a.corr = (char *)a.scale + size_align((size_t)a.n_rows * m->n_units * 4, 64);
    QActsKey *held = alone ? &t->key_private : &t->key_shared;
    if (same_key(held, &key)) return a;
    if (alone) {
        quantize_rows(&a, &key, x, 0, x.rows);
    } else {
        uint32_t from, to;
        host_share(x.rows, i_thread, n_threads, &from, &to);
        host_barrier(ex); /* nobody reads the old codes any more */
        quantize_rows(&a, &key, x, from, to);
        host_barrier(ex);
    }
    *held = key;
    return a;
}

/* ---- the product ---- */

typedef struct Linear {
    const HostExec *ex;
    AuxThread *aux;
    const PackedMat *m;
    Mat x, out;       /* out: the columns of this part */
    const float *add; /* bias of this part, or NULL */
    QActs acts;
} Linear;

/* Adds the results of hi and lo, [2 * n_rows][16], into n_rows rows of the output. */
static void add_pairs(const float *pairs, uint32_t n_rows, int n_out, const float *add, float *out,
                      size_t stride) {
    for (uint32_t r = 0; r < n_rows; r++, pairs += 2 * TILE_ROWS, out += stride)
        for (int i = 0; i < n_out; i++) {
            float sum = pairs[i] + pairs[TILE_ROWS + i];
            out[i] = add ? sum + add[i] : sum;
        }
}

enum { EDGE_BYTES = 2 * 8 * CODE_VEC };

/* The codes and scales of a tile, in scratch where they are not ready as they lie. */
static void code_args(const PackedMat *m, uint32_t tile, unsigned char *scratch,
                      unsigned char *edge, QArgs *a) {
    const uint32_t lanes = packed_lanes(m, tile);
    const unsigned char *from = packed_tile(m, tile);
    a->tile = from;
    if (m->kind == PACKED_BOOK) {
        if (lanes < TILE_ROWS) {
            edge_book(m, from, lanes, scratch);
            a->tile = scratch;
            scratch += size_align(m->tile_bytes, CODE_VEC);
        }
        float *scale = (float *)(void *)(scratch + (size_t)m->k * TILE_ROWS);
        ISA(book_expand)(m, a->tile, scratch, scale);
        a->tile = scratch;
        a->scale = a->bias = scale;
        return;
    }
    a->last = edge_unit(m, from, lanes, edge);
    if (lanes < TILE_ROWS) {
        a->tile = scratch;
        scratch = edge_tile(m, from, lanes, scratch);
    } else {
        a->tile += m->head_bytes;
    }
    if (m->in_stream) return;
    float *scale = (float *)(void *)scratch;
    float *bias = scale + ((size_t)m->n_groups + 1) * TILE_ROWS;
    head_decode(m, tile, scale, bias);
    a->scale = scale;
    a->bias = bias;
}

/* One tile times the rows of blocks b0..b1. */
static void code_tile(const Linear *l, uint32_t tile, uint32_t b0, uint32_t b1) {
    const PackedMat *m = l->m;
    const uint32_t n = l->acts.per_row, n0 = tile * TILE_ROWS;
    QArgs a = {.m = m};
    float pairs[ACT_BLOCK_ROWS * TILE_ROWS];
    unsigned char edge[EDGE_BYTES] __attribute__((aligned(CODE_VEC)));
    code_args(m, tile, (unsigned char *)aux_floats(l->ex, l->aux->tile), edge, &a);
    a.n_out = (int)packed_lanes(m, tile);
    const float *add = l->add ? l->add + n0 : NULL;
    a.add = n == 1 ? add : NULL;
    a.out_stride = n == 1 ? l->out.stride : TILE_ROWS;
    for (uint32_t b = b0; b < b1; b++) {
        uint32_t r0, r1, size;
        act_block(l->x.rows, block_rows(&l->acts), b, &r0, &r1);
        float *out = l->out.p + r0 * l->out.stride + n0;
        a.x_rows = (r1 - r0) * n;
        const size_t first = (size_t)r0 * n; /* code row */
        for (uint32_t r = 0; r < a.x_rows; r += size) {
            size = a.x_rows - r;
            QKernel *kernel =
                m->in_stream ? ISA(qstream_kernel)(m, &size) : ISA(qhead_kernel)(m, &size);
            a.x = l->acts.codes + first * m->n_units * UNIT_COLS + 4 * r;
            a.x_scale = l->acts.scale + first * m->n_units + r;
            a.corr = (const char *)l->acts.corr + (first * l->acts.n_corr + r) * 4;
            a.out = n == 1 ? out + r * l->out.stride : pairs + r * TILE_ROWS;
            kernel(&a);
        }
        if (n == 2) add_pairs(pairs, r1 - r0, a.n_out, add, out, l->out.stride);
    }
}

/* 32 outputs of coded weights as floats, [k][32], one by one: for what the kernels do not widen. */
static void widen_tile(const PackedMat *m, uint32_t tile, float *out) {
    float row[UNIT_COLS];
    for (uint32_t lane = 0; lane < packed_lanes(m, tile); lane++)
        for (uint32_t k = 0; k < m->k; k += UNIT_COLS) {
            uint32_t n = m->k - k < UNIT_COLS ? m->k - k : UNIT_COLS;
            packed_decode_cols(m, tile * FLOAT_TILE_ROWS + lane, k, n, row);
            for (uint32_t i = 0; i < n; i++) out[(size_t)(k + i) * FLOAT_TILE_ROWS + lane] = row[i];
        }
}

/* A tile as codes that kernels widen, with scales in scratch; false when they cannot. *used: bytes of
 * scratch. */
static bool widen_args(const PackedMat *m, uint32_t tile, unsigned char *scratch,
                       unsigned char *edge, FArgs *a, size_t *used) {
    const uint32_t lanes = packed_lanes(m, tile);
    const unsigned char *from = packed_tile(m, tile);
    unsigned char *at = scratch;
    /* A scale for every few columns would take more room than the weights as floats. */
    if (m->odd_codes || (m->group == 0 && m->n_scales > (m->k + 3) / 4)) return false;
    a->last = edge_unit(m, from, lanes, edge);
    a->tile = from + m->head_bytes;
    if (lanes < FLOAT_TILE_ROWS) {
        a->tile = at;
        at = edge_tile(m, from, lanes, at);
    }
    float *scale = (float *)(void *)at, *zero = scale;
    if (m->group == 0 && m->offset == WOFFSET_ZERO) zero += (size_t)m->n_scales * FLOAT_TILE_ROWS;
    size_t n = head_decode(m, tile, scale, zero);
    if (!ISA(widen_scales)(m, n, scale)) return false;
    a->m = m;
    a->scale = scale;
    a->zero = zero;
    *used = (size_t)((unsigned char *)(zero + n) - scratch);
    return true;
}

/* Rows of blocks b0..b1 in calls of one of three kernels. */
static void float_rows(const Linear *l, FArgs *a, DType t, uint32_t n0, uint32_t k0, uint32_t b0,
                       uint32_t b1) {
    for (uint32_t b = b0; b < b1; b++) {
        uint32_t r0, r1;
        act_block(l->x.rows, ACT_BLOCK_ROWS, b, &r0, &r1);
        for (uint32_t r = r0, n; r < r1; r += n) {
            n = r1 - r;
            FKernel *kernel = !a->m              ? ISA(float_kernel)(t, &n)
                              : a->m->group == 0 ? ISA(fine_kernel)(a->m, &n)
                                                 : ISA(widen_kernel)(a->m, &n);
            a->x = l->x.p + r * l->x.stride + k0;
            a->out = l->out.p + r * l->out.stride + n0;
            kernel(a);
        }
    }
}

enum { FINE_PIECE = 128 /* columns: 16 KiB as f32 */ };

/* Group 0, more than a few rows: pieces of the tile are widened once, and sums go on from one to the
 * next. */
static void fine_pieces(const Linear *l, const FArgs *tile, float *room, size_t n_floats,
                        uint32_t n0, uint32_t b0, uint32_t b1) {
    const size_t room_cols = n_floats / FLOAT_TILE_ROWS / UNIT_COLS * UNIT_COLS;
    const uint32_t piece = room_cols < FINE_PIECE ? (uint32_t)room_cols : FINE_PIECE;
    for (uint32_t k0 = 0, n; k0 < tile->k; k0 += n) {
        n = tile->k - k0 < piece ? tile->k - k0 : piece;
        ISA(fine_expand)(tile, k0, n, room);
        FArgs a = *tile;
        a.m = NULL;
        a.tile = (const unsigned char *)room;
        a.step = FLOAT_TILE_ROWS * sizeof *room;
        a.k = n;
        a.go_on = k0 > 0;
        if (k0 + n < tile->k) a.add = NULL;
        float_rows(l, &a, DTYPE_F32, n0, k0, b0, b1);
    }
}

static void float_tiles(const Linear *l, uint32_t tile, uint32_t b0, uint32_t b1) {
    const PackedMat *m = l->m;
    const uint32_t n0 = tile * FLOAT_TILE_ROWS;
    unsigned char edge[EDGE_BYTES] __attribute__((aligned(CODE_VEC)));
    float *scratch = aux_floats(l->ex, l->aux->tile);
    FArgs a = {.k = m->k, .x_stride = l->x.stride, .out_stride = l->out.stride};
    DType t = m->plain;
    size_t used = 0;
    a.n_out = (int)packed_lanes(m, tile);
    a.add = l->add ? l->add + n0 : NULL;
    if (m->kind == PACKED_FLOATS) {
        a.tile = packed_tile(m, tile);
        a.step = packed_lanes(m, tile) * dtype_size16(t);
    } else if (!widen_args(m, tile, (unsigned char *)scratch, edge, &a, &used)) {
        widen_tile(m, tile, scratch);
        a.tile = (const unsigned char *)scratch;
        a.step = FLOAT_TILE_ROWS * sizeof *scratch;
        t = DTYPE_F32;
    } else if (m->group == 0 && l->x.rows > ISA(fine_rows)) {
        fine_pieces(l, &a, scratch + used / sizeof *scratch,
                    (l->aux->tile_bytes - used) / sizeof *scratch, n0, b0, b1);
        return;
    }
    float_rows(l, &a, t, n0, 0, b0, b1);
}

enum { L2_ACT_BYTES = 384 << 10 };

/* All tiles x all row blocks; rows in pieces whose activations stay in the second-level cache. */
static void linear_part(const Linear *l, int i_thread, int n_threads) {
    const PackedMat *m = l->m;
    bool codes = packed_is_int(m);
    uint32_t tile_rows = codes ? TILE_ROWS : FLOAT_TILE_ROWS,
             n_tiles = (m->n + tile_rows - 1) / tile_rows;
    uint32_t n_blocks = act_n_blocks(l->x.rows, codes ? block_rows(&l->acts) : ACT_BLOCK_ROWS);
    uint32_t t0 = 0, t1 = n_tiles, b_from = 0, b_to = n_blocks;
    if (n_tiles >= 4 * (uint32_t)n_threads || n_blocks < (uint32_t)n_threads) {
        host_share(n_tiles, i_thread, n_threads, &t0, &t1);
    } else {
        host_share(n_blocks, i_thread, n_threads, &b_from, &b_to);
    }
    size_t block_bytes = (size_t)ACT_BLOCK_ROWS * m->k * (codes ? 1 : 4);
    uint32_t piece = L2_ACT_BYTES / block_bytes > 0 ? (uint32_t)(L2_ACT_BYTES / block_bytes) : 1;
    if (m->kind == PACKED_WIDEN && m->group == 0) piece = n_blocks; /* goes by pieces of K */
    for (uint32_t b = b_from; b < b_to; b += piece) {
        uint32_t b1 = b_to - b < piece ? b_to : b + piece;
        for (uint32_t t = t0; t < t1; t++) {
            if (codes) {
                code_tile(l, t, b, b1);
            } else {
                float_tiles(l, t, b, b1);
            }
        }
    }
}

void ISA(op_linear)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    const BackWeight *w = ex->weights[op->w[0]];
    const float *bias = op->w[1] == W_NONE ? NULL : ex->weights[op->w[1]]->vector;
    Linear l = {.ex = ex, .aux = aux_thread(ex, i_thread, n_threads), .x = host_mat(ex, op->in[0])};
    /* Ops of one run come in ascending order: an op at or before the last one starts a new run,
     * whose values are new. */
    if (op <= l.aux->last_linear) l.aux->key_shared.valid = l.aux->key_private.valid = false;
    l.aux->last_linear = op;
    if (l.x.rows == 0) return;
    Mat out = host_mat(ex, op->out);
    uint32_t n0 = 0;
    for (int i = 0; i < w->n_parts; n0 += w->parts[i++].n) {
        l.m = &w->parts[i];
        l.out = (Mat){out.p + n0, out.stride, out.rows, l.m->n};
        l.add = bias ? bias + n0 : NULL;
        if (packed_is_int(l.m)) l.acts = acts_for(ex, l.aux, l.m, op, l.x, i_thread, n_threads);
        linear_part(&l, i_thread, n_threads);
    }
}

/* ---- experts ---- */

typedef struct Chosen { /* rows of one expert that are computed together */
    uint32_t n;
    uint32_t row[ACT_BLOCK_ROWS], slot[ACT_BLOCK_ROWS];
} Chosen;

/* Rows of expert e from (*row, *slot) on, at most a block of them; false when there are none left.
 * Without routes part e of every row is expert e's. */
static bool next_chosen(Mat routes, uint32_t k, uint32_t e, uint32_t *row, uint32_t *slot,
                        Chosen *c) {
    c->n = 0;
    for (; *row < routes.rows; (*row)++, *slot = 0)
        for (; *slot < k; (*slot)++) {
            uint32_t chosen = routes.p ? (uint32_t)routes.p[*row * routes.stride + *slot] : *slot;
            if (chosen != e) continue;
            if (c->n == ACT_BLOCK_ROWS) return true;
            c->row[c->n] = *row;
            c->slot[c->n++] = *slot;
        }
    return c->n > 0;
}

static void expert_acts(Linear *l, char *at) {
    const PackedMat *m = l->m;
    QActsKey key = {.offset = m->offset,
                    .zero = m->offset == WOFFSET_CONST ? m->zero : 0,
                    .halves = !m->in_stream && m->units_per_group == 0,
                    .whole_row = m->row_acts,
                    .perm = m->perm,
                    .valid = true};
    size_t elements = (size_t)l->x.rows * m->n_units * UNIT_COLS;
    l->acts = (QActs){.codes = (int8_t *)at,
                      .n_rows = l->x.rows,
                      .n_units = m->n_units,
                      .per_row = 1,
                      .n_corr = m->n_units * (key.halves ? 2 : 1)};
    l->acts.scale = (float *)(void *)(at + size_align(elements, 64));
    l->acts.corr = (char *)l->acts.scale + size_align((size_t)l->x.rows * m->n_units * 4, 64);
    quantize_rows(&l->acts, &key, l->x, 0, l->x.rows);
}

/* One expert's matrix times the chosen rows, the tiles of this thread. Every thread gathers and
 * quantizes for itself: the rows are few, and nobody waits. */
static void expert_rows(Linear *l, Mat x, size_t step, const Chosen *c, Mat out, uint32_t n,
                        int i_thread, int n_threads) {
    const PackedMat *m = l->m;
    const AuxThread *t = l->aux;
    bool codes = packed_is_int(m);
    float *in = aux_floats(l->ex, t->experts), *result = in + (size_t)ACT_BLOCK_ROWS * t->expert_in;
    uint32_t t0, t1, tile_rows = codes ? TILE_ROWS : FLOAT_TILE_ROWS;
    host_share((m->n + tile_rows - 1) / tile_rows, i_thread, n_threads, &t0, &t1);
    if (t0 == t1) return;
    for (uint32_t i = 0; i < c->n; i++)
        memcpy(in + (size_t)i * t->expert_in, x.p + c->row[i] * x.stride + c->slot[i] * step,
               m->k * sizeof *in);
    l->x = (Mat){in, t->expert_in, c->n, m->k};
    l->out = (Mat){result, t->expert_out, c->n, m->n};
    if (codes) expert_acts(l, (char *)(result + (size_t)ACT_BLOCK_ROWS * t->expert_out));
    for (uint32_t tile = t0; tile < t1; tile++) {
        if (codes) {
            code_tile(l, tile, 0, 1);
        } else {
            float_tiles(l, tile, 0, 1);
        }
    }
    uint32_t from = t0 * tile_rows, to = t1 * tile_rows < m->n ? t1 * tile_rows : m->n;
    for (uint32_t i = 0; i < c->n; i++)
        memcpy(out.p + c->row[i] * out.stride + (size_t)c->slot[i] * n + from,
               result + (size_t)i * t->expert_out + from, (to - from) * sizeof *result);
}

void ISA(op_experts)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    const BackWeight *w = ex->weights[op->w[0]];
    const float *bias = op->w[1] == W_NONE ? NULL : ex->weights[op->w[1]]->vector;
    Mat x = host_mat(ex, op->in[0]), routes = {.rows = x.rows}, out = host_mat(ex, op->out);
    const OpExperts p = op->p.experts;
    if (op->in[1] != VAL_NONE) routes = host_mat(ex, op->in[1]);
    size_t step = x.cols == w->k ? 0 : w->k;
    Linear l = {.ex = ex, .aux = aux_thread(ex, i_thread, n_threads)};
    for (uint32_t e = 0; e < p.n_experts; e++) {
        uint32_t row = 0, slot = 0;
        Chosen c;
        l.m = &w->parts[e];
        l.add = bias ? bias + (size_t)e * p.n : NULL;
        while (next_chosen(routes, p.k, e, &row, &slot, &c))
            expert_rows(&l, x, step, &c, out, p.n, i_thread, n_threads);
    }
}
