/* The ops that look up, move and combine columns (host_rows.c), on ref and on cpu: against plain
 * loops, and the same bits for all rows at once, for some at a time and for any number of
 * threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu_rig.inc.h"

enum { N_ROWS = 40, N_X = 24, MAX_OUT = 64 };

typedef struct Case {
    Arena arena;
    ProgBuilder *b;
    const Program *program;
    const WeightSource *sources[16];
    RigWeight weights[16];
    uint32_t n_weights;
    float *x; /* [N_ROWS, N_X] */
    Val in;
} Case;

/* values [n, k] as a weight of the program; VECTOR: n = 1. */
static WeightId case_weight(Case *c, WeightKind kind, DType t, const float *values, uint32_t n,
                            uint32_t k) {
    uint32_t i = c->n_weights++;
    rig_weight_rows(&c->weights[i], t, values, n, k);
    c->sources[i] = &c->weights[i].source;
    return prog_weight(c->b, kind, n, k, (int32_t)i, "w");
}

static void case_begin(Case *c) {
    *c = (Case){.x = rig_matrix(1, (size_t)N_ROWS * N_X)};
    c->b = prog_begin(&c->arena, "test");
    WeightId table = case_weight(c, WEIGHT_TABLE, DTYPE_F32, c->x, N_ROWS, N_X);
    c->in = prog_embed(c->b, table, 1);
}

static void run(const Case *c, const char *backend, int threads, uint32_t rows_at_once,
                uint32_t cols, float *out) {
    Rig r;
    const RigOptions o = {backend, "auto", threads, PLANE_F32, 1, N_ROWS};
    rig_open(&r, &o, c->program, c->sources);
    for (uint32_t first = 0; first < N_ROWS; first += rows_at_once) {
        uint32_t n = N_ROWS - first < rows_at_once ? N_ROWS - first : rows_at_once;
        Step *step = rig_step(&(RigSeq){0, n}, 1, first, 1, NULL);
        rig_run(&r, step, out + (size_t)first * cols);
        mem_free(step);
    }
    rig_close(&r);
}

/* Ends the program with y and compares it with want [N_ROWS, cols]; off: in multiples of a value's
 * own size. */
static void case_check(Case *c, const char *what, Val y, const double *want, uint32_t cols,
                       double off) {
    static const char *const BACKENDS[] = {"ref", "cpu"};
    Err err = {0};
    float first[N_ROWS * MAX_OUT], again[N_ROWS * MAX_OUT];
    prog_output(c->b, y, "y");
    if (!prog_finish(c->b, &c->program, &err)) fail_msg("%s: %s", what, err.msg);
    for (int b = 0; b < 2; b++) {
        run(c, BACKENDS[b], 1, N_ROWS, cols, first);
        for (uint32_t i = 0; i < N_ROWS * cols; i++)
            if (!(fabs(first[i] - want[i]) <= off * (1 + fabs(want[i]))))
                fail_msg("%s on %s: element %u is %.9g, not %.9g", what, BACKENDS[b], i,
                         (double)first[i], want[i]);
        for (int threads = 1; threads <= 4; threads++) {
            run(c, BACKENDS[b], threads, threads == 1 ? 1 : 7 * (uint32_t)threads, cols, again);
            assert_memory_equal(again, first, (size_t)N_ROWS * cols * sizeof *first);
        }
    }
    for (uint32_t i = 0; i < c->n_weights; i++) rig_weight_close(&c->weights[i]);
    mem_free(c->x);
    arena_deinit(&c->arena);
}

static void col_scale_multiplies_and_adds_by_column(void **state) {
    (void)state;
    float *w = rig_matrix(2, N_X), *add = rig_matrix(3, N_X);
    for (int form = 1; form < 4; form++) { /* 1: w, 2: add */
        for (int fn = COL_PLAIN; fn <= COL_SOFTPLUS; fn++) {
            Case c;
            double want[N_ROWS * N_X];
            case_begin(&c);
            WeightId wi = form & 1 ? case_weight(&c, WEIGHT_VECTOR, DTYPE_F32, w, 1, N_X) : W_NONE;
            WeightId ai =
                form & 2 ? case_weight(&c, WEIGHT_VECTOR, DTYPE_F32, add, 1, N_X) : W_NONE;
            for (uint32_t i = 0; i < N_ROWS * N_X; i++) {
                double f = form & 1 ? (double)w[i % N_X] : 1;
                if (fn == COL_NEG_EXP) f = -exp(f);
                if (fn == COL_SOFTPLUS) f = log(1 + exp(f));
                want[i] = c.x[i] * f + (form & 2 ? (double)add[i % N_X] : 0);
            }
            Val y = prog_col_scale(c.b, c.in, wi, ai, (ColFn)fn);
            case_check(&c, "col_scale", y, want, N_X, 1e-7);
        }
    }
    mem_free(w);
    mem_free(add);
}

