#include "arch/mixer.h"
#include "arch/take.h"
#include "block/mix_shortconv.h"

Val mixer_shortconv(Decoder *d, const LayerSpec *l, Val h, int i) {
    uint32_t n = d->hidden, kernel = l->conv.kernel;
    const TakePart conv = {.role = ROLE_CONV, .n = 1, .k = n * kernel, .cols = kernel};
    ShortConvBlock p = {
        .width = n, .kernel = kernel, .in_bias = W_NONE, .conv_bias = W_NONE, .out_bias = W_NONE};
    p.in = arch_take_matrix(d, ROLE_CONV_IN, i, 3 * n, n);
    p.conv = arch_take(d, WEIGHT_VECTOR, i, ".weight", &conv, 1);
    p.out = arch_take_matrix(d, ROLE_CONV_OUT, i, n, n);
    if (l->conv.bias) {
        p.in_bias = arch_take_vector(d, ROLE_CONV_IN, i, ".bias", 3 * n);
        p.conv_bias = arch_take_vector(d, ROLE_CONV, i, ".bias", n);
        p.out_bias = arch_take_vector(d, ROLE_CONV_OUT, i, ".bias", n);
    }
    return block_shortconv(d->b, &p, h, i);
}
