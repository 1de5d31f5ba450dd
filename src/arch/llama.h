/* llama.h: what families share with Llama. */
#ifndef MLXCEL_ARCH_LLAMA_H
#define MLXCEL_ARCH_LLAMA_H

#include "arch/arch.h"

/* Optional biases: by config's keys, of a GGUF by its tensors. */
bool llama_adjust(Decoder *d, Err *err) MUST_CHECK;
/* Of a GGUF also the window and experts that Mistral and Mixtral have under this architecture. */
bool llama_layer(const Decoder *d, int i, LayerSpec *l, Err *err) MUST_CHECK;

#endif
