/* ref behind a copy boundary, for tests: the engine must be able to work with a backend whose memory
 * it cannot see. Every copy in and out (rows, pages, states, the step itself, weights) is made later,
 * by another thread; what a caller is to receive holds rubbish until it waited. A run comes behind
 * the copies that were asked for before it, as on a device's queue. */
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "base/lane.h"
#include "base/mem.h"

enum { DELAY_NS = 20000, RUBBISH = 0xff /* as floats: not a number */, STEP_PAGES = 1 << 16 };

typedef struct DelayBackend {
    Backend base;
    Backend *ref;
    Lane *lane;
    Err err; /* the first of a copy, until somebody waits */
} DelayBackend;

typedef struct DelayPlanes {
    DelayBackend *be;
    BackPlanes *ref;
    size_t page_bytes[PLANE_MAX_GROUPS], state_bytes;
} DelayPlanes;

typedef struct DelayExec {
    DelayBackend *be;
    BackExec *ref;
    const Program *program;
    Step *step; /* the copy that runs */
    size_t step_bytes;
} DelayExec;

static DelayBackend *delay_of(const Backend *be) { return (DelayBackend *)(uintptr_t)be; }
static const BackendApi *api(void) { return &BACKEND_REF; }

/* ---- copies: what a lane's job does ---- */

typedef struct Copy {
    DelayBackend *be;
    void *object; /* planes or execution state of ref */
    uint32_t a, b, n;
    void *out;
    const void *in;
} Copy;

static void nap(void) {
    const struct timespec t = {.tv_nsec = DELAY_NS};
    nanosleep(&t, NULL);
}

static void note(DelayBackend *be, bool ok, const Err *err) {
    if (!ok && !be->err.kind) be->err = *err;
}

static void do_read(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->read(c->object, c->a, c->b, c->n, c->out, &err), &err);
}

static void do_write(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->write(c->object, c->a, c->b, c->n, c->in, &err), &err);
}

static void do_page_copy(void *args) {
    Copy *c = args;
    nap();
    api()->page_copy(c->object, c->n, c->a, c->b);
}

static void do_state_copy(void *args) {
    Copy *c = args;
    nap();
    api()->state_copy(c->object, c->a, c->b);
}

static void do_page_read(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->page_read(c->object, c->a, c->b, c->out, &err), &err);
}

static void do_page_write(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->page_write(c->object, c->a, c->b, c->in, &err), &err);
}

static void do_state_read(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->state_read(c->object, c->a, c->out, &err), &err);
}

static void do_state_write(void *args) {
    Copy *c = args;
    Err err = {0};
    nap();
    note(c->be, api()->state_write(c->object, c->a, c->in, &err), &err);
}

static void do_step(void *args) {
    Copy *c = args;
    nap();
    memcpy(c->out, c->in, ((const Step *)c->in)->n_bytes);
}

typedef struct Load {
    DelayBackend *be;
    WeightKind kind;
    const WeightSource *parts;
    int n_parts;
    BackWeight **out;
} Load;

static void do_load(void *args) {
    Load *l = args;
    Err err = {0};
    nap();
    note(l->be, api()->weight_load(l->be->ref, l->kind, l->parts, l->n_parts, l->out, &err), &err);
}

/* ---- the interface ---- */

static bool delay_wait(Backend *be, Err *err) {
    DelayBackend *d = delay_of(be);
    lane_wait(d->lane);
    if (!d->err.kind) return true;
    if (err) *err = d->err;
    d->err = (Err){0};
    return false;
}

static void delay_close(Backend *be) {
    DelayBackend *d = delay_of(be);
    if (!d) return;
    lane_free(d->lane);
    if (d->ref) api()->close(d->ref);
    mem_free(d);
}

static bool delay_open(const BackendOptions *opt, Backend **out, Err *err) {
    DelayBackend *d = mem_calloc(1, sizeof *d);
    if (!d) return err_nomem(err, "backend");
    d->base.api = &BACKEND_REF_DELAYED;
    if (!(d->lane = lane_new(err)) || !api()->open(opt, &d->ref, err)) {
        delay_close(&d->base);
        return false;
    }
    *out = &d->base;
    return true;
}

static const char *delay_isa(const Backend *be) { return api()->isa(delay_of(be)->ref); }

