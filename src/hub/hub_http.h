/* hub_http.h: requests to the hub. One at a time here; hub_fetch.h runs many at once.
 *
 *     HubHttp http = {.env = &env, .go = go, .ctx = ctx, .n_retries = 5, .stall_s = 10};
 *     if (!hub_http_get(&http, url, false, &reply, err)) ...
 *
 * The token goes to the endpoint's own scheme, host and port only, never to where a redirect leads.
 * Redirects are followed by hand for that reason, and because their headers say what a file is. */
#ifndef MLXCEL_HUB_HUB_HTTP_H
#define MLXCEL_HUB_HUB_HTTP_H

#include "base/buf.h"
#include "hub/hub_blob.h"
#include "hub/hub_env.h"

enum { HUB_MAX_REDIRECTS = 8 };

typedef struct HubHttp {
    const HubEnv *env;
    HubGoFn *go; /* false: stop; NULL: nobody asks */
    void *ctx;
    unsigned n_retries; /* of a request that brings nothing */
    unsigned stall_s;   /* seconds without a byte that end a connection */
} HubHttp;

/* What the headers of a response say. */
typedef struct HubHead {
    long status;
    char etag[136], linked_etag[136], commit[72], code[48], message[160];
    uint64_t length, linked_size; /* UINT64_MAX: not said */
    uint64_t from;                /* Content-Range; UINT64_MAX: none */
    unsigned retry_after_s;
} HubHead;

typedef struct HubReply {
    HubHead head; /* of the first response that was not a redirect, hub headers of any before it */
    Buf body;
    char where[2048]; /* the address that answered */
} HubReply;

bool hub_http_get(const HubHttp *h, const char *url, bool head_only, HubReply *reply,
                  Err *err) MUST_CHECK;
/* One header line; a status line begins anew (hub headers stay). */
void hub_head_line(HubHead *head, Str line);
/* What a status means for the user; fills err, false. what: the repository or the file. */
bool hub_status_error(const HubHttp *h, const HubHead *head, Str what, Err *err);
/* Worth another try: 408, 429, 5xx. */
bool hub_status_passes(long status);
bool hub_same_origin(const char *a, const char *b);
/* The endpoint is https, or this machine, or was allowed. */
bool hub_endpoint_check(const HubEnv *env, Err *err) MUST_CHECK;
bool hub_wait(const HubHttp *h, unsigned ms, Err *err) MUST_CHECK; /* ERR_CANCELLED */

/* A curl easy handle, as every request here has it: limits, certificates, the token where it may go.
 * *headers is freed by the caller with curl_slist_free_all. */
bool hub_http_setup(const HubHttp *h, void *easy, const char *url, void **headers,
                    Err *err) MUST_CHECK;
bool hub_redirect_check(const char *from, const char *to, Err *err) MUST_CHECK;

#endif
