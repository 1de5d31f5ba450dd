#include "arch/weights.h"

#include <stdio.h>
#include <string.h>

#include "arch/weights_private.h"
#include "base/mem.h"

enum { MAX_BIAS = 1 << 22 };

WeightTable *weights_new(const Checkpoint *ck, const RoleDelta *deltas, const char *const *ignored,
                         Arena *a) {
    WeightTable *t = arena_new(a, WeightTable);
    if (!t) return NULL;
    *t = (WeightTable){.ck = ck, .ignored = ignored, .a = a};
    t->finder = (ModuleFinder){
        .ck = ck, .config = &t->config, .used = arena_array(a, bool, ck->n_tensors + 1), .a = a};
    t->values = arena_array(a, const WeightOrigin *, ck->n_tensors + 1);
    if (!t->finder.used || !t->values) return NULL;
    weights_names_open(t, deltas);
    /* reported like the first missing tensor */
    if (!quantconfig_read(&t->config, ck, a, &t->err)) return t;
    return t;
}
bool weights_has(const WeightTable *t, Role role, int layer, const char *suffix) {
    return weights_role_find(t, role, layer, suffix) != NULL;
}

bool weights_is_left(const WeightTable *t, Role role, int layer, const char *suffix) {
    const CkptTensor *ct = weights_role_find(t, role, layer, suffix);
    return ct && !t->finder.used[ct - t->ck->tensors];
}

uint32_t weights_rows(const WeightTable *t, Role role, int layer) {
    const CkptTensor *ct = weights_role_find(t, role, layer, ".weight");
    return ct && ct->n_dims >= 1 && ct->shape[0] <= INT32_MAX ? (uint32_t)ct->shape[0] : 0;
}

uint64_t weights_last(const WeightTable *t, Role role, int layer, const char *suffix) {
    const CkptTensor *ct = weights_role_find(t, role, layer, suffix);
    return ct && ct->n_dims ? ct->shape[ct->n_dims - 1] : 0;
}

/* Rows within each head: stored (pair i, half j) at 2i + j; logical at j * d/2 + i. */
static uint32_t *unpermute_map(Arena *a, uint32_t n, uint32_t head_dim) {
    uint32_t *map = arena_array(a, uint32_t, n);
    uint32_t half = head_dim / 2;
    for (uint32_t r = 0; map && r < n; r++) {
        uint32_t in_head = r % head_dim;
        map[r] = r - in_head + (in_head % half) * 2 + in_head / half;
    }
    return map;
}

static bool taps_turn(WeightTable *t, const CkptTensor *ct, const TakePart *p, WeightSource *out) {
    bool plain = out->form->kind == WFORM_PLAIN && dtype_info(out->form->plain)->is_float;
    if (!plain || ct->n_dims != 3 || ct->shape[2] != p->taps) {
        char got[96];
        ckpt_shape_text(ct, got, sizeof got);
        return err_set(
            &t->err, ERR_UNSUPPORTED, "tensor " STR_F " is %s %s; floats [%u, %u, %u] are accepted",
            STR_A(ct->name), dtype_info(ct->dtype)->name, got, p->n, p->k / p->taps, p->taps);
    }
    out->taps = p->taps;
    return true;
}

static bool part_take(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                      const TakePart *p, WeightSource *out) {
    char name[WEIGHTS_MAX_NAME];
    const CkptTensor *ct = weights_role_find(t, p->role, layer, suffix);
    if (!weights_role_name(t, p->role, layer, suffix, name))
        return err_set(&t->err, ERR_UNSUPPORTED, "GGUF files have no tensor for role %d",
                       (int)p->role);
    if (!ct) return err_set(&t->err, ERR_CORRUPT, "tensor %s is missing", name);
    bool unpermute = p->transform == TRANSFORM_UNPERMUTE && t->ck->kind == CKPT_GGUF;
    if (kind != WEIGHT_VECTOR && (strcmp(suffix, ".weight") || p->integers)) {
        /* a parameter: a row, or rows */
        if (p->n == 1 ? !modsource_vector(&t->finder, ct, p->k, 0, false, out, &t->err)
                      : !modsource_stack_rows(&t->finder, str_c(name), p->integers, 1, p->n, p->k,
                                              out, &t->err))
            return false;
    } else if (kind == WEIGHT_VECTOR) {
        uint32_t n = p->rows ? p->n_stored : p->k;
        if (!modsource_vector(&t->finder, ct, n, p->cols, unpermute || p->rows, out, &t->err))
            return false;
    } else {
        Str module = str_slice(str_c(name), 0, strlen(name) - strlen(suffix));
        if (!modsource_matrix(&t->finder, module, kind == WEIGHT_TABLE, 1,
                              p->rows ? p->n_stored : p->n, p->k, out, &t->err))
            return false;
        if (p->taps && !taps_turn(t, ct, p, out)) return false;
    }
    if (p->rows) {
        out->n = kind == WEIGHT_VECTOR ? p->k : p->n;
        out->row_map = p->rows;
    }
    if (!unpermute) return true;
    out->row_map = unpermute_map(t->a, out->n, p->head_dim);
    return out->row_map || err_nomem(&t->err, "weight table");
}

