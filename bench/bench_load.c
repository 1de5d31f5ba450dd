/* Loads one model and prints, as JSON, what loading took and what it left in memory:
 *
 *     bench_load MODEL [threads]
 *
 * load_ms is opening and packing, user_ms what all threads worked for it, system_ms what the
 * kernel did for them (copies from the page cache, zeroed pages); estimate is what the memory table announced before (budget.h) for
 * 2048 tokens of cache, peak what the process had taken after a prompt of 2048 tokens, which fills
 * that cache. bench_load.py makes the models and compares with the disk. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/os.h"
#include "engine/engine.h"

enum { CTX = 2048 };

#define fail(...) (fprintf(stderr, __VA_ARGS__), exit(1))

static bool take(void *ctx, const Event *ev) {
    if (ev->kind == EVENT_ERROR) fail("%s\n", ev->err->msg);
    if (ev->kind == EVENT_DONE) *(bool *)ctx = true;
    return true;
}

/* A prompt that fills the cache, and one token. */
static void run_prompt(const Model *m, Engine *e) {
    Err err = {0};
    Job *job;
    bool done = false;
    uint32_t *ids = mem_alloc((CTX - 8) * sizeof *ids);
    for (uint32_t i = 0; ids && i < CTX - 8; i++) ids[i] = i * 7 % m->arch.vocab;
    JobParams p = {.tokens = ids,
                   .n_tokens = CTX - 8,
                   .n_predict = 1,
                   .sample = params_cli(),
                   .ignore_eos = true,
                   .sink = {take, &done}};
    if (!ids || !job_new(m, engine_n_ctx(e), &p, &job, &err)) fail("%s\n", err.msg);
    engine_submit(e, job);
    while (!done && engine_step(e)) {
    }
    mem_free(ids);
}

static double ms_of(struct timeval t) { return (double)t.tv_sec * 1e3 + (double)t.tv_usec * 1e-3; }

int main(int argc, char **argv) {
    Err err = {0};
    Model *m;
    Engine *e;
    uint64_t threads = 0;
    if (argc < 2) fail("bench_load MODEL [threads]\n");
    if (argc > 2 && !str_to_u64(str_c(argv[2]), &threads)) threads = 0;
    ModelOptions mo = {.be = {.n_threads = (int)threads}};
    EngineOptions eo = engine_options();
    Budget b;
    eo.n_ctx = CTX;
    if (!model_open(argv[1], &mo, &m, &err) || !engine_budget_for(m, &eo, &b, &err) ||
        !engine_open(m, &eo, &e, &err))
        fail("%s\n", err.msg);
    uint64_t loaded = os_rss_bytes();
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    run_prompt(m, e);
    printf("{\"load_ms\": %.1f, \"user_ms\": %.1f, \"system_ms\": %.1f, \"weight_bytes\": %llu, "
           "\"estimate\": %llu, "
           "\"loaded\": %llu, "
           "\"peak\": %llu}\n",
           m->open_ms + m->load_ms, ms_of(used.ru_utime), ms_of(used.ru_stime),
           (unsigned long long)b.weight_bytes, (unsigned long long)b.total_bytes,
           (unsigned long long)loaded, (unsigned long long)os_rss_peak_bytes());
    engine_close(e);
    model_close(m);
    return 0;
}
