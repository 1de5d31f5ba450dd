/* tokenize, detokenize, template, parse, grammar: a line of JSON in, a line out. Without --jsonl, -p TEXT (or standard input
 * as a whole) is the one input. */
#include <string.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/out.h"
#include "json/json_writer.h"

enum { SOURCE_MAX = 64 << 20 };

/* Is an answer {"error": "..."}? Then err has the text. */
static bool is_error(Str answer, Err *err) {
    Arena arena = {0};
    Json *j;
    Str text;
    bool found = str_starts(answer, STR("{\"error\":")) &&
                 json_parse(answer, NULL, &arena, &j, err) && json_str(json_get(j, "error"), &text);
    if (found) err_set(err, ERR_INPUT, STR_F, STR_A(text));
    arena_deinit(&arena);
    return found;
}

/* One input that is no JSON line: quote it first where the function wants a string. A bad one is a failure. */
static int answer_one(const Args *a, bool quote, LineFn *fn, void *ctx) {
    Buf text = {0}, line = {0};
    Err err = {0};
    mlxcel_error why;
    mlxcel_string *s;
    const char *p = args_text(a, "prompt");
    if (p)
        buf_put(&text, str_c(p));
    else if (!file_read(args_text(a, "file") ? args_text(a, "file") : "-", SOURCE_MAX, &text, &err))
        return cli_fail_err(&err);
    if (quote)
        json_put_quoted(&line, buf_str(&text), false);
    else
        buf_put(&line, buf_str(&text));
    int status = fn(ctx, buf_cstr(&line), line.n, &s, &why) ? CLI_OK : cli_fail(&why);
    buf_deinit(&text);
    buf_deinit(&line);
    if (status != CLI_OK) return status;
    const Str result = {mlxcel_string_text(s), mlxcel_string_size(s)};
    if (is_error(result, &err)) {
        status = cli_fail_err(&err);
    } else {
        out_put(result);
        out_put(STR("\n"));
    }
    mlxcel_string_free(s);
    return status;
}

static int answer_input(const Args *a, bool quote, LineFn *fn, void *ctx) {
    const bool prompt = args_given(a, "prompt"), file = args_given(a, "file");
    if (prompt && file) return cli_usage("-p and -f are both given; one of them is accepted");
    if (!args_flag(a, "jsonl")) return answer_one(a, quote, fn, ctx);
    if (prompt || file)
        return cli_usage("--jsonl reads standard input; -p and -f do not go with it");
    return lines_answer(fn, ctx);
}

typedef struct TokWork {
    mlxcel_tokenizer *t;
    bool pieces;
} TokWork;

static bool tokenize_line(void *ctx, const char *line, size_t n, mlxcel_string **out,
                          mlxcel_error *err) {
    return mlxcel_tokenize_line(((TokWork *)ctx)->t, line, n, out, err);
}

static bool detokenize_line(void *ctx, const char *line, size_t n, mlxcel_string **out,
                            mlxcel_error *err) {
    return mlxcel_detokenize_line(((TokWork *)ctx)->t, ((TokWork *)ctx)->pieces, line, n, out, err);
}

static int with_tokenizer(const Args *a, bool quote, LineFn *fn) {
    mlxcel_error why;
    TokWork w = {.pieces = args_flag(a, "pieces")};
    const char *file = args_text(a, "tokenizer"), *path = file ? file : args_text(a, "model");
    if (a->n_rest) path = a->rest[0];
    if (!path) return cli_usage("no tokenizer given: -m MODEL or --tokenizer FILE is accepted");
    if (args_given(a, "tokenizer") + args_given(a, "model") + (int)a->n_rest > 1)
        return cli_usage("one of -m MODEL and --tokenizer FILE is accepted, more are given");
    if (!mlxcel_tokenizer_open(path, args_text(a, "pattern"), &w.t, &why)) return cli_fail(&why);
    int status = answer_input(a, quote, fn, &w);
    mlxcel_tokenizer_close(w.t);
    return status;
}

int cmd_tokenize(const Args *a) { return with_tokenizer(a, true, tokenize_line); }
int cmd_detokenize(const Args *a) { return with_tokenizer(a, false, detokenize_line); }

