/* Times the ops of the cpu backend one by one and prints them against what the machine can do,
 * measured in the same process: a plain read loop over memory and, where there is one, a loop of
 * independent int8 dot instructions.
 *
 *     bench_kernels [threads [isa [form]]]
 *
 * Medians of repeated runs. Weights of the one-row cases are several matrices, larger together than
 * the caches. */
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/os.h"

#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), exit(1))
#include "backend/cpu/cpu_weights.inc.h"

enum { MAX_LINEARS = 12, RUNS = 15, PEAK_ROUNDS = 1 << 20 };
static const size_t STREAM_BYTES = (size_t)96 << 20;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* ---- ceilings, one thread ---- */

static double read_gbs(void) {
    size_t n = (size_t)256 << 20;
    uint64_t *p = mem_alloc_pages(n), sum = 0;
    memset(p, 1, n);
    double t[RUNS];
    for (int r = 0; r < RUNS; r++) {
        uint64_t t0 = os_now_ns(), s[8] = {0};
        for (size_t i = 0; i < n / 8; i += 8)
            for (int j = 0; j < 8; j++) s[j] += p[i + (size_t)j];
        for (int j = 0; j < 8; j++) sum += s[j];
        t[r] = (double)n / (double)(os_now_ns() - t0);
    }
    volatile uint64_t keep = sum;
    (void)keep;
    mem_free_pages(p, n);
    return median(t, RUNS);
}

#if defined(__x86_64__)
#define DOT(i) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #i "\n\t"
__attribute__((target("avx512f,avx512vnni"))) static double dot_gmacs(void) {
    double t[5];
    for (int r = 0; r < 5; r++) {
        uint64_t t0 = os_now_ns();
        for (int i = 0; i < PEAK_ROUNDS; i++)
            __asm__ volatile(DOT(0) DOT(1) DOT(2) DOT(3) DOT(4) DOT(5) DOT(6) DOT(7) DOT(8) DOT(9)
                                 DOT(10) DOT(11) DOT(12) DOT(13) DOT(14) DOT(15)::
                                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                                       "xmm14", "xmm15");
        t[r] = 16.0 * 64 * PEAK_ROUNDS / (double)(os_now_ns() - t0);
    }
    return median(t, 5);
}
static bool has_dot(void) { return __builtin_cpu_supports("avx512vnni"); }
#else
static double dot_gmacs(void) { return 0; }
static bool has_dot(void) { return false; }
#endif

/* ---- linear ---- */

typedef enum WeightMaker {
    MAKE_ROWS,
    MAKE_MLX4,
    MAKE_BLOCKS,
    MAKE_FP8,
    MAKE_MXFP8,
    MAKE_NF4
} WeightMaker;
typedef struct WeightForm {
    const char *name;
    WeightMaker maker;
    DType type;
} WeightForm;
static const WeightForm FORMS[] = {
    {"Q4_1", MAKE_ROWS, DTYPE_Q4_1},         {"Q4_0", MAKE_ROWS, DTYPE_Q4_0},
    {"Q8_0", MAKE_ROWS, DTYPE_Q8_0},         {"Q5_0", MAKE_ROWS, DTYPE_Q5_0},
    {"mlx4 g64", MAKE_MLX4, DTYPE_NONE},     {"F16", MAKE_ROWS, DTYPE_F16},
    {"Q4_K", MAKE_BLOCKS, DTYPE_Q4_K},       {"Q6_K", MAKE_BLOCKS, DTYPE_Q6_K},
    {"fp8 e4m3", MAKE_FP8, DTYPE_F8_E4M3},   {"fp8 e5m2", MAKE_FP8, DTYPE_F8_E5M2},
    {"mxfp8", MAKE_MXFP8, DTYPE_NONE},       {"nf4", MAKE_NF4, DTYPE_NONE},
    {"TQ1_0", MAKE_BLOCKS, DTYPE_TQ1_0},     {"IQ1_S", MAKE_BLOCKS, DTYPE_IQ1_S},
    {"IQ1_M", MAKE_BLOCKS, DTYPE_IQ1_M},     {"IQ2_XXS", MAKE_BLOCKS, DTYPE_IQ2_XXS},
    {"IQ2_XS", MAKE_BLOCKS, DTYPE_IQ2_XS},   {"IQ2_S", MAKE_BLOCKS, DTYPE_IQ2_S},
    {"IQ3_XXS", MAKE_BLOCKS, DTYPE_IQ3_XXS}, {"IQ3_S", MAKE_BLOCKS, DTYPE_IQ3_S},
};

