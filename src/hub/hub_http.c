#include "hub/hub_http.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

bool hub_wait(const HubHttp *h, unsigned ms, Err *err) {
    for (unsigned done = 0; done < ms; done += 50) {
        if (h->go && !h->go(h->ctx)) return err_set(err, ERR_CANCELLED, "the download was stopped");
        poll(NULL, 0, 50);
    }
    return true;
}

#ifdef HAVE_DOWNLOAD
#include <curl/curl.h>

enum { BODY_MAX = 64 << 20, CONNECT_S = 20 };

/* scheme://host:port, in small letters; "" for what is no address. */
static void origin_of(const char *url, char out[512]) {
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    out[0] = 0;
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
        snprintf(out, 512, "%s://%s:%s", scheme, host, port);
    for (char *c = out; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
}

bool hub_same_origin(const char *a, const char *b) {
    char x[512], y[512];
    origin_of(a, x);
    origin_of(b, y);
    return x[0] && strcmp(x, y) == 0;
}

bool hub_redirect_check(const char *from, const char *to, Err *err) {
    char a[512], b[512];
    origin_of(from, a);
    origin_of(to, b);
    bool secure = str_starts(str_c(b), STR("https://"));
    if (secure || (str_starts(str_c(b), STR("http://")) && !str_starts(str_c(a), STR("https://"))))
        return true;
    return err_set(err, ERR_IO, "%s sends on to \"%.100s\"; an https address is accepted", a, to);
}

bool hub_endpoint_check(const HubEnv *env, Err *err) {
    static const char *const LOCAL[] = {"http://127.", "http://localhost:", "http://[::1]:"};
    char origin[512];
    origin_of(env->endpoint.p, origin);
    bool ok = str_starts(str_c(origin), STR("https://"));
    bool plain = str_starts(str_c(origin), STR("http://"));
    for (size_t i = 0; i < 3; i++) ok = ok || str_starts(str_c(origin), str_c(LOCAL[i]));
    if (ok || (plain && env->insecure_ok)) return true;
    if (plain)
        return err_set(
            err, ERR_INPUT,
            "HF_ENDPOINT is %s, where anybody on the way can read and change what comes; "
            "https, this machine, or MLXCEL_ALLOW_INSECURE_ENDPOINT=1 is accepted",
            env->endpoint.p);
    return err_set(err, ERR_INPUT, "HF_ENDPOINT is \"%.200s\"; an https address is accepted",
                   env->endpoint.p);
}

bool hub_http_setup(const HubHttp *h, void *easy, const char *url, void **headers, Err *err) {
    CURL *c = easy;
    struct curl_slist *list = NULL;
    Buf auth = {0};
    *headers = NULL;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "mlxcel/" MLXCEL_VERSION);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)h->stall_s);
    if (h->env->ca_file.p) curl_easy_setopt(c, CURLOPT_CAINFO, h->env->ca_file.p);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    if (!h->env->token.n || !hub_same_origin(url, h->env->endpoint.p)) return true;
    buf_putf(&auth, "Authorization: Bearer %s", h->env->token.p);
    list = curl_slist_append(NULL, buf_cstr(&auth));
    buf_deinit(&auth);
    if (!list) return err_nomem(err, "a request");
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
    *headers = list;
    return true;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx) {
    HubReply *r = ctx;
    hub_head_line(&r->head, (Str){p, size * n});
    return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx) {
    HubReply *r = ctx;
    buf_put(&r->body, (Str){p, size * n});
    return r->body.failed ? 0 : size * n;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const HubHttp *h = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return h->go && !h->go(h->ctx);
}

/* One exchange; a redirect is an answer like any other. next gets where it leads. */
static bool exchange(const HubHttp *h, const char *url, bool head_only, HubReply *r, char *next,
                     bool *again, Err *err) {
    CURL *c = curl_easy_init();
    void *headers = NULL;
    char *to = NULL;
    bool ok = (c || err_nomem(err, "a request")) && hub_http_setup(h, c, url, &headers, err);
    *again = false;
    next[0] = 0;
    if (ok) {
        buf_clear(&r->body);
        r->body.max = BODY_MAX;
        curl_easy_setopt(c, CURLOPT_NOBODY, head_only ? 1L : 0L);
        curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, head_only ? NULL : "");
        curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(c, CURLOPT_HEADERDATA, r);
        curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
        curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(c, CURLOPT_XFERINFODATA, h);
        CURLcode code = curl_easy_perform(c);
        if (code == CURLE_ABORTED_BY_CALLBACK)
            ok = err_set(err, ERR_CANCELLED, "the download was stopped");
        else if (r->body.failed)
            ok = err_set(err, ERR_LIMIT, "%.150s answers with more than %d bytes", url, BODY_MAX);
        else if (code != CURLE_OK) {
            *again = code != CURLE_PEER_FAILED_VERIFICATION;
            ok = err_set(err, ERR_IO, "%.150s: %s", url, curl_easy_strerror(code));
        } else if (curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &to) == CURLE_OK && to &&
                   (r->head.status == 301 || r->head.status == 302 || r->head.status == 303 ||
                    r->head.status == 307 || r->head.status == 308))
            snprintf(next, sizeof r->where, "%s", to);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(c);
    return ok;
}

static bool try_once(const HubHttp *h, const char *url, bool head_only, HubReply *r, bool *again,
                     Err *err) {
    char next[sizeof r->where];
    snprintf(r->where, sizeof r->where, "%s", url);
    memset(&r->head, 0, sizeof r->head);
    r->head.linked_size = UINT64_MAX;
    for (int i = 0; i <= HUB_MAX_REDIRECTS; i++) {
        if (!exchange(h, r->where, head_only, r, next, again, err)) return false;
        if (!next[0]) return true;
        /* the contents lie elsewhere, and all there is to know was said */
        if (head_only && r->head.linked_size != UINT64_MAX) return true;
        if (!hub_redirect_check(r->where, next, err)) return false;
        memcpy(r->where, next, sizeof next);
    }
    return err_set(err, ERR_IO, "%.150s: more than %d redirects", url, HUB_MAX_REDIRECTS);
}

bool hub_http_get(const HubHttp *h, const char *url, bool head_only, HubReply *r, Err *err) {
    bool again;
    for (unsigned i = 0;; i++) {
        bool ok = try_once(h, url, head_only, r, &again, err);
        if (ok && !hub_status_passes(r->head.status)) return true;
        if ((!ok && !again) || i >= h->n_retries) return ok;
        unsigned ms =
            r->head.retry_after_s ? r->head.retry_after_s * 1000 : 500u << (i < 6 ? i : 6);
        if (!hub_wait(h, ms, err)) return false;
    }
}

#endif
