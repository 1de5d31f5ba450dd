/* qwen.h: what the Qwen families share. */
#ifndef MLXCEL_ARCH_QWEN_H
#define MLXCEL_ARCH_QWEN_H

#include "arch/arch.h"

/* layer(): the window rule of Qwen2 and Qwen3 configs. */
bool qwen_window(const Decoder *d, int i, LayerSpec *l, Err *err) MUST_CHECK;
/* sliding_window, if use_sliding_window; else 0. */
bool qwen_window_size(const Decoder *d, uint32_t *out, Err *err) MUST_CHECK;

/* adjust(): norms of queries and keys, biases of attention_bias. */
bool qwen3_adjust(Decoder *d, Err *err) MUST_CHECK;

/* Sections of M-RoPE where the config has no mrope_section: pairs of time, height, width. */
void qwen_sections(RopeSpec *r, uint32_t time, uint32_t height, uint32_t width);

/* Which layers have experts: decoder_sparse_step and mlp_only_layers; fills l->moe. */
bool qwen_moe(const Decoder *d, int i, LayerSpec *l, bool normalize, Err *err) MUST_CHECK;

/* The shared expert behind a sigmoid switch, in layers with experts. */
bool qwen_shared(const Decoder *d, LayerSpec *l, Err *err) MUST_CHECK;

/* Qwen3-Next and later: the linear_* keys; what all layers share; which layers are delta nets. */
bool qwen_delta(const Decoder *d, DeltaSpec *s, Err *err) MUST_CHECK;
bool qwen_next_adjust(Decoder *d, Err *err) MUST_CHECK;
bool qwen_next_layer(const Decoder *d, int i, LayerSpec *l, Err *err) MUST_CHECK;

#endif