static void reduce_gives_one_number_a_group(void **state) {
    (void)state;
    static const uint32_t GROUPS[] = {1, 3, 8, N_X};
    for (int g = 0; g < 4; g++) {
        for (int fn = 0; fn < REDUCE_COUNT; fn++) {
            Case c;
            uint32_t group = GROUPS[g], cols = N_X / group;
            double want[N_ROWS * N_X];
            case_begin(&c);
            for (uint32_t i = 0; i < N_ROWS * cols; i++) {
                double sum = 0;
                for (uint32_t k = 0; k < group; k++) {
                    double v = c.x[i * group + k];
                    sum += fn == REDUCE_RMS ? v * v : v;
                }
                want[i] = fn == REDUCE_SUM    ? sum
                          : fn == REDUCE_MEAN ? sum / group
                                              : sqrt(sum / group + 0.125);
            }
            Val y = prog_reduce(c.b, c.in, (Reduce)fn, group, 0.125f);
            case_check(&c, "reduce", y, want, cols, 1e-7);
        }
    }
}

/* Views too: the columns of an operand need not be all of its row. */
static void concat_puts_columns_side_by_side(void **state) {
    (void)state;
    Case c;
    double want[N_ROWS * MAX_OUT];
    case_begin(&c);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        for (uint32_t i = 0; i < 5; i++) want[r * 29 + i] = c.x[r * N_X + 7 + i];
        for (uint32_t i = 0; i < N_X; i++) want[r * 29 + 5 + i] = c.x[r * N_X + i];
    }
    Val y = prog_concat(c.b, prog_view(c.b, c.in, 7, 5), c.in);
    case_check(&c, "concat", y, want, 29, 0);
}

/* Numbers that name no row of the table count for nothing. */
static void gather_sum_weighs_table_rows(void **state) {
    (void)state;
    enum { K = 4, N_TABLE = 9, COLS = 32 };
    Case c = {0};
    float picks[N_ROWS * 2 * K];
    double want[N_ROWS * COLS];
    float *table = rig_matrix(5, N_TABLE * COLS);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        for (uint32_t j = 0; j < K; j++) {
            picks[r * 2 * K + j] = (float)((r * 3 + j * j) % N_TABLE);
            picks[r * 2 * K + K + j] = rig_random(6, r * K + j);
        }
        if (r % 5 == 1) picks[r * 2 * K] = -1;
        if (r % 5 == 2) picks[r * 2 * K + 1] = N_TABLE;
        if (r % 5 == 3) picks[r * 2 * K + 2] = NAN;
    }
    for (int quantized = 0; quantized < 2; quantized++) {
        c = (Case){.x = rig_matrix(1, 1)};
        c.b = prog_begin(&c.arena, "test");
        c.in = prog_embed(c.b, case_weight(&c, WEIGHT_TABLE, DTYPE_F32, picks, N_ROWS, 2 * K), 1);
        WeightId w =
            case_weight(&c, WEIGHT_TABLE, quantized ? DTYPE_Q8_0 : DTYPE_F16, table, N_TABLE, COLS);
        float *rows = rig_decoded(&c.weights[1]);
        for (uint32_t r = 0; r < N_ROWS; r++) {
            for (uint32_t i = 0; i < COLS; i++) {
                double sum = 0;
                for (uint32_t j = 0; j < K; j++) {
                    float n = picks[r * 2 * K + j];
                    if (n >= 0 && n < N_TABLE)
                        sum += (double)picks[r * 2 * K + K + j] * rows[(uint32_t)n * COLS + i];
                }
                want[r * COLS + i] = sum;
            }
        }
        mem_free(rows);
        case_check(&c, "gather_sum", prog_gather_sum(c.b, c.in, w), want, COLS, 1e-6);
    }
    mem_free(table);
}

