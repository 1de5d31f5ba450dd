#include "block/mix_delta.h"

#include <math.h>

/* What the references add to the squared length of a query or key. */
static const float LENGTH_EPS = 1e-6f;

/* times / |x|, per head: a mean of squares instead of their sum, so eps and factor are adapted. */
static Val unit_length(ProgBuilder *b, Val x, uint32_t dim, double times) {
    x = prog_rms_norm(b, x, W_NONE, dim, LENGTH_EPS / (float)dim, 0);
    return prog_scale(b, x, (float)(times / sqrt((double)dim)));
}

/* Columns [from, from + n) of what x went through already, or x through two matrices. */
static Val part_or_own(ProgBuilder *b, Val x, Val whole, uint32_t from, uint32_t n, WeightId down,
                       WeightId up) {
    if (down == W_NONE) return prog_view(b, whole, from, n);
    return prog_linear_precise(b, prog_linear_precise(b, x, down, W_NONE), up, W_NONE);
}

static Val log_decay(ProgBuilder *b, const DeltaBlock *p, Val a) {
    a = prog_act(b, prog_col_scale(b, a, W_NONE, p->dt, COL_PLAIN), ACT_SOFTPLUS, 0);
    return prog_col_scale(b, a, p->decay, W_NONE, p->decay_fn);
}

Val block_delta(ProgBuilder *b, const DeltaBlock *p, Val x, int layer) {
    const OpDelta *s = &p->shape;
    uint32_t nk = s->n_k_heads * s->k_dim, nv = s->n_heads * s->v_dim;
    uint32_t na = p->by_column ? s->n_heads * s->k_dim : s->n_heads;
    Val in = prog_probe(b, prog_linear_precise(b, x, p->in, W_NONE), "layers.%d.delta.in", layer);
    Val ba = prog_linear_precise(b, x, p->ba, W_NONE);
    Val z = part_or_own(b, x, in, 2 * nk + nv, nv, p->z_down, p->z_up);
    Val a = part_or_own(b, x, ba, s->n_heads, na, p->a_down, p->a_up);
    Val decay = prog_probe(b, log_decay(b, p, a), "layers.%d.delta.decay", layer);
    Val beta = prog_act(b, prog_view(b, ba, 0, s->n_heads), ACT_SIGMOID, 0);
    Val h = prog_conv(b, prog_view(b, in, 0, 2 * nk + nv), p->conv, W_NONE, p->kernel, layer);
    h = prog_probe(b, prog_act(b, h, ACT_SILU, 0), "layers.%d.delta.qkv", layer);
    Val q = unit_length(b, prog_view(b, h, 0, nk), s->k_dim, 1 / sqrt((double)s->k_dim));
    Val k = unit_length(b, prog_view(b, h, nk, nk), s->k_dim, 1);
    h = prog_delta(b, q, k, prog_view(b, h, 2 * nk, nv), decay, beta, *s, layer);
    prog_probe(b, h, "layers.%d.delta.heads", layer);
    h = prog_rms_norm(b, h, p->norm, s->v_dim, p->norm_eps, 0);
    h = prog_glu(b, z, h, p->gate);
    return prog_probe(b, prog_linear(b, h, p->out, W_NONE), "layers.%d.delta.out", layer);
}
