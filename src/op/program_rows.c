/* Recording ops, second part: experts, gathers, rows of other spaces, recurrences. */
#include "op/program_private.h"

Val prog_route_scaled(ProgBuilder *b, Val logits, WeightId bias, WeightId factor, OpRoute p) {
    Val out = prog_route(b, logits, bias, p);
    if (out == VAL_NONE || !prog_weight_fits(b, OP_ROUTE, factor, 1, p.n_experts)) return VAL_NONE;
    ((Op *)b->ops.p)[b->ops.n - 1].w[1] = factor;
    return out;
}

Val prog_route_given(ProgBuilder *b, Val logits, Val numbers, OpRoute p) {
    Val out = prog_route(b, logits, W_NONE, p);
    if (out == VAL_NONE || prog_bad(b, numbers)) return VAL_NONE;
    if (VALS(b)[numbers].cols != p.k)
        return prog_fail(b, OP_ROUTE, "chosen experts", VALS(b)[numbers].cols, p.k);
    if (VALS(b)[numbers].space != VALS(b)[logits].space)
        return prog_fail(b, OP_ROUTE, "row space", VALS(b)[numbers].space, VALS(b)[logits].space);
    ((Op *)b->ops.p)[b->ops.n - 1].in[1] = numbers;
    return out;
}

