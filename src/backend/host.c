#include "backend/host.h"

#include <string.h>

#include "base/mem.h"
#include "base/os.h"

bool host_open(const BackendApi *api, const HostOps *ops, int n_threads, Backend **out, Err *err) {
    HostBackend *be = mem_calloc(1, sizeof *be);
    if (!be) return err_nomem(err, "backend");
    be->base.api = api;
    be->ops = ops;
    be->pool = pool_new(n_threads > 0 ? n_threads : os_n_cores(), err);
    if (!be->pool) {
        mem_free(be);
        return false;
    }
    *out = &be->base;
    return true;
}

static const HostBackend *host_const(const Backend *be) { return (const HostBackend *)be; }

void host_close(Backend *be) {
    if (!be) return;
    pool_free(((HostBackend *)be)->pool);
    mem_free(be);
}

const char *host_isa(const Backend *be) { return host_const(be)->ops->isa; }

uint64_t host_weight_bytes(const Backend *be, WeightKind kind, const WeightSource *parts,
                           int n_parts) {
    return host_const(be)->ops->weight_bytes(kind, parts, n_parts);
}

bool host_weight_load(Backend *be, WeightKind kind, const WeightSource *parts, int n_parts,
                      BackWeight **out, Err *err) {
    HostBackend *hb = (HostBackend *)be;
    return hb->ops->weight_load(hb->pool, kind, parts, n_parts, out, err);
}

void host_weight_free(Backend *be, BackWeight *w) {
    if (w) host_const(be)->ops->weight_free(w);
}

static size_t plane_bytes(const HostBackend *be, const ProgPlane *p, PlaneType k, PlaneType v) {
    return be->ops->plane_page_bytes(p, p->use == PLANE_KEY ? k : v);
}

uint64_t host_page_bytes(const Backend *be, const Program *p, PlaneType k, PlaneType v) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_planes; i++)
        sum += plane_bytes(host_const(be), &p->planes[i], k, v);
    return sum;
}

bool host_planes_new(Backend *be, const Program *p, PlaneType k, PlaneType v, uint32_t n_pages,
                     BackPlanes **out, Err *err) {
    BackPlanes *pl = mem_calloc(1, sizeof *pl);
    if (!pl) return err_nomem(err, "cache planes");
    pl->planes = p->planes;
    pl->n_planes = p->n_planes;
    pl->n_pages = n_pages;
    pl->type[PLANE_KEY] = k;
    pl->type[PLANE_VALUE] = v;
    pl->page_bytes = mem_calloc(p->n_planes, sizeof *pl->page_bytes);
    pl->memory = mem_calloc(p->n_planes, sizeof *pl->memory);
    pl->memory_bytes = mem_calloc(p->n_planes, sizeof *pl->memory_bytes);
    bool ok = pl->page_bytes && pl->memory && pl->memory_bytes;
    for (uint32_t i = 0; ok && i < p->n_planes; i++) {
        pl->page_bytes[i] = plane_bytes(host_const(be), &p->planes[i], k, v);
        ok = size_mul(pl->page_bytes[i], n_pages, &pl->memory_bytes[i]) &&
             (pl->memory[i] = mem_alloc_pages(pl->memory_bytes[i])) != NULL;
    }
    if (!ok) {
        host_planes_free(be, pl);
        return err_nomem(err, "cache planes");
    }
    *out = pl;
    return true;
}

void host_planes_free(Backend *be, BackPlanes *pl) {
    (void)be;
    if (!pl) return;
    for (uint32_t i = 0; pl->memory && i < pl->n_planes; i++)
        mem_free_pages(pl->memory[i], pl->memory_bytes[i]);
    mem_free(pl->page_bytes);
    mem_free(pl->memory);
    mem_free(pl->memory_bytes);
    mem_free(pl);
}

void host_page_copy(BackPlanes *pl, uint32_t to, uint32_t from) {
    for (uint32_t i = 0; i < pl->n_planes; i++)
        memcpy(host_page(pl, (PlaneId)i, to), host_page(pl, (PlaneId)i, from), pl->page_bytes[i]);
}

