#include "op/program.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPS = 1 << 20, MAX_COLS = 1 << 24, NAME_MAX_BYTES = 96 };

/* Arrays grow by doubling inside the arena: what the smaller copies leave behind is a few hundred
 * KiB at most. */
typedef struct List {
    void *p;
    uint32_t n, cap;
} List;

struct ProgBuilder {
    Arena *a;
    const char *name;
    List ops, vals, weights, planes, ropes, outputs;
    Val angles[64]; /* recorded angles per rope spec, VAL_NONE before */
    Err err;
};

static void *list_add(ProgBuilder *b, List *l, size_t size) {
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 64;
        void *p = cap <= MAX_OPS ? arena_alloc_n(b->a, cap, size) : NULL;
        if (!p) {
            if (!b->err.kind) err_nomem(&b->err, "program");
            return NULL;
        }
        if (l->n) memcpy(p, l->p, l->n * size);
        l->p = p;
        l->cap = cap;
    }
    return (char *)l->p + size * l->n++;
}

#define VALS(b) ((ProgVal *)(b)->vals.p)
#define WEIGHTS(b) ((ProgWeight *)(b)->weights.p)
#define PLANES(b) ((ProgPlane *)(b)->planes.p)
#define ROPES(b) ((RopeSpec *)(b)->ropes.p)

ProgBuilder *prog_begin(Arena *a, const char *name) {
    ProgBuilder *b = arena_new(a, ProgBuilder);
    if (!b) return NULL;
    b->a = a;
    b->name = name;
    for (size_t i = 0; i < sizeof b->angles / sizeof *b->angles; i++) b->angles[i] = VAL_NONE;
    return b;
}

static Val fail(ProgBuilder *b, OpCode code, const char *what, uint32_t got, uint32_t want) {
    if (!b->err.kind)
        err_set(&b->err, ERR_INTERNAL, "program %s, op %u (%s): %s is %u, %u fits", b->name,
                b->ops.n, opcode_name(code), what, got, want);
    return VAL_NONE;
}

static bool bad(const ProgBuilder *b, Val v) { return b->err.kind || v >= b->vals.n; }

static Val val_new(ProgBuilder *b, Space space, uint32_t cols) {
    if (cols == 0 || cols > MAX_COLS) return fail(b, OP_COUNT, "width", cols, MAX_COLS);
    ProgVal *v = list_add(b, &b->vals, sizeof *v);
    if (!v) return VAL_NONE;
    Val id = b->vals.n - 1;
    *v = (ProgVal){.space = space, .cols = cols, .base = id};
    return id;
}

static Op *op_new(ProgBuilder *b, OpCode code, Val x, Val y) {
    Op *op = list_add(b, &b->ops, sizeof *op);
    if (!op) return NULL;
    *op = (Op){.code = code,
               .out = VAL_NONE,
               .in = {x, y},
               .w = {W_NONE, W_NONE},
               .plane = {PLANE_NONE, PLANE_NONE}};
    return op;
}

WeightId prog_weight(ProgBuilder *b, WeightKind kind, uint32_t n, uint32_t k, int32_t source,
                     const char *name) {
    for (uint32_t i = 0; i < b->weights.n; i++) {
        const ProgWeight *w = &WEIGHTS(b)[i];
        if (w->source == source && w->kind == kind) return (WeightId)i;
    }
    ProgWeight *w = list_add(b, &b->weights, sizeof *w);
    if (!w) return W_NONE;
    *w = (ProgWeight){kind, n, k, name, source};
    return (WeightId)b->weights.n - 1;
}

PlaneId prog_plane(ProgBuilder *b, ProgPlane plane) {
    ProgPlane *p = list_add(b, &b->planes, sizeof *p);
    if (!p) return PLANE_NONE;
    *p = plane;
    return (PlaneId)b->planes.n - 1;
}

