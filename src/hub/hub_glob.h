/* hub_glob.h: patterns of file names: '*' any run of bytes ('/' too, as the hub's tools have it),
 * '?' any one, [abc] [a-z] [!abc] one of a set, anything else itself. The work is bounded by
 * pattern times text. */
#ifndef MLXCEL_HUB_HUB_GLOB_H
#define MLXCEL_HUB_HUB_GLOB_H

#include "base/str.h"

/* A pattern that ends with '/' stands for everything in that folder. */
bool hub_glob(Str pattern, Str text);

#endif
