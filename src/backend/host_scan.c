/* Recurrences of host backends: row by row in the order of the sequence, in f32 state with f64 sums,
 * so that no result depends on where a step was cut. Sequences and channels (or heads) are dealt to
 * threads; nothing is shared between them. */
#include <math.h>
#include <string.h>

#include "backend/host.h"

/* One sequence's state of an op while its rows are walked. The part [from, to) of its floats is this
 * thread's. */
typedef struct Walk {
    const HostExec *ex;
    const StepSeq *seq;
    StateId id;
    float *state; /* where the step leaves it */
    size_t from, to;
} Walk;

static Walk walk_begin(const HostExec *ex, const Op *op, uint32_t s, size_t from, size_t to) {
    const StepSeq *seq = &step_seqs(ex->step)[s];
    Walk w = {.ex = ex, .seq = seq, .id = op->state, .from = from, .to = to};
    w.state = host_state(ex, op->state, seq->state_to);
    if (step_rows(ex->step)[seq->first_row].slot == 0) {
        memset(w.state + from, 0, (to - from) * sizeof(float));
    } else if (seq->state_from != seq->state_to) {
        memcpy(w.state + from, host_state(ex, op->state, seq->state_from) + from,
               (to - from) * sizeof(float));
    }
    return w;
}

/* Keeps the state behind row r where the step asks for it. */
static void walk_mark(const Walk *w, uint32_t r) {
    uint32_t slot = step_rows(w->ex->step)[r].mark;
    if (slot == STEP_NO_MARK || slot == w->seq->state_to) return;
    memcpy(host_state(w->ex, w->id, slot) + w->from, w->state + w->from,
           (w->to - w->from) * sizeof(float));
}

static const float *row_at(Mat m, uint32_t r) { return m.p + (size_t)r * m.stride; }
static float *out_at(Mat m, uint32_t r) { return m.p + (size_t)r * m.stride; }

/* State [kernel - 1][cols], oldest first. */
void host_conv(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const float *w = host_floats(ex, op->w[0]), *bias = host_floats(ex, op->w[1]);
    uint32_t kernel = op->p.conv.kernel, cols = x.cols, from, to;
    host_share(cols, i_thread, n_threads, &from, &to);
    for (uint32_t s = 0; s < ex->step->n_seqs; s++) {
        /* A thread's columns are not contiguous in the state: each row of it is walked apart. */
        Walk row[CONV_MAX_KERNEL];
        for (uint32_t i = 0; i + 1 < kernel; i++)
            row[i] = walk_begin(ex, op, s, (size_t)i * cols + from, (size_t)i * cols + to);
        const StepSeq *seq = &step_seqs(ex->step)[s];
        for (uint32_t r = seq->first_row; r < seq->first_row + seq->n_rows; r++) {
            float *state = row[0].state, *o = out_at(out, r);
            const float *in = row_at(x, r);
            for (uint32_t c = from; c < to; c++) {
                double sum = bias ? bias[c] : 0;
                for (uint32_t i = 0; i + 1 < kernel; i++)
                    sum += (double)w[(size_t)c * kernel + i] * state[(size_t)i * cols + c];
                sum += (double)w[(size_t)c * kernel + kernel - 1] * in[c];
                for (uint32_t i = 0; i + 2 < kernel; i++)
                    state[(size_t)i * cols + c] = state[(size_t)(i + 1) * cols + c];
                state[(size_t)(kernel - 2) * cols + c] = in[c];
                o[c] = (float)sum;
            }
            for (uint32_t i = 0; i + 1 < kernel; i++) walk_mark(&row[i], r);
        }
    }
}

typedef struct SsmHead {
    const OpSsm *p;
    const float *a; /* [n_state], or one for all */
    bool a_each;
    double d;
} SsmHead;

