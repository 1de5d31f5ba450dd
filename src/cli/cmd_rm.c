/* rm: deletes a downloaded model. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/term.h"

/* The model's name must be typed, or yes. */
static bool confirmed(const char *name) {
    char line[512];
    fprintf(stderr, "type %s to delete it: ", name);
    fflush(stderr);
    ssize_t n = read(STDIN_FILENO, line, sizeof line);
    if (n <= 0) return false;
    Str answer = str_trim((Str){line, (size_t)n});
    return str_eqc(answer, name) || str_eqc(answer, "yes");
}

int cmd_rm(const Args *a) {
    mlxcel_error why;
    uint64_t bytes;
    size_t n;
    Buf b = {0};
    int status = CLI_OK;
    const char *name = a->n_rest ? a->rest[0] : args_text(a, "model");
    if (!name) return cli_usage("no model given: mlxcel rm OWNER/NAME");
    if (!mlxcel_store_remove(name, true, &bytes, &n, &why)) return cli_fail(&why);
    bool yes = args_flag(a, "yes"), dry = args_flag(a, "dry-run");
    if (!yes && !dry && !term_stdin())
        return cli_usage("rm %s: nobody can be asked here; --yes deletes without asking", name);
    buf_putf(&b, "%s: %zu files, ", name, n);
    progress_put_bytes(&b, bytes);
    if (!yes) cli_note("%s", buf_cstr(&b));
    if (!yes && !dry && !confirmed(name)) {
        cli_note("nothing was deleted");
        status = CLI_FAILED;
    } else if (!dry && !mlxcel_store_remove(name, false, &bytes, &n, &why)) {
        status = cli_fail(&why);
    } else if (!dry) {
        buf_put(&b, STR(" deleted"));
        cli_note("%s", buf_cstr(&b));
    }
    buf_deinit(&b);
    return status;
}
