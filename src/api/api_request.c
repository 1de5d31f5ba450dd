/* Requests of mlxcel.h, but for their media (api_media.c). */
#include "api/api_request.h"

#include <string.h>

#include "base/mem.h"

bool mlxcel_request_new(mlxcel_engine *engine, const uint32_t *ids, size_t n_ids,
                        mlxcel_request **out, mlxcel_error *error) {
    Err err = {0};
    mlxcel_request *r = mem_calloc(1, sizeof *r);
    if (!r) return err_nomem(&err, "request"), api_fail(error, &err);
    r->engine = engine;
    uint32_t *copy = arena_array(&r->arena, uint32_t, n_ids);
    if (!copy) {
        mem_free(r);
        return err_nomem(&err, "request"), api_fail(error, &err);
    }
    if (n_ids) memcpy(copy, ids, n_ids * sizeof *ids);
    r->p = (JobParams){.tokens = copy,
                       .n_tokens = n_ids,
                       .n_predict = -1,
                       .sample = params_cli(),
                       .cancel = &r->cancel};
    *out = r;
    return true;
}

static bool parse_bool(Str v, bool *out) {
    static const char *const TRUE[] = {"true", "1", "on", "enabled"}, *const FALSE[] = {"false",
                                                                                        "0", "off",
                                                                                        "disabled"};
    for (int i = 0; i < 4; i++) {
        if (str_ieq(v, str_c(TRUE[i]))) return *out = true, true;
        if (str_ieq(v, str_c(FALSE[i]))) return *out = false, true;
    }
    return false;
}

static bool set_bool(const char *name, Str v, bool *out, Err *err) {
    return parse_bool(v, out) ||
           err_set(err, ERR_INPUT, "%s is \"" STR_F "\"; true or false is accepted", name,
                   STR_A(v));
}

static bool set(mlxcel_request *r, const char *name, Str v, Err *err) {
    bool flag;
    Str key = str_c(name);
    if (str_eqc(key, "n_predict") || str_eqc(key, "max_tokens")) {
        int64_t n;
        if (!str_to_i64(v, &n) || n < -1)
            return err_set(err, ERR_INPUT,
                           "%s is \"" STR_F "\"; -1 or a number of tokens is accepted", name,
                           STR_A(v));
        r->p.n_predict = n;
        return true;
    }
    if (str_eqc(key, "ignore_eos")) return set_bool(name, v, &r->p.ignore_eos, err);
    if (str_eqc(key, "samplers")) return params_set_samplers(&r->p.sample, v, err);
    if (str_eqc(key, "cache_prompt")) {
        if (!set_bool(name, v, &flag, err)) return false;
        r->p.no_cache = !flag;
        return true;
    }
    if (str_eqc(key, "use_generation_config")) {
        if (!set_bool(name, v, &flag, err)) return false;
        return !flag || model_sample_defaults(r->engine->model->m, &r->p.sample, err);
    }
    return params_set_text(&r->p.sample, key, v, err);
}

bool mlxcel_request_set(mlxcel_request *r, const char *name, const char *value,
                        mlxcel_error *error) {
    Err err = {0};
    return set(r, name, str_c(value), &err) || api_fail(error, &err);
}

bool mlxcel_parameter_check(const char *name, const char *value, mlxcel_error *error) {
    Err err = {0};
    mlxcel_model model = {0};
    mlxcel_engine engine = {.model = &model};
    mlxcel_request r = {.engine = &engine, .p = {.sample = params_cli()}};
    Str key = str_c(name);
    if (str_eqc(key, "use_generation_config")) {
        bool flag;
        return set_bool(name, str_c(value), &flag, &err) || api_fail(error, &err);
    }
    return set(&r, name, str_c(value), &err) || api_fail(error, &err);
}

/* Room for one more element in an arena list that doubles. */
static void *list_room(Arena *a, void *list, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return list;
    size_t bigger = *cap ? *cap * 2 : 8;
    void *p = arena_alloc_n(a, bigger, size);
    if (!p) return NULL;
    if (n) memcpy(p, list, n * size);
    *cap = bigger;
    return p;
}

bool mlxcel_request_stop(mlxcel_request *r, const char *stop_string, mlxcel_error *error) {
    Err err = {0};
    Str *list = list_room(&r->arena, r->stops, r->p.n_stop, &r->stops_cap, sizeof *list);
    Str copy = arena_dup(&r->arena, str_c(stop_string));
    if (!list || !copy.p) return err_nomem(&err, "stop string"), api_fail(error, &err);
    r->stops = list;
    list[r->p.n_stop++] = copy;
    r->p.stop = list;
    return true;
}

bool mlxcel_request_bias(mlxcel_request *r, uint32_t token, float bias, mlxcel_error *error) {
    Err err = {0};
    LogitBias *list = list_room(&r->arena, r->bias, r->p.sample.n_bias, &r->bias_cap, sizeof *list);
    if (!list) return err_nomem(&err, "logit bias"), api_fail(error, &err);
    r->bias = list;
    list[r->p.sample.n_bias++] = (LogitBias){token, bias};
    r->p.sample.bias = list;
    return true;
}

