/* fetch_model.h: downloads as the command line shows them: a line of progress on a terminal (with -v
 * a line now and then elsewhere), Ctrl-C stops and leaves what came. */
#ifndef MLXCEL_CLI_FETCH_MODEL_H
#define MLXCEL_CLI_FETCH_MODEL_H

#include "cli/args.h"
#include "cli/out.h"

/* The files of a plan. */
int fetch_run(mlxcel_download *d);
/* What run and chat do about a model that is not here: say what it takes, and get it. */
int fetch_missing(const Args *a, const char *name);
/* Options of the plan that show nothing but hear Ctrl-C. */
mlxcel_download_options fetch_options(const Args *a);
/* The model that run means when none is named. */
const char *fetch_default_model(void);

#endif
