/* Short convolutions, state space scans, gated linear recurrences and sums of groups (CONV, SSM, RG_LRU,
 * COMPRESS of host_scan.c) on ref and on cpu: against plain loops, and the same bits however a sequence is cut
 * into steps, from a state that was kept, beside another sequence and for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu_rig.inc.h"

enum { N_ROWS = 20, N_SEQS = 2, MAX_STATE = 1024, MAX_WEIGHTS = 3 };

typedef struct Shape {
    OpCode code;
    OpSsm ssm;
    uint32_t cols, kernel; /* CONV, RG_LRU; COMPRESS: columns of the result, rate */
    bool a_each;           /* a decay for each column of the state */
    bool extra;            /* bias of CONV, D of SSM, overlap of COMPRESS */
} Shape;

static const Shape SHAPES[] = {
    {OP_CONV, {0}, 24, 4, false, true},
    {OP_CONV, {0}, 5, 2, false, false},
    {OP_CONV, {0}, 1, 9, false, true},
    {OP_SSM, {4, 8, 16, 2, true}, 0, 0, false, true},
    {OP_SSM, {3, 5, 7, 1, false}, 0, 0, false, false},
    {OP_SSM, {20, 1, 16, 1, true}, 0, 0, true, true},
    {OP_SSM, {6, 1, 1, 3, false}, 0, 0, true, true},
    {OP_SSM, {2, 4, 3, 2, true}, 0, 0, true, false},
    {OP_RG_LRU, {0}, 33, 0, false, false},
    {OP_COMPRESS, {0}, 7, 4, false, false},
    {OP_COMPRESS, {0}, 5, 3, false, true},
    {OP_COMPRESS, {0}, 1, 1, false, true},
    {OP_COMPRESS, {0}, 12, 20, false, false},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };
static const char *const BACKENDS[] = {"ref", "cpu"};

typedef struct Case {
    Arena arena;
    const Program *program;
    const WeightSource *sources[MAX_WEIGHTS];
    RigWeight weights[MAX_WEIGHTS];
    int n_weights;
    Shape shape;
    uint32_t cols, out; /* of an input row, of a result */
    float *x;           /* [N_SEQS * N_ROWS, cols]: the op's inputs side by side */
    float *a, *d;       /* weights: CONV's and its bias, SSM's A and D */
} Case;

static uint32_t input_cols(const Shape *s) {
    const OpSsm *p = &s->ssm;
    if (s->code == OP_CONV) return s->cols;
    if (s->code == OP_RG_LRU) return 2 * s->cols;
    if (s->code == OP_COMPRESS) return 2 * s->cols * (s->extra ? 2 : 1);
    return p->n_heads * p->head_dim + p->n_heads + 2 * p->n_groups * p->n_state;
}

static WeightId vector(Case *c, ProgBuilder *b, const float *values, uint32_t n) {
    int i = c->n_weights++;
    rig_weight_rows(&c->weights[i], DTYPE_F32, values, 1, n);
    c->sources[i] = &c->weights[i].source;
    return prog_weight(b, WEIGHT_VECTOR, 1, n, i, "w");
}

/* Time steps above 0, decays below. */
static void inputs_make(Case *c) {
    const OpSsm *p = &c->shape.ssm;
    uint32_t inner = p->n_heads * p->head_dim;
    c->x = rig_matrix(1, (size_t)N_SEQS * N_ROWS * c->cols);
    for (uint32_t r = 0; r < N_SEQS * N_ROWS; r++) {
        float *row = c->x + (size_t)r * c->cols;
        for (uint32_t i = 0; c->shape.code == OP_SSM && i < p->n_heads; i++)
            row[inner + i] = fabsf(row[inner + i]);
        for (uint32_t i = 0; c->shape.code == OP_RG_LRU && i < c->out; i++)
            row[c->out + i] = -fabsf(row[c->out + i]);
        for (uint32_t i = c->cols / 2; c->shape.code == OP_COMPRESS && i < c->cols; i++)
            row[i] *= 20; /* scores that leave little of most rows */
    }
}

