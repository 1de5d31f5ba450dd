/* gemma.h: what the Gemma families share. */
#ifndef MLXCEL_ARCH_GEMMA_H
#define MLXCEL_ARCH_GEMMA_H

#include "arch/arch.h"

/* Norms by 1 + w (GGUF files hold the sum already), embeddings times sqrt(hidden), head tied to
 * them. */
bool gemma_shared(Decoder *d, Err *err) MUST_CHECK;
/* Gemma 2 and 3: norms around attention and feed-forward, scale by query_pre_attn_scalar, optional
 * soft-caps. */
bool gemma_sandwich(Decoder *d, Err *err) MUST_CHECK;
extern const RoleDelta GEMMA_NAMES[];

#endif
