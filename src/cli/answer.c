#include "cli/answer.h"

#include <string.h>

#include "base/mem.h"
#include "cli/term.h"

void answer_deinit(Answer *a) {
    buf_deinit(&a->text);
    buf_deinit(&a->content);
    buf_deinit(&a->reasoning);
    buf_deinit(&a->logprobs);
    mem_free(a->ids);
    mlxcel_reply_free(a->reply);
    a->reply = NULL;
}

static void show(Answer *a, Str s) {
    if (a->quiet || !s.n) return;
    out_put(s);
    a->ended_line = s.p[s.n - 1] == '\n';
}

static void set_reasoning(Answer *a, bool on) {
    if (a->in_reasoning == on) return;
    a->in_reasoning = on;
    if (a->quiet || !a->show_reasoning) return;
    if (term_colors()) out_put(on ? STR("\033[2m") : STR("\033[0m"));
    if (!on) show(a, a->ended_line ? STR("\n") : STR("\n\n"));
}

/* Blanks before the first word are layout of the model's format, not part of what is shown. */
static Str without_lead(const Buf *before, Str s) {
    while (before->n == 0 && s.n && strchr(" \t\r\n", s.p[0])) s = str_from(s, 1);
    return s;
}

static bool on_reply(void *ctx, mlxcel_reply_kind kind, int call, const char *text, size_t n) {
    Answer *a = ctx;
    Str s = {text, n};
    (void)call; /* no tools are offered, so there are no calls */
    if (kind == MLXCEL_REPLY_REASONING) {
        s = without_lead(&a->reasoning, s);
        buf_put(&a->reasoning, s);
        set_reasoning(a, true);
        if (a->show_reasoning) show(a, s);
    } else {
        s = without_lead(&a->content, s);
        if (!s.n) return true;
        set_reasoning(a, false);
        buf_put(&a->content, s);
        show(a, s);
    }
    return true;
}

static bool add_id(Answer *a, uint32_t id) {
    if (a->n_ids == a->cap_ids) {
        size_t cap = a->cap_ids ? a->cap_ids * 2 : 256;
        uint32_t *more = mem_resize_array(a->ids, cap, sizeof *more);
        if (!more) return false;
        a->ids = more;
        a->cap_ids = cap;
    }
    a->ids[a->n_ids++] = id;
    return true;
}

static void put_token(const Gen *g, JsonWriter *w, uint32_t id, double logprob) {
    mlxcel_string *s;
    json_w_key(w, STR("id"));
    json_w_u64(w, id);
    json_w_key(w, STR("token"));
    if (mlxcel_model_has_tokenizer(g->model) &&
        mlxcel_model_decode(g->model, &id, 1, false, &s, NULL)) {
        json_w_str(w, (Str){mlxcel_string_text(s), mlxcel_string_size(s)});
        mlxcel_string_free(s);
    } else {
        json_w_null(w);
    }
    json_w_key(w, STR("logprob"));
    json_w_f64(w, logprob);
}

static void add_logprobs(Answer *a, const mlxcel_event *e) {
    JsonWriter w = {.out = &a->logprobs};
    if (a->logprobs.n) buf_putc(&a->logprobs, ',');
    json_w_object(&w);
    put_token(a->g, &w, e->token, e->logprob);
    json_w_key(&w, STR("top_logprobs"));
    json_w_array(&w);
    for (size_t i = 0; i < e->n_top; i++) {
        json_w_object(&w);
        put_token(a->g, &w, e->top[i].token, e->top[i].logprob);
        json_w_end(&w);
    }
    json_w_end(&w);
    json_w_end(&w);
}

static bool take_text(Answer *a, Str s) {
    buf_put(&a->text, s);
    if (!a->reply) {
        show(a, s);
        return true;
    }
    return mlxcel_reply_feed(a->reply, s.p, s.n, NULL);
}

