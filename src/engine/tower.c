#include "engine/tower.h"

#include "base/mem.h"
#include "base/os.h"
#include "cache/pages.h"

enum { STEP_ROWS = 4096 }; /* a step takes as many sequences as fit, at least one */

typedef struct Batch { /* what one step runs */
    TowerRange r;
    uint32_t n_pages; /* of one group */
} Batch;

struct Tower {
    const Model *m;
    BackPlanes *planes;
    BackExec *exec;
    ExecLimits limits; /* of exec */
    uint32_t n_pages;  /* of planes, per group */
    Step *step;
    size_t step_room;
};

bool tower_new(const Model *m, Tower **out, Err *err) {
    Tower *t = mem_calloc(1, sizeof *t);
    if (!t) return err_nomem(err, "tower");
    t->m = m;
    *out = t;
    return true;
}

static void drop(Tower *t) {
    const BackendApi *api = t->m->be->api;
    if (t->exec) api->exec_free(t->exec);
    api->planes_free(t->m->be, t->planes);
    t->exec = NULL;
    t->planes = NULL;
}

void tower_free(Tower *t) {
    if (!t) return;
    drop(t);
    mem_free(t->step);
    mem_free(t);
}

/* Rows of a space for so many of the tower's rows, wanted rows and sequences. */
static uint64_t space_rows(const Program *p, Space s, uint64_t rows, uint64_t out, uint64_t seqs) {
    switch (s) {
    case SPACE_T:
        return rows;
    case SPACE_R:
        return out;
    case SPACE_S:
        return seqs;
    default:
        return rows * p->spaces[s].num / p->spaces[s].den;
    }
}

uint64_t tower_out_rows(const Program *p, uint32_t output, const MediaPlan *plan) {
    return space_rows(p, p->vals[p->outputs[output].val].space, plan->n_rows, plan->n_out,
                      plan->n_seqs);
}

static uint32_t seq_pages(const MediaSeq *s) {
    return (uint32_t)pages_for(s->n_rows > s->n_cross ? s->n_rows : s->n_cross);
}

static bool is_media(const StepRow *r) { return (r->source & STEP_MEDIA_BIT) != 0; }

TowerRange tower_range_behind(const TowerRange *r) {
    return (TowerRange){.seq0 = r->seq0 + r->n_seqs,
                        .row0 = r->row0 + r->n_rows,
                        .out0 = r->out0 + r->n_out,
                        .media0 = r->media0 + r->n_media};
}

void tower_range_add(TowerRange *r, const MediaPlan *plan) {
    const MediaSeq *q = &plan->seqs[r->seq0 + r->n_seqs++];
    const StepRow *rows = plan->rows + r->row0 + r->n_rows;
    for (uint32_t i = 0; i < q->n_rows; i++) r->n_media += is_media(&rows[i]);
    r->n_rows += q->n_rows;
    r->n_out += q->n_out;
}

void tower_input_rows(const Program *p, uint32_t input, const TowerRange *r, uint64_t *from,
                      uint64_t *n) {
    Space space = p->inputs[input].space;
    bool by_source = space == SPACE_T;
    *from = by_source ? r->media0 : space_rows(p, space, r->row0, r->out0, r->seq0);
    *n = by_source ? r->n_media : space_rows(p, space, r->n_rows, r->n_out, r->n_seqs);
}

/* The sequences behind b that go into the next step. */
static Batch next_batch(const MediaPlan *plan, const Batch *b) {
    Batch n = {.r = tower_range_behind(&b->r)};
    for (uint32_t s = n.r.seq0; s < plan->n_seqs; s++) {
        const MediaSeq *q = &plan->seqs[s];
        if (n.r.n_seqs && n.r.n_rows + q->n_rows > STEP_ROWS) break;
        tower_range_add(&n.r, plan);
        n.n_pages += seq_pages(q);
    }
    return n;
}

static uint64_t bytes_for(const Model *m, const ExecLimits *limits, uint64_t n_pages) {
    const BackendApi *api = m->be->api;
    uint64_t sum = api->exec_bytes(m->be, m->arch.tower, limits);
    for (uint32_t g = 0; g < m->arch.tower->n_groups; g++)
        sum += n_pages * api->page_bytes(m->be, m->arch.tower, g, PLANE_F32, PLANE_F32);
    return sum;
}

uint64_t tower_bytes(const Model *m) {
    const uint32_t n = m->arch.tower_rows;
    const ExecLimits limits = {.rows = n, .out = n, .seqs = 1};
    return m->arch.tower && n ? bytes_for(m, &limits, pages_for(n)) : 0;
}

static bool memory_check(const Tower *t, const ExecLimits *limits, Err *err) {
    uint64_t need = bytes_for(t->m, limits, t->n_pages), have = os_memory_available_bytes();
    return need <= have ||
           err_set(err, ERR_LIMIT, "%u rows of media need %.2f GiB where %.2f GiB are available",
                   limits->rows, (double)need / (1 << 30), (double)have / (1 << 30));
}

