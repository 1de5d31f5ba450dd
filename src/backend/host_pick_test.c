/* Chosen keys and latents, on ref and on cpu, with every cache type: KEY_SELECT, attention over a choice,
 * over one latent plane and over two, against plain double loops over the rounded rows; and the same
 * bits for all rows at once, for some at a time and for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu_rig.inc.h"
#include "backend/ref/ref.h"

enum { N_ROWS = 200, N_PAGES = 4, MAX_ROW = 512, MAX_OUT = 128 };

static const char *const BACKENDS[] = {"ref", "cpu"};

typedef enum What {
    SELECT,     /* KEY_SELECT */
    PICKED,     /* keys and values in planes of their own */
    ONE_LATENT, /* one plane of latents, all keys: the backend's own attention */
    ONE_PICKED, /* the same, a choice */
    TWO_LATENT, /* a window and groups, all of them */
    TWO_PICKED  /* the same, chosen groups */
} What;

typedef struct Shape {
    What what;
    uint32_t heads, kv_heads, dim, v_dim, k, rate, window;
    float softcap;
    bool sinks, coarse; /* coarse: few different numbers, so that scores tie */
    int lo;             /* 1: rows see less than all before them */
} Shape;

static const Shape SHAPES[] = {
    {SELECT, 4, 1, 16, 0, 12, 1, 0, 0, false, false, 0},
    {SELECT, 3, 1, 5, 0, 7, 1, 0, 0, false, true, 0},
    {SELECT, 2, 1, 8, 0, 1, 1, 0, 0, false, true, 1},
    {SELECT, 1, 1, 3, 0, 100, 1, 0, 0, false, true, 1},
    {SELECT, 4, 1, 6, 0, 5, 4, 0, 0, false, true, 0},
    {SELECT, 2, 1, 9, 0, 6, 8, 0, 0, false, false, 1},
    {SELECT, 2, 1, 4, 0, 1, 64, 0, 0, false, false, 0},
    {SELECT, 2, 1, 4, 0, 30, 3, 0, 0, false, false, 0},
    {PICKED, 4, 2, 16, 16, 9, 1, 0, 0, true, false, 0},
    {PICKED, 6, 3, 5, 7, 3, 1, 0, 3, false, false, 1},
    {PICKED, 2, 1, 8, 24, 40, 1, 20, 0, false, false, 0},
    {ONE_LATENT, 4, 1, 24, 16, 0, 1, 0, 0, false, false, 0},
    {ONE_LATENT, 5, 1, 19, 13, 0, 1, 0, 0, true, false, 1},
    {ONE_LATENT, 2, 2, 33, 33, 0, 1, 30, 2, false, false, 0},
    {ONE_LATENT, 7, 1, 7, 1, 0, 1, 0, 0, false, false, 1},
    {ONE_PICKED, 19, 1, 6, 4, 9, 1, 0, 0, true, false, 0},
    {PICKED, 18, 2, 4, 3, 9, 1, 0, 0, true, false, 0},
    {ONE_PICKED, 4, 1, 24, 16, 11, 1, 0, 0, false, false, 0},
    {ONE_PICKED, 3, 1, 19, 17, 6, 1, 0, 0, true, false, 1},
    {TWO_LATENT, 4, 1, 16, 16, 0, 4, 10, 0, true, false, 0},
    {TWO_LATENT, 2, 1, 9, 5, 0, 3, 17, 0, false, false, 1},
    {TWO_LATENT, 2, 1, 8, 8, 0, 128, 16, 0, true, false, 0},
    {TWO_PICKED, 4, 1, 16, 16, 3, 4, 10, 0, true, false, 0},
    {TWO_PICKED, 3, 1, 11, 11, 20, 2, 5, 4, false, false, 1},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };

/* A row of the table: [q | first plane's row | second plane's row | weights or picks]. */
typedef struct Case {
    Arena arena;
    Shape s;
    const Program *program;
    RigWeight weights[2];
    const WeightSource *sources[2];
    uint32_t n_q, n_a, n_b, n_c, cols, out;
    float *x, *sinks;
    float *a, *b; /* rows as the planes keep them */
} Case;

static bool is_two(const Shape *s) { return s->what == TWO_LATENT || s->what == TWO_PICKED; }
static bool is_picked(const Shape *s) {
    return s->what == PICKED || s->what == ONE_PICKED || s->what == TWO_PICKED;
}

