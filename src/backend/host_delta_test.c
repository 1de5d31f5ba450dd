/* The gated delta rule (DELTA, host_scan.c) on ref and on cpu: against plain loops, and the same
 * bits however a sequence is cut into steps, from a state that was kept, beside another sequence
 * and for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu_rig.inc.h"

enum { N_ROWS = 24, N_SEQS = 2, MAX_STATE = 4096 };

typedef struct Shape {
    OpDelta p;
    bool by_column;
} Shape;

static const Shape SHAPES[] = {
    {{4, 2, 16, 16, false}, false}, {{4, 4, 8, 24, false}, true}, {{3, 1, 1, 5, false}, false},
    {{2, 2, 1, 4, false}, true},    {{2, 1, 33, 7, true}, true},  {{1, 1, 20, 48, false}, false},
    {{6, 2, 5, 3, true}, false},
};
static const char *const BACKENDS[] = {"ref", "cpu"};

typedef struct Case {
    Arena arena;
    const Program *program;
    const WeightSource *source;
    RigWeight table;
    Shape shape;
    uint32_t cols, nq, nv, ng; /* of a row, its parts */
    float *x;                  /* [N_SEQS * N_ROWS, cols]: q, k, v, log decay, beta */
} Case;

static void case_open(Case *c, Shape s) {
    Err err = {0};
    *c = (Case){.shape = s, .nq = s.p.n_k_heads * s.p.k_dim, .nv = s.p.n_heads * s.p.v_dim};
    c->ng = s.p.n_heads * (s.by_column ? s.p.k_dim : 1);
    c->cols = 2 * c->nq + c->nv + c->ng + s.p.n_heads;
    c->x = rig_matrix(1, (size_t)N_SEQS * N_ROWS * c->cols);
    for (uint32_t r = 0; r < N_SEQS * N_ROWS; r++) {
        float *g = c->x + (size_t)r * c->cols + 2 * c->nq + c->nv;
        for (uint32_t i = 0; i < c->ng; i++) g[i] = -fabsf(g[i]);
        for (uint32_t i = 0; i < s.p.n_heads; i++) g[c->ng + i] = fabsf(g[c->ng + i]);
        for (uint32_t i = 0; i < 2 * c->nq; i++)
            c->x[(size_t)r * c->cols + i] /= sqrtf((float)s.p.k_dim);
    }
    ProgBuilder *b = prog_begin(&c->arena, "test");
    rig_weight_rows(&c->table, DTYPE_F32, c->x, N_SEQS * N_ROWS, c->cols);
    c->source = &c->table.source;
    Val x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, N_SEQS * N_ROWS, c->cols, 0, "x"), 1);
    Val y = prog_delta(b, prog_view(b, x, 0, c->nq), prog_view(b, x, c->nq, c->nq),
                       prog_view(b, x, 2 * c->nq, c->nv), prog_view(b, x, 2 * c->nq + c->nv, c->ng),
                       prog_view(b, x, 2 * c->nq + c->nv + c->ng, s.p.n_heads), s.p, 0);
    prog_output(b, y, "y");
    if (!prog_finish(b, &c->program, &err)) fail_msg("%s", err.msg);
}

static void case_close(Case *c) {
    rig_weight_close(&c->table);
    mem_free(c->x);
    arena_deinit(&c->arena);
}

/* One head of one sequence, in doubles. */
static void plain_head(const Case *c, uint32_t seq, uint32_t h, double *y) {
    const OpDelta *p = &c->shape.p;
    double s[MAX_STATE] = {0};
    uint32_t kh = p->tiled ? h % p->n_k_heads : h / (p->n_heads / p->n_k_heads);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        const float *q = c->x + (size_t)(seq * N_ROWS + r) * c->cols + kh * p->k_dim;
        const float *k = q + c->nq, *row = c->x + (size_t)(seq * N_ROWS + r) * c->cols;
        const float *v = row + 2 * c->nq + h * p->v_dim, *g = row + 2 * c->nq + c->nv;
        double beta = g[c->ng + h];
        for (uint32_t j = 0; j < p->v_dim; j++) {
            double seen = 0, sum = 0;
            for (uint32_t i = 0; i < p->k_dim; i++) {
                s[i * p->v_dim + j] *= exp(g[c->shape.by_column ? h * p->k_dim + i : h]);
                seen += k[i] * s[i * p->v_dim + j];
            }
            for (uint32_t i = 0; i < p->k_dim; i++) {
                s[i * p->v_dim + j] += k[i] * beta * (v[j] - seen);
                sum += q[i] * s[i * p->v_dim + j];
            }
            y[(size_t)r * c->nv + h * p->v_dim + j] = sum;
        }
    }
}

static void case_rig(const Case *c, const char *backend, int threads, Rig *r) {
    const RigOptions o = {backend, "auto", threads, PLANE_F32, 1, N_SEQS * N_ROWS};
    rig_open(r, &o, c->program, &c->source);
}

/* Rows [from, to) of one sequence, its state read from one slot and left in another; behind row
 * `mark` it is kept in slot 5. */
static void run_part(const Case *c, Rig *r, uint32_t seq, uint32_t from, uint32_t to,
                     uint32_t state_from, uint32_t state_to, uint32_t mark, float *out) {
    Step *step = rig_step(&(RigSeq){from, to - from}, 1, seq * N_ROWS + from, 1, NULL);
    step_seqs(step)[0].state_from = state_from;
    step_seqs(step)[0].state_to = state_to;
    if (mark >= from && mark < to) step_rows(step)[mark - from].mark = 5;
    rig_run(r, step, out + (size_t)from * c->nv);
    mem_free(step);
}

