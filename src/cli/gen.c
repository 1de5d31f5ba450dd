#include "cli/gen.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/term.h"
#include "json/json_writer.h"

enum { PROMPT_MAX = 256 << 20, SILENT_PIPE_MS = 300, MAX_BREAKERS = 64 };
static const double BIAS_MAX = 1e6; /* as the sampler has it */

/* The text of a chat template flag; *text NULL: none given. */
static bool template_flag(Gen *g, const char **text, Err *err) {
    const char *file = args_text(g->args, "chat-template-file");
    Buf b = {0};
    *text = args_text(g->args, "chat-template");
    if (!file) return true;
    bool ok = flags_template(file, &b, err) &&
              ((*text = arena_dupz(&g->arena, buf_str(&b))) || err_nomem(err, "template"));
    buf_deinit(&b);
    return ok;
}

int gen_open(Gen *g) {
    Err err = {0};
    mlxcel_error why;
    const char *path = flags_model(g->args);
    if (!path) return CLI_USAGE;
    int status = media_args_read(&g->media, g->args, &g->arena);
    if (status != CLI_OK) return status;
    mlxcel_model_options o = flags_model_options(g->args);
    if (!template_flag(g, &o.chat_template, &err)) return cli_fail_err(&err);
    return mlxcel_model_open(path, &o, &g->model, &why) ? CLI_OK : cli_fail(&why);
}

void gen_close(Gen *g) {
    mlxcel_prompt_free(g->prompt);
    mlxcel_engine_close(g->engine);
    mlxcel_model_close(g->model);
    arena_deinit(&g->arena);
}

static bool is_score(const Gen *g) { return strcmp(g->args->command->name, "score") == 0; }

int gen_engine(Gen *g, int64_t n_predict) {
    mlxcel_error why;
    mlxcel_engine_options o = flags_engine_options(g->args);
    uint64_t limit = mlxcel_model_n_ctx(g->model),
             need = g->n_ids + (uint64_t)(n_predict > 0 ? n_predict : 0) + 1;
    o.scores = is_score(g);
    if (!o.n_ctx && n_predict >= 0) o.n_ctx = limit && need > limit ? limit : need;
    if (limit && o.n_ctx > limit) {
        char text[160];
        snprintf(text, sizeof text,
                 "--ctx-size %llu: the model has positions for %llu tokens, so that is the context",
                 (unsigned long long)o.n_ctx, (unsigned long long)limit);
        cli_warn(text);
        o.n_ctx = limit;
    }
    return mlxcel_engine_open(g->model, &o, &g->engine, &why) ? CLI_OK : cli_fail(&why);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n hexadecimal digits; false: there are none. */
static bool hex_value(Str s, size_t n, uint32_t *v) {
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        int d = i < s.n ? hex_digit(s.p[i]) : -1;
        if (d < 0) return false;
        *v = *v * 16 + (uint32_t)d;
    }
    return true;
}

/* -e: what backslashes stand for. Unknown ones stay as they are. */
static void put_escaped(Buf *out, Str s) {
    static const char NAMES[] = "ntr0abfv\\\"'", VALUES[] = "\n\t\r\0\a\b\f\v\\\"'";
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i] == '\\' && i + 1 < s.n ? s.p[i + 1] : 0;
        const char *at = c ? strchr(NAMES, c) : NULL;
        uint32_t v;
        if (at) {
            buf_putc(out, VALUES[at - NAMES]);
            i += 1;
        } else if (c == 'x' && hex_value(str_from(s, i + 2), 2, &v)) {
            buf_putc(out, (char)v);
            i += 3;
        } else if (c == 'u' && hex_value(str_from(s, i + 2), 4, &v)) {
            buf_put_utf8(out, v);
            i += 5;
        } else {
            buf_putc(out, s.p[i]);
        }
    }
}

/* A pipe behind stdin that says nothing (an inherited one, say) must not hang a command that has
 * its prompt already. */
static bool stdin_speaks(void) {
    struct stat st;
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (fstat(STDIN_FILENO, &st) != 0) return false;
    if (S_ISREG(st.st_mode)) return true;
    if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) return false;
    return poll(&p, 1, SILENT_PIPE_MS) > 0 && (p.revents & POLLIN);
}

static bool keep(Gen *g, const Buf *b, Str *text, Err *err) {
    if (!buf_check(b, "the prompt", err)) return false;
    text->p = arena_dupz(&g->arena, buf_str(b));
    text->n = b->n;
    return text->p || err_nomem(err, "the prompt");
}

