/* candidates.h: the tokens that may still be drawn, and the few linear-time selections every filter
 * is made of.
 *
 * A list is always in ascending id order, so ties go to the lowest id and a draw does not depend on
 * the way the list was cut. It starts "dense" (id NULL: every token of the vocabulary, logit[i]
 * belongs to token i, nothing copied) and becomes compact at the first filter. No full sort
 * anywhere: the k best of 256k logits come from a small heap, a probability prefix from a radix
 * walk, both O(n) and with no bad inputs. exp() is our own, so a seed gives the same tokens on
 * every host whatever its libm.
 *
 *     Cands c = cands_over(logits, n_vocab);
 *     cands_top_k(&c, &work, 40); cands_weigh(&c, &work, 1.0f);
 *
 * The arrays live in SampleWork, one per thread that samples; it is made once and never grows. */
#ifndef MLXCEL_SAMPLE_CANDIDATES_H
#define MLXCEL_SAMPLE_CANDIDATES_H

#include <math.h>

#include "base/err.h"
#include "base/fp.h"
#include "base/str.h"

typedef struct SampleWork {
    uint32_t n_vocab;
    float *edited;     /* [n_vocab] logits after mask, bias and penalties */
    float *logit;      /* [n_vocab] compact list */
    uint32_t *id;      /* [n_vocab] compact list */
    float *weight;     /* [n_vocab] exp(logit - max), filled by cands_weigh */
    float *score;      /* [n_vocab] what a filter orders by when it is not the logit */
    uint32_t *count;   /* [n_vocab] occurrences in a penalty window; all zero between calls */
    uint32_t *touched; /* [n_vocab] tokens whose count is not zero */
    double *bin;       /* [CANDS_BINS] radix walk */
} SampleWork;

typedef struct Cands {
    const float *logit;
    const uint32_t *id; /* NULL: dense */
    size_t n;
    float max;     /* largest logit */
    double weight; /* sum of work->weight[0..n), after cands_weigh */
} Cands;

enum { CANDS_BINS = 2048, CANDS_HEAP_MAX = 1024 };

/* n_vocab 1..2^24. */
bool sample_work_init(SampleWork *w, uint32_t n_vocab, Err *err) MUST_CHECK;
void sample_work_deinit(SampleWork *w);

/* Largest logit and its lowest id; false if a logit is NaN or +inf (then *at is the first such id).
 * All -inf gives *max = -inf. One pass. */
bool cands_scan(const float *logit, size_t n, float *max, uint32_t *at);

Cands cands_over(const float *logit, size_t n, float max); /* dense */
void cands_above(Cands *c, SampleWork *w, float least); /* keeps logit >= least; -inf never stays */
void cands_compact(Cands *c, SampleWork *w); /* copies a dense list, leaving -inf behind */
void cands_find_max(Cands *c);               /* after a filter that may have dropped the best */
void cands_top_k(Cands *c, SampleWork *w, size_t k); /* k >= 1 */
/* The k best indices of logit[0..n), best first, k <= CANDS_HEAP_MAX; returns how many there are.
 */
size_t cands_best(const float *logit, size_t n, size_t k, uint32_t *out);

/* Fills work->weight with exp((logit - max) * scale) and c->weight with their sum. scale is 1 /
 * temperature. */
void cands_weigh(Cands *c, SampleWork *w, float scale);
/* Keeps the shortest run from the top (highest key first, ties to the lowest id) whose weights
 * reach target, and at least min_keep entries. key has n entries. Needs cands_weigh; c->weight is
 * stale afterwards. */
void cands_keep_weight(Cands *c, SampleWork *w, const float *key, double target, size_t min_keep);
/* Keeps entries for which keep(weight) holds: weight >= least. Entries keep their weights. */
void cands_keep_heavy(Cands *c, SampleWork *w, float least);
/* The entry that u in [0, 1) falls on, walking the weights in id order. Needs cands_weigh. */
size_t cands_draw(const Cands *c, const SampleWork *w, double u);

static inline uint32_t cands_id(const Cands *c, size_t i) { return c->id ? c->id[i] : (uint32_t)i; }

/* Orders floats as unsigned integers: a < b exactly if key(a) < key(b); -0 counts as 0. */
static inline uint32_t cands_key(float f) {
    uint32_t u = fp_bits(f + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

#endif