static void ssm_row(const SsmHead *h, const float *x, double dt, const float *b, const float *c,
                    float *state, float *y) {
    uint32_t n_state = h->p->n_state;
    double decay = 0;
    for (uint32_t p = 0; p < h->p->head_dim; p++) {
        double sum = 0;
        for (uint32_t n = 0; n < n_state; n++) {
            if ((n == 0 && p == 0) || h->a_each) {
                double a = h->a[h->a_each ? n : 0];
                decay = exp(dt * (h->p->a_log ? -exp(a) : a));
            }
            float *s = &state[(size_t)p * n_state + n];
            *s = (float)(decay * *s + dt * b[n] * x[p]);
            sum += (double)*s * c[n];
        }
        y[p] = (float)(sum + h->d * x[p]);
    }
}

void host_ssm(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), dt = host_mat(ex, op->in[1]), b = host_mat(ex, op->in[2]),
        c = host_mat(ex, op->in[3]), out = host_mat(ex, op->out);
    const OpSsm *p = &op->p.ssm;
    const float *a = host_floats(ex, op->w[0]), *d = host_floats(ex, op->w[1]);
    bool a_each = ex->program->weights[op->w[0]].k != p->n_heads || p->n_state == 1;
    size_t size = (size_t)p->head_dim * p->n_state;
    uint32_t from, to;
    host_share(p->n_heads * ex->step->n_seqs, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) {
        uint32_t s = i / p->n_heads, h = i % p->n_heads, g = h / (p->n_heads / p->n_groups);
        Walk w = walk_begin(ex, op, s, h * size, (h + 1) * size);
        SsmHead head = {p, a + (a_each ? (size_t)h * p->n_state : h), a_each, d ? d[h] : 0};
        for (uint32_t r = w.seq->first_row; r < w.seq->first_row + w.seq->n_rows; r++) {
            ssm_row(&head, row_at(x, r) + (size_t)h * p->head_dim, row_at(dt, r)[h],
                    row_at(b, r) + (size_t)g * p->n_state, row_at(c, r) + (size_t)g * p->n_state,
                    w.state + w.from, out_at(out, r) + (size_t)h * p->head_dim);
            walk_mark(&w, r);
        }
    }
}

static void delta_row(const OpDelta *p, const float *q, const float *k, const float *v,
                      const float *g, bool g_each, double beta, float *state, float *y) {
    double e[DELTA_MAX_V] = {0}, sum[DELTA_MAX_V] = {0}, decay = exp(g[0]);
    for (uint32_t i = 0; i < p->k_dim; i++) {
        if (g_each) decay = exp(g[i]);
        float *row = state + (size_t)i * p->v_dim;
        for (uint32_t j = 0; j < p->v_dim; j++) {
            row[j] = (float)(row[j] * decay);
            e[j] += (double)k[i] * row[j];
        }
    }
    for (uint32_t j = 0; j < p->v_dim; j++) e[j] = beta * (v[j] - e[j]);
    for (uint32_t i = 0; i < p->k_dim; i++) {
        float *row = state + (size_t)i * p->v_dim;
        for (uint32_t j = 0; j < p->v_dim; j++) {
            row[j] = (float)(row[j] + k[i] * e[j]);
            sum[j] += (double)q[i] * row[j];
        }
    }
    for (uint32_t j = 0; j < p->v_dim; j++) y[j] = (float)sum[j];
}

/* State [head][k][v]. */
void host_delta(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat q = host_mat(ex, op->in[0]), k = host_mat(ex, op->in[1]), v = host_mat(ex, op->in[2]),
        g = host_mat(ex, op->in[3]), beta = host_mat(ex, op->in[4]), out = host_mat(ex, op->out);
    const OpDelta *p = &op->p.delta;
    bool g_each = g.cols != p->n_heads || p->k_dim == 1;
    size_t size = (size_t)p->k_dim * p->v_dim;
    uint32_t from, to;
    host_share(p->n_heads * ex->step->n_seqs, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) {
        uint32_t s = i / p->n_heads, h = i % p->n_heads,
                 kh = p->tiled ? h % p->n_k_heads : h / (p->n_heads / p->n_k_heads);
        Walk w = walk_begin(ex, op, s, h * size, (h + 1) * size);
        for (uint32_t r = w.seq->first_row; r < w.seq->first_row + w.seq->n_rows; r++) {
            delta_row(p, row_at(q, r) + (size_t)kh * p->k_dim, row_at(k, r) + (size_t)kh * p->k_dim,
                      row_at(v, r) + (size_t)h * p->v_dim,
                      row_at(g, r) + (g_each ? (size_t)h * p->k_dim : h), g_each,
                      row_at(beta, r)[h], w.state + w.from, out_at(out, r) + (size_t)h * p->v_dim);
            walk_mark(&w, r);
        }
    }
}

