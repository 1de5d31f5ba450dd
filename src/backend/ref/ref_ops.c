/* The row-wise ops of ref. Rows are dealt to threads; each output element is computed alone, so the
 * split cannot matter. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

#define FOR_MY_ROWS(r, m)                                                                          \
    uint32_t r##_from, r##_to;                                                                     \
    host_share((m).rows, i_thread, n_threads, &r##_from, &r##_to);                                 \
    for (uint32_t r = r##_from; r < r##_to; r++)

/* Eight running sums, so that a compiler may use vectors without changing the order. */
static double dot(const float *a, const float *b, uint32_t n) {
    double s[8] = {0};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) s[j] += (double)a[i + j] * b[i + j];
    for (; i < n; i++) s[0] += (double)a[i] * b[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

void ref_linear(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const float *w = ref_weight(ex, op->w[0]), *bias = ref_weight(ex, op->w[1]);
    uint32_t from, to;
    host_share(out.cols, i_thread, n_threads, &from, &to);
    for (uint32_t n = from; n < to; n++) {
        for (uint32_t r = 0; r < out.rows; r++) {
            double s = dot(x.p + r * x.stride, w + (size_t)n * x.cols, x.cols);
            out.p[r * out.stride + n] = (float)(bias ? s + bias[n] : s);
        }
    }
}

void ref_rms_norm(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const float *w = ref_weight(ex, op->w[0]);
    uint32_t group = op->p.norm.group;
    bool w_per_group = w && ex->program->weights[op->w[0]].k == x.cols;
    FOR_MY_ROWS(r, x) {
        for (uint32_t g = 0; g < x.cols; g += group) {
            const float *in = x.p + r * x.stride + g;
            float *o = out.p + r * out.stride + g;
            double s = 0;
            for (uint32_t c = 0; c < group; c++) s += (double)in[c] * in[c];
            double inv = 1 / sqrt(s / group + (double)op->p.norm.eps);
            for (uint32_t c = 0; c < group; c++) {
                double y = in[c] * inv;
                o[c] =
                    (float)(w ? y * ((double)w[(w_per_group ? g : 0) + c] + op->p.norm.w_add) : y);
            }
        }
    }
}

void ref_layer_norm(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const float *w = ref_weight(ex, op->w[0]), *b = ref_weight(ex, op->w[1]);
    uint32_t group = op->p.norm.group;
    bool w_per_group = w && ex->program->weights[op->w[0]].k == x.cols;
    FOR_MY_ROWS(r, x) {
        for (uint32_t g = 0; g < x.cols; g += group) {
            const float *in = x.p + r * x.stride + g;
            float *o = out.p + r * out.stride + g;
            double mean = 0, var = 0;
            for (uint32_t c = 0; c < group; c++) mean += in[c];
            mean /= group;
            for (uint32_t c = 0; c < group; c++) var += (in[c] - mean) * (in[c] - mean);
            double inv = 1 / sqrt(var / group + (double)op->p.norm.eps);
            for (uint32_t c = 0; c < group; c++) {
                uint32_t at = (w_per_group ? g : 0) + c;
                double y = (in[c] - mean) * inv;
                if (w) y *= (double)w[at] + op->p.norm.w_add;
                o[c] = (float)(b ? y + b[at] : y);
            }
        }
    }
}

/* The angle is an f32 product, as in the references: at position 8000 its rounding is visible in
 * f32 logits. */
void ref_rope_angles(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out);
    const RopeSpec *spec = &ex->program->ropes[op->p.rope.spec];
    const StepRow *rows = step_rows(ex->step);
    const StepSeq *seqs = step_seqs(ex->step);
    float freq[ROPE_MAX_PAIRS], factor = 1;
    uint32_t half = out.cols / 2, seen = UINT32_MAX;
    FOR_MY_ROWS(r, out) {
        float *o = out.p + r * out.stride;
        if (rows[r].seq != seen) rope_inv_freq(spec, seqs[rows[r].seq].length_class, freq, &factor);
        seen = rows[r].seq;
        for (uint32_t i = 0; i < half; i++) {
            float angle = rope_position(spec, rows[r].pos, i) * freq[i];
            o[i] = (float)(cos((double)angle) * factor);
            o[half + i] = (float)(sin((double)angle) * factor);
        }
    }
}