static void mix_combines_streams_by_the_rows_own_matrix(void **state) {
    (void)state;
    enum { N_IN = 3, N_OUT = 4, N = 4 }; /* the row: streams, then the matrix */
    Case c;
    double want[N_ROWS * N_OUT * N];
    case_begin(&c);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        const float *x = c.x + r * N_X, *coef = x + N_IN * N;
        for (uint32_t i = 0; i < N_OUT * N; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < N_IN; j++)
                sum += (double)coef[i / N * N_IN + j] * x[j * N + i % N];
            want[r * N_OUT * N + i] = sum;
        }
    }
    Val x = prog_view(c.b, c.in, 0, N_IN * N);
    Val coef = prog_view(c.b, c.in, N_IN * N, N_IN * N_OUT);
    case_check(&c, "mix", prog_mix(c.b, x, coef, N_IN, N_OUT), want, N_OUT * N, 1e-7);
}

/* The result is the matrix turned round; its rows and columns add up to one. */
static void sinkhorn_makes_rows_and_columns_add_up_to_one(void **state) {
    (void)state;
    enum { N = 4, TIMES = 30 };
    Case c;
    double want[N_ROWS * N * N];
    case_begin(&c);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        double m[N][N], eps = 1e-6;
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) sum += exp(c.x[r * N_X + i * N + j]);
            for (int j = 0; j < N; j++) m[i][j] = exp(c.x[r * N_X + i * N + j]) / sum + eps;
        }
        for (int k = 0; k < 2 * TIMES - 1; k++)
            for (int a = 0; a < N; a++) {
                double sum = eps;
                for (int b = 0; b < N; b++) sum += k % 2 ? m[a][b] : m[b][a];
                for (int b = 0; b < N; b++) *(k % 2 ? &m[a][b] : &m[b][a]) /= sum;
            }
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) sum += m[i][j], want[(r * N + j) * N + i] = m[i][j];
            assert_true(fabs(sum - 1) < 1e-4);
        }
    }
    Val x = prog_view(c.b, c.in, 0, N * N);
    Val y = prog_sinkhorn(c.b, x, (OpSinkhorn){.n = N, .times = TIMES, .eps = 1e-6f});
    case_check(&c, "sinkhorn", y, want, N * N, 1e-6);
}

/* Experts that a table names: in its order, with weights of the scores; numbers of no expert count
 * for nothing. */
static void routes_may_be_given(void **state) {
    (void)state;
    enum { N = 6, K = 3 };
    Case c;
    double want[N_ROWS * 2 * K];
    float numbers[N_ROWS * K];
    case_begin(&c);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        double p[K] = {0}, sum = 1e-20;
        for (uint32_t j = 0; j < K; j++) numbers[r * K + j] = (float)((r * 5 + j * 2) % N);
        if (r % 7 == 3) numbers[r * K + 1] = r % 2 ? N : -1;
        if (r % 7 == 4) numbers[r * K] = NAN;
        for (uint32_t j = 0; j < K; j++) {
            float e = numbers[r * K + j];
            bool there = e >= 0 && e < N;
            want[r * 2 * K + j] = there ? (double)e : 0;
            if (there) sum += p[j] = sqrt(log(1 + exp(c.x[r * N_X + (uint32_t)e])));
        }
        for (uint32_t j = 0; j < K; j++) want[r * 2 * K + K + j] = 1.5 * p[j] / sum;
    }
    WeightId table = case_weight(&c, WEIGHT_TABLE, DTYPE_F32, numbers, N_ROWS, K);
    OpRoute p = {
        .fn = ROUTE_SQRT_SOFTPLUS, .normalize = true, .n_experts = N, .k = K, .scale = 1.5f};
    Val logits = prog_view(c.b, c.in, 0, N);
    Val y = prog_route_given(c.b, logits, prog_embed(c.b, table, 1), p);
    case_check(&c, "route", y, want, 2 * K, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(col_scale_multiplies_and_adds_by_column),
        cmocka_unit_test(reduce_gives_one_number_a_group),
        cmocka_unit_test(concat_puts_columns_side_by_side),
        cmocka_unit_test(gather_sum_weighs_table_rows),
        cmocka_unit_test(mix_combines_streams_by_the_rows_own_matrix),
        cmocka_unit_test(sinkhorn_makes_rows_and_columns_add_up_to_one),
        cmocka_unit_test(routes_may_be_given)};
    return cmocka_run_group_tests_name("host_rows", tests, NULL, NULL);
}