static bool gather_text(Gen *g, Buf *b, bool *found, Err *err) {
    const char *p = args_text(g->args, "prompt"), *f = args_text(g->args, "file");
    bool pipes = strcmp(g->args->command->name, "run") == 0;
    *found = p || f;
    if (f && !file_read(f, PROMPT_MAX, b, err)) return false;
    if (p && args_flag(g->args, "escapes"))
        put_escaped(b, str_c(p));
    else if (p)
        buf_put(b, str_c(p));
    if (term_stdin() || (*found && (!pipes || !stdin_speaks()))) return true;
    Buf in = {0};
    bool ok = file_read("-", PROMPT_MAX, &in, err);
    if (in.n && b->n) buf_put(b, STR("\n"));
    buf_put(b, buf_str(&in));
    *found = *found || in.n > 0;
    buf_deinit(&in);
    return ok;
}

int gen_text(Gen *g, Str *text) {
    Err err = {0};
    Buf b = {0};
    bool found = false, ok = gather_text(g, &b, &found, &err);
    *text = STR_NONE;
    if (ok && found) ok = keep(g, &b, text, &err);
    buf_deinit(&b);
    return ok ? CLI_OK : cli_fail_err(&err);
}

bool gen_has_template(const Gen *g) {
    mlxcel_string *s;
    mlxcel_error why;
    mlxcel_log_level(0); /* that there is none is no news here */
    bool ok = mlxcel_model_chat_template(g->model, &s, &why), has = ok && mlxcel_string_size(s) > 0;
    if (ok) mlxcel_string_free(s);
    mlxcel_log_level(args_flag(g->args, "verbose") ? 2 : 1);
    return has || !ok; /* a broken one is reported when it is used */
}

int gen_system(Gen *g, Str *text) {
    Err err = {0};
    Buf b = {0};
    const char *t = args_text(g->args, "system"), *file = args_text(g->args, "system-prompt-file");
    *text = str_c(t);
    if (!file) return CLI_OK;
    bool ok = file_read(file, PROMPT_MAX, &b, &err) && keep(g, &b, text, &err);
    buf_deinit(&b);
    return ok ? CLI_OK : cli_fail_err(&err);
}

int gen_chat_options(Gen *g, const char **options) {
    const char *kwargs = args_text(g->args, "chat-template-kwargs");
    Err err = {0};
    Json *j;
    Buf b = {0};
    *options = NULL;
    if (!kwargs) return CLI_OK;
    if (!json_parse(str_c(kwargs), NULL, &g->arena, &j, &err))
        return cli_usage("--chat-template-kwargs: %s", err.msg);
    if (!json_is(j, JSON_OBJECT))
        return cli_usage("--chat-template-kwargs is %s; an object is accepted",
                         jsontype_name(j->type));
    buf_putf(&b, "{\"template_kwargs\":%s}", kwargs);
    *options = arena_dupz(&g->arena, buf_str(&b));
    buf_deinit(&b);
    return *options ? CLI_OK : cli_fail_err((err_nomem(&err, "options"), &err));
}

static int chat_prompt(Gen *g, Str text) {
    mlxcel_error why;
    Buf messages = {0};
    JsonWriter w = {.out = &messages};
    Str system;
    const char *options;
    int status = gen_system(g, &system);
    if (status == CLI_OK) status = gen_chat_options(g, &options);
    if (status != CLI_OK) return status;
    json_w_array(&w);
    for (int i = system.p ? 0 : 1; i < 2; i++) {
        json_w_object(&w);
        json_w_key(&w, STR("role"));
        json_w_str(&w, i == 0 ? STR("system") : STR("user"));
        json_w_key(&w, STR("content"));
        json_w_str(&w, i == 0 ? system : text);
        json_w_end(&w);
    }
    json_w_end(&w);
    if (!mlxcel_chat_prompt(g->model, buf_cstr(&messages), options, &g->prompt, &why))
        status = cli_fail(&why);
    buf_deinit(&messages);
    g->is_chat = true;
    return status;
}

int gen_prompt_text(Gen *g, Str text, bool chat_by_default) {
    mlxcel_error why;
    int status = CLI_OK;
    bool plain = is_score(g) || args_flag(g->args, "no-chat-template"),
         forced = args_has(g->args, "system") || args_has(g->args, "system-prompt-file") ||
                  args_has(g->args, "chat-template-kwargs");
    if (plain && forced)
        return cli_usage("--system and --chat-template-kwargs need the chat template, "
                         "--no-chat-template is given");
    if (!plain && mlxcel_model_has_tokenizer(g->model) &&
        (chat_by_default || forced || gen_has_template(g))) {
        if (!gen_has_template(g))
            cli_warn("the model has no chat template; ChatML is used, which may not fit it");
        status = chat_prompt(g, text);
    } else if (!mlxcel_text_prompt(g->model, text.p, text.n, true, false, &g->prompt, &why)) {
        status = cli_fail(&why);
    }
    if (status != CLI_OK) return status;
    g->ids = mlxcel_prompt_ids(g->prompt);
    g->n_ids = mlxcel_prompt_n_ids(g->prompt);
    return CLI_OK;
}

