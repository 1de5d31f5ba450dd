/* Prompts of mlxcel.h: chat messages and plain text to token ids; ids to text. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"

struct mlxcel_prompt {
    TokIds ids, types; /* types: of a pair */
    Buf text;
};

void mlxcel_prompt_free(mlxcel_prompt *p) {
    if (!p) return;
    tokids_deinit(&p->ids);
    tokids_deinit(&p->types);
    buf_deinit(&p->text);
    mem_free(p);
}

const uint32_t *mlxcel_prompt_ids(const mlxcel_prompt *p) { return p->ids.p; }
size_t mlxcel_prompt_n_ids(const mlxcel_prompt *p) { return p->ids.n; }
const char *mlxcel_prompt_text(const mlxcel_prompt *p) { return p->text.p; }

static bool encode(mlxcel_prompt *p, const Tokenizer *t, const TokSpan *spans, size_t n,
                   bool add_special, Err *err) {
    for (size_t i = 0; i < n; i++) buf_put(&p->text, spans[i].text);
    buf_cstr(&p->text);
    return buf_check(&p->text, "the prompt's text", err) &&
           tokenizer_encode(t, spans, n, add_special, &p->ids, err);
}

bool mlxcel_text_prompt(const mlxcel_model *model, const char *text, size_t n_bytes,
                        bool add_special, bool parse_special, mlxcel_prompt **out,
                        mlxcel_error *error) {
    Err err = {0};
    const TokSpan span = {{text, n_bytes}, parse_special};
    mlxcel_prompt *p = mem_calloc(1, sizeof *p);
    bool ok = (p || err_nomem(&err, "prompt")) && model_need_tokenizer(model->m, &err) &&
              encode(p, model->m->tok, &span, 1, add_special, &err);
    if (ok) return *out = p, true;
    mlxcel_prompt_free(p);
    return api_fail(error, &err);
}

bool mlxcel_pair_prompt(const mlxcel_model *model, const char *query, size_t query_bytes,
                        const char *document, size_t document_bytes, mlxcel_prompt **out,
                        mlxcel_error *error) {
    Err err = {0};
    mlxcel_prompt *p = mem_calloc(1, sizeof *p);
    bool ok = (p || err_nomem(&err, "prompt")) && model_need_tokenizer(model->m, &err) &&
              tokenizer_encode_pair(model->m->tok, (Str){query, query_bytes},
                                    (Str){document, document_bytes}, &p->ids, &p->types, &err);
    if (ok) buf_cstr(&p->text);
    ok = ok && buf_check(&p->text, "the prompt's text", &err);
    if (ok) return *out = p, true;
    mlxcel_prompt_free(p);
    return api_fail(error, &err);
}

const uint32_t *mlxcel_prompt_types(const mlxcel_prompt *p) { return p->types.p; }

/* What a chat prompt is made of; options may name all that chat.h's request has. */
typedef struct Ask {
    ChatRequest req;
    Str chat_template;
} Ask;

static bool take_bool(const Json *o, const char *key, bool *out, Err *err) {
    const Json *v = json_get(o, key);
    if (!v || v->type == JSON_NULL || json_bool(v, out)) return true;
    return err_set(err, ERR_INPUT, "%s is %s, true or false is accepted", key,
                   jsontype_name(v->type));
}

static bool take_str(const Json *o, const char *key, Str *out, Err *err) {
    const Json *v = json_get(o, key);
    if (!v || v->type == JSON_NULL || json_str(v, out)) return true;
    return err_set(err, ERR_INPUT, "%s is %s, text is accepted", key, jsontype_name(v->type));
}

static bool take_of_type(const Json *o, const char *key, JsonType type, const Json **out,
                         Err *err) {
    const Json *v = json_get(o, key);
    *out = v && v->type != JSON_NULL ? v : NULL;
    return !*out || v->type == type ||
           err_set(err, ERR_INPUT, "%s is %s, %s is accepted", key, jsontype_name(v->type),
                   jsontype_name(type));
}

