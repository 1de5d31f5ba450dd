/* What a config says of rope: kinds under their names old and new, shares of a head, sections of
 * pairs that follow several coordinates, in config.json and in GGUF keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "ckpt/ckpt_fixture.h"

static char dir[] = "/tmp/mlxcel_rope_config_XXXXXX";

static bool read_json(Arena *a, const char *text, uint32_t head_dim, RopeSpec *out, Err *err) {
    Json *doc;
    if (!json_parse(str_c(text), &(JsonOptions){0}, a, &doc, err)) fail_msg("%s", err->msg);
    Config c = {.json = doc};
    return rope_config_read(&c, a, head_dim, 10000, 1, out, err);
}

static RopeSpec spec_of(Arena *a, const char *text, uint32_t head_dim) {
    RopeSpec s;
    Err err = {0};
    if (!read_json(a, text, head_dim, &s, &err)) fail_msg("%s: %s", text, err.msg);
    return s;
}

static void assert_sections(const RopeSpec *s, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    const uint32_t want[4] = {x, y, z, w};
    assert_memory_equal(s->sections, want, sizeof want);
}

static void text_models_have_one_coordinate(void **state) {
    (void)state;
    Arena a = {0};
    RopeSpec s = spec_of(&a, "{\"rope_theta\":5e5}", 64);
    assert_true(s.kind == ROPE_PLAIN && s.theta == 5e5 && s.rot_dim == 64);
    assert_sections(&s, 0, 0, 0, 0);
    s = spec_of(&a,
                "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e7,"
                "\"partial_rotary_factor\":0.25}}",
                64);
    assert_true(s.kind == ROPE_PLAIN && s.theta == 1e7 && s.rot_dim == 16);
    assert_sections(&s, 0, 0, 0, 0);
    assert_false(s.sections_interleaved);
    arena_deinit(&a);
}

/* Local and global layers with a section each; without them the older keys hold. */
static void kinds_of_layers_have_sections(void **state) {
    (void)state;
    static const char TEXT[] =
        "{\"rope_theta\":7,\"rope_parameters\":{"
        "\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8.0,\"rope_theta\":1e6},"
        "\"sliding_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.25,"
        "\"rope_theta\":1e4}}}";
    Arena a = {0};
    Json *doc;
    Err err = {0};
    RopeSpec s = spec_of(&a, TEXT, 32);
    assert_true(s.kind == ROPE_LINEAR && s.factor == 8 && s.theta == 1e6 && s.rot_dim == 32);
    assert_true(json_parse(str_c(TEXT), &(JsonOptions){0}, &a, &doc, &err));
    Config c = {.json = doc};
    assert_true(rope_config_has_kinds(&c));
    if (!rope_config_kind(&c, &a, "sliding_attention", 32, 5, 1, &s, &err)) fail_msg("%s", err.msg);
    assert_true(s.kind == ROPE_PLAIN && s.theta == 1e4 && s.rot_dim == 32);
    for (int i = 0; i < 16; i++) /* four of sixteen pairs turn */
        assert_true(i < 4 ? s.short_factor[i] == 1 : isinf(s.short_factor[i]));
    assert_true(json_parse(STR("{\"rope_theta\":7}"), &(JsonOptions){0}, &a, &doc, &err));
    c.json = doc;
    assert_false(rope_config_has_kinds(&c));
    arena_deinit(&a);
}

static void sections_go_with_every_kind(void **state) {
    (void)state;
    Arena a = {0};
    RopeSpec s = spec_of(&a,
                         "{\"rope_theta\":1e6,\"rope_scaling\":"
                         "{\"type\":\"mrope\",\"mrope_section\":[16,24,24]}}",
                         128);
    assert_true(s.kind == ROPE_PLAIN && s.theta == 1e6 && !s.sections_interleaved);
    assert_sections(&s, 16, 24, 24, 0);
    s = spec_of(&a,
                "{\"rope_scaling\":{\"type\":\"mrope\",\"rope_type\":\"default\","
                "\"mrope_section\":[2,1,0,1]}}",
                8);
    assert_sections(&s, 2, 1, 0, 1);
    s = spec_of(&a,
                "{\"max_position_embeddings\":128,\"rope_scaling\":{\"type\":\"yarn\","
                "\"factor\":4,\"original_max_position_embeddings\":32,"
                "\"mrope_section\":[2,3,3]}}",
                16);
    assert_true(s.kind == ROPE_YARN && s.factor == 4);
    assert_sections(&s, 2, 3, 3, 0);
    arena_deinit(&a);
}