static int ids_prompt(Gen *g) {
    const char *text = args_text(g->args, "ids"), *file = args_text(g->args, "ids-file");
    uint32_t *ids;
    Err err = {0};
    Buf b = {0};
    if (file && !file_read(file, PROMPT_MAX, &b, &err)) return cli_fail_err(&err);
    bool ok = flags_ids(file ? buf_str(&b) : str_c(text), &ids, &g->n_ids, &g->arena, &err);
    buf_deinit(&b);
    g->ids = ids;
    return ok ? CLI_OK : file ? cli_fail_err(&err) : cli_usage("--ids: %s", err.msg);
}

int gen_prompt(Gen *g, bool chat_by_default) {
    Str text;
    bool ids = args_has(g->args, "ids") || args_has(g->args, "ids-file");
    if (ids && (args_has(g->args, "prompt") || args_has(g->args, "file")))
        return cli_usage("--ids is the whole prompt; -p and -f do not go with it");
    if (ids) return ids_prompt(g);
    int status = gen_text(g, &text);
    if (status != CLI_OK) return status;
    if (!text.p)
        return cli_usage("no prompt given: -p TEXT, -f FILE or --ids \"1 2 3\" is accepted");
    return gen_prompt_text(g, text, chat_by_default);
}

/* "12+1.5", "12-1", "12:0.5", "12:false" (never). */
static bool parse_bias(const char *text, uint32_t *token, float *bias) {
    Str s = str_c(text);
    size_t at = 0;
    uint64_t id;
    double v = 0;
    while (at < s.n && s.p[at] >= '0' && s.p[at] <= '9') at++;
    Str value = at < s.n && s.p[at] == ':'   ? str_from(s, at + 1)
                : at < s.n && s.p[at] == '+' ? str_from(s, at + 1)
                                             : str_from(s, at);
    bool never = str_eqc(value, "false") || str_eqc(value, "-inf");
    if (at == s.n || !str_to_u64(str_slice(s, 0, at), &id) || id >= UINT32_MAX ||
        (!never && (!str_to_f64(value, &v) || v < -BIAS_MAX || v > BIAS_MAX)))
        return false;
    *token = (uint32_t)id;
    *bias = never ? -__builtin_inff() : (float)v;
    return true;
}

int gen_check(const Args *a) {
    static const char *const GRAMMARS[] = {"grammar",          "grammar-file", "json-schema",
                                           "json-schema-file", "regex",        "json-object"};
    const char *text;
    uint32_t token;
    float bias;
    size_t n = 0;
    for (size_t i = 0; (text = args_next(a, "logit-bias", &i)) != NULL;)
        if (!parse_bias(text, &token, &bias))
            return cli_usage("--logit-bias is \"%s\"; ID+V, ID-V and ID:V are accepted, V from -%g "
                             "to %g or false",
                             text, BIAS_MAX, BIAS_MAX);
    for (size_t i = 0; (text = args_next(a, "stop", &i)) != NULL;)
        if (!*text) return cli_usage("--stop is empty; a text of at least one byte is accepted");
    for (size_t i = 0; args_next(a, "dry-sequence-breaker", &i);) n++;
    if (n > MAX_BREAKERS)
        return cli_usage("--dry-sequence-breaker is given %zu times, at most %d are accepted", n,
                         MAX_BREAKERS);
    n = 0;
    for (size_t i = 0; i < sizeof GRAMMARS / sizeof *GRAMMARS; i++) n += args_has(a, GRAMMARS[i]);
    return n > 1 ? cli_usage("%zu grammars are given; one of --grammar, --json-schema, --regex and "
                             "--json-object is accepted",
                             n)
                 : CLI_OK;
}

static bool add_lists(const Gen *g, mlxcel_request *r, mlxcel_error *err) {
    const char *text, *breakers[MAX_BREAKERS];
    size_t n = 0;
    uint32_t token;
    float bias;
    for (size_t i = 0; (text = args_next(g->args, "stop", &i)) != NULL;)
        if (!mlxcel_request_stop(r, text, err)) return false;
    for (size_t i = 0; (text = args_next(g->args, "logit-bias", &i)) != NULL;)
        if (parse_bias(text, &token, &bias) && !mlxcel_request_bias(r, token, bias, err))
            return false;
    for (size_t i = 0;
         n < MAX_BREAKERS && (text = args_next(g->args, "dry-sequence-breaker", &i)) != NULL;)
        if (strcmp(text, "none") != 0) breakers[n++] = text;
    return !args_has(g->args, "dry-sequence-breaker") ||
           mlxcel_request_dry_breakers(r, breakers, n, err);
}

