/* sink.h: where a generation's events go. The engine thread calls put() for each; what is behind it
 * (a queue to the server's loop, a terminal, a test's list) copies what it wants to keep:
 * everything an Event points at is borrowed for the call. Events of one choice come in order: any
 * number of EVENT_PROGRESS, then EVENT_TEXT, then one EVENT_DONE or EVENT_ERROR, which is the last.
 *
 *     static bool show(void *ctx, const Event *e) { ... return true; }
 *     Sink sink = {show, &terminal}; */
#ifndef MLXCEL_STREAM_SINK_H
#define MLXCEL_STREAM_SINK_H

#include "base/err.h"
#include "base/str.h"
#include "stream/finish.h"

typedef enum EventKind {
    EVENT_PROGRESS, /* a piece of the prompt was processed */
    EVENT_TEXT,     /* tokens, and the text that became certain with them (may be empty) */
    EVENT_DONE,
    EVENT_ERROR,
} EventKind;

struct TokenLogprob; /* sample/logprobs.h */

typedef struct EventToken {
    uint32_t id;
    Str bytes;                      /* the token's own bytes, which may end inside a code point */
    double logprob;                 /* valid when log probabilities were asked for */
    const struct TokenLogprob *top; /* n_top alternatives, best first */
    size_t n_top;
} EventToken;

typedef struct EventTimings {
    uint64_t n_prompt, n_cached, n_generated; /* tokens */
    double prompt_ms, generated_ms, first_token_ms;
    uint64_t n_drafted, n_draft_accepted, n_draft_rounds;
} EventTimings;

typedef struct Event {
    EventKind kind;
    uint64_t request;
    uint32_t choice;
    Str text;                 /* TEXT, DONE (what was still held back): whole code points */
    const EventToken *tokens; /* TEXT: n_tokens of them; a drafted step brings several */
    size_t n_tokens;
    Finish finish;               /* DONE */
    Str stop_string;             /* DONE by FINISH_STOP_STRING: which */
    uint64_t n_done, n_total;    /* PROGRESS: prompt tokens */
    const EventTimings *timings; /* DONE; TEXT when asked for */
    const Err *err;              /* ERROR */
} Event;

typedef struct Sink {
    bool (*put)(void *ctx, const Event *e); /* false: nobody listens any more, stop generating */
    void *ctx;
} Sink;

static inline bool sink_put(const Sink *s, const Event *e) { return s->put(s->ctx, e); }

#endif
