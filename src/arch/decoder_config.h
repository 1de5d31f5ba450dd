/* decoder_config.h: the parts of reading a decoder's config that decoder.c, which records it, asks
 * for; families use arch.h. */
#ifndef MLXCEL_ARCH_DECODER_CONFIG_H
#define MLXCEL_ARCH_DECODER_CONFIG_H

#include "arch/arch.h"

/* Key heads of layer i (-1: the most of any): GGUF files may have a number for each layer, 0 where
 * it has no attention. */
bool decoder_kv_heads(const Decoder *d, int i, uint32_t dflt, uint32_t *out, Err *err) MUST_CHECK;
/* In GGUF files Llama 3's frequency scaling and longrope's factors are tensors instead of config
 * keys. */
bool decoder_rope_tensors(Decoder *d, Err *err) MUST_CHECK;
/* Tokens of context; 0: no end. */
uint64_t decoder_context(const Decoder *d);

#endif
