/* What a request comes to for Pixtral's tower: blocks, what is less than a block, what fills a
 * sequence up; padding; sizes that are none; memory that ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/pixtral_tower.h"
#include "arch/plan_memory.inc.h"

enum {
    HEIGHT = 6,
    WIDTH = 8,
    IMAGES = 2,
    CHANNELS = 2,
    PIXELS = IMAGES * CHANNELS * HEIGHT * WIDTH
};

/* Patches of one pixel; a pixel's value says which it is: 100 * channel + 10 * y + x, and 1000 for
 * the second image. */
static PixtralTower tower(uint32_t merge) {
    return (PixtralTower){.merge = merge,
                          .patches = {.channels = CHANNELS, .patch = 1, .block = 1}};
}

static bool plan(const PixtralTower *t, const int64_t *sizes, uint64_t n, Arena *a, MediaPlan *out,
                 Err *err) {
    static float pixels[PIXELS];
    const MediaTensor in[2] = {{"pixel_values", MEDIA_F32, 4, {n, CHANNELS, HEIGHT, WIDTH}, pixels},
                               {"image_sizes", MEDIA_I64, 2, {n, 2}, sizes}};
    bool used[2] = {false};
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)(i / (PIXELS / IMAGES) * 1000 + i / (HEIGHT * WIDTH) % CHANNELS * 100 +
                            i / WIDTH % HEIGHT * 10 + i % WIDTH);
    *out = (MediaPlan){0};
    bool ok = pixtral_tower_plan(t, &(MediaAsk){in, sizes ? 2 : 1, NULL, 0, used}, a, out, err);
    if (ok) assert_true(used[0] && used[1] == (sizes != NULL));
    return ok;
}

static void plan_well(const PixtralTower *t, const int64_t *sizes, uint64_t n, Arena *a,
                      MediaPlan *out) {
    Err err = {0};
    if (!plan(t, sizes, n, a, out, &err)) fail_msg("%s", err.msg);
}

/* 3 x 5 of them: two blocks, then what is right of them and below, then a row that nobody sees. */
static void blocks_come_first(void **state) {
    (void)state;
    static const float WANT[15] = {0, 1, 10, 11, 2, 3, 12, 13, 4, 14, 20, 21, 22, 23, 24};
    Arena a = {0};
    MediaPlan p;
    PixtralTower t = tower(2);
    plan_well(&t, (const int64_t[]){3, 5}, 1, &a, &p);
    assert_int_equal(p.n_seqs, 1);
    assert_int_equal(p.n_rows, 16);
    assert_int_equal(p.n_embeds, 2);
    for (uint32_t r = 0; r < 16; r++) {
        assert_int_equal(p.rows[r].slot, r);
        assert_true(p.rows[r].lo == 0 && p.rows[r].hi == 15);
        assert_int_equal(p.rows[r].source, r < 15 ? STEP_MEDIA_BIT : 0);
        if (r == 15) continue;
        assert_true(p.inputs[0][2 * r] == WANT[r] && p.inputs[0][2 * r + 1] == WANT[r] + 100);
        assert_int_equal(p.rows[r].pos[0], (int)WANT[r] / 10);
        assert_int_equal(p.rows[r].pos[1], (int)WANT[r] % 10);
    }
    arena_deinit(&a);
}

/* The text model gets blocks only; those of the second image are counted behind the first one's
 * rows, which are more than its blocks. */
static void order_leaves_the_rest_out(void **state) {
    (void)state;
    static const uint32_t ORDER[] = {0, 1, 4, 5, 6};
    Arena a = {0};
    MediaPlan p;
    PixtralTower t = tower(2);
    plan_well(&t, (const int64_t[]){3, 5, 2, 7}, 2, &a, &p);
    assert_int_equal(p.n_rows, 32);
    assert_int_equal(p.n_embeds, 5);
    assert_memory_equal(p.order, ORDER, sizeof ORDER);
    assert_int_equal(p.seqs[0].n_embeds, 2);
    assert_int_equal(p.seqs[1].n_embeds, 3);
    assert_int_equal(p.seqs[1].n_rows, 16);
    assert_int_equal(p.rows[16].hi, 14);
    assert_true(p.inputs[0][15 * 2] == 1000);
    arena_deinit(&a);
}

