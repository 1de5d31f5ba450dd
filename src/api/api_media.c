/* Media of a request: tensors that go in beside the tokens, and those that come out. */
#include "api/api_request.h"

#include <string.h>

#include "base/mem.h"

enum { INPUTS_MAX = 64, NAME_MAX_BYTES = 200 };

_Static_assert((int)MLXCEL_F32 == (int)MEDIA_F32 && (int)MLXCEL_I64 == (int)MEDIA_I64 &&
                   (int)MLXCEL_MAX_DIMS == (int)MEDIA_MAX_DIMS,
               "tensors of the two are alike");

static bool check(const mlxcel_request *r, const mlxcel_tensor *t, size_t *bytes, Err *err) {
    size_t n = t->type == MLXCEL_I64 ? sizeof(int64_t) : sizeof(float);
    if (r->submitted) return err_set(err, ERR_INPUT, "the request was submitted before");
    if (!t->name || !t->name[0] || strnlen(t->name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
        return err_set(err, ERR_INPUT, "an input has no name, or one of more than %d bytes",
                       NAME_MAX_BYTES);
    if (t->type != MLXCEL_F32 && t->type != MLXCEL_I64)
        return err_set(err, ERR_INPUT,
                       "input %s has type %d; MLXCEL_F32 and MLXCEL_I64 are accepted", t->name,
                       t->type);
    if (t->n_dims > MLXCEL_MAX_DIMS)
        return err_set(err, ERR_INPUT, "input %s has %u dimensions, at most %d are accepted",
                       t->name, t->n_dims, MLXCEL_MAX_DIMS);
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] > SIZE_MAX || !size_mul(n, (size_t)t->dims[i], &n))
            return err_set(err, ERR_INPUT, "input %s is larger than any memory", t->name);
    if (n && !t->data) return err_set(err, ERR_INPUT, "input %s has no data", t->name);
    for (size_t i = 0; i < r->n_inputs; i++)
        if (strcmp(r->inputs[i].name, t->name) == 0)
            return err_set(err, ERR_INPUT, "input %s is given twice", t->name);
    if (r->n_inputs == INPUTS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d inputs", INPUTS_MAX);
    *bytes = n;
    return true;
}

static bool add(mlxcel_request *r, const mlxcel_tensor *t, Err *err) {
    size_t bytes;
    if (!check(r, t, &bytes, err)) return false;
    if (!r->inputs) r->inputs = arena_array(&r->arena, MediaTensor, INPUTS_MAX);
    char *name = arena_dupz(&r->arena, str_c(t->name));
    void *data = mem_alloc(bytes);
    if (!r->inputs || !name || !data) {
        mem_free(data);
        return err_nomem(err, "input");
    }
    if (bytes) memcpy(data, t->data, bytes);
    MediaTensor *copy = &r->inputs[r->n_inputs++];
    *copy =
        (MediaTensor){.name = name, .type = (MediaType)t->type, .n_dims = t->n_dims, .data = data};
    memcpy(copy->dims, t->dims, t->n_dims * sizeof *t->dims);
    return true;
}

bool mlxcel_request_input(mlxcel_request *r, const mlxcel_tensor *t, mlxcel_error *error) {
    Err err = {0};
    return add(r, t, &err) || api_fail(error, &err);
}

bool api_media_start(mlxcel_request *r, Err *err) {
    media_free(r->p.media); /* of a submission that failed */
    r->p.media = NULL;
    return !r->n_inputs || media_new(r->engine->model->m, r->inputs, r->n_inputs, r->p.tokens,
                                     r->p.n_tokens, &r->p.media, err);
}

void api_media_drop_inputs(mlxcel_request *r) {
    for (size_t i = 0; i < r->n_inputs; i++) mem_free((void *)(uintptr_t)r->inputs[i].data);
    r->n_inputs = 0;
}

bool mlxcel_request_output(const mlxcel_request *r, const char *name, mlxcel_tensor *out,
                           mlxcel_error *error) {
    Err err = {0};
    MediaTensor t;
    if (!name) return err_set(&err, ERR_INPUT, "an output has no name"), api_fail(error, &err);
    if (!r->done) return err_set(&err, ERR_BUSY, "the request is not done"), api_fail(error, &err);
    if (!r->p.media)
        return err_set(&err, ERR_NOT_FOUND, "there is no output %s: the request has no inputs",
                       name),
               api_fail(error, &err);
    if (!media_output(r->p.media, name, &t, &err)) return api_fail(error, &err);
    *out = (mlxcel_tensor){.name = t.name, .type = (int)t.type, .n_dims = t.n_dims, .data = t.data};
    memcpy(out->dims, t.dims, t.n_dims * sizeof *t.dims);
    return true;
}
