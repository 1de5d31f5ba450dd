/* cpu_linear_check.inc.h: for tests of the cpu backend: a weight of any format multiplied and looked
 * up, at every instruction-set level of the machine: against the decoded weight, and bit for bit
 * against itself over row counts and threads. Include after cpu_rig.inc.h. */
#ifndef MLXCEL_BACKEND_CPU_CPU_LINEAR_CHECK_INC_H
#define MLXCEL_BACKEND_CPU_CPU_LINEAR_CHECK_INC_H

#include "backend/cpu/cpu_rig.inc.h"

static const char *const ISAS[] = {"avx512", "avx2", "portable"};
enum { N_ISAS = 3, N_ROWS = 40 };

/* x from a table by token id, then what `build` makes of it. */
typedef Val BuildFn(ProgBuilder *b, Val x, void *arg);

typedef struct Case {
    Arena arena;
    ProgBuilder *b;
    const Program *program;
    const WeightSource *sources[16];
    RigWeight x;
    uint32_t n_sources;
} Case;

static WeightId case_weight(Case *c, WeightKind kind, const RigWeight *w) {
    c->sources[c->n_sources] = &w->source;
    uint32_t n = kind == WEIGHT_VECTOR ? 1 : w->source.n,
             k = kind == WEIGHT_VECTOR ? w->source.n * w->source.k : w->source.k;
    return prog_weight(c->b, kind, n, k, (int32_t)c->n_sources++, "w");
}

static Val case_begin(Case *c, const float *x, uint32_t n, uint32_t cols) {
    *c = (Case){0};
    c->b = prog_begin(&c->arena, "test");
    rig_weight_rows(&c->x, DTYPE_F32, x, n, cols);
    return prog_embed(c->b, case_weight(c, WEIGHT_TABLE, &c->x), 1.0f);
}

static void case_end(Case *c, Val y) {
    Err err = {0};
    prog_output(c->b, y, "y");
    if (!prog_finish(c->b, &c->program, &err)) fail_msg("%s", err.msg);
}

static void case_close(Case *c) {
    rig_weight_close(&c->x);
    arena_deinit(&c->arena);
}

static RigOptions options(const char *isa, int threads) {
    return (RigOptions){isa ? "cpu" : "ref", isa, threads, PLANE_F16, 1, N_ROWS};
}

static Step *rows_step(uint32_t first, uint32_t n) {
    return rig_step(&(RigSeq){0, n}, 1, first, 1, NULL);
}

/* Output 0 for tokens 0..n-1 in one step. */
static void run_all(const Case *c, const RigOptions *o, uint32_t n, float *out) {
    Rig r;
    Step *step = rows_step(0, n);
    rig_open(&r, o, c->program, c->sources);
    rig_run(&r, step, out);
    rig_close(&r);
    mem_free(step);
}

static void same_bytes(const char *what, const char *isa, const float *a, const float *b,
                       size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fp_bits(a[i]) != fp_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, %s: element %zu is %a and %a", what, isa, i, (double)a[i], (double)b[i]);
}

/* One row at a time, rows in twos to twelves and more, several threads: the bits of the whole. */
static void check_same_rows(const Case *c, const char *what, const char *isa, const float *all,
                            uint32_t cols) {
    static const struct {
        int threads;
        uint32_t rows, until; /* steps of `rows` rows up to this row */
    } RUNS[] = {{1, 1, N_ROWS}, {1, 2, 4},       {1, 3, 6},           {1, 4, 8},
                {1, 5, 10},     {1, 6, 12},      {1, 7, 14},          {1, 8, 16},
                {1, 9, 18},     {1, 10, 20},     {1, 11, 22},         {1, 12, 24},
                {2, 1, 3},      {2, 23, N_ROWS}, {3, N_ROWS, N_ROWS}, {4, 5, 10}};
    float *out = mem_alloc((size_t)N_ROWS * cols * sizeof *out);
    Rig r = {0};
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++) {
        if (i == 0 || RUNS[i].threads != RUNS[i - 1].threads) {
            if (i) rig_close(&r);
            RigOptions o = options(isa, RUNS[i].threads);
            rig_open(&r, &o, c->program, c->sources);
        }
        for (uint32_t first = 0; first < RUNS[i].until; first += RUNS[i].rows) {
            uint32_t n = N_ROWS - first < RUNS[i].rows ? N_ROWS - first : RUNS[i].rows;
            Step *step = rows_step(first, n);
            rig_run(&r, step, out);
            same_bytes(what, isa, out, all + (size_t)first * cols, (size_t)n * cols);
            mem_free(step);
        }
    }
    rig_close(&r);
    mem_free(out);
}

/* ---- linear ---- */

/* x as the kernels see it: int8 in groups of 32 of the packed order, or of a row, times its
 * scale. */
