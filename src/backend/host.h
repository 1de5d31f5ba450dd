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
    /* Private per-exec memory (activation codes, per-thread buffers): bytes for these limits;
     * zeroed, 64-byte aligned. */
    size_t (*aux_bytes)(const Program *p, uint32_t max_rows, uint32_t max_out, int n_threads);
    HostOpFn *run[OP_COUNT];
} HostOps;

struct HostBackend {
    Backend base;
    const HostOps *ops;
    Pool *pool;
};

struct BackPlanes {
    uint32_t n_planes, n_pages;
    const ProgPlane *planes;
    PlaneType type[2];      /* by PlaneUse */
    size_t *page_bytes;     /* per plane */
    unsigned char **memory; /* per plane: n_pages pages */
    size_t *memory_bytes;
};

struct BackExec {
    HostBackend *be;
    const Program *program;
    Plan plan;
    BackWeight *const *weights;
    BackPlanes *planes;
    uint32_t max_rows[SPACE_COUNT];
    float *slab[SPACE_COUNT];
    void *aux;
    size_t aux_bytes;
    const Step *step; /* of the run in progress */
    uint32_t n_rows[SPACE_COUNT];
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
static inline void host_barrier(const HostExec *ex) { pool_barrier(ex->be->pool); }
/* The part [*from, *to) of n items that this thread works on. */
static inline void host_share(uint32_t n, int i_thread, int n_threads, uint32_t *from,
                              uint32_t *to) {
    *from = (uint32_t)((uint64_t)n * (unsigned)i_thread / (unsigned)n_threads);
    *to = (uint32_t)((uint64_t)n * (unsigned)(i_thread + 1) / (unsigned)n_threads);
}

/* host_moe.c: float ops that all host backends share. bias: the op's first weight as floats, or
 * NULL. */
void host_route(const HostExec *ex, const Op *op, const float *bias, int i_thread, int n_threads);
HostOpFn host_expert_sum;

/* The BackendApi functions of a host backend; open() is the backend's own and fills HostBackend. */
#define HOST_API                                                                                   \
    .close = host_close, .isa = host_isa, .weight_bytes = host_weight_bytes,                       \
    .weight_load = host_weight_load, .weight_free = host_weight_free,                              \
    .page_bytes = host_page_bytes, .planes_new = host_planes_new, .planes_free = host_planes_free, \
    .page_copy = host_page_copy, .page_read = host_page_read, .page_write = host_page_write,       \
    .exec_bytes = host_exec_bytes, .exec_new = host_exec_new, .exec_free = host_exec_free,         \
    .run = host_run, .read = host_read, .profile = host_profile, .op_ns = host_op_ns

bool host_open(const BackendApi *api, const HostOps *ops, int n_threads, Backend **out,
               Err *err) MUST_CHECK;
void host_close(Backend *be);
const char *host_isa(const Backend *be);
uint64_t host_weight_bytes(const Backend *be, WeightKind kind, const WeightSource *parts,
                           int n_parts);
bool host_weight_load(Backend *be, WeightKind kind, const WeightSource *parts, int n_parts,
                      BackWeight **out, Err *err);
void host_weight_free(Backend *be, BackWeight *w);
uint64_t host_page_bytes(const Backend *be, const Program *p, PlaneType k, PlaneType v);
bool host_planes_new(Backend *be, const Program *p, PlaneType k, PlaneType v, uint32_t n_pages,
                     BackPlanes **out, Err *err);
void host_planes_free(Backend *be, BackPlanes *planes);
void host_page_copy(BackPlanes *planes, uint32_t to, uint32_t from);
bool host_page_read(BackPlanes *planes, uint32_t page, void *out, Err *err);
bool host_page_write(BackPlanes *planes, uint32_t page, const void *in, Err *err);
uint64_t host_exec_bytes(const Backend *be, const Program *p, uint32_t max_rows, uint32_t max_out);
bool host_exec_new(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                   uint32_t max_rows, uint32_t max_out, BackExec **out, Err *err);
void host_exec_free(BackExec *ex);
bool host_run(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err);
bool host_read(BackExec *ex, uint32_t output, uint32_t row0, uint32_t n_rows, float *out, Err *err);
void host_profile(BackExec *ex, bool on);
const uint64_t *host_op_ns(const BackExec *ex);

#endif
