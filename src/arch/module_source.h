/* module_source.h: from the tensors of one module in a checkpoint ("model.layers.0.mlp.up_proj" and
 * .weight, .scales, ...) to the WeightSource that packers read.
 *
 * Which tensors are there decides what the module is; the config (quant_config.h) gives what they
 * cannot tell (zero-point conventions, block sizes) and must agree with their shapes:
 *
 *     .weight of floats, GGUF blocks            plain rows
 *     .weight U32 + .scales (+ .biases)         MLX: bits and groups follow from the shapes
 *     .qweight                                  GPTQ or AWQ, as the config says
 *     .weight_packed                            compressed-tensors: I32 integers, U8 nvfp4 or mxfp4
 *     .weight I8, F8                            integers, floats of one byte, with .weight_scale,
 *                                               .weight_scale_inv, .scale or .qscale_weight; fp4 in
 *                                               I8 (DeepSeek-V4)
 *     .weight U8                                ModelOpt nvfp4, BitNet, bitsandbytes
 *
 * Everything allocated is the arena's; nothing but small side tensors (g_idx, look-up tables) is
 * read. */
#ifndef MLXCEL_ARCH_MODULE_SOURCE_H
#define MLXCEL_ARCH_MODULE_SOURCE_H

#include "arch/quant_config.h"
#include "op/weight_source.h"

typedef struct ModuleFinder {
    const Checkpoint *ck;
    const QuantConfig *config;
    bool *used; /* per tensor of ck: set for what a module consists of */
    Arena *a;
} ModuleFinder;

/* The tensor that holds the module's matrix, under whichever name; NULL if there is none. */
const CkptTensor *modsource_weight(const Checkpoint *ck, Str module);
/* The matrix [n, k] of a module; is_table: it is an embedding. n_stack above 1: that many matrices
 * in one tensor [n_stack, n / n_stack, k]. */
bool modsource_matrix(const ModuleFinder *f, Str module, bool is_table, uint32_t n_stack,
                      uint32_t n, uint32_t k, WeightSource *out, Err *err) MUST_CHECK;
/* n_stack matrices of n outputs and k inputs that are one parameter: NAME of plain floats [n_stack,
 * k, n], or NAME_blocks and NAME_scales, mxfp4 [n_stack, n, ...]. out is the first of them; the
 * others begin at row0 = i * (transposed ? k : n). */
bool modsource_stack(const ModuleFinder *f, Str name, uint32_t n_stack, uint32_t n, uint32_t k,
                     WeightSource *out, Err *err) MUST_CHECK;
/* The same as plain floats, fp8 with NAME_scale_inv, or (integers) whole numbers, [n_stack, n, k];
 * out is all of them. */
bool modsource_stack_rows(const ModuleFinder *f, Str name, bool integers, uint32_t n_stack,
                          uint32_t n, uint32_t k, WeightSource *out, Err *err) MUST_CHECK;
/* The plain tensor NAME [n_stack, n] as n_stack * n rows of one. */
bool modsource_stack_vector(const ModuleFinder *f, Str name, uint32_t n_stack, uint32_t n,
                            WeightSource *out, Err *err) MUST_CHECK;
/* One plain tensor of floats (or GGUF blocks), a vector of k elements; cols: the file has it as
 * [k / cols, cols] (0: as [k]); upright: as k rows of one, for a row map. */
bool modsource_vector(const ModuleFinder *f, const CkptTensor *ct, uint32_t k, uint32_t cols,
                      bool upright, WeightSource *out, Err *err) MUST_CHECK;
/* Marks every tensor that may belong to the module as used. */
void modsource_ignore(const ModuleFinder *f, Str module);
/* Known, and not used by an engine that quantizes activations and caches itself: input_scale,
 * k_scale, ... */
bool modsource_is_calibration(Str tensor_name);

#endif
