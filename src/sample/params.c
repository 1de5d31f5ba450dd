#include "sample/params.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/os.h"

#define SEED_RANDOM_U32                                                                            \
    4294967295.0 /* llama-server's default seed, which its clients send back   \
                                      */
#define INT32_MAX_F 2147483647.0

static const Str BREAKERS[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

#define AT(field) offsetof(SampleParams, field)

static const ParamField FIELDS[] = {
    {"temperature", "temp", PARAM_NUMBER, AT(temperature), 0, 100, "0 takes the most likely token"},
    {"dynatemp_range", "", PARAM_NUMBER, AT(dynatemp_range), 0, 100,
     "temperature varies by up to this much with the entropy (0 = off)"},
    {"dynatemp_exponent", "dynatemp_exp", PARAM_NUMBER, AT(dynatemp_exponent), 0, 100,
     "how entropy maps to it"},
    {"top_k", "", PARAM_INTEGER, AT(top_k), -1, INT32_MAX_F,
     "keep the k most likely tokens (0 = off)"},
    {"top_p", "", PARAM_NUMBER, AT(top_p), 0, 1,
     "keep the fewest tokens that reach this probability (1 = off)"},
    {"min_p", "", PARAM_NUMBER, AT(min_p), 0, 1,
     "keep tokens this likely compared to the best (0 = off)"},
    {"typical_p", "typical", PARAM_NUMBER, AT(typical_p), 0, 1,
     "locally typical sampling (1 = off)"},
    {"top_n_sigma", "top_nsigma", PARAM_NUMBER, AT(top_n_sigma), -1, 1000,
     "keep logits within n standard deviations of the best (0 or less = off)"},
    {"xtc_probability", "", PARAM_NUMBER, AT(xtc_probability), 0, 1,
     "chance of excluding top choices (0 = off)"},
    {"xtc_threshold", "", PARAM_NUMBER, AT(xtc_threshold), 0, 1,
     "what counts as a top choice (above 0.5 = off)"},
    {"min_keep", "", PARAM_INTEGER, AT(min_keep), 0, INT32_MAX_F,
     "tokens every filter leaves at least"},
    {"repeat_last_n", "repetition_context_size", PARAM_INTEGER, AT(repeat_last_n), -1, INT32_MAX_F,
     "tokens the penalties look back over (0 = off, -1 = all)"},
    {"repeat_penalty", "repetition_penalty", PARAM_NUMBER, AT(repeat_penalty), 1e-3, 1000,
     "divides the logit of repeated tokens (1 = off)"},
    {"presence_penalty", "", PARAM_NUMBER, AT(presence_penalty), -100, 100,
     "once per repeated token (0 = off)"},
    {"frequency_penalty", "", PARAM_NUMBER, AT(frequency_penalty), -100, 100,
     "per occurrence (0 = off)"},
    {"dry_multiplier", "", PARAM_NUMBER, AT(dry_multiplier), 0, 1000,
     "strength of the DRY penalty (0 = off)"},
    {"dry_base", "", PARAM_NUMBER, AT(dry_base), 1, 1000,
     "growth of the DRY penalty per repeated token"},
    {"dry_allowed_length", "", PARAM_INTEGER, AT(dry_allowed_length), 0, INT32_MAX_F,
     "repeated runs shorter than this are free"},
    {"dry_penalty_last_n", "", PARAM_INTEGER, AT(dry_penalty_last_n), -1, INT32_MAX_F,
     "tokens DRY looks back over (0 = off, -1 = all)"},
    {"mirostat", "", PARAM_INTEGER, AT(mirostat), 0, 2,
     "mirostat version (0 = off); replaces the filters"},
    {"mirostat_tau", "mirostat_ent", PARAM_NUMBER, AT(mirostat_tau), 0, 100,
     "mirostat's target surprise, in bits"},
    {"mirostat_eta", "mirostat_lr", PARAM_NUMBER, AT(mirostat_eta), 0, 10,
     "mirostat's learning rate"},
    {"adaptive_target", "", PARAM_NUMBER, AT(adaptive_target), -1, 1,
     "mean probability of chosen tokens to steer to (negative = off)"},
    {"adaptive_decay", "", PARAM_NUMBER, AT(adaptive_decay), 0, 0.99,
     "how fast the adaptive sampler forgets"},
    {"ignore_eos", "", PARAM_BOOL, AT(ignore_eos), 0, 1, "never draw an end of generation token"},
    {"n_probs", "", PARAM_INTEGER, AT(n_logprobs), -1, 1024,
     "top log probabilities to report (-1 = none)"},
    {"seed", "", PARAM_SEED, AT(seed), -1, 9223372036854774784.0, "-1 is a random one"},
};

SampleParams params_server(void) {
    return (SampleParams){
        .temperature = 0.8,
        .dynatemp_exponent = 1,
        .top_k = 40,
        .top_p = 0.95,
        .min_p = 0.05,
        .typical_p = 1,
        .top_n_sigma = -1,
        .xtc_threshold = 0.1,
        .repeat_last_n = 64,
        .repeat_penalty = 1,
        .dry_base = 1.75,
        .dry_allowed_length = 2,
        .dry_penalty_last_n = 64,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1,
        .adaptive_target = -1,
        .adaptive_decay = 0.9,
        .n_logprobs = -1,
        .seed = -1,
        .dry_breakers = BREAKERS,
        .n_dry_breakers = sizeof BREAKERS / sizeof BREAKERS[0],
    };
}

SampleParams params_cli(void) {
    SampleParams p = params_server();
    p.temperature = 0;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.dry_penalty_last_n = -1;
    return p;
}

const ParamField *params_fields(size_t *n) {
    *n = sizeof FIELDS / sizeof FIELDS[0];
    return FIELDS;
}

/* Same name, '-' standing for '_'. */
static bool same_name(Str given, Str name) {
    if (given.n != name.n) return false;
    for (size_t i = 0; i < given.n; i++)
        if ((given.p[i] == '-' ? '_' : given.p[i]) != name.p[i]) return false;
    return true;
}

const ParamField *params_find(Str name) {
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        if (same_name(name, str_c(FIELDS[i].name))) return &FIELDS[i];
        Str rest = str_c(FIELDS[i].aliases), alias;
        while (rest.n && str_split(&rest, ' ', &alias))
            if (same_name(name, alias)) return &FIELDS[i];
    }
    return NULL;
}

