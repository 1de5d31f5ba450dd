/* Ops of host backends that look up, move and combine rows and columns. */
#include <math.h>
#include <string.h>

#include "backend/host.h"

#define MY_ROWS(r, m)                                                                              \
    uint32_t r##_from, r##_to;                                                                     \
    host_share((m).rows, i_thread, n_threads, &r##_from, &r##_to);                                 \
    for (uint32_t r = r##_from; r < r##_to; r++)

static float *row_at(Mat m, uint32_t r) { return m.p + (size_t)r * m.stride; }

/* The number that looks the table up; -1: none. */
static int64_t embed_number(const OpEmbed *p, const StepRow *row) {
    if (p->key != EMBED_TOKEN) return (int64_t)row->pos[p->key - EMBED_POS0] + p->offset;
    return row->source & STEP_MEDIA_BIT ? -1 : (int64_t)row->source + p->offset;
}

void host_embed(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out), media = {0};
    const OpEmbed p = op->p.embed;
    const BackWeight *w = ex->weights[op->w[0]];
    const StepRow *rows = step_rows(ex->step);
    int64_t n = ex->program->weights[op->w[0]].n;
    if (op->in[0] != VAL_NONE) media = host_mat(ex, op->in[0]);
    MY_ROWS(r, out) {
        float *o = row_at(out, r);
        int64_t number = embed_number(&p, &rows[r]);
        if (p.outside_first && (number < 0 || number >= n)) number = 0;
        if (media.p && p.key == EMBED_TOKEN && rows[r].source & STEP_MEDIA_BIT) {
            memcpy(o, row_at(media, r), out.cols * sizeof *o);
        } else if (number < 0 || number >= n) {
            memset(o, 0, out.cols * sizeof *o);
        } else {
            ex->be->ops->table_row(w, (uint32_t)number, o);
            for (uint32_t c = 0; p.scale != 1.0f && c < out.cols; c++) o[c] *= p.scale;
        }
    }
}

void host_input(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out);
    const ProgInput *in = &ex->program->inputs[op->p.input];
    const StepRow *rows = step_rows(ex->step);
    uint32_t n = ex->max_rows[in->space];
    MY_ROWS(r, out) {
        uint32_t from = in->space == SPACE_T ? rows[r].source ^ STEP_MEDIA_BIT : r;
        if (from < n) {
            memcpy(row_at(out, r), ex->input[op->p.input] + (size_t)from * out.cols,
                   out.cols * sizeof(float));
        } else {
            memset(row_at(out, r), 0, out.cols * sizeof(float));
        }
    }
}

void host_gather_sum(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat picks = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const BackWeight *w = ex->weights[op->w[0]];
    uint32_t k = picks.cols / 2, n = ex->program->weights[op->w[0]].n;
    float row[GATHER_MAX_COLS];
    MY_ROWS(r, out) {
        const float *pick = row_at(picks, r);
        float *o = row_at(out, r);
        memset(o, 0, out.cols * sizeof *o);
        for (uint32_t j = 0; j < k; j++) {
            if (!(pick[j] >= 0) || pick[j] >= (float)n) continue;
            ex->be->ops->table_row(w, (uint32_t)pick[j], row);
            for (uint32_t c = 0; c < out.cols; c++) o[c] += pick[k + j] * row[c];
        }
    }
}

void host_concat(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), b = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    uint32_t n_groups = op->p.n_groups, na = a.cols / n_groups, nb = b.cols / n_groups;
    MY_ROWS(r, out) {
        float *o = row_at(out, r);
        for (uint32_t g = 0; g < n_groups; g++, o += na + nb) {
            memcpy(o, row_at(a, r) + (size_t)g * na, na * sizeof *o);
            memcpy(o + na, row_at(b, r) + (size_t)g * nb, nb * sizeof *o);
        }
    }
}

void host_reduce(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const OpReduce p = op->p.reduce;
    MY_ROWS(r, out) {
        for (uint32_t g = 0; g < out.cols; g++) {
            const float *in = row_at(x, r) + (size_t)g * p.group;
            double sum = 0;
            for (uint32_t c = 0; c < p.group; c++)
                sum += p.fn == REDUCE_RMS ? (double)in[c] * in[c] : in[c];
            if (p.fn != REDUCE_SUM) sum /= p.group;
            row_at(out, r)[g] = (float)(p.fn == REDUCE_RMS ? sqrt(sum + (double)p.eps) : sum);
        }
    }
}

/* Rows of sequence s in a space of which T has n_t rows in the step. */
static void seq_rows(const HostExec *ex, const StepSeq *s, uint32_t rows_of_space, uint32_t *from,
                     uint32_t *n) {
    uint64_t n_t = ex->step->n_rows;
    *from = (uint32_t)((uint64_t)s->first_row * rows_of_space / n_t);
    *n = (uint32_t)((uint64_t)s->n_rows * rows_of_space / n_t);
}

