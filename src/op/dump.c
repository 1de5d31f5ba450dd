/* The names and the listing of a program: inspect --program, error messages. */
#include <string.h>

#include "op/program.h"

static const char *const OP_NAMES[OP_COUNT] = {
#define OP(name, n_in, n_w, n_plane, summary) [OP_##name] = #name,
#include "op/op.def"
#undef OP
};
static const char *const ACT_NAMES[ACT_COUNT] = {
    [ACT_SILU] = "silu",
    [ACT_GELU] = "gelu",
    [ACT_GELU_TANH] = "gelu_tanh",
    [ACT_RELU] = "relu",
    [ACT_RELU2] = "relu2",
    [ACT_SIGMOID] = "sigmoid",
    [ACT_TANH] = "tanh",
    [ACT_SOFTPLUS] = "softplus",
    [ACT_EXP] = "exp",
    [ACT_QUICK_GELU] = "quick_gelu",
    [ACT_SOFTCAP] = "softcap",
    [ACT_CLAMP] = "clamp",
    [ACT_CAP] = "cap",
};
static const char *const REDUCE_NAMES[REDUCE_COUNT] = {"mean", "rms", "sum"};
static const char *const ROUTE_NAMES[ROUTE_FN_COUNT] = {"softmax", "sigmoid", "sqrt_softplus"};
static const char *const POOL_NAMES[POOL_COUNT] = {"mean", "first", "last"};
static const char *const PLANE_TYPE_NAMES[PLANE_TYPE_COUNT] = {
    [PLANE_F32] = "f32",   [PLANE_F16] = "f16",   [PLANE_BF16] = "bf16",
    [PLANE_Q8_0] = "q8_0", [PLANE_Q4_0] = "q4_0",
};
static const char SPACE_NAMES[SPACE_MAX + 1] = "TRSabcde";

const char *opcode_name(OpCode code) { return code < OP_COUNT ? OP_NAMES[code] : "?"; }
const char *act_name(Act fn) { return ACT_NAMES[fn]; }
const char *planetype_name(PlaneType t) { return PLANE_TYPE_NAMES[t]; }

bool planetype_parse(Str name, PlaneType *out) {
    for (int t = 0; t < PLANE_TYPE_COUNT; t++) {
        if (!str_eqc(name, PLANE_TYPE_NAMES[t])) continue;
        *out = (PlaneType)t;
        return true;
    }
    return false;
}

/* q8_0 and q4_0: one f16 scale per token and head, whatever the width (DESIGN.md rule 1). */
size_t planetype_row_bytes(PlaneType t, uint32_t head_cols) {
    switch (t) {
    case PLANE_F32:
        return (size_t)head_cols * 4;
    case PLANE_F16:
    case PLANE_BF16:
        return (size_t)head_cols * 2;
    case PLANE_Q8_0:
        return (size_t)head_cols + 2;
    default:
        return (size_t)(head_cols + 1) / 2 + 2;
    }
}

static void put_val(const Program *p, Val v, Buf *out) {
    if (v == VAL_NONE) return;
    const ProgVal *pv = &p->vals[v];
    buf_putf(out, " %%%u", (unsigned)pv->base);
    if (pv->base != v) buf_putf(out, "[%u:%u]", pv->col0, pv->col0 + pv->cols);
}

static void put_plane(const ProgPlane *p, Buf *out) {
    char use = "KVL"[p->use];
    const char *where = p->keep == KEEP_CROSS ? "cross." : "";
    buf_putf(out, " $%s%c%d[%ux%u]", where, use, p->layer, p->heads, p->head_cols);
}

