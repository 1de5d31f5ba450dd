/* A directory's tensors as items of a GGUF: under the names, in the shapes and with the values that
 * files of that kind have. Most lie there as they do here; experts are one tensor for each projection,
 * decays are stored as -exp(A_log), kernels of depthwise convolutions lose their one channel, what goes
 * up from latents is apart for keys and values, and mixed projections of gated delta layers are taken
 * apart. */
#include <string.h>

#include "base/map.h"
#include "task/convert_plan.h"

typedef struct Lister {
    ConvertPlan *p;
    Map seen; /* tensors that are items already */
} Lister;

/* What stands behind a name. */
static const char *suffix_of(const Arch *arch, const WeightOrigin *o) {
    switch (o->role) {
    case ROLE_FFN_NORM:
        return arch->gguf_bare_ffn_norm ? "" : ".weight";
    case ROLE_SELECT_BIAS:
    case ROLE_DELTA_DT:
    case ROLE_MAMBA_STEP_BIAS:
        return ".bias";
    case ROLE_DELTA_DECAY:
    case ROLE_MAMBA_DECAY:
    case ROLE_MAMBA_SKIP:
    case ROLE_ROUTER_SCALE:
    case ROLE_EXPERT_SCALE:
        return "";
    default:
        break;
    }
    bool bias = str_ends(str_c(o->suffix), STR("bias")) || str_eqc(STR(".beta"), o->suffix);
    return bias ? ".bias" : ".weight";
}

static bool add(Lister *l, ConvertItem *it, const WeightOrigin *o, const char *source, Err *err) {
    char name[WEIGHTS_MAX_NAME];
    ConvertPlan *p = l->p;
    if (!weights_name_gguf(p->arch.arch->names, o, name))
        return err_set(err, ERR_UNSUPPORTED, "family %s: %s has no name in GGUF files",
                       p->arch.arch->name, source);
    it->is_named = it->is_text = true;
    it->module = arena_dup(p->a, str_c(name));
    it->suffix = suffix_of(p->arch.arch, o);
    if (!it->module.p) return err_nomem(err, "a tensor's name");
    it->neg_exp = o->role == ROLE_DELTA_DECAY || o->role == ROLE_MAMBA_DECAY;
    return convert_fold(p, it, o, err) && convertplan_add(p, it, o, err);
}

/* ---- experts ---- */

static Role role_of_stack(const ConvertPlan *p, const WeightOrigin *o) {
    WeightOrigin stack = *o;
    char name[WEIGHTS_MAX_NAME];
    switch (o->role) {
    case ROLE_MLA_KV_UP:
        return o->across ? ROLE_MLA_K_UP : ROLE_MLA_V_UP;
    case ROLE_EXPERT_GATE_UP: /* some families have both in one there too */
        stack.role = ROLE_EXPERT_GATE_UP;
        if (!o->across && weights_name_gguf(p->arch.arch->names, &stack, name)) return stack.role;
        return o->first ? ROLE_EXPERT_UP : ROLE_EXPERT_GATE;
    case ROLE_EXPERT_DOWNS:
        return ROLE_EXPERT_DOWN;
    case ROLE_EXPERT_GATE:
        return o->first ? ROLE_EXPERT_UP : ROLE_EXPERT_GATE;
    default:
        return o->role;
    }
}

static bool add_experts(Lister *l, const ArchWeight *w, Err *err) {
    WeightOrigin *o = arena_new(l->p->a, WeightOrigin);
    ConvertItem it = {
        .parts = w->parts, .n_parts = (uint32_t)w->n_parts, .is_vector = w->kind == WEIGHT_VECTOR};
    if (!o) return err_nomem(err, "a list of tensors");
    *o = w->origins[0];
    o->role = role_of_stack(l->p, o);
    if (o->role == ROLE_EXPERT_GATE_UP) { /* all of it, once */
        if (o->first) return true;
        WeightSource *whole = convert_whole(l->p, &w->parts[0], err);
        if (!whole) return false;
        it.parts = whole;
        it.n_parts = 1;
    }
    for (uint32_t i = 0; i < it.n_parts; i++)
        it.n += it.is_vector ? (uint64_t)it.parts[i].n * it.parts[i].k : it.parts[i].n;
    it.k = it.is_vector ? 1 : it.parts[0].k;
    it.tensor.n_dims = it.is_vector ? 2 : 3;
    it.tensor.shape[0] = o->n_experts;
    it.tensor.shape[1] = it.n / o->n_experts;
    it.tensor.shape[2] = it.is_vector ? 0 : it.k;
    return add(l, &it, o, w->name, err);
}

/* ---- all others ---- */

static const LayerSpec *layer_of(const ConvertPlan *p, const WeightOrigin *o) {
    if (o->layer >= 0 && p->arch.layers && (uint32_t)o->layer < p->arch.n_layers)
        return &p->arch.layers[o->layer];
    return p->arch.resolved ? &p->arch.resolved->layer : NULL;
}

