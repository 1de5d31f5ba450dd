/* commands.h: the entry of every command, one file each. They give the exit status. */
#ifndef MLXCEL_CLI_COMMANDS_H
#define MLXCEL_CLI_COMMANDS_H

#include "cli/args.h"

int cmd_run(const Args *a);
int cmd_chat(const Args *a);
int cmd_generate(const Args *a);
int cmd_score(const Args *a);
int cmd_tokenize(const Args *a);
int cmd_detokenize(const Args *a);
int cmd_template(const Args *a);
int cmd_parse(const Args *a);
int cmd_grammar(const Args *a);
int cmd_inspect(const Args *a);
int cmd_bench(const Args *a);
int cmd_arch(const Args *a);
int cmd_quantize(const Args *a);
int cmd_embed(const Args *a);
int cmd_rerank(const Args *a);
int cmd_download(const Args *a);
int cmd_list(const Args *a);
int cmd_rm(const Args *a);
int cmd_env(const Args *a);

extern const Command COMMANDS[];
extern const size_t N_COMMANDS;

#endif
