/* Roles to tensors: names, permuted rows and biases of GGUF files, one source for a tensor asked
 * for twice, tensors that nobody took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/weights.h"
#include "ckpt/ckpt_fixture.h"

static char dir[] = "/tmp/mlxcel_weights_XXXXXX";

static Checkpoint *gguf_checkpoint(void) {
    GgufFixture f = {0};
    Err err = {0};
    Checkpoint *ck;
    const char *path = fx_path(dir, "m.gguf");
    fx_key_str(&f, "general.architecture", "llama");
    fx_tensor(&f, "token_embd.weight", 4, 4, 0);
    fx_tensor(&f, "blk.0.attn_q.weight", 8, 4, 0);
    fx_tensor(&f, "blk.0.attn_q.bias", 0, 8, 100);
    fx_tensor(&f, "blk.0.attn_k.weight", 4, 4, 50);
    assert_true(fx_gguf_write(&f, path));
    if (!checkpoint_open(path, &ck, &err)) fail_msg("%s", err.msg);
    return ck;
}

/* All of a source's elements. */
static void values(const ArchWeight *w, float *out) {
    for (int i = 0; i < w->n_parts; i++) {
        WeightScratch sc = {0};
        Err err = {0};
        if (!wsource_f32(&w->parts[i], 0, w->parts[i].n, out, &sc, &err)) fail_msg("%s", err.msg);
        out += (size_t)w->parts[i].n * w->parts[i].k;
        wsource_scratch_deinit(&sc);
    }
}

