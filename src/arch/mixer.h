/* mixer.h: what layers have in the place of attention: takes the layer's weights, makes the block
 * and records it. One function per Mixer; decoder.c chooses.
 *
 *     h = mixer_delta(d, l, h, i);     h: normed rows; back: what is added to the residual */
#ifndef MLXCEL_ARCH_MIXER_H
#define MLXCEL_ARCH_MIXER_H

#include "arch/arch.h"
#include "block/mix_mamba2.h"
#include "block/moe.h"

Val mixer_shortconv(Decoder *d, const LayerSpec *l, Val h, int i); /* LFM2 */
Val mixer_delta(Decoder *d, const LayerSpec *l, Val h, int i);     /* gated delta rule */
Val mixer_mla(Decoder *d, const LayerSpec *l, Val h, int i);       /* latent attention */
Val mixer_mamba1(Decoder *d, const LayerSpec *l, Val h, int i);
Val mixer_mamba2(Decoder *d, const LayerSpec *l, Val h, int i);
Val mixer_rglru(Decoder *d, const LayerSpec *l, Val h, int i); /* Griffin */

/* For families with a body of their own (arch.h): decoder.c's parts, and blocks whose weights are
 * taken and which are not recorded yet. */
Val mixer_norm(Decoder *d, Val x, Role role, int i);
Val mixer_attn(Decoder *d, const LayerSpec *l, Val h, int i);
FfnBlock mixer_ffn_take(Decoder *d, const LayerSpec *l, int i);
MoeBlock mixer_moe_take(Decoder *d, const LayerSpec *l, int i);
Mamba2Block mixer_mamba2_take(Decoder *d, const LayerSpec *l, int i);

#endif
