#include "sample/mirostat.h"

#include <math.h>

enum { ZIPF_TOKENS = 100 }; /* how many of the likeliest tokens the paper fits Zipf's exponent to */

/* Zipf's exponent by least squares through the origin: ln(p_i / p_i+1) against ln((i+2) / (i+1)).
 */
static double zipf_exponent(const Cands *c, const SampleWork *w) {
    uint32_t best[ZIPF_TOKENS];
    size_t n = cands_best(c->logit, c->n, ZIPF_TOKENS, best);
    double tb = 0, tt = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (w->weight[best[i + 1]] <= 0) break;
        double t = log((double)(i + 2) / (double)(i + 1));
        tb += t * log((double)w->weight[best[i]] / (double)w->weight[best[i + 1]]);
        tt += t * t;
    }
    return tt > 0 ? tb / tt : 0;
}

void mirostat_cut_v1(Cands *c, SampleWork *w, double mu, uint32_t n_vocab, float scale) {
    double s = zipf_exponent(c, w), e = s - 1;
    /* The paper's k; where the exponent is 1 its formula is 0 / 0 and the limit, 2^mu /
     * ln(n_vocab), stands in. A flat distribution (s = 0) has no finite k: everything stays. */
    double head = fabs(e) > 1e-9 ? e / (1 - pow((double)n_vocab, -e)) : 1 / log((double)n_vocab);
    double k = s > 0 ? pow(head * exp2(mu), 1 / s) : INFINITY;
    if (!(k < (double)c->n)) k = (double)c->n; /* also when the power overflowed */
    cands_top_k(c, w, k >= 1 ? (size_t)k : 1);
    cands_weigh(c, w, scale);
}

void mirostat_cut_v2(Cands *c, SampleWork *w, double mu, float scale) {
    double least = exp2(-mu) * c->weight; /* surprise -log2(weight / sum) <= mu */
    if (least <= 1)
        cands_keep_heavy(c, w, (float)least);
    else
        cands_top_k(c, w, 1); /* even the best token, of weight 1, is too surprising */
    cands_weigh(c, w, scale);
}

double mirostat_next(double mu, double tau, double eta, double probability) {
    return mu - eta * (-log2(probability) - tau);
}

AdaptiveState adaptive_start(double target, double decay) {
    return (AdaptiveState){.probability = target / (1 - decay), .weight = 1 / (1 - decay)};
}

void adaptive_shape(Cands *c, SampleWork *w, double target, AdaptiveState state) {
    const double width = 0.3, peak = 5, sharpness = 10; /* of the bump put around the goal */
    double goal = 2 * target - state.probability / state.weight;
    goal = goal < 0 ? 0 : goal > 1 ? 1 : goal;
    for (size_t i = 0; i < c->n; i++) {
        double p = (double)w->weight[i] / c->weight, d = fabs(p - goal) / width;
        w->score[i] = (float)p;
        w->logit[i] = (float)(peak - sharpness * d * d / (1 + d));
    }
    cands_find_max(c);
    cands_weigh(c, w, 1.0f);
}

AdaptiveState adaptive_next(AdaptiveState state, double decay, double probability) {
    return (AdaptiveState){probability + decay * state.probability, 1 + decay * state.weight};
}
