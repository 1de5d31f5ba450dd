#include "cli/repl.h"

#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/flags.h"
#include "cli/repl_input.h"
#include "cli/repl_talk.h"
#include "cli/term.h"

enum { MAX_SETTINGS = 64 };

typedef struct Repl {
    Gen *g;
    Talk talk;
    const char
        *settings[2 * MAX_SETTINGS + 1]; /* of /set: name, value, ... NULL; in the Gen's arena */
    size_t n_settings;
    const char *options; /* of mlxcel_chat_prompt */
    mlxcel_timings last;
    bool has_last, leave;
} Repl;

static void complain(const char *message) { fprintf(stderr, "mlxcel: %s\n", message); }

/* The prompt of what was said so far. Without a template only the last message counts. */
static bool make_prompt(Repl *r, mlxcel_prompt **out, mlxcel_error *why) {
    Gen *g = r->g;
    if (!g->is_chat) {
        const Buf *text = &r->talk.messages[r->talk.n - 1].content;
        return mlxcel_text_prompt(g->model, text->n ? text->p : "", text->n, true, false, out, why);
    }
    Buf json = {0};
    talk_json(&r->talk, &json);
    bool ok = mlxcel_chat_prompt(g->model, buf_cstr(&json), r->options, out, why);
    buf_deinit(&json);
    return ok;
}

/* The answer to the last message; it joins the conversation, also when Ctrl-C cut it short. */
static bool answer_last(Repl *r) {
    mlxcel_prompt *prompt = NULL;
    mlxcel_request *request = NULL;
    mlxcel_error why;
    Err err = {0};
    Answer a = {.show_reasoning = args_flag(r->g->args, "show-reasoning")};
    bool ok = make_prompt(r, &prompt, &why) &&
              gen_request(r->g, mlxcel_prompt_ids(prompt), mlxcel_prompt_n_ids(prompt), r->settings,
                          &request, &why);
    if (!ok) complain(why.message);
    ok = ok && answer_run(r->g, request, prompt, r->g->is_chat, &a) == CLI_OK;
    if (ok) {
        Str said = r->g->is_chat ? buf_str(&a.content) : buf_str(&a.text);
        r->last = a.timings;
        r->has_last = true;
        if (!talk_add(&r->talk, TALK_ASSISTANT, said, buf_str(&a.reasoning), &err))
            complain(err.msg);
        if (args_flag(r->g->args, "stats")) gen_stats(r->g, &r->last);
    }
    interrupt_clear();
    answer_deinit(&a);
    mlxcel_request_free(request);
    mlxcel_prompt_free(prompt);
    return ok;
}

static void say(Repl *r, Str text) {
    Err err = {0};
    if (!talk_add(&r->talk, TALK_USER, text, STR_NONE, &err))
        complain(err.msg);
    else if (!answer_last(r))
        talk_drop_last(&r->talk);
}

static void do_help(Repl *r, const char *rest) {
    (void)r;
    (void)rest;
    fputs("  /clear             forget the conversation\n"
          "  /regen             answer the last message again\n"
          "  /system TEXT       set the system message (no text: none)\n"
          "  /set NAME VALUE    a parameter for the next answers: temperature, top_k, n_predict, "
          "seed, ...\n"
          "  /stats             speeds of the last answer\n"
          "  /save FILE, /load FILE   the conversation, as JSON\n"
          "  /exit, /bye        leave (or Ctrl-D)\n"
          "  \"\"\" begins and ends a message of several lines; Ctrl-C stops an answer\n",
          stderr);
}

static void do_clear(Repl *r, const char *rest) {
    (void)rest;
    talk_clear(&r->talk);
    r->has_last = false;
}

static void do_regen(Repl *r, const char *rest) {
    (void)rest;
    if (r->talk.n && r->talk.messages[r->talk.n - 1].role == TALK_ASSISTANT)
        talk_drop_last(&r->talk);
    if (!r->talk.n)
        complain("there is no message to answer yet");
    else
        answer_last(r);
}

static void do_system(Repl *r, const char *rest) {
    buf_clear(&r->talk.system);
    buf_put(&r->talk.system, str_c(rest));
    if (!r->g->is_chat && *rest)
        complain("without a chat template there is no place for a system message");
}

static void do_stats(Repl *r, const char *rest) {
    (void)rest;
    if (r->has_last)
        gen_stats(r->g, &r->last);
    else
        complain("there is no answer yet");
}

static void do_set(Repl *r, const char *rest) {
    mlxcel_error why;
    Str all = str_trim(str_c(rest));
    size_t gap = str_find_char(all, ' ', 0);
    if (gap == STR_NPOS) {
        complain("/set NAME VALUE is accepted, as in /set temperature 0.7");
        return;
    }
    const char *name = arena_dupz(&r->g->arena, str_slice(all, 0, gap));
    const char *value = arena_dupz(&r->g->arena, str_trim(str_from(all, gap)));
    if (!name || !value || !mlxcel_parameter_check(name, value, &why)) {
        complain(name && value ? why.message : "out of memory");
        return;
    }
    size_t i = 0;
    while (i < r->n_settings && strcmp(r->settings[2 * i], name) != 0) i++;
    if (i == MAX_SETTINGS) {
        complain("too many settings");
        return;
    }
    if (i == r->n_settings) r->n_settings++;
    r->settings[2 * i] = name;
    r->settings[2 * i + 1] = value;
}

