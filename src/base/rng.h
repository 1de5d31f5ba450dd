/* rng.h: counter-based random numbers (Philox4x32-10, Salmon et al. 2011). A draw is a function of
 * (seed, choice index, position, draw index) and of nothing else, so batching, speculation and
 * restarts cannot change it (DESIGN.md rule 10). */
#ifndef MLXCEL_BASE_RNG_H
#define MLXCEL_BASE_RNG_H

#include <stdint.h>

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
uint32_t rng_u32(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);
/* [0, 1), 53 bits */
double rng_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);

#endif
