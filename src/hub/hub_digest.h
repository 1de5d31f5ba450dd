/* hub_digest.h: checks of a file's contents as they arrive: the sha256 that the hub states for large
 * files, git's name (sha1 over "blob SIZE\0" and the bytes) for small ones.
 *
 *     HubDigest d = {0};
 *     if (!hub_digest_init(&d, sha256, oid, size, err)) ...      empty texts: not checked
 *     hub_digest_update(&d, bytes);
 *     if (!hub_digest_check(&d, "model.safetensors", err)) ...   ERR_CORRUPT with both values
 *     hub_digest_deinit(&d); */
#ifndef MLXCEL_HUB_HUB_DIGEST_H
#define MLXCEL_HUB_HUB_DIGEST_H

#include "base/err.h"
#include "base/str.h"

typedef struct HubDigest {
    void *contexts[3]; /* sha256, git's sha1, sha1 of the bare bytes; NULL: not wanted */
    Str sha256, oid;   /* borrowed */
} HubDigest;

bool hub_digest_init(HubDigest *d, Str sha256, Str oid, uint64_t size, Err *err) MUST_CHECK;
void hub_digest_deinit(HubDigest *d);
void hub_digest_update(HubDigest *d, Str bytes);
bool hub_digest_check(HubDigest *d, Str what, Err *err) MUST_CHECK; /* once */
/* sha256 of a text in 64 digits; false where this build has no libcrypto. */
bool hub_digest_text(Str text, char hex[65]);

#endif
