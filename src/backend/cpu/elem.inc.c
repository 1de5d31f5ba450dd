/* The row-wise ops: norms, rope, elementwise functions. Elements are independent, or a row (or
 * column group) is reduced by one thread in fixed blocks of 64 columns, so the split over threads
 * changes nothing. Outputs may lie over inputs. */
#include <math.h>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/vmath.inc.c"

enum { PIECE_COLS = 256 };

/* Rows in pieces of 256 columns, dealt to threads: one long row keeps all of them busy. */
typedef struct Pieces {
    uint32_t i, to, per_row, cols;
    uint32_t row, c0, c1; /* the current piece */
} Pieces;

static Pieces pieces_of(Mat m, int i_thread, int n_threads) {
    Pieces p = {.per_row = (m.cols + PIECE_COLS - 1) / PIECE_COLS, .cols = m.cols};
    host_share(m.rows * p.per_row, i_thread, n_threads, &p.i, &p.to);
    return p;
}

static bool pieces_next(Pieces *p) {
    if (p->i >= p->to) return false;
    p->row = p->i / p->per_row;
    p->c0 = p->i % p->per_row * PIECE_COLS;
    p->c1 = p->cols - p->c0 < PIECE_COLS ? p->cols : p->c0 + PIECE_COLS;
    p->i++;
    return true;
}

/* Each vector of a piece: c its column, n its lanes. */
#define EACH_VECTOR(p)                                                                             \
    for (uint32_t c = (p).c0, n = 16; c < (p).c1 && (n = (p).c1 - c < 16 ? (p).c1 - c : 16);       \
         c += 16)
#define ROW_OF(m, r) ((m).p + (size_t)(r) * (m).stride)
#define EACH_PIECE(out) for (Pieces p = pieces_of(out, i_thread, n_threads); pieces_next(&p);)

void ISA(op_add)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), b = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    vf scale = vf_set1(op->p.scale);
    EACH_PIECE(out)
    EACH_VECTOR(p) {
        vf va = vf_load_n(ROW_OF(a, p.row) + c, (int)n),
           vb = b.cols == 1 ? vf_set1(*ROW_OF(b, p.row)) : vf_load_n(ROW_OF(b, p.row) + c, (int)n);
        vf_store_n(ROW_OF(out, p.row) + c, vf_fma(vb, scale, va), (int)n);
    }
}

void ISA(op_mul)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), b = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    EACH_PIECE(out)
    EACH_VECTOR(p) {
        vf vb = b.cols == 1 ? vf_set1(*ROW_OF(b, p.row)) : vf_load_n(ROW_OF(b, p.row) + c, (int)n);
        vf_store_n(ROW_OF(out, p.row) + c, vf_mul(vf_load_n(ROW_OF(a, p.row) + c, (int)n), vb),
                   (int)n);
    }
}

void ISA(op_scale)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    vf scale = vf_set1(op->p.affine.scale), offset = vf_set1(op->p.affine.offset);
    EACH_PIECE(out)
    EACH_VECTOR(p)
    vf_store_n(ROW_OF(out, p.row) + c,
               vf_fma(vf_load_n(ROW_OF(a, p.row) + c, (int)n), scale, offset), (int)n);
}

void ISA(op_act)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    EACH_PIECE(out)
    EACH_VECTOR(p) {
        vf v = vf_act(op->p.act.fn, op->p.act.param, vf_load_n(ROW_OF(a, p.row) + c, (int)n));
        vf_store_n(ROW_OF(out, p.row) + c, v, (int)n);
    }
}

void ISA(cpu_act)(int act, float param, const float *x, float *out, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        int lanes = n - i < 16 ? (int)(n - i) : 16;
        vf_store_n(out + i, vf_act((Act)act, param, vf_load_n(x + i, lanes)), lanes);
    }
}

void ISA(op_glu)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat g = host_mat(ex, op->in[0]), u = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    EACH_PIECE(out)
    EACH_VECTOR(p) {
        vf v = vf_act(op->p.act.fn, op->p.act.param, vf_load_n(ROW_OF(g, p.row) + c, (int)n));
        vf_store_n(ROW_OF(out, p.row) + c, vf_mul(v, vf_load_n(ROW_OF(u, p.row) + c, (int)n)),
                   (int)n);
    }
}

void ISA(op_select)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const uint32_t *wanted = step_out_rows(ex->step);
    EACH_PIECE(out)
    memcpy(ROW_OF(out, p.row) + p.c0, ROW_OF(x, wanted[p.row]) + p.c0,
           (p.c1 - p.c0) * sizeof(float));
}

/* ---- norms ---- */

/* sum of (x - mean)^power, power 1 or 2, over n columns: four running vectors, blocks of 64
 * columns. */
INLINE float norm_sum(const float *x, uint32_t n, float mean, const int power) {
    vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    vf m = vf_set1(mean);
    uint32_t c = 0;
#define NORM_PART(i, load, mask)                                                                   \
    {                                                                                              \
        vf v = load;                                                                               \
        if (power == 2) {                                                                          \
            v = vf_sub(v, m);                                                                      \
            mask;                                                                                  \
            s[i] = vf_fma(v, v, s[i]);                                                             \
        } else {                                                                                   \
            s[i] = vf_add(s[i], v);                                                                \
        }                                                                                          \
    }
    for (; c + 64 <= n; c += 64) {
        NORM_PART(0, vf_load(x + c), )
        NORM_PART(1, vf_load(x + c + 16), )
        NORM_PART(2, vf_load(x + c + 32), )
        NORM_PART(3, vf_load(x + c + 48), )
    }
    for (int i = 0; c < n; c += 16, i++) {
        int lanes = n - c < 16 ? (int)(n - c) : 16;
        NORM_PART(i, vf_load_n(x + c, lanes), v = vf_sel(vm_first(lanes), v, vf_zero()))
    }
#undef NORM_PART
    return vf_hsum(vf_add(vf_add(s[0], s[2]), vf_add(s[1], s[3])));
}

