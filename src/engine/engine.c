#include "engine/engine_private.h"

#include <string.h>

#include "base/mem.h"
#include "base/os.h"

EngineOptions engine_options(void) {
    return (EngineOptions){.n_slots = 1, .prefill_chunk = 512, .k = PLANE_F16, .v = PLANE_F16};
}

static bool options_check(const EngineOptions *o, Err *err) {
    if (o->n_slots < 1 || o->n_slots > ENGINE_MAX_SLOTS)
        return err_set(err, ERR_INPUT, "%u sequences at once; 1 to %d are accepted", o->n_slots,
                       ENGINE_MAX_SLOTS);
    if (o->prefill_chunk < 1 || o->prefill_chunk > 65536)
        return err_set(err, ERR_INPUT, "prefill chunk of %u tokens; 1 to 65536 are accepted",
                       o->prefill_chunk);
    return true;
}

static uint32_t piece_rows(const EngineOptions *o) {
    return o->prefill_chunk > o->n_slots ? o->prefill_chunk : o->n_slots;
}

static BudgetAsk budget_ask(const Model *m, const EngineOptions *o) {
    BudgetAsk ask = {.n_ctx = o->n_ctx, .n_seqs = o->n_slots, .k = o->k, .v = o->v};
    ask.max_rows = piece_rows(o);
    /* one span that is never cut, beside a row of each other sequence */
    if (m->arch.max_span && ask.max_rows < m->arch.max_span + o->n_slots)
        ask.max_rows = m->arch.max_span + o->n_slots;
    ask.max_out = o->n_slots > ENGINE_SCORE_ROWS ? o->n_slots : ENGINE_SCORE_ROWS;
    if (ask.max_out > piece_rows(o)) ask.max_out = piece_rows(o);
    /* Generating wants the logits of one row a sequence; only scoring touches the other rows. */
    ask.n_logits = o->scores ? ask.max_out : o->n_slots;
    return ask;
}

bool engine_budget_for(const Model *m, const EngineOptions *opt, Budget *out, Err *err) {
    if (!options_check(opt, err)) return false;
    const BudgetAsk ask = budget_ask(m, opt);
    return budget_make(m, &ask, out, err);
}

static bool plan_memory(Engine *e, Err *err) {
    const BudgetAsk ask = budget_ask(e->model, &e->opt);
    e->piece_rows = piece_rows(&e->opt);
    e->max_rows = ask.max_rows;
    e->max_out = ask.max_out;
    if (!engine_budget_for(e->model, &e->opt, &e->budget, err)) return false;
    if (!e->opt.force && !budget_check(&e->budget, err)) return false;
    uint64_t limit = e->model->arch.context ? e->model->arch.context : UINT32_MAX;
    e->n_ctx = (uint32_t)(e->budget.n_ctx < limit ? e->budget.n_ctx : limit);
    return true;
}

static bool open_parts(Engine *e, Err *err) {
    Model *m = e->model;
    if (!plan_memory(e, err) || !model_load(m, err)) return false;
    if (m->arch.tower && (!tower_new(m, &e->tower, err) || !(e->names = media_names_new(err))))
        return false;
    const BackendApi *api = m->be->api;
    e->cache.api = api;
    if (!cachepools_init(&e->cache.pools, m->arch.text, &e->budget.planes, err)) return false;
    if (!api->planes_new(m->be, m->arch.text, &e->budget.planes, &e->cache.planes, err))
        return false;
    if (!e->opt.no_prefix_cache && !m->arch.cross_rows) {
        uint32_t n_nodes = (uint32_t)pages_for(e->budget.n_ctx) + 64;
        if (!(e->cache.tree = prefix_new(&e->cache.pools, n_nodes, err))) return false;
    }
    const ExecLimits limits = {e->max_rows, e->max_out, e->opt.n_slots};
    if (!api->exec_new(m->be, m->arch.text, m->weights, e->cache.planes, &limits, &e->exec, err))
        return false;
    for (uint32_t i = 0; i < m->arch.text->n_outputs; i++)
        if (str_eqc(str_c(m->arch.text->outputs[i].name), "logits")) e->logits_output = i;
    if (m->arch.cross && !cross_new(m, e->cache.planes, &e->cross, err)) return false;
    /* Sequences that share a prefix name its pages each for themselves. */
    uint64_t most = e->n_ctx > m->arch.cross_rows ? e->n_ctx : m->arch.cross_rows;
    uint64_t n_pages = pages_for(most) * e->opt.n_slots * m->arch.text->n_groups;
    if (n_pages > UINT32_MAX / sizeof(uint32_t) / 2)
        return err_set(err, ERR_LIMIT, "%u sequences of %u tokens", e->opt.n_slots, e->n_ctx);
    e->step = mem_alloc(step_bytes(e->max_rows, e->max_out, e->opt.n_slots, (uint32_t)n_pages));
    e->logits = mem_resize_array(NULL, m->arch.vocab, sizeof *e->logits);
    if (!e->step || !e->logits) return err_nomem(err, "step");
    return sample_work_init(&e->work, m->arch.vocab, err);
}

