#include "cli/commands.h"
#include "cli/out.h"
int cmd_bench(const Args *a) { (void)a; return cli_usage("x"); }
