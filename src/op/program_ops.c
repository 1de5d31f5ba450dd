/* Recording ops, first part: tables, products, norms, rope, attention, elementwise. */
#include "op/program_private.h"

static Val embed(ProgBuilder *b, WeightId table, Val media, OpEmbed p) {
    if (b->err.kind || (media != VAL_NONE && prog_bad(b, media))) return VAL_NONE;
    if (table == W_NONE) return prog_fail(b, OP_EMBED, "weight", 0, 1);
    uint32_t cols = WEIGHTS(b)[table].k;
    if (media != VAL_NONE && VALS(b)[media].cols != cols)
        return prog_fail(b, OP_EMBED, "media width", VALS(b)[media].cols, cols);
    Op *op = prog_op_out(b, OP_EMBED, media, VAL_NONE, SPACE_T, cols);
    if (!op) return VAL_NONE;
    op->w[0] = table;
    op->p.embed = p;
    return op->out;
}

Val prog_embed(ProgBuilder *b, WeightId table, float scale) {
    return embed(b, table, VAL_NONE, (OpEmbed){.scale = scale});
}

Val prog_embed_media(ProgBuilder *b, WeightId table, float scale, Val media) {
    return embed(b, table, media, (OpEmbed){.scale = scale});
}

Val prog_embed_known(ProgBuilder *b, WeightId table, float scale) {
    return embed(b, table, VAL_NONE, (OpEmbed){.scale = scale, .outside_first = true});
}

Val prog_embed_key(ProgBuilder *b, WeightId table, EmbedKey key, int32_t offset) {
    return embed(b, table, VAL_NONE, (OpEmbed){.scale = 1, .key = key, .offset = offset});
}

Val prog_linear(ProgBuilder *b, Val x, WeightId w, WeightId bias) {
    if (prog_bad(b, x)) return VAL_NONE;
    if (w == W_NONE) return prog_fail(b, OP_LINEAR, "weight", 0, 1);
    const ProgVal in = VALS(b)[x];
    if (!prog_weight_fits(b, OP_LINEAR, w, 0, in.cols)) return VAL_NONE;
    uint32_t n = WEIGHTS(b)[w].n;
    if (!prog_weight_fits(b, OP_LINEAR, bias, 1, n)) return VAL_NONE;
    Val out = prog_val_new(b, in.space, n);
    Op *op = prog_op_new(b, OP_LINEAR, x, VAL_NONE);
    if (!op) return VAL_NONE;
    op->w[0] = w;
    op->w[1] = bias;
    op->out = out;
    return out;
}

Val prog_linear_precise(ProgBuilder *b, Val x, WeightId w, WeightId bias) {
    Val out = prog_linear(b, x, w, bias);
    if (out != VAL_NONE && b->ops.n) ((Op *)b->ops.p)[b->ops.n - 1].p.linear.precise = true;
    return out;
}

static Val norm(ProgBuilder *b, OpCode code, Val x, WeightId w, WeightId bias, OpNorm p) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (p.group == 0) p.group = in.cols;
    if (in.cols % p.group) return prog_fail(b, code, "group", p.group, in.cols);
    uint32_t k = w != W_NONE && WEIGHTS(b)[w].k == in.cols ? in.cols : p.group;
    if (!prog_weight_fits(b, code, w, 1, k) || !prog_weight_fits(b, code, bias, 1, k))
        return VAL_NONE;
    Val out = prog_val_new(b, in.space, in.cols);
    Op *op = prog_op_new(b, code, x, VAL_NONE);
    if (!op) return VAL_NONE;
    op->w[0] = w;
    op->w[1] = bias;
    op->out = out;
    op->p.norm = p;
    return out;
}

Val prog_rms_norm(ProgBuilder *b, Val x, WeightId w, uint32_t group, float eps, float w_add) {
    return norm(b, OP_RMS_NORM, x, w, W_NONE, (OpNorm){eps, w_add, group});
}

Val prog_layer_norm(ProgBuilder *b, Val x, WeightId w, WeightId bias, uint32_t group, float eps,
                    float w_add) {
    return norm(b, OP_LAYER_NORM, x, w, bias, (OpNorm){eps, w_add, group});
}