static void *slot(SampleParams *p, const ParamField *f) { return (char *)p + f->offset; }

double params_get(const SampleParams *p, const ParamField *f) {
    const void *at = (const char *)p + f->offset;
    switch (f->type) {
    case PARAM_NUMBER:
        return *(const double *)at;
    case PARAM_INTEGER:
        return *(const int32_t *)at;
    case PARAM_SEED:
        return (double)*(const int64_t *)at;
    case PARAM_BOOL:
        return *(const bool *)at;
    }
    return 0;
}

bool params_set_field(SampleParams *p, const ParamField *f, double value, Err *err) {
    if (!(value >= f->min && value <= f->max))
        return err_set(err, ERR_INPUT, "%s is %.10g, %.10g to %.10g are accepted", f->name, value,
                       f->min, f->max);
    if (f->type != PARAM_NUMBER && value != floor(value))
        return err_set(err, ERR_INPUT,
                       "%s is %.10g, whole numbers from %.10g to %.10g are accepted", f->name,
                       value, f->min, f->max);
    switch (f->type) {
    case PARAM_NUMBER:
        *(double *)slot(p, f) = value;
        break;
    case PARAM_INTEGER:
        *(int32_t *)slot(p, f) = (int32_t)value;
        break;
    case PARAM_SEED:
        *(int64_t *)slot(p, f) = (int64_t)value;
        break;
    case PARAM_BOOL:
        *(bool *)slot(p, f) = value != 0;
        break;
    }
    return true;
}

bool params_set(SampleParams *p, Str name, double value, Err *err) {
    const ParamField *f = params_find(name);
    if (!f)
        return err_set(err, ERR_INPUT, "\"" STR_F "\" is not a sampling parameter", STR_A(name));
    return params_set_field(p, f, value, err);
}

bool params_set_text(SampleParams *p, Str name, Str text, Err *err) {
    const ParamField *f = params_find(name);
    if (!f)
        return err_set(err, ERR_INPUT, "\"" STR_F "\" is not a sampling parameter", STR_A(name));
    int64_t seed; /* read as an integer: a double would round it */
    if (f->type == PARAM_SEED && str_to_i64(text, &seed) && seed >= -1) {
        p->seed = seed;
        return true;
    }
    double value;
    if (f->type == PARAM_BOOL && (str_eqc(text, "true") || str_eqc(text, "false")))
        value = str_eqc(text, "true");
    else if (!str_to_f64(text, &value))
        return err_set(err, ERR_INPUT, "%s is \"" STR_F "\", %s from %.10g to %.10g are accepted",
                       f->name, STR_A(text), f->type == PARAM_NUMBER ? "numbers" : "whole numbers",
                       f->min, f->max);
    return params_set_field(p, f, value, err);
}

