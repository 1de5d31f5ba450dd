/* From the logits of a step to tokens, text and events. */
#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "engine/engine_private.h"

static double ms_between(uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-6 : 0;
}

static void times_close(Job *j) {
    uint64_t now = os_now_ns();
    j->times.n_prompt = j->n_prompt;
    j->times.n_generated = j->n_generated;
    uint64_t first = j->first_token_ns ? j->first_token_ns : now;
    j->times.prompt_ms = j->started_ns ? ms_between(j->started_ns, first) : 0;
    j->times.first_token_ms = ms_between(j->submitted_ns, first);
    j->times.generated_ms = j->first_token_ns ? ms_between(j->first_token_ns, now) : 0;
}

static void put_last(Engine *e, Job *j, Event *ev) {
    times_close(j);
    ev->request = j->p.request;
    ev->choice = j->p.choice;
    ev->timings = &j->times;
    if (j->p.sink.put) sink_put(&j->p.sink, ev);
    engine_end(e, j);
}

static bool keeps_prefix(const Job *j) { return !j->p.no_cache && !j->p.on_logits; }

void emit_error(Engine *e, Job *j, const Err *err) {
    put_last(e, j, &(Event){.kind = EVENT_ERROR, .err = err});
}

void emit_done(Engine *e, Job *j, Finish f, Str stop_string) {
    buf_clear(&j->text);
    if (f != FINISH_STOP_STRING) {
        Str tail = STR_NONE, matched = STR_NONE;
        Err err = {0};
        if (j->model->tok && !detok_finish(&j->detok, &tail, &err)) {
            emit_error(e, j, &err);
            return;
        }
        /* Bytes the detokenizer held back may complete a stop string after all. */
        if (tail.n && stop_feed(&j->stops, &j->scan, tail, &j->text, &matched)) {
            f = FINISH_STOP_STRING;
            stop_string = matched;
        } else {
            stop_flush(&j->stops, &j->scan, &j->text);
        }
    }
    if (j->has_cache && keeps_prefix(j))
        seqcache_store(&j->cache, job_cache_key(j), job_keys(j), j->cache.n_tokens, true);
    put_last(e, j,
             &(Event){.kind = EVENT_DONE,
                      .text = buf_str(&j->text),
                      .finish = f,
                      .stop_string = stop_string});
}

/* Text of the token as far as it is complete, past the stop scan, into j->text. */
static bool token_text(Job *j, uint32_t token, Str *piece, Str *matched, bool *stopped, Err *err) {
    buf_clear(&j->text);
    *piece = STR_NONE;
    *stopped = false;
    if (!j->model->tok) return true;
    if (!detok_push(&j->detok, token, piece, err)) return false;
    *stopped = stop_feed(&j->stops, &j->scan, *piece, &j->text, matched);
    return buf_check(&j->text, "answer text", err);
}

static bool put_token(Job *j, const EventToken *token) {
    if (!j->p.sink.put) return true;
    Event ev = {.kind = EVENT_TEXT,
                .request = j->p.request,
                .choice = j->p.choice,
                .text = buf_str(&j->text),
                .tokens = token,
                .n_tokens = 1,
                .timings = &j->times};
    return sink_put(&j->p.sink, &ev);
}

static size_t token_logprobs(Job *j, const float *logits, uint32_t token, double *chosen) {
    *chosen = 0;
    if (j->p.sample.n_logprobs < 0) return 0;
    TokenLogprob own = {.token = token};
    size_t k = (size_t)j->p.sample.n_logprobs < LOGPROBS_MAX ? (size_t)j->p.sample.n_logprobs
                                                             : LOGPROBS_MAX;
    size_t n = logprobs_top(logits, j->model->arch.vocab, k, j->top, &own);
    *chosen = own.logprob;
    return n;
}

