/* Patterns match as Python's re.match does, what is not understood is refused by name, and no
 * pattern takes for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/name_pattern.h"

static void matches_like_python(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool yes;
    } CASES[] = {
        {".*self_attn.(q|k|v)_proj$", "model.layers.3.self_attn.k_proj", true},
        {".*self_attn.(q|k|v)_proj$", "model.layers.3.self_attn.o_proj", false},
        {".*self_attn.(q|k|v)_proj$", "model.layers.3.self_attn.k_proj.lora", false},
        {"self_attn", "model.layers.0.self_attn", false}, /* from the start */
        {"model\\.layers\\.\\d+\\.mlp\\.", "model.layers.12.mlp.up_proj", true},
        {"model\\.layers\\.\\d+\\.mlp\\.", "model.layers.x.mlp.up_proj", false},
        {"^model\\.layers\\.(0|1[0-5]|2)\\.mlp", "model.layers.13.mlp", true},
        {"^model\\.layers\\.(0|1[0-5]|2)\\.mlp", "model.layers.16.mlp", false},
        {"(?!.*lm_head).*", "lm_head", false},
        {"(?!.*lm_head).*", "model.layers.0.mlp", true},
        {"(?=model).*mlp", "model.mlp", true},
        {"(?:a|b){2,3}c", "abac", true},
        {"(?:a|b){2,3}c", "ac", false},
        {"(?:a|b){2,3}c", "ababc", false},
        {"a{2}$", "aa", true},
        {"a{2}$", "aaa", false},
        {"a{2,}$", "aaaaa", true},
        {"a+?b", "aaab", true},
        {"[^.]+\\.weight$", "x.weight", true},
        {"[^.]+\\.weight$", "x.y.weight", false},
        {"[]a]+$", "]a]", true},
        {"[a-]$", "-", true},
        {"[\\w.]+$", "model.layers_0", true},
        {"\\Wx", ".x", true},
        {".*layers\\.1\\b", "m.layers.10", false},
        {".*layers\\.1\\b", "m.layers.1.mlp", true},
        {"", "anything", true},
        {"a||b", "zzz", true},
        {"(a*)*b", "aaab", true},
        {"(a|ab)(c|bcd)$", "abcd", true},
        {"x{y", "x{y", true}, /* no count */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Err err = {0};
        bool yes;
        if (!namepattern_match(str_c(CASES[i].pattern), str_c(CASES[i].name), &yes, &err))
            fail_msg("%s", err.msg);
        if (yes != CASES[i].yes) fail_msg("%s on %s: %d", CASES[i].pattern, CASES[i].name, yes);
    }
}

static void others_are_refused(void **state) {
    (void)state;
    static const char *const PATTERNS[] = {"(a",     "a)",        "[a",      "*a",
                                           "a**",    "(?P<x>a)",  "(?<=a)b", "\\1",
                                           "a{5,2}", "a{1,9999}", "[z-a]",   "a\\"};
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        Err err = {0};
        bool yes;
        if (namepattern_match(str_c(PATTERNS[i]), STR("aaa"), &yes, &err))
            fail_msg("%s is accepted", PATTERNS[i]);
        assert_int_equal(err.kind, ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, PATTERNS[i]));
    }
}

static void work_is_bounded(void **state) {
    (void)state;
    Err err = {0};
    bool yes;
    char name[201];
    memset(name, 'a', 200);
    name[200] = 0;
    assert_false(namepattern_match(STR("(a|a)*(a|a)*(a|a)*b"), str_c(name), &yes, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    char deep[400] = {0};
    memset(deep, '(', 200);
    memset(deep + 200, ')', 199);
    assert_false(namepattern_match(str_c(deep), STR("a"), &yes, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_like_python),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(work_is_bounded),
    };
    return cmocka_run_group_tests_name("name_pattern", tests, NULL, NULL);
}