static Val record_ssm(Case *c, ProgBuilder *b, Val x) {
    const OpSsm *p = &c->shape.ssm;
    uint32_t inner = p->n_heads * p->head_dim, bc = p->n_groups * p->n_state,
             n_a = p->n_heads * (c->shape.a_each ? p->n_state : 1);
    c->a = rig_matrix(2, n_a);
    c->d = rig_matrix(3, p->n_heads);
    for (uint32_t i = 0; i < n_a && !p->a_log; i++) c->a[i] = -fabsf(c->a[i]);
    WeightId a = vector(c, b, c->a, n_a);
    WeightId d = c->shape.extra ? vector(c, b, c->d, p->n_heads) : W_NONE;
    return prog_ssm(b, prog_view(b, x, 0, inner), prog_view(b, x, inner, p->n_heads),
                    prog_view(b, x, inner + p->n_heads, bc),
                    prog_view(b, x, inner + p->n_heads + bc, bc), a, d, *p, 0);
}

static Val record(Case *c, ProgBuilder *b, Val x) {
    const Shape *s = &c->shape;
    if (s->code == OP_SSM) return record_ssm(c, b, x);
    if (s->code == OP_RG_LRU)
        return prog_rg_lru(b, prog_view(b, x, 0, s->cols), prog_view(b, x, s->cols, s->cols), 0);
    if (s->code == OP_COMPRESS) {
        uint32_t in = c->cols / 2;
        c->a = rig_matrix(2, (size_t)in * s->kernel);
        WeightId bias = vector(c, b, c->a, in * s->kernel);
        return prog_compress(b, prog_view(b, x, 0, in), prog_view(b, x, in, in), bias,
                             (OpCompress){s->kernel, s->extra}, 0);
    }
    c->a = rig_matrix(2, (size_t)s->cols * s->kernel);
    c->d = rig_matrix(3, s->cols);
    WeightId w = vector(c, b, c->a, s->cols * s->kernel);
    WeightId bias = s->extra ? vector(c, b, c->d, s->cols) : W_NONE;
    return prog_conv(b, x, w, bias, s->kernel, 0);
}

static void case_open(Case *c, Shape s) {
    Err err = {0};
    *c = (Case){.shape = s, .cols = input_cols(&s)};
    c->out = s.code == OP_SSM ? s.ssm.n_heads * s.ssm.head_dim : s.cols;
    inputs_make(c);
    ProgBuilder *b = prog_begin(&c->arena, "test");
    rig_weight_rows(&c->weights[0], DTYPE_F32, c->x, N_SEQS * N_ROWS, c->cols);
    c->sources[c->n_weights++] = &c->weights[0].source;
    Val x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, N_SEQS * N_ROWS, c->cols, 0, "x"), 1);
    prog_output(b, record(c, b, x), "y");
    if (!prog_finish(b, &c->program, &err)) fail_msg("%s", err.msg);
}

static void case_close(Case *c) {
    for (int i = 0; i < c->n_weights; i++) rig_weight_close(&c->weights[i]);
    mem_free(c->x);
    mem_free(c->a);
    mem_free(c->d);
    arena_deinit(&c->arena);
}

static double plain_conv(const Case *c, uint32_t r, uint32_t col) {
    double sum = c->shape.extra ? (double)c->d[col] : 0;
    for (uint32_t i = 0; i < c->shape.kernel; i++) {
        int64_t at = (int64_t)r - (int64_t)c->shape.kernel + 1 + i;
        if (at >= 0)
            sum += (double)c->a[col * c->shape.kernel + i] * c->x[(size_t)at * c->cols + col];
    }
    return sum;
}

