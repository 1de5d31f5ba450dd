/* Which rows run next. Decode rows always; then prompts share what is left of the step, oldest
 * first. */
#include "base/os.h"
#include "engine/engine_private.h"
#include "engine/prefill_plan.h"

static uint32_t pending(const Job *j) { return j->n_tokens - j->cache.n_tokens; }

static bool is_prompt(const Job *j) { return j->cache.n_tokens < j->n_prompt || pending(j) > 1; }

static bool start(Engine *e, Job *j, Err *err) {
    if (j->p.media && (!media_encode(j->p.media, e->tower, j->p.cancel, err) ||
                       (e->cache.tree && !job_name_media(j, e->names, err))))
        return false;
    if (!seqcache_init(&j->cache, &e->cache, j->max_tokens, err)) return false;
    j->has_cache = true;
    if (e->cross && !cross_run(e->cross, j->p.media, &j->cache, j->p.cancel, err)) return false;
    if (!j->started_ns) j->started_ns = os_now_ns();
    if (!j->p.no_cache && !j->p.on_logits) {
        /* At least one token is evaluated: its logits are what the answer begins with. */
        uint32_t n = seqcache_adopt(&j->cache, job_cache_key(j), job_keys(j), j->n_tokens - 1);
        if (!j->n_generated) j->times.n_cached = n;
    }
    j->state = JOB_RUNNING;
    j->order = e->n_admitted++;
    e->running[e->n_running++] = j;
    return true;
}

/* Whether n tokens of one more sequence could be had beside the running ones: from free pages and
 * stored prefixes nobody reads. Groups that keep windows have enough for every slot. */
static bool has_room(const Engine *e, uint64_t n_tokens) {
    const CachePools *pools = &e->cache.pools;
    uint64_t used = 0;
    for (uint32_t i = 0; i < e->n_running; i++) used += e->running[i]->cache.n_pages;
    for (uint32_t g = 0; g < pools->n_groups; g++)
        if (pools->group[g].keep == KEEP_ALL &&
            used + pages_for(n_tokens) + 1 > pools->pages[g].n_pages)
            return false;
    return true;
}

void sched_admit(Engine *e) {
    while (e->queue && e->n_running < e->opt.n_slots) {
        Job *j = e->queue;
        Err err = {0};
        /* A prompt begins only when all of it fits beside those that run (alone it always does:
         * job_new checked). */
        if (e->n_running && !has_room(e, (uint64_t)j->n_tokens + 1)) return;
        e->queue = j->next;
        if (!e->queue) e->queue_end = &e->queue;
        if (j->rules.max_tokens == 0 && !j->p.on_logits) {
            emit_done(e, j, FINISH_BUDGET, STR_NONE);
        } else if (!start(e, j, &err)) {
            if (err.kind == ERR_CANCELLED)
                emit_done(e, j, FINISH_CANCELLED, STR_NONE);
            else
                emit_error(e, j, &err);
        }
    }
}

/* Room for n rows of a job. When the pool is dry the youngest other job gives its pages back and
 * starts over later: by P1 its tokens come out the same. */
static bool reserve(Engine *e, Job *j, uint32_t n) {
    Err err = {0};
    for (;;) {
        if (seqcache_extend(&j->cache, n, &err)) return true;
        if (err.kind != ERR_BUSY) break;
        Job *youngest = NULL;
        for (uint32_t i = 0; i < e->n_running; i++) {
            Job *o = e->running[i];
            bool planned = false;
            for (uint32_t k = 0; k < e->n_plan; k++) planned |= e->plan[k].job == o;
            if (o->p.on_logits) continue; /* its logits were given out: it cannot start over */
            if (o != j && !planned && o->order > j->order &&
                (!youngest || o->order > youngest->order))
                youngest = o;
        }
        if (!youngest) break;
        engine_requeue(e, youngest);
    }
    return false;
}

/* Rows of a piece whose logits are wanted. Scoring wants all; of a span that is never cut and larger
 * than the room for logits a part at a time (emit.c runs it again for the next). */
static void plan_add(Engine *e, Job *j, uint32_t n_rows, uint32_t *n_out) {
    uint32_t from = j->cache.n_tokens - n_rows; /* counted with the new rows */
    Planned *p = &e->plan[e->n_plan++];
    *p = (Planned){.job = j, .n_rows = n_rows, .first_out = *n_out};
    if (j->p.on_logits && from + n_rows <= j->n_prompt) {
        p->out_from = j->n_scored > from ? j->n_scored - from : 0;
        if (p->out_from > n_rows) p->out_from = n_rows;
        p->n_out = n_rows - p->out_from;
        if (p->n_out > e->max_out - *n_out) p->n_out = e->max_out - *n_out;
    } else {
        p->n_out = j->cache.n_tokens == j->n_tokens;
        p->out_from = n_rows - p->n_out;
    }
    *n_out += p->n_out;
}

/* Running jobs in the order of admission. */
static Job *nth_oldest(Engine *e, uint64_t above) {
    Job *best = NULL;
    for (uint32_t i = 0; i < e->n_running; i++) {
        Job *j = e->running[i];
        if (j->order >= above && (!best || j->order < best->order)) best = j;
    }
    return best;
}

