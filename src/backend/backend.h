/* backend.h: what stands behind a program. A backend holds weights, cache planes and scratch in
 * memory of its own; nobody outside touches that memory by pointer: copies in and out are calls.
 *
 *     Backend *be;  backend_open("cpu", &opt, &be, err);
 *     be->api->weight_load(be, WEIGHT_MATRIX, parts, n_parts, &w, err)            each weight of the program
 *     be->api->planes_new(be, program, k_type, v_type, n_pages, &planes, err)
 *     be->api->exec_new(be, program, weights, planes, max_rows, max_out, &exec, err)
 *     be->api->run(exec, step, &cancel, err);  be->api->read(exec, "logits" index, 0, n_out, dst, err)
 *
 * One thread drives a backend. A step that was refused or cancelled leaves the cache rows it would
 * have written undefined: the engine trims the sequences. */
#ifndef MLXCEL_BACKEND_BACKEND_H
#define MLXCEL_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "op/weight_source.h"
#include "op/program.h"
#include "op/step.h"

typedef struct Backend Backend;
typedef struct BackWeight BackWeight;
typedef struct BackPlanes BackPlanes;
typedef struct BackExec BackExec;

typedef struct BackendOptions {
    int n_threads; /* 0: one per usable core */
    /* NULL or "auto"; "avx512", "avx2", "portable": an upper bound. MLXCEL_CPU sets it */
    const char *isa;
} BackendOptions;

typedef struct BackendApi {
    const char *name; /* "ref", "cpu" */
    const char *description;
    bool (*open)(const BackendOptions *opt, Backend **out, Err *err);
    void (*close)(Backend *be);
    /* "avx512-vnni", ...: part of what logits depend on (P1) */
    const char *(*isa)(const Backend *be);

    /* Packs a weight: parts stacked along n. Bytes it will take: weight_bytes (from the forms
     * alone, nothing read). */
    uint64_t (*weight_bytes)(const Backend *be, WeightKind kind, const WeightSource *parts,
                             int n_parts);
    bool (*weight_load)(Backend *be, WeightKind kind, const WeightSource *parts, int n_parts,
                        BackWeight **out, Err *err);
    void (*weight_free)(Backend *be, BackWeight *w);

    /* Cache planes of a program: n_pages pages of PAGE_TOKENS tokens in every plane. */
    /* one page, all planes */
    uint64_t (*page_bytes)(const Backend *be, const Program *p, PlaneType k, PlaneType v);
    bool (*planes_new)(Backend *be, const Program *p, PlaneType k, PlaneType v, uint32_t n_pages,
                       BackPlanes **out, Err *err);
    void (*planes_free)(Backend *be, BackPlanes *planes);
    void (*page_copy)(BackPlanes *planes, uint32_t to, uint32_t from);
    /* page_bytes of them: disk, pipelines */
    bool (*page_read)(BackPlanes *planes, uint32_t page, void *out, Err *err);
    bool (*page_write)(BackPlanes *planes, uint32_t page, const void *in, Err *err);

    /* A program ready to run steps of at most max_rows rows of which max_out want logits.
     * weights[i] belongs to weight i. */
    uint64_t (*exec_bytes)(const Backend *be, const Program *p, uint32_t max_rows,
                           uint32_t max_out);
    bool (*exec_new)(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                     uint32_t max_rows, uint32_t max_out, BackExec **out, Err *err);
    void (*exec_free)(BackExec *ex);
    /* ERR_CANCELLED between ops */
    bool (*run)(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err);
    bool (*read)(BackExec *ex, uint32_t output, uint32_t row0, uint32_t n_rows, float *out,
                 Err *err);
    /* Per-op time of all runs so far: ns[n_ops]; NULL where not kept. Kept only after profile(ex,
     * true). */
    void (*profile)(BackExec *ex, bool on);
    const uint64_t *(*op_ns)(const BackExec *ex);
} BackendApi;

struct Backend {
    const BackendApi *api; /* first member of every backend's own struct */
};

extern const BackendApi BACKEND_REF, BACKEND_CPU;

/* name: "auto" (cpu), "cpu", "ref"; an unknown one is ERR_INPUT with the list. */
bool backend_open(const char *name, const BackendOptions *opt, Backend **out, Err *err) MUST_CHECK;

#endif