static bool on_event(void *ctx, const mlxcel_event *e) {
    Answer *a = ctx;
    if (e->kind == MLXCEL_EVENT_PROGRESS) return true;
    if (e->has_token) {
        a->failed |= !add_id(a, e->token);
        if (a->quiet && args_has(a->g->args, "logprobs")) add_logprobs(a, e);
    }
    a->failed |= !take_text(a, (Str){e->text, e->text_bytes});
    if (e->kind == MLXCEL_EVENT_DONE) {
        a->finish_reason = e->finish_reason;
        a->finish_detail = e->finish_detail;
        a->timings = e->timings;
        if (a->reply)
            a->failed |=
                !mlxcel_reply_finish(a->reply, strcmp(e->finish_reason, "length") == 0, NULL);
        set_reasoning(a, false);
        return true;
    }
    if (a->quiet) return !a->failed;
    return out_flush() && !a->failed;
}

int answer_run(Gen *g, mlxcel_request *r, const mlxcel_prompt *prompt, bool split, Answer *a) {
    mlxcel_error why = {0};
    a->g = g;
    a->ended_line = true;
    if (split && !mlxcel_reply_new(g->model, prompt, NULL, on_reply, a, &a->reply, &why))
        return cli_fail(&why);
    bool profile = args_flag(g->args, "profile");
    if (profile) mlxcel_engine_profile(g->engine, true);
    interrupt_watch(r);
    bool ok = mlxcel_request_run(r, on_event, a, &why);
    interrupt_watch(NULL);
    if (!ok) return cli_fail(&why);
    if (a->failed || a->text.failed || a->logprobs.failed)
        return cli_fail(
            &(mlxcel_error){.kind = MLXCEL_NOMEM, .message = "out of memory for the answer"});
    if (!a->quiet && !a->ended_line) out_put(STR("\n"));
    if (profile) gen_profile(g, &a->timings);
    out_flush();
    return CLI_OK;
}

static void put_num(JsonWriter *w, const char *key, double v) {
    json_w_key(w, str_c(key));
    json_w_f64(w, v);
}

static void put_int(JsonWriter *w, const char *key, uint64_t v) {
    json_w_key(w, str_c(key));
    json_w_u64(w, v);
}

static void put_timings(const Gen *g, JsonWriter *w, const mlxcel_timings *t) {
    json_w_key(w, STR("timings"));
    json_w_object(w);
    put_int(w, "prompt_n", t->prompt_n);
    put_int(w, "cached_n", t->cached_n);
    put_num(w, "prompt_ms", t->prompt_ms);
    put_num(w, "prompt_per_second", gen_prompt_rate(t));
    put_int(w, "predicted_n", t->predicted_n);
    put_num(w, "predicted_ms", t->predicted_ms);
    put_num(w, "predicted_per_second", gen_answer_rate(t));
    put_num(w, "load_ms", mlxcel_model_load_ms(g->model));
    put_num(w, "ttft_ms", t->ttft_ms);
    put_int(w, "draft_n", t->draft_n);
    put_int(w, "draft_n_accepted", t->draft_n_accepted);
    put_int(w, "draft_rounds", t->draft_rounds);
    json_w_end(w);
}

static void put_ids(JsonWriter *w, const char *key, const uint32_t *ids, size_t n) {
    json_w_key(w, str_c(key));
    json_w_array(w);
    for (size_t i = 0; i < n; i++) json_w_u64(w, ids[i]);
    json_w_end(w);
}

void answer_json(const Gen *g, const Answer *a, Buf *json) {
    JsonWriter w = {.out = json};
    Buf list = {0};
    json_w_object(&w);
    json_w_key(&w, STR("text"));
    json_w_str(&w, buf_str(&a->text));
    if (g->is_chat) {
        json_w_key(&w, STR("content"));
        json_w_str(&w, buf_str(&a->content));
        json_w_key(&w, STR("reasoning"));
        json_w_str(&w, buf_str(&a->reasoning));
    }
    put_ids(&w, "ids", a->ids, a->n_ids);
    put_ids(&w, "prompt_ids", g->ids, g->n_ids);
    json_w_key(&w, STR("finish_reason"));
    json_w_str(&w, str_c(a->finish_reason));
    json_w_key(&w, STR("finish_detail"));
    json_w_str(&w, str_c(a->finish_detail));
    buf_putc(&list, '[');
    buf_put(&list, buf_str(&a->logprobs));
    buf_putc(&list, ']');
    json_w_key(&w, STR("logprobs"));
    json_w_raw(&w, buf_str(&list));
    put_timings(g, &w, &a->timings);
    json_w_end(&w);
    buf_putc(json, '\n');
    json->failed |= list.failed;
    buf_deinit(&list);
}