Val prog_rope_angles(ProgBuilder *b, uint32_t spec) {
    if (b->err.kind || spec >= b->ropes.n) return VAL_NONE;
    if (b->angles[spec] != VAL_NONE) return b->angles[spec];
    Val out = prog_val_new(b, SPACE_T, ROPES(b)[spec].rot_dim);
    Op *op = prog_op_new(b, OP_ROPE_ANGLES, VAL_NONE, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = b->angles[spec] = out;
    op->p.rope.spec = spec;
    return prog_probe(b, out, "rope.%u", spec);
}

Val prog_rope(ProgBuilder *b, Val x, uint32_t spec, uint32_t n_heads, uint32_t head_dim,
              uint32_t offset, bool interleaved) {
    Val angles = prog_rope_angles(b, spec);
    if (prog_bad(b, x) || prog_bad(b, angles)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t rot = VALS(b)[angles].cols;
    if (in.cols != n_heads * head_dim)
        return prog_fail(b, OP_ROPE, "width", in.cols, n_heads * head_dim);
    if (offset > head_dim || rot > head_dim - offset)
        return prog_fail(b, OP_ROPE, "rotated width", rot, head_dim - offset);
    Val out = prog_val_new(b, in.space, in.cols);
    Op *op = prog_op_new(b, OP_ROPE, x, angles);
    if (!op) return VAL_NONE;
    op->out = out;
    op->p.rope = (OpRope){spec, n_heads, head_dim, offset, interleaved};
    return out;
}

void prog_kv_write(ProgBuilder *b, Val x, PlaneId plane) {
    if (prog_bad(b, x) || plane == PLANE_NONE) return;
    const ProgPlane *p = &PLANES(b)[plane];
    if (VALS(b)[x].cols != p->heads * p->head_cols) {
        prog_fail(b, OP_KV_WRITE, "width", VALS(b)[x].cols, p->heads * p->head_cols);
        return;
    }
    Op *op = prog_op_new(b, OP_KV_WRITE, x, VAL_NONE);
    if (op) op->plane[0] = plane;
}

/* Planes of attention: K and V, one latent plane as both, or two of latents. */
static bool attn_planes(ProgBuilder *b, PlaneId k, PlaneId v, const OpAttn *p) {
    if (k == PLANE_NONE || v == PLANE_NONE) return prog_fail(b, OP_ATTN, "plane", 0, 1), false;
    const ProgPlane *kp = &PLANES(b)[k], *vp = &PLANES(b)[v];
    if (kp->heads != p->n_kv_heads || kp->head_cols != p->head_dim)
        return prog_fail(b, OP_ATTN, "k width", kp->head_cols, p->head_dim), false;
    bool latent = kp->use == PLANE_LATENT && vp->use == PLANE_LATENT && p->v_dim <= p->head_dim;
    bool fits = p->joint ? latent && vp->head_cols == p->head_dim
                : k == v ? latent
                         : vp->head_cols == p->v_dim;
    if (vp->heads != p->n_kv_heads || !fits)
        return prog_fail(b, OP_ATTN, "v width", vp->head_cols, p->v_dim), false;
    return true;
}

Val prog_attn_picked(ProgBuilder *b, Val q, Val picks, PlaneId k, PlaneId v, WeightId sinks,
                     OpAttn p) {
    if (prog_bad(b, q) || (picks != VAL_NONE && prog_bad(b, picks))) return VAL_NONE;
    const ProgVal in = VALS(b)[q];
    if (in.cols != p.n_heads * p.head_dim)
        return prog_fail(b, OP_ATTN, "width", in.cols, p.n_heads * p.head_dim);
    if (p.n_kv_heads == 0 || p.n_heads % p.n_kv_heads)
        return prog_fail(b, OP_ATTN, "kv heads", p.n_kv_heads, p.n_heads);
    if (p.head_dim > PICK_MAX_COLS || p.v_dim > PICK_MAX_COLS)
        return prog_fail(b, OP_ATTN, "head width", p.head_dim, PICK_MAX_COLS);
    if (!attn_planes(b, k, v, &p)) return VAL_NONE;
    if (!prog_weight_fits(b, OP_ATTN, sinks, 1, p.n_heads)) return VAL_NONE;
    Op *op = prog_op_out(b, OP_ATTN, q, picks, in.space, p.n_heads * p.v_dim);
    if (!op) return VAL_NONE;
    op->w[0] = sinks;
    op->plane[0] = k;
    op->plane[1] = v;
    op->p.attn = p;
    return op->out;
}

Val prog_attn_joint(ProgBuilder *b, Val q, Val picks, PlaneId near, PlaneId far, WeightId sinks,
                    OpAttn p) {
    p.joint = true;
    return prog_attn_picked(b, q, picks, near, far, sinks, p);
}

Val prog_attn(ProgBuilder *b, Val q, PlaneId k, PlaneId v, WeightId sinks, OpAttn p) {
    return prog_attn_picked(b, q, VAL_NONE, k, v, sinks, p);
}

/* Elementwise ops of one or two operands of equal width (b_cols_one: the second may be one
 * column). */
static Op *elementwise(ProgBuilder *b, OpCode code, Val x, Val y, bool b_cols_one) {
    if (prog_bad(b, x) || (y != VAL_NONE && prog_bad(b, y))) return NULL;
    const ProgVal in = VALS(b)[x];
    if (y != VAL_NONE) {
        const ProgVal other = VALS(b)[y];
        if (other.cols != in.cols && !(b_cols_one && other.cols == 1))
            return prog_fail(b, code, "width", other.cols, in.cols), NULL;
        if (other.space != in.space)
            return prog_fail(b, code, "row space", other.space, in.space), NULL;
    }
    Val out = prog_val_new(b, in.space, in.cols);
    Op *op = prog_op_new(b, code, x, y);
    if (op) op->out = out;
    return op;
}

Val prog_add(ProgBuilder *b, Val a, Val c, float scale) {
    if (c == VAL_NONE) return VAL_NONE;
    Op *op = elementwise(b, OP_ADD, a, c, true);
    if (!op) return VAL_NONE;
    op->p.scale = scale;
    return op->out;
}

Val prog_mul(ProgBuilder *b, Val a, Val c) {
    if (c == VAL_NONE) return VAL_NONE;
    Op *op = elementwise(b, OP_MUL, a, c, true);
    return op ? op->out : VAL_NONE;
}

Val prog_scale(ProgBuilder *b, Val a, float scale) {
    Op *op = elementwise(b, OP_SCALE, a, VAL_NONE, false);
    if (!op) return VAL_NONE;
    op->p.scale = scale;
    return op->out;
}

Val prog_affine(ProgBuilder *b, Val a, float scale, float offset) {
    Op *op = elementwise(b, OP_SCALE, a, VAL_NONE, false);
    if (!op) return VAL_NONE;
    op->p.affine.scale = scale;
    op->p.affine.offset = offset;
    return op->out;
}

Val prog_act(ProgBuilder *b, Val a, Act fn, float param) {
    Op *op = elementwise(b, OP_ACT, a, VAL_NONE, false);
    if (!op) return VAL_NONE;
    op->p.act.fn = fn;
    op->p.act.param = param;
    return op->out;
}

Val prog_glu(ProgBuilder *b, Val gate, Val up, Act fn) {
    if (up == VAL_NONE) return VAL_NONE;
    Op *op = elementwise(b, OP_GLU, gate, up, false);
    if (!op) return VAL_NONE;
    op->p.act.fn = fn;
    return op->out;
}

Val prog_select(ProgBuilder *b, Val x) {
    if (prog_bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (in.space != SPACE_T) return prog_fail(b, OP_SELECT, "row space", in.space, SPACE_T);
    Val out = prog_val_new(b, SPACE_R, in.cols);
    Op *op = prog_op_new(b, OP_SELECT, x, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = out;
    return out;
}

Val prog_col_scale(ProgBuilder *b, Val a, WeightId w, WeightId add, ColFn fn) {
    if (prog_bad(b, a)) return VAL_NONE;
    const ProgVal in = VALS(b)[a];
    if (!prog_weight_fits(b, OP_COL_SCALE, w, 1, in.cols) ||
        !prog_weight_fits(b, OP_COL_SCALE, add, 1, in.cols))
        return VAL_NONE;
    Op *op = elementwise(b, OP_COL_SCALE, a, VAL_NONE, false);
    if (!op) return VAL_NONE;
    op->w[0] = w;
    op->w[1] = add;
    op->p.col_fn = fn;
    return op->out;
}
