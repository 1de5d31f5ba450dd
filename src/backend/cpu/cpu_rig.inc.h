/* cpu_rig.inc.h: for tests and benchmarks of the cpu backend: weights from memory, small programs,
 * steps with pages in any order, and one call that runs a program on a backend. Include after
 * cmocka.h (it reports by fail_msg). */
#ifndef MLXCEL_BACKEND_CPU_CPU_RIG_INC_H
#define MLXCEL_BACKEND_CPU_CPU_RIG_INC_H

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/fp.h"
#include "base/mem.h"
#include "quant/quant_encode.h"

#define RIG_UNUSED __attribute__((unused))

/* ---- numbers ---- */

static RIG_UNUSED float rig_random(uint64_t seed,
                                   uint64_t i) { /* -1..1, denser in the middle (splitmix64) */
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    float a = (float)(z & 0xffffff), b = (float)(z >> 24 & 0xffffff);
    return (a + b) / 0x1p24f - 1;
}

static RIG_UNUSED float *rig_matrix(uint64_t seed, size_t n) {
    float *p = mem_alloc(n * sizeof *p + 64);
    for (size_t i = 0; i < n; i++) p[i] = rig_random(seed, i);
    return p;
}

/* ---- weights ---- */

typedef struct RigWeight {
    WForm form;
    QMatrix m; /* with data */
    WeightSource source;
    Arena arena, parts; /* parts: of who made them there */
    void *owned[3];
} RigWeight;

static RIG_UNUSED bool rig_fetch(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes,
                                 void *out, Err *err) {
    const QPart *p = &((const RigWeight *)ctx)->m.part[part];
    if (from > p->n_bytes || n_bytes > p->n_bytes - from)
        return err_set(err, ERR_INTERNAL, "outside the part");
    memcpy(out, p->data + from, n_bytes);
    return true;
}

static RIG_UNUSED void rig_weight_open(RigWeight *w, QMatrix m) {
    Err err = {0};
    *w = (RigWeight){.m = m};
    if (!wform_init(&w->form, &w->m, &w->arena, &err)) fail_msg("%s", err.msg);
    w->source = (WeightSource){.n = (uint32_t)w->form.n,
                               .k = (uint32_t)w->form.k,
                               .m = w->m,
                               .form = &w->form,
                               .fetch = rig_fetch,
                               .ctx = w,
                               .name = "w"};
    for (int i = 0; i < QPART_COUNT; i++)
        if (i != QPART_G_IDX && i != QPART_TABLE && i != QPART_NESTED_TABLE)
            w->source.m.part[i].data = NULL;
}

static RIG_UNUSED void rig_weight_close(RigWeight *w) {
    for (int i = 0; i < 3; i++) mem_free(w->owned[i]);
    arena_deinit(&w->arena);
    arena_deinit(&w->parts);
}

/* Encodes values [n, k] as rows of a plain or GGUF type. */
static RIG_UNUSED void rig_weight_rows(RigWeight *w, DType t, const float *values, uint64_t n,
                                       uint64_t k) {
    Err err = {0};
    uint64_t bytes;
    const uint64_t shape[2] = {n, k};
    if (!dtype_bytes(t, n * k, k, &bytes, &err)) fail_msg("%s", err.msg);
    void *data = mem_alloc(bytes);
    if (!encode_rows(t, values, n, k, data, bytes, &err)) fail_msg("%s", err.msg);
    QMatrix m = {.format = QFORMAT_ROWS, .n = n, .k = k};
    m.part[QPART_WEIGHT] = qpart_of(t, 2, shape, data, bytes);
    rig_weight_open(w, m);
    w->owned[0] = data;
}

static RIG_UNUSED void rig_weight_mlx(RigWeight *w, unsigned bits, unsigned group, DType scale,
                                      const float *values, uint64_t n, uint64_t k) {
    Err err = {0};
    EncodeMlx e = {QFORMAT_MLX_AFFINE, bits, group, scale};
    uint64_t b[3];
    uint8_t *p[3];
    if (!encode_mlx_bytes(&e, k, &b[0], &b[1], &b[2], &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < 3; i++) p[i] = mem_alloc(b[i] * n);
    if (!encode_mlx(&e, values, n, k, p[0], p[1], p[2], &err)) fail_msg("%s", err.msg);
    QMatrix m = {.format = QFORMAT_MLX_AFFINE, .n = n, .k = k, .bits = bits, .group = group};
    const uint64_t words[2] = {n, b[0] / 4}, groups[2] = {n, k / group};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_U32, 2, words, p[0], b[0] * n);
    m.part[QPART_SCALE] = qpart_of(scale, 2, groups, p[1], b[1] * n);
    m.part[QPART_ZERO] = qpart_of(scale, 2, groups, p[2], b[2] * n);
    rig_weight_open(w, m);
    for (int i = 0; i < 3; i++) w->owned[i] = p[i];
}

