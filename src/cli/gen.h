/* gen.h: one answer, from flags to text: what generate, run, chat and score have in common.
 * Functions give an exit status after saying what went wrong (CLI_OK: go on).
 *
 *     Gen g = {.args = a};
 *     if ((status = gen_open(&g)) == CLI_OK && (status = gen_prompt(&g)) == CLI_OK && ... gen_engine(&g, room) ...
 *     gen_close(&g); */
#ifndef MLXCEL_CLI_GEN_H
#define MLXCEL_CLI_GEN_H

#include "cli/args.h"
#include "cli/media_args.h"
#include "cli/out.h"

typedef struct Gen {
    const Args *args;
    Arena arena;
    mlxcel_model *model;
    mlxcel_engine *engine;
    mlxcel_prompt *prompt; /* of text; NULL with --ids */
    bool is_chat;          /* made with the chat template */
    const uint32_t *ids;   /* the prompt's */
    size_t n_ids;
    MediaArgs media; /* what goes in beside the prompt, for gen's callers to give */
} Gen;

/* Flags that are checked before anything is loaded. */
int gen_check(const Args *a);
int gen_open(Gen *g);
void gen_close(Gen *g);
/* Where the prompt's text comes from: flags, else stdin if it is no terminal. *text.p NULL: nowhere
 * (a terminal waits). */
int gen_text(Gen *g, Str *text);
/* ids or text of the flags into a prompt; chat: by the chat template unless flags or the model say
 * otherwise. */
int gen_prompt(Gen *g, bool chat_by_default);
int gen_prompt_text(Gen *g, Str text, bool chat_by_default);
/* A context for the prompt and n_predict more (-1: the model's own), unless -c says another. */
int gen_engine(Gen *g, int64_t n_predict);
/* Options of mlxcel_chat_prompt from the flags: NULL when there are none. */
int gen_chat_options(Gen *g, const char **options);
bool gen_has_template(const Gen *g);
int gen_system(Gen *g, Str *text); /* .p NULL: no system message */
/* A request with all flags applied; names and values of `more` (NULL-terminated pairs) after
 * them. */
bool gen_request(Gen *g, const uint32_t *ids, size_t n_ids, const char *const *more,
                 mlxcel_request **out, mlxcel_error *err);
void gen_stats(const Gen *g, const mlxcel_timings *t); /* the line on stderr */
void gen_profile(const Gen *g, const mlxcel_timings *t);
double gen_prompt_rate(const mlxcel_timings *t); /* tokens a second; 0: unknown */
double gen_answer_rate(const mlxcel_timings *t);

#endif
