/* inspect: what a model is, and whether it fits; one file alone; one tensor as numbers. */
#include <string.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/inspect_table.h"
#include "cli/npy_write.h"
#include "cli/out.h"
#include "json/json_writer.h"

static int print_string(mlxcel_string *s, bool newline) {
    out_put((Str){mlxcel_string_text(s), mlxcel_string_size(s)});
    if (newline) out_put(STR("\n"));
    mlxcel_string_free(s);
    return CLI_OK;
}

static int inspect_file(const Args *a) {
    mlxcel_string *s;
    mlxcel_error why;
    if (!mlxcel_file_inspect(args_text(a, "file"), &s, &why)) return cli_fail(&why);
    if (args_flag(a, "json")) return print_string(s, true);
    int status = inspect_print_file((Str){mlxcel_string_text(s), mlxcel_string_size(s)});
    mlxcel_string_free(s);
    return status;
}

static int write_tensor(const Args *a, const mlxcel_model *model) {
    mlxcel_error why;
    Err err = {0};
    Arena arena = {0};
    mlxcel_tensor t = {.type = MLXCEL_F32};
    float *data;
    int n_dims;
    const char *path = args_text(a, "npy");
    if (!path) return cli_usage("--tensor needs --npy OUT");
    if (!mlxcel_model_tensor(model, args_text(a, "tensor"), &data, t.dims, &n_dims, &why))
        return cli_fail(&why);
    t.n_dims = (uint32_t)n_dims;
    t.data = data;
    bool ok = npy_write(path, &t, &arena, &err);
    mlxcel_free(data);
    arena_deinit(&arena);
    return ok ? CLI_OK : cli_fail_err(&err);
}

static int print_program(const Args *a, mlxcel_string *s) {
    Buf b = {0};
    JsonWriter w = {.out = &b};
    if (!args_flag(a, "json")) return print_string(s, false);
    json_w_object(&w);
    json_w_key(&w, STR("program"));
    json_w_str(&w, (Str){mlxcel_string_text(s), mlxcel_string_size(s)});
    json_w_end(&w);
    buf_putc(&b, '\n');
    out_put(buf_str(&b));
    buf_deinit(&b);
    mlxcel_string_free(s);
    return CLI_OK;
}

static int inspect_model(const Args *a, const mlxcel_model *model) {
    mlxcel_string *s;
    mlxcel_error why;
    mlxcel_engine_options asked = flags_engine_options(a);
    if (args_has(a, "tensor")) return write_tensor(a, model);
    if (args_flag(a, "program"))
        return mlxcel_model_program(model, &s, &why) ? print_program(a, s) : cli_fail(&why);
    asked.n_ctx = (uint64_t)args_int(a, "max-tokens", (int64_t)asked.n_ctx);
    asked.n_parallel = (uint32_t)args_int(a, "parallel", 1);
    if (!mlxcel_model_inspect(model, &asked, &s, &why)) return cli_fail(&why);
    if (args_flag(a, "json")) return print_string(s, true);
    int status = inspect_print_model((Str){mlxcel_string_text(s), mlxcel_string_size(s)},
                                     args_flag(a, "tensors"));
    mlxcel_string_free(s);
    return status;
}

int cmd_inspect(const Args *a) {
    mlxcel_model *model;
    mlxcel_error why;
    if (args_has(a, "file")) {
        if (args_has(a, "model") || a->n_rest)
            return cli_usage("--file reads one file alone; it does not go with a model");
        return inspect_file(a);
    }
    if (args_has(a, "npy") && !args_has(a, "tensor")) return cli_usage("--npy needs --tensor NAME");
    const char *path = flags_model(a);
    if (!path) return CLI_USAGE;
    const mlxcel_model_options o = flags_model_options(a);
    if (!mlxcel_model_open(path, &o, &model, &why)) return cli_fail(&why);
    int status = inspect_model(a, model);
    mlxcel_model_close(model);
    return status;
}