static void weight_make(RigWeight *w, const WeightForm *f, uint32_t n, uint32_t k) {
    float *v = f->maker == MAKE_ROWS || f->maker == MAKE_MLX4 ? rig_matrix(1, (size_t)n * k) : NULL;
    if (f->maker == MAKE_ROWS) rig_weight_rows(w, f->type, v, n, k);
    if (f->maker == MAKE_MLX4) rig_weight_mlx(w, 4, 64, DTYPE_BF16, v, n, k);
    if (f->maker == MAKE_BLOCKS) rig_weight_blocks(w, f->type, 1, n, k);
    if (f->maker == MAKE_FP8 || f->maker == MAKE_MXFP8)
        rig_weight_fp8(w, f->type, f->maker == MAKE_MXFP8, 1, n, k);
    if (f->maker == MAKE_NF4) rig_weight_nf4(w, false, 1, n, k);
    mem_free(v);
}

typedef struct Ceilings {
    double read, dot;
} Ceilings;

static void bench_linear(const RigOptions *base, const WeightForm *f, uint32_t n, uint32_t k,
                         uint32_t rows, Ceilings top) {
    Err err = {0};
    Arena a = {0};
    RigWeight x, w;
    float *xv = rig_matrix(2, (size_t)rows * k);
    rig_weight_rows(&x, DTYPE_F32, xv, rows, k);
    weight_make(&w, f, n, k);
    ProgBuilder *b = prog_begin(&a, "bench");
    const WeightSource *sources[MAX_LINEARS + 1] = {&x.source};
    Val in = prog_embed(b, prog_weight(b, WEIGHT_TABLE, rows, k, 0, "x"), 1.0f), out = in;
    size_t bytes = 0, one = 0;
    for (int i = 0; i < QPART_COUNT; i++) one += w.m.part[i].n_bytes;
    int linears = 0;
    while (linears < MAX_LINEARS && (linears == 0 || (rows <= 8 && bytes < STREAM_BYTES))) {
        sources[++linears] = &w.source;
        out = prog_linear(b, in, prog_weight(b, WEIGHT_MATRIX, n, k, linears, "w"), W_NONE);
        bytes += one;
    }
    prog_output(b, out, "y");
    const Program *p;
    if (!prog_finish(b, &p, &err)) fail_msg("%s\n", err.msg);
    RigOptions o = *base;
    o.max_rows = rows;
    Rig r;
    rig_open(&r, &o, p, sources);
    Step *step = rig_step(&(RigSeq){0, rows}, 1, 0, (rows + PAGE_TOKENS - 1) / PAGE_TOKENS, NULL);
    r.be->api->profile(r.exec, true);
    double ns[RUNS];
    uint64_t before = 0;
    for (int i = -2; i < RUNS; i++) {
        rig_run(&r, step, NULL);
        uint64_t sum = 0;
        for (uint32_t op = 1; op < p->n_ops; op++) sum += r.be->api->op_ns(r.exec)[op];
        if (i >= 0) ns[i] = (double)(sum - before);
        before = sum;
    }
    double t = median(ns, RUNS), gbs = (double)bytes / t,
           gmacs = (double)linears * n * k * rows / t;
    printf("%-9s %5u x %4u x %4u  %8.1f GMAC/s", f->name, rows, n, k, gmacs);
    if (top.dot > 0) printf(" %3.0f %%", 100 * gmacs / (top.dot * base->threads));
    printf("   %6.1f GB/s %3.0f %%\n", gbs, 100 * gbs / (top.read * base->threads));
    rig_close(&r);
    mem_free(step);
    rig_weight_close(&x);
    rig_weight_close(&w);
    arena_deinit(&a);
    mem_free(xv);
}

/* ---- attention ---- */