/* Field by field: padding bytes of two equal specs may differ. */
static bool rope_same(const RopeSpec *x, const RopeSpec *y) {
    return x->kind == y->kind && x->rot_dim == y->rot_dim && x->freq_dim == y->freq_dim &&
           x->theta == y->theta && x->factor == y->factor && x->orig_context == y->orig_context &&
           x->attn_factor == y->attn_factor && x->beta_fast == y->beta_fast &&
           x->beta_slow == y->beta_slow && x->mscale == y->mscale &&
           x->mscale_all_dim == y->mscale_all_dim && x->truncate == y->truncate &&
           x->low_freq_factor == y->low_freq_factor && x->high_freq_factor == y->high_freq_factor &&
           x->short_factor == y->short_factor && x->long_factor == y->long_factor &&
           x->max_context == y->max_context &&
           memcmp(x->sections, y->sections, sizeof x->sections) == 0 &&
           x->sections_interleaved == y->sections_interleaved;
}

uint32_t prog_rope_spec(ProgBuilder *b, RopeSpec spec) {
    for (uint32_t i = 0; i < b->ropes.n; i++)
        if (rope_same(&ROPES(b)[i], &spec)) return i;
    if (b->ropes.n >= sizeof b->angles / sizeof *b->angles || spec.rot_dim > 2 * ROPE_MAX_PAIRS) {
        fail(b, OP_ROPE_ANGLES, "rope width", spec.rot_dim, 2 * ROPE_MAX_PAIRS);
        return 0;
    }
    RopeSpec *r = list_add(b, &b->ropes, sizeof *r);
    if (r) *r = spec;
    return b->ropes.n - 1;
}

Val prog_view(ProgBuilder *b, Val x, uint32_t col0, uint32_t cols) {
    if (bad(b, x)) return VAL_NONE;
    ProgVal of = VALS(b)[x];
    if (cols == 0 || col0 > of.cols || cols > of.cols - col0)
        return fail(b, OP_COUNT, "view's end", col0 + cols, of.cols);
    if (col0 == 0 && cols == of.cols) return x;
    Val id = val_new(b, of.space, cols);
    if (id == VAL_NONE) return id;
    VALS(b)[id].base = of.base;
    VALS(b)[id].col0 = of.col0 + col0;
    return id;
}

Val prog_probe(ProgBuilder *b, Val x, const char *fmt, ...) {
    if (bad(b, x)) return x;
    char text[NAME_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text) n = sizeof text - 1;
    VALS(b)[x].name = arena_dupz(b->a, (Str){text, n < 0 ? 0 : (size_t)n});
    return x;
}

void prog_output(ProgBuilder *b, Val x, const char *name) {
    if (bad(b, x)) return;
    ProgOutput *o = list_add(b, &b->outputs, sizeof *o);
    if (o) *o = (ProgOutput){name, x};
}

static bool weight_fits(ProgBuilder *b, OpCode code, WeightId w, uint32_t n, uint32_t k) {
    if (w == W_NONE) return true;
    if (w < 0 || (uint32_t)w >= b->weights.n) return false;
    const ProgWeight *pw = &WEIGHTS(b)[w];
    if (n && pw->n != n) return fail(b, code, pw->name, pw->n, n), false;
    if (pw->k != k) return fail(b, code, pw->name, pw->k, k), false;
    return true;
}

Val prog_embed(ProgBuilder *b, WeightId table, float scale) {
    if (b->err.kind) return VAL_NONE;
    Val out = val_new(b, SPACE_T, WEIGHTS(b)[table].k);
    Op *op = op_new(b, OP_EMBED, VAL_NONE, VAL_NONE);
    if (!op) return VAL_NONE;
    op->w[0] = table;
    op->out = out;
    op->p.scale = scale;
    return out;
}

