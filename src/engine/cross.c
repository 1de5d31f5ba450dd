#include "engine/cross.h"

#include "base/mem.h"

struct Cross {
    const Model *m;
    BackExec *exec;
    Step *step; /* room for cross_rows */
};

static ExecLimits limits(const Model *m) {
    return (ExecLimits){.rows = m->arch.cross_rows, .out = 1, .seqs = 1};
}

uint64_t cross_bytes(const Model *m) {
    const ExecLimits l = limits(m);
    return m->arch.cross ? m->be->api->exec_bytes(m->be, m->arch.cross, &l) : 0;
}

bool cross_new(const Model *m, BackPlanes *planes, Cross **out, Err *err) {
    const ExecLimits l = limits(m);
    Cross *x = mem_calloc(1, sizeof *x);
    if (!x) return err_nomem(err, "cross program");
    x->m = m;
    *out = x;
    uint64_t n_pages = pages_for(l.rows) * m->arch.text->n_groups;
    if (l.rows > UINT32_MAX / sizeof(StepRow) / 2 || n_pages > UINT32_MAX / sizeof(uint32_t) / 2)
        return err_set(err, ERR_LIMIT, "%u rows of an encoder", l.rows);
    x->step = mem_alloc(step_bytes(l.rows, 0, 1, (uint32_t)n_pages));
    if (!x->step) return err_nomem(err, "step");
    return m->be->api->exec_new(m->be, m->arch.cross, m->cross_weights, planes, &l, &x->exec, err);
}

void cross_free(Cross *x) {
    if (!x) return;
    if (x->exec) x->m->be->api->exec_free(x->exec);
    mem_free(x->step);
    mem_free(x);
}

static void write_step(const Cross *x, const SeqCache *c) {
    uint32_t n = c->n_cross, n_pages = seqcache_table_pages(c);
    step_layout(x->step, n, 0, 1, n_pages * c->ctx->pools.n_groups);
    step_seqs(x->step)[0] = (StepSeq){.n_rows = n, .n_pages = n_pages, .n_cross = n};
    seqcache_write_table(c, step_pages(x->step));
    for (uint32_t i = 0; i < n; i++)
        step_rows(x->step)[i] = (StepRow){.slot = i,
                                          .pos = {(int32_t)i},
                                          .hi = n,
                                          .source = STEP_MEDIA_BIT | i,
                                          .adapter = STEP_NO_ADAPTER,
                                          .mark = STEP_NO_MARK};
}

/* The rows of the tower's output that input i takes. */
static bool input_find(const Cross *x, const Media *media, uint32_t i, MediaTensor *out,
                       uint32_t *n_rows, Err *err) {
    const ProgInput *in = &x->m->arch.cross->inputs[i];
    if (!media_output(media, in->name, out, err)) return false;
    uint64_t rows = media_elements(out) / in->cols;
    if (out->dims[out->n_dims - 1] != in->cols || rows > x->m->arch.cross_rows)
        return err_set(err, ERR_INTERNAL, "the tower gives %llu rows of %llu columns as %s",
                       (unsigned long long)rows, (unsigned long long)out->dims[out->n_dims - 1],
                       in->name);
    *n_rows = (uint32_t)rows;
    return true;
}

bool cross_run(Cross *x, const Media *media, SeqCache *cache, const atomic_bool *cancel, Err *err) {
    const BackendApi *api = x->m->be->api;
    const Program *p = x->m->arch.cross;
    MediaTensor t;
    uint32_t n = 0;
    for (uint32_t i = 0; media && i < p->n_inputs; i++)
        if (!input_find(x, media, i, &t, &n, err) || !api->write(x->exec, i, 0, n, t.data, err))
            return false;
    if (!n) return true;
    if (!seqcache_take_cross(cache, n, err)) return false;
    write_step(x, cache);
    return api->run(x->exec, x->step, cancel, err) && api->wait(x->m->be, err);
}
