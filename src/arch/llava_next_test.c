/* What a request comes to for LLaVA-NeXT: the view of the whole, then lines of the tiles' picture with
 * a row behind each; filled-up tiles; sizes and shapes that are none; memory that ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/llava.h"
#include "arch/plan_memory.inc.h"

extern const ArchMedia MEDIA_LLAVA_NEXT;

/* Tiles of 2 x 2 patches of one pixel; one class row. */
enum { SIDE = 2, AREA = SIDE * SIDE, ROWS = AREA + 1, TILES = 5, IMAGES = 2 };

static const float NEWLINE[1] = {-7};

static LlavaNext model(void) {
    static const TileSize SIZES[] = {{1, 2}, {2, 1}, {2, 2}};
    return (LlavaNext){.base = {.skip = 1,
                                .tower = {.image_size = SIDE,
                                          .side = SIDE,
                                          .has_class = true,
                                          .patches = {.channels = 1, .patch = 1, .block = 1}}},
                       .tiles = {.sizes = SIZES, .n = 3, .tile = SIDE, .side = SIDE},
                       .newline = NEWLINE};
}

static bool plan_of(const LlavaNext *l, const MediaTensor in[2], Arena *a, MediaPlan *out,
                    Err *err) {
    const ArchModel m = {.media_spec = l};
    bool used[2] = {false};
    *out = (MediaPlan){0};
    return MEDIA_LLAVA_NEXT.plan(&m, &(MediaAsk){in, 2, NULL, 0, used}, a, out, err);
}

/* Pixel i has the value i. */
static bool plan(const int64_t *sizes, uint64_t n, Arena *a, MediaPlan *out, Err *err) {
    static float pixels[IMAGES * TILES * AREA];
    const LlavaNext l = model();
    const MediaTensor in[2] = {{"pixel_values", MEDIA_F32, 5, {n, TILES, 1, SIDE, SIDE}, pixels},
                               {"image_sizes", MEDIA_I64, 2, {n, 2}, sizes}};
    for (int i = 0; i < IMAGES * TILES * AREA; i++) pixels[i] = (float)i;
    return plan_of(&l, in, a, out, err);
}

static void plan_well(const int64_t *sizes, uint64_t n, Arena *a, MediaPlan *out) {
    Err err = {0};
    if (!plan(sizes, n, a, out, &err)) fail_msg("%s", err.msg);
}

/* Two tiles side by side; tiles 3 and 4 of the tensor are not looked at. */
static void tiles_make_a_picture(void **state) {
    (void)state;
    /* the view; lines 0 and 1 of tiles 1 and 2, each with constant 0 behind all 3 * 4 rows */
    static const uint32_t ORDER[] = {0, 1, 2, 3, 4, 5, 8, 9, 12, 6, 7, 10, 11, 12};
    Arena a = {0};
    MediaPlan p;
    plan_well((const int64_t[]){2, 4}, 1, &a, &p);
    assert_int_equal(p.n_seqs, 1);
    assert_int_equal(p.n_rows, 3 * ROWS);
    assert_int_equal(p.n_out, 3 * AREA);
    assert_int_equal(p.n_embeds, 14);
    assert_int_equal(p.seqs[0].n_embeds, 14);
    assert_memory_equal(p.order, ORDER, sizeof ORDER);
    assert_true(p.constants == NEWLINE);
    for (uint32_t r = 0; r < p.n_rows; r++) {
        uint32_t tile = r / ROWS, in = r % ROWS;
        assert_int_equal(p.rows[r].slot, r);
        assert_true(p.rows[r].lo == tile * ROWS && p.rows[r].hi == (tile + 1) * ROWS);
        assert_int_equal(p.rows[r].source, in ? STEP_MEDIA_BIT : 0);
        assert_int_equal(p.rows[r].pos[0], in);
    }
    for (uint32_t i = 0; i < p.n_out; i++) {
        assert_int_equal(p.out_rows[i], i / AREA * ROWS + 1 + i % AREA);
        assert_true(p.inputs[0][i] == (float)i);
    }
    arena_deinit(&a);
}