static uint32_t row_lo(const Shape *s, uint32_t slot) {
    return !s->lo ? 0 : slot % 3 == 0 ? slot / 3 : slot > 37 ? slot - 37 : 0;
}

/* The choice of row r: some of its keys, of two latents: groups; now and then fewer than k, one too
 * many for what the row sees, and none. */
static void picks_make(const Shape *s, uint32_t r, float *picks) {
    uint32_t rate = is_two(s) ? s->rate : 1, n = 0;
    for (uint32_t j = r % 5; j < r + 3 && n < s->k && r % 11 != 4; j += 1 + (r * 7 + j) % 6)
        if (j % rate == rate - 1) picks[n++] = (float)j;
    while (n < s->k) picks[n++] = -1;
}

static void case_values(Case *c) {
    c->x = rig_matrix(1, (size_t)N_ROWS * c->cols);
    for (size_t i = 0; i < (size_t)N_ROWS * c->cols && c->s.coarse; i++)
        c->x[i] = rintf(c->x[i] * 2) / 2;
    for (uint32_t r = 0; r < N_ROWS && is_picked(&c->s); r++)
        picks_make(&c->s, r, c->x + (size_t)r * c->cols + c->cols - c->s.k);
    c->sinks = rig_matrix(2, c->s.heads);
}

static PlaneId plane_of(ProgBuilder *b, PlaneUse use, uint32_t heads, uint32_t dim, uint32_t rate,
                        uint32_t window) {
    return prog_plane(b, (ProgPlane){.heads = heads,
                                     .head_cols = dim,
                                     .use = use,
                                     .keep = window ? KEEP_WINDOW : KEEP_ALL,
                                     .span = window,
                                     .rate = rate});
}

static Val record(Case *c, ProgBuilder *b, Val x, WeightId sinks) {
    const Shape *s = &c->s;
    OpAttn p = {.n_heads = s->heads,
                .n_kv_heads = s->kv_heads,
                .head_dim = s->dim,
                .v_dim = s->v_dim,
                .window = s->window,
                .scale = 0.7f,
                .softcap = s->softcap};
    Val q = prog_view(b, x, 0, c->n_q);
    Val last = c->n_c ? prog_view(b, x, c->cols - c->n_c, c->n_c) : VAL_NONE;
    PlaneUse use = s->what == SELECT || s->what == PICKED ? PLANE_KEY : PLANE_LATENT;
    uint32_t rate = s->what == SELECT ? s->rate : 1;
    PlaneId first = plane_of(b, use, s->kv_heads, s->dim, rate, is_two(s) ? s->window : 0),
            second = first;
    prog_kv_write(b, prog_view(b, x, c->n_q, c->n_a), first);
    if (s->what == SELECT)
        return prog_key_select(
            b, q, last, first,
            (OpKeySelect){.n_heads = s->heads, .head_dim = s->dim, .k = s->k, .scale = 0.5f});
    if (c->n_b) {
        second = is_two(s) ? plane_of(b, PLANE_LATENT, s->kv_heads, s->dim, s->rate, 0)
                           : plane_of(b, PLANE_VALUE, s->kv_heads, s->v_dim, 1, 0);
        prog_kv_write(b, prog_view(b, x, c->n_q + c->n_a, c->n_b), second);
    }
    if (is_two(s)) return prog_attn_joint(b, q, last, first, second, sinks, p);
    return prog_attn_picked(b, q, last, first, second, sinks, p);
}

static void case_open(Case *c, Shape s) {
    Err err = {0};
    *c = (Case){.s = s,
                .n_q = s.heads * s.dim,
                .n_a = s.kv_heads * s.dim,
                .n_b = is_two(&s)         ? s.kv_heads * s.dim
                       : s.what == PICKED ? s.kv_heads * s.v_dim
                                          : 0,
                .n_c = s.what == SELECT ? s.heads : s.k};
    c->cols = c->n_q + c->n_a + c->n_b + c->n_c;
    c->out = s.what == SELECT ? s.k : s.heads * s.v_dim;
    case_values(c);
    c->a = mem_calloc((size_t)N_ROWS * c->n_a, sizeof *c->a);
    c->b = mem_calloc((size_t)N_ROWS * c->n_b + 1, sizeof *c->b);
    rig_weight_rows(&c->weights[0], DTYPE_F32, c->x, N_ROWS, c->cols);
    rig_weight_rows(&c->weights[1], DTYPE_F32, c->sinks, 1, s.heads);
    for (int i = 0; i < 2; i++) c->sources[i] = &c->weights[i].source;
    ProgBuilder *b = prog_begin(&c->arena, "test");
    Val x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, N_ROWS, c->cols, 0, "x"), 1);
    WeightId sinks = s.sinks ? prog_weight(b, WEIGHT_VECTOR, 1, s.heads, 1, "sinks") : W_NONE;
    prog_output(b, record(c, b, x, sinks), "y");
    if (!prog_finish(b, &c->program, &err)) fail_msg("%s", err.msg);
}

