/* chat.h: messages, tools and options -> the prompt, with who wrote each part. This is the contract
 * between the engine's clients and the template language (jinja.h): finding a model's template,
 * choosing among named ones, giving it the variables that transformers gives, and bridging what API
 * clients send and what templates expect.
 *
 *     ChatSource src = {.tokenizer_config = text of tokenizer_config.json, ...};
 *     ChatTemplate *t;
 *     if (!chat_template_open(&src, &t, err)) return false;
 *     ChatRequest req = {.messages = j, .tools = tools, .add_generation_prompt = true, .adapt = true};
 *     ChatPrompt p = {0};
 *     if (!chat_render(t, &req, &p, err)) ...        p.out.raised: the template refused, p.out.message says why
 *     for (i < p.out.n_spans) ... tokenizer: special tokens only within spans with from_template
 *     chat_prompt_deinit(&p);  chat_template_close(t);
 *
 * A ChatTemplate is immutable once open: any thread may render. Nothing here reads files; the
 * caller does. */
#ifndef MLXCEL_CHAT_CHAT_H
#define MLXCEL_CHAT_CHAT_H

#include "chat/jinja.h"

typedef struct ChatTemplate ChatTemplate;

typedef struct ChatNamed { /* a template and its name, or a special token's variable and its text */
    Str name, text;
} ChatNamed;

/* Where a template may come from, first found wins in this order. Empty fields are absent. */
typedef struct ChatSource {
    /* --chat-template(-file): Jinja text, or the name of a built-in (chat_builtin_names) */
    Str override;
    Str chat_template_jinja; /* chat_template.jinja */
    const ChatNamed *
        /* additional_chat_templates/NAME.jinja, or GGUF tokenizer.chat_template.NAME: added to */
        named;
    size_t n_named;         /* whatever the source is, unless overridden */
    Str chat_template_json; /* chat_template.json: {"chat_template": ...} */
    /* tokenizer_config.json: "chat_template" (text or list), and the special tokens */
    Str tokenizer_config;
    Str gguf_template; /* tokenizer.chat_template */
    const ChatNamed
        *tokens; /* bos_token, eos_token, ... where no tokenizer_config has them (GGUF) */
    size_t n_tokens;
} ChatSource;

bool chat_template_open(const ChatSource *src, ChatTemplate **out, Err *err) MUST_CHECK;
void chat_template_close(ChatTemplate *t);
bool chat_template_is_fallback(
    const ChatTemplate *t); /* the model has none: ChatML is used, and a warning was logged */
size_t chat_template_count(const ChatTemplate *t);
Str chat_template_name(const ChatTemplate *t, size_t i); /* "default", "tool_use", "rag", ... */
Str chat_template_source(const ChatTemplate *t,
                         Str name); /* name empty: the default's text; empty if there is none */
/* A special token as the template sees it ("bos_token"); empty if there is none. */
Str chat_template_token(const ChatTemplate *t, const char *name);
/* Does any of the templates read this variable ("enable_thinking", "tools", "documents")? By name
 * in its text. */
bool chat_template_mentions(const ChatTemplate *t, const char *variable);
const char *chat_builtin_names(void); /* "chatml, llama3, ..." */
Str chat_builtin_find(Str name);      /* empty if there is none */

/* What a template can take, found by trying it. */
typedef struct ChatCaps {
    bool content_text;  /* a message's content may be a string */
    bool content_parts; /* ... or a list of parts ({"type":"text",...}) */
    bool tool_objects;  /* a tool call's arguments may be an object */
    bool tool_strings;  /* ... or JSON text */
} ChatCaps;
const ChatCaps *chat_template_caps(const ChatTemplate *t);

typedef struct ChatRequest {
    const Json *messages;  /* an array */
    const Json *tools;     /* NULL: null, as transformers passes it */
    const Json *documents; /* NULL: null */
    const Json *
        /* an object: chat_template_kwargs and other variables; wins over what follows; NULL:
         * none */
        extra;
    bool add_generation_prompt;
    bool
        /* the prompt ends inside the last message, for the model to go on */
        continue_final_message;
    bool
        adapt; /* bridge API messages and template: see chat_adapt.h. Off: exactly what was given */
    bool raw;  /* only `extra` is given to the template: no messages, no special tokens, nothing */
    /* empty: tool_use when there are tools, rag when there are documents, else default */
    Str template_name;
    const char *now; /* "2026-01-02T03:04:05"; NULL: the local clock */
} ChatRequest;

/* Splits a context object ({"messages": [...], "tools": ..., other variables}) into a request;
 * `extra` is made in a. */
bool chat_request_from_context(const Json *context, Arena *a, ChatRequest *req,
                               Err *err) MUST_CHECK;

typedef struct ChatPrompt {
    JinjaOutput out; /* text, spans; on failure raised and message */
} ChatPrompt;

bool chat_render(const ChatTemplate *t, const ChatRequest *req, ChatPrompt *out,
                 Err *err) MUST_CHECK;
void chat_prompt_deinit(ChatPrompt *p);

#endif
