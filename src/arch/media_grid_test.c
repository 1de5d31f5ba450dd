/* Images and videos of a request beside its prompt: which placeholders are whose, rope coordinates
 * worked out by hand from the papers' rule, and everything that does not fit together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/media_grid.h"

enum { IMAGE = 250, VIDEO = 251, COLS = 2, MAX_ROWS = 128, MAX_TOKENS = 64 };

typedef struct Request {
    MediaTensor inputs[5];
    size_t n;
    bool used[5];
    float pixels[2][MAX_ROWS * COLS];
    uint32_t tokens[MAX_TOKENS];
    uint32_t n_tokens;
} Request;

static const MediaGridRules RULES = {
    .image_token = IMAGE, .video_token = VIDEO, .cols = COLS, .merge = 2};

static void put(Request *r, const char *name, MediaType type, uint64_t rows, uint64_t cols,
                const void *data) {
    r->inputs[r->n++] = (MediaTensor){name, type, cols ? 2 : 1, {rows, cols}, data};
}

/* Row i of images has i in it, row i of videos 1000 + i. */
static void images(Request *r, uint64_t rows, const int64_t *grid, uint64_t n) {
    for (size_t i = 0; i < MAX_ROWS * COLS; i++) r->pixels[0][i] = (float)(i / COLS);
    put(r, "pixel_values", MEDIA_F32, rows, COLS, r->pixels[0]);
    put(r, "image_grid_thw", MEDIA_I64, n, 3, grid);
}

static void videos(Request *r, uint64_t rows, const int64_t *grid, uint64_t n) {
    for (size_t i = 0; i < MAX_ROWS * COLS; i++) r->pixels[1][i] = (float)(1000 + i / COLS);
    put(r, "pixel_values_videos", MEDIA_F32, rows, COLS, r->pixels[1]);
    put(r, "video_grid_thw", MEDIA_I64, n, 3, grid);
}

static void say(Request *r, uint32_t token, uint32_t times) {
    while (times--) r->tokens[r->n_tokens++] = token;
}

static bool read(const MediaGridRules *rules, Request *r, Arena *a, MediaGrid *g, Err *err) {
    const MediaAsk ask = {r->inputs, r->n, r->tokens, r->n_tokens, r->used};
    return media_grid_read(rules, &ask, a, g, err);
}

