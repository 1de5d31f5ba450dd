/* inspect_table.h: the documents of mlxcel_model_inspect and mlxcel_file_inspect as tables for
 * people. */
#ifndef MLXCEL_CLI_INSPECT_TABLE_H
#define MLXCEL_CLI_INSPECT_TABLE_H

#include "base/str.h"

int inspect_print_model(Str json, bool tensors);
int inspect_print_file(Str json);

#endif