static void interleaved_sections_need_not_add_up(void **state) {
    (void)state;
    Arena a = {0};
    RopeSpec s = spec_of(&a,
                         "{\"rope_parameters\":{\"rope_type\":\"default\",\"mrope_interleaved\":"
                         "true,\"mrope_section\":[11,11,10],\"partial_rotary_factor\":0.25}}",
                         64);
    assert_true(s.sections_interleaved && s.rot_dim == 16);
    assert_sections(&s, 11, 11, 10, 0);
    arena_deinit(&a);
}

static void assert_refused(const char *text, const char *why) {
    Arena a = {0};
    RopeSpec s;
    Err err = {0};
    assert_false(read_json(&a, text, 16, &s, &err));
    assert_string_equal(err.msg, why);
    arena_deinit(&a);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    assert_refused("{\"rope_scaling\":{\"type\":\"mrope\"}}",
                   "rope_scaling of type \"mrope\" has no mrope_section");
    assert_refused("{\"rope_scaling\":{\"mrope_section\":[4,4]}}",
                   "mrope_section has 2 numbers, 3 or 4 are needed");
    assert_refused("{\"rope_scaling\":{\"mrope_section\":[4,4,-1]}}",
                   "mrope_section[2] is -1, an integer from 0 to 512 is needed");
    assert_refused("{\"rope_scaling\":{\"mrope_section\":[4,4,4]}}",
                   "mrope_section adds up to 12 pairs of columns, rope turns 8");
    assert_refused("{\"rope_scaling\":{\"mrope_section\":[4,4,\"x\"]}}",
                   "config: mrope_section[2] is \"x\", an integer is needed");
    assert_refused(
        "{\"rope_scaling\":{\"type\":\"spiral\"}}",
        "rope_scaling type \"spiral\"; default, linear, dynamic, yarn, llama3, longrope, "
        "mrope and proportional are accepted");
}

/* Sections of a GGUF, with or without rope scaling beside them; all zero is none. */
static void gguf_sections(void **state) {
    (void)state;
    static const int32_t LISTS[2][4] = {{2, 3, 3, 0}, {0, 0, 0, 0}};
    for (int i = 0; i < 4; i++) {
        const int32_t *list = LISTS[i % 2];
        GgufFixture f = {0};
        Gguf *g = NULL;
        Arena a = {0};
        RopeSpec s;
        Err err = {0};
        fx_key_array(&f, "x.rope.dimension_sections", GGUF_I32, 4, list, sizeof LISTS[0]);
        if (i >= 2) fx_key_f32(&f, "x.rope.scale_linear", 4);
        assert_true(fx_gguf_write(&f, fx_path(dir, "a.gguf")) &&
                    gguf_open(fx_path(dir, "a.gguf"), &g, NULL));
        Config c = {.gguf = g, .model_type = STR("x")};
        if (!rope_config_read(&c, &a, 16, 10000, 1, &s, &err)) fail_msg("%s", err.msg);
        assert_true(s.kind == (i >= 2 ? ROPE_LINEAR : ROPE_PLAIN));
        assert_sections(&s, (uint32_t)list[0], (uint32_t)list[1], (uint32_t)list[2],
                        (uint32_t)list[3]);
        gguf_close(g);
        arena_deinit(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_models_have_one_coordinate),
        cmocka_unit_test(kinds_of_layers_have_sections),
        cmocka_unit_test(sections_go_with_every_kind),
        cmocka_unit_test(interleaved_sections_need_not_add_up),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(gguf_sections),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests_name("rope_config", tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
