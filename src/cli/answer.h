/* answer.h: runs one request and shows its answer as it comes: to the terminal, split into answer
 * and reasoning, or collected for --json.
 *
 *     Answer out = {.show_reasoning = true};
 *     status = answer_run(&g, request, &out);
 *     ... out.text, out.ids, out.timings ...
 *     answer_deinit(&out); */
#ifndef MLXCEL_CLI_ANSWER_H
#define MLXCEL_CLI_ANSWER_H

#include "cli/gen.h"
#include "json/json_writer.h"

typedef struct Answer {
    bool quiet; /* nothing on stdout: for --json */
    bool show_reasoning;
    Buf text;               /* all of it, as the model wrote it */
    Buf content, reasoning; /* of chats */
    uint32_t *ids;
    size_t n_ids, cap_ids;
    Buf logprobs; /* the elements of the JSON array */
    const char *finish_reason, *finish_detail;
    mlxcel_timings timings;
    /* while it runs */
    const Gen *g;
    mlxcel_reply *reply; /* splits chats; NULL: plain text */
    bool in_reasoning, failed, ended_line;
} Answer;

/* Splits by the reasoning marks of the model's template if the prompt is a chat. */
int answer_run(Gen *g, mlxcel_request *r, const mlxcel_prompt *prompt, bool split, Answer *out);
void answer_deinit(Answer *out);
/* The document of generate --json. */
void answer_json(const Gen *g, const Answer *out, Buf *json);

#endif