static RIG_UNUSED float *rig_decoded(const RigWeight *w) {
    Err err = {0};
    WeightScratch sc = {0};
    float *out = mem_alloc((size_t)w->source.n * w->source.k * sizeof *out);
    if (!wsource_f32(&w->source, 0, w->source.n, out, &sc, &err)) fail_msg("%s", err.msg);
    wsource_scratch_deinit(&sc);
    return out;
}

/* ---- steps ---- */

typedef struct RigSeq {
    uint32_t n_past, n_rows; /* rows take slots n_past .. n_past + n_rows - 1 */
} RigSeq;

/* Causal rows of some sequences; token ids count up from `token`; page p of sequence s is
 * page_of(s, p). */
static RIG_UNUSED Step *rig_step(const RigSeq *seqs, uint32_t n_seqs, uint32_t token,
                                 uint32_t pages_per_seq,
                                 uint32_t (*page_of)(uint32_t seq, uint32_t page)) {
    uint32_t n_rows = 0;
    for (uint32_t s = 0; s < n_seqs; s++) n_rows += seqs[s].n_rows;
    uint32_t n_pages = n_seqs * pages_per_seq;
    Step *step = mem_calloc(1, step_bytes(n_rows, n_rows, n_seqs, n_pages));
    step_layout(step, n_rows, n_rows, n_seqs, n_pages);
    for (uint32_t s = 0, r = 0; s < n_seqs; s++) {
        StepSeq *q = &step_seqs(step)[s];
        *q = (StepSeq){.first_row = r, .n_rows = seqs[s].n_rows, .first_page = s * pages_per_seq};
        q->n_pages = (seqs[s].n_past + seqs[s].n_rows + PAGE_TOKENS - 1) / PAGE_TOKENS;
        for (uint32_t p = 0; p < q->n_pages; p++)
            step_pages(step)[q->first_page + p] = page_of ? page_of(s, p) : p;
        for (uint32_t i = 0; i < seqs[s].n_rows; i++, r++) {
            uint32_t slot = seqs[s].n_past + i;
            step_rows(step)[r] = (StepRow){.seq = s,
                                           .slot = slot,
                                           .pos = {(int32_t)slot},
                                           .hi = slot + 1,
                                           .source = token + r,
                                           .adapter = STEP_NO_ADAPTER,
                                           .mark = STEP_NO_MARK};
            step_out_rows(step)[r] = r;
        }
    }
    return step;
}

/* ---- running ---- */

typedef struct Rig {
    Backend *be;
    const Program *program;
    BackWeight *weights[16];
    BackPlanes *planes;
    BackExec *exec;
} Rig;

typedef struct RigOptions {
    const char *backend, *isa;
    int threads;
    PlaneType kv;
    uint32_t n_pages, max_rows;
} RigOptions;

/* sources[i] belongs to weight i of the program. */
static RIG_UNUSED void rig_open(Rig *r, const RigOptions *o, const Program *p,
                                const WeightSource *const *sources) {
    Err err = {0};
    BackendOptions opt = {.n_threads = o->threads, .isa = o->isa};
    *r = (Rig){.program = p};
    if (!backend_open(o->backend, &opt, &r->be, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (!r->be->api->weight_load(r->be, p->weights[i].kind, sources[i], 1, &r->weights[i],
                                     &err))
            fail_msg("%s", err.msg);
    PlanesAsk ask = {.k = o->kv, .v = o->kv, .n_states = p->n_states ? 8 : 0};
    for (uint32_t g = 0; g < p->n_groups; g++) ask.n_pages[g] = o->n_pages;
    if (!r->be->api->planes_new(r->be, p, &ask, &r->planes, &err)) fail_msg("%s", err.msg);
    const ExecLimits limits = {o->max_rows, o->max_rows, o->max_rows};
    if (!r->be->api->exec_new(r->be, p, r->weights, r->planes, &limits, &r->exec, &err))
        fail_msg("%s", err.msg);
}

static RIG_UNUSED void rig_close(Rig *r) {
    r->be->api->exec_free(r->exec);
    r->be->api->planes_free(r->be, r->planes);
    for (uint32_t i = 0; i < r->program->n_weights; i++)
        r->be->api->weight_free(r->be, r->weights[i]);
    r->be->api->close(r->be);
}

/* Runs the step; rows of output 0 into out. */
static RIG_UNUSED void rig_run(Rig *r, const Step *step, float *out) {
    Err err = {0};
    if (!r->be->api->run(r->exec, step, NULL, &err)) fail_msg("%s", err.msg);
    if (out && !r->be->api->read(r->exec, 0, 0, step->n_rows, out, &err)) fail_msg("%s", err.msg);
}

#endif