/* Column p of head h, whose state is a vector of its own. */
static void plain_ssm(const Case *c, uint32_t h, uint32_t p, double *y) {
    const OpSsm *o = &c->shape.ssm;
    uint32_t inner = o->n_heads * o->head_dim, g = h / (o->n_heads / o->n_groups);
    double s[MAX_STATE] = {0};
    for (uint32_t r = 0; r < N_ROWS; r++) {
        const float *row = c->x + (size_t)r * c->cols, *in_b = row + inner + o->n_heads,
                    *in_c = in_b + o->n_groups * o->n_state;
        double x = row[h * o->head_dim + p], dt = row[inner + h],
               sum = c->shape.extra ? c->d[h] * x : 0;
        for (uint32_t n = 0; n < o->n_state; n++) {
            double a = c->a[c->shape.a_each ? h * o->n_state + n : h];
            s[n] = exp(dt * (o->a_log ? -exp(a) : a)) * s[n] + dt * in_b[g * o->n_state + n] * x;
            sum += s[n] * in_c[g * o->n_state + n];
        }
        y[(size_t)r * c->out + h * o->head_dim + p] = sum;
    }
}

static double plain_compress(const Case *c, uint32_t r, uint32_t col) {
    const Shape *s = &c->shape;
    uint32_t in = c->cols / 2, own = s->extra ? s->cols : 0;
    int64_t first = (int64_t)r + 1 - s->kernel, from = s->extra ? first - s->kernel : first;
    double sum = 0, value = 0;
    if ((r + 1) % s->kernel) return 0;
    for (int64_t at = from < 0 ? 0 : from; at <= r; at++) {
        uint32_t k = col + (at >= first ? own : 0);
        const float *row = c->x + (size_t)at * c->cols;
        double p = exp((double)row[in + k] + c->a[at % s->kernel * in + k]);
        sum += p;
        value += p * row[k];
    }
    return value / sum;
}

/* The first sequence, in doubles. */
static void plain(const Case *c, double *y) {
    const OpSsm *p = &c->shape.ssm;
    for (uint32_t h = 0; c->shape.code == OP_SSM && h < p->n_heads; h++)
        for (uint32_t k = 0; k < p->head_dim; k++) plain_ssm(c, h, k, y);
    for (uint32_t col = 0; c->shape.code != OP_SSM && col < c->out; col++) {
        double state = 0;
        for (uint32_t r = 0; r < N_ROWS; r++) {
            const float *row = c->x + (size_t)r * c->cols;
            if (c->shape.code == OP_RG_LRU) {
                double a = exp(row[c->out + col]);
                state = r ? a * state + sqrt(1 - a * a) * row[col] : row[col];
            }
            y[(size_t)r * c->out + col] = c->shape.code == OP_CONV       ? plain_conv(c, r, col)
                                          : c->shape.code == OP_COMPRESS ? plain_compress(c, r, col)
                                                                         : state;
        }
    }
}

static void case_rig(const Case *c, const char *backend, int threads, Rig *r) {
    const RigOptions o = {backend, "auto", threads, PLANE_F32, 1, N_SEQS * N_ROWS};
    rig_open(r, &o, c->program, c->sources);
}

/* Rows [from, to) of one sequence, its state read from one slot and left in another; behind row
 * `mark` it is kept in slot 5. */
static void run_part(const Case *c, Rig *r, uint32_t seq, uint32_t from, uint32_t to,
                     uint32_t state_from, uint32_t state_to, uint32_t mark, float *out) {
    Step *step = rig_step(&(RigSeq){from, to - from}, 1, seq * N_ROWS + from, 1, NULL);
    step_seqs(step)[0].state_from = state_from;
    step_seqs(step)[0].state_to = state_to;
    if (mark >= from && mark < to) step_rows(step)[mark - from].mark = 5;
    rig_run(r, step, out + (size_t)from * c->out);
    mem_free(step);
}

