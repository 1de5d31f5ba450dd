/* pool.h: the compute threads. pool_run() calls fn on every thread (the caller is thread 0) and
 * returns when all are done. Inside, pool_barrier() waits for all of them. Workers spin for a
 * bounded time, then sleep. Runs of several threads come one
 * after the other. Workers set their own
 * floating-point environment (round to nearest, denormals kept). */
#ifndef MLXCEL_BASE_POOL_H
#define MLXCEL_BASE_POOL_H

#include "base/err.h"

typedef struct Pool Pool;
typedef void PoolFn(void *arg, int i_thread, int n_threads);

Pool *pool_new(int n_threads, Err *err); /* 1..POOL_MAX_THREADS */
void pool_free(Pool *pool);
int pool_n_threads(const Pool *pool);
void pool_run(Pool *pool, PoolFn *fn, void *arg);
void pool_barrier(Pool *pool); /* only inside fn, by every thread */

enum { POOL_MAX_THREADS = 256 };

#endif