/* Vectors that files have in several dimensions, some of one. */
static void shape_vector(const ConvertPlan *p, ConvertItem *it, const WeightOrigin *o) {
    CkptTensor *t = &it->tensor;
    const LayerSpec *l = layer_of(p, o);
    const MambaSpec *m = l ? &l->mamba : NULL;
    bool second = m && m->head_dim > 1; /* the second form of Mamba */
    t->n_dims = 1;
    t->shape[0] = it->n;
    switch (o->role) {
    case ROLE_DELTA_CONV_Q:
    case ROLE_DELTA_CONV_K:
    case ROLE_DELTA_CONV_V:
        if (!o->cols) return; /* a bias */
        t->n_dims = 3;
        t->shape[0] = it->n / o->cols;
        t->shape[1] = 1;
        t->shape[2] = o->cols;
        return;
    case ROLE_DELTA_DECAY:
        if (l && l->delta.by_column) t->n_dims = 2, t->shape[1] = 1;
        return;
    case ROLE_MAMBA_SKIP:
        if (second) t->n_dims = 2, t->shape[1] = 1;
        return;
    case ROLE_MAMBA_DECAY:
        if (second) t->n_dims = 2, t->shape[1] = 1;
        break;
    case ROLE_MAMBA_NORM:
        t->n_dims = 2;
        t->shape[0] = m && m->n_groups ? m->n_groups : 1;
        t->shape[1] = it->n / t->shape[0];
        return;
    default:
        break;
    }
    if (!o->cols) return;
    t->n_dims = 2;
    t->shape[0] = it->n / o->cols;
    t->shape[1] = o->cols;
}

/* Readers want a row of every token; those beyond the table have its first. */
static bool pad_rows(const ConvertPlan *p, ConvertItem *it, Err *err) {
    uint32_t n = p->arch.vocab, *rows = arena_array(p->a, uint32_t, n);
    WeightSource *s = arena_new(p->a, WeightSource);
    if (!rows || !s) return err_nomem(err, "rows of tokens");
    for (uint32_t i = 0; i < n; i++) rows[i] = i < it->n ? i : 0;
    *s = it->parts[0];
    s->row_map = rows;
    s->n = n;
    it->parts = s;
    it->n = n;
    return true;
}

static bool add_stored(Lister *l, const ArchWeight *w, int part, Err *err) {
    const WeightSource *src = &w->parts[part];
    const WeightOrigin *o = &w->origins[part];
    ConvertItem it = {.n_parts = 1, .is_vector = w->kind == WEIGHT_VECTOR};
    uint64_t ignored;
    if (map_get(&l->seen, str_c(src->name), &ignored)) return true;
    if (!map_put(&l->seen, str_c(src->name), 1)) return err_nomem(err, "a list of tensors");
    it.parts = convert_whole(l->p, src, err);
    if (!it.parts) return false;
    it.n = it.is_vector ? (uint64_t)it.parts->n * it.parts->k : it.parts->n;
    it.k = it.is_vector ? 1 : it.parts->k;
    if (o->role == ROLE_INPUTS_EMBED && it.n < l->p->arch.vocab && !pad_rows(l->p, &it, err))
        return false;
    it.tensor.n_dims = 2;
    it.tensor.shape[0] = it.n;
    it.tensor.shape[1] = it.k;
    if (it.is_vector) shape_vector(l->p, &it, o);
    it.permute = l->p->arch.arch->gguf_unpermute ? o->head_dim : 0;
    return add(l, &it, o, src->name, err);
}

/* Rows of a table of places that no text reaches: those before the first place are left out. */
static uint32_t unused_rows(const ConvertPlan *p, const WeightOrigin *o) {
    const Program *t = p->arch.text;
    if (o->role != ROLE_POS_EMBED) return 0;
    for (uint32_t i = 0; i < t->n_ops; i++) {
        const Op *op = &t->ops[i];
        if (op->code == OP_EMBED && op->p.embed.key == EMBED_POS0 && op->p.embed.offset > 0)
            return (uint32_t)op->p.embed.offset;
    }
    return 0;
}

/* Rows [first, first + n) of a source, in the program's order. */
static bool add_rows(Lister *l, const ArchWeight *w, Role role, uint32_t first, uint32_t n,
                     Err *err) {
    WeightSource *s = arena_new(l->p->a, WeightSource);
    WeightOrigin *o = arena_new(l->p->a, WeightOrigin);
    if (!s || !o) return err_nomem(err, "a list of tensors");
    *s = w->parts[0];
    *o = w->origins[0];
    o->role = role;
    if (s->row_map)
        s->row_map += first;
    else
        s->row0 += first;
    s->n = n;
    ConvertItem it = {.parts = s, .n_parts = 1, .n = n, .k = s->k};
    it.tensor.n_dims = 2;
    it.tensor.shape[0] = it.n;
    it.tensor.shape[1] = it.k;
    return add(l, &it, o, w->name, err);
}

