#include "block/mix_mamba2.h"

#include <math.h>

static Val scaled(ProgBuilder *b, Val x, float by) { return by == 1 ? x : prog_scale(b, x, by); }

/* x, B and C, each by its factor. */
static Val conv_input(ProgBuilder *b, const Mamba2Block *p, Val in, uint32_t n, uint32_t bc) {
    const float *f = p->factors;
    if (!f) return prog_view(b, in, n, n + 2 * bc);
    if (f[1] == f[2] && f[2] == f[3]) return scaled(b, prog_view(b, in, n, n + 2 * bc), f[1]);
    Val x = prog_scale(b, prog_view(b, in, n, n), f[1]);
    Val in_b = prog_scale(b, prog_view(b, in, 2 * n, bc), f[2]);
    Val in_c = prog_scale(b, prog_view(b, in, 2 * n + bc, bc), f[3]);
    return prog_concat(b, prog_concat(b, x, in_b), in_c);
}

static Val time_step(ProgBuilder *b, const Mamba2Block *p, Val dt) {
    dt = prog_act(b, prog_col_scale(b, dt, W_NONE, p->dt_bias, COL_PLAIN), ACT_SOFTPLUS, 0);
    if (p->dt_min > 0) /* at least dt_min */
        dt = prog_affine(b, prog_act(b, prog_affine(b, dt, 1, -p->dt_min), ACT_RELU, 0), 1,
                         p->dt_min);
    return isfinite(p->dt_max) ? prog_act(b, dt, ACT_CAP, p->dt_max) : dt;
}

static Val gate_and_norm(ProgBuilder *b, const Mamba2Block *p, Val h, Val z, uint32_t inner) {
    uint32_t group = inner / p->shape.n_groups;
    if (p->norm != W_NONE && p->norm_first) h = prog_rms_norm(b, h, p->norm, group, p->norm_eps, 0);
    h = prog_glu(b, z, h, ACT_SILU);
    if (p->norm == W_NONE || p->norm_first) return h;
    return prog_rms_norm(b, h, p->norm, group, p->norm_eps, 0);
}

Val block_mamba2(ProgBuilder *b, const Mamba2Block *p, Val x, int layer) {
    const OpSsm *s = &p->shape;
    uint32_t n = s->n_heads * s->head_dim, bc = s->n_groups * s->n_state;
    Val in =
        prog_probe(b, prog_linear_precise(b, x, p->in, p->in_bias), "layers.%d.mamba.in", layer);
    Val z = prog_view(b, in, 0, n), dt = prog_view(b, in, 2 * n + 2 * bc, s->n_heads);
    if (p->factors) {
        z = scaled(b, z, p->factors[0]);
        dt = scaled(b, dt, p->factors[4]);
    }
    dt = prog_probe(b, time_step(b, p, dt), "layers.%d.mamba.dt", layer);
    Val h = prog_conv(b, conv_input(b, p, in, n, bc), p->conv, p->conv_bias, p->kernel, layer);
    h = prog_probe(b, prog_act(b, h, p->act, 0), "layers.%d.mamba.xbc", layer);
    h = prog_ssm(b, prog_view(b, h, 0, n), dt, prog_view(b, h, n, bc), prog_view(b, h, n + bc, bc),
                 p->a, p->skip, *s, layer);
    h = gate_and_norm(b, p, prog_probe(b, h, "layers.%d.mamba.heads", layer), z, n);
    return prog_probe(b, prog_linear(b, h, p->out, p->out_bias), "layers.%d.mamba.out", layer);
}
