/* help.h: --help, from the tables. */
#ifndef MLXCEL_CLI_HELP_H
#define MLXCEL_CLI_HELP_H

#include "cli/args.h"

void help_command(const Command *c);
void help_all(const Command *commands, size_t n);

#endif