/* Planes and scratch for a batch, made anew when it is larger than any before. */
static bool make_room(Tower *t, const Batch *b, Err *err) {
    const BackendApi *api = t->m->be->api;
    const Program *p = t->m->arch.tower;
    size_t bytes = step_bytes(b->r.n_rows, b->r.n_out, b->r.n_seqs, b->n_pages * p->n_groups);
    if (bytes > t->step_room) {
        Step *s = mem_resize_array(t->step, 1, bytes);
        if (!s) return err_nomem(err, "step");
        t->step = s;
        t->step_room = bytes;
    }
    ExecLimits *l = &t->limits;
    if (t->exec && b->r.n_rows <= l->rows && b->r.n_out <= l->out && b->r.n_seqs <= l->seqs &&
        b->n_pages <= t->n_pages)
        return true;
    drop(t);
    l->rows = b->r.n_rows > l->rows ? b->r.n_rows : l->rows;
    l->out = b->r.n_out > l->out ? b->r.n_out : l->out;
    l->seqs = b->r.n_seqs > l->seqs ? b->r.n_seqs : l->seqs;
    t->n_pages = b->n_pages > t->n_pages ? b->n_pages : t->n_pages;
    PlanesAsk ask = {.k = PLANE_F32, .v = PLANE_F32};
    for (uint32_t g = 0; g < p->n_groups; g++) ask.n_pages[g] = t->n_pages;
    if (memory_check(t, l, err) && api->planes_new(t->m->be, p, &ask, &t->planes, err) &&
        api->exec_new(t->m->be, p, t->m->tower_weights, t->planes, l, &t->exec, err))
        return true;
    /* What was too large for this batch must not be asked for again with a smaller one. */
    drop(t);
    *l = (ExecLimits){0};
    t->n_pages = 0;
    return false;
}

static void write_step(Tower *t, const MediaPlan *plan, const Batch *b) {
    uint32_t n_groups = t->m->arch.tower->n_groups, row = 0, page = 0, at = 0, media = 0;
    step_layout(t->step, b->r.n_rows, b->r.n_out, b->r.n_seqs, b->n_pages * n_groups);
    for (uint32_t i = 0; i < b->r.n_seqs; i++) {
        const MediaSeq *q = &plan->seqs[b->r.seq0 + i];
        uint32_t pages = seq_pages(q);
        step_seqs(t->step)[i] = (StepSeq){.first_row = row,
                                          .n_rows = q->n_rows,
                                          .first_page = at,
                                          .n_pages = pages,
                                          .n_cross = q->n_cross};
        for (uint32_t g = 0; g < n_groups; g++)
            for (uint32_t k = 0; k < pages; k++) step_pages(t->step)[at++] = page + k;
        page += pages;
        for (uint32_t k = 0; k < q->n_rows; k++, row++) {
            StepRow *r = &step_rows(t->step)[row];
            *r = plan->rows[b->r.row0 + row];
            r->seq = i;
            r->adapter = STEP_NO_ADAPTER;
            r->mark = STEP_NO_MARK;
            if (is_media(r)) r->source = STEP_MEDIA_BIT | media++;
        }
    }
    for (uint32_t i = 0; i < b->r.n_out; i++)
        step_out_rows(t->step)[i] = plan->out_rows[b->r.out0 + i] - b->r.row0;
}

static bool write_inputs(Tower *t, const MediaPlan *plan, const Batch *b, Err *err) {
    const Program *p = t->m->arch.tower;
    uint64_t from, n;
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        tower_input_rows(p, i, &b->r, &from, &n);
        if (n && !t->m->be->api->write(t->exec, i, 0, (uint32_t)n,
                                       plan->inputs[i] + from * p->inputs[i].cols, err))
            return false;
    }
    return true;
}

static bool read_outputs(Tower *t, const Batch *b, float *const *out, Err *err) {
    const Program *p = t->m->arch.tower;
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        const ProgVal *v = &p->vals[p->outputs[i].val];
        uint64_t from = space_rows(p, v->space, b->r.row0, b->r.out0, b->r.seq0),
                 n = space_rows(p, v->space, b->r.n_rows, b->r.n_out, b->r.n_seqs);
        if (n && !t->m->be->api->read(t->exec, i, 0, (uint32_t)n, out[i] + from * v->cols, err))
            return false;
    }
    return true;
}

bool tower_run(Tower *t, const MediaPlan *plan, float *const *out, const atomic_bool *cancel,
               Err *err) {
    const BackendApi *api = t->m->be->api;
    for (Batch b = next_batch(plan, &(Batch){0}); b.r.n_seqs; b = next_batch(plan, &b)) {
        if (!make_room(t, &b, err)) return false;
        write_step(t, plan, &b);
        if (!write_inputs(t, plan, &b, err) || !api->run(t->exec, t->step, cancel, err) ||
            !read_outputs(t, &b, out, err) || !api->wait(t->m->be, err))
            return false;
    }
    return true;
}
