/* media_args.h: --input NAME=FILE.npy, --input NAME=JSON and --output NAME=FILE.npy.
 *
 *     status = media_args_read(&m, args, &arena)      before anything is loaded
 *     media_args_give(&m, request, &error)            before it is submitted
 *     media_args_write(&m, request, &arena, err)      when it is done
 *
 * Everything is the arena's. */
#ifndef MLXCEL_CLI_MEDIA_ARGS_H
#define MLXCEL_CLI_MEDIA_ARGS_H

#include "cli/args.h"
#include "mlxcel.h"

typedef struct MediaOut {
    const char *name, *path;
} MediaOut;

typedef struct MediaArgs {
    mlxcel_tensor *inputs;
    MediaOut *outputs;
    size_t n_inputs, n_outputs;
} MediaArgs;

/* An exit status, after saying what is wrong. */
int media_args_read(MediaArgs *m, const Args *args, Arena *a) MUST_CHECK;
bool media_args_give(const MediaArgs *m, mlxcel_request *r, mlxcel_error *error) MUST_CHECK;
/* float32 and int64 arrays; each file appears when it is complete */
bool media_args_write(const MediaArgs *m, const mlxcel_request *r, Arena *a, Err *err) MUST_CHECK;

#endif
