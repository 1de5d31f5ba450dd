/* A directory's tensors as items of an MLX checkpoint: each as it lies there, whatever the program
 * makes of its rows, under MLX's spelling of its name. Experts of a layer become one module for
 * each projection; kernels of depthwise convolutions get their one channel last; what hangs beside
 * a text model (towers, projectors) goes along as it is. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "task/convert_plan.h"

typedef struct Stored {
    ConvertPlan *p;
    const bool *is_text; /* per weight of the table */
    Map seen;            /* tensors that are items already */
} Stored;

/* ---- names ---- */

static void put_wrapped(const ConvertPlan *p, Str name, bool is_text, Buf *out) {
    static const Str MODEL = {"model.", 6}, VISUAL = {"visual.", 7};
    Str prefix = weights_prefix(p->arch.weights), root = weights_root(p->arch.weights);
    if (is_text) {
        bool inside = str_starts(name, prefix);
        Str skipped = inside ? prefix : root;
        buf_put(out, inside ? STR("language_model.model.") : STR("language_model."));
        buf_put(out, str_starts(name, skipped) ? str_from(name, skipped.n) : name);
        return;
    }
    if (str_starts(name, MODEL)) name = str_from(name, MODEL.n);
    if (str_starts(name, VISUAL)) {
        buf_put(out, STR("vision_tower."));
        name = str_from(name, VISUAL.n);
    }
    buf_put(out, name);
}

/* Each part of the name that MLX spells another way. */
static bool respell(const char *const (*pairs)[2], Buf *name) {
    for (; pairs && (*pairs)[0]; pairs++) {
        Str from = str_c((*pairs)[0]), all = buf_str(name);
        size_t at = str_find(all, from, 0);
        if (at == STR_NPOS) continue;
        Buf other = {0};
        buf_put(&other, str_slice(all, 0, at));
        buf_put(&other, str_c((*pairs)[1]));
        buf_put(&other, str_from(all, at + from.n));
        buf_deinit(name);
        *name = other;
    }
    return !name->failed;
}

static bool spell(const ConvertPlan *p, Str name, bool is_text, Str *out, Err *err) {
    const Arch *arch = p->arch.arch;
    Buf b = {0};
    if (p->arch.wrapped && !p->arch.cross && !arch->mlx_same_places)
        put_wrapped(p, name, is_text, &b);
    else
        buf_put(&b, name);
    bool ok = !is_text || respell(arch->mlx_names, &b);
    *out = arena_dup(p->a, buf_str(&b));
    ok = ok && !b.failed && out->p;
    buf_deinit(&b);
    return ok || err_nomem(err, "a tensor's name");
}

/* The module and what it calls this tensor; a parameter is all module. */
static void split_name(Str name, bool is_matrix, Str *module, const char **suffix) {
    static const char *const MATRIX[] = {".weight", ".qweight", ".weight_packed"};
    *module = name;
    *suffix = "";
    for (size_t i = 0; is_matrix && i < 3; i++) {
        if (!str_ends(name, str_c(MATRIX[i]))) continue;
        *module = str_slice(name, 0, name.n - strlen(MATRIX[i]));
        *suffix = ".weight";
        return;
    }
}

/* ---- which ---- */

static bool is_new(Stored *s, Str name, bool *out, Err *err) {
    uint64_t ignored;
    *out = !map_get(&s->seen, name, &ignored);
    return !*out || map_put(&s->seen, name, 1) || err_nomem(err, "a list of tensors");
}

static bool is_kernel(const WeightOrigin *o) {
    static const Role KERNELS[] = {ROLE_CONV,         ROLE_DELTA_CONV,   ROLE_DELTA_CONV_Q,
                                   ROLE_DELTA_CONV_K, ROLE_DELTA_CONV_V, ROLE_MAMBA_CONV,
                                   ROLE_LRU_CONV};
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (o->role == KERNELS[i]) return str_eqc(STR(".weight"), o->suffix);
    return false;
}

/* What chooses experts or streams or classes is small and tells much. */
static bool is_choice(Role r) {
    return r == ROLE_ROUTER || r == ROLE_SHARED_SWITCH || r == ROLE_STREAM_ROUTER ||
           r == ROLE_CLASS || r == ROLE_CLASS_DENSE || r == ROLE_CLASS_OUT || r == ROLE_POOLER;
}

/* Numbers that MLX never makes shorter. */
static bool is_exact(Role r) {
    return r == ROLE_SELECT_BIAS || r == ROLE_DELTA_DECAY || r == ROLE_DELTA_DT;
}

static bool may_quantize(const ArchWeight *w, const WeightOrigin *o) {
    if (w->kind == WEIGHT_VECTOR || !str_eqc(STR(".weight"), o->suffix)) return false;
    if (w->kind == WEIGHT_TABLE) return o->role == ROLE_EMBED || o->role == ROLE_INPUTS_EMBED;
    return !is_choice(o->role);
}