static void read_well(const MediaGridRules *rules, Request *r, Arena *a, MediaGrid *g) {
    Err err = {0};
    if (!read(rules, r, a, g, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < r->n; i++) assert_true(r->used[i]);
}

static void assert_item(const MediaGridItem *it, uint32_t token, uint32_t t, uint32_t h, uint32_t w,
                        float first) {
    assert_int_equal(it->token, token);
    assert_int_equal(it->t, t);
    assert_int_equal(it->h, h);
    assert_int_equal(it->w, w);
    assert_true(it->patches[0] == first);
}

/* Two images and a video between them; items come in the order of the prompt. */
static void items_follow_the_prompt(void **state) {
    (void)state;
    static const int64_t TWO[] = {1, 2, 4, 1, 2, 2}, ONE[] = {2, 2, 2};
    Arena a = {0};
    MediaGrid g;
    Request r = {0};
    images(&r, 12, TWO, 2);
    videos(&r, 8, ONE, 1);
    say(&r, 1, 3), say(&r, IMAGE, 2), say(&r, 2, 1), say(&r, VIDEO, 2), say(&r, IMAGE, 1);
    read_well(&RULES, &r, &a, &g);
    assert_int_equal(g.n, 3);
    assert_item(&g.items[0], 3, 1, 2, 4, 0);
    assert_item(&g.items[1], 6, 2, 2, 2, 1000);
    assert_item(&g.items[2], 8, 1, 2, 2, 8);
    assert_int_equal(g.n_frames, 4);
    assert_int_equal(g.n_rows, 20);
    assert_int_equal(g.n_embeds, 5);
    arena_deinit(&a);
}

/* Where text stands between a video's frames each of them is an item. */
static void frames_may_stand_apart(void **state) {
    (void)state;
    static const int64_t GRIDS[] = {2, 2, 4, 1, 2, 2};
    Arena a = {0};
    MediaGrid g;
    Request r = {0};
    MediaGridRules rules = RULES;
    rules.frames_apart = true;
    videos(&r, 20, GRIDS, 2);
    for (int i = 0; i < 2; i++) say(&r, 5, 1), say(&r, VIDEO, 2);
    say(&r, 5, 1), say(&r, VIDEO, 1);
    read_well(&rules, &r, &a, &g);
    assert_int_equal(g.n, 3);
    assert_item(&g.items[0], 1, 1, 2, 4, 1000);
    assert_item(&g.items[1], 4, 1, 2, 4, 1008);
    assert_item(&g.items[2], 7, 1, 2, 2, 1016);
    arena_deinit(&a);
}

static void assert_pos(const MediaPlan *p, uint32_t i, int32_t t, int32_t y, int32_t x) {
    const int32_t want[4] = {t, y, x, t};
    assert_memory_equal(p->pos[i], want, sizeof want);
}

/* Text, an image of 2 x 3 blocks, text, a video of two frames of 1 x 2 blocks, text. */
static void coordinates_with_seconds(float seconds, MediaPlan *p, Arena *a) {
    static const int64_t ONE[] = {1, 4, 6}, FILM[] = {2, 2, 4};
    MediaGrid g;
    Err err = {0};
    Request r = {0};
    MediaGridRules rules = RULES;
    rules.tokens_per_second = 4;
    images(&r, 24, ONE, 1);
    videos(&r, 16, FILM, 1);
    if (seconds >= 0) put(&r, "second_per_grid_ts", MEDIA_F32, 1, 0, &seconds);
    say(&r, 1, 2), say(&r, IMAGE, 6), say(&r, 1, 1), say(&r, VIDEO, 4), say(&r, 1, 1);
    read_well(&rules, &r, a, &g);
    if (!media_grid_positions(&g, 2, r.n_tokens, a, p, &err)) fail_msg("%s", err.msg);
}

static void coordinates_go_on_behind_the_longer_side(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p = {0};
    coordinates_with_seconds(0.7F, &p, &a); /* 2.8 steps of time, cut to whole ones */
    for (int32_t i = 0; i < 2; i++) assert_pos(&p, (uint32_t)i, i, i, i);
    for (int32_t i = 0; i < 6; i++) assert_pos(&p, 2 + (uint32_t)i, 2, 2 + i / 3, 2 + i % 3);
    assert_pos(&p, 8, 5, 5, 5);
    for (int32_t i = 0; i < 4; i++) assert_pos(&p, 9 + (uint32_t)i, 6 + i / 2 * 2, 6, 6 + i % 2);
    assert_pos(&p, 13, 8, 8, 8);
    assert_int_equal(p.delta, 9 - 14);
    arena_deinit(&a);
}

/* What is generated comes behind the largest coordinate, even if that is a frame's. */
static void time_may_run_ahead_of_the_text(void **state) {
    (void)state;
    Arena a = {0};
    MediaPlan p = {0};
    coordinates_with_seconds(10, &p, &a);
    assert_pos(&p, 12, 6 + 40, 6, 7);
    assert_pos(&p, 13, 8, 8, 8);
    assert_int_equal(p.delta, 47 - 14);
    coordinates_with_seconds(-1, &p, &a); /* not given: a second a frame */
    assert_pos(&p, 12, 6 + 4, 6, 7);
    arena_deinit(&a);
}

static void assert_refused(const MediaGridRules *rules, Request *r, const char *part) {
    Arena a = {0};
    MediaGrid g;
    Err err = {0};
    assert_false(read(rules, r, &a, &g, &err));
    if (!strstr(err.msg, part)) fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
    assert_true(err.kind == ERR_INPUT || err.kind == ERR_LIMIT);
    arena_deinit(&a);
}

static void grids_that_are_none_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t grid[3];
        uint64_t rows;
        const char *says;
    } CASES[] = {
        {{0, 2, 2}, 4, "0 x 2 x 2"},
        {{1, -2, 2}, 4, "1 x -2 x 2"},
        {{1, 2, INT64_MAX}, 4, "1 to 65536"},
        {{65536, 65536, 65536}, 4, "more patches than pixel_values has rows"},
        {{1, 3, 2}, 6, "multiples of 2"},
        {{1, 2, 5}, 10, "multiples of 2"},
        {{1, 2, 4}, 4, "more patches than"},
        {{1, 2, 2}, 6, "2 rows more than image_grid_thw"},
        {{1, 2, 2}, 1 << 25, "at most 16777216"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Request r = {0};
        images(&r, CASES[i].rows, CASES[i].grid, 1);
        say(&r, IMAGE, 8);
        assert_refused(&RULES, &r, CASES[i].says);
    }
}

