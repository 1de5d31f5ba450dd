/* One line of JSON in, one out: tokenize, detokenize, template, parse, grammar. */
#include "api/api.h"
#include "base/mem.h"
#include "base/os.h"
#include "chat/reply.h"
#include "hub/hub_find.h"
#include "json/json_writer.h"
#include "text/tok_jsonl.h"

struct mlxcel_tokenizer {
    Tokenizer *t;
};

struct mlxcel_template {
    ChatTemplate *t;
};

struct mlxcel_grammar {
    Grammar *g;
};

/* {"error": "..."} as the answer of a line; lack of memory stays an error. */
static bool line_error(Buf *text, const Err *why, mlxcel_string **out, mlxcel_error *error) {
    JsonWriter w = {.out = text};
    buf_clear(text);
    if (why->kind == ERR_NOMEM) {
        buf_deinit(text);
        return api_fail(error, why);
    }
    json_w_object(&w);
    json_w_key(&w, STR("error"));
    json_w_str(&w, str_c(why->msg));
    json_w_end(&w);
    return api_string(text, out, error);
}

/* A directory may hold tokenizer files, or be a checkpoint that brings its vocabulary in a GGUF. */
static bool open_any(const char *path, const char *pattern, Tokenizer **out, Err *err) {
    Checkpoint *ck;
    if (!os_is_dir(path)) return tokenizer_load_file(path, pattern, out, err);
    if (tokenizer_load_dir(path, out, err)) return true;
    if (err->kind != ERR_NOT_FOUND) return false;
    Err other = {0};
    if (!checkpoint_open(path, &ck, &other)) return false;
    bool ok = ck->kind == CKPT_GGUF && tokenizer_load_checkpoint(ck, out, err);
    checkpoint_close(ck);
    return ok;
}

bool mlxcel_tokenizer_open(const char *path, const char *pattern, mlxcel_tokenizer **out,
                           mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Str at;
    mlxcel_tokenizer *t = mem_calloc(1, sizeof *t);
    bool ok = (t || err_nomem(&err, "tokenizer")) && hub_find(str_c(path), &a, &at, &err) &&
              open_any(at.p, pattern, &t->t, &err);
    arena_deinit(&a);
    if (ok) return *out = t, true;
    mem_free(t);
    return api_fail(error, &err);
}

void mlxcel_tokenizer_close(mlxcel_tokenizer *t) {
    if (!t) return;
    tokenizer_free(t->t);
    mem_free(t);
}

bool mlxcel_tokenize_line(const mlxcel_tokenizer *t, const char *line, size_t n_bytes,
                          mlxcel_string **out, mlxcel_error *error) {
    Buf text = {0};
    const TokJsonl opt = {.add_special = true};
    tok_jsonl_encode(t->t, &opt, (Str){line, n_bytes}, &text);
    return api_string(&text, out, error);
}

bool mlxcel_detokenize_line(const mlxcel_tokenizer *t, bool pieces, const char *line,
                            size_t n_bytes, mlxcel_string **out, mlxcel_error *error) {
    Buf text = {0};
    const TokJsonl opt = {.pieces = pieces};
    tok_jsonl_decode(t->t, &opt, (Str){line, n_bytes}, &text);
    return api_string(&text, out, error);
}

bool mlxcel_template_open(const char *model, const char *source, mlxcel_template **out,
                          mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Str at = STR_NONE;
    mlxcel_template *t = mem_calloc(1, sizeof *t);
    bool ok = (t || err_nomem(&err, "template")) &&
              (!model || hub_find(str_c(model), &a, &at, &err)) &&
              api_template_open(at.p, NULL, NULL, str_c(source), &t->t, &err);
    arena_deinit(&a);
    if (ok) return *out = t, true;
    mem_free(t);
    return api_fail(error, &err);
}

void mlxcel_template_close(mlxcel_template *t) {
    if (!t) return;
    chat_template_close(t->t);
    mem_free(t);
}

static bool render_line(const mlxcel_template *t, const char *now, bool raw, Str line, Arena *a,
                        Buf *text, Err *err) {
    static const JsonOptions READ = {.max_depth = 512, .dup = JSON_DUP_LAST};
    JsonWriter w = {.out = text};
    Json *context;
    ChatRequest req;
    ChatPrompt p = {0};
    if (!json_parse(line, &READ, a, &context, err) ||
        !chat_request_from_context(context, a, &req, err))
        return false;
    req.now = now;
    if (raw) req = (ChatRequest){.extra = context, .raw = true, .now = now};
    bool ok = chat_render(t->t, &req, &p, err);
    if (ok) {
        json_w_object(&w);
        json_w_key(&w, STR("text"));
        json_w_str(&w, buf_str(&p.out.text));
        json_w_end(&w);
    } else if (p.out.raised) { /* the template's own words, exactly */
        json_w_object(&w);
        json_w_key(&w, STR("error"));
        json_w_str(&w, buf_str(&p.out.message));
        json_w_end(&w);
        ok = true;
    }
    chat_prompt_deinit(&p);
    return ok;
}

bool mlxcel_template_line(const mlxcel_template *t, const char *now, bool raw, const char *line,
                          size_t n_bytes, mlxcel_string **out, mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Buf text = {0};
    bool ok = render_line(t, now, raw, (Str){line, n_bytes}, &a, &text, &err);
    ok = ok ? api_string(&text, out, error) : line_error(&text, &err, out, error);
    arena_deinit(&a);
    return ok;
}

bool mlxcel_parse_names(const char *format, const char *reasoning, mlxcel_error *error) {
    Err err = {0};
    return reply_check_names(str_c(format), str_c(reasoning), &err) || api_fail(error, &err);
}

bool mlxcel_parse_line(const char *format, const char *reasoning, size_t split, const char *line,
                       size_t n_bytes, mlxcel_string **out, mlxcel_error *error) {
    Err err = {0};
    Buf text = {0};
    if (reply_parse_line(str_c(format), str_c(reasoning), split, (Str){line, n_bytes}, &text, &err))
        return api_string(&text, out, error);
    return line_error(&text, &err, out, error);
}

bool mlxcel_grammar_open(const char *kind, const char *source, size_t n_bytes, mlxcel_grammar **out,
                         mlxcel_error *error) {
    Err err = {0};
    mlxcel_grammar *g = mem_calloc(1, sizeof *g);
    if ((g || err_nomem(&err, "grammar")) &&
        api_grammar_compile(kind, (Str){source, n_bytes}, &g->g, &err))
        return *out = g, true;
    mem_free(g);
    return api_fail(error, &err);
}

void mlxcel_grammar_close(mlxcel_grammar *g) {
    if (!g) return;
    grammar_free(g->g);
    mem_free(g);
}

bool mlxcel_grammar_line(mlxcel_grammar *g, const char *line, size_t n_bytes, mlxcel_string **out,
                         mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Buf text = {0};
    Json *j;
    Str s;
    bool accepted, ok = json_parse((Str){line, n_bytes}, NULL, &a, &j, &err);
    if (ok && !json_str(j, &s))
        ok = err_set(&err, ERR_INPUT, "the line is %s, a string is accepted",
                     jsontype_name(j->type));
    ok = ok && grammar_accepts(g->g, s, &accepted, &err);
    if (ok) buf_put(&text, accepted ? STR("true") : STR("false"));
    ok = ok ? api_string(&text, out, error) : line_error(&text, &err, out, error);
    arena_deinit(&a);
    return ok;
}