typedef struct TemplateWork {
    mlxcel_template *t;
    const char *now;
    bool raw;
    mlxcel_error broken; /* t is NULL: every line's answer */
} TemplateWork;

static bool template_line(void *ctx, const char *line, size_t n, mlxcel_string **out,
                          mlxcel_error *err) {
    const TemplateWork *w = ctx;
    if (!w->t) return *err = w->broken, false;
    return mlxcel_template_line(w->t, w->now, w->raw, line, n, out, err);
}

/* A given template that does not compile fails as one that does not render: in the answer to each line. */
int cmd_template(const Args *a) {
    Err err = {0};
    Buf text = {0};
    TemplateWork w = {.now = args_text(a, "now"), .raw = args_flag(a, "raw")};
    const char *file = args_text(a, "template-file"), *model = args_text(a, "model"),
               *source = args_text(a, "chat-template");
    if (args_given(a, "model") && a->n_rest)
        return cli_usage("unexpected argument \"%s\": -m names the model", a->rest[0]);
    if (file && source)
        return cli_usage("--template-file and --chat-template are both given; one is accepted");
    if (a->n_rest) model = a->rest[0];
    if (!file && !model && !source)
        return cli_usage("no template given: -m MODEL or --template-file F is accepted");
    if (file && !flags_template(file, &text, &err)) return cli_fail_err(&err);
    bool ok = mlxcel_template_open(model, file ? buf_cstr(&text) : source, &w.t, &w.broken);
    if (!ok) w.t = NULL;
    ok = ok || (!model && w.broken.kind != MLXCEL_NOMEM);
    if (!w.t) w.broken.kind = MLXCEL_INPUT;
    int status = ok ? answer_input(a, false, template_line, &w) : cli_fail(&w.broken);
    mlxcel_template_close(w.t);
    buf_deinit(&text);
    return status;
}

typedef struct ParseWork {
    const char *format, *reasoning;
    size_t split;
} ParseWork;

static bool parse_line(void *ctx, const char *line, size_t n, mlxcel_string **out,
                       mlxcel_error *err) {
    const ParseWork *w = ctx;
    return mlxcel_parse_line(w->format, w->reasoning, w->split, line, n, out, err);
}

int cmd_parse(const Args *a) {
    mlxcel_error why;
    ParseWork w = {.format = args_text(a, "format"),
                   .reasoning = args_text(a, "reasoning"),
                   .split = (size_t)args_int(a, "split", 0)};
    if (!w.format) return cli_usage("no format given: mlxcel parse --format NAME --jsonl");
    if (!w.reasoning) w.reasoning = "";
    if (!mlxcel_parse_names(w.format, w.reasoning, &why)) return cli_usage("%s", why.message);
    return answer_input(a, false, parse_line, &w);
}

static bool grammar_line(void *ctx, const char *line, size_t n, mlxcel_string **out,
                         mlxcel_error *err) {
    return mlxcel_grammar_line(ctx, line, n, out, err);
}

/* --gbnf and --json-schema name files, --regex is the expression itself. */
int cmd_grammar(const Args *a) {
    mlxcel_error why;
    Err err = {0};
    Buf text = {0};
    mlxcel_grammar *g;
    int given = args_has(a, "gbnf") + args_has(a, "json-schema") + args_has(a, "regex");
    const char *kind = args_has(a, "gbnf")          ? "gbnf"
                       : args_has(a, "json-schema") ? "json_schema"
                                                    : "regex";
    const char *file = args_text(a, args_has(a, "gbnf") ? "gbnf" : "json-schema");
    if (given != 1)
        return cli_usage("one of --gbnf F, --json-schema F and --regex R is accepted, %d are given",
                         given);
    if (file && !file_read(file, SOURCE_MAX, &text, &err)) return cli_fail_err(&err);
    if (!file) buf_put(&text, str_c(args_text(a, "regex")));
    bool ok = mlxcel_grammar_open(kind, text.n ? text.p : "", text.n, &g, &why);
    int status = ok ? answer_input(a, true, grammar_line, g) : cli_fail(&why);
    mlxcel_grammar_close(ok ? g : NULL);
    buf_deinit(&text);
    return status;
}