static void tensors_of_other_shapes_are_refused(void **state) {
    (void)state;
    static const int64_t GRID[] = {1, 2, 2};
    Request r = {0};
    say(&r, IMAGE, 1);
    assert_refused(&RULES, &r, "pixel_values or pixel_values_videos is missing");
    put(&r, "image_grid_thw", MEDIA_I64, 1, 3, GRID);
    assert_refused(&RULES, &r, "input pixel_values is missing");
    put(&r, "pixel_values", MEDIA_F32, 4, COLS + 1, r.pixels[0]);
    assert_refused(&RULES, &r, "pixel_values has 3 columns, 2 are accepted");
    r.inputs[1].dims[1] = COLS;
    r.inputs[0].dims[1] = 2;
    assert_refused(&RULES, &r, "[1, 2], [1 to 65536, 3] is accepted");
    r.inputs[0].dims[0] = 0, r.inputs[0].dims[1] = 3;
    assert_refused(&RULES, &r, "[0, 3]");
    r.inputs[0].type = MEDIA_F32;
    assert_refused(&RULES, &r, "image_grid_thw");
    r.inputs[0] = r.inputs[1], r.n = 1;
    assert_refused(&RULES, &r, "image_grid_thw is missing");
}

static void prompts_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const int64_t GRIDS[] = {1, 2, 4, 1, 2, 2};
    Request r = {0};
    images(&r, 12, GRIDS, 2);
    say(&r, 1, 1), say(&r, IMAGE, 1), say(&r, 1, 1), say(&r, IMAGE, 1);
    assert_refused(&RULES, &r, "image 0 needs 2 placeholders (token 250), the prompt has 1");
    r.n_tokens = 0;
    say(&r, 1, 1), say(&r, IMAGE, 2), say(&r, 1, 1);
    assert_refused(&RULES, &r, "2 images, the prompt has placeholders (token 250) for 1");
    say(&r, IMAGE, 2);
    assert_refused(&RULES, &r, "token 5 is a placeholder (250), and no image is left");
    r.n_tokens = 0;
    say(&r, IMAGE, 3), say(&r, VIDEO, 1);
    assert_refused(&RULES, &r, "token 3 is a placeholder (251), and no video is left");
}

static void seconds_that_are_none_are_refused(void **state) {
    (void)state;
    static const int64_t GRID[] = {2, 2, 2};
    static const float BAD[] = {-1, NAN, INFINITY, 1e30F};
    MediaGridRules rules = RULES;
    rules.tokens_per_second = 2;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Request r = {0};
        videos(&r, 8, GRID, 1);
        say(&r, VIDEO, 2);
        put(&r, "second_per_grid_ts", MEDIA_F32, 1, 0, &BAD[i]);
        assert_refused(&rules, &r, "second_per_grid_ts is");
        r.inputs[r.n - 1].dims[0] = 2;
        assert_refused(&rules, &r, "second_per_grid_ts has 2 numbers for 1 videos");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_follow_the_prompt),
        cmocka_unit_test(frames_may_stand_apart),
        cmocka_unit_test(coordinates_go_on_behind_the_longer_side),
        cmocka_unit_test(time_may_run_ahead_of_the_text),
        cmocka_unit_test(grids_that_are_none_are_refused),
        cmocka_unit_test(tensors_of_other_shapes_are_refused),
        cmocka_unit_test(prompts_that_do_not_fit_are_refused),
        cmocka_unit_test(seconds_that_are_none_are_refused),
    };
    return cmocka_run_group_tests_name("media_grid", tests, NULL, NULL);
}
