#include "sample/logprobs.h"

#include <math.h>

double logprobs_log_sum(const float *logits, size_t n) {
    float max;
    uint32_t at;
    if (!cands_scan(logits, n, &max, &at) || max == -INFINITY) return NAN;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)logits[i] - (double)max;
        if (d > -64)
            sum += exp(d); /* 2^24 terms below e^-64 vanish in a double sum that is at least 1 */
    }
    return (double)max + log(sum);
}

size_t logprobs_top(const float *logits, size_t n, size_t k, TokenLogprob *top,
                    TokenLogprob *chosen) {
    uint32_t best[LOGPROBS_MAX];
    double log_sum = logprobs_log_sum(logits, n);
    size_t n_top = cands_best(logits, n, k < LOGPROBS_MAX ? k : LOGPROBS_MAX, best);
    for (size_t i = 0; i < n_top; i++)
        top[i] = (TokenLogprob){best[i], (double)logits[best[i]] - log_sum};
    if (chosen && chosen->token < n) chosen->logprob = (double)logits[chosen->token] - log_sum;
    return n_top;
}