/* Some GGUF files have queries, keys and values in one tensor, in this order. */
static bool is_fused(const WeightTable *t, int layer, const char *suffix, const TakePart *parts) {
    return t->ck->kind == CKPT_GGUF && parts[0].role == ROLE_Q &&
           !weights_role_find(t, ROLE_Q, layer, suffix) &&
           weights_role_find(t, ROLE_QKV, layer, suffix);
}

/* The parts' rows there. */
static const TakePart *fused_parts(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                                   const TakePart *parts, int n_parts) {
    const CkptTensor *ct = weights_role_find(t, ROLE_QKV, layer, suffix);
    TakePart *out = arena_array(t->a, TakePart, (size_t)n_parts);
    uint32_t end = 0, rows = ct->shape[0] <= INT32_MAX ? (uint32_t)ct->shape[0] : 0;
    for (int i = 0; out && i < n_parts; i++) {
        TakePart *p = &out[i];
        *p = parts[i];
        uint32_t n = kind == WEIGHT_VECTOR ? p->k : p->n, from = p->role == ROLE_Q ? 0 : end;
        uint32_t *map = p->transform == TRANSFORM_UNPERMUTE ? unpermute_map(t->a, n, p->head_dim)
                                                            : arena_array(t->a, uint32_t, n);
        for (uint32_t r = 0; map && r < n; r++) {
            if (p->transform == TRANSFORM_NONE) map[r] = p->rows ? p->rows[r] : r;
            map[r] += from;
        }
        if (i == 0 || p->role != ROLE_Q) end += p->rows ? p->n_stored : n;
        p->role = ROLE_QKV;
        p->transform = TRANSFORM_NONE;
        p->rows = map;
        if (!map) out = NULL;
    }
    for (int i = 0; out && i < n_parts; i++) out[i].n_stored = rows > end ? rows : end;
    if (!out) err_nomem(&t->err, "weight table");
    return out;
}

bool weights_grow(WeightTable *t) {
    if (t->n_weights < t->cap) return true;
    uint32_t cap = t->cap ? t->cap * 2 : 256;
    ArchWeight *w = arena_array(t->a, ArchWeight, cap);
    if (!w) return err_nomem(&t->err, "weight table");
    if (t->n_weights) memcpy(w, t->weights, t->n_weights * sizeof *w);
    t->weights = w;
    t->cap = cap;
    return true;
}

int32_t weights_take(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                     const TakePart *parts, int n_parts) {
    if (t->err.kind) return -1;
    /* A tensor asked for twice (tied embeddings) is one source. */
    const CkptTensor *one =
        n_parts == 1 && !parts[0].rows ? weights_role_find(t, parts[0].role, layer, suffix) : NULL;
    for (uint32_t i = 0; one && i < t->n_weights; i++)
        if (t->weights[i].n_parts == 1 && !t->weights[i].origins[0].n_stored &&
            str_eqc(one->name, t->weights[i].parts[0].name))
            return (int32_t)i;
    WeightSource *src = arena_array(t->a, WeightSource, (size_t)n_parts);
    WeightOrigin *origins = arena_array(t->a, WeightOrigin, (size_t)n_parts);
    if (!src || !origins || !weights_grow(t)) {
        err_nomem(&t->err, "weight table");
        return -1;
    }
    const TakePart *stored = parts;
    if (is_fused(t, layer, suffix, parts)) {
        stored = fused_parts(t, kind, layer, suffix, parts, n_parts);
        if (!stored) return -1;
    }
    for (int i = 0; i < n_parts; i++) {
        const TakePart *p = &parts[i];
        if (!part_take(t, kind, layer, suffix, &stored[i], &src[i])) return -1;
        origins[i] = (WeightOrigin){.role = p->role, .layer = layer, .suffix = suffix};
        if (p->transform == TRANSFORM_UNPERMUTE) origins[i].head_dim = p->head_dim;
        if (p->rows) origins[i].n_stored = p->n_stored;
        origins[i].cols = p->cols;
    }
    t->weights[t->n_weights] = (ArchWeight){kind, src, n_parts, src[0].name, origins};
    return (int32_t)t->n_weights++;
}

const double *weights_values(WeightTable *t, Role role, int layer, const char *suffix, uint32_t n) {
    const TakePart part = {.role = role, .n = 1, .k = n};
    WeightSource src;
    if (t->err.kind || !part_take(t, WEIGHT_VECTOR, layer, suffix, &part, &src)) return NULL;
    const CkptTensor *ct = weights_role_find(t, role, layer, suffix);
    WeightOrigin *o = arena_new(t->a, WeightOrigin);
    if (o) *o = (WeightOrigin){.role = role, .layer = layer, .suffix = suffix};
    if (ct) t->values[ct - t->ck->tensors] = o;
    float *x = arena_array(t->a, float, n);
    double *out = arena_array(t->a, double, n);
    WeightScratch sc = {0};
    bool ok = x && out && wsource_f32(&src, 0, 1, x, &sc, &t->err);
    wsource_scratch_deinit(&sc);
    for (uint32_t i = 0; ok && i < n; i++) out[i] = x[i];
    return ok ? out : NULL;
}

