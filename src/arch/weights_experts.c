/* Experts: one source of many matrices, however the file keeps them. */
#include <stdio.h>
#include <string.h>

#include "arch/weights_private.h"

/* For each of n outputs, where it is stored. */
static const uint32_t *stride_map(WeightTable *t, uint32_t n, uint32_t from, const TakeExperts *p) {
    uint32_t *map = arena_array(t->a, uint32_t, n);
    for (uint32_t i = 0; map && i < n; i++) map[i] = from + p->first + i * p->step;
    if (!map) err_nomem(&t->err, "weight table");
    return map;
}

static bool experts_each(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[WEIGHTS_MAX_NAME];
    for (uint32_t e = 0; e < p->n_experts; e++) {
        if (!weights_expert_name(t, p->role, layer, e, "", name))
            return err_set(&t->err, ERR_LIMIT, "a tensor name is too long");
        if (!modsource_matrix(&t->finder, str_c(name), false, 1, p->n, p->k, &src[e], &t->err))
            return false;
    }
    return true;
}

/* The module whose .weight holds the experts' matrices as they are, one after the other. */
static bool experts_in_one(WeightTable *t, Str module, const TakeExperts *p, WeightSource *src) {
    if (!modsource_matrix(&t->finder, module, false, p->n_experts, p->n_experts * p->n, p->k,
                          &src[0], &t->err))
        return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].row0 = e * p->n;
    }
    return true;
}

/* Whether the experts lie as MLX writes them, and where. */
static bool takes_mlx(const WeightTable *t, const WeightOrigin *o, char name[WEIGHTS_MAX_NAME]) {
    return t->ck->kind == CKPT_SAFETENSORS && weights_mlx_expert_name(t, o, name) &&
           modsource_weight(t->ck, str_c(name));
}

/* All experts in one tensor: a module's .weight with the experts outermost, or a parameter of its
 * own (module_source.h). */
static bool experts_stacked(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[WEIGHTS_MAX_NAME];
    uint32_t stored = p->n * (p->step ? p->step : 1);
    if (!weights_role_name(t, p->role, layer, "", name))
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no tensor for role %d",
                       (int)p->role);
    Str path = str_c(name);
    bool module = modsource_weight(t->ck, path) != NULL;
    if (module ? !modsource_matrix(&t->finder, path, false, p->n_experts, p->n_experts * stored,
                                   p->k, &src[0], &t->err)
               : !modsource_stack(&t->finder, path, p->n_experts, stored, p->k, &src[0], &t->err))
        return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].row0 = e * (src[e].transposed ? p->k : stored);
        if (!p->step) continue;
        src[e].row_map = stride_map(t, p->n, src[e].transposed ? 0 : e * stored, p);
        if (!src[e].row_map) return false;
    }
    return true;
}

/* Experts' matrices or biases. */
static int32_t table_add(WeightTable *t, WeightKind kind, WeightSource *parts, int n_parts,
                         const WeightOrigin *o) {
    WeightOrigin *own = arena_new(t->a, WeightOrigin);
    if (!own) {
        err_nomem(&t->err, "weight table");
        return -1;
    }
    *own = *o;
    t->weights[t->n_weights] = (ArchWeight){kind, parts, n_parts, parts[0].name, own};
    return (int32_t)t->n_weights++;
}

static WeightOrigin experts_origin(const TakeExperts *p, int layer, const char *suffix) {
    return (WeightOrigin){.role = p->role,
                          .layer = layer,
                          .suffix = suffix,
                          .n_experts = p->n_experts,
                          .step = p->step,
                          .first = p->first + p->column,
                          .across = p->across};
}

static WeightSource *sources_new(WeightTable *t, uint32_t n) {
    WeightSource *src = arena_array(t->a, WeightSource, n);
    if (src && weights_grow(t)) return src;
    err_nomem(&t->err, "weight table");
    return NULL;
}

/* Where all of the experts' rows are: a parameter, or a module. */
static bool rows_whole(WeightTable *t, Str name, const TakeExperts *p, WeightSource *src) {
    uint32_t columns = !p->across ? p->k : p->columns ? p->columns : p->n;
    if (!modsource_weight(t->ck, name))
        return modsource_stack_rows(&t->finder, name, false, p->n_experts, p->stored, columns, src,
                                    &t->err);
    return modsource_matrix(&t->finder, name, false, p->n_experts, p->n_experts * p->stored,
                            columns, src, &t->err);
}

