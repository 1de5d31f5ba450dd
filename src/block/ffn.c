#include "block/ffn.h"

Val block_ffn(ProgBuilder *b, const FfnBlock *p, Val x, int layer) {
    Val h = prog_linear(b, x, p->in, p->in_bias);
    Val gate = p->gated ? prog_view(b, h, 0, p->width) : h, up = VAL_NONE;
    if (p->gated) up = prog_view(b, h, p->width, p->width);
    if (p->gated && p->limit > 0) {
        gate = prog_act(b, gate, ACT_CAP, p->limit);
        up = prog_act(b, up, ACT_CLAMP, p->limit);
    }
    if (p->gate_scale != 0 && p->gate_scale != 1) gate = prog_scale(b, gate, p->gate_scale);
    h = p->gated ? prog_glu(b, gate, up, p->act) : prog_act(b, gate, p->act, 0);
    prog_probe(b, h, "layers.%d.ffn.hidden", layer);
    return prog_probe(b, prog_linear(b, h, p->down, p->down_bias), "layers.%d.ffn.out", layer);
}
