#include "block/mix_mamba1.h"

static Val normed(ProgBuilder *b, const Mamba1Block *p, Val x, WeightId w) {
    return p->normed ? prog_rms_norm(b, x, w, 0, p->norm_eps, 0) : x;
}

Val block_mamba1(ProgBuilder *b, const Mamba1Block *p, Val x, int layer) {
    uint32_t n = p->inner, r = p->rank, s = p->n_state;
    Val in =
        prog_probe(b, prog_linear_precise(b, x, p->in, p->in_bias), "layers.%d.mamba.in", layer);
    Val h = prog_conv(b, prog_view(b, in, 0, n), p->conv, p->conv_bias, p->kernel, layer);
    h = prog_probe(b, prog_act(b, h, p->act, 0), "layers.%d.mamba.x", layer);
    Val parts = prog_linear_precise(b, h, p->proj, W_NONE);
    Val dt = normed(b, p, prog_view(b, parts, 0, r), p->dt_norm);
    Val in_b = normed(b, p, prog_view(b, parts, r, s), p->b_norm);
    Val in_c = normed(b, p, prog_view(b, parts, r + s, s), p->c_norm);
    dt = prog_act(b, prog_linear_precise(b, dt, p->step, p->step_bias), ACT_SOFTPLUS, 0);
    prog_probe(b, dt, "layers.%d.mamba.dt", layer);
    h = prog_ssm(
        b, h, dt, in_b, in_c, p->a, p->skip,
        (OpSsm){.n_heads = n, .head_dim = 1, .n_state = s, .n_groups = 1, .a_log = p->a_log},
        layer);
    prog_probe(b, h, "layers.%d.mamba.heads", layer);
    h = prog_glu(b, prog_view(b, in, n, n), h, ACT_SILU);
    return prog_probe(b, prog_linear(b, h, p->out, p->out_bias), "layers.%d.mamba.out", layer);
}