bool mlxcel_request_dry_breakers(mlxcel_request *r, const char *const *breakers, size_t n,
                                 mlxcel_error *error) {
    Err err = {0};
    Str *list = arena_array(&r->arena, Str, n);
    for (size_t i = 0; list && i < n; i++) {
        list[i] = arena_dup(&r->arena, str_c(breakers[i]));
        if (!list[i].p) list = NULL;
    }
    if (!list) return err_nomem(&err, "sequence breakers"), api_fail(error, &err);
    r->p.sample.dry_breakers = list;
    r->p.sample.n_dry_breakers = n;
    return true;
}

bool mlxcel_request_grammar(mlxcel_request *r, const char *kind, const char *source,
                            mlxcel_error *error) {
    Err err = {0};
    api_grammar_free(r->grammar);
    r->grammar = NULL;
    return api_grammar_new(r->engine->model, kind, str_c(source), &r->p, &r->grammar, &err) ||
           api_fail(error, &err);
}

void mlxcel_request_logits(mlxcel_request *r, mlxcel_logits_fn *fn, void *ctx) {
    r->logits_fn = fn;
    r->logits_ctx = ctx;
    r->p.n_predict = 0;
}

static mlxcel_timings timings_of(const EventTimings *t) {
    return (mlxcel_timings){.prompt_n = t->n_prompt,
                            .cached_n = t->n_cached,
                            .predicted_n = t->n_generated,
                            .prompt_ms = t->prompt_ms,
                            .predicted_ms = t->generated_ms,
                            .ttft_ms = t->first_token_ms,
                            .draft_n = t->n_drafted,
                            .draft_n_accepted = t->n_draft_accepted,
                            .draft_rounds = t->n_draft_rounds};
}

_Static_assert(sizeof(mlxcel_logprob) == sizeof(TokenLogprob), "lists of the two are exchanged");

static bool on_event(void *ctx, const Event *e) {
    mlxcel_request *r = ctx;
    if (e->kind == EVENT_DONE || e->kind == EVENT_ERROR) r->done = true;
    if (e->kind == EVENT_ERROR) {
        r->err = *e->err;
        return false;
    }
    if (!r->fn) return true;
    mlxcel_event out = {.text = e->text.n ? e->text.p : "",
                        .text_bytes = e->text.n,
                        .n_done = e->n_done,
                        .n_total = e->n_total};
    if (e->kind == EVENT_DONE) {
        char stop[STOP_BYTES_MAX + 1];
        memcpy(stop, e->stop_string.p ? e->stop_string.p : "", e->stop_string.n);
        stop[e->stop_string.n] = 0;
        out.kind = MLXCEL_EVENT_DONE;
        out.finish_reason = finish_name(e->finish);
        out.finish_detail = finish_describe(e->finish);
        out.stop_string = e->stop_string.n ? stop : NULL;
        out.timings = timings_of(e->timings);
        return r->fn(r->ctx, &out);
    }
    out.kind = e->kind == EVENT_TEXT ? MLXCEL_EVENT_TEXT : MLXCEL_EVENT_PROGRESS;
    if (e->n_tokens) {
        const EventToken *t = &e->tokens[0];
        out.has_token = true;
        out.token = t->id;
        out.logprob = t->logprob;
        out.top = (const mlxcel_logprob *)(const void *)t->top;
        out.n_top = t->n_top;
    }
    return r->fn(r->ctx, &out);
}

static bool on_logits(void *ctx, uint32_t position, const float *logits) {
    mlxcel_request *r = ctx;
    return r->logits_fn(r->logits_ctx, position, logits);
}

bool mlxcel_request_submit(mlxcel_request *r, mlxcel_event_fn *fn, void *ctx, mlxcel_error *error) {
    Err err = {0};
    Job *job;
    if (r->submitted)
        return err_set(&err, ERR_INPUT, "the request was submitted before"), api_fail(error, &err);
    r->fn = fn;
    r->ctx = ctx;
    r->p.sink = (Sink){on_event, r};
    if (r->logits_fn) {
        r->p.on_logits = on_logits;
        r->p.on_logits_ctx = r;
    }
    params_fix_seed(&r->p.sample);
    if (!api_media_start(r, &err) ||
        !job_new(r->engine->model->m, engine_n_ctx(r->engine->e), &r->p, &job, &err))
        return api_fail(error, &err);
    r->submitted = true;
    api_media_drop_inputs(r);
    engine_submit(r->engine->e, job);
    return true;
}

bool mlxcel_request_is_done(const mlxcel_request *r) { return r->done; }

bool mlxcel_request_result(const mlxcel_request *r, mlxcel_error *error) {
    Err err = {0};
    if (!r->done) return err_set(&err, ERR_BUSY, "the request is not done"), api_fail(error, &err);
    return r->err.kind == ERR_NONE || api_fail(error, &r->err);
}

bool mlxcel_request_run(mlxcel_request *r, mlxcel_event_fn *fn, void *ctx, mlxcel_error *error) {
    if (!mlxcel_request_submit(r, fn, ctx, error)) return false;
    while (!r->done && engine_step(r->engine->e)) {
    }
    return mlxcel_request_result(r, error);
}

void mlxcel_request_cancel(mlxcel_request *r) { atomic_store(&r->cancel, true); }

void mlxcel_request_free(mlxcel_request *r) {
    if (!r) return;
    if (r->submitted && !r->done) {
        r->fn = NULL;
        mlxcel_request_cancel(r);
        while (!r->done && engine_step(r->engine->e)) {
        }
    }
    api_grammar_free(r->grammar);
    api_media_drop_inputs(r);
    media_free(r->p.media);
    arena_deinit(&r->arena);
    mem_free(r);
}
