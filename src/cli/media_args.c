#include "cli/media_args.h"

#include <string.h>

#include "cli/npy_read.h"
#include "cli/npy_write.h"
#include "cli/out.h"
#include "cli/tensor_json.h"
#include "json/json.h"

static size_t count(const Args *args, const char *flag) {
    size_t n = 0;
    for (size_t i = 0; args_next(args, flag, &i);) n++;
    return n;
}

/* NAME=VALUE */
static bool split(const char *text, Arena *a, const char **name, const char **value) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) return false;
    *value = equals + 1;
    return (*name = arena_dupz(a, (Str){text, (size_t)(equals - text)})) != NULL;
}

/* Whatever is no JSON names a file; a broken array is meant as one. */
static bool read_value(const char *value, Arena *a, mlxcel_tensor *out, Err *err) {
    Str text = str_trim(str_c(value));
    bool file = str_ends(text, STR(".npy")) ||
                (!str_starts(text, STR("[")) && !json_check(text, NULL, NULL));
    return file ? npy_read(value, a, out, err) : tensor_from_json(text, a, out, err);
}

static int read_inputs(MediaArgs *m, const Args *args, Arena *a) {
    const char *text, *value;
    for (size_t i = 0; (text = args_next(args, "input", &i)) != NULL; m->n_inputs++) {
        mlxcel_tensor *t = &m->inputs[m->n_inputs];
        Err err = {0};
        if (!split(text, a, &t->name, &value))
            return cli_usage("--input is \"%s\"; NAME=FILE.npy or NAME=JSON is accepted", text);
        if (!read_value(value, a, t, &err)) {
            err_wrap(&err, "--input %s", t->name);
            return cli_fail_err(&err);
        }
    }
    return CLI_OK;
}

int media_args_read(MediaArgs *m, const Args *args, Arena *a) {
    const char *text;
    Err err = {0};
    *m = (MediaArgs){.inputs = arena_array(a, mlxcel_tensor, count(args, "input")),
                     .outputs = arena_array(a, MediaOut, count(args, "output"))};
    if (!m->inputs || !m->outputs) {
        err_nomem(&err, "inputs");
        return cli_fail_err(&err);
    }
    for (size_t i = 0; (text = args_next(args, "output", &i)) != NULL; m->n_outputs++) {
        MediaOut *o = &m->outputs[m->n_outputs];
        if (!split(text, a, &o->name, &o->path))
            return cli_usage("--output is \"%s\"; NAME=FILE.npy is accepted", text);
    }
    return read_inputs(m, args, a);
}

bool media_args_give(const MediaArgs *m, mlxcel_request *r, mlxcel_error *error) {
    for (size_t i = 0; i < m->n_inputs; i++)
        if (!mlxcel_request_input(r, &m->inputs[i], error)) return false;
    return true;
}

bool media_args_write(const MediaArgs *m, const mlxcel_request *r, Arena *a, Err *err) {
    for (size_t i = 0; i < m->n_outputs; i++) {
        mlxcel_tensor t;
        mlxcel_error why;
        if (!mlxcel_request_output(r, m->outputs[i].name, &t, &why))
            return err_set(err, (ErrKind)why.kind, "--output: %s", why.message);
        if (!npy_write(m->outputs[i].path, &t, a, err)) return false;
    }
    return true;
}