bool engine_open(Model *m, const EngineOptions *opt, Engine **out, Err *err) {
    if (m->arch.both_ways)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is an encoder: it gives vectors or scores (embed, rerank) and no text",
                       m->arch.arch->name);
    Engine *e = mem_calloc(1, sizeof *e);
    if (!e) return err_nomem(err, "engine");
    e->model = m;
    e->opt = *opt;
    e->queue_end = &e->queue;
    if (!open_parts(e, err)) {
        engine_close(e);
        return false;
    }
    *out = e;
    return true;
}

void engine_close(Engine *e) {
    if (!e) return;
    while (e->n_running) job_free(e->running[--e->n_running]);
    for (Job *j = e->queue, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    const BackendApi *api = e->model->be->api;
    if (e->exec) api->exec_free(e->exec);
    cross_free(e->cross);
    prefix_free(e->cache.tree);
    api->planes_free(e->model->be, e->cache.planes);
    cachepools_deinit(&e->cache.pools);
    sample_work_deinit(&e->work);
    tower_free(e->tower);
    media_names_free(e->names);
    mem_free(e->step);
    mem_free(e->logits);
    mem_free(e);
}

uint32_t engine_n_ctx(const Engine *e) { return e->n_ctx; }
const EngineStats *engine_stats(const Engine *e) { return &e->stats; }
BackExec *engine_exec(Engine *e) { return e->exec; }

void engine_drop_prefixes(Engine *e) {
    if (e->cache.tree) prefix_clear(e->cache.tree);
}

void engine_submit(Engine *e, Job *job) {
    job->next = NULL;
    *e->queue_end = job;
    e->queue_end = &job->next;
}

/* A job that still waits is not in the list. */
static void running_remove(Engine *e, const Job *job) {
    for (uint32_t i = 0; i < e->n_running; i++) {
        if (e->running[i] != job) continue;
        memmove(&e->running[i], &e->running[i + 1], (--e->n_running - i) * sizeof(Job *));
        break;
    }
}

void engine_requeue(Engine *e, Job *job) {
    running_remove(e, job);
    seqcache_deinit(&job->cache);
    job->has_cache = false;
    job->state = JOB_WAITING;
    job->next = e->queue;
    if (!e->queue) e->queue_end = &job->next;
    e->queue = job;
    e->stats.n_preempted++;
}

void engine_end(Engine *e, Job *job) {
    running_remove(e, job);
    job->state = JOB_ENDED;
    job_free(job);
}

static void drop_cancelled(Engine *e) {
    for (uint32_t i = e->n_running; i-- > 0;)
        if (job_is_cancelled(e->running[i]))
            emit_done(e, e->running[i], FINISH_CANCELLED, STR_NONE);
    for (Job **at = &e->queue; *at;) {
        Job *j = *at;
        if (!job_is_cancelled(j)) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        if (!*at) e->queue_end = at;
        emit_done(e, j, FINISH_CANCELLED, STR_NONE);
    }
}

/* A lone job's own cancel flag stops a step between two ops; with company a step always runs
 * through. */
static const atomic_bool *step_cancel(const Engine *e) {
    return e->n_plan == 1 ? e->plan[0].job->p.cancel : NULL;
}

bool engine_step(Engine *e) {
    Err err = {0};
    drop_cancelled(e);
    sched_admit(e);
    if (!sched_make_step(e)) return e->n_running > 0 || e->queue;
    uint64_t t0 = os_now_ns();
    mem_guard_begin();
    bool ok = sched_write_media(e, &err) &&
              e->model->be->api->run(e->exec, e->step, step_cancel(e), &err);
    e->stats.n_guarded_allocs += mem_guard_end();
    uint64_t t1 = os_now_ns();
    e->stats.run_ms += (double)(t1 - t0) * 1e-6;
    e->stats.n_steps++;
    e->stats.n_rows += e->step->n_rows;
    if (ok) {
        emit_outputs(e);
    } else if (err.kind == ERR_CANCELLED) {
        /* Its rows were not written: they must not be stored as a prefix. */
        Planned *p = &e->plan[0];
        seqcache_trim(&p->job->cache, p->job->cache.n_tokens - p->n_rows);
    } else {
        for (uint32_t i = e->n_plan; i-- > 0;) emit_error(e, e->plan[i].job, &err);
    }
    e->stats.sample_ms += (double)(os_now_ns() - t1) * 1e-6;
    return e->n_running > 0 || e->queue;
}
