/* mix_shortconv.h: a short convolution between two gates (Hasani et al. 2025, LFM2):
 * out(C * conv(B * x)), [B | C | x] = in(h). */
#ifndef MLXCEL_BLOCK_MIX_SHORTCONV_H
#define MLXCEL_BLOCK_MIX_SHORTCONV_H

#include "op/program.h"

typedef struct ShortConvBlock {
    uint32_t width, kernel;
    WeightId in, in_bias;     /* [3 * width, hidden]: B, C, x */
    WeightId conv, conv_bias; /* [width * kernel] */
    WeightId out, out_bias;   /* [hidden, width] */
} ShortConvBlock;

Val block_shortconv(ProgBuilder *b, const ShortConvBlock *p, Val x, int layer);

#endif
