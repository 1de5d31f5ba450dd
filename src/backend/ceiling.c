#include "backend/ceiling.h"

#include <string.h>

#include "base/mem.h"
#include "base/os.h"

enum { ROUNDS = 1 << 16, PASSES = 4, LANES = 16, BLOCK = 1024 };
#define READ_BYTES ((size_t)512 << 20)
#define LOOP_NS 80000000u

typedef enum What { WHAT_TOUCH, WHAT_READ, WHAT_INT8, WHAT_F32 } What;

typedef struct Work {
    const CeilingOps *ops;
    What what;
    unsigned char *memory;
    size_t n_bytes;
    uint64_t n_rounds;
    volatile uint64_t sink[POOL_MAX_THREADS]; /* so that no loop can be left out */
} Work;

static void part(void *arg, int i_thread, int n_threads) {
    Work *w = arg;
    size_t each = w->n_bytes / (size_t)n_threads / BLOCK * BLOCK;
    unsigned char *p = w->memory + each * (size_t)i_thread;
    switch (w->what) {
    case WHAT_TOUCH:
        memset(p, i_thread + 1, each);
        break;
    case WHAT_READ:
        w->sink[i_thread] += w->ops->read(p, each);
        break;
    case WHAT_INT8:
        w->sink[i_thread] += (uint64_t)w->ops->int8(w->n_rounds);
        break;
    case WHAT_F32:
        w->sink[i_thread] += (uint64_t)w->ops->f32(w->n_rounds);
        break;
    }
}

static double timed_ns(Pool *pool, Work *w, What what) {
    w->what = what;
    uint64_t t0 = os_now_ns();
    pool_run(pool, part, w);
    uint64_t t1 = os_now_ns();
    return t1 > t0 ? (double)(t1 - t0) : 1;
}

/* Best of some: what disturbs only ever slows down. */
static double measure_loop(Pool *pool, Work *w, What what, double macs) {
    double best = 0;
    w->n_rounds = ROUNDS;
    while (timed_ns(pool, w, what) < (double)LOOP_NS / PASSES && w->n_rounds < (uint64_t)1 << 40)
        w->n_rounds *= 2;
    for (int i = 0; i < PASSES; i++) {
        double ns = timed_ns(pool, w, what),
               rate = macs * (double)w->n_rounds * pool_n_threads(pool) / ns;
        if (rate > best) best = rate;
    }
    return best;
}

static bool measure_read(Pool *pool, Work *w, double *gbs, Err *err) {
    size_t n = READ_BYTES, spare = (size_t)os_memory_available_bytes() / 4;
    if (n > spare) n = spare / ((size_t)1 << 20) * ((size_t)1 << 20);
    w->memory = n ? mem_alloc_pages(n) : NULL;
    if (!w->memory) return err_nomem(err, "measuring memory");
    w->n_bytes = n;
    timed_ns(pool, w, WHAT_TOUCH);
    *gbs = 0;
    for (int i = 0; i < PASSES; i++) {
        double rate = (double)n / timed_ns(pool, w, WHAT_READ);
        if (rate > *gbs) *gbs = rate;
    }
    mem_free_pages(w->memory, n);
    return true;
}

static const CeilingOps *ops_for(const char *isa) {
#if defined(__x86_64__)
    if (strncmp(isa, "avx512", 6) == 0) return &CEILING_AVX512;
    if (strncmp(isa, "avx2", 4) == 0) return &CEILING_AVX2;
#endif
    (void)isa;
    return &CEILING_PORTABLE;
}

bool ceiling_measure(Pool *pool, const char *isa, Ceiling *out, Err *err) {
    Work w = {.ops = ops_for(isa)};
    if (!measure_read(pool, &w, &out->read_gbs, err)) return false;
    out->int8_gmacs = measure_loop(pool, &w, WHAT_INT8, w.ops->int8_macs);
    out->f32_gmacs = measure_loop(pool, &w, WHAT_F32, w.ops->f32_macs);
    return true;
}

/* Plain C: what the compiler makes of it. */
static uint64_t read_portable(const void *p, size_t n) {
    const uint64_t *x = p;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < n / 8; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += x[i + (size_t)k];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static int int8_portable(uint64_t n_rounds) {
    int acc[LANES] = {0};
    int8_t a[LANES], b[LANES];
    memset(a, 3, sizeof a);
    memset(b, 5, sizeof b);
    for (uint64_t r = 0; r < n_rounds; r++) {
        __asm__ volatile(""
                         :
                         : "r"(a), "r"(b)
                         : "memory"); /* the operands may have changed: nothing is hoisted */
        for (int k = 0; k < LANES; k++) acc[k] += a[k] * b[k];
    }
    return acc[0] + acc[LANES - 1];
}

static float f32_portable(uint64_t n_rounds) {
    float acc[LANES] = {0}, a[LANES], b[LANES];
    for (int k = 0; k < LANES; k++) a[k] = 1, b[k] = 1e-30f;
    for (uint64_t r = 0; r < n_rounds; r++) {
        __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
        for (int k = 0; k < LANES; k++) acc[k] += a[k] * b[k];
    }
    return acc[0];
}

const CeilingOps CEILING_PORTABLE = {read_portable, int8_portable, f32_portable, LANES, LANES};
