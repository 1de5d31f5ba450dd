/* media_names.h: numbers for what was seen, so that a prefix tree of tokens can tell images apart: the
 * same rows of media get the same number, different ones different numbers. Compared by a digest of
 * 128 bits under a key of this process. Belongs to an engine; one thread. */
#ifndef MLXCEL_ENGINE_MEDIA_NAMES_H
#define MLXCEL_ENGINE_MEDIA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct MediaDigest {
    uint64_t half[2];
} MediaDigest;

typedef struct MediaNames MediaNames;

MediaNames *media_names_new(Err *err);
void media_names_free(MediaNames *n); /* NULL is allowed */
/* Adds bytes to a digest that began as zeros. */
void media_digest(const MediaNames *n, MediaDigest *d, const void *bytes, size_t size);
/* The digest's number, below 2^31, new if it was not seen among the last MEDIA_NAMES_KEPT. */
enum { MEDIA_NAMES_KEPT = 1 << 14 };
uint32_t media_names_number(MediaNames *n, const MediaDigest *d);

#endif