static void quantize(const float *x, const WForm *f, uint32_t k, double *out) {
    const uint32_t *perm = f->perm, step = f->row_acts ? k : 32;
    for (uint32_t g = 0; g < k; g += step) {
        float most = f->row_acts ? 1e-5f : 0;
        uint32_t end = g + step < k ? g + step : k;
        for (uint32_t i = g; i < end; i++) most = fmaxf(most, fabsf(x[perm ? perm[i] : i]));
        float scale = most / 127.0f, inv = most == 0 ? 0 : 127.0f / most;
        for (uint32_t i = g; i < end; i++)
            out[perm ? perm[i] : i] = (double)scale * rintf(x[perm ? perm[i] : i] * inv);
    }
}

static void check_linear_values(const char *what, const char *isa, const RigWeight *w,
                                const float *x, const float *bias, const float *y) {
    uint32_t n = w->source.n, k = w->source.k;
    bool codes = (w->form.kind == WFORM_CODES || w->form.kind == WFORM_CODEBOOK) && w->form.group;
    float *d = rig_decoded(w);
    double *xq = mem_alloc(k * sizeof *xq);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        for (uint32_t i = 0; i < k; i++) xq[i] = x[(size_t)r * k + i];
        if (codes) quantize(x + (size_t)r * k, &w->form, k, xq);
        for (uint32_t o = 0; o < n; o++) {
            double want = bias ? bias[o] : 0, size = fabs(want);
            for (uint32_t i = 0; i < k; i++) {
                want += xq[i] * d[(size_t)o * k + i];
                size += fabs(xq[i] * d[(size_t)o * k + i]);
            }
            /* Scales and offsets are applied apart: what they cancel counts too. */
            double got = y[(size_t)r * n + o], limit = 4e-6 * size + 1e-7 * sqrt(k) + 1e-30;
            if (w->form.offset == WOFFSET_BIAS) limit *= 8;
            if (!(fabs(got - want) <= limit))
                fail_msg("%s, %s: row %u output %u is %.9g, %.9g is right (limit %g)", what, isa, r,
                         o, got, want, limit);
        }
    }
    mem_free(xq);
    mem_free(d);
}

static void check_linear(const char *what, const RigWeight *w, bool all_isas) {
    uint32_t n = w->source.n, k = w->source.k;
    float *x = rig_matrix(7, (size_t)N_ROWS * k), *y = mem_alloc((size_t)N_ROWS * n * sizeof *y);
    for (uint32_t i = 0; i < 64 && i < k; i++) x[5 * k + i] = 0; /* groups of zeros */
    x[3 * k] = 1000.0f; /* one value that dwarfs its group */
    float *bias = rig_matrix(8, n);
    RigWeight bw;
    rig_weight_rows(&bw, DTYPE_F32, bias, 1, n);
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        Case c;
        Val in = case_begin(&c, x, N_ROWS, k);
        WeightId wid = case_weight(&c, WEIGHT_MATRIX, w),
                 bid = with_bias ? case_weight(&c, WEIGHT_VECTOR, &bw) : W_NONE;
        case_end(&c, prog_linear(c.b, in, wid, bid));
        for (int i = 0; i < (all_isas ? N_ISAS : 1); i++) {
            RigOptions o = options(ISAS[i], 1);
            run_all(&c, &o, N_ROWS, y);
            check_linear_values(what, ISAS[i], w, x, with_bias ? bias : NULL, y);
            if (!with_bias) check_same_rows(&c, what, ISAS[i], y, n);
        }
        case_close(&c);
    }
    rig_weight_close(&bw);
    mem_free(bias);
    mem_free(x);
    mem_free(y);
}

/* Looked up rows are the decoded rows, to the bit. */
static void check_embed(const char *what, const RigWeight *w) {
    uint32_t n = w->source.n < N_ROWS ? w->source.n : N_ROWS, k = w->source.k;
    float *d = rig_decoded(w), *y = mem_alloc((size_t)n * k * sizeof *y);
    Case c = {0};
    c.b = prog_begin(&c.arena, "test");
    case_end(&c, prog_embed(c.b, case_weight(&c, WEIGHT_TABLE, w), 1.0f));
    RigOptions o = options("avx512", 2);
    run_all(&c, &o, n, y);
    for (size_t i = 0; i < (size_t)n * k; i++)
        if (y[i] == 0 && d[i] == 0) y[i] = d[i]; /* the sign of zero is free */
    /* A second scale (nvfp4) rounds twice: wform.h. */
    bool twice = w->form.sub == WSUB_E4M3 && w->form.flat_super;
    for (size_t i = 0; twice && i < (size_t)n * k; i++)
        if (fabsf(y[i] - d[i]) <= 0x1p-22f * fabsf(d[i])) y[i] = d[i];
    same_bytes(what, "embed", y, d, (size_t)n * k);
    arena_deinit(&c.arena);
    mem_free(d);
    mem_free(y);
}

#endif
