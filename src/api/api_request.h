/* api_request.h: what is behind mlxcel_request. It collects parameters until it is submitted; then
 * its Job belongs to the engine. */
#ifndef MLXCEL_API_API_REQUEST_H
#define MLXCEL_API_API_REQUEST_H

#include "api/api.h"

struct mlxcel_request {
    mlxcel_engine *engine;
    Arena arena; /* ids, stop strings, biases */
    JobParams p;
    Str *stops;
    LogitBias *bias;
    size_t stops_cap, bias_cap;
    ApiGrammar *grammar;
    MediaTensor *inputs; /* copies, until p.media has its own */
    size_t n_inputs;
    bool submitted, done;
    Err err;
    atomic_bool cancel;
    mlxcel_event_fn *fn;
    void *ctx;
    mlxcel_logits_fn *logits_fn;
    void *logits_ctx;
};

/* Makes p.media of the inputs, if there are any. */
bool api_media_start(mlxcel_request *r, Err *err) MUST_CHECK;
/* The copies: p.media has its own. */
void api_media_drop_inputs(mlxcel_request *r);

#endif