Val prog_route(ProgBuilder *b, Val logits, WeightId bias, OpRoute p) {
    if (prog_bad(b, logits)) return VAL_NONE;
    const ProgVal in = VALS(b)[logits];
    if (in.cols != p.n_experts || in.cols > ROUTE_MAX_EXPERTS)
        return prog_fail(b, OP_ROUTE, "experts", in.cols, p.n_experts);
    if (p.k < 1 || p.k > p.n_experts || p.k > ROUTE_MAX_K)
        return prog_fail(b, OP_ROUTE, "chosen experts", p.k, p.n_experts);
    if (p.n_groups && p.n_experts % p.n_groups)
        return prog_fail(b, OP_ROUTE, "groups", p.n_groups, p.n_experts);
    if (!prog_weight_fits(b, OP_ROUTE, bias, 1, p.n_experts)) return VAL_NONE;
    Val out = prog_val_new(b, in.space, 2 * p.k);
    Op *op = prog_op_new(b, OP_ROUTE, logits, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = out;
    op->w[0] = bias;
    op->p.route = p;
    return out;
}

Val prog_experts(ProgBuilder *b, Val x, Val routes, WeightId w, WeightId bias, uint32_t n_experts,
                 uint32_t n) {
    if (prog_bad(b, x) || prog_bad(b, routes)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t k = VALS(b)[routes].cols / 2, cols = w == W_NONE ? 0 : WEIGHTS(b)[w].k;
    if (!prog_weight_fits(b, OP_EXPERTS, w, n_experts * n, cols) ||
        !prog_weight_fits(b, OP_EXPERTS, bias, 1, n_experts * n))
        return VAL_NONE;
    if (in.cols != cols && in.cols != k * cols)
        return prog_fail(b, OP_EXPERTS, "width", in.cols, cols);
    Val out = prog_val_new(b, in.space, k * n);
    Op *op = prog_op_new(b, OP_EXPERTS, x, routes);
    if (!op) return VAL_NONE;
    op->out = out;
    op->w[0] = w;
    op->w[1] = bias;
    op->p.experts = (OpExperts){n_experts, k, n};
    return out;
}

Val prog_expert_sum(ProgBuilder *b, Val x, Val routes) {
    if (prog_bad(b, x) || prog_bad(b, routes)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t k = VALS(b)[routes].cols / 2;
    if (in.cols % k) return prog_fail(b, OP_EXPERT_SUM, "width", in.cols, k);
    Val out = prog_val_new(b, in.space, in.cols / k);
    Op *op = prog_op_new(b, OP_EXPERT_SUM, x, routes);
    if (!op) return VAL_NONE;
    op->out = out;
    op->p.experts = (OpExperts){.k = k, .n = in.cols / k};
    return out;
}

Val prog_block_linear(ProgBuilder *b, Val x, WeightId w, uint32_t n_parts, uint32_t n) {
    if (prog_bad(b, x)) return VAL_NONE;
    if (w == W_NONE || !n_parts) return prog_fail(b, OP_EXPERTS, "weight", 0, 1);
    const ProgVal in = VALS(b)[x];
    uint32_t k = WEIGHTS(b)[w].k;
    if (!prog_weight_fits(b, OP_EXPERTS, w, n_parts * n, k)) return VAL_NONE;
    if (in.cols != n_parts * k) return prog_fail(b, OP_EXPERTS, "width", in.cols, n_parts * k);
    Op *op = prog_op_out(b, OP_EXPERTS, x, VAL_NONE, in.space, n_parts * n);
    if (!op) return VAL_NONE;
    op->w[0] = w;
    op->p.experts = (OpExperts){n_parts, n_parts, n};
    return op->out;
}

Val prog_input(ProgBuilder *b, const char *name, Space space, uint32_t cols) {
    if (b->err.kind) return VAL_NONE;
    ProgInput *in = proglist_add(b, &b->inputs, sizeof *in);
    if (!in) return VAL_NONE;
    *in = (ProgInput){name, space, cols};
    Op *op = prog_op_out(b, OP_INPUT, VAL_NONE, VAL_NONE, space, cols);
    if (!op) return VAL_NONE;
    op->p.input = b->inputs.n - 1;
    return op->out;
}

Val prog_gather_sum(ProgBuilder *b, Val picks, WeightId table) {
    if (prog_bad(b, picks)) return VAL_NONE;
    if (table == W_NONE) return prog_fail(b, OP_GATHER_SUM, "weight", 0, 1);
    const ProgVal in = VALS(b)[picks];
    if (in.cols % 2) return prog_fail(b, OP_GATHER_SUM, "width", in.cols, in.cols + 1);
    if (WEIGHTS(b)[table].k > GATHER_MAX_COLS)
        return prog_fail(b, OP_GATHER_SUM, "table width", WEIGHTS(b)[table].k, GATHER_MAX_COLS);
    Op *op = prog_op_out(b, OP_GATHER_SUM, picks, VAL_NONE, in.space, WEIGHTS(b)[table].k);
    if (!op) return VAL_NONE;
    op->w[0] = table;
    return op->out;
}

Val prog_concat(ProgBuilder *b, Val x, Val y) { return prog_concat_groups(b, x, y, 1); }

Val prog_concat_groups(ProgBuilder *b, Val x, Val y, uint32_t n_groups) {
    if (prog_bad(b, x) || prog_bad(b, y)) return VAL_NONE;
    const ProgVal in = VALS(b)[x], other = VALS(b)[y];
    if (in.space != other.space) return prog_fail(b, OP_CONCAT, "row space", other.space, in.space);
    if (!n_groups || in.cols % n_groups || other.cols % n_groups)
        return prog_fail(b, OP_CONCAT, "groups", n_groups, in.cols);
    Op *op = prog_op_out(b, OP_CONCAT, x, y, in.space, in.cols + other.cols);
    if (!op) return VAL_NONE;
    op->p.n_groups = n_groups;
    return op->out;
}

Val prog_reduce(ProgBuilder *b, Val x, Reduce fn, uint32_t group, float eps) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (!group) group = in.cols;
    if (in.cols % group) return prog_fail(b, OP_REDUCE, "group", group, in.cols);
    Op *op = prog_op_out(b, OP_REDUCE, x, VAL_NONE, in.space, in.cols / group);
    if (!op) return VAL_NONE;
    op->p.reduce = (OpReduce){fn, group, eps};
    return op->out;
}

Val prog_unfold(ProgBuilder *b, Val x, Space space, OpUnfold p) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (!p.kernel || !p.stride || p.kernel > 64)
        return prog_fail(b, OP_UNFOLD, "kernel", p.kernel, 64);
    Op *op = prog_op_out(b, OP_UNFOLD, x, VAL_NONE, space, in.cols * p.kernel);
    if (!op) return VAL_NONE;
    op->p.unfold = p;
    return op->out;
}

Val prog_pool(ProgBuilder *b, Val x, PoolKind fn) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (in.space != SPACE_T) return prog_fail(b, OP_POOL, "row space", in.space, SPACE_T);
    Op *op = prog_op_out(b, OP_POOL, x, VAL_NONE, SPACE_S, in.cols);
    if (!op) return VAL_NONE;
    op->p.pool = fn;
    return op->out;
}

Val prog_pos_scale(ProgBuilder *b, OpPosScale p) {
    if (b->err.kind) return VAL_NONE;
    Op *op = prog_op_out(b, OP_POS_SCALE, VAL_NONE, VAL_NONE, SPACE_T, 1);
    if (!op) return VAL_NONE;
    op->p.pos_scale = p;
    return op->out;
}