/* One sampled token: finish rules, text, event. */
static void accept(Engine *e, Job *j, uint32_t token, const float *logits) {
    Err err = {0};
    Str matched = STR_NONE, piece = STR_NONE;
    bool stopped = false, eog = !j->p.ignore_eos && model_is_eog(j->model, token),
         grammar_done = false, ok = true;
    if (!j->first_token_ns) j->first_token_ns = os_now_ns();
    double logprob;
    size_t n_top = token_logprobs(j, logits, token, &logprob);
    if (j->p.mask_accept) ok = j->p.mask_accept(j->p.mask_ctx, token, &grammar_done, &err);
    if (!ok || (!eog && !token_text(j, token, &piece, &matched, &stopped, &err))) {
        emit_error(e, j, &err);
        return;
    }
    FinishStep step = {.token = token,
                       .is_eog = eog,
                       .stop_string = stopped,
                       .grammar_done = grammar_done,
                       .text = piece,
                       .n_past = (uint64_t)j->n_tokens + 1,
                       .elapsed_ms = (uint64_t)ms_between(j->first_token_ns, os_now_ns())};
    Finish f = finish_check(&j->rules, &j->finish, &step);
    if (f == FINISH_NONE || finish_keeps_token(f)) {
        sampler_accept(&j->sampler, token);
        if (j->keys) j->keys[j->n_tokens] = token;
        j->tokens[j->n_tokens++] = token;
        j->n_generated++;
        const EventToken ev = {
            .id = token, .bytes = piece, .logprob = logprob, .top = j->top, .n_top = n_top};
        if (!put_token(j, &ev)) f = FINISH_CANCELLED;
    }
    if (f != FINISH_NONE) emit_done(e, j, f, matched);
}

static void sample_row(Engine *e, Job *j) {
    Err err = {0};
    uint32_t token = 0;
    const uint64_t *mask = NULL;
    bool ok = !j->p.mask || (mask = j->p.mask(j->p.mask_ctx, &err)) != NULL;
    mem_guard_begin();
    ok = ok && sampler_sample(&j->sampler, &e->work, e->logits, mask, j->n_tokens, &token, &err);
    e->stats.n_guarded_allocs += mem_guard_end();
    if (ok)
        accept(e, j, token, e->logits);
    else
        emit_error(e, j, &err);
}

static bool read_logits(Engine *e, uint32_t row, Err *err) {
    const BackendApi *api = e->model->be->api;
    return api->read(e->exec, e->logits_output, row, 1, e->logits, err) &&
           api->wait(e->model->be, err);
}

static void score_rows(Engine *e, const Planned *p) {
    Job *j = p->job;
    Err err = {0};
    uint32_t at = j->cache.n_tokens - p->n_rows + p->out_from;
    for (uint32_t i = 0; i < p->n_out; i++) {
        bool ok = read_logits(e, p->first_out + i, &err);
        if (ok && !j->p.on_logits(j->p.on_logits_ctx, at + i, e->logits))
            ok = err_set(&err, ERR_CANCELLED, "cancelled");
        if (!ok) {
            emit_error(e, j, &err);
            return;
        }
    }
    if (p->n_out) j->n_scored = at + p->n_out;
    if (p->out_from + p->n_out < p->n_rows) { /* the same rows again, for the others' logits */
        seqcache_trim(&j->cache, j->cache.n_tokens - p->n_rows);
        return;
    }
    if (j->cache.n_tokens < j->n_tokens) return;
    j->first_token_ns = os_now_ns();
    if (j->rules.max_tokens == 0)
        emit_done(e, j, FINISH_BUDGET, STR_NONE);
    else
        sample_row(e, j);
}

static void progress(Job *j) {
    if (!j->p.sink.put) return;
    Event ev = {.kind = EVENT_PROGRESS,
                .request = j->p.request,
                .choice = j->p.choice,
                .n_done = j->cache.n_tokens,
                .n_total = j->n_prompt};
    if (!sink_put(&j->p.sink, &ev)) atomic_store(&j->own_cancel, true);
}

void emit_outputs(Engine *e) {
    for (uint32_t i = 0; i < e->n_plan; i++) {
        const Planned p = e->plan[i];
        Err err = {0};
        if (p.job->cache.n_tokens <= p.job->n_prompt && !p.job->n_generated) progress(p.job);
        if (p.job->cache.n_tokens == p.job->n_prompt && keeps_prefix(p.job))
            seqcache_store(&p.job->cache, job_cache_key(p.job), job_keys(p.job), p.job->n_prompt,
                           false);
        if (p.job->p.on_logits && !p.job->n_generated) {
            score_rows(e, &p);
        } else if (p.n_out) {
            /* The last of its rows: a job that scores on after its prompt wants only that one. */
            uint32_t row = p.first_out + p.n_out - 1;
            if (read_logits(e, row, &err))
                sample_row(e, p.job);
            else
                emit_error(e, p.job, &err);
        }
    }
}