static bool read_options(Str text, Arena *a, Ask *ask, Err *err) {
    Json *o;
    Str now = STR_NONE;
    if (!json_parse(text, NULL, a, &o, err)) return err_wrap(err, "chat options");
    if (!json_is(o, JSON_OBJECT))
        return err_set(err, ERR_INPUT, "chat options are %s, an object is accepted",
                       jsontype_name(o->type));
    ChatRequest *r = &ask->req;
    if (!take_of_type(o, "tools", JSON_ARRAY, &r->tools, err) ||
        !take_of_type(o, "documents", JSON_ARRAY, &r->documents, err) ||
        !take_of_type(o, "template_kwargs", JSON_OBJECT, &r->extra, err) ||
        !take_bool(o, "add_generation_prompt", &r->add_generation_prompt, err) ||
        !take_bool(o, "continue_final_message", &r->continue_final_message, err) ||
        !take_str(o, "chat_template", &ask->chat_template, err) ||
        !take_str(o, "template_name", &r->template_name, err) || !take_str(o, "now", &now, err))
        return false;
    if (now.n && !(r->now = arena_dupz(a, now))) return err_nomem(err, "chat options");
    return true;
}

static bool encode_chat(mlxcel_prompt *p, const Tokenizer *tok, const ChatTemplate *t,
                        const ChatRequest *req, Arena *a, Err *err) {
    ChatPrompt chat = {0};
    bool ok = chat_render(t, req, &chat, err);
    if (!ok && chat.out.raised)
        err_set(err, ERR_INPUT, "the chat template refuses: " STR_F,
                STR_A(buf_str(&chat.out.message)));
    TokSpan *spans = ok ? arena_array(a, TokSpan, chat.out.n_spans) : NULL;
    if (ok && !spans) ok = err_nomem(err, "prompt");
    for (size_t i = 0; ok && i < chat.out.n_spans; i++)
        spans[i] = (TokSpan){chat.out.spans[i].text, chat.out.spans[i].from_template};
    ok = ok && encode(p, tok, spans, chat.out.n_spans, false, err);
    chat_prompt_deinit(&chat);
    return ok;
}

static bool chat_prompt(const mlxcel_model *model, Str messages, Str options, mlxcel_prompt *p,
                        Arena *a, Err *err) {
    Ask ask = {.req = {.add_generation_prompt = true, .adapt = true}};
    Json *list;
    ChatTemplate *own = NULL;
    const ChatTemplate *t;
    if (!model_need_tokenizer(model->m, err)) return false;
    if (!json_parse(messages, NULL, a, &list, err)) return err_wrap(err, "messages");
    if (!json_is(list, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "messages are %s, an array is accepted",
                       jsontype_name(list->type));
    if (options.n && !read_options(options, a, &ask, err)) return false;
    ask.req.messages = list;
    if (!ask.chat_template.n) {
        if (!api_model_chat(model, &t, err)) return false;
    } else {
        if (!api_template_open(NULL, model->m->ck->kind == CKPT_GGUF ? model->m->ck : NULL,
                               model->m->tok, ask.chat_template, &own, err))
            return false;
        t = own;
    }
    bool ok = encode_chat(p, model->m->tok, t, &ask.req, a, err);
    chat_template_close(own);
    return ok;
}

bool mlxcel_chat_prompt(const mlxcel_model *model, const char *messages, const char *options,
                        mlxcel_prompt **out, mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    mlxcel_prompt *p = mem_calloc(1, sizeof *p);
    bool ok = (p || err_nomem(&err, "prompt")) &&
              chat_prompt(model, str_c(messages), str_c(options), p, &a, &err);
    arena_deinit(&a);
    if (ok) return *out = p, true;
    mlxcel_prompt_free(p);
    return api_fail(error, &err);
}

bool mlxcel_model_decode(const mlxcel_model *model, const uint32_t *ids, size_t n_ids,
                         bool skip_special, mlxcel_string **out, mlxcel_error *error) {
    Err err = {0};
    Buf text = {0};
    if (model_need_tokenizer(model->m, &err) &&
        tokenizer_decode(model->m->tok, ids, n_ids, skip_special, &text, &err))
        return api_string(&text, out, error);
    buf_deinit(&text);
    return api_fail(error, &err);
}