/* At most one of the grammar flags. */
static bool add_grammar(const Gen *g, mlxcel_request *r, mlxcel_error *err) {
    static const struct {
        const char *flag, *kind;
        bool file;
    } KINDS[] = {{"grammar", "gbnf", false},
                 {"grammar-file", "gbnf", true},
                 {"json-schema", "json_schema", false},
                 {"json-schema-file", "json_schema", true},
                 {"regex", "regex", false},
                 {"json-object", "json_object", false}};
    Err why = {0};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (!args_has(g->args, KINDS[i].flag)) continue;
        Buf b = {0};
        const char *text = args_text(g->args, KINDS[i].flag);
        bool ok = !KINDS[i].file || file_read(text, 16 << 20, &b, &why);
        if (!ok) {
            err->kind = (int)why.kind;
            memcpy(err->message, why.msg, sizeof err->message);
        }
        ok = ok && mlxcel_request_grammar(r, KINDS[i].kind,
                                          KINDS[i].file ? buf_cstr(&b)
                                          : text        ? text
                                                        : "",
                                          err);
        buf_deinit(&b);
        return ok;
    }
    return true;
}

static bool apply(Gen *g, mlxcel_request *r, const char *const *more, mlxcel_error *err) {
    const char *name, *value, *n = args_text(g->args, "n-predict"),
                              *k = args_text(g->args, "logprobs");
    bool own = !args_flag(g->args, "no-generation-config");
    if (own && !mlxcel_request_set(r, "use_generation_config", "true", err)) return false;
    for (size_t i = 0; args_next_param(g->args, &i, &name, &value);)
        if (!mlxcel_request_set(r, name, value, err)) return false;
    if (n && !mlxcel_request_set(r, "n_predict", n, err)) return false;
    if (k && !mlxcel_request_set(r, "n_probs", k, err)) return false;
    for (; more && more[0]; more += 2)
        if (!mlxcel_request_set(r, more[0], more[1], err)) return false;
    return add_lists(g, r, err) && add_grammar(g, r, err);
}

bool gen_request(Gen *g, const uint32_t *ids, size_t n_ids, const char *const *more,
                 mlxcel_request **out, mlxcel_error *err) {
    if (!mlxcel_request_new(g->engine, ids, n_ids, out, err)) return false;
    if (apply(g, *out, more, err)) return true;
    mlxcel_request_free(*out);
    *out = NULL;
    return false;
}

double gen_prompt_rate(const mlxcel_timings *t) {
    return t->prompt_ms > 0 ? 1e3 * (double)(t->prompt_n - t->cached_n) / t->prompt_ms : 0;
}

/* The first token comes with the prompt. */
double gen_answer_rate(const mlxcel_timings *t) {
    return t->predicted_ms > 0 && t->predicted_n > 1
               ? 1e3 * (double)(t->predicted_n - 1) / t->predicted_ms
               : 0;
}

void gen_stats(const Gen *g, const mlxcel_timings *t) {
    cli_note("[prompt %llu tokens%s%.1f tok/s, answer %llu tokens %.1f tok/s, first token %.0f ms, "
             "load %.0f ms, cached %llu]",
             (unsigned long long)t->prompt_n, " ", gen_prompt_rate(t),
             (unsigned long long)t->predicted_n, gen_answer_rate(t), t->ttft_ms,
             mlxcel_model_load_ms(g->model), (unsigned long long)t->cached_n);
    if (t->draft_rounds)
        cli_note("[drafting: %llu of %llu drafted tokens accepted in %llu rounds]",
                 (unsigned long long)t->draft_n_accepted, (unsigned long long)t->draft_n,
                 (unsigned long long)t->draft_rounds);
}

void gen_profile(const Gen *g, const mlxcel_timings *t) {
    mlxcel_string *text;
    double load = mlxcel_model_load_ms(g->model);
    cli_note("[TTFT] load %.1f ms, prompt %.1f ms (%llu of %llu tokens computed), wait %.1f ms, "
             "first token %.1f ms",
             load, t->prompt_ms, (unsigned long long)(t->prompt_n - t->cached_n),
             (unsigned long long)t->prompt_n, t->ttft_ms - t->prompt_ms, t->ttft_ms);
    if (!mlxcel_engine_profile_text(g->engine, &text, NULL)) return;
    cli_note("%s", mlxcel_string_text(text));
    mlxcel_string_free(text);
}
