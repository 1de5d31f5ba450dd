#include "stream/finish.h"

static const struct {
    const char *name, *stop_type, *describe;
} table[FINISH_COUNT] = {
    [FINISH_NONE] = {"", "none", "not finished"},
    [FINISH_EOS] = {"stop", "eos", "end of generation token"},
    [FINISH_STOP_STRING] = {"stop", "word", "stop string"},
    [FINISH_TIME] = {"length", "limit", "time bound"},
    [FINISH_GRAMMAR] = {"stop", "eos", "grammar complete"},
    [FINISH_BUDGET] = {"length", "limit", "token budget"},
    [FINISH_CONTEXT] = {"length", "limit", "context full"},
    [FINISH_LOOP] = {"stop", "limit", "repetition loop"},
    [FINISH_CANCELLED] = {"cancelled", "none", "cancelled"},
};

Finish finish_before(const FinishRules *r) {
    return r->max_tokens == 0 ? FINISH_BUDGET : FINISH_NONE;
}

Finish finish_check(const FinishRules *r, FinishState *s, const FinishStep *step) {
    if (step->is_eog) return FINISH_EOS;
    s->n_generated++;
    bool looping =
        loop_push(&s->loop, step->token); /* counts every kept token, whatever else ends the run */
    s->has_newline |= str_find_char(step->text, '\n', 0) != STR_NPOS;
    if (step->stop_string) return FINISH_STOP_STRING;
    if (r->max_ms > 0 && s->has_newline && step->elapsed_ms > (uint64_t)r->max_ms)
        return FINISH_TIME;
    if (step->grammar_done) return FINISH_GRAMMAR;
    if (r->max_tokens >= 0 && s->n_generated >= (uint64_t)r->max_tokens) return FINISH_BUDGET;
    if (r->n_ctx && step->n_past >= r->n_ctx) return FINISH_CONTEXT;
    return looping ? FINISH_LOOP : FINISH_NONE;
}

bool finish_keeps_token(Finish f) { return f != FINISH_EOS; }
bool finish_truncated(Finish f) { return f == FINISH_CONTEXT; }
const char *finish_name(Finish f) { return table[f].name; }
const char *finish_stop_type(Finish f) { return table[f].stop_type; }
const char *finish_describe(Finish f) { return table[f].describe; }
