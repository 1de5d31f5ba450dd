/* bench_run.h: one test of the benchmark, timed. ppN: N tokens of a prompt; tgN: N tokens one after
 * the other; with D tokens in the cache before; for B sequences at once. A rate counts the tokens
 * of all sequences. */
#ifndef MLXCEL_CLI_BENCH_RUN_H
#define MLXCEL_CLI_BENCH_RUN_H

#include "base/arena.h"
#include "mlxcel.h"

enum { BENCH_MAX_REPS = 1000, BENCH_MAX_BATCH = 64 };

typedef struct BenchTest {
    uint32_t n_prompt, n_gen, n_depth, n_batch;
    int n_threads;
} BenchTest;

typedef struct BenchRow {
    BenchTest test;
    char name[64];   /* "pp512", "tg128 @ d2048" */
    double *ts, *ns; /* n_samples: tokens a second, nanoseconds */
    size_t n_samples;
    double avg_ts, stddev_ts, median_ts, avg_ns, stddev_ns;
    double share;      /* of the ceiling below; 0: not known */
    const char *bound; /* "memory", "int8", "f32" */
} BenchRow;

typedef struct BenchEngine {
    mlxcel_model *model;
    mlxcel_engine *engine;
    uint64_t random; /* state */
} BenchEngine;

/* Samples into the row, after one unmeasured run if warmup. */
bool bench_run(BenchEngine *e, BenchRow *row, size_t n_reps, bool warmup, Arena *a,
               mlxcel_error *err);
void bench_name(BenchRow *row);
/* The part of the machine's ceiling that the row reached. */
void bench_share(const BenchEngine *e, BenchRow *row, const mlxcel_machine *m,
                 uint64_t cache_per_token);

#endif