static void switch_off(SampleParams *p, Str name) {
    if (str_eqc(name, "penalties")) p->repeat_last_n = 0;
    if (str_eqc(name, "dry")) p->dry_multiplier = 0;
    if (str_eqc(name, "top_n_sigma")) p->top_n_sigma = -1;
    if (str_eqc(name, "top_k")) p->top_k = 0;
    if (str_eqc(name, "typ_p")) p->typical_p = 1;
    if (str_eqc(name, "top_p")) p->top_p = 1;
    if (str_eqc(name, "min_p")) p->min_p = 0;
    if (str_eqc(name, "xtc")) p->xtc_probability = 0;
    if (str_eqc(name, "temperature")) {
        p->temperature = 1;
        p->dynatemp_range = 0;
    }
    if (str_eqc(name, "adaptive_p")) p->adaptive_target = -1;
}

bool params_set_samplers(SampleParams *p, Str list, Err *err) {
    SampleParams with = *p;
    Str order = STR(PARAMS_SAMPLERS), name, want;
    while (str_split(&list, ';', &want)) {
        want = str_trim(want);
        bool found = false;
        while (!found && str_split(&order, ';', &name)) {
            found = same_name(want, name);
            if (!found) switch_off(&with, name);
        }
        if (!found)
            return err_set(err, ERR_INPUT,
                           "samplers has \"" STR_F
                           "\" there, samplers in the order %s are accepted",
                           STR_A(want), PARAMS_SAMPLERS);
    }
    while (str_split(&order, ';',
                     &name)) /* adaptive_p is newer than most lists: a target alone turns it on */
        if (!str_eqc(name, "adaptive_p")) switch_off(&with, name);
    *p = with;
    return true;
}

enum { BREAKERS_MAX = 64, BREAKER_BYTES_MAX = 256, BIAS_MAX = 1 << 16 };
#define BIAS_LARGEST 1e6f

static bool check_bias(const SampleParams *p, uint32_t n_vocab, Err *err) {
    if (p->n_bias > BIAS_MAX)
        return err_set(err, ERR_LIMIT, "logit_bias has %zu entries, at most %d are accepted",
                       p->n_bias, BIAS_MAX);
    for (size_t i = 0; i < p->n_bias; i++) {
        LogitBias b = p->bias[i];
        if (b.token >= n_vocab)
            return err_set(err, ERR_INPUT, "logit_bias names token %u, 0 to %u are accepted",
                           b.token, n_vocab - 1);
        if (b.bias != -INFINITY && !(fabsf(b.bias) <= BIAS_LARGEST))
            return err_set(err, ERR_INPUT,
                           "logit_bias of token %u is %g, -1e6 to 1e6 are accepted, or false",
                           b.token, (double)b.bias);
    }
    return true;
}

static bool check_breakers(const SampleParams *p, Err *err) {
    if (p->n_dry_breakers > BREAKERS_MAX)
        return err_set(err, ERR_LIMIT,
                       "dry_sequence_breakers has %zu strings, at most %d are accepted",
                       p->n_dry_breakers, BREAKERS_MAX);
    for (size_t i = 0; i < p->n_dry_breakers; i++) {
        size_t n = p->dry_breakers[i].n;
        if (n == 0 || n > BREAKER_BYTES_MAX)
            return err_set(err, ERR_INPUT,
                           "dry_sequence_breakers[%zu] has %zu bytes, 1 to %d are accepted", i, n,
                           BREAKER_BYTES_MAX);
    }
    return true;
}

bool params_check(const SampleParams *p, uint32_t n_vocab, Err *err) {
    SampleParams scratch = *p;
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0];
         i++) /* a caller may have filled the struct by hand */
        if (FIELDS[i].type != PARAM_SEED &&
            !params_set_field(&scratch, &FIELDS[i], params_get(p, &FIELDS[i]), err))
            return false;
    if (p->seed < -1)
        return err_set(err, ERR_INPUT, "seed is %lld, -1 or more are accepted", (long long)p->seed);
    if (p->mirostat && p->adaptive_target >= 0)
        return err_set(err, ERR_INPUT,
                       "mirostat is %d and adaptive_target is %g, only one of the two is accepted",
                       p->mirostat, p->adaptive_target);
    return check_bias(p, n_vocab, err) && check_breakers(p, err);
}

void params_fix_seed(SampleParams *p) {
    if (p->seed == -1 || (double)p->seed == SEED_RANDOM_U32)
        p->seed = (int64_t)(os_random_u64() >> 32);
}
