/* engine_private.h: the Engine struct, for the files of engine/ that share it: engine.c (life and
 * loop), sched.c (which rows run next), emit.c (from logits to events). */
#ifndef MLXCEL_ENGINE_ENGINE_PRIVATE_H
#define MLXCEL_ENGINE_ENGINE_PRIVATE_H

#include "engine/cross.h"
#include "engine/engine.h"

enum { ENGINE_MAX_SLOTS = 256, ENGINE_SCORE_ROWS = 64 };

typedef struct Planned { /* one job's part of the step being made */
    Job *job;
    uint32_t n_rows;
    uint32_t first_out, n_out; /* its rows among the step's outputs */
    uint32_t out_from;         /* they are its rows [out_from, + n_out) */
} Planned;

struct Engine {
    Model *model;
    EngineOptions opt;
    Budget budget;
    CacheContext cache;
    BackExec *exec;
    uint32_t n_ctx, max_rows, max_out, logits_output;
    uint32_t piece_rows; /* of a step, unless a span that is never cut is larger; <= max_rows */
    Tower *tower;        /* NULL: the model takes no media */
    MediaNames *names;
    Cross *cross; /* NULL: the model has no cross program */
    Job *running[ENGINE_MAX_SLOTS];
    uint32_t n_running;
    Job *queue, **queue_end; /* waiting, in order */
    uint64_t n_admitted;
    Planned plan[ENGINE_MAX_SLOTS];
    uint32_t n_plan;
    Step *step;
    float *logits; /* one row */
    SampleWork work;
    EngineStats stats;
};

/* sched.c: chooses rows, gets cache room for them, writes the Step. false: nothing to run now. */
bool sched_make_step(Engine *e);
void sched_admit(Engine *e);
/* Media rows of the step, into the inputs that its rows name. */
bool sched_write_media(Engine *e, Err *err) MUST_CHECK;
/* a running job gives its pages back and waits again, in front */
void engine_requeue(Engine *e, Job *job);
void engine_end(Engine *e, Job *job); /* removes a job that had its last event */

/* emit.c */
void emit_outputs(Engine *e);                         /* after the step ran */
void emit_error(Engine *e, Job *job, const Err *err); /* the last event; ends the job */
void emit_done(Engine *e, Job *job, Finish f, Str stop_string);

#endif