typedef struct Norm {
    Mat x, out;
    const float *w, *b;
    OpNorm p;
    bool per_group; /* w and b have an entry per column of the row, not of the group */
    uint32_t n_groups;
} Norm;

static Norm norm_of(const HostExec *ex, const Op *op) {
    Norm n = {.x = host_mat(ex, op->in[0]), .out = host_mat(ex, op->out), .p = op->p.norm};
    if (op->w[0] != W_NONE) n.w = ex->weights[op->w[0]]->vector;
    if (op->w[1] != W_NONE) n.b = ex->weights[op->w[1]]->vector;
    WeightId any = op->w[0] != W_NONE ? op->w[0] : op->w[1];
    n.per_group = any != W_NONE && ex->program->weights[any].k == n.x.cols;
    n.n_groups = n.x.cols / n.p.group;
    return n;
}

INLINE void norm_group(const Norm *n, uint32_t row, uint32_t g, const bool centred) {
    uint32_t cols = n->p.group, at = g * cols, w_at = n->per_group ? at : 0;
    const float *x = ROW_OF(n->x, row) + at;
    float *o = ROW_OF(n->out, row) + at;
    float mean = centred ? norm_sum(x, cols, 0, 1) / (float)cols : 0;
    float inv = 1.0f / sqrtf(norm_sum(x, cols, mean, 2) / (float)cols + n->p.eps);
    vf vm_ = vf_set1(mean), vi_ = vf_set1(inv), add = vf_set1(n->p.w_add);
    for (uint32_t c = 0; c < cols; c += 16) {
        int lanes = cols - c < 16 ? (int)(cols - c) : 16;
        vf v = vf_load_n(x + c, lanes);
        if (centred) v = vf_sub(v, vm_);
        v = vf_mul(v, vi_);
        if (n->w) v = vf_mul(v, vf_add(vf_load_n(n->w + w_at + c, lanes), add));
        if (centred && n->b) v = vf_add(v, vf_load_n(n->b + w_at + c, lanes));
        vf_store_n(o + c, v, lanes);
    }
}

void ISA(op_rms_norm)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Norm n = norm_of(ex, op);
    uint32_t from, to;
    host_share(n.x.rows * n.n_groups, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) norm_group(&n, i / n.n_groups, i % n.n_groups, false);
}

void ISA(op_layer_norm)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Norm n = norm_of(ex, op);
    uint32_t from, to;
    host_share(n.x.rows * n.n_groups, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) norm_group(&n, i / n.n_groups, i % n.n_groups, true);
}

/* ---- rope ---- */

/* The angle is an f32 product, as in the references; its cosine and sine are rounded from f64. */
void ISA(op_rope_angles)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out);
    const RopeSpec *spec = &ex->program->ropes[op->p.rope.spec];
    const StepRow *rows = step_rows(ex->step);
    float freq[ROPE_MAX_PAIRS], factor = 1;
    uint32_t half = out.cols / 2, from, to, class_ = 0;
    bool known = false;
    host_share(out.rows, i_thread, n_threads, &from, &to);
    for (uint32_t r = from; r < to; r++) {
        uint32_t length_class = step_seqs(ex->step)[rows[r].seq].length_class;
        if (!known || length_class != class_) rope_inv_freq(spec, length_class, freq, &factor);
        known = true;
        class_ = length_class;
        float *o = ROW_OF(out, r);
        for (uint32_t i = 0; i < half; i++) {
            double angle = rope_position(spec, rows[r].pos, i) * freq[i], sn, cs;
            sincos(angle, &sn, &cs);
            o[i] = (float)(cs * (double)factor);
            o[half + i] = (float)(sn * (double)factor);
        }
    }
}

INLINE void rotate_halves(const float *in, float *o, const float *cs, const float *sn,
                          uint32_t half) {
    for (uint32_t i = 0; i < half; i += 16) {
        int n = half - i < 16 ? (int)(half - i) : 16;
        vf a = vf_load_n(in + i, n), b = vf_load_n(in + half + i, n), c = vf_load_n(cs + i, n),
           s = vf_load_n(sn + i, n);
        vf_store_n(o + i, vf_fnma(b, s, vf_mul(a, c)), n);
        vf_store_n(o + half + i, vf_fma(a, s, vf_mul(b, c)), n);
    }
}

static void rotate_pairs(const float *in, float *o, const float *cs, const float *sn,
                         uint32_t half) {
    for (uint32_t i = 0; i < half; i++) {
        float a = in[2 * i], b = in[2 * i + 1];
        o[2 * i] = a * cs[i] - b * sn[i];
        o[2 * i + 1] = b * cs[i] + a * sn[i];
    }
}

void ISA(op_rope)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), angles = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    const OpRope p = op->p.rope;
    uint32_t half = angles.cols / 2, from, to;
    host_share(x.rows * p.n_heads, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) {
        uint32_t r = i / p.n_heads, at = i % p.n_heads * p.head_dim;
        const float *in = ROW_OF(x, r) + at, *cs = ROW_OF(angles, r);
        float *o = ROW_OF(out, r) + at;
        if (in != o && 2 * half != p.head_dim) memcpy(o, in, p.head_dim * sizeof *o);
        if (p.interleaved) {
            rotate_pairs(in + p.offset, o + p.offset, cs, cs + half, half);
        } else {
            rotate_halves(in + p.offset, o + p.offset, cs, cs + half, half);
        }
    }
}