Val prog_mix(ProgBuilder *b, Val x, Val coef, uint32_t n_in, uint32_t n_out) {
    if (prog_bad(b, x) || prog_bad(b, coef)) return VAL_NONE;
    const ProgVal in = VALS(b)[x], c = VALS(b)[coef];
    if (!n_in || in.cols % n_in) return prog_fail(b, OP_MIX, "streams", n_in, in.cols);
    if (c.cols != n_in * n_out) return prog_fail(b, OP_MIX, "width", c.cols, n_in * n_out);
    Op *op = prog_op_out(b, OP_MIX, x, coef, in.space, in.cols / n_in * n_out);
    if (!op) return VAL_NONE;
    op->p.mix = (OpMix){n_in, n_out};
    return op->out;
}

Val prog_sinkhorn(ProgBuilder *b, Val x, OpSinkhorn p) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (!p.n || p.n > SINKHORN_MAX_N || in.cols != p.n * p.n)
        return prog_fail(b, OP_SINKHORN, "width", in.cols, p.n * p.n);
    Op *op = prog_op_out(b, OP_SINKHORN, x, VAL_NONE, in.space, in.cols);
    if (!op) return VAL_NONE;
    op->p.sinkhorn = p;
    return op->out;
}

Val prog_key_select(ProgBuilder *b, Val q, Val weights, PlaneId keys, OpKeySelect p) {
    if (prog_bad(b, q) || prog_bad(b, weights)) return VAL_NONE;
    if (keys == PLANE_NONE) return prog_fail(b, OP_KEY_SELECT, "plane", 0, 1);
    const ProgPlane *kp = &PLANES(b)[keys];
    if (VALS(b)[q].cols != p.n_heads * p.head_dim || VALS(b)[weights].cols != p.n_heads)
        return prog_fail(b, OP_KEY_SELECT, "width", VALS(b)[q].cols, p.n_heads * p.head_dim);
    if (p.k > PICK_MAX_KEYS || p.head_dim > PICK_MAX_COLS)
        return prog_fail(b, OP_KEY_SELECT, "chosen keys", p.k, PICK_MAX_KEYS);
    if (kp->heads != 1 || kp->head_cols != p.head_dim || !p.k)
        return prog_fail(b, OP_KEY_SELECT, "key width", kp->head_cols, p.head_dim);
    Op *op = prog_op_out(b, OP_KEY_SELECT, q, weights, SPACE_T, p.k);
    if (!op) return VAL_NONE;
    op->plane[0] = keys;
    op->p.key_select = p;
    return op->out;
}

/* A recurrent op on rows of T with its own state. */
static Op *scan(ProgBuilder *b, OpCode code, const Val *in, int n_in, uint32_t cols, int layer,
                uint64_t floats) {
    for (int i = 0; i < n_in; i++) {
        if (prog_bad(b, in[i])) return NULL;
        if (VALS(b)[in[i]].space != SPACE_T)
            return prog_fail(b, code, "row space", VALS(b)[in[i]].space, SPACE_T), NULL;
    }
    if (floats == 0 || floats > 1u << 30) return prog_fail(b, code, "state", 0, 1u << 30), NULL;
    Op *op = prog_op_out(b, code, in[0], VAL_NONE, SPACE_T, cols);
    if (!op) return NULL;
    for (int i = 1; i < n_in; i++) op->in[i] = in[i];
    op->state = prog_state(b, layer, (uint32_t)floats);
    return op->state == STATE_NONE ? NULL : op;
}

static bool wide(ProgBuilder *b, OpCode code, Val v, uint64_t cols) {
    if (prog_bad(b, v)) return false;
    if (VALS(b)[v].cols == cols) return true;
    prog_fail(b, code, "width", VALS(b)[v].cols, (uint32_t)cols);
    return false;
}

Val prog_conv(ProgBuilder *b, Val x, WeightId w, WeightId bias, uint32_t kernel, int layer) {
    if (prog_bad(b, x)) return VAL_NONE;
    uint32_t cols = VALS(b)[x].cols;
    if (w == W_NONE || kernel < 2) return prog_fail(b, OP_CONV, "kernel", kernel, 2);
    if (kernel > CONV_MAX_KERNEL) return prog_fail(b, OP_CONV, "kernel", kernel, CONV_MAX_KERNEL);
    if (!prog_weight_fits(b, OP_CONV, w, 1, cols * kernel) ||
        !prog_weight_fits(b, OP_CONV, bias, 1, cols))
        return VAL_NONE;
    Op *op = scan(b, OP_CONV, &x, 1, cols, layer, (uint64_t)cols * (kernel - 1));
    if (!op) return VAL_NONE;
    op->w[0] = w;
    op->w[1] = bias;
    op->p.conv.kernel = kernel;
    return op->out;
}