static void do_save(Repl *r, const char *rest) {
    Err err = {0};
    if (!*rest)
        complain("/save FILE is accepted");
    else if (!talk_save(&r->talk, rest, &err))
        complain(err.msg);
}

static void do_load(Repl *r, const char *rest) {
    Err err = {0};
    if (!*rest)
        complain("/load FILE is accepted");
    else if (!talk_load(&r->talk, rest, &err))
        complain(err.msg);
}

static void do_exit(Repl *r, const char *rest) {
    (void)rest;
    r->leave = true;
}

static const struct {
    const char *name;
    void (*run)(Repl *r, const char *rest);
} REPL_COMMANDS[] = {{"/help", do_help},   {"/?", do_help},        {"/clear", do_clear},
                     {"/regen", do_regen}, {"/system", do_system}, {"/set", do_set},
                     {"/stats", do_stats}, {"/save", do_save},     {"/load", do_load},
                     {"/exit", do_exit},   {"/bye", do_exit},      {"/quit", do_exit}};
enum { N_REPL_COMMANDS = sizeof REPL_COMMANDS / sizeof *REPL_COMMANDS };

static void command(Repl *r, Str line) {
    size_t end = 0;
    while (end < line.n && line.p[end] != ' ') end++;
    Str name = str_slice(line, 0, end);
    const char *rest = arena_dupz(&r->g->arena, str_trim(str_from(line, end))),
               *names[N_REPL_COMMANDS];
    for (size_t i = 0; i < N_REPL_COMMANDS; i++) {
        names[i] = REPL_COMMANDS[i].name;
        if (rest && str_eqc(name, REPL_COMMANDS[i].name)) {
            REPL_COMMANDS[i].run(r, rest);
            return;
        }
    }
    const char *near = args_nearest(name, names, N_REPL_COMMANDS);
    fprintf(stderr, "mlxcel: unknown command " STR_F "%s%s (/help lists all)\n", STR_A(name),
            near ? "; did you mean " : "", near ? near : "");
}

static bool is_command(Str line) {
    Str s = str_trim(line);
    size_t end = str_find_char(s, ' ', 0);
    Str name = str_slice(s, 0, end); /* "/usr/bin is full" is a message */
    return s.n > 1 && s.p[0] == '/' && (s.p[1] == '?' || (s.p[1] >= 'a' && s.p[1] <= 'z')) &&
           str_find_char(s, '\n', 0) == STR_NPOS && str_find_char(name, '/', 1) == STR_NPOS;
}

static void loop(Repl *r, ReplInput *in) {
    Buf message = {0};
    int interrupts = 0;
    while (!r->leave && !out_gone()) {
        InputKind kind = repl_input_read(in, &message);
        if (kind == INPUT_END) break;
        if (kind == INPUT_INTERRUPT_EMPTY) {
            if (interrupts++) break;
            fputs("(Ctrl-C again, Ctrl-D or /exit leaves)\n", stderr);
            continue;
        }
        interrupts = 0;
        Str s = buf_str(&message);
        if (kind == INPUT_INTERRUPT || !str_trim(s).n) continue;
        if (kind == INPUT_MESSAGE && is_command(s))
            command(r, str_trim(s));
        else
            say(r, s);
        out_flush();
    }
    buf_deinit(&message);
}

int repl_run(Gen *g) {
    Repl r = {.g = g};
    Err err = {0};
    Str system, first = str_c(args_text(g->args, "prompt"));
    int status = gen_system(g, &system);
    if (status == CLI_OK) status = gen_chat_options(g, &r.options);
    if (status != CLI_OK) return status;
    if (!mlxcel_model_has_tokenizer(g->model))
        return cli_usage("%s has no tokenizer, so there is nothing to talk with; token ids can be "
                         "given with --ids",
                         flags_model(g->args));
    g->is_chat = !args_flag(g->args, "no-chat-template");
    if (g->is_chat && !gen_has_template(g))
        complain("warning: the model has no chat template; ChatML is used, which may not fit it");
    buf_put(&r.talk.system, system);
    ReplInput *in = repl_input_open(is_command, &err);
    if (!in) return cli_fail_err(&err);
    mlxcel_log_release(true);
    fprintf(stderr, "mlxcel %s, %s, %u tokens of context. /help lists commands.\n",
            mlxcel_version(), mlxcel_model_architecture(g->model), mlxcel_engine_n_ctx(g->engine));
    if (first.n) say(&r, first);
    loop(&r, in);
    repl_input_close(in);
    talk_deinit(&r.talk);
    return CLI_OK;
}
