#include "block/mix_shortconv.h"

Val block_shortconv(ProgBuilder *b, const ShortConvBlock *p, Val x, int layer) {
    Val in = prog_probe(b, prog_linear(b, x, p->in, p->in_bias), "layers.%d.conv.in", layer);
    Val inner = prog_view(b, in, 0, p->width), outer = prog_view(b, in, p->width, p->width);
    Val h = prog_mul(b, inner, prog_view(b, in, 2 * p->width, p->width));
    h = prog_conv(b, h, p->conv, p->conv_bias, p->kernel, layer);
    h = prog_mul(b, outer, prog_probe(b, h, "layers.%d.conv.rows", layer));
    return prog_probe(b, prog_linear(b, h, p->out, p->out_bias), "layers.%d.conv.out", layer);
}