static bool page_known(const BackPlanes *pl, uint32_t page, Err *err) {
    return page < pl->n_pages ||
           err_set(err, ERR_INTERNAL, "cache page %u of %u", page, pl->n_pages);
}

bool host_page_read(BackPlanes *pl, uint32_t page, void *out, Err *err) {
    if (!page_known(pl, page, err)) return false;
    char *p = out;
    for (uint32_t i = 0; i < pl->n_planes; i++, p += pl->page_bytes[i - 1])
        memcpy(p, host_page(pl, (PlaneId)i, page), pl->page_bytes[i]);
    return true;
}

bool host_page_write(BackPlanes *pl, uint32_t page, const void *in, Err *err) {
    if (!page_known(pl, page, err)) return false;
    const char *p = in;
    for (uint32_t i = 0; i < pl->n_planes; i++, p += pl->page_bytes[i - 1])
        memcpy(host_page(pl, (PlaneId)i, page), p, pl->page_bytes[i]);
    return true;
}

static void space_rows(uint32_t max_rows, uint32_t max_out, uint32_t out[SPACE_COUNT]) {
    out[SPACE_T] = max_rows;
    out[SPACE_R] = max_out;
}

static size_t slab_bytes(const Plan *plan, const uint32_t *rows, int space) {
    return (size_t)plan->slab_cols[space] * rows[space] * sizeof(float) + 64;
}

uint64_t host_exec_bytes(const Backend *be, const Program *p, uint32_t max_rows, uint32_t max_out) {
    const HostBackend *hb = host_const(be);
    uint64_t sum =
        hb->ops->aux_bytes ? hb->ops->aux_bytes(p, max_rows, max_out, pool_n_threads(hb->pool)) : 0;
    Arena a = {0};
    Plan plan;
    uint32_t rows[SPACE_COUNT];
    space_rows(max_rows, max_out, rows);
    if (plan_make(p, &a, &plan, NULL))
        for (int s = 0; s < SPACE_COUNT; s++) sum += slab_bytes(&plan, rows, s);
    arena_deinit(&a);
    return sum;
}

bool host_exec_new(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                   uint32_t max_rows, uint32_t max_out, BackExec **out, Err *err) {
    HostBackend *hb = (HostBackend *)be;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (!hb->ops->run[p->ops[i].code])
            return err_set(err, ERR_UNSUPPORTED, "backend %s has no %s", be->api->name,
                           opcode_name(p->ops[i].code));
    HostExec *ex = mem_calloc(1, sizeof *ex);
    if (!ex) return err_nomem(err, "execution state");
    ex->be = hb;
    ex->program = p;
    ex->weights = weights;
    ex->planes = planes;
    space_rows(max_rows, max_out, ex->max_rows);
    bool ok = plan_make(p, &ex->arena, &ex->plan, err);
    if (ok) {
        ok = (ex->op_ns = arena_array(&ex->arena, uint64_t, p->n_ops)) != NULL;
        for (int s = 0; ok && s < SPACE_COUNT; s++)
            ok = (ex->slab[s] = mem_alloc_pages(slab_bytes(&ex->plan, ex->max_rows, s))) != NULL;
        size_t aux = hb->ops->aux_bytes
                         ? hb->ops->aux_bytes(p, max_rows, max_out, pool_n_threads(hb->pool))
                         : 0;
        ex->aux_bytes = aux;
        if (ok && aux) ok = (ex->aux = mem_alloc_pages(aux)) != NULL;
        if (!ok) err_nomem(err, "activation scratch");
    }
    if (!ok) {
        host_exec_free(ex);
        return false;
    }
    *out = ex;
    return true;
}

void host_exec_free(BackExec *ex) {
    if (!ex) return;
    for (int s = 0; s < SPACE_COUNT; s++)
        if (ex->slab[s]) mem_free_pages(ex->slab[s], slab_bytes(&ex->plan, ex->max_rows, s));
    if (ex->aux) mem_free_pages(ex->aux, ex->aux_bytes);
    arena_deinit(&ex->arena);
    mem_free(ex);
}