Val prog_compress(ProgBuilder *b, Val x, Val gate, WeightId bias, OpCompress p, int layer) {
    if (prog_bad(b, x) || !wide(b, OP_COMPRESS, gate, VALS(b)[x].cols)) return VAL_NONE;
    uint32_t in = VALS(b)[x].cols, cols = p.overlap ? in / 2 : in, parts = p.overlap ? 3 : 1;
    if (p.overlap && in % 2) return prog_fail(b, OP_COMPRESS, "width", in, in + 1);
    if (!p.rate || p.rate > COMPRESS_MAX_RATE)
        return prog_fail(b, OP_COMPRESS, "rate", p.rate, COMPRESS_MAX_RATE);
    if (bias == W_NONE || !prog_weight_fits(b, OP_COMPRESS, bias, 1, p.rate * in)) return VAL_NONE;
    const Val inputs[2] = {x, gate};
    Op *op = scan(b, OP_COMPRESS, inputs, 2, cols, layer, (uint64_t)cols * parts * 3);
    if (!op) return VAL_NONE;
    op->w[0] = bias;
    op->p.compress = p;
    return op->out;
}

Val prog_ssm(ProgBuilder *b, Val x, Val dt, Val in_b, Val in_c, WeightId a, WeightId d, OpSsm p,
             int layer) {
    uint64_t inner = (uint64_t)p.n_heads * p.head_dim, bc = (uint64_t)p.n_groups * p.n_state;
    if (!wide(b, OP_SSM, x, inner) || !wide(b, OP_SSM, dt, p.n_heads) ||
        !wide(b, OP_SSM, in_b, bc) || !wide(b, OP_SSM, in_c, bc))
        return VAL_NONE;
    if (!p.n_groups || p.n_heads % p.n_groups)
        return prog_fail(b, OP_SSM, "groups", p.n_groups, p.n_heads);
    if (a == W_NONE) return prog_fail(b, OP_SSM, "weight", 0, 1);
    uint32_t k = WEIGHTS(b)[a].k;
    if (k != p.n_heads && !prog_weight_fits(b, OP_SSM, a, 1, p.n_heads * p.n_state))
        return VAL_NONE;
    if (!prog_weight_fits(b, OP_SSM, d, 1, p.n_heads)) return VAL_NONE;
    const Val in[4] = {x, dt, in_b, in_c};
    Op *op = scan(b, OP_SSM, in, 4, (uint32_t)inner, layer, inner * p.n_state);
    if (!op) return VAL_NONE;
    op->w[0] = a;
    op->w[1] = d;
    op->p.ssm = p;
    return op->out;
}

Val prog_delta(ProgBuilder *b, Val q, Val k, Val v, Val log_decay, Val beta, OpDelta p, int layer) {
    uint64_t qk = (uint64_t)p.n_k_heads * p.k_dim, out = (uint64_t)p.n_heads * p.v_dim;
    if (!p.n_k_heads || p.n_heads % p.n_k_heads)
        return prog_fail(b, OP_DELTA, "key heads", p.n_k_heads, p.n_heads);
    if (p.v_dim > DELTA_MAX_V) return prog_fail(b, OP_DELTA, "value width", p.v_dim, DELTA_MAX_V);
    if (!wide(b, OP_DELTA, q, qk) || !wide(b, OP_DELTA, k, qk) || !wide(b, OP_DELTA, v, out) ||
        !wide(b, OP_DELTA, beta, p.n_heads) || prog_bad(b, log_decay))
        return VAL_NONE;
    if (VALS(b)[log_decay].cols != p.n_heads &&
        !wide(b, OP_DELTA, log_decay, (uint64_t)p.n_heads * p.k_dim))
        return VAL_NONE;
    const Val in[5] = {q, k, v, log_decay, beta};
    Op *op = scan(b, OP_DELTA, in, 5, (uint32_t)out, layer, out * p.k_dim);
    if (!op) return VAL_NONE;
    op->p.delta = p;
    return op->out;
}

Val prog_rg_lru(ProgBuilder *b, Val x, Val log_a, int layer) {
    if (prog_bad(b, x) || !wide(b, OP_RG_LRU, log_a, VALS(b)[x].cols)) return VAL_NONE;
    const Val in[2] = {x, log_a};
    Op *op = scan(b, OP_RG_LRU, in, 2, VALS(b)[x].cols, layer, VALS(b)[x].cols);
    return op ? op->out : VAL_NONE;
}
