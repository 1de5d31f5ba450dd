/* The builder refuses what does not fit, the plan never lets two living values overlap, the listing
 * says what was recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/rng.h"
#include "op/plan.h"

static WeightId matrix(ProgBuilder *b, uint32_t n, uint32_t k, int32_t source) {
    return prog_weight(b, WEIGHT_MATRIX, n, k, source, "w");
}

static void misfits_are_reported_once(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    const Program *p;
    ProgBuilder *b = prog_begin(&a, "test");
    Val x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, 100, 64, 0, "embed"), 1);
    Val y = prog_linear(b, x, matrix(b, 32, 48, 1), W_NONE); /* 48 columns where x has 64 */
    prog_output(b, prog_add(b, y, x, 1), "out");
    assert_false(prog_finish(b, &p, &err));
    assert_non_null(strstr(err.msg, "LINEAR"));
    assert_non_null(strstr(err.msg, "48"));
    arena_deinit(&a);
}

static void views_stay_inside(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    const Program *p;
    ProgBuilder *b = prog_begin(&a, "test");
    Val x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, 100, 64, 0, "embed"), 1);
    Val v = prog_view(b, prog_view(b, x, 16, 32), 8, 8); /* of a view: columns 24..32 of x */
    prog_output(b, v, "out");
    assert_int_equal(prog_view(b, x, 60, 8), VAL_NONE);
    assert_false(prog_finish(b, &p, &err));
    b = prog_begin(&a, "test");
    x = prog_embed(b, prog_weight(b, WEIGHT_TABLE, 100, 64, 0, "embed"), 1);
    v = prog_view(b, prog_view(b, x, 16, 32), 8, 8);
    prog_output(b, v, "out");
    assert_true(prog_finish(b, &p, &err));
    assert_int_equal(p->vals[v].col0, 24);
    assert_int_equal(p->vals[v].base, x);
    arena_deinit(&a);
}

static void shared_things_are_recorded_once(void **state) {
    (void)state;
    Arena a = {0};
    ProgBuilder *b = prog_begin(&a, "test");
    RopeSpec r = {.rot_dim = 8, .freq_dim = 8, .theta = 1e4, .factor = 1};
    assert_int_equal(prog_rope_spec(b, r), 0);
    assert_int_equal(prog_rope_spec(b, r), 0);
    r.theta = 1e6;
    assert_int_equal(prog_rope_spec(b, r), 1);
    assert_int_equal(prog_rope_angles(b, 1), prog_rope_angles(b, 1));
    assert_int_equal(matrix(b, 8, 8, 5), matrix(b, 8, 8, 5));
    arena_deinit(&a);
}

enum { N_OPS = 120, N_TRIALS = 200 };

/* A random program of adds, views and products over values of random widths. */
static const Program *random_program(Arena *a, uint32_t seed) {
    Err err = {0};
    const Program *p;
    ProgBuilder *b = prog_begin(a, "random");
    Val vals[N_OPS];
    uint32_t width[N_OPS], n = 1, draw = 0;
    vals[0] = prog_embed(b, prog_weight(b, WEIGHT_TABLE, 10, width[0] = 32, 0, "embed"), 1);
    while (n < N_OPS) {
        uint32_t i = n - 1 - rng_u32(seed, 0, draw++, 0) % (n < 8 ? n : 8),
                 kind = rng_u32(seed, 0, draw++, 0) % 4;
        width[n] = width[i];
        if (kind == 0) {
            width[n] = 1 + rng_u32(seed, 0, draw++, 0) % 70;
            vals[n] = prog_linear(
                b, vals[i], matrix(b, width[n], width[i], (int32_t)(seed * N_OPS + n)), W_NONE);
        } else if (kind == 1) {
            vals[n] = prog_add(b, vals[i], vals[i], 2);
        } else if (kind == 2) {
            vals[n] = prog_mul(b, vals[i], prog_view(b, vals[i], width[i] - 1, 1));
        } else {
            vals[n] = prog_act(b, vals[i], ACT_SILU, 0);
        }
        n++;
    }
    prog_output(b, vals[N_OPS / 2], "middle");
    prog_output(b, vals[n - 1], "last");
    assert_true(prog_finish(b, &p, &err));
    return p;
}

/* Plays the program on a map of who owns each column, and checks that every operand still owns its
 * own when it is read. */
static void check_plan(const Program *p, const Plan *plan) {
    static Val owner[1 << 16];
    assert_true(plan->slab_cols[SPACE_T] < 1 << 16);
    memset(owner, 0xFF, sizeof owner);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        for (int k = 0; k < 2; k++) {
            if (op->in[k] == VAL_NONE) continue;
            const ProgVal *v = &p->vals[op->in[k]];
            for (uint32_t c = 0; c < v->cols; c++)
                assert_int_equal(owner[plan->col_offset[v->base] + v->col0 + c], v->base);
        }
        for (uint32_t c = 0; c < p->vals[op->out].cols; c++)
            owner[plan->col_offset[op->out] + c] = op->out;
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        const ProgVal *v = &p->vals[p->outputs[i].val];
        for (uint32_t c = 0; c < v->cols; c++)
            assert_int_equal(owner[plan->col_offset[v->base] + c], v->base);
    }
}

static void living_values_never_overlap(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < N_TRIALS; seed++) {
        Arena a = {0};
        Err err = {0};
        Plan plan;
        const Program *p = random_program(&a, seed);
        assert_true(plan_make(p, &a, &plan, &err));
        check_plan(p, &plan);
        uint32_t all = 0;
        for (uint32_t v = 0; v < p->n_vals; v++) all += plan_stride(p->vals[v].cols);
        assert_true(plan.slab_cols[SPACE_T] < all / 2); /* and they do share */
        arena_deinit(&a);
    }
}

static void the_listing_names_everything(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Buf text = {0};
    const Program *p;
    ProgBuilder *b = prog_begin(&a, "text");
    Val x = prog_probe(b, prog_embed(b, prog_weight(b, WEIGHT_TABLE, 10, 8, 0, "tok.weight"), 2),
                       "embed");
    prog_output(b, prog_linear_precise(b, prog_select(b, x), matrix(b, 10, 8, 1), W_NONE),
                "logits");
    assert_true(prog_finish(b, &p, &err));
    program_dump(p, &text);
    const char *z = buf_cstr(&text);
    assert_non_null(strstr(z, "EMBED @tok.weight scale=2"));
    assert_non_null(strstr(z, "; embed"));
    assert_non_null(strstr(z, "%1[R,8] = SELECT %0"));
    assert_non_null(strstr(z, "LINEAR %1 @w precise"));
    buf_deinit(&text);
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_reported_once),
        cmocka_unit_test(views_stay_inside),
        cmocka_unit_test(shared_things_are_recorded_once),
        cmocka_unit_test(living_values_never_overlap),
        cmocka_unit_test(the_listing_names_everything),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
