/* qwen.h: what the Qwen families share. */
#ifndef MLXCEL_ARCH_QWEN_H
#define MLXCEL_ARCH_QWEN_H

#include "arch/arch.h"

/* layer(): the window rule of Qwen2 and Qwen3 configs. */
bool qwen_window(const Decoder *d, int i, LayerSpec *l, Err *err) MUST_CHECK;

/* Which layers have experts: decoder_sparse_step and mlp_only_layers; fills l->moe. */
bool qwen_moe(const Decoder *d, int i, LayerSpec *l, bool normalize, Err *err) MUST_CHECK;

#endif