static void bench_attn(const RigOptions *base, PlaneType kv, uint32_t past, uint32_t rows,
                       double read) {
    enum { HEADS = 9, KV_HEADS = 3, DIM = 64, LAYERS = 8 };
    Err err = {0};
    Arena a = {0};
    RigWeight x;
    uint32_t n = (HEADS + 2 * KV_HEADS) * DIM, ctx = past + rows;
    float *v = rig_matrix(3, (size_t)n * 64);
    rig_weight_rows(&x, DTYPE_F32, v, 64, n);
    ProgBuilder *b = prog_begin(&a, "bench");
    const WeightSource *sources[1] = {&x.source};
    Val in = prog_embed(b, prog_weight(b, WEIGHT_TABLE, 64, n, 0, "x"), 1.0f), out = in;
    for (int l = 0; l < LAYERS; l++) {
        PlaneId pk = prog_plane(
            b, (ProgPlane){.layer = l, .heads = KV_HEADS, .head_cols = DIM, .use = PLANE_KEY});
        PlaneId pv = prog_plane(
            b, (ProgPlane){.layer = l, .heads = KV_HEADS, .head_cols = DIM, .use = PLANE_VALUE});
        prog_kv_write(b, prog_view(b, in, HEADS * DIM, KV_HEADS * DIM), pk);
        prog_kv_write(b, prog_view(b, in, (HEADS + KV_HEADS) * DIM, KV_HEADS * DIM), pv);
        out = prog_attn(b, prog_view(b, in, 0, HEADS * DIM), pk, pv, W_NONE,
                        (OpAttn){.n_heads = HEADS,
                                 .n_kv_heads = KV_HEADS,
                                 .head_dim = DIM,
                                 .v_dim = DIM,
                                 .scale = 0.125f});
    }
    prog_output(b, out, "y");
    const Program *p;
    if (!prog_finish(b, &p, &err)) fail_msg("%s\n", err.msg);
    RigOptions o = *base;
    o.max_rows = rows > 512 ? rows : 512;
    o.n_pages = (ctx + PAGE_TOKENS - 1) / PAGE_TOKENS;
    o.kv = kv;
    Rig r;
    rig_open(&r, &o, p, sources);
    Step *step = NULL;
    for (uint32_t at = 0; at < past; at += 512) { /* fill the cache */
        step = rig_step(&(RigSeq){at, past - at < 512 ? past - at : 512}, 1, 0, o.n_pages, NULL);
        for (uint32_t i = 0; i < step->n_rows; i++)
            step_rows(step)[i].source = i % 64, step_rows(step)[i].hi = step_rows(step)[i].lo;
        rig_run(&r, step, NULL);
        mem_free(step);
    }
    step = rig_step(&(RigSeq){past, rows}, 1, 0, o.n_pages, NULL);
    for (uint32_t i = 0; i < step->n_rows; i++) step_rows(step)[i].source = i % 64;
    r.be->api->profile(r.exec, true);
    double ns[RUNS];
    uint64_t before = 0;
    for (int i = -1; i < RUNS; i++) {
        rig_run(&r, step, NULL);
        uint64_t sum = 0;
        for (uint32_t op = 0; op < p->n_ops; op++)
            if (p->ops[op].code == OP_ATTN) sum += r.be->api->op_ns(r.exec)[op];
        if (i >= 0) ns[i] = (double)(sum - before);
        before = sum;
    }
    double t = median(ns, RUNS) / LAYERS,
           keys = (double)rows * past + (double)rows * (rows + 1) / 2;
    double bytes = (double)ctx * KV_HEADS * 2 * (double)planetype_row_bytes(kv, DIM);
    printf("attention %-5s %4u rows at %5u  %8.3f ms a layer  %6.1f GMAC/s", planetype_name(kv),
           rows, past, t / 1e6, keys * HEADS * DIM * 2 / t);
    if (rows == 1)
        printf("   %6.1f GB/s %3.0f %%", bytes / t, 100 * bytes / t / (read * base->threads));
    printf("\n");
    rig_close(&r);
    mem_free(step);
    rig_weight_close(&x);
    arena_deinit(&a);
    mem_free(v);
}

int main(int argc, char **argv) {
    uint64_t threads = 1;
    if (argc > 1 && !str_to_u64(str_c(argv[1]), &threads)) threads = 1;
    RigOptions o = {.backend = "cpu",
                    .isa = argc > 2 && *argv[2] ? argv[2] : NULL,
                    .threads = threads >= 1 && threads <= 256 ? (int)threads : 1,
                    .kv = PLANE_F16,
                    .n_pages = 16};
    const char *only = argc > 3 ? argv[3] : NULL;
    Ceilings top = {read_gbs(), has_dot() ? dot_gmacs() : 0};
    printf("one thread: read loop %.1f GB/s, int8 dot %.0f GMAC/s; %d threads below\n", top.read,
           top.dot, o.threads);
    static const uint32_t SHAPES[][2] = {{1536, 576}, {576, 1536}, {4096, 2048}};
    static const uint32_t ROWS[] = {1, 2, 4, 8, 12, 16, 24, 512};
    for (size_t f = 0; f < sizeof FORMS / sizeof *FORMS; f++)
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
                bool k_fits = FORMS[f].maker != MAKE_BLOCKS || SHAPES[s][1] % 256 == 0;
                if (only ? strcmp(only, FORMS[f].name) != 0 || s != 2
                         : !k_fits || (s != 2 && ROWS[r] != 1 && ROWS[r] != 512))
                    continue;
                bench_linear(&o, &FORMS[f], SHAPES[s][0], SHAPES[s][1], ROWS[r], top);
            }
    if (only) return 0;
    static const PlaneType KV[] = {PLANE_F16, PLANE_Q8_0};
    for (int i = 0; i < 2; i++) {
        bench_attn(&o, KV[i], 512, 1, top.read);
        bench_attn(&o, KV[i], 7040, 1, top.read);
        bench_attn(&o, KV[i], 0, 512, top.read);
        bench_attn(&o, KV[i], 7040, 32, top.read);
    }
    return 0;
}
