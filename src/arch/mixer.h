/* mixer.h: what layers have in the place of attention: takes the layer's weights, makes the block
 * and records it. One function per Mixer; decoder.c chooses.
 *
 *     h = mixer_delta(d, l, h, i);     h: normed rows; back: what is added to the residual */
#ifndef MLXCEL_ARCH_MIXER_H
#define MLXCEL_ARCH_MIXER_H

#include "arch/arch.h"

Val mixer_shortconv(Decoder *d, const LayerSpec *l, Val h, int i); /* LFM2 */
Val mixer_delta(Decoder *d, const LayerSpec *l, Val h, int i);     /* gated delta rule */

#endif