static const uint32_t *column_map(WeightTable *t, const TakeExperts *p) {
    uint32_t *map = arena_array(t->a, uint32_t, p->n);
    for (uint32_t i = 0; map && i < p->n; i++) map[i] = p->column + i;
    if (!map) err_nomem(&t->err, "weight table");
    return map;
}

/* The stack src[0] with outputs as columns, matrix by matrix as it is stored. */
static bool experts_turned(WeightTable *t, const TakeExperts *p, WeightSource *src, bool *done) {
    const WeightSource stored = src[0];
    for (uint32_t e = 0; e < p->n_experts; e++) {
        if (!wsource_turned(&stored, e * p->stored + p->first, p->column, p->n, p->k, t->a, &src[e],
                            done, &t->err))
            return false;
        if (!*done) break;
    }
    if (!*done) src[0] = stored;
    return true;
}

/* Rows [first, first + n) of each of the experts' matrices, which follow one another. */
static bool experts_rows(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[WEIGHTS_MAX_NAME];
    if (!weights_role_name(t, p->role, layer, "", name))
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no tensor for role %d",
                       (int)p->role);
    if (!rows_whole(t, str_c(name), p, &src[0])) return false;
    bool plain = src[0].form->kind == WFORM_PLAIN && src[0].m.format == QFORMAT_ROWS &&
                 dtype_info(src[0].form->plain)->is_float;
    bool turned = false;
    if (p->across && !plain && !experts_turned(t, p, src, &turned)) return false;
    if (turned) return true;
    if (p->across && !plain) { /* only floats can be turned to columns */
        const WeightSource stored = src[0];
        if (!wsource_decoded(&stored, t->a, &src[0], &t->err)) return false;
    }
    const uint32_t *columns = p->columns ? column_map(t, p) : NULL;
    if (p->columns && !columns) return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].k = p->k;
        src[e].row0 = e * p->stored + p->first;
        src[e].row_map = columns;
        src[e].transposed = p->across;
    }
    return true;
}

int32_t weights_take_experts(WeightTable *t, int layer, const TakeExperts *p) {
    char name[WEIGHTS_MAX_NAME];
    WeightSource *src = t->err.kind ? NULL : sources_new(t, p->n_experts);
    if (!src) return -1;
    const char *pattern = weights_role_pattern(t, p->role);
    const WeightOrigin o = experts_origin(p, layer, ".weight");
    bool each = t->ck->kind != CKPT_GGUF && pattern && strstr(pattern, "%e");
    bool ok = p->stored                ? experts_rows(t, layer, p, src)
              : takes_mlx(t, &o, name) ? experts_in_one(t, str_c(name), p, src)
              : each                   ? experts_each(t, layer, p, src)
                                       : experts_stacked(t, layer, p, src);
    return ok ? table_add(t, WEIGHT_MATRIX, src, (int)p->n_experts, &o) : -1;
}

/* Where the experts' biases are: beside the module of an MLX or GGUF file, or a parameter. */
static bool biases_name(WeightTable *t, const WeightOrigin *o, char name[WEIGHTS_MAX_NAME],
                        bool *module) {
    *module = t->ck->kind == CKPT_GGUF || takes_mlx(t, o, name);
    bool named = t->ck->kind == CKPT_GGUF
                     ? weights_name(t, CKPT_GGUF, o, name)
                     : *module || weights_role_name(t, o->role, o->layer, "", name);
    const char *suffix = *module ? ".bias" : "_bias";
    size_t n = named ? strlen(name) : 0;
    if (!named || n + strlen(suffix) >= WEIGHTS_MAX_NAME)
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no biases for role %d",
                       (int)o->role);
    memcpy(name + n, suffix, strlen(suffix) + 1);
    return true;
}

int32_t weights_take_expert_biases(WeightTable *t, int layer, const TakeExperts *p) {
    char name[WEIGHTS_MAX_NAME];
    bool module;
    WeightSource *src = t->err.kind ? NULL : sources_new(t, 1);
    const WeightOrigin o = experts_origin(p, layer, "_bias");
    if (!src || !biases_name(t, &o, name, &module)) return -1;
    uint32_t stored = p->n * (p->step && !module ? p->step : 1), n = p->n_experts * p->n;
    if (!modsource_stack_vector(&t->finder, str_c(name), p->n_experts, stored, src, &t->err))
        return -1;
    if (p->step && !module) {
        src->n = n;
        src->row_map = stride_map(t, n, 0, p);
        if (!src->row_map) return -1;
    }
    return table_add(t, WEIGHT_VECTOR, src, 1, &o);
}
