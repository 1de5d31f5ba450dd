/* Headers and statuses of the hub: no network here. */
#include <string.h>

#include "hub/hub_http.h"

static void copy(char *to, size_t size, Str v) {
    size_t n = v.n < size - 1 ? v.n : size - 1;
    if (n) memcpy(to, v.p, n);
    to[n] = 0;
}

/* W/"abc" and "abc" are abc. */
static Str bare_etag(Str v) {
    if (str_starts(v, STR("W/"))) v = str_from(v, 2);
    if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"') v = str_slice(v, 1, v.n - 1);
    return v;
}

void hub_head_line(HubHead *h, Str line) {
    line = str_trim(line);
    size_t colon = str_find_char(line, ':', 0);
    uint64_t n;
    if (str_starts(line, STR("HTTP/"))) {
        size_t blank = str_find_char(line, ' ', 0);
        h->status = 0;
        if (blank != STR_NPOS && str_to_u64(str_slice(line, blank + 1, blank + 4), &n))
            h->status = (long)n;
        h->length = h->from = UINT64_MAX;
        h->retry_after_s = 0;
        return;
    }
    if (colon == STR_NPOS) return;
    Str name = str_slice(line, 0, colon), v = str_trim(str_from(line, colon + 1));
    if (str_ieq(name, STR("etag")) && !h->etag[0]) copy(h->etag, sizeof h->etag, bare_etag(v));
    if (str_ieq(name, STR("x-linked-etag")))
        copy(h->linked_etag, sizeof h->linked_etag, bare_etag(v));
    if (str_ieq(name, STR("x-repo-commit"))) copy(h->commit, sizeof h->commit, v);
    if (str_ieq(name, STR("x-error-code"))) copy(h->code, sizeof h->code, v);
    if (str_ieq(name, STR("x-error-message"))) copy(h->message, sizeof h->message, v);
    if (str_ieq(name, STR("content-length")) && str_to_u64(v, &n)) h->length = n;
    if (str_ieq(name, STR("x-linked-size")) && str_to_u64(v, &n)) h->linked_size = n;
    if (str_ieq(name, STR("retry-after")) && str_to_u64(v, &n))
        h->retry_after_s = n > 3600 ? 3600 : (unsigned)n;
    if (str_ieq(name, STR("content-range")) && str_starts(v, STR("bytes "))) {
        Str range = str_from(v, 6);
        size_t dash = str_find_char(range, '-', 0);
        if (dash != STR_NPOS && str_to_u64(str_slice(range, 0, dash), &n)) h->from = n;
    }
}

bool hub_status_passes(long s) { return s == 408 || s == 429 || (s >= 500 && s < 600); }

bool hub_status_error(const HubHttp *h, const HubHead *head, Str what, Err *err) {
    const char *at = h->env->endpoint.p;
    Str code = str_c(head->code);
    if (str_eqc(code, "RevisionNotFound"))
        return err_set(err, ERR_NOT_FOUND, STR_F ": %s has no such revision", STR_A(what), at);
    if (head->status == 401 && h->env->token.n)
        return err_set(err, ERR_INPUT,
                       STR_F
                       ": %s does not accept the token (HF_TOKEN), or has no such model (401)",
                       STR_A(what), at);
    if (head->status == 401)
        return err_set(err, ERR_INPUT,
                       STR_F ": %s has no such model, or one that needs a token; HF_TOKEN holds it "
                             "(401)",
                       STR_A(what), at);
    if (head->status == 403)
        return err_set(err, ERR_INPUT,
                       STR_F
                       ": access is refused (403%s%s); a gated model is granted on its page at "
                       "%s to the account of HF_TOKEN",
                       STR_A(what), head->message[0] ? ": " : "", head->message, at);
    if (head->status == 404)
        return err_set(err, ERR_NOT_FOUND, STR_F ": %s does not have it (404)", STR_A(what), at);
    if (head->status == 429)
        return err_set(err, ERR_BUSY, STR_F ": %s asks to come back later (429)", STR_A(what), at);
    return err_set(err, ERR_IO, STR_F ": %s answered with status %ld", STR_A(what), at,
                   head->status);
}