Mat host_mat(const HostExec *ex, Val v) {
    const ProgVal *pv = &ex->program->vals[v];
    float *base = ex->slab[pv->space] + (size_t)ex->plan.col_offset[v] * ex->max_rows[pv->space];
    return (Mat){base + pv->col0, plan_stride(ex->program->vals[pv->base].cols),
                 ex->n_rows[pv->space], pv->cols};
}

/* Row-wise work so small that waiting for other threads costs more than it: thread 0 does it all,
 * and needs no barrier until an op for everybody comes. Most ops of a decode step are of this
 * kind. */
enum { LIGHT_FLOATS = 8192, LIGHT_FUNCTIONS = 512 };

static bool is_light(const HostExec *ex, const Op *op) {
    const ProgVal *v = &ex->program->vals[op->out != VAL_NONE ? op->out : op->in[0]];
    uint64_t floats = (uint64_t)ex->n_rows[v->space] * v->cols;
    if (op->code == OP_LINEAR || op->code == OP_EXPERTS || op->code == OP_ATTN) return false;
    return floats <= (op->code == OP_ACT || op->code == OP_GLU ? LIGHT_FUNCTIONS : LIGHT_FLOATS);
}

/* Every thread walks the same list. Thread 0 decides about leaving, always one op ahead: a thread
 * that still reads the word after barrier i can only see a number above i, so all leave behind the
 * same barrier. */
static void walk(void *arg, int i_thread, int n_threads) {
    HostExec *ex = arg;
    const Program *p = ex->program;
    uint64_t t0 = ex->profiling && i_thread == 0 ? os_now_ns() : 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        bool light = n_threads > 1 && is_light(ex, op);
        if (i_thread == 0 && ex->cancel && atomic_load_explicit(ex->cancel, memory_order_relaxed))
            atomic_store_explicit(&ex->stop_after, i + 1 < p->n_ops ? i + 1 : i,
                                  memory_order_relaxed);
        if (!light) {
            ex->be->ops->run[op->code](ex, op, i_thread, n_threads);
        } else if (i_thread == 0) {
            ex->be->ops->run[op->code](ex, op, 0, 1);
        }
        bool meet = !light || i + 1 == p->n_ops || !is_light(ex, &p->ops[i + 1]);
        if (meet) pool_barrier(ex->be->pool);
        if (ex->profiling && i_thread == 0) {
            uint64_t t1 = os_now_ns();
            ex->op_ns[i] += t1 - t0;
            t0 = t1;
        }
        if (meet && atomic_load_explicit(&ex->stop_after, memory_order_relaxed) <= i) return;
    }
}

bool host_run(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err) {
    if (step->n_rows > ex->max_rows[SPACE_T] || step->n_out > ex->max_rows[SPACE_R])
        return err_set(err, ERR_INTERNAL, "a step of %u rows and %u outputs where %u and %u fit",
                       step->n_rows, step->n_out, ex->max_rows[SPACE_T], ex->max_rows[SPACE_R]);
    ex->step = step;
    ex->cancel = cancel;
    ex->n_rows[SPACE_T] = step->n_rows;
    ex->n_rows[SPACE_R] = step->n_out;
    atomic_store(&ex->stop_after, UINT32_MAX);
    pool_run(ex->be->pool, walk, ex);
    if (atomic_load(&ex->stop_after) != UINT32_MAX) return err_set(err, ERR_CANCELLED, "cancelled");
    return true;
}

bool host_read(BackExec *ex, uint32_t output, uint32_t row0, uint32_t n_rows, float *out,
               Err *err) {
    if (output >= ex->program->n_outputs)
        return err_set(err, ERR_INTERNAL, "program output %u", output);
    Mat m = host_mat(ex, ex->program->outputs[output].val);
    if (row0 > m.rows || n_rows > m.rows - row0)
        return err_set(err, ERR_INTERNAL, "output rows %u+%u", row0, n_rows);
    for (uint32_t r = 0; r < n_rows; r++)
        memcpy(out + (size_t)r * m.cols, m.p + (row0 + r) * m.stride, m.cols * sizeof(float));
    return true;
}

void host_profile(BackExec *ex, bool on) { ex->profiling = on; }
const uint64_t *host_op_ns(const BackExec *ex) { return ex->op_ns; }
