#include "block/hyper.h"

static Val coefficients(ProgBuilder *b, const HyperBlock *p, Val streams) {
    Val flat = prog_rms_norm(b, streams, W_NONE, 0, p->norm_eps, 0);
    return prog_col_scale(b, prog_linear_precise(b, flat, p->fn, W_NONE), p->scale, p->base,
                          COL_PLAIN);
}

static Val sum(ProgBuilder *b, const HyperBlock *p, Val streams, Val c) {
    Val pre = prog_act(b, prog_view(b, c, 0, p->n), ACT_SIGMOID, 0);
    return prog_mix(b, streams, prog_affine(b, pre, 1, p->eps), p->n, 1);
}

Val block_hyper_enter(ProgBuilder *b, const HyperBlock *p, Val streams, Val *back) {
    Val c = coefficients(b, p, streams);
    Val post = prog_scale(b, prog_act(b, prog_view(b, c, p->n, p->n), ACT_SIGMOID, 0), 2);
    Val matrix = prog_sinkhorn(b, prog_view(b, c, 2 * p->n, p->n * p->n),
                               (OpSinkhorn){.n = p->n, .times = p->times, .eps = p->eps});
    /* stream i of the result: row i of the matrix over the streams, then post_i of the layer's row */
    *back = prog_concat_groups(b, matrix, post, p->n);
    return sum(b, p, streams, c);
}

Val block_hyper_leave(ProgBuilder *b, const HyperBlock *p, Val streams, Val out, Val back) {
    return prog_mix(b, prog_concat(b, streams, out), back, p->n + 1, p->n);
}

Val block_hyper_sum(ProgBuilder *b, const HyperBlock *p, Val streams) {
    return sum(b, p, streams, coefficients(b, p, streams));
}
