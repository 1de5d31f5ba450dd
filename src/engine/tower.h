/* tower.h: runs a model's tower (arch/media.h) over the sequences of a MediaPlan, in steps of whole
 * sequences, with scratch and planes that grow to the largest step so far. Belongs to an engine; one
 * thread. */
#ifndef MLXCEL_ENGINE_TOWER_H
#define MLXCEL_ENGINE_TOWER_H

#include "arch/media.h"
#include "engine/model.h"

typedef struct Tower Tower;

/* Sequences of a plan that follow one another, and how much of the plan is theirs. */
typedef struct TowerRange {
    uint32_t seq0, n_seqs, row0, n_rows, out0, n_out;
    uint32_t media0, n_media; /* rows that have a row of the T inputs */
} TowerRange;

TowerRange tower_range_behind(const TowerRange *r);         /* empty; r: zeros at first */
void tower_range_add(TowerRange *r, const MediaPlan *plan); /* the plan's next sequence */
/* The range's rows of input i of the tower: n of them, from `from` of plan->inputs[i] on. */
void tower_input_rows(const Program *tower, uint32_t input, const TowerRange *r, uint64_t *from,
                      uint64_t *n);

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
