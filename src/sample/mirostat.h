/* mirostat.h: samplers that steer towards a goal over many tokens, so each has a state that moves
 * with every accepted token: mirostat 1 and 2 (Basu et al. 2020, arXiv 2007.14966) keep the
 * surprise, in bits, near tau; the adaptive sampler keeps the chosen tokens' mean probability near
 * a target.
 *
 * All are called on tempered weights (cands_weigh done) and leave weights ready for cands_draw.
 * Nothing here changes the state: the *_next functions give the state after a token, which the
 * caller stores once the token is accepted. */
#ifndef MLXCEL_SAMPLE_MIROSTAT_H
#define MLXCEL_SAMPLE_MIROSTAT_H

#include "sample/candidates.h"

typedef struct AdaptiveState { /* decayed sums over the chosen tokens */
    double probability;
    double weight;
} AdaptiveState;

/* Cut to the tokens whose surprise fits mu. scale is 1 / temperature, for weighing again after the
 * cut. */
void mirostat_cut_v1(Cands *c, SampleWork *w, double mu, uint32_t n_vocab, float scale);
void mirostat_cut_v2(Cands *c, SampleWork *w, double mu, float scale);
double mirostat_next(double mu, double tau, double eta,
                     double probability); /* of the token in the cut distribution */

AdaptiveState adaptive_start(double target, double decay);
/* Reshapes the weights of a compact list around the target; the probabilities before it are left in
 * work->score. */
void adaptive_shape(Cands *c, SampleWork *w, double target, AdaptiveState state);
AdaptiveState adaptive_next(AdaptiveState state, double decay,
                            double probability); /* before the reshaping */

#endif
