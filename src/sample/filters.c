#include "sample/filters.h"

#include <math.h>

enum { SUM_LANES = 8 };

static size_t at_least_one(size_t min_keep) { return min_keep ? min_keep : 1; }

void filter_top_n_sigma(Cands *c, SampleWork *w, double n) {
    /* Moments about the maximum: the logits' own offset would cost digits. -inf entries (masked
     * tokens) do not count. */
    double sum[SUM_LANES] = {0}, square[SUM_LANES] = {0}, count[SUM_LANES] = {0};
    for (size_t i = 0; i < c->n; i++) {
        double d = c->logit[i] > -INFINITY ? (double)c->logit[i] - (double)c->max : 0;
        sum[i % SUM_LANES] += d;
        square[i % SUM_LANES] += d * d;
        count[i % SUM_LANES] += c->logit[i] > -INFINITY ? 1 : 0;
    }
    for (int j = 1; j < SUM_LANES; j++) {
        sum[0] += sum[j];
        square[0] += square[j];
        count[0] += count[j];
    }
    double mean = sum[0] / count[0], variance = square[0] / count[0] - mean * mean;
    double deviation = variance > 0 ? sqrt(variance) : 0;
    cands_above(c, w, (float)((double)c->max - n * deviation));
}

void filter_top_k(Cands *c, SampleWork *w, int k) {
    if (k > 0) cands_top_k(c, w, (size_t)k);
}

/* ln(weight sum), so that ln p = logit - max - log_sum. */
static double weigh(Cands *c, SampleWork *w) {
    cands_weigh(c, w, 1.0f);
    return log(c->weight);
}

static double entropy(const Cands *c, const SampleWork *w, double log_sum) {
    double h = 0;
    for (size_t i = 0; i < c->n; i++)
        if (w->weight[i] > 0)
            h -= (double)w->weight[i] * ((double)c->logit[i] - (double)c->max - log_sum);
    return h / c->weight;
}

void filter_typical(Cands *c, SampleWork *w, double p, size_t min_keep) {
    cands_compact(c, w);
    double log_sum = weigh(c, w), h = entropy(c, w, log_sum);
    for (size_t i = 0; i < c->n; i++) /* negated: the walk goes from the largest key down */
        w->score[i] = (float)-fabs((double)c->max + log_sum - (double)c->logit[i] - h);
    cands_keep_weight(c, w, w->score, p * c->weight, at_least_one(min_keep));
    cands_find_max(c);
}

void filter_top_p(Cands *c, SampleWork *w, double p, size_t min_keep) {
    weigh(c, w);
    double target = p * c->weight;
    /* Tokens lighter than (1 - p) / n of the whole weigh less than 1 - p together, so none of them
     * is needed to reach p: one cheap pass leaves hundreds of a 256k vocabulary for the exact walk.
     */
    if (min_keep <= 1) cands_keep_heavy(c, w, (float)((1 - p) * c->weight / (double)c->n * 0.999));
    cands_keep_weight(c, w, c->logit, target, at_least_one(min_keep));
}

void filter_min_p(Cands *c, SampleWork *w, double p, size_t min_keep) {
    float least = (float)((double)c->max + log(p));
    if (min_keep > 1) {
        size_t n = 0;
        for (size_t i = 0; i < c->n; i++) n += c->logit[i] >= least;
        if (n < min_keep) {
            cands_top_k(c, w, min_keep);
            return;
        }
    }
    cands_above(c, w, least < c->max ? least : c->max);
}

void filter_xtc(Cands *c, SampleWork *w, double probability, double threshold, double u,
                size_t min_keep) {
    if (u >= probability || threshold > 0.5)
        return; /* above one half, at most one token qualifies */
    cands_compact(c, w);
    weigh(c, w);
    float likely = (float)(threshold * c->weight);
    size_t n_likely = 0, spared = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!(w->weight[i] >= likely) || w->weight[i] <= 0) continue;
        if (n_likely++ == 0 || c->logit[i] <= c->logit[spared]) spared = i;
    }
    if (n_likely < 2 || c->n - (n_likely - 1) < at_least_one(min_keep)) return;
    for (size_t i = 0; i < c->n; i++)
        if (w->weight[i] >= likely && i != spared) w->weight[i] = -1;
    cands_keep_heavy(c, w, 0);
    cands_find_max(c);
}

double filter_dynatemp(Cands *c, SampleWork *w, double temperature, double range, double exponent) {
    double low = temperature > range ? temperature - range : 0, high = temperature + range;
    cands_compact(c, w);
    if (c->n < 2) return high;
    double log_sum = weigh(c, w);
    double share = entropy(c, w, log_sum) / log((double)c->n);
    if (share < 0) share = 0;
    if (share > 1) share = 1;
    return low + (high - low) * pow(share, exponent);
}
