/* jinja.h: the template language of chat templates: jinja2 3.1.6 as transformers sets it up
 * (trim_blocks, lstrip_blocks, loop controls, generation blocks, immutable sandbox, its own tojson,
 * raise_exception, strftime_now), no loader. The same text byte for byte; what fails there fails
 * here.
 *
 * A template is compiled once and then never changes: any number of threads may render it. A
 * rendering is bounded in operations, memory, output and recursion, whatever the template does.
 *
 * The result says who wrote each byte. Text of the template and of trusted variables may become
 * control tokens when it is tokenized; text that came in with the context (messages, tools,
 * documents) never may.
 *
 *     Jinja *t;
 *     if (!jinja_compile(text, &t, err)) return false;
 *     JinjaInput in = {.context = context, .vars = vars, .n_vars = 2};
 *     JinjaOutput out = {0};
 *     bool ok = jinja_render(t, &in, &out, err);      out.raised: the template called raise_exception
 *     ... out.text, out.spans ...
 *     jinja_output_deinit(&out);  jinja_free(t); */
#ifndef MLXCEL_CHAT_JINJA_H
#define MLXCEL_CHAT_JINJA_H

#include "base/buf.h"
#include "json/json.h"

typedef struct Jinja Jinja;

typedef struct
    JinjaVar { /* a variable beside the context; it wins over a member of the same name */
    Str name;
    const Json *value; /* any JSON; NULL: `text` is the value, a string */
    Str text;
    bool trusted; /* its strings count as the template's own: bos_token, ... */
} JinjaVar;

typedef struct JinjaInput {
    const Json *
        /* an object: its members are variables; NULL: none. Strings in it are the user's, except */
        context;
    const Str *
        /* a "role" member that is one of these words: templates spell control tokens with them */
        trusted_roles;
    size_t n_trusted_roles;
    const JinjaVar *vars;
    size_t n_vars;
    const char *now;  /* "2026-01-02T03:04:05": what strftime_now sees; NULL: the local clock */
    uint64_t max_ops; /* 0: JINJA_MAX_OPS, and more in proportion to the context */
    size_t max_output_bytes; /* 0: JINJA_MAX_OUTPUT */
} JinjaInput;

typedef struct JinjaSpan { /* a piece of the output; neighbours differ in from_template */
    Str text;
    bool from_template;
} JinjaSpan;

typedef struct JinjaOutput {
    Buf text;
    JinjaSpan *spans; /* n_spans, covering text in order; they point into it */
    size_t n_spans;
    bool raised; /* the error is raise_exception's, and `message` is its exact text */
    Buf message;
    uint64_t ops; /* spent */
} JinjaOutput;

enum {
    JINJA_MAX_SOURCE = 1 << 20, /* bytes of a template */
    JINJA_MAX_OPS =
        400 * 1000, /* well under 100 ms; each byte of the context adds JINJA_OPS_PER_BYTE */
    JINJA_OPS_PER_BYTE = 12,
    JINJA_MAX_OUTPUT = 64 << 20
};

bool jinja_compile(Str source, Jinja **out, Err *err) MUST_CHECK;
void jinja_free(Jinja *t); /* NULL is fine */
bool jinja_render(const Jinja *t, const JinjaInput *in, JinjaOutput *out, Err *err) MUST_CHECK;
void jinja_output_deinit(JinjaOutput *out);
Str jinja_source(const Jinja *t);

#endif
