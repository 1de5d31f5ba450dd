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

/* Rows that n_rows, n_out and n_seqs of a step make in every space; false: a derived space does not
 * come out whole. */
static bool space_rows(const Program *p, const ExecLimits *n, uint32_t out[SPACE_MAX]) {
    out[SPACE_T] = n->rows;
    out[SPACE_R] = n->out;
    out[SPACE_S] = n->seqs;
    bool whole = true;
    for (uint32_t s = SPACE_DERIVED; s < p->n_spaces; s++) {
        uint64_t rows = (uint64_t)n->rows * p->spaces[s].num;
        whole &= rows % p->spaces[s].den == 0;
        out[s] = (uint32_t)((rows + p->spaces[s].den - 1) / p->spaces[s].den);
    }
    return whole;
}

static size_t slab_bytes(const Plan *plan, const uint32_t *rows, uint32_t space) {
    return (size_t)plan->slab_cols[space] * rows[space] * sizeof(float) + 64;
}

static size_t input_bytes(const ProgInput *in, const uint32_t *rows) {
    return (size_t)rows[in->space] * in->cols * sizeof(float) + 64;
}

static size_t aux_bytes(const HostBackend *be, const Program *p, const uint32_t *max_rows) {
    return be->ops->aux_bytes
               ? be->ops->aux_bytes(p, host_most_rows(max_rows), pool_n_threads(be->pool))
               : 0;
}

uint64_t host_exec_bytes(const Backend *be, const Program *p, const ExecLimits *limits) {
    uint64_t sum = 0;
    Arena a = {0};
    Plan plan;
    uint32_t rows[SPACE_MAX] = {0};
    space_rows(p, limits, rows);
    sum += aux_bytes(host_const(be), p, rows);
    if (plan_make(p, &a, &plan, NULL))
        for (uint32_t s = 0; s < p->n_spaces; s++) sum += slab_bytes(&plan, rows, s);
    for (uint32_t i = 0; i < p->n_inputs; i++) sum += input_bytes(&p->inputs[i], rows);
    arena_deinit(&a);
    return sum;
}

static bool exec_alloc(HostExec *ex) {
    const Program *p = ex->program;
    ex->op_ns = arena_array(&ex->arena, uint64_t, p->n_ops);
    ex->input = arena_array(&ex->arena, float *, p->n_inputs + 1);
    if (!ex->op_ns || !ex->input) return false;
    for (uint32_t s = 0; s < p->n_spaces; s++)
        if (!(ex->slab[s] = mem_alloc_pages(slab_bytes(&ex->plan, ex->max_rows, s)))) return false;
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (!(ex->input[i] = mem_alloc_pages(input_bytes(&p->inputs[i], ex->max_rows))))
            return false;
    ex->aux_bytes = aux_bytes(ex->be, p, ex->max_rows);
    return !ex->aux_bytes || (ex->aux = mem_alloc_pages(ex->aux_bytes)) != NULL;
}

bool host_exec_new(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                   const ExecLimits *limits, BackExec **out, Err *err) {
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
    space_rows(p, limits, ex->max_rows);
    bool ok = plan_make(p, &ex->arena, &ex->plan, err) &&
              (exec_alloc(ex) || err_nomem(err, "activation scratch"));
    if (!ok) {
        host_exec_free(ex);
        return false;
    }
    *out = ex;
    return true;
}

void host_exec_free(BackExec *ex) {
    if (!ex) return;
    for (uint32_t s = 0; s < SPACE_MAX; s++)
        if (ex->slab[s]) mem_free_pages(ex->slab[s], slab_bytes(&ex->plan, ex->max_rows, s));
    for (uint32_t i = 0; ex->input && i < ex->program->n_inputs; i++)
        if (ex->input[i])
            mem_free_pages(ex->input[i], input_bytes(&ex->program->inputs[i], ex->max_rows));
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
    switch (op->code) {
    case OP_EMBED:
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
    case OP_ROPE_ANGLES:
    case OP_ROPE:
    case OP_KV_WRITE:
    case OP_ADD:
    case OP_MUL:
    case OP_SCALE:
    case OP_SELECT:
    case OP_ROUTE:
    case OP_EXPERT_SUM:
    case OP_CONCAT:
    case OP_INPUT:
    case OP_POS_SCALE:
        return floats <= LIGHT_FLOATS;
    case OP_ACT:
    case OP_GLU:
    case OP_COL_SCALE:
    case OP_REDUCE:
    case OP_SINKHORN:
        return floats <= LIGHT_FUNCTIONS;
    default:
        return false;
    }
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

bool host_write(BackExec *ex, uint32_t input, uint32_t row0, uint32_t n_rows, const float *in,
                Err *err) {
    const Program *p = ex->program;
    if (input >= p->n_inputs) return err_set(err, ERR_INTERNAL, "program input %u", input);
    uint32_t cols = p->inputs[input].cols, max = ex->max_rows[p->inputs[input].space];
    if (row0 > max || n_rows > max - row0)
        return err_set(err, ERR_INTERNAL, "input rows %u+%u of %u", row0, n_rows, max);
    memcpy(ex->input[input] + (size_t)row0 * cols, in, (size_t)n_rows * cols * sizeof *in);
    return true;
}

bool host_run(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err) {
    const ExecLimits n = {step->n_rows, step->n_out, step->n_seqs};
    if (n.rows > ex->max_rows[SPACE_T] || n.out > ex->max_rows[SPACE_R] ||
        n.seqs > ex->max_rows[SPACE_S])
        return err_set(err, ERR_INTERNAL,
                       "a step of %u rows, %u outputs, %u sequences where %u, %u, %u fit", n.rows,
                       n.out, n.seqs, ex->max_rows[SPACE_T], ex->max_rows[SPACE_R],
                       ex->max_rows[SPACE_S]);
    if (!space_rows(ex->program, &n, ex->n_rows))
        return err_set(err, ERR_INTERNAL, "a step of %u rows that program %s cannot divide", n.rows,
                       ex->program->name);
    ex->step = step;
    ex->cancel = cancel;
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

bool host_wait(Backend *be, Err *err) {
    (void)be;
    (void)err;
    return true;
}

void host_profile(BackExec *ex, bool on) { ex->profiling = on; }
const uint64_t *host_op_ns(const BackExec *ex) { return ex->op_ns; }