static uint64_t delay_weight_bytes(const Backend *be, WeightKind kind, const WeightSource *parts,
                                   int n_parts) {
    return api()->weight_bytes(delay_of(be)->ref, kind, parts, n_parts);
}

static bool delay_weight_load(Backend *be, WeightKind kind, const WeightSource *parts, int n_parts,
                              BackWeight **out, Err *err) {
    DelayBackend *d = delay_of(be);
    const Load l = {d, kind, parts, n_parts, out};
    lane_put(d->lane, do_load, &l, sizeof l);
    return delay_wait(be, err);
}

static void delay_weight_free(Backend *be, BackWeight *w) {
    lane_wait(delay_of(be)->lane);
    api()->weight_free(delay_of(be)->ref, w);
}

static uint64_t delay_page_bytes(const Backend *be, const Program *p, uint32_t group, PlaneType k,
                                 PlaneType v) {
    return api()->page_bytes(delay_of(be)->ref, p, group, k, v);
}

static uint64_t delay_state_bytes(const Backend *be, const Program *p) {
    return api()->state_bytes(delay_of(be)->ref, p);
}

static bool delay_planes_new(Backend *be, const Program *p, const PlanesAsk *ask, BackPlanes **out,
                             Err *err) {
    DelayBackend *d = delay_of(be);
    DelayPlanes *pl = mem_calloc(1, sizeof *pl);
    if (!pl) return err_nomem(err, "cache planes");
    pl->be = d;
    pl->state_bytes = api()->state_bytes(d->ref, p);
    for (uint32_t g = 0; g < p->n_groups; g++)
        pl->page_bytes[g] = api()->page_bytes(d->ref, p, g, ask->k, ask->v);
    if (!api()->planes_new(d->ref, p, ask, &pl->ref, err)) {
        mem_free(pl);
        return false;
    }
    *out = (BackPlanes *)pl;
    return true;
}

static void delay_planes_free(Backend *be, BackPlanes *planes) {
    DelayPlanes *pl = (DelayPlanes *)planes;
    if (!pl) return;
    lane_wait(delay_of(be)->lane);
    api()->planes_free(delay_of(be)->ref, pl->ref);
    mem_free(pl);
}

static void put(const DelayPlanes *pl, LaneFn *fn, Copy c) {
    c.be = pl->be;
    c.object = pl->ref;
    lane_put(pl->be->lane, fn, &c, sizeof c);
}

static void delay_page_copy(BackPlanes *planes, uint32_t group, uint32_t to, uint32_t from) {
    put((DelayPlanes *)planes, do_page_copy, (Copy){.a = to, .b = from, .n = group});
}

static void delay_state_copy(BackPlanes *planes, uint32_t to, uint32_t from) {
    put((DelayPlanes *)planes, do_state_copy, (Copy){.a = to, .b = from});
}

static bool delay_page_read(BackPlanes *planes, uint32_t group, uint32_t page, void *out,
                            Err *err) {
    DelayPlanes *pl = (DelayPlanes *)planes;
    (void)err;
    if (group < PLANE_MAX_GROUPS) memset(out, RUBBISH, pl->page_bytes[group]);
    put(pl, do_page_read, (Copy){.a = group, .b = page, .out = out});
    return true;
}

static bool delay_page_write(BackPlanes *planes, uint32_t group, uint32_t page, const void *in,
                             Err *err) {
    (void)err;
    put((DelayPlanes *)planes, do_page_write, (Copy){.a = group, .b = page, .in = in});
    return true;
}

static bool delay_state_read(BackPlanes *planes, uint32_t slot, void *out, Err *err) {
    DelayPlanes *pl = (DelayPlanes *)planes;
    (void)err;
    memset(out, RUBBISH, pl->state_bytes);
    put(pl, do_state_read, (Copy){.a = slot, .out = out});
    return true;
}

static bool delay_state_write(BackPlanes *planes, uint32_t slot, const void *in, Err *err) {
    (void)err;
    put((DelayPlanes *)planes, do_state_write, (Copy){.a = slot, .in = in});
    return true;
}

static uint64_t delay_exec_bytes(const Backend *be, const Program *p, const ExecLimits *limits) {
    return api()->exec_bytes(delay_of(be)->ref, p, limits);
}