/* ---- items ---- */

WeightSource *convert_whole(const ConvertPlan *p, const WeightSource *part, Err *err) {
    WeightSource *s = arena_new(p->a, WeightSource);
    if (!s) return err_nomem(err, "a list of tensors"), NULL;
    *s = *part;
    s->row_map = NULL;
    s->row0 = s->taps = 0;
    s->transposed = false;
    s->n = (uint32_t)s->m.n;
    s->k = (uint32_t)s->m.k;
    return s;
}

static uint64_t elements(const CkptTensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i]; /* the reader checked that it fits */
    return n;
}

/* As in the file; of packed codes the columns they stand for. */
static void shape_of(ConvertItem *it, const CkptTensor *ct, const WeightOrigin *o) {
    CkptTensor *t = &it->tensor;
    t->n_dims = 0;
    if (it->stored || (ct && str_ends(ct->name, STR(".weight")) && ct->dtype == DTYPE_U32)) {
        t->n_dims = ct->n_dims;
        memcpy(t->shape, ct->shape, sizeof t->shape);
        if (!it->stored) t->shape[t->n_dims - 1] = it->k;
        if (elements(t) == it->n * it->k) {
            bool turned = t->n_dims == 3 && is_kernel(o) && t->shape[1] == 1;
            if (turned) t->shape[1] = t->shape[2], t->shape[2] = 1;
            return;
        }
    }
    t->n_dims = 2;
    t->shape[0] = it->n;
    t->shape[1] = it->k;
}

static bool add_item(Stored *s, ConvertItem *it, const WeightOrigin *o, bool is_text, Err *err) {
    it->is_text = is_text;
    it->exact = is_text && is_exact(o->role);
    return (!is_text || convert_fold(s->p, it, o, err)) && convertplan_add(s->p, it, o, err);
}

static bool add_stored(Stored *s, const ArchWeight *w, int part, const WeightOrigin *o,
                       bool is_text, Err *err) {
    const ConvertPlan *p = s->p;
    const WeightSource *src = &w->parts[part];
    Str name = str_c(src->name), spelled;
    bool add;
    if (!is_new(s, name, &add, err)) return false;
    if (!add) return true;
    const CkptTensor *ct = checkpoint_find(p->ck, name);
    ConvertItem it = {.is_named = true, .n_parts = 1, .is_vector = w->kind == WEIGHT_VECTOR};
    const DTypeInfo *info = dtype_info(src->form->plain);
    bool integers = !convert_is_quantized(src) && !info->is_float && !info->is_blocked;
    it.parts = convert_whole(p, src, err);
    if (!it.parts || !spell(p, name, is_text, &spelled, err)) return false;
    split_name(spelled, w->kind != WEIGHT_VECTOR, &it.module, &it.suffix);
    it.n = it.is_vector ? (uint64_t)it.parts->n * it.parts->k : it.parts->n;
    it.k = it.is_vector ? 1 : it.parts->k;
    if (ct && elements(ct) == it.n * it.k && ct->dtype == it.parts->m.part[QPART_WEIGHT].dtype)
        it.stored = ct;
    if (it.stored && integers) it.n_parts = 0;
    it.may_quantize = is_text && may_quantize(w, o);
    shape_of(&it, ct, o);
    return add_item(s, &it, o, is_text, err);
}

/* MLX's role of a stack of experts. */
static Role role_of_experts(const ConvertPlan *p, const WeightOrigin *o) {
    const char *joint = p->arch.arch->mlx_joint_kv;
    switch (o->role) {
    case ROLE_MLA_KV_UP:
        if (joint && str_eqc(p->ck->config.model_type, joint)) return ROLE_COUNT;
        return o->across ? ROLE_MLA_K_UP : ROLE_MLA_V_UP;
    case ROLE_EXPERT_GATE_UP:
        return o->first ? ROLE_EXPERT_UP : ROLE_EXPERT_GATE;
    case ROLE_EXPERT_DOWNS:
        return ROLE_EXPERT_DOWN;
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
    case ROLE_EXPERT_DOWN:
        return o->role;
    default:
        return ROLE_COUNT;
    }
}

