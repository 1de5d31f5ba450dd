#include "cli/tensor_json.h"

#include <math.h>
#include <string.h>

#include "json/json.h"

static bool is_number(const Json *j) {
    return j->type == JSON_NUMBER || j->type == JSON_TRUE || j->type == JSON_FALSE;
}

/* The first element of each level says how long its rows are. */
static bool find_shape(const Json *j, mlxcel_tensor *out, Err *err) {
    for (out->n_dims = 0; j->type == JSON_ARRAY; j = &j->items[0]) {
        if (out->n_dims == MLXCEL_MAX_DIMS)
            return err_set(err, ERR_INPUT, "arrays are nested more than %d deep", MLXCEL_MAX_DIMS);
        out->dims[out->n_dims++] = j->n;
        if (!j->n) return true;
    }
    return true;
}

/* Checks j against the dimensions from dim on, and counts its numbers. */
static bool check(const Json *j, const mlxcel_tensor *t, uint32_t dim, uint64_t *n, bool *is_float,
                  Err *err) {
    if (dim == t->n_dims) {
        if (!is_number(j))
            return err_set(err, ERR_INPUT, "%s where a number is needed", jsontype_name(j->type));
        for (size_t i = 0; j->type == JSON_NUMBER && i < j->text.n; i++)
            if (strchr(".eE", j->text.p[i])) *is_float = true;
        ++*n;
        return true;
    }
    if (j->type != JSON_ARRAY)
        return err_set(err, ERR_INPUT, "%s where an array is needed", jsontype_name(j->type));
    if (j->n != t->dims[dim])
        return err_set(err, ERR_INPUT, "an array of %zu beside one of %llu", j->n,
                       (unsigned long long)t->dims[dim]);
    for (size_t i = 0; i < j->n; i++)
        if (!check(&j->items[i], t, dim + 1, n, is_float, err)) return false;
    return true;
}

static bool put_number(const Json *j, int type, void *data, uint64_t i, Err *err) {
    double v = j->type == JSON_TRUE;
    int64_t k = j->type == JSON_TRUE;
    bool ok = j->type != JSON_NUMBER || (type == MLXCEL_I64 ? json_i64(j, &k) : json_f64(j, &v));
    if (type == MLXCEL_I64)
        ((int64_t *)data)[i] = k;
    else
        ((float *)data)[i] = (float)v;
    if (ok && isfinite((float)v)) return true;
    return err_set(err, ERR_INPUT, STR_F " is no %s", STR_A(j->text),
                   type == MLXCEL_I64 ? "int64" : "float32");
}

static bool fill(const Json *j, int type, void *data, uint64_t *n, Err *err) {
    if (j->type != JSON_ARRAY) return put_number(j, type, data, (*n)++, err);
    for (size_t i = 0; i < j->n; i++)
        if (!fill(&j->items[i], type, data, n, err)) return false;
    return true;
}

bool tensor_from_json(Str text, Arena *a, mlxcel_tensor *out, Err *err) {
    Json *doc;
    bool is_float = false;
    uint64_t found = 0, filled = 0;
    if (!json_parse(text, NULL, a, &doc, err) || !find_shape(doc, out, err) ||
        !check(doc, out, 0, &found, &is_float, err))
        return false;
    out->type = is_float ? MLXCEL_F32 : MLXCEL_I64;
    void *data = arena_alloc_n(a, found ? found : 1, is_float ? sizeof(float) : sizeof(int64_t));
    if (!data) return err_nomem(err, "tensor");
    out->data = data;
    return fill(doc, out->type, data, &filled, err);
}