static void gguf_rows_and_biases_are_unpermuted(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    float x[64];
    Checkpoint *ck = gguf_checkpoint();
    WeightTable *t = weights_new(ck, NULL, NULL, &a);
    const TakePart qk[2] = {
        {.role = ROLE_Q, .n = 8, .k = 4, .transform = TRANSFORM_UNPERMUTE, .head_dim = 4},
        {.role = ROLE_K, .n = 4, .k = 4}};
    const TakePart bias = {.role = ROLE_Q,
                           .n = 1,
                           .k = 8,
                           .transform = TRANSFORM_UNPERMUTE,
                           .head_dim = 4},
                   embed = {.role = ROLE_EMBED, .n = 4, .k = 4};
    int32_t m = weights_take(t, WEIGHT_MATRIX, 0, ".weight", qk, 2),
            b = weights_take(t, WEIGHT_VECTOR, 0, ".bias", &bias, 1);
    int32_t e = weights_take(t, WEIGHT_TABLE, -1, ".weight", &embed, 1),
            tied = weights_take(t, WEIGHT_MATRIX, -1, ".weight", &embed, 1);
    if (!weights_finish(t, &err)) fail_msg("%s", err.msg);
    assert_int_equal(e, tied);
    static const int STORED[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    values(weights_get(t, m), x);
    for (int n = 0; n < 8; n++)
        for (int k = 0; k < 4; k++) assert_true(x[n * 4 + k] == (float)(STORED[n] * 4 + k));
    for (int i = 0; i < 16; i++) assert_true(x[32 + i] == (float)(50 + i)); /* not permuted */
    values(weights_get(t, b), x);
    for (int n = 0; n < 8; n++) assert_true(x[n] == (float)(100 + STORED[n]));
    checkpoint_close(ck);
    arena_deinit(&a);
}

/* Rows in the program's order, some of them, or more than there are; a vector that is a matrix in
 * the file. */
static void rows_are_picked(void **state) {
    (void)state;
    static const uint32_t ROWS[5] = {7, 0, 7, 3, 2},
                          TWICE[16] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
    Arena a = {0};
    Err err = {0};
    float x[64];
    Checkpoint *ck = gguf_checkpoint();
    WeightTable *t = weights_new(ck, NULL, (const char *const[]){"token_embd.weight", NULL}, &a);
    const TakePart q = {.role = ROLE_Q, .n = 5, .k = 4, .rows = ROWS, .n_stored = 8},
                   bias = {.role = ROLE_Q, .n = 1, .k = 16, .rows = TWICE, .n_stored = 8},
                   flat = {.role = ROLE_K, .n = 1, .k = 16, .cols = 4};
    int32_t m = weights_take(t, WEIGHT_MATRIX, 0, ".weight", &q, 1),
            b = weights_take(t, WEIGHT_VECTOR, 0, ".bias", &bias, 1),
            f = weights_take(t, WEIGHT_VECTOR, 0, ".weight", &flat, 1);
    if (!weights_finish(t, &err)) fail_msg("%s", err.msg);
    values(weights_get(t, m), x);
    for (uint32_t i = 0; i < 20; i++) assert_true(x[i] == (float)(ROWS[i / 4] * 4 + i % 4));
    values(weights_get(t, b), x);
    for (uint32_t i = 0; i < 16; i++) assert_true(x[i] == (float)(100 + i / 2));
    values(weights_get(t, f), x);
    for (uint32_t i = 0; i < 16; i++) assert_true(x[i] == (float)(50 + i));
    checkpoint_close(ck);
    arena_deinit(&a);
}

/* A file of bfloat16 whose element i is the bytes 2i, 2i + 1, and a tensor of nothing. */
static Checkpoint *speech_checkpoint(void) {
    Err err = {0};
    Checkpoint *ck;
    assert_true(os_write_file(fx_path(dir, "config.json"), STR("{}"), &err));
    assert_true(fx_safetensors_write(
        fx_path(dir, "model.safetensors"),
        "{\"b.embed\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
        "\"none.weight\":{\"dtype\":\"BF16\",\"shape\":[0,2],\"data_offsets\":[8,8]},"
        "\"second.weight\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[8,12]},"
        "\"conv.weight\":{\"dtype\":\"BF16\",\"shape\":[2,4,3],\"data_offsets\":[12,60]}}",
        60));
    if (!checkpoint_open(dir, &ck, &err)) fail_msg("%s", err.msg);
    return ck;
}

static float element(uint32_t i) {
    uint32_t bits = (2 * i + 1) << 24 | 2 * i << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Kernels come with their taps outermost, a table may be a parameter, the embedding that shows where a
 * model hangs may have any of the family's names, and what is empty need not be taken. */
static void kernels_and_tables_of_other_spellings(void **state) {
    (void)state;
    static const RoleDelta NAMES[] = {{ROLE_EMBED, {"first", NULL}},
                                      {ROLE_EMBED, {"second", NULL}},
                                      {ROLE_FRAMES_1, {"conv", NULL}},
                                      {ROLE_POS_EMBED, {"b.embed", NULL}},
                                      {ROLE_COUNT, {NULL, NULL}}};
    Arena a = {0};
    Err err = {0};
    float x[24];
    Checkpoint *ck = speech_checkpoint();
    WeightTable *t = weights_new(ck, NAMES, NULL, &a);
    const TakePart embed = {.role = ROLE_EMBED, .n = 1, .k = 2},
                   table = {.role = ROLE_POS_EMBED, .n = 2, .k = 2},
                   kernel = {.role = ROLE_FRAMES_1, .n = 2, .k = 12, .taps = 3};
    TakePart wrong = kernel;
    wrong.taps = 4;
    weights_take(t, WEIGHT_TABLE, -1, ".weight", &embed, 1);
    int32_t p = weights_take(t, WEIGHT_TABLE, -1, "", &table, 1),
            k = weights_take(t, WEIGHT_MATRIX, -1, ".weight", &kernel, 1);
    if (!weights_finish(t, &err)) fail_msg("%s", err.msg);
    values(weights_get(t, p), x);
    for (uint32_t i = 0; i < 4; i++) assert_true(x[i] == element(i));
    values(weights_get(t, k), x);
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t row = i / 12, tap = i % 12 / 4, input = i % 4;
        assert_true(x[i] == element(6 + row * 12 + input * 3 + tap));
    }
    t = weights_new(ck, NAMES, NULL, &a);
    assert_int_equal(weights_take(t, WEIGHT_MATRIX, -1, ".weight", &wrong, 1), -1);
    assert_false(weights_finish(t, &err));
    assert_non_null(strstr(err.msg, "tensor conv.weight is BF16 [2, 4, 3]; floats [2, 3, 4]"));
    checkpoint_close(ck);
    arena_deinit(&a);
}

static void tensors_left_over_are_named(void **state) {
    (void)state;
    Checkpoint *ck = gguf_checkpoint();
    for (int ignore = 0; ignore < 2; ignore++) {
        Arena a = {0};
        Err err = {0};
        WeightTable *t =
            weights_new(ck, NULL, (const char *const[]){"*attn_k.*", "tok*d.weight", NULL}, &a);
        assert_true(weights_has(t, ROLE_Q, 0, ".bias") && !weights_has(t, ROLE_K, 0, ".bias"));
        if (ignore) weights_ignore(t, ROLE_Q, 0);
        assert_int_equal(weights_finish(t, &err), ignore);
        if (!ignore)
            assert_non_null(strstr(err.msg, "tensor blk.0.attn_q.weight belongs to no part"));
        arena_deinit(&a);
    }
    checkpoint_close(ck);
}

static void the_first_error_is_kept(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Checkpoint *ck = gguf_checkpoint();
    WeightTable *t = weights_new(ck, NULL, NULL, &a);
    const TakePart absent = {.role = ROLE_V, .n = 4, .k = 4},
                   wrong = {.role = ROLE_K, .n = 5, .k = 4};
    assert_int_equal(weights_take(t, WEIGHT_MATRIX, 0, ".weight", &absent, 1), -1);
    assert_int_equal(weights_take(t, WEIGHT_MATRIX, 0, ".weight", &wrong, 1), -1);
    assert_false(weights_finish(t, &err));
    assert_string_equal(err.msg, "tensor blk.0.attn_v.weight is missing");
    checkpoint_close(ck);
    arena_deinit(&a);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    fx_remove_dir(dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_rows_and_biases_are_unpermuted),
        cmocka_unit_test(rows_are_picked),
        cmocka_unit_test(kernels_and_tables_of_other_spellings),
        cmocka_unit_test(tensors_left_over_are_named),
        cmocka_unit_test(the_first_error_is_kept),
    };
    return cmocka_run_group_tests_name("weights", tests, set_up, tear_down);
}
