/* hub_chunks.h: a file that arrives in pieces over several connections, and is written in order.
 *
 *     size          |--------|--------|--------|-------->
 *     written       ^ up to here the file on disk is whole: a run that is killed leaves a prefix
 *     slots            head    (buffered until its turn)
 *
 * A slot is one range on one connection. The one at `written` passes its bytes straight on; the others
 * keep theirs in memory, at most n_slots * chunk_bytes. A range whose connection broke keeps what came
 * and is taken again from there. No network and no file here: bytes come in by hub_chunks_data and go out
 * by the sink. */
#ifndef MLXCEL_HUB_HUB_CHUNKS_H
#define MLXCEL_HUB_HUB_CHUNKS_H

#include "base/err.h"
#include "base/str.h"

enum { HUB_CHUNKS_MAX_SLOTS = 64 };

typedef bool HubSinkFn(void *ctx, Str bytes, Err *err);

typedef struct HubChunk {
    uint64_t from, n; /* the range; n UINT64_MAX: to the end, wherever that is */
    uint64_t got;     /* bytes that came */
    char *data;       /* got of them while the slot waits for its turn; NULL when passed on */
    bool used, busy;  /* busy: a connection works on it */
} HubChunk;

typedef struct HubChunks {
    uint64_t size; /* of the file; UINT64_MAX: unknown */
    uint64_t written;
    uint64_t next; /* first byte that no slot was made for */
    uint64_t chunk_bytes;
    size_t n_slots;
    bool whole; /* one connection, from the start: the server knows no ranges */
    HubSinkFn *sink;
    void *ctx;
    HubChunk slots[HUB_CHUNKS_MAX_SLOTS];
} HubChunks;

/* Begins at `from`, which is there already. */
void hub_chunks_init(HubChunks *c, uint64_t size, uint64_t from, uint64_t chunk_bytes,
                     size_t n_slots, HubSinkFn *sink, void *ctx);
void hub_chunks_deinit(HubChunks *c);
/* Everything anew; the sink must have dropped what it had. No connection may be busy. */
void hub_chunks_restart(HubChunks *c, bool whole);
/* A slot to work on, the lowest range first; -1: nothing to do now. */
int hub_chunks_take(HubChunks *c);
/* The part of a taken slot's range that is still wanted. */
void hub_chunks_range(const HubChunks *c, int slot, uint64_t *from, uint64_t *n);
/* Bytes of a slot, in order. ERR_CORRUPT: more than the range has. */
bool hub_chunks_data(HubChunks *c, int slot, Str bytes, Err *err) MUST_CHECK;
/* The connection is gone. true: the range is complete (one to the end: `ended` says so). */
bool hub_chunks_release(HubChunks *c, int slot, bool ended);
bool hub_chunks_done(const HubChunks *c);
/* Bytes that came, written or waiting. */
uint64_t hub_chunks_got(const HubChunks *c);

#endif