static void case_close(Case *c) {
    for (int i = 0; i < 2; i++) rig_weight_close(&c->weights[i]);
    mem_free(c->x);
    mem_free(c->sinks);
    mem_free(c->a);
    mem_free(c->b);
    arena_deinit(&c->arena);
}

/* n columns from column `at` on of each row, as a cache of that type keeps them. */
static void rounded(const Case *c, uint32_t at, uint32_t n, uint32_t dim, PlaneType t, float *out) {
    unsigned char kept[4 * MAX_ROW];
    for (uint32_t r = 0; r < N_ROWS; r++)
        for (uint32_t i = 0; i < n; i += dim) {
            ref_row_store(t, kept, c->x + (size_t)r * c->cols + at + i, dim);
            ref_row_load(t, kept, out + (size_t)r * n + i, dim);
        }
}

typedef struct Scored {
    double score;
    uint32_t slot;
} Scored;

static int better(const void *a, const void *b) {
    const Scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->slot < y->slot ? -1 : 1;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void plain_select(const Case *c, uint32_t r, double *out) {
    const Shape *s = &c->s;
    const float *q = c->x + (size_t)r * c->cols, *w = q + c->n_q + c->n_a;
    Scored all[N_ROWS];
    float best[N_ROWS];
    uint32_t n = 0;
    for (uint32_t j = 0; j <= r; j++) {
        if (j % s->rate != s->rate - 1 || j + 1 - s->rate < row_lo(s, r)) continue;
        all[n] = (Scored){0, j};
        for (uint32_t h = 0; h < s->heads; h++) {
            double dot = 0;
            for (uint32_t i = 0; i < s->dim; i++)
                dot += (double)q[h * s->dim + i] * c->a[j * c->n_a + i];
            if (dot > 0) all[n].score += w[h] * (dot * 0.5);
        }
        n++;
    }
    qsort(all, n, sizeof *all, better);
    if (n > s->k) n = s->k;
    for (uint32_t i = 0; i < n; i++) best[i] = (float)all[i].slot;
    qsort(best, n, sizeof *best, ascending);
    for (uint32_t i = 0; i < s->k; i++) out[i] = i < n ? (double)best[i] : -1;
}

/* Which keys row r sees: of the first plane (see[0]) and of the far one (see[1]). */
static void plain_seen(const Case *c, uint32_t r, bool see[2][N_ROWS]) {
    const Shape *s = &c->s;
    const float *picks = c->x + (size_t)(r + 1) * c->cols - s->k;
    uint32_t lo = row_lo(s, r);
    for (uint32_t j = 0; j < N_ROWS; j++) {
        bool chosen = !is_picked(s);
        for (uint32_t i = 0; i < s->k && !chosen; i++) chosen = picks[i] == (float)j;
        bool in = j <= r && j >= lo, near = in && (!s->window || j + s->window > r);
        see[0][j] = near && (chosen || is_two(s));
        see[1][j] = is_two(s) && in && chosen && j % s->rate == s->rate - 1 &&
                    (is_picked(s) || j + 1 - s->rate >= lo);
    }
}

static void plain_attn(const Case *c, uint32_t r, double *out) {
    const Shape *s = &c->s;
    bool see[2][N_ROWS];
    plain_seen(c, r, see);
    for (uint32_t h = 0; h < s->heads; h++) {
        const float *q = c->x + (size_t)r * c->cols + h * s->dim;
        uint32_t kv = h / (s->heads / s->kv_heads);
        double sum = s->sinks ? exp(c->sinks[h]) : 0, acc[MAX_ROW] = {0};
        for (int far = 0; far < 2; far++)
            for (uint32_t j = 0; j < N_ROWS; j++) {
                const float *k = (far ? c->b : c->a) + j * c->n_a + kv * s->dim, *v = k;
                if (!see[far][j]) continue;
                if (s->what == PICKED) v = c->b + j * c->n_b + kv * s->v_dim;
                double dot = 0;
                for (uint32_t i = 0; i < s->dim; i++) dot += (double)q[i] * k[i];
                dot *= 0.7f;
                if (s->softcap != 0) dot = s->softcap * tanh(dot / s->softcap);
                sum += exp(dot);
                for (uint32_t i = 0; i < s->v_dim; i++) acc[i] += exp(dot) * v[i];
            }
        for (uint32_t i = 0; i < s->v_dim; i++) out[h * s->v_dim + i] = sum > 0 ? acc[i] / sum : 0;
    }
}

static uint32_t page_of(uint32_t seq, uint32_t page) {
    (void)seq;
    return (page + 2) % N_PAGES;
}

static void run(const Case *c, const char *backend, PlaneType t, int threads, uint32_t at_once,
                float *out) {
    Rig r;
    const RigOptions o = {backend, "auto", threads, t, N_PAGES, N_ROWS};
    rig_open(&r, &o, c->program, c->sources);
    for (uint32_t first = 0; first < N_ROWS; first += at_once) {
        uint32_t n = N_ROWS - first < at_once ? N_ROWS - first : at_once;
        /* two plane groups: the pages twice */
        Step *one = rig_step(&(RigSeq){first, n}, 1, first, N_PAGES, page_of);
        uint32_t n_pages = step_seqs(one)->n_pages;
        Step *step = mem_calloc(1, step_bytes(n, n, 1, 2 * n_pages));
        step_layout(step, n, n, 1, 2 * n_pages);
        *step_seqs(step) = *step_seqs(one);
        memcpy(step_rows(step), step_rows(one), n * sizeof(StepRow));
        memcpy(step_out_rows(step), step_out_rows(one), n * sizeof(uint32_t));
        for (int g = 0; g < 2; g++)
            memcpy(step_pages(step) + (uint32_t)g * n_pages, step_pages(one),
                   n_pages * sizeof(uint32_t));
        for (uint32_t i = 0; i < n; i++) step_rows(step)[i].lo = row_lo(&c->s, first + i);
        rig_run(&r, step, out + (size_t)first * c->out);
        mem_free(one);
        mem_free(step);
    }
    rig_close(&r);
}

static void check(Case *c, size_t i_shape, PlaneType t) {
    const Shape *s = &c->s;
    size_t n = (size_t)N_ROWS * c->out;
    double *want = mem_calloc(n, sizeof *want);
    float *first = mem_calloc(n, sizeof *first), *again = mem_calloc(n, sizeof *again);
    rounded(c, c->n_q, c->n_a, s->dim, t, c->a);
    rounded(c, c->n_q + c->n_a, c->n_b, s->what == PICKED ? s->v_dim : s->dim, t, c->b);
    for (uint32_t r = 0; r < N_ROWS; r++)
        (s->what == SELECT ? plain_select : plain_attn)(c, r, want + (size_t)r * c->out);
    for (int b = 0; b < 2; b++) {
        run(c, BACKENDS[b], t, 1, N_ROWS, first);
        for (size_t i = 0; i < n; i++)
            if (!(fabs(first[i] - want[i]) <= (s->what == SELECT ? 0 : 3e-6)))
                fail_msg("shape %zu, %s cache on %s: row %zu column %zu is %.9g, not %.9g", i_shape,
                         planetype_name(t), BACKENDS[b], i / c->out, i % c->out, (double)first[i],
                         want[i]);
        for (int threads = 1; threads <= 4; threads++) {
            run(c, BACKENDS[b], t, threads, threads == 1 ? 1 : 13 * (uint32_t)threads, again);
            assert_memory_equal(again, first, n * sizeof *first);
        }
    }
    mem_free(want);
    mem_free(first);
    mem_free(again);
}

static void results_are_those_of_plain_loops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        for (int t = 0; t < PLANE_TYPE_COUNT; t++) check(&c, i, (PlaneType)t);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_plain_loops)};
    return cmocka_run_group_tests_name("host_pick", tests, NULL, NULL);
}
