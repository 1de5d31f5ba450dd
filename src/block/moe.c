#include "block/moe.h"

Val block_moe(ProgBuilder *b, const MoeBlock *p, Val x, int layer) {
    uint32_t n = p->route.n_experts;
    Val logits = prog_probe(b, prog_linear_precise(b, x, p->router, p->router_bias),
                            "layers.%d.moe.logits", layer);
    Val routes = p->by_token
                     ? prog_route_given(b, logits, prog_embed(b, p->by_token_table, 1), p->route)
                     : prog_route(b, logits, p->select_bias, p->route);
    prog_probe(b, routes, "layers.%d.moe.routes", layer);
    Val gate = prog_experts(b, x, routes, p->gate, p->gate_bias, n, p->width);
    Val up = prog_experts(b, x, routes, p->up, p->up_bias, n, p->width);
    if (p->limit > 0) {
        gate = prog_act(b, gate, ACT_CAP, p->limit);
        up = prog_act(b, up, ACT_CLAMP, p->limit);
    }
    if (p->up_add != 0) up = prog_affine(b, up, 1, p->up_add);
    Val h = prog_probe(b, prog_glu(b, gate, up, p->act), "layers.%d.moe.hidden", layer);
    Val out = prog_experts(b, h, routes, p->down, p->down_bias, n, p->hidden);
    out = prog_expert_sum(b, out, routes);
    if (p->shared) {
        Val s = block_ffn(b, &p->shared_ffn, x, layer);
        if (p->shared_gate != W_NONE)
            s = prog_mul(b, s,
                         prog_act(b, prog_linear(b, x, p->shared_gate, W_NONE), ACT_SIGMOID, 0));
        out = prog_add(b, out, s, 1);
    }
    return prog_probe(b, out, "layers.%d.moe.out", layer);
}
