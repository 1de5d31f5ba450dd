#include "base/pool.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"

/* Counters that different threads write live on different cache lines. */
#define OWN_LINE __attribute__((aligned(128)))

struct Pool {
    int n_threads;
    int n_started;
    int spin_wake, spin_yield; /* polls before a worker sleeps, before a waiter yields */
    pthread_t threads[POOL_MAX_THREADS];
    PoolFn *fn;
    void *arg;
    OWN_LINE _Atomic uint32_t generation; /* a new value starts the workers */
    OWN_LINE _Atomic uint32_t n_done;     /* workers finished with this generation */
    OWN_LINE _Atomic uint32_t arrived;    /* barrier: threads inside */
    OWN_LINE _Atomic uint32_t phase;      /* barrier: flips when all arrived */
    OWN_LINE _Atomic uint32_t n_asleep;
    _Atomic bool quit;
    pthread_mutex_t mutex;
    pthread_mutex_t driver; /* held during a run: several engines may share a pool */
    pthread_cond_t wake;
};

typedef struct Worker {
    Pool *pool;
    int i_thread;
} Worker;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Polling is longer than the gap between two decode steps, short enough that an idle engine uses no
 * CPU. Beyond it a waiter yields, so a barrier cannot starve its own peers; where threads outnumber
 * processors it does so at once, since whoever it waits for needs its processor. */
enum { SPIN_WAKE = 20000, SPIN_YIELD = 4000, SPIN_CROWDED = 8 };

static uint32_t wait_change(_Atomic uint32_t *word, uint32_t old, int spins) {
    uint32_t now;
    for (int i = 0; i < spins; i++) {
        now = atomic_load_explicit(word, memory_order_acquire);
        if (now != old) return now;
        relax();
    }
    return old;
}

static void *worker_main(void *p) {
    Worker w = *(Worker *)p;
    Pool *pool = w.pool;
    mem_free(p);
    fesetenv(FE_DFL_ENV);
    uint32_t seen = 0;
    for (;;) {
        uint32_t now = wait_change(&pool->generation, seen, pool->spin_wake);
        if (now == seen) {
            pthread_mutex_lock(&pool->mutex);
            atomic_fetch_add(&pool->n_asleep, 1);
            while ((now = atomic_load(&pool->generation)) == seen)
                pthread_cond_wait(&pool->wake, &pool->mutex);
            atomic_fetch_sub(&pool->n_asleep, 1);
            pthread_mutex_unlock(&pool->mutex);
        }
        seen = now;
        if (atomic_load(&pool->quit)) return NULL;
        pool->fn(pool->arg, w.i_thread, pool->n_threads);
        atomic_fetch_add_explicit(&pool->n_done, 1, memory_order_release);
    }
}

static bool worker_start(Pool *pool, int i, Err *err) {
    Worker *w = mem_alloc(sizeof *w);
    if (!w) return err_nomem(err, "thread");
    *w = (Worker){pool, i};
    int rc = pthread_create(&pool->threads[i], NULL, worker_main, w);
    if (rc != 0) {
        mem_free(w);
        return err_set(err, ERR_LIMIT, "cannot start thread %d of %d: %s", i + 1, pool->n_threads,
                       strerror(rc));
    }
    pool->n_started++;
    return true;
}

Pool *pool_new(int n_threads, Err *err) {
    if (n_threads < 1 || n_threads > POOL_MAX_THREADS) {
        err_set(err, ERR_INPUT, "%d threads; 1 to %d are accepted", n_threads, POOL_MAX_THREADS);
        return NULL;
    }
    /* Over-aligned members: the block comes page-aligned. */
    Pool *pool = mem_alloc_pages(sizeof *pool);
    if (!pool) {
        err_nomem(err, "thread pool");
        return NULL;
    }
    bool crowded = n_threads > os_n_cpus();
    pool->n_threads = n_threads;
    pool->spin_wake = crowded ? SPIN_CROWDED : SPIN_WAKE;
    pool->spin_yield = crowded ? SPIN_CROWDED : SPIN_YIELD;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_mutex_init(&pool->driver, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int i = 1; i < n_threads; i++) {
        if (!worker_start(pool, i, err)) {
            pool_free(pool);
            return NULL;
        }
    }
    return pool;
}

static void pool_start(Pool *pool) {
    atomic_fetch_add_explicit(&pool->generation, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->n_asleep, memory_order_seq_cst)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

void pool_free(Pool *pool) {
    if (!pool) return;
    atomic_store(&pool->quit, true);
    pool_start(pool);
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i <= pool->n_started; i++) pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_mutex_destroy(&pool->driver);
    pthread_cond_destroy(&pool->wake);
    mem_free_pages(pool, sizeof *pool);
}

int pool_n_threads(const Pool *pool) { return pool->n_threads; }

static void yield_until(const Pool *pool, _Atomic uint32_t *word, uint32_t old) {
    while (wait_change(word, old, pool->spin_yield) == old) sched_yield();
}

static void run_all(Pool *pool, PoolFn *fn, void *arg) {
    if (pool->n_threads == 1) {
        fn(arg, 0, 1);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
    pool_start(pool);
    fn(arg, 0, pool->n_threads);
    uint32_t want = (uint32_t)pool->n_threads - 1, have;
    while ((have = atomic_load_explicit(&pool->n_done, memory_order_acquire)) != want)
        yield_until(pool, &pool->n_done, have);
}

/* The caller is one of the threads, and its host program may have set another rounding or flushes denormals: then its
 * share of the work would come out different from the workers'. */
void pool_run(Pool *pool, PoolFn *fn, void *arg) {
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    pthread_mutex_lock(&pool->driver);
    run_all(pool, fn, arg);
    pthread_mutex_unlock(&pool->driver);
    fesetenv(&callers);
}

void pool_barrier(Pool *pool) {
    if (pool->n_threads == 1) return;
    uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)pool->n_threads) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->phase, 1, memory_order_acq_rel);
        return;
    }
    yield_until(pool, &pool->phase, phase);
}
