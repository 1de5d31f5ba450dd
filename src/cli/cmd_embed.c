/* embed, rerank: texts to vectors, and how well documents answer a query. */
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/out.h"

/* The library has no task for encoders yet: a model that could do it is refused by its type
 * already. */
static int refuse(const Args *a, const char *what) {
    mlxcel_model *model;
    mlxcel_error why;
    Err err = {0};
    const char *path = flags_model(a);
    if (!path) return CLI_USAGE;
    const mlxcel_model_options o = flags_model_options(a);
    if (!mlxcel_model_open(path, &o, &model, &why)) return cli_fail(&why);
    err_set(&err, ERR_UNSUPPORTED,
            "%s is a text generator (%s); %s needs an encoder, and this build runs none", path,
            mlxcel_model_architecture(model), what);
    mlxcel_model_close(model);
    return cli_fail_err(&err);
}

int cmd_embed(const Args *a) { return refuse(a, "embed"); }
int cmd_rerank(const Args *a) { return refuse(a, "rerank"); }