/* A vector that is part of no program. */
static bool add_value(Lister *l, const CkptTensor *t, const WeightOrigin *o, Err *err) {
    WeightSource *s = arena_new(l->p->a, WeightSource);
    ConvertItem it = {.n_parts = 1, .k = 1, .is_vector = true};
    if (!s) return err_nomem(err, "a list of tensors");
    if (!convert_source(l->p, t, s, err)) return false;
    it.parts = s;
    it.n = (uint64_t)s->n * s->k;
    it.tensor.n_dims = 1;
    it.tensor.shape[0] = it.n;
    return add(l, &it, o, s->name, err);
}

static bool add_weight(Lister *l, const ArchWeight *w, Err *err) {
    const WeightOrigin *o = &w->origins[0];
    if (o->n_experts) return add_experts(l, w, err);
    if (o->role == ROLE_DELTA_QKVZ) {
        const DeltaSpec *s = &layer_of(l->p, o)->delta;
        uint32_t nz = s->n_heads * s->v_dim, n = 2 * s->n_k_heads * s->k_dim + nz;
        return add_rows(l, w, ROLE_DELTA_QKV, 0, n, err) &&
               add_rows(l, w, ROLE_DELTA_Z, n, nz, err);
    }
    uint32_t unused = unused_rows(l->p, o);
    if (unused && unused < w->parts[0].n)
        return add_rows(l, w, o->role, unused, w->parts[0].n - unused, err);
    for (int k = 0; k < w->n_parts; k++)
        if (!add_stored(l, w, k, err)) return false;
    return true;
}

bool convert_list_gguf(ConvertPlan *p, Err *err) {
    const WeightTable *t = p->arch.weights;
    Lister l = {.p = p};
    bool ok = true;
    for (uint32_t i = 0; ok && i < weights_count(t); i++)
        ok = add_weight(&l, weights_get(t, (int32_t)i), err);
    for (size_t i = 0; ok && i < p->ck->n_tensors; i++) {
        const WeightOrigin *o = weights_value_of(t, i);
        ok = !o || add_value(&l, &p->ck->tensors[i], o, err);
        p->n_values += ok && o;
    }
    map_deinit(&l.seen);
    return ok;
}

/* ---- heads of values in turn ---- */

/* Where row r of heads that follow each other is taken from, where the file wants head 0 of every
 * group first, then head 1 of every group: head_dim rows a head. */
static uint32_t turned(const DeltaSpec *s, uint32_t head_dim, uint32_t r) {
    uint32_t each = s->n_heads / s->n_k_heads, head = r / head_dim;
    return (head % s->n_k_heads * each + head / s->n_k_heads) * head_dim + r % head_dim;
}

static bool turn_rows(const ConvertPlan *p, ConvertItem *it, const DeltaSpec *s, uint32_t from,
                      uint32_t head_dim, Err *err) {
    uint32_t n = (uint32_t)it->n;
    uint32_t *order = arena_array(p->a, uint32_t, n);
    WeightSource *src = arena_new(p->a, WeightSource);
    if (!order || !src) return err_nomem(err, "rows of heads");
    *src = it->parts[0];
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i < from ? i : from + turned(s, head_dim, i - from);
        if (!it->is_vector) order[i] = src->row_map ? src->row_map[order[i]] : src->row0 + order[i];
    }
    if (it->is_vector) {
        it->order = order;
        return true;
    }
    src->row_map = order;
    it->parts = src;
    return true;
}

static bool turn_columns(const ConvertPlan *p, ConvertItem *it, const DeltaSpec *s, Err *err) {
    uint32_t *order = arena_array(p->a, uint32_t, it->k);
    if (!order) return err_nomem(err, "columns of heads");
    for (uint32_t i = 0; i < it->k; i++) order[i] = turned(s, s->v_dim, i);
    it->column_order = order;
    return true;
}

bool convert_turn_heads(ConvertPlan *p, const ArchModel *reader, Err *err) {
    for (size_t i = 0; i < p->n_items; i++) {
        const WeightOrigin *o = p->origins[i];
        if (o->layer < 0 || !p->arch.layers || !reader->layers) continue;
        const DeltaSpec *s = &p->arch.layers[o->layer].delta;
        if (!s->n_k_heads || s->tiled == reader->layers[o->layer].delta.tiled) continue;
        ConvertItem *it = &p->items[i];
        uint32_t nk = 2 * s->n_k_heads * s->k_dim;
        bool ok = true;
        switch (o->role) {
        case ROLE_DELTA_QKV:
            ok = turn_rows(p, it, s, nk, s->v_dim, err);
            break;
        case ROLE_DELTA_CONV:
            ok = turn_rows(p, it, s, nk * s->kernel, s->v_dim * s->kernel, err);
            break;
        case ROLE_DELTA_Z:
            ok = turn_rows(p, it, s, 0, s->v_dim, err);
            break;
        case ROLE_DELTA_A:
        case ROLE_DELTA_B:
        case ROLE_DELTA_DECAY:
        case ROLE_DELTA_DT:
            ok = turn_rows(p, it, s, 0, 1, err);
            break;
        case ROLE_DELTA_OUT:
            ok = turn_columns(p, it, s, err);
            break;
        default:
            break;
        }
        if (!ok) return false;
    }
    return true;
}
