#include "chat/reply.h"

#include "json/json_writer.h"

typedef struct Collect {
    Arena *arena;
    Buf content, reasoning, args;
    ReplyCall *calls;
    size_t n, cap;
    Str name, id;
} Collect;

static bool call_add(Collect *c, Str id, Err *err) {
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 8;
        ReplyCall *calls = arena_array(c->arena, ReplyCall, cap);
        if (!calls) return err_nomem(err, "tool calls");
        for (size_t i = 0; i < c->n; i++) calls[i] = c->calls[i];
        c->calls = calls;
        c->cap = cap;
    }
    ReplyCall *call = &c->calls[c->n++];
    *call = (ReplyCall){.name = c->name,
                        .id = arena_dup(c->arena, id),
                        .arguments = arena_dup(c->arena, buf_str(&c->args))};
    if (!call->arguments.p || (id.n && !call->id.p)) return err_nomem(err, "a tool call");
    return true;
}

static bool on_event(void *arg, const ReplyEvent *ev, Err *err) {
    Collect *c = arg;
    switch (ev->kind) {
    case REPLY_CONTENT:
    case REPLY_CALL_FAIL:
        buf_put(&c->content, ev->text);
        break;
    case REPLY_REASONING:
        buf_put(&c->reasoning, ev->text);
        break;
    case REPLY_CALL_BEGIN:
        c->name = arena_dup(c->arena, ev->name);
        if (!c->name.p) return err_nomem(err, "a tool call's name");
        buf_clear(&c->args);
        break;
    case REPLY_CALL_ARGS:
        buf_put(&c->args, ev->text);
        break;
    case REPLY_CALL_END:
        if (!buf_check(&c->args, "the arguments of a tool call", err)) return false;
        return call_add(c, ev->id, err);
    }
    return buf_check(&c->content, "a reply", err) &&
           buf_check(&c->reasoning, "a reply's reasoning", err) &&
           buf_check(&c->args, "the arguments of a tool call", err);
}

static bool feed_all(Reply *r, Str text, size_t split, Err *err) {
    if (!split) split = text.n ? text.n : 1;
    for (; text.n; text = str_from(text, split))
        if (!reply_feed(r, str_slice(text, 0, split), err)) return false;
    return true;
}

static bool keep(Arena *a, const Buf *b, Str *out, Err *err) {
    *out = arena_dup(a, str_trim(buf_str(b)));
    return out->p || !out->n || err_nomem(err, "a reply");
}

bool reply_collect(const ReplyOptions *opt, Str text, ReplyFinish finish, size_t split, Arena *a,
                   ReplyMessage *out, Err *err) {
    Collect c = {.arena = a};
    ReplyOptions mine = *opt;
    mine.sink = on_event;
    mine.arg = &c;
    *out = (ReplyMessage){0};
    Reply *r = reply_new(&mine, err);
    bool ok = r && feed_all(r, text, split, err) && reply_finish(r, finish, err) &&
              keep(a, &c.content, &out->content, err) &&
              keep(a, &c.reasoning, &out->reasoning, err);
    if (ok) {
        out->calls = c.calls;
        out->n_calls = c.n;
    }
    reply_free(r);
    buf_deinit(&c.content);
    buf_deinit(&c.reasoning);
    buf_deinit(&c.args);
    return ok;
}

/* Arguments as a value: of a name given twice the last one counts, as in every client that
 * parses them. */
static bool call_write(JsonWriter *w, const ReplyCall *call, Arena *a, Err *err) {
    Json *args;
    JsonOptions o = {.max_depth = 512, .dup = JSON_DUP_LAST};
    if (!json_parse(call->arguments, &o, a, &args, err))
        return err_wrap(err, "arguments of a tool call");
    json_w_object(w);
    json_w_key(w, STR("name"));
    json_w_str(w, call->name);
    json_w_key(w, STR("arguments"));
    json_w_tree(w, args);
    if (call->id.n) {
        json_w_key(w, STR("id"));
        json_w_str(w, call->id);
    }
    json_w_end(w);
    return true;
}

static bool message_write(Buf *out, const ReplyMessage *m, Arena *a, Err *err) {
    JsonWriter w = {.out = out};
    json_w_object(&w);
    json_w_key(&w, STR("content"));
    json_w_str(&w, m->content);
    json_w_key(&w, STR("reasoning"));
    json_w_str(&w, m->reasoning);
    json_w_key(&w, STR("tool_calls"));
    json_w_array(&w);
    for (size_t i = 0; i < m->n_calls; i++)
        if (!call_write(&w, &m->calls[i], a, err)) return false;
    json_w_end(&w);
    json_w_end(&w);
    return buf_check(out, "the answer line", err);
}

static bool optional_str(const Json *line, const char *key, Str *out, Err *err) {
    const Json *v = json_get(line, key);
    if (!v || v->type == JSON_NULL || json_str(v, out)) return true;
    return err_set(err, ERR_INPUT, "\"%s\" is %s, a string is accepted", key,
                   jsontype_name(v->type));
}

static bool line_read(const Json *line, ReplyOptions *opt, Str *text, ReplyFinish *finish,
                      Err *err) {
    Str why = STR("stop");
    if (!json_is(line, JSON_OBJECT))
        return err_set(err, ERR_INPUT, "the line is %s, an object {\"text\", ...} is accepted",
                       jsontype_name(line->type));
    if (!json_str(json_get(line, "text"), text))
        return err_set(err, ERR_INPUT, "\"text\" is missing or not a string");
    if (!optional_str(line, "prompt_tail", &opt->prompt_tail, err) ||
        !optional_str(line, "finish", &why, err))
        return false;
    if (!str_eqc(why, "stop") && !str_eqc(why, "length"))
        return err_set(err, ERR_INPUT,
                       "\"finish\" is \"" STR_F "\", \"stop\" and \"length\" are accepted",
                       STR_A(why));
    *finish = str_eqc(why, "stop") ? REPLY_STOP : REPLY_LENGTH;
    opt->tools = json_get(line, "tools");
    opt->calls = opt->tools ? REPLY_CALLS_AUTO : REPLY_CALLS_ON;
    if (opt->tools && opt->tools->type != JSON_ARRAY && opt->tools->type != JSON_NULL)
        return err_set(err, ERR_INPUT, "\"tools\" is %s, an array is accepted",
                       jsontype_name(opt->tools->type));
    return true;
}

bool reply_parse_line(Str format, Str reasoning, size_t split, Str line, Buf *out, Err *err) {
    Arena a = {0};
    Json *doc;
    Str text;
    ReplyFinish finish = REPLY_STOP;
    ReplyMessage m;
    JsonOptions o = {.max_depth = 512, .dup = JSON_DUP_LAST};
    ReplyOptions opt = {.format = format, .reasoning = reasoning};
    bool ok = json_parse(line, &o, &a, &doc, err) && line_read(doc, &opt, &text, &finish, err) &&
              reply_collect(&opt, text, finish, split, &a, &m, err) &&
              message_write(out, &m, &a, err);
    arena_deinit(&a);
    return ok;
}