void host_rg_lru(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), log_a = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    uint32_t from, to;
    host_share(x.cols, i_thread, n_threads, &from, &to);
    for (uint32_t s = 0; s < ex->step->n_seqs; s++) {
        Walk w = walk_begin(ex, op, s, from, to);
        for (uint32_t r = w.seq->first_row; r < w.seq->first_row + w.seq->n_rows; r++) {
            bool first = step_rows(ex->step)[r].pos[0] == 0;
            for (uint32_t c = from; c < to; c++) {
                double la = row_at(log_a, r)[c], in = row_at(x, r)[c];
                double h = first ? in : exp(la) * w.state[c] + sqrt(-expm1(2 * la)) * in;
                out_at(out, r)[c] = w.state[c] = (float)h;
            }
            walk_mark(&w, r);
        }
    }
}

/* A softmax under way: the largest score, the sum of exp(score - it), the same of values; sum 0: of
 * nothing yet. */
typedef struct Part {
    float max, sum, value;
} Part;

static Part part_add(Part a, Part b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    double max = a.max > b.max ? a.max : b.max, fa = exp(a.max - max), fb = exp(b.max - max);
    return (Part){(float)max, (float)(fa * a.sum + fb * b.sum),
                  (float)(fa * a.value + fb * b.value)};
}

/* Of each column: [this group | its other half, for the next | the group before's]. */
static float compress_column(Part *state, const float *x, const float *gate, const float *bias,
                             uint32_t cols, const OpCompress *p, bool last) {
    const uint32_t at = p->overlap ? cols : 0;
    state[0] = part_add(state[0], (Part){gate[at] + bias[at], 1, x[at]});
    if (p->overlap) state[1] = part_add(state[1], (Part){gate[0] + bias[0], 1, x[0]});
    if (!last) return 0;
    Part all = p->overlap ? part_add(state[2], state[0]) : state[0];
    if (p->overlap) state[2] = state[1], state[1] = (Part){0};
    state[0] = (Part){0};
    return (float)((double)all.value / all.sum);
}

/* State [column][part]. */
void host_compress(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), gate = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    const OpCompress *p = &op->p.compress;
    const float *bias = host_floats(ex, op->w[0]);
    uint32_t parts = p->overlap ? 3 : 1, size = parts * 3, from, to;
    host_share(out.cols, i_thread, n_threads, &from, &to);
    for (uint32_t s = 0; s < ex->step->n_seqs; s++) {
        Walk w = walk_begin(ex, op, s, (size_t)from * size, (size_t)to * size);
        for (uint32_t r = w.seq->first_row; r < w.seq->first_row + w.seq->n_rows; r++) {
            uint32_t place = step_rows(ex->step)[r].slot % p->rate;
            for (uint32_t c = from; c < to; c++) {
                Part state[3];
                float *kept = w.state + (size_t)c * size;
                memcpy(state, kept, size * sizeof *kept);
                out_at(out, r)[c] = compress_column(state, row_at(x, r) + c, row_at(gate, r) + c,
                                                    bias + (size_t)place * x.cols + c, out.cols, p,
                                                    place == p->rate - 1);
                memcpy(kept, state, size * sizeof *kept);
            }
            walk_mark(&w, r);
        }
    }
}