void ref_rope(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), angles = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    const OpRope p = op->p.rope;
    uint32_t half = angles.cols / 2;
    FOR_MY_ROWS(r, x) {
        const float *cs = angles.p + r * angles.stride, *sn = cs + half;
        for (uint32_t h = 0; h < p.n_heads; h++) {
            const float *in = x.p + r * x.stride + h * p.head_dim;
            float *o = out.p + r * out.stride + h * p.head_dim;
            memmove(o, in, p.head_dim * sizeof *o);
            for (uint32_t i = 0; i < half; i++) {
                uint32_t a = p.offset + (p.interleaved ? 2 * i : i),
                         b = a + (p.interleaved ? 1 : half);
                double xa = in[a], xb = in[b];
                o[a] = (float)(xa * cs[i] - xb * sn[i]);
                o[b] = (float)(xb * cs[i] + xa * sn[i]);
            }
        }
    }
}

void ref_add(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), b = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    FOR_MY_ROWS(r, a)
    for (uint32_t c = 0; c < a.cols; c++)
        out.p[r * out.stride + c] =
            (float)((double)a.p[r * a.stride + c] +
                    (double)b.p[r * b.stride + (b.cols == 1 ? 0 : c)] * op->p.scale);
}

void ref_mul(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), b = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    FOR_MY_ROWS(r, a) {
        float one = b.p[r * b.stride];
        for (uint32_t c = 0; c < a.cols; c++)
            out.p[r * out.stride + c] =
                a.p[r * a.stride + c] * (b.cols == 1 ? one : b.p[r * b.stride + c]);
    }
}

void ref_scale(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    FOR_MY_ROWS(r, a)
    for (uint32_t c = 0; c < a.cols; c++)
        out.p[r * out.stride + c] =
            (float)((double)a.p[r * a.stride + c] * op->p.affine.scale + op->p.affine.offset);
}

double ref_act_value(Act fn, double x, double param) {
    switch (fn) {
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_GELU:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_RELU2:
        return x > 0 ? x * x : 0;
    case ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACT_TANH:
        return tanh(x);
    case ACT_SOFTPLUS:
        return x > 30 ? x : log1p(exp(x));
    case ACT_EXP:
        return exp(x);
    case ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case ACT_SOFTCAP:
        return param * tanh(x / param);
    case ACT_CLAMP:
        return x > param ? param : x < -param ? -param : x;
    case ACT_CAP:
        return x > param ? param : x;
    case ACT_COUNT:
        break;
    }
    return x;
}

void ref_act(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat a = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    FOR_MY_ROWS(r, a)
    for (uint32_t c = 0; c < a.cols; c++)
        out.p[r * out.stride + c] =
            (float)ref_act_value(op->p.act.fn, a.p[r * a.stride + c], op->p.act.param);
}

void ref_glu(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat g = host_mat(ex, op->in[0]), u = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    FOR_MY_ROWS(r, g)
    for (uint32_t c = 0; c < g.cols; c++)
        out.p[r * out.stride + c] =
            (float)(ref_act_value(op->p.act.fn, g.p[r * g.stride + c], op->p.act.param) *
                    u.p[r * u.stride + c]);
}

void ref_select(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const uint32_t *wanted = step_out_rows(ex->step);
    FOR_MY_ROWS(r, out)
    memcpy(out.p + r * out.stride, x.p + wanted[r] * x.stride, x.cols * sizeof(float));
}

void ref_experts(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), routes = {0}, out = host_mat(ex, op->out);
    const float *w = ref_weight(ex, op->w[0]), *bias = ref_weight(ex, op->w[1]);
    const OpExperts p = op->p.experts;
    uint32_t cols = ex->program->weights[op->w[0]].k, step = x.cols == cols ? 0 : cols;
    if (op->in[1] != VAL_NONE) routes = host_mat(ex, op->in[1]);
    FOR_MY_ROWS(r, x) {
        for (uint32_t j = 0; j < p.k; j++) {
            uint32_t e = routes.p ? (uint32_t)routes.p[r * routes.stride + j] : j;
            const float *in = x.p + r * x.stride + j * step;
            for (uint32_t i = 0; i < p.n; i++) {
                size_t row = (size_t)e * p.n + i;
                double s = dot(in, w + row * cols, cols);
                out.p[r * out.stride + j * p.n + i] = (float)(bias ? s + bias[row] : s);
            }
        }
    }
}
