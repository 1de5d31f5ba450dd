#include "hub/hub_chunks.h"

#include <string.h>

#include "base/mem.h"

void hub_chunks_init(HubChunks *c, uint64_t size, uint64_t from, uint64_t chunk_bytes,
                     size_t n_slots, HubSinkFn *sink, void *ctx) {
    *c = (HubChunks){.size = size,
                     .written = from,
                     .next = from,
                     .chunk_bytes = chunk_bytes,
                     .n_slots = n_slots < HUB_CHUNKS_MAX_SLOTS ? n_slots : HUB_CHUNKS_MAX_SLOTS,
                     .whole = size == UINT64_MAX,
                     .sink = sink,
                     .ctx = ctx};
}

static void drop(HubChunk *s) {
    mem_free(s->data);
    *s = (HubChunk){0};
}

void hub_chunks_deinit(HubChunks *c) {
    for (size_t i = 0; i < c->n_slots; i++) drop(&c->slots[i]);
}

void hub_chunks_restart(HubChunks *c, bool whole) {
    hub_chunks_deinit(c);
    c->written = c->next = 0;
    c->whole = whole || c->size == UINT64_MAX;
}

bool hub_chunks_done(const HubChunks *c) { return c->written == c->size; }

int hub_chunks_take(HubChunks *c) {
    size_t limit = c->whole ? 1 : c->n_slots, empty = limit, lowest = limit;
    for (size_t i = 0; i < limit; i++) {
        HubChunk *s = &c->slots[i];
        if (!s->used)
            empty = i;
        else if (!s->busy && s->got < s->n && (lowest == limit || s->from < c->slots[lowest].from))
            lowest = i;
    }
    if (lowest == limit && (empty == limit || c->next >= c->size)) return -1;
    if (lowest == limit) {
        uint64_t left = c->size - c->next;
        lowest = empty;
        c->slots[lowest] =
            (HubChunk){.from = c->next,
                       .n = c->whole || left < c->chunk_bytes ? left : c->chunk_bytes,
                       .used = true};
        if (c->size == UINT64_MAX) c->slots[lowest].n = UINT64_MAX;
        c->next = c->size == UINT64_MAX ? UINT64_MAX : c->next + c->slots[lowest].n;
    }
    c->slots[lowest].busy = true;
    return (int)lowest;
}

void hub_chunks_range(const HubChunks *c, int slot, uint64_t *from, uint64_t *n) {
    const HubChunk *s = &c->slots[slot];
    *from = s->from + s->got;
    *n = s->n == UINT64_MAX ? UINT64_MAX : s->n - s->got;
}

/* Slots whose turn has come pass on what they kept; complete ones are free again. */
static bool advance(HubChunks *c, Err *err) {
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < c->n_slots; i++) {
            HubChunk *s = &c->slots[i];
            if (!s->used || s->from > c->written) continue;
            if (s->data) {
                Str kept = {s->data, s->got};
                if (!c->sink(c->ctx, kept, err)) return false;
                c->written += s->got;
                mem_free(s->data);
                s->data = NULL;
                moved = true;
            }
            if (s->got == s->n && !s->busy) {
                drop(s);
                moved = true;
            }
        }
    }
    return true;
}

bool hub_chunks_data(HubChunks *c, int slot, Str bytes, Err *err) {
    HubChunk *s = &c->slots[slot];
    if (bytes.n > s->n - s->got)
        return err_set(err, ERR_CORRUPT,
                       "the server sends more than the %llu bytes that were asked for",
                       (unsigned long long)s->n);
    if (s->from + s->got == c->written) {
        if (!c->sink(c->ctx, bytes, err)) return false;
        c->written += bytes.n;
        s->got += bytes.n;
        return advance(c, err);
    }
    if (!s->data && !(s->data = mem_alloc(s->n))) return err_nomem(err, "a piece of a file");
    memcpy(s->data + s->got, bytes.p, bytes.n);
    s->got += bytes.n;
    return true;
}

bool hub_chunks_release(HubChunks *c, int slot, bool ended) {
    HubChunk *s = &c->slots[slot];
    if (!s->used) return true; /* was complete and passed on */
    s->busy = false;
    if (s->n == UINT64_MAX && ended) c->size = s->n = s->got;
    bool complete = s->got == s->n;
    if (complete && s->from + s->got <= c->written) drop(s);
    return complete;
}

uint64_t hub_chunks_got(const HubChunks *c) {
    uint64_t n = c->written;
    for (size_t i = 0; i < c->n_slots; i++)
        if (c->slots[i].data) n += c->slots[i].got;
    return n;
}
