/* tensor_json.h: a tensor written as JSON: nested arrays of numbers, or one number. [[1, 4, 6]] is
 * int64 [1, 3]; a number with a fraction or an exponent anywhere makes it float32; true and false are
 * 1 and 0. */
#ifndef MLXCEL_CLI_TENSOR_JSON_H
#define MLXCEL_CLI_TENSOR_JSON_H

#include "base/arena.h"
#include "base/err.h"
#include "mlxcel.h"

/* Fills all of out but its name; the data is the arena's. ERR_INPUT: no JSON, rows that differ in
 * length, something else than numbers, a number out of range, too many dimensions. */
bool tensor_from_json(Str text, Arena *a, mlxcel_tensor *out, Err *err) MUST_CHECK;

#endif
