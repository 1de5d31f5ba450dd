/* cross.h: runs a model's cross program (arch/media.h): what the tower gave for a request goes into
 * the CROSS planes of its sequence, once, when the job starts or starts over. Belongs to an engine;
 * one thread.
 *
 *     seqcache_init(&j->cache, ...)
 *     if (e->cross && !cross_run(e->cross, media, &j->cache, cancel, err)) return false;
 *     every step of the job: StepSeq.n_cross = j->cache.n_cross */
#ifndef MLXCEL_ENGINE_CROSS_H
#define MLXCEL_ENGINE_CROSS_H

#include "cache/seqcache.h"
#include "engine/job_media.h"

typedef struct Cross Cross;

/* planes: those of the model's text program. */
bool cross_new(const Model *m, BackPlanes *planes, Cross **out, Err *err) MUST_CHECK;
void cross_free(Cross *x);            /* NULL is allowed */
uint64_t cross_bytes(const Model *m); /* its scratch; 0: the model has no such program */
/* Takes the sequence's cross pages and fills them; after media_encode. media NULL: none. */
bool cross_run(Cross *x, const Media *media, SeqCache *cache, const atomic_bool *cancel,
               Err *err) MUST_CHECK;

#endif
