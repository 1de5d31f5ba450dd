/* job.h: one request on its way through the engine: tokens, cache, sampler, output text. Made by
 * any thread, then the engine thread's until EVENT_DONE or EVENT_ERROR; the flag JobParams.cancel
 * may be raised from anywhere at any time. */
#ifndef MLXCEL_ENGINE_JOB_H
#define MLXCEL_ENGINE_JOB_H

#include <stdatomic.h>

#include "cache/seqcache.h"
#include "engine/job_media.h"
#include "sample/chain.h"
#include "sample/logprobs.h"
#include "stream/sink.h"
#include "stream/stop.h"
#include "text/detok.h"

typedef struct JobParams {
    const uint32_t *tokens; /* the prompt; n_tokens >= 1; copied */
    size_t n_tokens;
    int64_t n_predict; /* negative: until the end or the context is full */
    SampleParams sample;
    const Str *stop; /* copied */
    size_t n_stop;
    bool ignore_eos; /* an end token is an ordinary token: neither a stop nor banned */
    bool no_cache;   /* neither adopt nor store a prefix */
    Media *media;    /* made for these tokens; outlives the job; NULL: none */
    LoopRule loop;
    uint32_t choice; /* of several answers to one request */
    uint64_t request;
    Sink sink;
    /* Score: logits after every prompt token, in order; called on the engine thread. Implies
     * no_cache. */
    bool (*on_logits)(void *ctx, uint32_t position, const float *logits);
    void *on_logits_ctx;
    /* Grammar: bitset of allowed tokens for the next position, and the word that a token was
     * accepted. NULL: none. */
    const uint64_t *(*mask)(void *ctx, Err *err);
    bool (*mask_accept)(void *ctx, uint32_t token, bool *done, Err *err);
    void *mask_ctx;
    const atomic_bool *cancel; /* the submitter's own flag, which outlives the job; NULL: none */
} JobParams;

typedef enum JobState { JOB_WAITING, JOB_RUNNING, JOB_ENDED } JobState;

typedef struct Job {
    struct Job *next; /* in the engine's queue */
    const Model *model;
    JobParams p; /* pointers in it are not used after job_new, callbacks are */
    JobState state;
    uint32_t *tokens; /* prompt, then what was generated */
    uint32_t *keys;   /* what stands for them in the prefix tree; NULL: they themselves */
    uint32_t n_tokens, max_tokens, n_prompt;
    uint32_t n_generated;
    uint32_t n_scored; /* rows whose logits were given to on_logits */
    uint32_t length_class;
    SeqCache cache; /* rows of tokens[0..cache.n_tokens) */
    bool has_cache;
    Sampler sampler;
    StopSet stops;
    StopScan scan;
    Detok detok;
    Buf text; /* of the event being made */
    FinishRules rules;
    FinishState finish;
    EventTimings times;
    TokenLogprob top[LOGPROBS_MAX];
    uint64_t submitted_ns, started_ns, first_token_ns;
    uint64_t order;         /* of admission: the youngest gives way first */
    atomic_bool own_cancel; /* raised by the engine when nobody listens any more */
} Job;

/* n_ctx: tokens a sequence may hold. ERR_LIMIT: the prompt does not fit. ERR_INPUT: an id outside
 * the vocabulary. */
bool job_new(const Model *m, uint32_t n_ctx, const JobParams *p, Job **out, Err *err) MUST_CHECK;
void job_free(Job *j);
bool job_is_cancelled(const Job *j);
uint64_t job_cache_key(const Job *j); /* everything beside tokens that enters K and V (rule 9) */
static inline const uint32_t *job_keys(const Job *j) { return j->keys ? j->keys : j->tokens; }
/* Makes j->keys if it has media. */
bool job_name_media(Job *j, MediaNames *names, Err *err) MUST_CHECK;

#endif
