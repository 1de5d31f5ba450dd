/* host.h: what backends whose memory is the host's have in common (ref, cpu): scratch, planes, and
 * the interpreter that walks a program's ops on the pool's threads. A host backend is a HostOps
 * table; backend/host.c makes a BackendApi of it.
 *
 * Every op function runs on all threads; the interpreter puts a barrier behind each op (unless the
 * op says it needs none). Functions get (i_thread, n_threads), never lock, allocate or log, and
 * split work so that no output element depends on the split (STYLE.md 27). */
#ifndef MLXCEL_BACKEND_HOST_H
#define MLXCEL_BACKEND_HOST_H

#include "backend/backend.h"
#include "base/pool.h"
#include "op/plan.h"

typedef struct HostBackend HostBackend;
typedef struct BackExec HostExec;

typedef void HostOpFn(const HostExec *ex, const Op *op, int i_thread, int n_threads);

typedef struct HostOps { /* one const table per backend and ISA level */
    const char *isa;
    uint64_t (*weight_bytes)(WeightKind kind, const WeightSource *parts, int n_parts);
    bool (*weight_load)(Pool *pool, WeightKind kind, const WeightSource *parts, int n_parts,
                        BackWeight **out, Err *err);
    void (*weight_free)(BackWeight *w);
    size_t (*plane_page_bytes)(const ProgPlane *plane, PlaneType type); /* multiple of 64 */
    /* Private per-exec memory (activation codes, per-thread buffers): bytes when no space has more than max_rows
     * rows; zeroed, 64-byte aligned. */
    size_t (*aux_bytes)(const Program *p, uint32_t max_rows, int n_threads);
    /* weight i as floats: vectors on every backend, matrices where they are kept so; or NULL */
    const float *(*floats)(const BackWeight *w);
    /* row n of a table, decoded */
    void (*table_row)(const BackWeight *w, uint32_t n, float *out);
    /* one cached row of one head, widened to head_cols floats */
    void (*plane_row)(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                      uint32_t head, float *out);
    HostOpFn *run[OP_COUNT];
} HostOps;

struct HostBackend {
    Backend base;
    const HostOps *ops;
    Pool *pool;
};

struct BackPlanes {
    uint32_t n_planes;
    const ProgPlane *planes;
    uint32_t n_groups;
    uint32_t n_pages[PLANE_MAX_GROUPS];
    PlaneType type[2];      /* of keys (and latents), of values */
    size_t *page_bytes;     /* per plane */
    unsigned char **memory; /* per plane: the pages of its group */
    size_t *memory_bytes;
    /* Slots of recurrent state, each with all states of the program: a sequence touches its own
     * pages only. */
    uint32_t n_states;
    float *states;
    size_t state_floats;  /* of a slot */
    size_t *state_offset; /* per state, within a slot */
};

struct BackExec {
    HostBackend *be;
    const Program *program;
    Plan plan;
    BackWeight *const *weights;
    BackPlanes *planes;
    uint32_t max_rows[SPACE_MAX];
    float *slab[SPACE_MAX];
    float **input; /* per input: max_rows of its space */
    void *aux;
    size_t aux_bytes;
    const Step *step; /* of the run in progress */
    uint32_t n_rows[SPACE_MAX];
    const atomic_bool *cancel;
    _Atomic uint32_t stop_after; /* the op behind which all threads leave: cancelled */
    bool profiling;
    uint64_t *op_ns;
    Arena arena;
};

/* an activation as kernels see it: row r at p + r * stride, 64-byte aligned when it is not a
 * view */
typedef struct Mat {
    float *p;
    size_t stride; /* floats */
    uint32_t rows, cols;
} Mat;

Mat host_mat(const HostExec *ex, Val v);
static inline unsigned char *host_page(const BackPlanes *pl, PlaneId plane, uint32_t page) {
    return pl->memory[plane] + (size_t)page * pl->page_bytes[plane];
}
static inline uint32_t host_most_rows(const uint32_t rows[SPACE_MAX]) {
    uint32_t most = 0;
    for (uint32_t s = 0; s < SPACE_MAX; s++) most = rows[s] > most ? rows[s] : most;
    return most;
}
/* Rows of one head that a page holds. */
static inline uint32_t host_page_rows(const ProgPlane *p) {
    return (PAGE_TOKENS + p->rate - 1) / p->rate;
}
static inline PlaneType host_plane_type(const BackPlanes *pl, const ProgPlane *p) {
    return pl->type[p->use == PLANE_VALUE];
}
static inline float *host_state(const HostExec *ex, StateId state, uint32_t slot) {
    const BackPlanes *pl = ex->planes;
    return pl->states + (size_t)slot * pl->state_floats + pl->state_offset[state];
}
/* The keys an attention op shows a row: slots [*lo, *hi) of its planes. */
static inline void host_attn_keys(const HostExec *ex, const OpAttn *p, const StepRow *r,
                                  uint32_t *lo, uint32_t *hi) {
    *lo = r->lo;
    *hi = r->hi;
    if (p->cross) {
        *lo = 0;
        *hi = step_seqs(ex->step)[r->seq].n_cross;
    }
    if (p->window && r->slot + 1 > p->window && r->slot + 1 - p->window > *lo)
        *lo = r->slot + 1 - p->window;
    if (p->chunk && r->slot / p->chunk * p->chunk > *lo) *lo = r->slot / p->chunk * p->chunk;
}
static inline void host_barrier(const HostExec *ex) { pool_barrier(ex->be->pool); }
/* The part [*from, *to) of n items that this thread works on. */
static inline void host_share(uint32_t n, int i_thread, int n_threads, uint32_t *from,
                              uint32_t *to) {
    *from = (uint32_t)((uint64_t)n * (unsigned)i_thread / (unsigned)n_threads);
    *to = (uint32_t)((uint64_t)n * (unsigned)(i_thread + 1) / (unsigned)n_threads);
}

