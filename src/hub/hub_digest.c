#include "hub/hub_digest.h"

#include <string.h>

#include "base/buf.h"

#ifdef HAVE_DOWNLOAD
#include <openssl/evp.h>

enum { SHA256, GIT, PLAIN, N_KINDS };

static bool begin(HubDigest *d, int kind, const EVP_MD *md) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    d->contexts[kind] = ctx;
    return ctx && EVP_DigestInit_ex(ctx, md, NULL) == 1;
}

bool hub_digest_init(HubDigest *d, Str sha256, Str oid, uint64_t size, Err *err) {
    Buf head = {0};
    bool ok = true;
    *d = (HubDigest){.sha256 = sha256, .oid = oid};
    if (sha256.n) ok = begin(d, SHA256, EVP_sha256());
    if (ok && oid.n && size != UINT64_MAX) {
        /* Copies of a hub are known to state the sha1 of the bytes alone. */
        ok = begin(d, GIT, EVP_sha1()) && begin(d, PLAIN, EVP_sha1());
        buf_putf(&head, "blob %llu", (unsigned long long)size);
        buf_putc(&head, 0);
        ok = ok && !head.failed && EVP_DigestUpdate(d->contexts[GIT], head.p, head.n) == 1;
    }
    buf_deinit(&head);
    if (ok) return true;
    hub_digest_deinit(d);
    return err_nomem(err, "a check sum");
}

void hub_digest_deinit(HubDigest *d) {
    for (int i = 0; i < N_KINDS; i++) EVP_MD_CTX_free(d->contexts[i]);
    *d = (HubDigest){0};
}

void hub_digest_update(HubDigest *d, Str bytes) {
    for (int i = 0; i < N_KINDS; i++)
        if (d->contexts[i]) EVP_DigestUpdate(d->contexts[i], bytes.p, bytes.n);
}

static void hex_of(EVP_MD_CTX *ctx, char hex[129]) {
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_DigestFinal_ex(ctx, sum, &n);
    for (unsigned i = 0; i < n; i++) {
        hex[2 * i] = DIGITS[sum[i] >> 4];
        hex[2 * i + 1] = DIGITS[sum[i] & 15];
    }
    hex[2 * n] = 0;
}

bool hub_digest_check(HubDigest *d, Str what, Err *err) {
    char hex[129], plain[129];
    if (d->contexts[SHA256]) {
        hex_of(d->contexts[SHA256], hex);
        if (!str_eqc(d->sha256, hex))
            return err_set(err, ERR_CORRUPT, STR_F ": its sha256 is %s, the hub says " STR_F,
                           STR_A(what), hex, STR_A(d->sha256));
    }
    if (d->contexts[GIT]) {
        hex_of(d->contexts[GIT], hex);
        hex_of(d->contexts[PLAIN], plain);
        if (!str_eqc(d->oid, hex) && !str_eqc(d->oid, plain))
            return err_set(err, ERR_CORRUPT, STR_F ": its git hash is %s, the hub says " STR_F,
                           STR_A(what), hex, STR_A(d->oid));
    }
    return true;
}

bool hub_digest_text(Str text, char hex[65]) {
    HubDigest d;
    char all[129];
    if (!hub_digest_init(&d, STR("?"), STR_NONE, text.n, NULL)) return false;
    hub_digest_update(&d, text);
    hex_of(d.contexts[SHA256], all);
    memcpy(hex, all, 65);
    hub_digest_deinit(&d);
    return true;
}

#else

bool hub_digest_init(HubDigest *d, Str sha256, Str oid, uint64_t size, Err *err) {
    *d = (HubDigest){.sha256 = sha256, .oid = oid};
    (void)size;
    return (!sha256.n && !oid.n) ||
           err_set(err, ERR_UNSUPPORTED, "this build has no libcrypto, which checks need");
}
void hub_digest_deinit(HubDigest *d) { *d = (HubDigest){0}; }
void hub_digest_update(HubDigest *d, Str bytes) { (void)d, (void)bytes; }
bool hub_digest_check(HubDigest *d, Str what, Err *err) {
    (void)d, (void)what, (void)err;
    return true;
}
bool hub_digest_text(Str text, char hex[65]) {
    (void)text;
    hex[0] = 0;
    return false;
}

#endif