void host_unfold(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const OpUnfold p = op->p.unfold;
    for (uint32_t s = 0; s < ex->step->n_seqs; s++) {
        uint32_t in0, n_in, out0, n_out, from, to;
        seq_rows(ex, &step_seqs(ex->step)[s], x.rows, &in0, &n_in);
        seq_rows(ex, &step_seqs(ex->step)[s], out.rows, &out0, &n_out);
        host_share(n_out, i_thread, n_threads, &from, &to);
        for (uint32_t i = from; i < to; i++) {
            for (uint32_t k = 0; k < p.kernel; k++) {
                float *o = row_at(out, out0 + i) + (size_t)k * x.cols;
                int64_t at = (int64_t)i * p.stride - p.pad + k;
                if (at >= 0 && at < n_in) {
                    memcpy(o, row_at(x, in0 + (uint32_t)at), x.cols * sizeof *o);
                } else {
                    memset(o, 0, x.cols * sizeof *o);
                }
            }
        }
    }
}

void host_pool(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    MY_ROWS(s, out) {
        const StepSeq *seq = &step_seqs(ex->step)[s];
        uint32_t first = seq->first_row, last = seq->first_row + seq->n_rows - 1;
        if (op->p.pool == POOL_FIRST) last = first;
        if (op->p.pool == POOL_LAST) first = last;
        for (uint32_t c = 0; c < out.cols; c++) {
            double sum = 0;
            for (uint32_t r = first; r <= last; r++) sum += row_at(x, r)[c];
            row_at(out, s)[c] = (float)(sum / (last - first + 1));
        }
    }
}

void host_pos_scale(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out);
    const OpPosScale p = op->p.pos_scale;
    MY_ROWS(r, out) {
        double at = (double)step_rows(ex->step)[r].pos[0] + (double)p.offset;
        double steps = floor(at / (double)p.floor);
        *row_at(out, r) = (float)(1 + (double)p.scale * log1p(steps));
    }
}

void host_mix(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), coef = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    uint32_t n_in = op->p.mix.n_in, n_out = op->p.mix.n_out, n = x.cols / n_in;
    MY_ROWS(r, out) {
        for (uint32_t i = 0; i < n_out; i++) {
            const float *a = row_at(coef, r) + (size_t)i * n_in, *in = row_at(x, r);
            for (uint32_t c = 0; c < n; c++) {
                double sum = 0;
                for (uint32_t j = 0; j < n_in; j++) sum += (double)a[j] * in[(size_t)j * n + c];
                row_at(out, r)[(size_t)i * n + c] = (float)sum;
            }
        }
    }
}

void host_col_scale(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const float *w = host_floats(ex, op->w[0]), *add = host_floats(ex, op->w[1]);
    MY_ROWS(r, out) {
        for (uint32_t c = 0; c < out.cols; c++) {
            double f = w ? w[c] : 1;
            if (op->p.col_fn == COL_NEG_EXP) f = -exp(f);
            if (op->p.col_fn == COL_SOFTPLUS) f = f > 0 ? f + log1p(exp(-f)) : log1p(exp(f));
            row_at(out, r)[c] = (float)(row_at(a, r)[c] * f + (add ? (double)add[c] : 0));
        }
    }
}

/* m[k * step] for k < n: divided by their sum + eps. */
static void sum_to_one(double *m, uint32_t n, uint32_t step, double eps) {
    double sum = eps;
    for (uint32_t k = 0; k < n; k++) sum += m[k * step];
    for (uint32_t k = 0; k < n; k++) m[k * step] /= sum;
}

static void softmax_row(const float *in, double *m, uint32_t n, double eps) {
    double max = in[0], sum = 0;
    for (uint32_t j = 1; j < n; j++) max = in[j] > max ? in[j] : max;
    for (uint32_t j = 0; j < n; j++) sum += m[j] = exp(in[j] - max);
    for (uint32_t j = 0; j < n; j++) m[j] = m[j] / sum + eps;
}

void host_sinkhorn(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const OpSinkhorn p = op->p.sinkhorn;
    double m[SINKHORN_MAX_N * SINKHORN_MAX_N];
    MY_ROWS(r, out) {
        for (uint32_t i = 0; i < p.n; i++)
            softmax_row(row_at(x, r) + (size_t)i * p.n, m + (size_t)i * p.n, p.n, p.eps);
        for (uint32_t k = 0; k < p.times; k++) {
            for (uint32_t i = 0; k && i < p.n; i++) sum_to_one(m + (size_t)i * p.n, p.n, 1, p.eps);
            for (uint32_t j = 0; j < p.n; j++) sum_to_one(m + j, p.n, p.n, p.eps);
        }
        for (uint32_t i = 0; i < p.n * p.n; i++)
            row_at(out, r)[i % p.n * p.n + i / p.n] = (float)m[i];
    }
}
