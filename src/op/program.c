#include "op/program_private.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPS = 1 << 20, MAX_COLS = 1 << 24, NAME_MAX_BYTES = 96 };

void *proglist_add(ProgBuilder *b, List *l, size_t size) {
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

ProgBuilder *prog_begin(Arena *a, const char *name) {
    ProgBuilder *b = arena_new(a, ProgBuilder);
    if (!b) return NULL;
    b->a = a;
    b->name = name;
    b->n_spaces = SPACE_DERIVED;
    for (size_t i = 0; i < sizeof b->angles / sizeof *b->angles; i++) b->angles[i] = VAL_NONE;
    return b;
}

Val prog_fail(ProgBuilder *b, OpCode code, const char *what, uint32_t got, uint32_t want) {
    if (!b->err.kind)
        err_set(&b->err, ERR_INTERNAL, "program %s, op %u (%s): %s is %u, %u fits", b->name,
                b->ops.n, opcode_name(code), what, got, want);
    return VAL_NONE;
}

bool prog_bad(const ProgBuilder *b, Val v) { return b->err.kind || v >= b->vals.n; }

Val prog_val_new(ProgBuilder *b, Space space, uint32_t cols) {
    if (cols == 0 || cols > MAX_COLS) return prog_fail(b, OP_COUNT, "width", cols, MAX_COLS);
    ProgVal *v = proglist_add(b, &b->vals, sizeof *v);
    if (!v) return VAL_NONE;
    Val id = b->vals.n - 1;
    *v = (ProgVal){.space = space, .cols = cols, .base = id};
    return id;
}

Op *prog_op_new(ProgBuilder *b, OpCode code, Val x, Val y) {
    Op *op = proglist_add(b, &b->ops, sizeof *op);
    if (!op) return NULL;
    *op = (Op){.code = code,
               .out = VAL_NONE,
               .in = {x, y},
               .w = {W_NONE, W_NONE, W_NONE},
               .plane = {PLANE_NONE, PLANE_NONE},
               .state = STATE_NONE};
    for (int i = 2; i < OP_INPUTS; i++) op->in[i] = VAL_NONE;
    return op;
}

Op *prog_op_out(ProgBuilder *b, OpCode code, Val x, Val y, Space space, uint32_t cols) {
    Val out = prog_val_new(b, space, cols);
    Op *op = out == VAL_NONE ? NULL : prog_op_new(b, code, x, y);
    if (op) op->out = out;
    return op;
}

WeightId prog_weight(ProgBuilder *b, WeightKind kind, uint32_t n, uint32_t k, int32_t source,
                     const char *name) {
    for (uint32_t i = 0; i < b->weights.n; i++) {
        const ProgWeight *w = &WEIGHTS(b)[i];
        if (w->source == source && w->kind == kind) return (WeightId)i;
    }
    ProgWeight *w = proglist_add(b, &b->weights, sizeof *w);
    if (!w) return W_NONE;
    *w = (ProgWeight){kind, n, k, name, source};
    return (WeightId)b->weights.n - 1;
}

static bool group_find(ProgBuilder *b, PlaneKeep keep, uint32_t span, uint32_t *out) {
    for (*out = 0; *out < b->n_groups; ++*out)
        if (b->groups[*out].keep == keep && b->groups[*out].span == span) return true;
    if (b->n_groups == PLANE_MAX_GROUPS) {
        prog_fail(b, OP_KV_WRITE, "plane groups", PLANE_MAX_GROUPS + 1, PLANE_MAX_GROUPS);
        return false;
    }
    b->groups[b->n_groups++] = (ProgGroup){keep, span};
    return true;
}

PlaneId prog_plane(ProgBuilder *b, ProgPlane plane) {
    if (plane.keep == KEEP_ALL || plane.keep == KEEP_CROSS) plane.span = 0;
    if (!plane.rate) plane.rate = 1;
    if (b->err.kind || !group_find(b, plane.keep, plane.span, &plane.group)) return PLANE_NONE;
    ProgPlane *p = proglist_add(b, &b->planes, sizeof *p);
    if (!p) return PLANE_NONE;
    *p = plane;
    return (PlaneId)b->planes.n - 1;
}

StateId prog_state(ProgBuilder *b, int layer, uint32_t floats) {
    ProgState *s = proglist_add(b, &b->states, sizeof *s);
    if (!s) return STATE_NONE;
    *s = (ProgState){layer, floats};
    return (StateId)b->states.n - 1;
}

void prog_share_planes(ProgBuilder *b, const Program *with) {
    memcpy(b->groups, with->groups, sizeof b->groups);
    b->n_groups = with->n_groups;
    for (uint32_t i = 0; i < with->n_planes; i++) {
        ProgPlane *p = proglist_add(b, &b->planes, sizeof *p);
        if (p) *p = with->planes[i];
    }
    for (uint32_t i = 0; i < with->n_states; i++) {
        ProgState *s = proglist_add(b, &b->states, sizeof *s);
        if (s) *s = with->states[i];
    }
}

Space prog_space(ProgBuilder *b, uint32_t num, uint32_t den) {
    for (uint32_t i = SPACE_DERIVED; i < b->n_spaces; i++)
        if (b->spaces[i].num == num && b->spaces[i].den == den) return (Space)i;
    if (b->n_spaces == SPACE_MAX || !num || !den) {
        prog_fail(b, OP_UNFOLD, "row spaces", b->n_spaces + 1, SPACE_MAX);
        return SPACE_T;
    }
    b->spaces[b->n_spaces] = (ProgSpace){num, den};
    return (Space)b->n_spaces++;
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
           x->sections_interleaved == y->sections_interleaved &&
           x->sections_restart == y->sections_restart && x->pos_step == y->pos_step &&
           x->backward == y->backward;
}

uint32_t prog_rope_spec(ProgBuilder *b, RopeSpec spec) {
    for (uint32_t i = 0; i < b->ropes.n; i++)
        if (rope_same(&ROPES(b)[i], &spec)) return i;
    if (b->ropes.n >= sizeof b->angles / sizeof *b->angles || spec.rot_dim > 2 * ROPE_MAX_PAIRS) {
        prog_fail(b, OP_ROPE_ANGLES, "rope width", spec.rot_dim, 2 * ROPE_MAX_PAIRS);
        return 0;
    }
    RopeSpec *r = proglist_add(b, &b->ropes, sizeof *r);
    if (r) *r = spec;
    return b->ropes.n - 1;
}

Val prog_view(ProgBuilder *b, Val x, uint32_t col0, uint32_t cols) {
    if (prog_bad(b, x)) return VAL_NONE;
    ProgVal of = VALS(b)[x];
    if (cols == 0 || col0 > of.cols || cols > of.cols - col0)
        return prog_fail(b, OP_COUNT, "view's end", col0 + cols, of.cols);
    if (col0 == 0 && cols == of.cols) return x;
    Val id = prog_val_new(b, of.space, cols);
    if (id == VAL_NONE) return id;
    VALS(b)[id].base = of.base;
    VALS(b)[id].col0 = of.col0 + col0;
    return id;
}

Val prog_probe(ProgBuilder *b, Val x, const char *fmt, ...) {
    if (prog_bad(b, x)) return x;
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
    if (prog_bad(b, x)) return;
    ProgOutput *o = proglist_add(b, &b->outputs, sizeof *o);
    if (o) *o = (ProgOutput){name, x};
}

bool prog_weight_fits(ProgBuilder *b, OpCode code, WeightId w, uint32_t n, uint32_t k) {
    if (w == W_NONE) return true;
    if (w < 0 || (uint32_t)w >= b->weights.n) return false;
    const ProgWeight *pw = &WEIGHTS(b)[w];
    if (n && pw->n != n) return prog_fail(b, code, pw->name, pw->n, n), false;
    if (pw->k != k) return prog_fail(b, code, pw->name, pw->k, k), false;
    return true;
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
        .n_groups = b->n_groups,
        .states = b->states.p,
        .n_states = b->states.n,
        .inputs = b->inputs.p,
        .n_inputs = b->inputs.n,
        .n_spaces = b->n_spaces,
        .ropes = b->ropes.p,
        .n_ropes = b->ropes.n,
        .outputs = b->outputs.p,
        .n_outputs = b->outputs.n,
    };
    memcpy(p->groups, b->groups, sizeof p->groups);
    memcpy(p->spaces, b->spaces, sizeof p->spaces);
    *out = p;
    return true;
}
