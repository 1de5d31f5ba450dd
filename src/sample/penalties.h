/* penalties.h: what was said before makes tokens less likely. The memory is a plain list of the
 * last tokens; nothing else is kept, so taking tokens back is a subtraction and copying a sampler
 * is one memcpy.
 *
 *   repeat     logit > 0: divided, else multiplied, for each token in the last repeat_last_n
 * (Keskar et al. 2019) frequency  minus its value for every occurrence there;  presence: once for a
 * token that occurs there DRY        "don't repeat yourself": if drawing t would continue a run of
 * L tokens that already occurred before a t in the last dry_penalty_last_n tokens, L >=
 * allowed_length, t loses multiplier * base^(L - allowed_length). A run ends at a token in which a
 * sequence breaker (text, across token borders too) ends.
 *
 *     history_push(&h, token, is_breaker);  history_drop(&h, 2); */
#ifndef MLXCEL_SAMPLE_PENALTIES_H
#define MLXCEL_SAMPLE_PENALTIES_H

#include "sample/candidates.h"
#include "sample/params.h"

typedef struct History {
    uint32_t *token; /* [cap], oldest first */
    uint8_t *breaks; /* [cap] 1: a sequence breaker ends in this token */
    uint32_t *run;   /* [cap] scratch of DRY: length of the run that ends before each token */
    size_t n, cap;
    size_t keep;  /* at least this many of the newest tokens are kept; 0: nothing is remembered */
    Buf breakers; /* the breakers' text, one after the other */
    size_t *breaker_len;
    size_t n_breakers;
} History;

/* Room for what params' windows need, given a context of n_ctx tokens, and for n_drop tokens to be
 * taken back. */
bool history_setup(History *h, const SampleParams *p, size_t n_ctx, size_t n_drop,
                   Err *err) MUST_CHECK;
void history_deinit(History *h);
bool history_copy(History *to, const History *from,
                  Err *err) MUST_CHECK; /* to: initialised with the same params */
void history_push(History *h, const SampleVocab *v, uint32_t token);
void history_drop(History *h, size_t n);

bool penalties_active(const SampleParams *p);
void penalties_apply(const SampleParams *p, History *h, SampleWork *w, float *logit);

#endif
