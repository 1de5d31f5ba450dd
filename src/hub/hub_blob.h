/* hub_blob.h: one file on its way to disk.
 *
 *     NAME.incomplete   what came so far: always a prefix of the file, so a later run goes on from it
 *     NAME              appears by rename, after the check sums were right
 *     LOCK              held (flock) while somebody writes; the hub's own tools use the same one
 *
 *     hub_blob_lock(&b, &mine, err)    mine false: another process has it; ask again later
 *     hub_blob_open(&b, err)           reads the prefix for the check sums; b.done: the file is there
 *     hub_blob_write ...  hub_blob_finish(&b, err)
 *     hub_blob_close(&b)               also after failures: what came stays */
#ifndef MLXCEL_HUB_HUB_BLOB_H
#define MLXCEL_HUB_HUB_BLOB_H

#include "base/arena.h"
#include "hub/hub_digest.h"

typedef bool HubGoFn(void *ctx); /* false: the caller wants to stop */

typedef struct HubBlob {
    Str path, part, lock; /* NUL-terminated: final, incomplete, lock */
    Str what;             /* for messages: the file's name in the repository */
    uint64_t size;        /* UINT64_MAX: unknown */
    Str sha256, oid;      /* empty: not checked */
    bool replace;         /* a file of that name with other contents is no reason to stop */
    HubGoFn *go;          /* asked while long prefixes are read; NULL: nobody */
    void *ctx;

    int fd, lock_fd; /* -1: closed; hub_blob_init sets them */
    HubDigest digest;
    uint64_t written;
    bool done;
} HubBlob;

void hub_blob_init(HubBlob *b);
bool hub_blob_lock(HubBlob *b, bool *mine, Err *err) MUST_CHECK;
bool hub_blob_open(HubBlob *b, Err *err) MUST_CHECK;
bool hub_blob_write(HubBlob *b, Str bytes, Err *err) MUST_CHECK;
/* Forgets what came. */
bool hub_blob_restart(HubBlob *b, Err *err) MUST_CHECK;
/* ERR_CORRUPT: the check sums differ; what came is still there. */
bool hub_blob_finish(HubBlob *b, Err *err) MUST_CHECK;
void hub_blob_close(HubBlob *b);
/* Whether a whole file has the contents wanted (b.size, b.sha256, b.oid); false with err.kind
 * ERR_NONE: it has others. */
bool hub_blob_matches(const HubBlob *b, const char *path, Err *err);

#endif
