/* One tensor of a checkpoint as float32. A stored tensor comes out as its numbers; the matrix of a
 * quantized module, under "module.weight" however the format calls its parts, comes out decoded. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"

static bool room(uint64_t n, float **values, Err *err) {
    size_t bytes;
    if (n > SIZE_MAX || !size_mul((size_t)n, sizeof(float), &bytes))
        return err_set(err, ERR_LIMIT, "the tensor is too large");
    *values = mem_alloc(bytes ? bytes : 1);
    return *values || err_nomem(err, "tensor");
}

static bool decode_stored(const Checkpoint *ck, const CkptTensor *t, float **data, Err *err) {
    uint64_t k = t->n_dims ? t->shape[t->n_dims - 1] : 1, n = 1, all;
    for (int i = 0; i + 1 < t->n_dims; i++)
        n *= t->shape[i]; /* the file's reader checked that this fits */
    if (__builtin_mul_overflow(n, k, &all))
        return err_set(err, ERR_LIMIT, "the tensor is too large");
    if (!room(all, data, err)) return false;
    void *stored = mem_alloc(t->n_bytes ? t->n_bytes : 1);
    bool ok = (stored || err_nomem(err, "tensor")) &&
              checkpoint_read(ck, t, 0, stored, t->n_bytes, err) &&
              (all == 0 || decode_rows(t->dtype, stored, t->n_bytes, n, k, *data, err));
    mem_free(stored);
    if (!ok) mem_free(*data);
    return ok;
}

static bool decode_module(const WeightSource *s, float **data, Err *err) {
    WeightScratch scratch = {0};
    if (!room((uint64_t)s->n * s->k, data, err)) return false;
    bool ok = wsource_f32(s, 0, s->n, *data, &scratch, err);
    wsource_scratch_deinit(&scratch);
    if (!ok) mem_free(*data);
    return ok;
}

/* Whether a source's tensor is the matrix that is called name. */
static bool is_matrix_of(Str source, Str name) {
    static const char *const SPELLINGS[] = {".weight", ".qweight", ".weight_packed"};
    if (str_eq(source, name)) return true;
    if (!str_ends(name, STR(".weight"))) return false;
    Str module = str_slice(name, 0, name.n - strlen(".weight"));
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
        if (str_starts(source, module) && str_eqc(str_from(source, module.n), SPELLINGS[i]))
            return true;
    return false;
}

static const WeightSource *find_quantized(const Model *m, Str name) {
    const WeightTable *t = m->arch.weights;
    for (uint32_t i = 0; i < weights_count(t); i++) {
        const ArchWeight *w = weights_get(t, (int32_t)i);
        for (int p = 0; p < w->n_parts; p++) {
            const WeightSource *s = &w->parts[p];
            if (s->m.format != QFORMAT_ROWS && is_matrix_of(str_c(s->name), name)) return s;
        }
    }
    return NULL;
}

bool mlxcel_model_tensor(const mlxcel_model *model, const char *name, float **data,
                         uint64_t shape[8], int *n_dims, mlxcel_error *error) {
    Err err = {0};
    const Checkpoint *ck = model->m->ck;
    const CkptTensor *t = checkpoint_find(ck, str_c(name));
    const WeightSource *s = find_quantized(model->m, str_c(name));
    if (s) {
        if (!decode_module(s, data, &err)) return api_fail(error, &err);
        *n_dims = 2;
        shape[0] = s->n;
        shape[1] = s->k;
        return true;
    }
    if (!t) err_set(&err, ERR_NOT_FOUND, "there is no tensor %s in " STR_F, name, STR_A(ck->path));
    if (!t || !decode_stored(ck, t, data, &err)) return api_fail(error, &err);
    *n_dims = t->n_dims;
    memcpy(shape, t->shape, sizeof t->shape);
    return true;
}