/* All matrices (vectors) of a layer in one; false in *done: they are no experts to MLX. */
static bool add_experts(Stored *s, const ArchWeight *w, bool is_text, bool *done, Err *err) {
    ConvertPlan *p = s->p;
    WeightOrigin *o = arena_new(p->a, WeightOrigin);
    char name[WEIGHTS_MAX_NAME];
    if (!o) return err_nomem(err, "a list of tensors");
    *o = w->origins[0];
    o->role = role_of_experts(p, o);
    *done = o->role != ROLE_COUNT;
    if (!*done) return true;
    WeightOrigin named = *o;
    if (o->role == ROLE_MLA_K_UP || o->role == ROLE_MLA_V_UP) named.n_experts = 0;
    *done = weights_name(p->arch.weights, CKPT_SAFETENSORS, &named, name);
    if (!*done) return true;
    ConvertItem it = {.is_named = true,
                      .parts = w->parts,
                      .n_parts = (uint32_t)w->n_parts,
                      .is_vector = w->kind == WEIGHT_VECTOR};
    for (int i = 0; i < w->n_parts; i++)
        it.n += it.is_vector ? (uint64_t)w->parts[i].n * w->parts[i].k : w->parts[i].n;
    it.k = it.is_vector ? 1 : w->parts[0].k;
    it.suffix = it.is_vector ? ".bias" : ".weight";
    it.may_quantize = is_text && !it.is_vector;
    it.tensor.n_dims = it.is_vector ? 2 : 3;
    it.tensor.shape[0] = o->n_experts;
    it.tensor.shape[1] = it.n / o->n_experts;
    it.tensor.shape[2] = it.is_vector ? 0 : it.k;
    return spell(p, str_c(name), is_text, &it.module, err) && add_item(s, &it, o, is_text, err);
}

static bool add_weight(Stored *s, uint32_t i, Err *err) {
    const ArchWeight *w = weights_get(s->p->arch.weights, (int32_t)i);
    bool done = false;
    bool many = w->origins[0].n_experts > 0;
    if (many && !add_experts(s, w, s->is_text[i], &done, err)) return false;
    for (int k = 0; k < w->n_parts && !done; k++)
        if (!add_stored(s, w, k, &w->origins[many ? 0 : k], s->is_text[i], err)) return false;
    return true;
}

/* A tensor that no program takes. */
static bool add_beside(Stored *s, const CkptTensor *ct, Err *err) {
    static const WeightOrigin NONE = {.role = ROLE_COUNT, .layer = -1, .suffix = ""};
    ConvertPlan *p = s->p;
    bool add, is_text = str_starts(ct->name, weights_prefix(p->arch.weights)) &&
                        !arch_is_beside(&p->arch, ct->name);
    if (!is_new(s, ct->name, &add, err)) return false;
    if (!add) return true;
    ConvertItem it = {.is_named = true, .suffix = "", .stored = ct, .tensor = *ct};
    if (!spell(p, ct->name, is_text, &it.module, err)) return false;
    it.n = elements(ct);
    it.k = 1;
    if (dtype_info(ct->dtype)->is_float) {
        WeightSource *src = arena_new(p->a, WeightSource);
        if (!src) return err_nomem(err, "a list of tensors");
        if (!convert_source(p, ct, src, err)) return false;
        it.parts = src;
        it.n_parts = 1;
        it.n = src->n;
        it.k = src->k;
    } else if (str_ends(ct->name, STR("weight")) || str_ends(ct->name, STR(".scales"))) {
        return err_set(err, ERR_UNSUPPORTED,
                       "tensor " STR_F " is quantized (%s) and of no part that is run: it cannot "
                       "be decoded",
                       STR_A(ct->name), dtype_info(ct->dtype)->name);
    }
    return convertplan_add(p, &it, &NONE, err);
}

static bool add_others(Stored *s, Err *err) {
    ConvertPlan *p = s->p;
    const WeightTable *t = p->arch.weights;
    for (size_t i = 0; i < p->ck->n_tensors; i++) {
        const CkptTensor *ct = &p->ck->tensors[i];
        bool beside = !weights_is_used(t, i) && arch_is_beside(&p->arch, ct->name);
        if (beside && !add_beside(s, ct, err)) return false;
    }
    size_t before = p->n_items;
    for (size_t i = 0; i < p->ck->n_tensors; i++)
        if (weights_value_of(t, i) && !add_beside(s, &p->ck->tensors[i], err)) return false;
    p->n_values = p->n_items - before;
    return true;
}

bool convert_list_stored(ConvertPlan *p, Err *err) {
    uint32_t n = weights_count(p->arch.weights);
    bool *is_text = arena_array(p->a, bool, n + 1);
    if (!is_text) return err_nomem(err, "a list of tensors");
    const Program *const programs[] = {p->arch.text, p->arch.cross};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; programs[k] && i < programs[k]->n_weights; i++)
            if (programs[k]->weights[i].source >= 0) is_text[programs[k]->weights[i].source] = true;
    Stored s = {.p = p, .is_text = is_text};
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) ok = add_weight(&s, i, err);
    ok = ok && add_others(&s, err);
    map_deinit(&s.seen);
    return ok;
}
