/* tower.h: runs a model's tower (arch/media.h) over the sequences of a MediaPlan, in steps of whole
 * sequences, with scratch and planes that grow to the largest step so far. Belongs to an engine; one
 * thread. */
#ifndef MLXCEL_ENGINE_TOWER_H
#define MLXCEL_ENGINE_TOWER_H

#include "arch/media.h"
#include "engine/model.h"

typedef struct Tower Tower;

bool tower_new(const Model *m, Tower **out, Err *err) MUST_CHECK; /* cheap: nothing large yet */
void tower_free(Tower *t);                                        /* NULL is allowed */
/* Scratch and planes for one image or window; 0: there is no tower, or their sizes vary. */
uint64_t tower_bytes(const Model *m);
/* Rows that output i of the tower has for all of a plan. */
uint64_t tower_out_rows(const Program *tower, uint32_t output, const MediaPlan *plan);
/* out[i]: room for all rows of output i. ERR_LIMIT: its scratch does not fit into memory. */
bool tower_run(Tower *t, const MediaPlan *plan, float *const *out, const atomic_bool *cancel,
               Err *err) MUST_CHECK;

#endif
