/* params_json.h: sampling parameters from JSON: a request's fields, and a checkpoint's
 * generation_config.json.
 *
 *     SampleParams p = params_server();
 *     if (!params_from_generation_config(&p, config, err)) ...    the model's wishes replace the
 * defaults if (!params_from_json(&p, body, &text, &arena, err)) ...    the request's replace both
 *
 * Only the keys that are sampling parameters are read (aliases too); null means "as it was". Arrays
 * land in the arena. */
#ifndef MLXCEL_SAMPLE_PARAMS_JSON_H
#define MLXCEL_SAMPLE_PARAMS_JSON_H

#include "json/json.h"
#include "sample/params.h"

/* Turns the text of a logit_bias entry into token ids; a NULL function refuses such entries. */
typedef struct BiasText {
    bool (*encode)(const void *ctx, Str text, Arena *a, uint32_t **ids, size_t *n, Err *err);
    const void *ctx;
} BiasText;

/* dry_sequence_breakers is an array of strings; logit_bias is [[id or text, bias], ...] or {"id or
 * text": bias}, where bias is a number, or false for never; samplers (params_set_samplers) is an
 * array of names. */
bool params_from_json(SampleParams *p, const Json *object, const BiasText *text, Arena *a,
                      Err *err) MUST_CHECK;
/* temperature, top_k, top_p, min_p, typical_p, repetition_penalty; do_sample false is temperature
 * 0. */
bool params_from_generation_config(SampleParams *p, const Json *config, Err *err) MUST_CHECK;

#endif
