/* Replies of mlxcel.h: chat/reply.h with the format found from the model's own template. */
#include "api/api.h"
#include "base/mem.h"
#include "chat/reply.h"

struct mlxcel_reply {
    Reply *reply;
    Arena arena;
    mlxcel_reply_fn *fn;
    void *ctx;
};

static bool on_reply(void *arg, const ReplyEvent *ev, Err *err) {
    static const mlxcel_reply_kind KINDS[] = {
        [REPLY_CONTENT] = MLXCEL_REPLY_CONTENT,   [REPLY_REASONING] = MLXCEL_REPLY_REASONING,
        [REPLY_CALL_BEGIN] = MLXCEL_REPLY_CALL,   [REPLY_CALL_ARGS] = MLXCEL_REPLY_ARGUMENTS,
        [REPLY_CALL_END] = MLXCEL_REPLY_CALL_END, [REPLY_CALL_FAIL] = MLXCEL_REPLY_CALL_FAILED};
    mlxcel_reply *r = arg;
    Str text = ev->kind == REPLY_CALL_BEGIN ? ev->name : ev->text;
    return r->fn(r->ctx, KINDS[ev->kind], ev->index, text.n ? text.p : "", text.n) ||
           err_set(err, ERR_CANCELLED, "cancelled");
}

static bool reply_open(mlxcel_reply *r, const mlxcel_model *model, const mlxcel_prompt *prompt,
                       Str tools, Err *err) {
    const ChatTemplate *t;
    ReplyOptions opt = {.sink = on_reply, .arg = r};
    if (!api_model_chat(model, &t, err)) return false;
    ReplyDetected found = reply_detect(chat_template_source(t, STR_NONE));
    opt.format = found.format;
    opt.reasoning = found.reasoning;
    if (prompt) opt.prompt_tail = str_c(mlxcel_prompt_text(prompt));
    if (tools.n) {
        Json *list;
        if (!json_parse(tools, NULL, &r->arena, &list, err)) return err_wrap(err, "tools");
        opt.tools = list;
    }
    r->reply = reply_new(&opt, err);
    return r->reply != NULL;
}

bool mlxcel_reply_new(const mlxcel_model *model, const mlxcel_prompt *prompt, const char *tools,
                      mlxcel_reply_fn *fn, void *ctx, mlxcel_reply **out, mlxcel_error *error) {
    Err err = {0};
    mlxcel_reply *r = mem_calloc(1, sizeof *r);
    bool ok = r || err_nomem(&err, "reply");
    if (ok) {
        r->fn = fn;
        r->ctx = ctx;
        ok = reply_open(r, model, prompt, str_c(tools), &err);
    }
    if (ok) return *out = r, true;
    mlxcel_reply_free(r);
    return api_fail(error, &err);
}

bool mlxcel_reply_feed(mlxcel_reply *r, const char *text, size_t n_bytes, mlxcel_error *error) {
    Err err = {0};
    return reply_feed(r->reply, (Str){text, n_bytes}, &err) || api_fail(error, &err);
}

bool mlxcel_reply_finish(mlxcel_reply *r, bool cut, mlxcel_error *error) {
    Err err = {0};
    return reply_finish(r->reply, cut ? REPLY_LENGTH : REPLY_STOP, &err) || api_fail(error, &err);
}

void mlxcel_reply_free(mlxcel_reply *r) {
    if (!r) return;
    if (r->reply) reply_free(r->reply);
    arena_deinit(&r->arena);
    mem_free(r);
}
