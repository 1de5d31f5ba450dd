/* hub_name.h: how models are named, and which file names of a repository are harmless.
 *
 *     owner/name   name   owner/name:Q4_K_M   owner/name@revision   owner/name@revision:Q4_K_M
 *
 * What comes from outside is checked here, once, before it becomes part of a path or an address. */
#ifndef MLXCEL_HUB_HUB_NAME_H
#define MLXCEL_HUB_HUB_NAME_H

#include "base/arena.h"
#include "base/err.h"

typedef struct HubName {
    Str owner;    /* empty: a bare name */
    Str name;     /* of the model */
    Str revision; /* empty: not said */
    Str quant;    /* empty: not said */
} HubName;

/* ERR_INPUT says what is wrong with it. The parts borrow from text. */
bool hub_name_parse(Str text, HubName *out, Err *err) MUST_CHECK;
/* A branch, tag ("refs/pr/1" too) or commit. */
bool hub_revision_check(Str revision, Err *err) MUST_CHECK;
/* "models--owner--name", the folder of the cache; .p NULL: no memory. */
Str hub_name_folder(const HubName *n, Arena *a);
/* The reverse: false for other folders. The parts borrow from folder. */
bool hub_folder_name(Str folder, HubName *out);

/* A path inside a repository, as the hub lists it: relative, no "." or ".." parts, no control
 * characters, bounded. */
bool hub_file_check(Str path, Err *err) MUST_CHECK;
/* What names a blob: letters, digits, '.', '_' and '-', not beginning with a dot. */
bool hub_is_blob_name(Str s);
bool hub_is_hex(Str s, size_t n_digits);

#endif
