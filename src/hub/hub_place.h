/* hub_place.h: how a downloaded file becomes part of a snapshot, and the notes of what this program
 * wrote, by which `rm` knows what it may delete.
 *
 *     models--o--n/.mlxcel      lines "blob NAME", "link COMMIT/PATH", "ref NAME" */
#ifndef MLXCEL_HUB_HUB_PLACE_H
#define MLXCEL_HUB_HUB_PLACE_H

#include "base/arena.h"
#include "base/err.h"

#define HUB_NOTES ".mlxcel"

/* Appends a line to the notes, once. */
bool hub_note(Str folder, const char *kind, Str name, Err *err) MUST_CHECK;
/* snapshots/COMMIT/PATH -> ../../blobs/BLOB. What is there already and right stays. */
bool hub_place_link(Str folder, Str commit, Str path, Str blob, bool *made, Err *err) MUST_CHECK;
bool hub_place_ref(Str folder, Str revision, Str commit, Err *err) MUST_CHECK;
/* Every folder between root and path is made, and none may be a link that leads out. */
bool hub_make_folders(Str root, Str path, Err *err) MUST_CHECK;

#endif