Val prog_linear(ProgBuilder *b, Val x, WeightId w, WeightId bias) {
    if (bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (!weight_fits(b, OP_LINEAR, w, 0, in.cols)) return VAL_NONE;
    uint32_t n = WEIGHTS(b)[w].n;
    if (!weight_fits(b, OP_LINEAR, bias, 1, n)) return VAL_NONE;
    Val out = val_new(b, in.space, n);
    Op *op = op_new(b, OP_LINEAR, x, VAL_NONE);
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
    if (bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (p.group == 0) p.group = in.cols;
    if (in.cols % p.group) return fail(b, code, "group", p.group, in.cols);
    uint32_t k = w != W_NONE && WEIGHTS(b)[w].k == in.cols ? in.cols : p.group;
    if (!weight_fits(b, code, w, 1, k) || !weight_fits(b, code, bias, 1, k)) return VAL_NONE;
    Val out = val_new(b, in.space, in.cols);
    Op *op = op_new(b, code, x, VAL_NONE);
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
    Val out = val_new(b, SPACE_T, ROPES(b)[spec].rot_dim);
    Op *op = op_new(b, OP_ROPE_ANGLES, VAL_NONE, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = b->angles[spec] = out;
    op->p.rope.spec = spec;
    return prog_probe(b, out, "rope.%u", spec);
}

Val prog_rope(ProgBuilder *b, Val x, uint32_t spec, uint32_t n_heads, uint32_t head_dim,
              uint32_t offset, bool interleaved) {
    Val angles = prog_rope_angles(b, spec);
    if (bad(b, x) || bad(b, angles)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t rot = VALS(b)[angles].cols;
    if (in.cols != n_heads * head_dim)
        return fail(b, OP_ROPE, "width", in.cols, n_heads * head_dim);
    if (offset > head_dim || rot > head_dim - offset)
        return fail(b, OP_ROPE, "rotated width", rot, head_dim - offset);
    Val out = val_new(b, in.space, in.cols);
    Op *op = op_new(b, OP_ROPE, x, angles);
    if (!op) return VAL_NONE;
    op->out = out;
    op->p.rope = (OpRope){spec, n_heads, head_dim, offset, interleaved};
    return out;
}

void prog_kv_write(ProgBuilder *b, Val x, PlaneId plane) {
    if (bad(b, x)) return;
    const ProgPlane *p = &PLANES(b)[plane];
    if (VALS(b)[x].cols != p->heads * p->head_cols) {
        fail(b, OP_KV_WRITE, "width", VALS(b)[x].cols, p->heads * p->head_cols);
        return;
    }
    Op *op = op_new(b, OP_KV_WRITE, x, VAL_NONE);
    if (op) op->plane[0] = plane;
}

Val prog_attn(ProgBuilder *b, Val q, PlaneId k, PlaneId v, WeightId sinks, OpAttn p) {
    if (bad(b, q)) return VAL_NONE;
    const ProgVal in = VALS(b)[q];
    if (in.cols != p.n_heads * p.head_dim)
        return fail(b, OP_ATTN, "width", in.cols, p.n_heads * p.head_dim);
    if (p.n_kv_heads == 0 || p.n_heads % p.n_kv_heads)
        return fail(b, OP_ATTN, "kv heads", p.n_kv_heads, p.n_heads);
    const ProgPlane *kp = &PLANES(b)[k], *vp = &PLANES(b)[v];
    if (kp->heads != p.n_kv_heads || kp->head_cols != p.head_dim)
        return fail(b, OP_ATTN, "k width", kp->head_cols, p.head_dim);
    if (vp->heads != p.n_kv_heads || vp->head_cols != p.v_dim)
        return fail(b, OP_ATTN, "v width", vp->head_cols, p.v_dim);
    if (!weight_fits(b, OP_ATTN, sinks, 1, p.n_heads)) return VAL_NONE;
    Val out = val_new(b, in.space, p.n_heads * p.v_dim);
    Op *op = op_new(b, OP_ATTN, q, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = out;
    op->w[0] = sinks;
    op->plane[0] = k;
    op->plane[1] = v;
    op->p.attn = p;
    return out;
}

/* Elementwise ops of one or two operands of equal width (b_cols_one: the second may be one
 * column). */
static Op *elementwise(ProgBuilder *b, OpCode code, Val x, Val y, bool b_cols_one) {
    if (bad(b, x) || (y != VAL_NONE && bad(b, y))) return NULL;
    const ProgVal in = VALS(b)[x];
    if (y != VAL_NONE) {
        const ProgVal other = VALS(b)[y];
        if (other.cols != in.cols && !(b_cols_one && other.cols == 1))
            return fail(b, code, "width", other.cols, in.cols), NULL;
        if (other.space != in.space) return fail(b, code, "row space", other.space, in.space), NULL;
    }
    Val out = val_new(b, in.space, in.cols);
    Op *op = op_new(b, code, x, y);
    if (op) op->out = out;
    return op;
}

Val prog_add(ProgBuilder *b, Val a, Val c, float scale) {
    if (c == VAL_NONE) return VAL_NONE;
    Op *op = elementwise(b, OP_ADD, a, c, false);
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
    if (bad(b, x)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    if (in.space != SPACE_T) return fail(b, OP_SELECT, "row space", in.space, SPACE_T);
    Val out = val_new(b, SPACE_R, in.cols);
    Op *op = op_new(b, OP_SELECT, x, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = out;
    return out;
}

Val prog_route(ProgBuilder *b, Val logits, WeightId bias, OpRoute p) {
    if (bad(b, logits)) return VAL_NONE;
    const ProgVal in = VALS(b)[logits];
    if (in.cols != p.n_experts || in.cols > ROUTE_MAX_EXPERTS)
        return fail(b, OP_ROUTE, "experts", in.cols, p.n_experts);
    if (p.k < 1 || p.k > p.n_experts || p.k > ROUTE_MAX_K)
        return fail(b, OP_ROUTE, "chosen experts", p.k, p.n_experts);
    if (p.n_groups && p.n_experts % p.n_groups)
        return fail(b, OP_ROUTE, "groups", p.n_groups, p.n_experts);
    if (!weight_fits(b, OP_ROUTE, bias, 1, p.n_experts)) return VAL_NONE;
    Val out = val_new(b, in.space, 2 * p.k);
    Op *op = op_new(b, OP_ROUTE, logits, VAL_NONE);
    if (!op) return VAL_NONE;
    op->out = out;
    op->w[0] = bias;
    op->p.route = p;
    return out;
}

Val prog_experts(ProgBuilder *b, Val x, Val routes, WeightId w, WeightId bias, uint32_t n_experts,
                 uint32_t n) {
    if (bad(b, x) || bad(b, routes)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t k = VALS(b)[routes].cols / 2, cols = w == W_NONE ? 0 : WEIGHTS(b)[w].k;
    if (!weight_fits(b, OP_EXPERTS, w, n_experts * n, cols) ||
        !weight_fits(b, OP_EXPERTS, bias, 1, n_experts * n))
        return VAL_NONE;
    if (in.cols != cols && in.cols != k * cols) return fail(b, OP_EXPERTS, "width", in.cols, cols);
    Val out = val_new(b, in.space, k * n);
    Op *op = op_new(b, OP_EXPERTS, x, routes);
    if (!op) return VAL_NONE;
    op->out = out;
    op->w[0] = w;
    op->w[1] = bias;
    op->p.experts = (OpExperts){n_experts, k, n};
    return out;
}

Val prog_expert_sum(ProgBuilder *b, Val x, Val routes) {
    if (bad(b, x) || bad(b, routes)) return VAL_NONE;
    const ProgVal in = VALS(b)[x];
    uint32_t k = VALS(b)[routes].cols / 2;
    if (in.cols % k) return fail(b, OP_EXPERT_SUM, "width", in.cols, k);
    Val out = val_new(b, in.space, in.cols / k);
    Op *op = op_new(b, OP_EXPERT_SUM, x, routes);
    if (!op) return VAL_NONE;
    op->out = out;
    op->p.experts = (OpExperts){.k = k, .n = in.cols / k};
    return out;
}

bool prog_finish(ProgBuilder *b, const Program **out, Err *err) {
    if (b->err.kind) {
        if (err) *err = b->err;
        return false;
    }
    Program *p = arena_new(b->a, Program);
    if (!p) return err_nomem(err, "program");
    *p = (Program){
        .name = b->name,
        .ops = b->ops.p,
        .n_ops = b->ops.n,
        .vals = b->vals.p,
        .n_vals = b->vals.n,
        .weights = b->weights.p,
        .n_weights = b->weights.n,
        .planes = b->planes.p,
        .n_planes = b->planes.n,
        .ropes = b->ropes.p,
        .n_ropes = b->ropes.n,
        .outputs = b->outputs.p,
        .n_outputs = b->outputs.n,
    };
    *out = p;
    return true;
}
