/* hub_fetch.h: many files over a few connections at once.
 *
 *     HubItem items[n] = {{.url = url, .blob = {...}}, ...};
 *     if (!hub_fetch(&http, items, n, &options, err)) ...   what came stays in .incomplete files
 *
 * One thread: curl's multi interface. Files are begun in order; a large one takes as many connections
 * as are free, each for a range. A broken connection is tried again from where it broke, with growing
 * waits; a server that knows no ranges gets one connection. The whole fails with its first file. */
#ifndef MLXCEL_HUB_HUB_FETCH_H
#define MLXCEL_HUB_HUB_FETCH_H

#include "hub/hub_http.h"

typedef struct HubItem {
    Str url; /* at the endpoint, NUL-terminated */
    HubBlob blob;
} HubItem;

typedef struct HubProgress {
    const char *file; /* the one that is furthest behind; "" while there is none */
    uint64_t done_bytes, total_bytes;
    size_t n_done, n_files;
    bool waiting; /* another process downloads what is left */
} HubProgress;

typedef struct HubFetchOptions {
    size_t n_connections;
    uint64_t chunk_bytes;
    bool (*progress)(void *ctx, const HubProgress *p); /* false: stop; NULL */
    void *ctx;
} HubFetchOptions;

bool hub_fetch(const HubHttp *h, HubItem *items, size_t n, const HubFetchOptions *o,
               Err *err) MUST_CHECK;

#endif