/* Reads both as far as they are alike. */
static bool bytes_same(const Checkpoint *ck, const CkptTensor *x, const CkptTensor *y) {
    enum { PIECE = 1 << 18 };
    uint8_t *buf = mem_alloc(2 * PIECE);
    bool same = buf != NULL;
    for (uint64_t at = 0; same && at < x->n_bytes; at += PIECE) {
        size_t n = x->n_bytes - at < PIECE ? (size_t)(x->n_bytes - at) : PIECE;
        same = checkpoint_read(ck, x, at, buf, n, NULL) &&
               checkpoint_read(ck, y, at, buf + PIECE, n, NULL) && !memcmp(buf, buf + PIECE, n);
    }
    mem_free(buf);
    return same;
}

bool weights_same(const WeightTable *t, Role a, Role b) {
    const CkptTensor *x = weights_role_find(t, a, -1, ".weight"),
                     *y = weights_role_find(t, b, -1, ".weight");
    bool floats = x && (x->dtype == DTYPE_F32 || x->dtype == DTYPE_F16 || x->dtype == DTYPE_BF16);
    return floats && y && x->dtype == y->dtype && x->n_dims == y->n_dims &&
           x->n_bytes == y->n_bytes && !memcmp(x->shape, y->shape, sizeof x->shape) &&
           bytes_same(t->ck, x, y);
}

void weights_ignore(WeightTable *t, Role role, int layer) {
    char module[WEIGHTS_MAX_NAME];
    if (weights_role_name(t, role, layer, "", module)) modsource_ignore(&t->finder, str_c(module));
}

/* GPTQ writers give every layer a bias; where the architecture has none it must be zero. */
static bool bias_is_zero(WeightTable *t, const CkptTensor *ct, bool *zero, Err *err) {
    Str module = str_slice(ct->name, 0, ct->name.n - strlen(".bias"));
    char qweight[WEIGHTS_MAX_NAME];
    *zero = false;
    int len = snprintf(qweight, sizeof qweight, "%.*s.qweight", (int)module.n, module.p);
    if (len < 0 || len >= WEIGHTS_MAX_NAME || !checkpoint_find(t->ck, str_c(qweight))) return true;
    if (ct->n_dims != 1 || ct->shape[0] < 1 || ct->shape[0] > MAX_BIAS)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " is no bias: 1 to %d elements are accepted",
                       STR_A(ct->name), MAX_BIAS);
    WeightSource src;
    WeightScratch sc = {0};
    uint32_t n = (uint32_t)ct->shape[0];
    if (!modsource_vector(&t->finder, ct, n, 0, false, &src, err)) return false;
    float *x = arena_array(t->a, float, n);
    bool ok = x ? wsource_f32(&src, 0, 1, x, &sc, err) : err_nomem(err, "a bias");
    wsource_scratch_deinit(&sc);
    for (uint32_t i = 0; ok && i < n; i++)
        if (!(x[i] == 0))
            return err_set(err, ERR_UNSUPPORTED,
                           "tensor " STR_F
                           "[%u] is %g; this architecture has no bias there, only zeros are "
                           "accepted",
                           STR_A(ct->name), i, (double)x[i]);
    *zero = ok;
    return ok;
}

/* Unused, and rightly so? */
static bool tensor_is_known(WeightTable *t, const CkptTensor *ct, bool *known, Err *err) {
    bool quantized = t->config.method != QUANT_NONE || t->ck->kind == CKPT_GGUF;
    /* an empty one says nothing: shared experts where there are none */
    *known = ct->n_bytes == 0 || (quantized && modsource_is_calibration(ct->name));
    for (size_t g = 0; !*known && t->ignored && t->ignored[g]; g++)
        *known = weights_glob(t->ignored[g], ct->name);
    if (*known || !str_ends(ct->name, STR(".bias"))) return true;
    return bias_is_zero(t, ct, known, err);
}

bool weights_check(const WeightTable *t, Err *err) {
    if (!t->err.kind) return true;
    if (err) *err = t->err;
    return false;
}

bool weights_finish(WeightTable *t, Err *err) {
    if (!weights_check(t, err)) return false;
    for (size_t i = 0; i < t->ck->n_tensors; i++) {
        const CkptTensor *ct = &t->ck->tensors[i];
        bool known = t->finder.used[i];
        if (!known && !tensor_is_known(t, ct, &known, err)) return false;
        if (!known)
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " belongs to no part of this architecture (" STR_F ")",
                           STR_A(ct->name), STR_A(t->ck->config.model_type));
    }
    return true;
}

Str weights_prefix(const WeightTable *t) { return t->n.prefix; }
Str weights_root(const WeightTable *t) { return t->n.root; }
bool weights_is_used(const WeightTable *t, size_t i) { return t->finder.used[i]; }
const WeightOrigin *weights_value_of(const WeightTable *t, size_t i) { return t->values[i]; }
uint32_t weights_count(const WeightTable *t) { return t->n_weights; }
const ArchWeight *weights_get(const WeightTable *t, int32_t source) { return &t->weights[source]; }