static void the_rule_is_that_of_plain_loops(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        double *want = mem_alloc((size_t)N_ROWS * c.nv * sizeof *want);
        float *got = mem_alloc((size_t)N_ROWS * c.nv * sizeof *got);
        for (uint32_t h = 0; h < c.shape.p.n_heads; h++) plain_head(&c, 0, h, want);
        for (int b = 0; b < 2; b++) {
            Rig r;
            case_rig(&c, BACKENDS[b], 2, &r);
            run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, got);
            rig_close(&r);
            for (size_t k = 0; k < (size_t)N_ROWS * c.nv; k++)
                if (!(fabs(got[k] - want[k]) <= 3e-6 * (1 + fabs(want[k]))))
                    fail_msg("shape %zu on %s: element %zu is %.9g, not %.9g", i, BACKENDS[b], k,
                             (double)got[k], want[k]);
        }
        mem_free(want);
        mem_free(got);
        case_close(&c);
    }
}

/* Cut behind every row, in the same slot and into another one. */
static void cuts_change_no_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.nv;
        float *whole = mem_alloc(n * sizeof *whole), *parts = mem_alloc(n * sizeof *parts);
        for (int b = 0; b < 2; b++) {
            Rig r;
            case_rig(&c, BACKENDS[b], 1, &r);
            run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, whole);
            for (uint32_t cut = 1; cut < N_ROWS; cut++) {
                uint32_t to = cut % 2;
                run_part(&c, &r, 0, 0, cut, 0, 0, N_ROWS, parts);
                run_part(&c, &r, 0, cut, N_ROWS, 0, to, N_ROWS, parts);
                assert_memory_equal(parts, whole, n * sizeof *whole);
            }
            for (uint32_t row = 0; row < N_ROWS; row++)
                run_part(&c, &r, 0, row, row + 1, row % 3, (row + 1) % 3, N_ROWS, parts);
            assert_memory_equal(parts, whole, n * sizeof *whole);
            rig_close(&r);
        }
        mem_free(whole);
        mem_free(parts);
        case_close(&c);
    }
}

/* What was kept behind a row is where another run goes on; the run that kept it is not disturbed. */
static void a_marked_state_is_gone_on_from(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.nv;
        float *whole = mem_alloc(n * sizeof *whole), *parts = mem_alloc(n * sizeof *parts);
        for (int b = 0; b < 2; b++) {
            Rig r;
            case_rig(&c, BACKENDS[b], 3, &r);
            run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, whole);
            for (uint32_t mark = 0; mark + 1 < N_ROWS; mark += 5) {
                run_part(&c, &r, 0, 0, N_ROWS, 2, 2, mark, parts);
                assert_memory_equal(parts, whole, n * sizeof *whole);
                for (int again = 0; again < 2; again++) { /* the mark stays as it is */
                    run_part(&c, &r, 0, mark + 1, N_ROWS, 5, 1, N_ROWS, parts);
                    assert_memory_equal(parts, whole, n * sizeof *whole);
                }
            }
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
    enum { BEGUN = 5 };
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        Case c;
        case_open(&c, SHAPES[i]);
        size_t n = (size_t)N_ROWS * c.nv, n_both = 2 * n - (size_t)BEGUN * c.nv;
        float *one = mem_alloc(n * sizeof *one), *two = mem_alloc(n * sizeof *two),
              *both = mem_alloc(n_both * sizeof *both);
        for (int b = 0; b < 2; b++) {
            for (int threads = 1; threads <= 4; threads++) {
                Rig r;
                case_rig(&c, BACKENDS[b], threads, &r);
                if (threads == 1) {
                    run_part(&c, &r, 0, 0, N_ROWS, 0, 0, N_ROWS, one);
                    run_part(&c, &r, 1, 0, N_ROWS, 1, 1, N_ROWS, two);
                }
                run_part(&c, &r, 1, 0, BEGUN, 4, 4, N_ROWS, both);
                const RigSeq seqs[2] = {{0, N_ROWS}, {BEGUN, N_ROWS - BEGUN}};
                Step *step = rig_step(seqs, 2, 0, 1, NULL);
                for (uint32_t k = N_ROWS; k < step->n_rows; k++)
                    step_rows(step)[k].source = k + BEGUN;
                step_seqs(step)[0].state_from = step_seqs(step)[0].state_to = 3;
                step_seqs(step)[1].state_from = step_seqs(step)[1].state_to = 4;
                rig_run(&r, step, both);
                assert_memory_equal(both, one, n * sizeof *one);
                assert_memory_equal(both + n, two + (size_t)BEGUN * c.nv,
                                    (n - (size_t)BEGUN * c.nv) * sizeof *two);
                mem_free(step);
                rig_close(&r);
            }
        }
        mem_free(one);
        mem_free(two);
        mem_free(both);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_rule_is_that_of_plain_loops),
                                       cmocka_unit_test(cuts_change_no_bit),
                                       cmocka_unit_test(a_marked_state_is_gone_on_from),
                                       cmocka_unit_test(company_and_threads_change_no_bit)};
    return cmocka_run_group_tests_name("host_delta", tests, NULL, NULL);
}
