/* backend.h: what stands behind a program. A backend holds weights, cache planes and scratch in
 * memory of its own; nobody outside touches that memory by pointer: copies in and out are calls.
 *
 *     Backend *be;  backend_open("cpu", &opt, &be, err);
 *     be->api->weight_load(be, WEIGHT_MATRIX, parts, n_parts, &w, err)            each weight of the program
 *     be->api->planes_new(be, program, &ask, &planes, err)
 *     be->api->exec_new(be, program, weights, planes, &limits, &exec, err)
 *     be->api->run(exec, step, &cancel, err);  be->api->read(exec, "logits" index, 0, n_out, dst, err)
 *     be->api->wait(be, err)                                                      now dst is filled
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

typedef struct PlanesAsk {
    PlaneType k, v;
    uint32_t n_pages[PLANE_MAX_GROUPS]; /* per group of the program */
    uint32_t n_states;
} PlanesAsk;

typedef struct ExecLimits { /* of one step */
    uint32_t rows, out, seqs;
} ExecLimits;

typedef struct BackendApi {
    const char *name; /* "ref", "ref-delayed", "cpu" */
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

    /* Cache planes of a program: for each plane group so many pages of PAGE_TOKENS tokens in every
     * plane of the group, and n_states slots of recurrent state. */
    uint64_t (*page_bytes)(const Backend *be, const Program *p, uint32_t group, PlaneType k,
                           PlaneType v); /* one page, all planes of the group */
    uint64_t (*state_bytes)(const Backend *be, const Program *p); /* one slot */
    bool (*planes_new)(Backend *be, const Program *p, const PlanesAsk *ask, BackPlanes **out,
                       Err *err);
    void (*planes_free)(Backend *be, BackPlanes *planes);
    void (*page_copy)(BackPlanes *planes, uint32_t group, uint32_t to, uint32_t from);
    void (*state_copy)(BackPlanes *planes, uint32_t to, uint32_t from);
    /* page_bytes, state_bytes of them: disk, pipelines */
    bool (*page_read)(BackPlanes *planes, uint32_t group, uint32_t page, void *out, Err *err);
    bool (*page_write)(BackPlanes *planes, uint32_t group, uint32_t page, const void *in, Err *err);
    bool (*state_read)(BackPlanes *planes, uint32_t slot, void *out, Err *err);
    bool (*state_write)(BackPlanes *planes, uint32_t slot, const void *in, Err *err);

    /* A program ready to run steps within the limits. weights[i] belongs to weight i. planes: made
     * for this program or for one whose planes it shares; NULL if it has none. */
    uint64_t (*exec_bytes)(const Backend *be, const Program *p, const ExecLimits *limits);
    bool (*exec_new)(Backend *be, const Program *p, BackWeight *const *weights, BackPlanes *planes,
                     const ExecLimits *limits, BackExec **out, Err *err);
    void (*exec_free)(BackExec *ex);
    /* Rows [row0, + n_rows) of an input, for the runs that follow. */
    bool (*write)(BackExec *ex, uint32_t input, uint32_t row0, uint32_t n_rows, const float *in,
                  Err *err);
    /* ERR_CANCELLED between ops */
    bool (*run)(BackExec *ex, const Step *step, const atomic_bool *cancel, Err *err);
    bool (*read)(BackExec *ex, uint32_t output, uint32_t row0, uint32_t n_rows, float *out,
                 Err *err);
    /* Copies (weights excepted) are in the order of their calls and before or behind runs as
     * called, but memory of the caller's that they read or fill is theirs until this returns. */
    bool (*wait)(Backend *be, Err *err);
    /* Per-op time of all runs so far: ns[n_ops]; NULL where not kept. Kept only after profile(ex,
     * true). */
    void (*profile)(BackExec *ex, bool on);
    const uint64_t *(*op_ns)(const BackExec *ex);
} BackendApi;

struct Backend {
    const BackendApi *api; /* first member of every backend's own struct */
};

extern const BackendApi BACKEND_REF, BACKEND_REF_DELAYED, BACKEND_CPU;

/* name: "auto" (cpu), "cpu", "ref", "ref-delayed" (for tests); an unknown one is ERR_INPUT with the list. */
bool backend_open(const char *name, const BackendOptions *opt, Backend **out, Err *err) MUST_CHECK;

#endif