static void put_params(const Program *p, const Op *op, Buf *out) {
    switch (op->code) {
    case OP_EMBED:
    case OP_ADD:
    case OP_SCALE:
        if (op->p.scale != 1.0f) buf_putf(out, " scale=%.9g", (double)op->p.scale);
        break;
    case OP_LINEAR:
        if (op->p.linear.precise) buf_put(out, STR(" precise"));
        break;
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
        buf_putf(out, " eps=%.9g", (double)op->p.norm.eps);
        if (op->p.norm.group != p->vals[op->out].cols) buf_putf(out, " group=%u", op->p.norm.group);
        if (op->p.norm.w_add != 0) buf_putf(out, " w_add=%.9g", (double)op->p.norm.w_add);
        break;
    case OP_ROPE_ANGLES:
        buf_putf(out, " spec=%u", op->p.rope.spec);
        break;
    case OP_ROPE:
        buf_putf(out, " heads=%ux%u", op->p.rope.n_heads, op->p.rope.head_dim);
        if (op->p.rope.offset) buf_putf(out, " offset=%u", op->p.rope.offset);
        if (op->p.rope.interleaved) buf_put(out, STR(" interleaved"));
        break;
    case OP_ATTN:
        buf_putf(out, " heads=%u/%u dim=%u/%u scale=%.9g", op->p.attn.n_heads,
                 op->p.attn.n_kv_heads, op->p.attn.head_dim, op->p.attn.v_dim,
                 (double)op->p.attn.scale);
        if (op->p.attn.window) buf_putf(out, " window=%u", op->p.attn.window);
        if (op->p.attn.chunk) buf_putf(out, " chunk=%u", op->p.attn.chunk);
        if (op->p.attn.cross) buf_put(out, STR(" cross"));
        if (op->p.attn.joint) buf_put(out, STR(" joint"));
        if (op->p.attn.softcap != 0) buf_putf(out, " softcap=%.9g", (double)op->p.attn.softcap);
        break;
    case OP_ACT:
    case OP_GLU:
        buf_putf(out, " %s", act_name(op->p.act.fn));
        if (op->p.act.param != 0) buf_putf(out, " %.9g", (double)op->p.act.param);
        break;
    case OP_ROUTE:
        buf_putf(out, " %s %u of %u", ROUTE_NAMES[op->p.route.fn], op->p.route.k,
                 op->p.route.n_experts);
        if (op->p.route.n_groups > 1)
            buf_putf(out, " groups=%u/%u", op->p.route.k_groups, op->p.route.n_groups);
        break;
    case OP_EXPERTS:
        buf_putf(out, " %u of %u", op->p.experts.k, op->p.experts.n_experts);
        break;
    case OP_INPUT:
        buf_putf(out, " %s", p->inputs[op->p.input].name);
        break;
    case OP_REDUCE:
        buf_putf(out, " %s", REDUCE_NAMES[op->p.reduce.fn]);
        break;
    case OP_POOL:
        buf_putf(out, " %s", POOL_NAMES[op->p.pool]);
        break;
    case OP_UNFOLD:
        buf_putf(out, " kernel=%u stride=%u pad=%u", op->p.unfold.kernel, op->p.unfold.stride,
                 op->p.unfold.pad);
        break;
    case OP_POS_SCALE:
        buf_putf(out, " scale=%.9g floor=%.9g offset=%.9g", (double)op->p.pos_scale.scale,
                 (double)op->p.pos_scale.floor, (double)op->p.pos_scale.offset);
        break;
    case OP_COL_SCALE:
        if (op->p.col_fn == COL_NEG_EXP) buf_put(out, STR(" -exp"));
        if (op->p.col_fn == COL_SOFTPLUS) buf_put(out, STR(" softplus"));
        break;
    case OP_CONV:
        buf_putf(out, " kernel=%u", op->p.conv.kernel);
        break;
    case OP_COMPRESS:
        buf_putf(out, " rate=%u%s", op->p.compress.rate, op->p.compress.overlap ? " overlap" : "");
        break;
    case OP_SINKHORN:
        buf_putf(out, " %u times", op->p.sinkhorn.times);
        break;
    case OP_SSM:
        buf_putf(out, " heads=%ux%u state=%u groups=%u", op->p.ssm.n_heads, op->p.ssm.head_dim,
                 op->p.ssm.n_state, op->p.ssm.n_groups);
        break;
    case OP_DELTA:
        buf_putf(out, " heads=%u/%u dim=%u/%u%s", op->p.delta.n_heads, op->p.delta.n_k_heads,
                 op->p.delta.k_dim, op->p.delta.v_dim, op->p.delta.tiled ? " tiled" : "");
        break;
    case OP_KEY_SELECT:
        buf_putf(out, " %u heads=%ux%u", op->p.key_select.k, op->p.key_select.n_heads,
                 op->p.key_select.head_dim);
        break;
    default:
        break;
    }
}

void program_dump(const Program *p, Buf *out) {
    buf_putf(out, "program %s: %u ops, %u values, %u weights, %u planes\n", p->name, p->n_ops,
             p->n_vals, p->n_weights, p->n_planes);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        size_t line = out->n;
        buf_putf(out, "%5u  ", i);
        if (op->out != VAL_NONE) {
            const ProgVal *v = &p->vals[op->out];
            buf_putf(out, "%%%u[%c,%u] = ", op->out, SPACE_NAMES[v->space], v->cols);
        }
        buf_putf(out, "%s", opcode_name(op->code));
        for (int k = 0; k < OP_INPUTS; k++) put_val(p, op->in[k], out);
        for (int k = 0; k < OP_WEIGHTS; k++)
            if (op->w[k] != W_NONE) buf_putf(out, " @%s", p->weights[op->w[k]].name);
        for (int k = 0; k < 2; k++)
            if (op->plane[k] != PLANE_NONE) put_plane(&p->planes[op->plane[k]], out);
        if (op->state != STATE_NONE)
            buf_putf(out, " $S%d[%u]", p->states[op->state].layer, p->states[op->state].floats);
        put_params(p, op, out);
        if (op->out != VAL_NONE && p->vals[op->out].name) {
            do buf_putc(out, ' ');
            while (!out->failed && out->n - line < 80);
            buf_putf(out, "; %s", p->vals[op->out].name);
        }
        buf_putc(out, '\n');
    }
}
