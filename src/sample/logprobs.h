/* logprobs.h: log probabilities of the model's own distribution, before mask, bias, penalties and
 * temperature. In float64, since clients compare and sum them. */
#ifndef MLXCEL_SAMPLE_LOGPROBS_H
#define MLXCEL_SAMPLE_LOGPROBS_H

#include "sample/candidates.h"

enum { LOGPROBS_MAX = CANDS_HEAP_MAX };

typedef struct TokenLogprob {
    uint32_t token;
    double logprob; /* natural log; -inf for an impossible token */
} TokenLogprob;

double logprobs_log_sum(const float *logits,
                        size_t n); /* ln of the sum of exp; of finite or -inf logits */
/* The top k tokens, best first (ties: lowest id), into top, and the chosen token's into *chosen;
 * returns how many of top were filled: min(k, n, LOGPROBS_MAX). chosen->token is set by the caller.
 */
size_t logprobs_top(const float *logits, size_t n, size_t k, TokenLogprob *top,
                    TokenLogprob *chosen);

#endif
