#include "base/lane.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

typedef struct LaneJob {
    LaneFn *fn;
    alignas(16) unsigned char args[LANE_ARG_BYTES];
} LaneJob;

struct Lane {
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t given, done;
    uint64_t n_given, n_done; /* job i lies in jobs[i % LANE_JOBS] */
    bool quit;
    LaneJob jobs[LANE_JOBS];
};

static void *lane_main(void *arg) {
    Lane *l = arg;
    pthread_mutex_lock(&l->mutex);
    for (;;) {
        while (l->n_done == l->n_given && !l->quit) pthread_cond_wait(&l->given, &l->mutex);
        if (l->n_done == l->n_given) break;
        LaneJob *job = &l->jobs[l->n_done % LANE_JOBS]; /* ours until n_done moves on */
        pthread_mutex_unlock(&l->mutex);
        job->fn(job->args);
        pthread_mutex_lock(&l->mutex);
        l->n_done++;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

Lane *lane_new(Err *err) {
    Lane *l = mem_calloc(1, sizeof *l);
    if (!l) {
        err_nomem(err, "thread");
        return NULL;
    }
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->given, NULL);
    pthread_cond_init(&l->done, NULL);
    l->has_thread = pthread_create(&l->thread, NULL, lane_main, l) == 0;
    if (l->has_thread) return l;
    err_set(err, ERR_LIMIT, "the system gives no more threads");
    lane_free(l);
    return NULL;
}

void lane_free(Lane *l) {
    if (!l) return;
    if (l->has_thread) {
        pthread_mutex_lock(&l->mutex);
        l->quit = true;
        pthread_cond_signal(&l->given);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->given);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->mutex);
    mem_free(l);
}

void lane_put(Lane *l, LaneFn *fn, const void *args, size_t n) {
    assert(n <= LANE_ARG_BYTES);
    pthread_mutex_lock(&l->mutex);
    while (l->n_given - l->n_done == LANE_JOBS) pthread_cond_wait(&l->done, &l->mutex);
    LaneJob *job = &l->jobs[l->n_given % LANE_JOBS];
    job->fn = fn;
    memcpy(job->args, args, n);
    l->n_given++;
    pthread_cond_signal(&l->given);
    pthread_mutex_unlock(&l->mutex);
}

void lane_wait(Lane *l) {
    pthread_mutex_lock(&l->mutex);
    while (l->n_done != l->n_given) pthread_cond_wait(&l->done, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}
