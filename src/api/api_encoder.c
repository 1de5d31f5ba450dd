/* Encoders of mlxcel.h. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "task/encoder.h"

struct mlxcel_encoder {
    Encoder *e;
};

enum { MAX_INPUTS = 1 << 20 };

mlxcel_encoder_options mlxcel_encoder_options_default(void) {
    return (mlxcel_encoder_options){.size = sizeof(mlxcel_encoder_options), .pooling = "auto"};
}

static bool options_parse(const mlxcel_encoder_options *from, EncoderOptions *to, Err *err) {
    mlxcel_encoder_options o = mlxcel_encoder_options_default();
    if (from) memcpy(&o, from, from->size < sizeof o ? from->size : sizeof o);
    *to = (EncoderOptions){.scores = o.scores,
                           .no_normalize = o.no_normalize,
                           .max_length = o.max_length,
                           .batch_rows = o.batch_rows,
                           .force = o.force};
    return !o.pooling || pooling_parse(str_c(o.pooling), &to->pooling, err);
}

bool mlxcel_encoder_open(mlxcel_model *model, const mlxcel_encoder_options *options,
                         mlxcel_encoder **out, mlxcel_error *error) {
    Err err = {0};
    EncoderOptions o;
    mlxcel_encoder *encoder = mem_calloc(1, sizeof *encoder);
    if (!encoder) err_nomem(&err, "encoder");
    if (encoder && options_parse(options, &o, &err) &&
        encoder_open(model->m, &o, &encoder->e, &err)) {
        *out = encoder;
        return true;
    }
    mem_free(encoder);
    return api_fail(error, &err);
}

void mlxcel_encoder_close(mlxcel_encoder *encoder) {
    if (!encoder) return;
    encoder_close(encoder->e);
    mem_free(encoder);
}

uint32_t mlxcel_encoder_width(const mlxcel_encoder *encoder) { return encoder_width(encoder->e); }
const char *mlxcel_encoder_pooling(const mlxcel_encoder *encoder) {
    return pooling_name(encoder_pooling(encoder->e));
}
bool mlxcel_encoder_normalizes(const mlxcel_encoder *encoder) {
    return encoder_normalizes(encoder->e);
}

static bool run(mlxcel_encoder *encoder, const mlxcel_encoder_input *inputs, size_t n, float *rows,
                Err *err) {
    if (n == 0) return true;
    if (n > MAX_INPUTS)
        return err_set(err, ERR_LIMIT, "%zu inputs at once, %d are accepted", n, MAX_INPUTS);
    EncoderInput *in = mem_calloc(n, sizeof *in);
    if (!in) return err_nomem(err, "inputs");
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (inputs[i].n_ids > UINT32_MAX)
            ok = err_set(err, ERR_LIMIT, "input %zu has %zu tokens", i, inputs[i].n_ids);
        in[i] = (EncoderInput){inputs[i].ids, inputs[i].types, (uint32_t)inputs[i].n_ids};
    }
    ok = ok && encoder_run(encoder->e, in, n, rows, err);
    mem_free(in);
    return ok;
}

bool mlxcel_encoder_run(mlxcel_encoder *encoder, const mlxcel_encoder_input *inputs, size_t n,
                        float *rows, mlxcel_error *error) {
    Err err = {0};
    return run(encoder, inputs, n, rows, &err) || api_fail(error, &err);
}
