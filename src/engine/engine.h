/* engine.h: the loop: jobs in, steps through the backend, events out. One thread drives an engine.
 *
 *     Engine *e;
 *     if (!engine_open(model, &opt, &e, err)) return false;        plans memory, loads the weights if nobody has
 *     engine_submit(e, job);                                        takes the job
 *     while (engine_step(e, err)) {}                                one step of the scheduler; false: nothing left to do
 *     engine_close(e);
 *
 * A step: decode rows of all running jobs first, then pieces of prompts with the rest of the
 * budget; run; then, row by row, the sampler, the stop check and the events. What a job computes
 * does not depend on its company (P1). */
#ifndef MLXCEL_ENGINE_ENGINE_H
#define MLXCEL_ENGINE_ENGINE_H

#include "engine/budget.h"
#include "engine/job.h"

typedef struct EngineOptions { /* zero fields: defaults */
    /* tokens of the cache in all; 0: the model's context as far as memory goes */
    uint64_t n_ctx;
    uint32_t n_slots;       /* sequences at once; 1 */
    uint32_t prefill_chunk; /* rows of a prompt piece; 512 */
    PlaneType k, v;         /* cache types; set with engine_options() */
    bool no_prefix_cache;
    bool force; /* load even if the plan says it will not fit */
    /* the plan counts on jobs with on_logits: as many rows of logits as a step has room for */
    bool scores;
} EngineOptions;

typedef struct EngineStats {
    uint64_t n_steps, n_rows;
    uint64_t n_guarded_allocs; /* allocations of ours inside warmed-up steps: 0 */
    uint64_t n_preempted;
    double run_ms, sample_ms; /* inside the backend; inside sampling and emitting */
} EngineStats;

typedef struct Engine Engine;

EngineOptions engine_options(void); /* the defaults: f16 cache, 1 slot, chunk 512 */
/* The memory plan of an engine with these options. */
bool engine_budget_for(const Model *m, const EngineOptions *opt, Budget *out, Err *err) MUST_CHECK;
bool engine_open(Model *m, const EngineOptions *opt, Engine **out, Err *err) MUST_CHECK;
void engine_close(Engine *e);
uint32_t engine_n_ctx(const Engine *e);  /* tokens one sequence may hold */
void engine_submit(Engine *e, Job *job); /* the engine frees it after its last event */
bool engine_step(Engine *e);             /* false: no job is left */
const EngineStats *engine_stats(const Engine *e);
void engine_drop_prefixes(Engine *e);
BackExec *engine_exec(Engine *e); /* for profiles */

#endif
