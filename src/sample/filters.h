/* filters.h: the truncating samplers, in the order the chain calls them. All look at untempered
 * logits, and each sees the distribution renormalised over what the filters before it left. None
 * removes everything: at least max(1, min_keep) tokens stay. Ties go to the lowest id. Sources:
 *   top-n-sigma  Tang et al. 2024 (arXiv 2411.07641)       typical  Meister et al. 2022 (arXiv
 * 2202.00666) top-p        Holtzman et al. 2019 (arXiv 1904.09751)   min-p    Nguyen et al. 2024
 * (arXiv 2407.01082) XTC          "exclude top choices": with a chance, all likely tokens but the
 * least likely of them go */
#ifndef MLXCEL_SAMPLE_FILTERS_H
#define MLXCEL_SAMPLE_FILTERS_H

#include "sample/candidates.h"

void filter_top_n_sigma(Cands *c, SampleWork *w,
                        double n); /* keeps logit >= max - n * deviation of the finite logits */
void filter_top_k(Cands *c, SampleWork *w, int k); /* k <= 0: off */
void filter_typical(Cands *c, SampleWork *w, double p, size_t min_keep);
void filter_top_p(Cands *c, SampleWork *w, double p, size_t min_keep);
void filter_min_p(Cands *c, SampleWork *w, double p,
                  size_t min_keep); /* keeps probability >= p * the largest */
/* u is a uniform draw: nothing happens when u >= probability, or when fewer than two tokens reach
 * threshold. */
void filter_xtc(Cands *c, SampleWork *w, double probability, double threshold, double u,
                size_t min_keep);
/* The temperature between temperature - range and temperature + range that the entropy asks for. */
double filter_dynatemp(Cands *c, SampleWork *w, double temperature, double range, double exponent);

#endif
