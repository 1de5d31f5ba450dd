/* What a request comes to for the towers of Qwen's models: windows and their edges, learned places
 * between patches, kernels in another order, frames as sequences, memory that ends. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/plan_memory.inc.h"
#include "arch/qwen_tower.h"

enum { IMAGE = 250, VIDEO = 251, MAX_ROWS = 64, COLS = 6 };

static QwenTower tower(void) {
    return (QwenTower){
        .channels = 3,
        .frames = 2,
        .patch = 1,
        .grid = {.image_token = IMAGE, .video_token = VIDEO, .cols = COLS, .merge = 2}};
}

/* One image or video of n placeholders; row i has 10 * i + 0, 1, ... in its columns. */
static bool plan(const QwenTower *t, bool video, const int64_t grid[3], Arena *a, MediaPlan *out,
                 Err *err) {
    static float pixels[MAX_ROWS * COLS];
    uint64_t rows = (uint64_t)(grid[0] * grid[1] * grid[2]);
    const MediaTensor inputs[2] = {
        {video ? "pixel_values_videos" : "pixel_values", MEDIA_F32, 2, {rows, COLS}, pixels},
        {video ? "video_grid_thw" : "image_grid_thw", MEDIA_I64, 2, {1, 3}, grid}};
    uint32_t tokens[MAX_ROWS], n = (uint32_t)rows / (t->grid.merge * t->grid.merge);
    bool used[2] = {false};
    const ArchModel m = {.media_spec = t};
    for (uint32_t i = 0; i < n; i++) tokens[i] = video ? VIDEO : IMAGE;
    for (uint32_t i = 0; i < rows * COLS; i++) pixels[i] = (float)(10 * (i / COLS) + i % COLS);
    *out = (MediaPlan){0};
    return qwen_tower_plan(&m, &(MediaAsk){inputs, 2, tokens, n, used}, a, out, err);
}

static void plan_well(const QwenTower *t, bool video, const int64_t grid[3], Arena *a,
                      MediaPlan *out) {
    Err err = {0};
    if (!plan(t, video, grid, a, out, &err)) fail_msg("%s", err.msg);
}

/* 3 x 5 blocks in windows of 2 x 2: those at the right are 2 x 1, those below 1 x 2 and 1 x 1. */
static void windows_are_smaller_at_the_edges(void **state) {
    (void)state;
    static const uint32_t ORDER[15] = {0, 1, 4, 5, 8, 2, 3, 6, 7, 9, 10, 11, 12, 13, 14};
    static const uint32_t EDGES[] = {0, 16, 32, 40, 48, 56, 60};
    Arena a = {0};
    MediaPlan p;
    QwenTower t = tower();
    t.window = 2;
    plan_well(&t, false, (const int64_t[]){1, 6, 10}, &a, &p);
    assert_int_equal(p.n_seqs, 1);
    assert_int_equal(p.seqs[0].n_cross, 60);
    assert_int_equal(p.n_embeds, 15);
    assert_memory_equal(p.order, ORDER, sizeof ORDER);
    for (uint32_t r = 0, w = 0; r < p.n_rows; r++) {
        w += r == EDGES[w + 1];
        assert_int_equal(p.rows[r].slot, r);
        assert_int_equal(p.rows[r].lo, EDGES[w]);
        assert_int_equal(p.rows[r].hi, EDGES[w + 1]);
    }
    /* the second window's first row is the top left patch of block 2 */
    assert_true(p.inputs[0][16 * COLS] == 10 * 8);
    assert_int_equal(p.rows[16].pos[0], 0);
    assert_int_equal(p.rows[16].pos[1], 4);
    arena_deinit(&a);
}

/* Without windows a row sees its frame, and frames follow one another. */
static void frames_are_sequences(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p;
    QwenTower t = tower();
    plan_well(&t, true, (const int64_t[]){2, 4, 2}, &a, &p);
    assert_int_equal(p.n_seqs, 2);
    assert_int_equal(p.n_rows, 16);
    for (uint32_t r = 0; r < 16; r++) {
        const StepRow *row = &p.rows[r];
        const int32_t want[4] = {(int32_t)(r % 8 / 2), (int32_t)(r % 2), (int32_t)(r / 8),
                                 (int32_t)(r / 8)};
        assert_true(row->slot == r % 8 && row->lo == 0 && row->hi == 8);
        assert_memory_equal(row->pos, want, sizeof want);
        assert_true(p.inputs[0][r * COLS + 5] == 10 * (float)r + 5);
    }
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(p.order[i], i);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p.seqs[i].n_rows, 8);
        assert_int_equal(p.seqs[i].n_embeds, 2);
    }
    arena_deinit(&a);
}

/* Files of MLX have kernels with the channels innermost. */
static void columns_follow_the_kernel(void **state) {
    (void)state;
    static const float WANT[COLS] = {0, 2, 4, 1, 3, 5};
    Arena a = {0};
    MediaPlan p;
    QwenTower t = tower();
    t.channels_last = true;
    plan_well(&t, false, (const int64_t[]){1, 2, 2}, &a, &p);
    assert_memory_equal(p.inputs[0], WANT, sizeof WANT);
    arena_deinit(&a);
}

/* 2 x 4 patches over a square of 3 x 3: corners on corners. */
static void places_lie_between_the_learned_ones(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p;
    QwenTower t = tower();
    t.side = 3;
    plan_well(&t, false, (const int64_t[]){1, 2, 4}, &a, &p);
    for (uint32_t r = 0; r < 8; r++) {
        const float *pick = p.inputs[1] + r * 8, *weight = pick + 4;
        double y = 0, x = 0, sum = 0;
        for (int i = 0; i < 4; i++) {
            assert_true(pick[i] >= 0 && pick[i] < 9);
            y += (double)weight[i] * (int)(pick[i] / 3);
            x += (double)weight[i] * ((int)pick[i] % 3);
            sum += (double)weight[i];
        }
        assert_float_equal(sum, 1, 1e-6);
        assert_float_equal(y, p.rows[r].pos[0] * 2, 1e-6);
        assert_float_equal(x, p.rows[r].pos[1] * 2 / 3.0, 1e-6);
    }
    /* of one line only the first line of places counts */
    t.grid.merge = 1;
    plan_well(&t, false, (const int64_t[]){1, 1, 1}, &a, &p);
    assert_true(p.inputs[1][0] == 0 && p.inputs[1][4] == 1);
    arena_deinit(&a);
}

static bool plan_some(Arena *a, MediaPlan *p, Err *err) {
    QwenTower t = tower();
    t.side = 3;
    return plan(&t, true, (const int64_t[]){2, 4, 2}, a, p, err);
}

static void memory_may_end(void **state) {
    (void)state;
    plan_memory_may_end(plan_some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_smaller_at_the_edges),
        cmocka_unit_test(frames_are_sequences),
        cmocka_unit_test(columns_follow_the_kernel),
        cmocka_unit_test(places_lie_between_the_learned_ones),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests_name("qwen_tower", tests, NULL, NULL);
}