static inline const float *host_floats(const HostExec *ex, WeightId w) {
    return w == W_NONE ? NULL : ex->be->ops->floats(ex->weights[w]);
}

/* Float ops that all host backends share, the same numbers for all: host_moe.c, host_rows.c (rows
 * and columns moved about), host_scan.c (recurrences), host_pick.c (chosen keys). */
HostOpFn host_route, host_expert_sum, host_input, host_concat, host_reduce, host_unfold, host_pool,
    host_pos_scale, host_mix, host_col_scale, host_gather_sum, host_conv, host_ssm, host_delta,
    host_rg_lru, host_key_select, host_embed, host_compress, host_sinkhorn;
/* ATTN over picked keys (in[1]) and over two planes, for any backend: f64, keys in ascending order. */
HostOpFn host_attn_picked;
#define HOST_SHARED_OPS                                                                            \
    [OP_ROUTE] = host_route, [OP_EXPERT_SUM] = host_expert_sum, [OP_INPUT] = host_input,           \
    [OP_CONCAT] = host_concat, [OP_REDUCE] = host_reduce, [OP_UNFOLD] = host_unfold,               \
    [OP_POOL] = host_pool, [OP_POS_SCALE] = host_pos_scale, [OP_MIX] = host_mix,                   \
    [OP_COL_SCALE] = host_col_scale, [OP_GATHER_SUM] = host_gather_sum, [OP_CONV] = host_conv,     \
    [OP_SSM] = host_ssm, [OP_DELTA] = host_delta, [OP_RG_LRU] = host_rg_lru,                       \
    [OP_KEY_SELECT] = host_key_select, [OP_EMBED] = host_embed, [OP_COMPRESS] = host_compress,     \
    [OP_SINKHORN] = host_sinkhorn

/* The BackendApi functions of a host backend; open() is the backend's own and fills HostBackend. */
#define HOST_API                                                                                   \
    .close = host_close, .isa = host_isa, .weight_bytes = host_weight_bytes,                       \
    .weight_load = host_weight_load, .weight_free = host_weight_free,                              \
    .page_bytes = host_page_bytes, .state_bytes = host_state_bytes, .planes_new = host_planes_new, \
    .planes_free = host_planes_free, .page_copy = host_page_copy, .state_copy = host_state_copy,   \
    .page_read = host_page_read, .page_write = host_page_write, .state_read = host_state_read,     \
    .state_write = host_state_write, .exec_bytes = host_exec_bytes, .exec_new = host_exec_new,     \
    .exec_free = host_exec_free, .write = host_write, .run = host_run, .read = host_read,          \
    .wait = host_wait, .profile = host_profile, .op_ns = host_op_ns

bool host_open(const BackendApi *api, const HostOps *ops, int n_threads, Backend **out,
               Err *err) MUST_CHECK;
void host_close(Backend *be);
const char *host_isa(const Backend *be);
uint64_t host_weight_bytes(const Backend *be, WeightKind kind, const WeightSource *parts,
                           int n_parts);
bool host_weight_load(Backend *be, WeightKind kind, const WeightSource *parts, int n_parts,
                      BackWeight **out, Err *err);
void host_weight_free(Backend *be, BackWeight *w);
/* host_planes.c */
uint64_t host_page_bytes(const Backend *be, const Program *p, uint32_t group, PlaneType k,
                         PlaneType v);
uint64_t host_state_bytes(const Backend *be, const Program *p);
bool host_planes_new(Backend *be, const Program *p, const PlanesAsk *ask, BackPlanes **out,
                     Err *err);
void host_planes_free(Backend *be, BackPlanes *planes);
void host_page_copy(BackPlanes *planes, uint32_t group, uint32_t to, uint32_t from);
void host_state_copy(BackPlanes *planes, uint32_t to, uint32_t from);
bool host_page_read(BackPlanes *planes, uint32_t group, uint32_t page, void *out, Err *err);
bool host_page_write(BackPlanes *planes, uint32_t group, uint32_t page, const void *in, Err *err);
bool host_state_read(BackPlanes *planes, uint32_t slot, void *out, Err *err);
bool host_state_write(BackPlanes *planes, uint32_t slot, const void *in, Err *err);
uint64_t host_exec_bytes(const Backend *be, const Program *p, const ExecLimits *limits);
bool host_exec_new(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                   const ExecLimits *limits, BackExec **out, Err *err);
void host_exec_free(BackExec *ex);
bool host_write(BackExec *ex, uint32_t input, uint32_t row0, uint32_t n_rows, const float *in,
                Err *err);
bool host_run(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err);
bool host_read(BackExec *ex, uint32_t output, uint32_t row0, uint32_t n_rows, float *out, Err *err);
bool host_wait(Backend *be, Err *err);
void host_profile(BackExec *ex, bool on);
const uint64_t *host_op_ns(const BackExec *ex);

#endif
