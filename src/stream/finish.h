/* finish.h: why a generation ends, decided in one place. After every sampled token the engine asks
 * once; the first rule that holds, in this order, is the answer:
 *
 *   1 end of generation token (it is not kept)    5 token budget (n_predict)
 *   2 stop string                                 6 context full (reported as length, truncated)
 *   3 time bound (after the first line)           7 repetition loop
 *   4 grammar complete
 *
 *     FinishStep step = {.token = t, .is_eog = ..., .stop_string = hit, ...};
 *     Finish f = finish_check(&rules, &state, &step);
 *     if (f != FINISH_NONE) ... finish_name(f) is "stop" or "length" */
#ifndef MLXCEL_STREAM_FINISH_H
#define MLXCEL_STREAM_FINISH_H

#include "base/str.h"
#include "stream/loop_guard.h"

typedef enum Finish {
    FINISH_NONE,
    FINISH_EOS,
    FINISH_STOP_STRING,
    FINISH_TIME,
    FINISH_GRAMMAR,
    FINISH_BUDGET,
    FINISH_CONTEXT,
    FINISH_LOOP,
    FINISH_CANCELLED, /* the client left or asked to stop; not decided here */
    FINISH_COUNT
} Finish;

typedef struct FinishRules {
    int64_t max_tokens; /* generated tokens; negative: no budget; 0 ends before the first token
                           (finish_before) */
    uint64_t n_ctx;     /* tokens a sequence may hold; 0: no bound */
    int64_t max_ms;     /* t_max_predict_ms: from the first generated token; <= 0: none */
} FinishRules;

typedef struct FinishState { /* zero-initialised but for the guard */
    uint64_t n_generated;    /* kept tokens */
    bool has_newline;        /* one was generated: the time bound holds from then on */
    LoopGuard loop;
} FinishState;

typedef struct FinishStep { /* what one sampled token brought */
    uint32_t token;
    bool is_eog;         /* an end of generation token, and ignore_eos is off */
    bool stop_string;    /* stop_feed said so */
    bool grammar_done;   /* the grammar accepts nothing more */
    Str text;            /* the token's text, as far as complete */
    uint64_t n_past;     /* tokens of the sequence, prompt included, with this one */
    uint64_t elapsed_ms; /* since the first generated token */
} FinishStep;

Finish finish_before(const FinishRules *r); /* FINISH_BUDGET when not even one token is wanted */
Finish finish_check(const FinishRules *r, FinishState *s, const FinishStep *step);

bool finish_keeps_token(Finish f);      /* false for FINISH_EOS */
bool finish_truncated(Finish f);        /* true for FINISH_CONTEXT */
const char *finish_name(Finish f);      /* "stop", "length", "cancelled" or "" */
const char *finish_stop_type(Finish f); /* llama-server's: "eos", "word", "limit", "none" */
const char *finish_describe(Finish f);  /* for people: "end of generation token", ... */

#endif
