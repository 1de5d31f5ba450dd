#include "cli/repl.h"
int repl_run(Gen *g) { (void)g; return cli_usage("x"); }
