/* ROUTE and EXPERT_SUM of host backends: routers always compute in float, here in f64, the same for
 * ref and cpu. */
#include <math.h>
#include <string.h>

#include "backend/host.h"

static void probabilities(const OpRoute *p, const float *x, double *out) {
    double max = x[0], sum = 0;
    for (uint32_t e = 1; e < p->n_experts; e++) max = x[e] > max ? x[e] : max;
    for (uint32_t e = 0; e < p->n_experts; e++) {
        double v = x[e];
        out[e] = p->fn == ROUTE_SIGMOID   ? 1 / (1 + exp(-v))
                 : p->fn == ROUTE_SOFTMAX ? exp(v - max)
                                          : sqrt((v > 0 ? v : 0) + log1p(exp(-fabs(v))));
        sum += out[e];
    }
    for (uint32_t e = 0; p->fn == ROUTE_SOFTMAX && e < p->n_experts; e++) out[e] /= sum;
}

/* The largest entry that was not taken, ties to the lowest; taken entries are minus infinity. */
static uint32_t take_best(double *v, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    v[best] = -INFINITY;
    return best;
}

/* Leaves minus infinity in the selection scores of groups that do not take part. */
static void keep_groups(const OpRoute *p, double *select) {
    uint32_t size = p->n_experts / p->n_groups;
    double score[ROUTE_MAX_EXPERTS], work[ROUTE_MAX_EXPERTS];
    bool keep[ROUTE_MAX_EXPERTS] = {false};
    for (uint32_t g = 0; g < p->n_groups; g++) {
        memcpy(work, select + g * size, size * sizeof *work);
        score[g] = 0;
        for (uint32_t t = 0; t < p->group_top && t < size; t++)
            score[g] += select[g * size + take_best(work, size)];
    }
    for (uint32_t i = 0; i < p->k_groups; i++) keep[take_best(score, p->n_groups)] = true;
    for (uint32_t e = 0; e < p->n_experts; e++)
        if (!keep[e / size]) select[e] = -INFINITY;
}

/* given: k numbers that are chosen already, or NULL */
static void route_row(const OpRoute *p, const float *bias, const float *factor, const float *given,
                      const float *x, float *out) {
    double prob[ROUTE_MAX_EXPERTS], select[ROUTE_MAX_EXPERTS], sum = 0, weight[ROUTE_MAX_K];
    probabilities(p, x, prob);
    for (uint32_t e = 0; e < p->n_experts; e++) select[e] = prob[e] + (bias ? bias[e] : 0);
    if (p->n_groups > 1) keep_groups(p, select);
    for (uint32_t j = 0; j < p->k; j++) {
        bool there = !given || (given[j] >= 0 && given[j] < (float)p->n_experts);
        uint32_t e = !given ? take_best(select, p->n_experts) : there ? (uint32_t)given[j] : 0;
        out[j] = (float)e;
        weight[j] = there ? prob[e] : 0;
        sum += weight[j];
    }
    for (uint32_t j = 0; j < p->k; j++) {
        double w = weight[j] / (p->normalize ? sum + 1e-20 : 1) * p->scale;
        out[p->k + j] = (float)(factor ? w * factor[(uint32_t)out[j]] : w);
    }
}

void host_route(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    const float *bias = host_floats(ex, op->w[0]), *factor = host_floats(ex, op->w[1]);
    Mat x = host_mat(ex, op->in[0]), out = host_mat(ex, op->out), given = {0};
    if (op->in[1] != VAL_NONE) given = host_mat(ex, op->in[1]);
    uint32_t from, to;
    host_share(x.rows, i_thread, n_threads, &from, &to);
    for (uint32_t r = from; r < to; r++)
        route_row(&op->p.route, bias, factor, given.p ? given.p + r * given.stride : NULL,
                  x.p + r * x.stride, out.p + r * out.stride);
}

void host_expert_sum(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]), routes = host_mat(ex, op->in[1]), out = host_mat(ex, op->out);
    uint32_t from, to, k = op->p.experts.k, n = op->p.experts.n;
    host_share(x.rows, i_thread, n_threads, &from, &to);
    for (uint32_t r = from; r < to; r++) {
        const float *in = x.p + r * x.stride, *weight = routes.p + r * routes.stride + k;
        for (uint32_t c = 0; c < n; c++) {
            double sum = 0;
            for (uint32_t j = 0; j < k; j++) sum += (double)weight[j] * in[(size_t)j * n + c];
            out.p[r * out.stride + c] = (float)sum;
        }
    }
}
