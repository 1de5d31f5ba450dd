/* Which sizes images are cut into tiles of, and which part of the picture they are: worked out by hand
 * and by the rule in whole numbers; lists that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/tile_picture.h"
#include "base/mem.h"
#include "json/json.h"

static bool rules(const char *list, uint32_t tile, uint32_t side, Arena *a, TileRules *out,
                  Err *err) {
    char text[512];
    int n = snprintf(text, sizeof text, "{%s%s}", list ? "\"image_grid_pinpoints\": " : "",
                     list ? list : "");
    Json *json;
    return json_parse((Str){text, (size_t)n}, NULL, a, &json, err) &&
           tile_rules_read(out, &(Config){.json = json}, tile, side, a, err);
}

static void rules_well(const char *list, uint32_t tile, uint32_t side, Arena *a, TileRules *out) {
    Err err = {0};
    if (!rules(list, tile, side, a, out, &err)) fail_msg("%s", err.msg);
}

static void same(const TileRules *r, uint32_t height, uint32_t width, TilePicture want) {
    TilePicture p;
    tile_picture_find(r, height, width, &p);
    if (memcmp(&p, &want, sizeof p))
        fail_msg("%u x %u: %u x %u tiles, lines %u to %u, columns %u to %u", height, width, p.down,
                 p.across, p.top, p.bottom, p.left, p.right);
}

static void margins_are_cut_away(void **state) {
    (void)state;
    Arena a = {0};
    TileRules r;
    rules_well("[[20, 40], [40, 20], [40, 40]]", 20, 5, &a, &r);
    /* 12 * 10 / 40 = 3 of 5 lines */
    same(&r, 12, 40, (TilePicture){1, 2, 1, 4, 0, 10});
    same(&r, 40, 12, (TilePicture){2, 1, 0, 10, 1, 4});
    /* 2.5 lines are 2, the margin of 1.5 is 1 */
    same(&r, 10, 40, (TilePicture){1, 2, 1, 4, 0, 10});
    /* no line at all: of five the one in the middle stays, of ten none would */
    same(&r, 1, 400, (TilePicture){1, 2, 2, 3, 0, 10});
    same(&r, 40, 40, (TilePicture){2, 2, 0, 10, 0, 10});
    rules_well("[[40, 40]]", 20, 5, &a, &r);
    same(&r, 1, 400, (TilePicture){2, 2, 5, 5, 0, 10});
    arena_deinit(&a);
}

/* Most pixels kept, then fewest wasted, then the first in the list. */
static void sizes_are_chosen(void **state) {
    (void)state;
    Arena a = {0};
    TileRules r;
    rules_well(NULL, 168, 12, &a, &r);
    same(&r, 336, 672, (TilePicture){2, 4, 0, 24, 0, 48});
    rules_well(NULL, 336, 24, &a, &r);
    same(&r, 336, 672, (TilePicture){1, 2, 0, 24, 0, 48});
    same(&r, 100, 300, (TilePicture){1, 2, 4, 20, 0, 48}); /* 1 x 3 keep as much and waste more */
    same(&r, 672, 672, (TilePicture){2, 2, 0, 48, 0, 48});
    same(&r, 900, 300, (TilePicture){3, 1, 0, 72, 0, 24});
    same(&r, 100, 100, (TilePicture){1, 2, 0, 24, 12, 36}); /* all keep it whole: the first */
    arena_deinit(&a);
}

/* 154 * (80 / 154.0) is a little less than 80: the larger size loses a column of pixels, keeps no more
 * than the other one and wastes more. */
static void near_ties_are_decided_by_doubles(void **state) {
    (void)state;
    Arena a = {0};
    TileRules r;
    rules_well("[[80, 80], [60, 80]]", 20, 1, &a, &r);
    same(&r, 116, 154, (TilePicture){3, 4, 0, 3, 0, 4});
    arena_deinit(&a);
}

static void bad_lists_are_refused(void **state) {
    (void)state;
    static const char *const BAD[] = {"[]",
                                      "{}",
                                      "20",
                                      "\"x\"",
                                      "[20, 40]",
                                      "[[20]]",
                                      "[[20, 40, 20]]",
                                      "[[20, 0]]",
                                      "[[-20, 20]]",
                                      "[[20, 30]]",
                                      "[[20, 20.5]]",
                                      "[[20, \"20\"]]",
                                      "[[20, null]]",
                                      "[[20, 1300]]",
                                      "[[20, 20], []]",
                                      "[[20, 9223372036854775807]]",
                                      "[{\"0\": 20, \"1\": 20}]"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Arena a = {0};
        Err err = {0};
        TileRules r;
        if (rules(BAD[i], 20, 5, &a, &r, &err)) fail_msg("taken: %s", BAD[i]);
        assert_int_equal(err.kind, ERR_INPUT);
        assert_non_null(strstr(err.msg, "image_grid_pinpoints"));
        arena_deinit(&a);
    }
    Arena a = {0};
    Err err = {0};
    TileRules r;
    assert_false(rules(NULL, 20, 5, &a, &r, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margins_are_cut_away),
        cmocka_unit_test(sizes_are_chosen),
        cmocka_unit_test(near_ties_are_decided_by_doubles),
        cmocka_unit_test(bad_lists_are_refused),
    };
    return cmocka_run_group_tests_name("tile_picture", tests, NULL, NULL);
}
