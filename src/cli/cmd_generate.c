/* generate, run, chat: a prompt and its answer, or a conversation. */
#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/fetch_model.h"
#include "cli/flags.h"
#include "cli/repl.h"
#include "cli/term.h"

static int check(const Args *a) {
    mlxcel_error why = {.kind = MLXCEL_UNSUPPORTED};
    int status = gen_check(a);
    if (status != CLI_OK) return status;
    const char *draft = args_text(a, "draft-model");
    if (args_has(a, "logprobs") && !args_flag(a, "json"))
        return cli_usage("--logprobs shows in --json; give both");
    if (args_flag(a, "prompt-lookup") || args_has(a, "num-draft-tokens"))
        cli_warn("drafting is not in this build; the answer is the same without it");
    if (!draft) return CLI_OK;
    snprintf(why.message, sizeof why.message,
             "--draft-model %.200s: drafting with a model is not in this build", draft);
    return cli_fail(&why);
}

static int answer_once(Gen *g) {
    bool json = args_flag(g->args, "json");
    mlxcel_error why;
    mlxcel_request *r = NULL;
    Answer a = {.quiet = json, .show_reasoning = args_flag(g->args, "show-reasoning")};
    Buf doc = {0};
    bool ok =
        gen_request(g, g->ids, g->n_ids, NULL, &r, &why) && media_args_give(&g->media, r, &why);
    int status = ok ? CLI_OK : cli_fail(&why);
    if (status == CLI_OK) status = answer_run(g, r, g->prompt, g->is_chat, &a);
    if (status == CLI_OK && json) {
        answer_json(g, &a, &doc);
        if (doc.failed)
            status = cli_fail(
                &(mlxcel_error){.kind = MLXCEL_NOMEM, .message = "out of memory for the answer"});
        else
            out_put(buf_str(&doc));
    }
    if (status == CLI_OK) {
        mlxcel_log_release(true);
        bool chatty =
            term_stderr() && (term_stdout() || strcmp(g->args->command->name, "run") == 0);
        if (args_flag(g->args, "stats") || (!json && chatty)) gen_stats(g, &a.timings);
        if (interrupted()) status = CLI_INTERRUPTED;
    }
    buf_deinit(&doc);
    answer_deinit(&a);
    mlxcel_request_free(r);
    return status;
}

static bool has_prompt(const Args *a) {
    return args_has(a, "prompt") || args_has(a, "file") || args_has(a, "ids") ||
           args_has(a, "ids-file");
}

/* run and chat fetch a model that is not here. */
static int get_model(const Args *a) {
    const char *name = flags_model(a);
    return name ? fetch_missing(a, name) : CLI_USAGE;
}

static int generate(const Args *a, bool chat, bool always_repl) {
    Gen g = {.args = a};
    bool repl = always_repl || (!has_prompt(a) && term_stdin() && !args_flag(a, "json"));
    int64_t n = args_int(a, "n-predict", -1);
    int status = check(a);
    if (status == CLI_OK && repl && args_has(a, "input"))
        status = cli_usage("--input goes with one prompt; -p TEXT, -f FILE or --ids is needed");
    if (status == CLI_OK && chat) status = get_model(a);
    if (status == CLI_OK) status = gen_open(&g);
    if (status == CLI_OK && !repl) status = gen_prompt(&g, chat);
    if (status == CLI_OK) status = gen_engine(&g, repl ? -1 : n);
    if (status == CLI_OK) status = repl ? repl_run(&g) : answer_once(&g);
    gen_close(&g);
    return status;
}

int cmd_generate(const Args *a) { return generate(a, false, false); }
int cmd_run(const Args *a) { return generate(a, true, false); }
int cmd_chat(const Args *a) { return generate(a, true, term_stdin() && !has_prompt(a)); }