static bool delay_exec_new(Backend *be, const Program *p, BackWeight *const *weights,
                           BackPlanes *planes, const ExecLimits *limits, BackExec **out, Err *err) {
    DelayExec *ex = mem_calloc(1, sizeof *ex);
    if (!ex) return err_nomem(err, "execution state");
    ex->be = delay_of(be);
    ex->program = p;
    ex->step_bytes = step_bytes(limits->rows, limits->out, limits->seqs, STEP_PAGES);
    ex->step = mem_alloc(ex->step_bytes);
    if (!ex->step ||
        !api()->exec_new(ex->be->ref, p, weights, planes ? ((DelayPlanes *)planes)->ref : NULL,
                         limits, &ex->ref, err)) {
        if (!ex->step) err_nomem(err, "step");
        mem_free(ex->step);
        mem_free(ex);
        return false;
    }
    *out = (BackExec *)ex;
    return true;
}

static void delay_exec_free(BackExec *exec) {
    DelayExec *ex = (DelayExec *)exec;
    if (!ex) return;
    lane_wait(ex->be->lane);
    api()->exec_free(ex->ref);
    mem_free(ex->step);
    mem_free(ex);
}

static bool delay_write(BackExec *exec, uint32_t input, uint32_t row0, uint32_t n_rows,
                        const float *in, Err *err) {
    DelayExec *ex = (DelayExec *)exec;
    const Copy c = {.be = ex->be, .object = ex->ref, .a = input, .b = row0, .n = n_rows, .in = in};
    (void)err;
    lane_put(ex->be->lane, do_write, &c, sizeof c);
    return true;
}

static bool delay_run(BackExec *exec, const Step *step, const atomic_bool *cancel, Err *err) {
    DelayExec *ex = (DelayExec *)exec;
    if (!delay_wait(&ex->be->base, err)) return false;
    if (step->n_bytes > ex->step_bytes)
        return err_set(err, ERR_LIMIT, "a step of %u bytes, %zu are accepted", step->n_bytes,
                       ex->step_bytes);
    memset(ex->step, RUBBISH, step->n_bytes);
    const Copy c = {.in = step, .out = ex->step};
    lane_put(ex->be->lane, do_step, &c, sizeof c);
    return delay_wait(&ex->be->base, err) && api()->run(ex->ref, ex->step, cancel, err);
}

static bool delay_read(BackExec *exec, uint32_t output, uint32_t row0, uint32_t n_rows, float *out,
                       Err *err) {
    DelayExec *ex = (DelayExec *)exec;
    if (output >= ex->program->n_outputs)
        return err_set(err, ERR_INTERNAL, "program output %u", output);
    uint32_t cols = ex->program->vals[ex->program->outputs[output].val].cols;
    const Copy c = {
        .be = ex->be, .object = ex->ref, .a = output, .b = row0, .n = n_rows, .out = out};
    memset(out, RUBBISH, (size_t)n_rows * cols * sizeof *out);
    lane_put(ex->be->lane, do_read, &c, sizeof c);
    return true;
}

static void delay_profile(BackExec *exec, bool on) { api()->profile(((DelayExec *)exec)->ref, on); }

static const uint64_t *delay_op_ns(const BackExec *exec) {
    return api()->op_ns(((const DelayExec *)exec)->ref);
}

const BackendApi BACKEND_REF_DELAYED = {
    .name = "ref-delayed",
    .description = "ref with every copy made late and by another thread, for tests",
    .open = delay_open,
    .close = delay_close,
    .isa = delay_isa,
    .weight_bytes = delay_weight_bytes,
    .weight_load = delay_weight_load,
    .weight_free = delay_weight_free,
    .page_bytes = delay_page_bytes,
    .state_bytes = delay_state_bytes,
    .planes_new = delay_planes_new,
    .planes_free = delay_planes_free,
    .page_copy = delay_page_copy,
    .state_copy = delay_state_copy,
    .page_read = delay_page_read,
    .page_write = delay_page_write,
    .state_read = delay_state_read,
    .state_write = delay_state_write,
    .exec_bytes = delay_exec_bytes,
    .exec_new = delay_exec_new,
    .exec_free = delay_exec_free,
    .write = delay_write,
    .run = delay_run,
    .read = delay_read,
    .wait = delay_wait,
    .profile = delay_profile,
    .op_ns = delay_op_ns,
};
