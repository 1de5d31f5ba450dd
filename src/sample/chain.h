/* chain.h: one request's sampler: logits in, token out, in a fixed order:
 *
 *   mask (grammar) > logit bias, ignore_eos > repeat, presence, frequency, DRY > top-n-sigma >
 * top-k > typical > top-p > min-p > XTC > temperature (dynamic) > adaptive > draw
 *
 * Filters look at untempered logits. Mirostat takes the place of the filters (temperature first,
 * then its cut). temperature 0 takes the largest logit after the penalties, ties to the lowest id.
 * A draw is a function of the logits, the accepted tokens and (seed, choice, position), never of
 * batching or speculation.
 *
 *     sampler_init(&s, &params, &vocab, n_ctx, 0, err);  sampler_prompt(&s, ids, n);
 *     sampler_sample(&s, &work, logits, NULL, position, &token, err);  sampler_accept(&s, token);
 *
 * Sampling changes nothing that lasts; only accepting does, and up to SAMPLER_ROLLBACK_MAX accepted
 * tokens can be taken back. Nothing is allocated after sampler_init. A Sampler belongs to one
 * sequence, a SampleWork to one thread. */
#ifndef MLXCEL_SAMPLE_CHAIN_H
#define MLXCEL_SAMPLE_CHAIN_H

#include "sample/candidates.h"
#include "sample/mirostat.h"
#include "sample/params.h"
#include "sample/penalties.h"

enum { SAMPLER_ROLLBACK_MAX = 128 };

typedef struct SamplerMood { /* what mirostat and the adaptive sampler carry along */
    double mu;
    AdaptiveState adaptive;
} SamplerMood;

typedef struct Sampler {
    SampleParams params; /* strings and arrays in it are not used after init, bias is */
    SampleVocab vocab;
    uint32_t choice;
    bool edits;      /* logits need a private copy: bias, ignore_eos or penalties */
    LogitBias *bias; /* own copy; the ignore_eos tokens are appended */
    size_t n_bias;
    History history;
    uint64_t n_accepted;
    SamplerMood
        mood[SAMPLER_ROLLBACK_MAX + 1]; /* ring: state after n accepted tokens at n % size */
    uint32_t pending;                   /* the token sampled last, and the state it would lead to */
    SamplerMood next;
    bool has_pending;
} Sampler;

/* vocab is borrowed and must outlive s; params is copied. choice counts a request's parallel
 * answers. On error s is deinit-safe. */
bool sampler_init(Sampler *s, const SampleParams *params, const SampleVocab *vocab, size_t n_ctx,
                  uint32_t choice, Err *err) MUST_CHECK;
void sampler_deinit(Sampler *s);
bool sampler_copy(Sampler *to, const Sampler *from,
                  Err *err) MUST_CHECK; /* state only; both from the same params */

void sampler_prompt(Sampler *s, const uint32_t *tokens,
                    size_t n); /* prompt tokens count for penalties */

/* Draws the token for position (its index in the sequence). allowed: bitset of n_vocab bits, 1 =
 * may be drawn, or NULL. ERR_INTERNAL: a logit is NaN or infinite; ERR_INPUT: mask and bias leave
 * nothing. Does not change the state. */
bool sampler_sample(Sampler *s, SampleWork *w, const float *logits, const uint64_t *allowed,
                    uint64_t position, uint32_t *token, Err *err) MUST_CHECK;
/* The same, and what was drawn from: probability of entry i is work->weight[i] / dist->weight.
 * Valid until the next call with this work. */
bool sampler_sample_dist(Sampler *s, SampleWork *w, const float *logits, const uint64_t *allowed,
                         uint64_t position, uint32_t *token, Cands *dist, Err *err) MUST_CHECK;

void sampler_accept(Sampler *s,
                    uint32_t token); /* any token: a forced one moves mirostat by nothing */
bool sampler_rollback(Sampler *s, size_t n)
    MUST_CHECK;                        /* takes back the last n accepted; false: more than can be */
bool sampler_greedy(const Sampler *s); /* the largest logit wins, no random number is used */

#endif