/* Other sizes of the same tiles are another picture, and rows of the tower tell. */
static void pictures_are_told_apart(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan whole, same, cut;
    plan_well((const int64_t[]){4, 4}, 1, &a, &whole);
    plan_well((const int64_t[]){3, 4}, 1, &a, &same); /* a margin of half a line is none */
    assert_int_equal(whole.n_rows, 5 * ROWS);
    assert_int_equal(whole.n_embeds, 4 + 4 * 5);
    assert_int_equal(same.n_embeds, whole.n_embeds);
    assert_memory_equal(whole.rows, same.rows, whole.n_rows * sizeof *whole.rows);
    plan_well((const int64_t[]){2, 4}, 1, &a, &whole);
    plan_well((const int64_t[]){400, 1}, 1, &a, &cut);
    assert_int_equal(cut.n_rows, whole.n_rows);
    assert_int_equal(cut.n_embeds, 4 + 2); /* no column: the rows behind two lines only */
    assert_memory_equal(whole.rows, cut.rows, ROWS * sizeof *whole.rows);
    assert_true(whole.rows[ROWS + 1].pos[2] == 0 && cut.rows[ROWS + 1].pos[2] == -1);
    arena_deinit(&a);
}

/* The second image's rows are behind the first one's, and its pixels behind the first one's five
 * tiles. */
static void images_follow_one_another(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p;
    plan_well((const int64_t[]){2, 4, 4, 2}, 2, &a, &p);
    assert_int_equal(p.n_seqs, 2);
    assert_int_equal(p.n_rows, 6 * ROWS);
    assert_int_equal(p.n_embeds, 14 + 16);
    assert_int_equal(p.order[13], 24); /* behind the rows of both */
    assert_int_equal(p.order[14], 12);
    assert_int_equal(p.order[14 + 4], 16);
    assert_int_equal(p.order[14 + 6], 24);
    assert_true(p.inputs[0][12] == TILES * AREA);
    assert_int_equal(p.rows[3 * ROWS].slot, 0);
    assert_true(p.rows[4 * ROWS].lo == ROWS && p.rows[4 * ROWS].hi == 2 * ROWS);
    arena_deinit(&a);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    static const int64_t BAD[][2] = {{0, 4},         {4, 0},         {-1, 4},     {4, -1},
                                     {INT64_MAX, 4}, {INT64_MIN, 4}, {4, 1 << 21}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {.max_bytes = 1 << 20};
        Err err = {0};
        MediaPlan p;
        assert_false(plan(BAD[i], 1, &a, &p, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        assert_non_null(strstr(err.msg, "image_sizes[0]"));
        arena_deinit(&a);
    }
}

static void bad_shapes_are_refused(void **state) {
    (void)state;
    static const float NONE[1] = {0};
    static const int64_t SIZES[2] = {4, 4};
    static const struct {
        uint64_t pixels[5], sizes[2];
        const char *says;
    } BAD[] = {
        {{0, 5, 1, 2, 2}, {0, 2}, "pixel_values is [0"},
        {{1 << 20, 5, 1, 2, 2}, {1 << 20, 2}, "pixel_values is [1048576"},
        {{1, 5, 3, 2, 2}, {1, 2}, "[1, 5, 3, 2, 2]"},
        {{1, 5, 1, 3, 2}, {1, 2}, "[1, 5, 1, 3, 2]"},
        {{1, 5, 1, 2, 2}, {2, 2}, "image_sizes is [2, 2]"},
        {{1, 5, 1, 2, 2}, {1, 1}, "image_sizes is [1, 1]"},
        {{1, 4, 1, 2, 2}, {1, 2}, "pixel_values has 4 tiles"},
        {{1, 0, 1, 2, 2}, {1, 2}, "pixel_values has 0 tiles"},
    };
    const LlavaNext l = model();
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {.max_bytes = 1 << 20};
        Err err = {0};
        MediaPlan p;
        MediaTensor in[2] = {{"pixel_values", MEDIA_F32, 5, {0}, NONE},
                             {"image_sizes", MEDIA_I64, 2, {0}, SIZES}};
        memcpy(in[0].dims, BAD[i].pixels, sizeof BAD[i].pixels);
        memcpy(in[1].dims, BAD[i].sizes, sizeof BAD[i].sizes);
        assert_false(plan_of(&l, in, &a, &p, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        if (!strstr(err.msg, BAD[i].says)) fail_msg("\"%s\", not: %s", err.msg, BAD[i].says);
        arena_deinit(&a);
    }
}

static bool plan_some(Arena *a, MediaPlan *p, Err *err) {
    return plan((const int64_t[]){2, 4, 4, 2}, 2, a, p, err);
}

static void memory_may_end(void **state) {
    (void)state;
    plan_memory_may_end(plan_some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_make_a_picture),      cmocka_unit_test(pictures_are_told_apart),
        cmocka_unit_test(images_follow_one_another), cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(bad_shapes_are_refused),    cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests_name("llava_next", tests, NULL, NULL);
}