/* One by one, and all of the tensor where nothing says how much of it is the image. */
static void rows_need_not_be_joined(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p;
    PixtralTower t = tower(1);
    plan_well(&t, NULL, 1, &a, &p);
    assert_int_equal(p.n_rows, HEIGHT * WIDTH);
    assert_int_equal(p.n_embeds, HEIGHT * WIDTH);
    for (uint32_t i = 0; i < p.n_embeds; i++) {
        assert_int_equal(p.order[i], i);
        assert_true(p.inputs[0][2 * i] == (float)(i / WIDTH * 10 + i % WIDTH));
    }
    arena_deinit(&a);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    static const int64_t BAD[][2] = {{0, 4}, {4, 0},         {1, 4},         {-2, 4},       {7, 4},
                                     {4, 9}, {INT64_MAX, 4}, {INT64_MIN, 4}, {4, 1LL << 33}};
    PixtralTower t = tower(2);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {.max_bytes = 1 << 20};
        Err err = {0};
        MediaPlan p;
        assert_false(plan(&t, BAD[i], 1, &a, &p, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        assert_non_null(strstr(err.msg, "image_sizes"));
        arena_deinit(&a);
    }
}

/* Dimensions that do not belong together; what is allocated before they are looked at is small. */
static void bad_shapes_are_refused(void **state) {
    (void)state;
    static const float NONE[1] = {0};
    static const int64_t SIZES[2] = {2, 2};
    static const struct {
        uint64_t pixels[4], sizes[2];
        ErrKind kind;
        const char *says;
    } BAD[] = {
        {{0, 2, 4, 4}, {0, 2}, ERR_INPUT, "pixel_values is [0"},
        {{5000, 2, 4, 4}, {5000, 2}, ERR_INPUT, "pixel_values is [5000"},
        {{1, 3, 4, 4}, {1, 2}, ERR_INPUT, "[1, 3, 4, 4]"},
        {{1, 2, 1 << 30, 4}, {1, 2}, ERR_INPUT, "1073741824"},
        {{1, 2, 4, 4}, {2, 2}, ERR_INPUT, "image_sizes is [2, 2]"},
        {{1, 2, 4, 4}, {1, 3}, ERR_INPUT, "image_sizes is [1, 3]"},
        {{1, 2, 4, 0}, {1, 2}, ERR_INPUT, "2 pixels wide"},
    };
    PixtralTower t = tower(2);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {.max_bytes = 1 << 20};
        Err err = {0};
        MediaPlan p = {0};
        MediaTensor in[2] = {{"pixel_values", MEDIA_F32, 4, {0}, NONE},
                             {"image_sizes", MEDIA_I64, 2, {0}, SIZES}};
        bool used[2];
        memcpy(in[0].dims, BAD[i].pixels, sizeof BAD[i].pixels);
        memcpy(in[1].dims, BAD[i].sizes, sizeof BAD[i].sizes);
        assert_false(pixtral_tower_plan(&t, &(MediaAsk){in, 2, NULL, 0, used}, &a, &p, &err));
        assert_int_equal(err.kind, BAD[i].kind);
        if (!strstr(err.msg, BAD[i].says)) fail_msg("\"%s\", not: %s", err.msg, BAD[i].says);
        arena_deinit(&a);
    }
    /* without image_sizes 2^14 x 2^14 patches are one image */
    Arena a = {.max_bytes = 1 << 20};
    Err err = {0};
    MediaPlan p = {0};
    bool used[1];
    const MediaTensor large = {"pixel_values", MEDIA_F32, 4, {1, 2, 1 << 14, 1 << 14}, NONE};
    assert_false(pixtral_tower_plan(&t, &(MediaAsk){&large, 1, NULL, 0, used}, &a, &p, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    arena_deinit(&a);
}

static bool plan_some(Arena *a, MediaPlan *p, Err *err) {
    PixtralTower t = tower(2);
    return plan(&t, (const int64_t[]){3, 5, 2, 7}, 2, a, p, err);
}

static void memory_may_end(void **state) {
    (void)state;
    plan_memory_may_end(plan_some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_first),       cmocka_unit_test(order_leaves_the_rest_out),
        cmocka_unit_test(rows_need_not_be_joined), cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(bad_shapes_are_refused),  cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests_name("pixtral_tower", tests, NULL, NULL);
}