static void choose(Engine *e, bool prompts, uint32_t *n_rows, uint32_t *n_out) {
    uint64_t above = 0;
    for (Job *j; (j = nth_oldest(e, above)) != NULL; above = j->order + 1) {
        if (is_prompt(j) != prompts || *n_rows >= e->piece_rows) continue;
        uint32_t budget = e->piece_rows - *n_rows;
        size_t n_spans;
        const PrefillSpan *spans = media_spans(j->p.media, &n_spans);
        if (j->p.on_logits && budget > e->max_out - *n_out) budget = e->max_out - *n_out;
        uint32_t n = prefill_next(j->cache.n_tokens, j->n_tokens, budget, spans, n_spans);
        if (n == 0 || *n_out == e->max_out || n > e->max_rows - *n_rows || !reserve(e, j, n))
            continue;
        plan_add(e, j, n, n_out);
        *n_rows += n;
    }
}

enum { MARK_TOKENS = 1024 };

/* After which rows a recurrent state is kept: the last but one of the prompt, from where the same
 * prompt can be run again (its last row gives the logits), and every so often before. */
static uint32_t mark_for(Job *j, uint32_t n_tokens) {
    if (!j->cache.ctx->tree || j->p.no_cache || j->p.on_logits) return STEP_NO_MARK;
    if (n_tokens + 1 != j->n_prompt && (n_tokens >= j->n_prompt || n_tokens % MARK_TOKENS))
        return STEP_NO_MARK;
    return seqcache_mark(&j->cache, n_tokens);
}

static void write_rows(Engine *e, uint32_t i_seq, const Planned *p, uint32_t *row, uint32_t *out,
                       uint32_t *page, uint32_t *media) {
    Job *j = p->job;
    StepSeq *seq = &step_seqs(e->step)[i_seq];
    uint32_t slot = j->cache.n_tokens - p->n_rows, n_pages = seqcache_table_pages(&j->cache);
    *seq = (StepSeq){.first_row = *row,
                     .n_rows = p->n_rows,
                     .first_page = *page,
                     .n_pages = n_pages,
                     .length_class = j->length_class,
                     .state_from = seqcache_state_from(&j->cache),
                     .state_to = j->cache.state,
                     .n_cross = j->cache.n_cross};
    seqcache_write_table(&j->cache, step_pages(e->step) + *page);
    *page += n_pages * e->cache.pools.n_groups;
    for (uint32_t i = 0; i < p->n_rows; i++, slot++, (*row)++) {
        StepRow *r = &step_rows(e->step)[*row];
        bool is_media = media_row(j->p.media, slot) != MEDIA_NO_ROW;
        *r = (StepRow){.seq = i_seq,
                       .slot = slot,
                       .lo = 0,
                       .hi = media_hi(j->p.media, slot),
                       .source = is_media ? STEP_MEDIA_BIT | (*media)++ : j->tokens[slot],
                       .adapter = STEP_NO_ADAPTER,
                       .mark = mark_for(j, slot + 1)};
        media_pos(j->p.media, slot, r->pos);
        if (i - p->out_from < p->n_out) step_out_rows(e->step)[(*out)++] = *row;
    }
}

bool sched_make_step(Engine *e) {
    uint32_t n_rows = 0, n_out = 0, n_pages = 0, row = 0, out = 0, page = 0, media = 0;
    e->n_plan = 0;
    choose(e, false, &n_rows, &n_out);
    choose(e, true, &n_rows, &n_out);
    if (!e->n_plan) {
        /* Jobs run but none could get a page: the oldest holds all it can, and the context of the
         * pool is full. */
        Job *j = nth_oldest(e, 0);
        if (j) emit_done(e, j, FINISH_CONTEXT, STR_NONE);
        return false;
    }
    for (uint32_t i = 0; i < e->n_plan; i++)
        n_pages += seqcache_table_pages(&e->plan[i].job->cache);
    n_pages *= e->cache.pools.n_groups;
    step_layout(e->step, n_rows, n_out, e->n_plan, n_pages);
    for (uint32_t i = 0; i < e->n_plan; i++)
        write_rows(e, i, &e->plan[i], &row, &out, &page, &media);
    return true;
}

/* A piece's media rows that follow one another, numbered in the step from *at on. */
static bool write_run(Engine *e, const Media *m, uint32_t row, uint32_t n, uint32_t *at, Err *err) {
    for (uint32_t i = 0; i < e->model->arch.text->n_inputs; i++)
        if (!e->model->be->api->write(e->exec, i, *at, n, media_input(m, i, row), err))
            return false;
    *at += n;
    return true;
}

bool sched_write_media(Engine *e, Err *err) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < e->n_plan; i++) {
        const Planned *p = &e->plan[i];
        const Media *m = p->job->p.media;
        uint32_t slot = p->job->cache.n_tokens - p->n_rows, end = p->job->cache.n_tokens;
        for (uint32_t n = 1; m && slot < end; slot += n, n = 1) {
            uint32_t row = media_row(m, slot);
            if (row == MEDIA_NO_ROW) continue;
            while (slot + n < end && media_row(m, slot + n) == row + n) n++;
            if (!write_run(e, m, row, n, &at, err)) return false;
        }
    }
    return true;
}
