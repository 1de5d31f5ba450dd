/* repl.h: a conversation on a terminal. */
#ifndef MLXCEL_CLI_REPL_H
#define MLXCEL_CLI_REPL_H

#include "cli/gen.h"

int repl_run(Gen *g); /* after gen_open and gen_engine */

#endif