static void results_are_those_of_plain_loops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.out;
        double *want = mem_alloc(n * sizeof *want);
        float *got = mem_alloc(n * sizeof *got);
        plain(&c, want);
        for (int b = 0; b < 2; b++) {
            Rig r;
            case_rig(&c, BACKENDS[b], 2, &r);
            run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, got);
            rig_close(&r);
            for (size_t k = 0; k < n; k++)
                if (!(fabs(got[k] - want[k]) <= 3e-6 * (1 + fabs(want[k]))))
                    fail_msg("shape %zu on %s: element %zu is %.9g, not %.9g", i, BACKENDS[b], k,
                             (double)got[k], want[k]);
        }
        mem_free(want);
        mem_free(got);
        case_close(&c);
    }
}

/* Cut behind every row, in the same slot and into another one; going on from a state that was kept,
 * twice; the run that kept it is not disturbed. */
static void cuts_and_marks_change_no_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.out * sizeof(float);
        float *whole = mem_alloc(n), *parts = mem_alloc(n);
        for (int b = 0; b < 2; b++) {
            Rig r;
            case_rig(&c, BACKENDS[b], 3, &r);
            run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, whole);
            for (uint32_t cut = 1; cut < N_ROWS; cut++) {
                run_part(&c, &r, 0, 0, cut, 0, 0, N_ROWS, parts);
                run_part(&c, &r, 0, cut, N_ROWS, 0, cut % 2, N_ROWS, parts);
                assert_memory_equal(parts, whole, n);
                run_part(&c, &r, 0, 0, N_ROWS, 2, 2, cut - 1, parts);
                assert_memory_equal(parts, whole, n);
                for (int again = 0; again < 2; again++) {
                    run_part(&c, &r, 0, cut, N_ROWS, 5, 1, N_ROWS, parts);
                    assert_memory_equal(parts, whole, n);
                }
            }
            for (uint32_t row = 0; row < N_ROWS; row++)
                run_part(&c, &r, 0, row, row + 1, row % 3, (row + 1) % 3, N_ROWS, parts);
            assert_memory_equal(parts, whole, n);
            rig_close(&r);
        }
        mem_free(whole);
        mem_free(parts);
        case_close(&c);
    }
}

/* Two sequences in one step, the second already begun; one to four threads. */
static void company_and_threads_change_no_bit(void **state) {
    (void)state;
    enum { BEGUN = 3 };
    for (size_t i = 0; i < N_SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.out, head = (size_t)BEGUN * c.out;
        float *one = mem_alloc(n * sizeof *one), *two = mem_alloc(n * sizeof *two),
              *both = mem_alloc((2 * n - head) * sizeof *both);
        for (int k = 0; k < 8; k++) {
            Rig r;
            case_rig(&c, BACKENDS[k / 4], 1 + k % 4, &r);
            if (k % 4 == 0) {
                run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, one);
                run_part(&c, &r, 1, 0, N_ROWS, 1, 1, N_ROWS, two);
            }
            run_part(&c, &r, 1, 0, BEGUN, 4, 4, N_ROWS, both);
            const RigSeq seqs[2] = {{0, N_ROWS}, {BEGUN, N_ROWS - BEGUN}};
            Step *step = rig_step(seqs, 2, 0, 1, NULL);
            for (uint32_t j = N_ROWS; j < step->n_rows; j++) step_rows(step)[j].source = j + BEGUN;
            step_seqs(step)[0].state_from = step_seqs(step)[0].state_to = 3;
            step_seqs(step)[1].state_from = step_seqs(step)[1].state_to = 4;
            rig_run(&r, step, both);
            assert_memory_equal(both, one, n * sizeof *one);
            assert_memory_equal(both + n, two + head, (n - head) * sizeof *two);
            mem_free(step);
            rig_close(&r);
        }
        mem_free(one);
        mem_free(two);
        mem_free(both);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_plain_loops),
                                       cmocka_unit_test(cuts_and_marks_change_no_bit),
                                       cmocka_unit_test(company_and_threads_change_no_bit)};
    return cmocka_run_group_tests_name("host_scan", tests, NULL, NULL);
}
