#include "chat/chat.h"

#include "chat/chat_adapt.h"

/* Roles that templates may spell control tokens with ("<|" + role + "|>"). Any other role is the
 * user's text. */
const Str chat_roles[] = {{"system", 6},       {"user", 4},           {"assistant", 9},
                          {"tool", 4},         {"developer", 9},      {"function", 8},
                          {"ipython", 7},      {"observation", 11},   {"model", 5},
                          {"environment", 11}, {"tool_response", 13}, {"tool_call", 9},
                          {"context", 7},      {"document", 8},       {"critic", 6}};
const size_t chat_n_roles = sizeof chat_roles / sizeof *chat_roles;

static const Json json_null_value = {.type = JSON_NULL};
static const Json json_yes = {.type = JSON_TRUE}, json_no = {.type = JSON_FALSE};

static bool is_reserved(Str key) {
    return str_eqc(key, "messages") || str_eqc(key, "tools") || str_eqc(key, "documents") ||
           str_eqc(key, "add_generation_prompt");
}

bool chat_request_from_context(const Json *context, Arena *a, ChatRequest *req, Err *err) {
    if (!json_is(context, JSON_OBJECT))
        return err_set(err, ERR_INPUT, "a chat context must be an object, not %s",
                       context ? jsontype_name(context->type) : "nothing");
    Json *extra = arena_new(a, Json);
    if (!extra || !(extra->items = arena_array(a, Json, context->n + 1)))
        return err_nomem(err, "a chat context");
    extra->type = JSON_OBJECT;
    for (size_t i = 0; i < context->n; i++)
        if (!is_reserved(context->items[i].key)) extra->items[extra->n++] = context->items[i];
    *req = (ChatRequest){.messages = json_get(context, "messages"),
                         .tools = json_get(context, "tools"),
                         .documents = json_get(context, "documents"),
                         .extra = extra};
    const Json *flag = json_get(context, "add_generation_prompt");
    if (flag && flag->type != JSON_NULL && !json_bool(flag, &req->add_generation_prompt))
        return err_set(err, ERR_INPUT, "add_generation_prompt is %s, true or false is accepted",
                       jsontype_name(flag->type));
    return true;
}

bool chat_render_vars(const ChatTemplate *t, const ChatEntry *entry, const ChatRequest *req,
                      const Json *messages, JinjaOutput *out, Err *err) {
    JinjaVar vars[CHAT_MAX_TOKENS + 4];
    size_t n = 0;
    if (!req->raw) {
        for (size_t i = 0; i < t->n_tokens; i++) {
            if (json_find(req->extra, t->tokens[i].name)) continue; /* the request's own wins */
            vars[n++] = t->tokens[i];
        }
        if (messages) vars[n++] = (JinjaVar){.name = STR("messages"), .value = messages};
        vars[n++] =
            (JinjaVar){.name = STR("tools"), .value = req->tools ? req->tools : &json_null_value};
        vars[n++] = (JinjaVar){.name = STR("documents"),
                               .value = req->documents ? req->documents : &json_null_value};
        vars[n++] = (JinjaVar){.name = STR("add_generation_prompt"),
                               .value = req->add_generation_prompt ? &json_yes : &json_no};
    }
    JinjaInput in = {.context = req->extra,
                     .vars = vars,
                     .n_vars = n,
                     .now = req->now,
                     .trusted_roles = chat_roles,
                     .n_trusted_roles = chat_n_roles};
    return jinja_render(entry->jinja, &in, out, err);
}

static bool given(const Json *j) { return j && j->type != JSON_NULL; }

static bool choose(const ChatTemplate *t, const ChatRequest *req, const ChatEntry **out, Err *err) {
    if (req->template_name.n) {
        *out = chat_entry_find(t, req->template_name);
        return *out ||
               err_set(err, ERR_NOT_FOUND, "the model has no chat template named '" STR_F "'",
                       STR_A(req->template_name));
    }
    const ChatEntry *e = NULL;
    if (given(req->tools)) e = chat_entry_find(t, STR("tool_use"));
    if (!e && given(req->documents)) e = chat_entry_find(t, STR("rag"));
    if (!e) e = chat_entry_find(t, STR("default"));
    if (!e && t->n_entries == 1) e = &t->entries[0];
    *out = e;
    return e ||
           err_set(
               err, ERR_INPUT,
               "the model has several chat templates and none named default; choose one by name");
}

/* The text that the last message ends with: its content, or its last text part. */
static bool final_text(const Json *messages, Str *out) {
    if (!json_is(messages, JSON_ARRAY) || !messages->n) return false;
    const Json *content = json_get(&messages->items[messages->n - 1], "content");
    if (json_str(content, out)) return true;
    for (size_t i = json_is(content, JSON_ARRAY) ? content->n : 0; i-- > 0;)
        if (json_str(json_get(&content->items[i], "text"), out)) return true;
    return false;
}

static void output_cut(JinjaOutput *out, size_t n) {
    size_t at = 0, keep = 0;
    for (size_t i = 0; i < out->n_spans && at < n; i++) {
        size_t len = out->spans[i].text.n;
        if (len > n - at) out->spans[i].text.n = n - at;
        at += len;
        keep = i + 1;
    }
    out->n_spans = keep;
    out->text.n = n;
}

/* Ends the prompt where the last message's text ends. */
static bool cut_final(const Json *messages, JinjaOutput *out, Err *err) {
    Str text;
    if (!final_text(messages, &text))
        return err_set(err, ERR_INPUT,
                       "continue_final_message: the last message has no text to continue");
    Str trimmed = str_trim(text), all = buf_str(&out->text);
    size_t at = str_rfind(all, trimmed), lead = 0;
    if (at == STR_NPOS)
        return err_set(
            err, ERR_INPUT,
            "continue_final_message: the template does not keep the last message's text as it is");
    while (lead < text.n && text.p + lead != trimmed.p) lead++;
    Str with_tail = str_from(text, trimmed.n ? lead : 0);
    bool keeps_tail = str_starts(str_from(all, at), with_tail);
    output_cut(out, at + (keeps_tail ? with_tail.n : trimmed.n));
    return true;
}

bool chat_render(const ChatTemplate *t, const ChatRequest *req, ChatPrompt *out, Err *err) {
    Arena a = {0};
    const Json *messages = req->messages;
    const ChatEntry *entry;
    bool ok = false;
    *out = (ChatPrompt){0};
    if (req->continue_final_message && req->add_generation_prompt)
        return err_set(err, ERR_INPUT,
                       "continue_final_message and add_generation_prompt exclude each other");
    if (!choose(t, req, &entry, err)) return false;
    if (!req->raw && req->adapt && !chat_adapt_messages(&t->caps, messages, &a, &messages, err))
        goto done;
    if (!chat_render_vars(t, entry, req, messages, &out->out, err)) goto done;
    ok = !req->continue_final_message || cut_final(messages, &out->out, err);
done:
    arena_deinit(&a);
    return ok;
}

void chat_prompt_deinit(ChatPrompt *p) { jinja_output_deinit(&p->out); }
