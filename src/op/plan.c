#include "op/plan.h"

#include <string.h>

typedef struct Life {
    uint32_t first, last; /* op numbers; last is n_ops for outputs */
} Life;

typedef struct Gap {
    uint32_t at, cols;
} Gap;

/* Free space of one slab, as gaps in ascending order. */
typedef struct Slab {
    Gap *gaps;
    uint32_t n_gaps, cap, end; /* end: columns in use at most so far */
} Slab;

/* Best fit: the smallest gap that is large enough, else at the end. */
static uint32_t slab_take(Slab *s, uint32_t cols) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_gaps; i++)
        if (s->gaps[i].cols >= cols && (best == UINT32_MAX || s->gaps[i].cols < s->gaps[best].cols))
            best = i;
    if (best == UINT32_MAX) {
        uint32_t at = s->end;
        /* A gap that touches the end grows instead. */
        if (s->n_gaps && s->gaps[s->n_gaps - 1].at + s->gaps[s->n_gaps - 1].cols == s->end)
            at = s->gaps[--s->n_gaps].at;
        s->end = at + cols;
        return at;
    }
    uint32_t at = s->gaps[best].at;
    s->gaps[best].at += cols;
    s->gaps[best].cols -= cols;
    if (!s->gaps[best].cols) {
        memmove(&s->gaps[best], &s->gaps[best + 1], (s->n_gaps - best - 1) * sizeof(Gap));
        s->n_gaps--;
    }
    return at;
}

static void slab_give(Slab *s, uint32_t at, uint32_t cols) {
    uint32_t i = 0;
    while (i < s->n_gaps && s->gaps[i].at < at) i++;
    bool left = i > 0 && s->gaps[i - 1].at + s->gaps[i - 1].cols == at;
    bool right = i < s->n_gaps && at + cols == s->gaps[i].at;
    if (left && right) {
        s->gaps[i - 1].cols += cols + s->gaps[i].cols;
        memmove(&s->gaps[i], &s->gaps[i + 1], (s->n_gaps - i - 1) * sizeof(Gap));
        s->n_gaps--;
    } else if (left) {
        s->gaps[i - 1].cols += cols;
    } else if (right) {
        s->gaps[i].at = at;
        s->gaps[i].cols += cols;
    } else {
        memmove(&s->gaps[i + 1], &s->gaps[i], (s->n_gaps - i) * sizeof(Gap));
        s->gaps[i] = (Gap){at, cols};
        s->n_gaps++;
    }
}

static bool may_overwrite(OpCode code) {
    return code == OP_ADD || code == OP_MUL || code == OP_SCALE || code == OP_ACT ||
           code == OP_GLU || code == OP_COL_SCALE;
}

static void lives_find(const Program *p, Life *life) {
    for (uint32_t v = 0; v < p->n_vals; v++) life[v] = (Life){UINT32_MAX, 0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        for (int k = 0; k < OP_INPUTS; k++)
            if (op->in[k] != VAL_NONE) life[p->vals[op->in[k]].base].last = i;
        if (op->out != VAL_NONE) life[op->out] = (Life){i, i};
    }
    for (uint32_t i = 0; i < p->n_outputs; i++)
        life[p->vals[p->outputs[i].val].base].last = p->n_ops;
}

/* The operand whose place the op's result may take: a whole value of the same width and space that
 * dies here. */
static Val overwritten(const Program *p, const Life *life, uint32_t i) {
    const Op *op = &p->ops[i];
    if (!may_overwrite(op->code)) return VAL_NONE;
    for (int k = 0; k < 2; k++) { /* these ops have no more */
        Val v = op->in[k];
        if (v == VAL_NONE || p->vals[v].base != v || life[v].last != i) continue;
        /* a narrower view of the same value would be read after it was written over */
        Val other = op->in[1 - k];
        if (other != VAL_NONE && other != v && p->vals[other].base == v) continue;
        if (p->vals[v].cols == p->vals[op->out].cols && p->vals[v].space == p->vals[op->out].space)
            return v;
    }
    return VAL_NONE;
}

static bool given_before(const Program *p, const Op *op, int k, Val base) {
    for (int i = 0; i < k; i++)
        if (op->in[i] != VAL_NONE && p->vals[op->in[i]].base == base) return true;
    return false;
}

bool plan_make(const Program *p, Arena *a, Plan *out, Err *err) {
    uint32_t *offset = arena_array(a, uint32_t, p->n_vals);
    Life *life = arena_array(a, Life, p->n_vals);
    Slab slab[SPACE_MAX] = {0};
    bool ok = offset && life;
    for (int s = 0; s < SPACE_MAX && ok; s++)
        ok = (slab[s].gaps = arena_array(a, Gap, p->n_vals + 1)) != NULL;
    if (!ok) return err_nomem(err, "scratch plan");
    lives_find(p, life);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        Val over = VAL_NONE;
        if (op->out != VAL_NONE) {
            const ProgVal *v = &p->vals[op->out];
            over = overwritten(p, life, i);
            offset[op->out] =
                over != VAL_NONE ? offset[over] : slab_take(&slab[v->space], plan_stride(v->cols));
        }
        for (int k = 0; k < OP_INPUTS; k++) {
            if (op->in[k] == VAL_NONE) continue;
            Val base = p->vals[op->in[k]].base;
            if (base == over || life[base].last != i || given_before(p, op, k, base)) continue;
            slab_give(&slab[p->vals[base].space], offset[base], plan_stride(p->vals[base].cols));
        }
        if (op->out != VAL_NONE && life[op->out].last == i && life[op->out].first == i)
            slab_give(&slab[p->vals[op->out].space], offset[op->out],
                      plan_stride(p->vals[op->out].cols));
    }
    for (Val v = 0; v < p->n_vals; v++) offset[v] = offset[p->vals[v].base];
    out->col_offset = offset;
    for (int s = 0; s < SPACE_MAX; s++) out->slab_cols[s] = slab[s].end;
    return true;
}
