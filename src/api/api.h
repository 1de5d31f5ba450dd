/* api.h: what is behind the opaque types of mlxcel.h, shared by the files of api/. */
#ifndef MLXCEL_API_API_H
#define MLXCEL_API_API_H

#include "engine/engine.h"
#include "mlxcel.h"

struct mlxcel_model {
    Model *m;
};

struct mlxcel_engine {
    Engine *e;
    mlxcel_model *model;
};

struct mlxcel_string {
    Buf buf;
};

/* Err and mlxcel_error say the same in two languages. */
bool api_fail(mlxcel_error *out, const Err *err); /* copies; false */
/* Moves a Buf into a new mlxcel_string. Frees the Buf on failure. */
bool api_string(Buf *from, mlxcel_string **out, mlxcel_error *err);
/* EngineOptions of the public ones (NULL: defaults). */
bool api_engine_options(const mlxcel_engine_options *from, EngineOptions *to, Err *err) MUST_CHECK;

#endif
