#include "block/mix_rglru.h"

static const float DECAY_SPEED = -8; /* the paper's c */

static Val gate(ProgBuilder *b, const RgLruBlock *p, Val x, WeightId w, WeightId bias) {
    x = prog_block_linear(b, x, w, p->n_blocks, p->width / p->n_blocks);
    return prog_col_scale(b, x, W_NONE, bias, COL_PLAIN);
}

Val block_rglru(ProgBuilder *b, const RgLruBlock *p, Val x, int layer) {
    uint32_t n = p->width;
    Val in = prog_probe(b, prog_linear_precise(b, x, p->in, p->in_bias), "layers.%d.lru.in", layer);
    Val h = prog_conv(b, prog_view(b, in, 0, n), p->conv, p->conv_bias, p->kernel, layer);
    prog_probe(b, h, "layers.%d.lru.x", layer);
    Val decay = prog_act(b, gate(b, p, h, p->decay_gate, p->decay_bias), ACT_SIGMOID, 0);
    decay = prog_scale(b, prog_col_scale(b, decay, p->decay, W_NONE, COL_SOFTPLUS), DECAY_SPEED);
    prog_probe(b, decay, "layers.%d.lru.decay", layer);
    h = prog_glu(b, gate(b, p, h, p->input_gate, p->input_bias), h, ACT_SIGMOID);
    h = prog_probe(b, prog_rg_lru(b, h, decay, layer), "layers.%d.lru.rows", layer);
    h = prog_glu(b, prog_view(b, in, n, n), h, p->act);
    return prog_probe(b, prog_linear(b, h, p->out, p->out_bias), "layers.%d.lru.out", layer);
}
