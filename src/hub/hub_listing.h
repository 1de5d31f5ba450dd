/* hub_listing.h: the hub's answer about a repository: its commit and its files. Both shapes are read,
 * that of /api/models/NAME/revision/REV (an object with "sha" and "siblings") and that of
 * /api/models/NAME/tree/REV (an array). Every file name is checked; a bad one refuses the whole. */
#ifndef MLXCEL_HUB_HUB_LISTING_H
#define MLXCEL_HUB_HUB_LISTING_H

#include "hub/hub_choose.h"

enum { HUB_MAX_FILES = 100000 };

typedef struct HubListing {
    Str commit; /* empty: not said */
    HubFile *files;
    size_t n;
} HubListing;

/* Everything is copied into the arena. ERR_CORRUPT names what is wrong. */
bool hub_listing_parse(Str json, Arena *a, HubListing *out, Err *err) MUST_CHECK;

#endif
