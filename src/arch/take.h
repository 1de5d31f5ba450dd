/* take.h: weights of the program being recorded, by role: looks the tensors up (weights.h), and
 * gives the builder their shape. For decoder.c and families that build for themselves. A missing
 * tensor or a wrong shape is W_NONE here and the error of weights_finish(). */
#ifndef MLXCEL_ARCH_TAKE_H
#define MLXCEL_ARCH_TAKE_H

#include "arch/arch.h"
#include "block/ffn.h"

/* The parts stacked along n (vectors: one behind the other). */
WeightId arch_take(Decoder *d, WeightKind kind, int layer, const char *suffix,
                   const TakePart *parts, int n_parts);
/* The biases of such parts as a matrix has them (n outputs each). */
WeightId arch_take_biases(Decoder *d, int layer, const TakePart *parts, int n_parts);
WeightId arch_take_vector(Decoder *d, Role role, int layer, const char *suffix, uint32_t n);
WeightId arch_take_matrix(Decoder *d, Role role, int layer, uint32_t n, uint32_t k);
/* n rows for TakePart.rows: runs of `run`, the first from row `first`, one every `step` rows. */
const uint32_t *arch_every(Decoder *d, uint32_t n, uint32_t run, uint32_t first, uint32_t step);
/* n rows for TakePart.rows: each row `times` times. */
const uint32_t *arch_repeat(Decoder *d, uint32_t n, uint32_t times);
/* The experts' matrices, and in *bias (if not NULL) their biases. */
WeightId arch_take_experts(Decoder *d, int i, const TakeExperts *p, WeightId *bias);

/* A table of n rows, of no layer. */
WeightId arch_take_table(Decoder *d, Role role, uint32_t n, uint32_t k);
/* A gated feed-forward without biases: the roles of gate, up and down. */
FfnBlock arch_take_gated(Decoder *d, int layer, const Role roles[3], uint32_t width, Act act);

#endif
