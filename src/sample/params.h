/* params.h: the sampling parameters of one request: names, defaults, ranges. One table describes
 * every number, so the command line, the HTTP fields, generation_config.json, /props and help text
 * agree, and every refusal names the field, the value and the range.
 *
 *     SampleParams p = params_server();
 *     if (!params_set(&p, STR("top_k"), 20, err)) ...     aliases and dashes work: "top-k",
 * "repetition_penalty"
 *
 * Strings and arrays in it are borrowed from the request. */
#ifndef MLXCEL_SAMPLE_PARAMS_H
#define MLXCEL_SAMPLE_PARAMS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

typedef struct LogitBias {
    uint32_t token;
    float bias; /* -inf: never */
} LogitBias;

typedef struct SampleParams {
    double temperature; /* 0: the most likely token */
    double dynatemp_range, dynatemp_exponent;
    int32_t top_k;    /* <= 0: off */
    int32_t min_keep; /* top-p, min-p, typical and XTC leave at least this many */
    double top_p, min_p, typical_p;
    double top_n_sigma; /* <= 0: off */
    double xtc_probability, xtc_threshold;
    int32_t repeat_last_n; /* 0: off; -1: the whole context */
    double repeat_penalty, presence_penalty, frequency_penalty;
    double dry_multiplier, dry_base; /* multiplier 0: off */
    int32_t dry_allowed_length;
    int32_t dry_penalty_last_n; /* as repeat_last_n */
    int32_t mirostat;           /* 0, 1, 2 */
    double mirostat_tau, mirostat_eta;
    double adaptive_target, adaptive_decay; /* target < 0: off */
    bool ignore_eos;
    int32_t n_logprobs; /* -1: none; 0: the chosen token's; k: also the top k */
    int64_t seed;       /* -1: a random one, drawn by params_fix_seed */
    const Str *dry_breakers;
    size_t n_dry_breakers;
    const LogitBias *bias;
    size_t n_bias;
} SampleParams;

/* What sampling knows about the vocabulary; borrowed from the model. */
typedef struct SampleVocab {
    uint32_t n_vocab;    /* length of a row of logits */
    const uint32_t *eog; /* tokens that end a generation */
    size_t n_eog;
    Str (*piece)(const void *ctx,
                 uint32_t token); /* a token's text; may be NULL when no DRY is used */
    const void *ctx;
} SampleVocab;

typedef enum ParamType { PARAM_NUMBER, PARAM_INTEGER, PARAM_SEED, PARAM_BOOL } ParamType;

typedef struct ParamField {
    const char *name;    /* as in a llama-server request */
    const char *aliases; /* other names, separated by blanks; "" if none */
    ParamType type;
    size_t offset;
    double min, max;
    const char *help;
} ParamField;

SampleParams params_server(void); /* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05 */
SampleParams params_cli(void);    /* temperature 0 and no filters */

const ParamField *params_fields(size_t *n);
const ParamField *
params_find(Str name); /* by name or alias, '-' as '_'; NULL if it is no sampling parameter */
double params_get(const SampleParams *p, const ParamField *f);
bool params_set_field(SampleParams *p, const ParamField *f, double value, Err *err) MUST_CHECK;
bool params_set(SampleParams *p, Str name, double value, Err *err) MUST_CHECK;
bool params_set_text(SampleParams *p, Str name, Str text, Err *err) MUST_CHECK; /* "0.8", "true" */
/* A list of samplers as llama-server's --samplers has it, separated by ';': the order is fixed, so
 * only a list in that order is accepted; a sampler that is left out is switched off. Call it after
 * the other parameters are set. */
bool params_set_samplers(SampleParams *p, Str list, Err *err) MUST_CHECK;
#define PARAMS_SAMPLERS                                                                            \
    "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature;adaptive_p"
/* What one field cannot know: ids against the vocabulary, lists, combinations. Called by
 * sampler_init. */
bool params_check(const SampleParams *p, uint32_t n_vocab, Err *err) MUST_CHECK;
void params_fix_seed(
    SampleParams *p); /* -1, and llama-server's spelling of it, become a random seed */

#endif
