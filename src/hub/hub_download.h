/* hub_download.h: a model from the hub to the disk: first what it takes, then the files.
 *
 *     HubDownload d = {.ask = {.name = STR("owner/name:Q4_K_M")}};
 *     if (!hub_download_plan(&d, err)) ...   asks the hub; d.total_bytes, d.missing_bytes
 *     if (!hub_download_run(&d, err)) ...    d.path: what to open
 *     hub_download_deinit(&d);
 *
 * In the cache: blobs/HASH, then snapshots/COMMIT/NAME links to them, and only when all are there
 * refs/REVISION, so that what a name finds is whole. A file .mlxcel beside them notes what was written,
 * for `rm`. With ask.local_dir the files themselves, no links. */
#ifndef MLXCEL_HUB_HUB_DOWNLOAD_H
#define MLXCEL_HUB_HUB_DOWNLOAD_H

#include "hub/hub_choose.h"
#include "hub/hub_fetch.h"
#include "hub/hub_listing.h"
#include "hub/hub_name.h"

typedef struct HubAsk {
    Str name;             /* of hub_name.h; a bare one gets the default owner */
    Str revision;         /* empty: the name's own, or main */
    Str local_dir;        /* empty: the cache; NUL-terminated */
    Str models_dir;       /* empty, or: local_dir is OWNER/NAME in this folder */
    HubRule rule;         /* its quant is the name's */
    size_t n_connections; /* 0: 8 */
    unsigned n_retries;
    bool (*progress)(void *ctx, const HubProgress *p);
    void *ctx;
} HubAsk;

typedef struct HubDownload {
    HubAsk ask;
    Arena arena;
    HubEnv env;
    HubHttp http;
    HubName name;
    Str repo;   /* owner/name */
    Str folder; /* of the cache: models--owner--name, whole path */
    Str revision, commit;
    HubListing listing;
    size_t n_files; /* chosen */
    uint64_t total_bytes, missing_bytes;
    Str path; /* snapshot folder, .gguf file, or local_dir */
} HubDownload;

bool hub_download_plan(HubDownload *d, Err *err) MUST_CHECK;
bool hub_download_run(HubDownload *d, Err *err) MUST_CHECK;
void hub_download_deinit(HubDownload *d);
/* Where a chosen file ends, with a NUL behind. */
Str hub_download_target(HubDownload *d, const HubFile *f);

#endif
