#include "engine/media_names.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

/* A table of sets: a digest may lie in any of the WAYS entries of its set, the oldest gives way. */
enum { WAYS = 8, SETS = MEDIA_NAMES_KEPT / WAYS };

typedef struct Entry {
    MediaDigest digest;
    uint32_t number; /* 0: free */
} Entry;

struct MediaNames {
    uint64_t key[2];
    uint32_t last;
    Entry entries[SETS][WAYS];
};

MediaNames *media_names_new(Err *err) {
    MediaNames *n = mem_calloc(1, sizeof *n);
    if (!n) return err_nomem(err, "names of media"), NULL;
    for (int i = 0; i < 2; i++) n->key[i] = os_random_u64();
    return n;
}

void media_names_free(MediaNames *n) { mem_free(n); }

void media_digest(const MediaNames *n, MediaDigest *d, const void *bytes, size_t size) {
    const Str s = {bytes, size};
    for (int i = 0; i < 2; i++) d->half[i] = str_hash(s, n->key[i] ^ d->half[i]);
}

uint32_t media_names_number(MediaNames *n, const MediaDigest *d) {
    Entry *set = n->entries[d->half[0] % SETS], *oldest = set;
    for (int i = 0; i < WAYS; i++) {
        const Entry *e = &set[i];
        if (e->number && e->digest.half[0] == d->half[0] && e->digest.half[1] == d->half[1])
            return e->number;
        if (e->number < oldest->number) oldest = &set[i];
    }
    n->last = n->last < INT32_MAX ? n->last + 1 : 1;
    *oldest = (Entry){*d, n->last};
    return n->last;
}
