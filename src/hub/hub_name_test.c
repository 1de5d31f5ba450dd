/* Names of models and files: what is accepted, what never becomes a path; patterns; the choice of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "hub/hub_choose.h"
#include "hub/hub_glob.h"
#include "hub/hub_http.h"
#include "hub/hub_name.h"

static void names(void **state) {
    static const char *const BAD[] = {
        "",     "/",    "a/",   "/a",       "a/b/c", "..",   "../a", "a/..",   "a b",    "a--b/c",
        "a/b:", "a/b@", ".a/b", "a/b@../x", "a/b:/", "a\nb", "-a/b", "a/b..c", "a/b@x y"};
    HubName n;
    Err err;
    (void)state;
    assert_true(hub_name_parse(STR("own.er/na_me-1@refs/pr/1:Q4_K_M"), &n, &err));
    assert_true(str_eqc(n.owner, "own.er") && str_eqc(n.name, "na_me-1"));
    assert_true(str_eqc(n.revision, "refs/pr/1") && str_eqc(n.quant, "Q4_K_M"));
    assert_true(hub_name_parse(STR("bare"), &n, &err) && !n.owner.n && str_eqc(n.name, "bare"));
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        if (hub_name_parse(str_c(BAD[i]), &n, &err)) fail_msg("accepted: %s", BAD[i]);
    assert_false(hub_name_parse((Str){"a\0b", 3}, &n, &err));
}

static void folders(void **state) {
    Arena a = {0};
    HubName n = {.owner = STR("o"), .name = STR("m-x")}, back;
    (void)state;
    Str folder = hub_name_folder(&n, &a);
    assert_true(str_eqc(folder, "models--o--m-x"));
    assert_true(hub_folder_name(folder, &back) && str_eq(back.owner, n.owner) &&
                str_eq(back.name, n.name));
    assert_false(hub_folder_name(STR("datasets--o--m"), &back));
    assert_false(hub_folder_name(STR("models--o--../x"), &back));
    arena_deinit(&a);
}

static void files(void **state) {
    static const char *const BAD[] = {"",
                                      "/etc/passwd",
                                      "../a",
                                      "a/../b",
                                      "a/..",
                                      "a//b",
                                      "a/",
                                      "./a",
                                      "a\\..\\b",
                                      "\\a",
                                      "a\tb",
                                      "a\x7f"
                                      "b",
                                      "\xff\xfe"};
    char large[300];
    (void)state;
    assert_true(hub_file_check(STR("a b/c%.json"), NULL));
    assert_true(hub_file_check(STR("..a/b.."), NULL));
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        if (hub_file_check(str_c(BAD[i]), NULL)) fail_msg("accepted: %s", BAD[i]);
    assert_false(hub_file_check((Str){"a\0.json", 7}, NULL));
    for (size_t i = 0; i < sizeof large; i++) large[i] = 'x';
    assert_false(hub_file_check((Str){large, sizeof large}, NULL));
}

static void globs(void **state) {
    (void)state;
    assert_true(hub_glob(STR("*.json"), STR("sub/a.json")));
    assert_false(hub_glob(STR("*.json"), STR("a.jsonl")));
    assert_true(hub_glob(STR("model-?0[0-9].*"), STR("model-x07.bin")));
    assert_false(hub_glob(STR("[!a]*"), STR("abc")));
    assert_true(hub_glob(STR("[]x]"), STR("]")));
    assert_true(hub_glob(STR("[a"), STR("[a")));
    assert_true(hub_glob(STR("sub/"), STR("sub/deep/x")));
    assert_true(hub_glob(STR("*a*b*c"), STR("xxaxxbxxc")) &&
                !hub_glob(STR("*a*b*c"), STR("xxaxxbxx")));
    assert_true(hub_glob(STR("**"), STR("")) && !hub_glob(STR("?"), STR("")));
}

static bool picked(Str quant, const char *want) {
    static const char *const ALL[] = {"mmproj-F16.gguf",
                                      "m-BF16.gguf",
                                      "m-IQ4_NL.gguf",
                                      "m-Q4_K_M-00001-of-00002.gguf",
                                      "m-Q4_K_M-00002-of-00002.gguf",
                                      "m-Q4_K_S.gguf",
                                      "q8/m.Q8_0.gguf"};
    enum { N = sizeof ALL / sizeof *ALL };
    Str list[N];
    size_t best;
    for (size_t i = 0; i < N; i++) list[i] = str_c(ALL[i]);
    return hub_gguf_pick(list, N, quant, &best) ? want && str_eqc(list[best], want) : !want;
}

static void quants(void **state) {
    (void)state;
    assert_true(picked(STR_NONE, "m-Q4_K_M-00001-of-00002.gguf"));
    assert_true(picked(STR("q8_0"), "q8/m.Q8_0.gguf"));
    assert_true(picked(STR("Q4_K"), "m-Q4_K_M-00001-of-00002.gguf")); /* no exact one */
    assert_true(picked(STR("F16"), NULL)); /* not BF16, not the projector */
    assert_true(picked(STR("Q4_NL"), NULL));
    assert_true(hub_gguf_same(STR("m-00001-of-00002.gguf"), STR("m-00002-of-00002.gguf")));
    assert_false(hub_gguf_same(STR("m-00001-of-00002.gguf"), STR("n-00002-of-00002.gguf")));
}

static size_t chosen(HubFile *f, size_t n, const HubRule *rule) {
    Arena a = {0};
    size_t count = 0;
    if (hub_choose(f, n, rule, &a, NULL))
        for (size_t i = 0; i < n; i++) count += f[i].chosen;
    arena_deinit(&a);
    return count;
}

static void choices(void **state) {
    HubFile f[] = {{.path = STR("config.json")}, {.path = STR("model-00001-of-00001.safetensors")},
                   {.path = STR("x.py")},        {.path = STR("consolidated.safetensors")},
                   {.path = STR("model.bin")},   {.path = STR("onnx/model.json")},
                   {.path = STR("m-Q8_0.gguf")}};
    enum { N = sizeof f / sizeof *f };
    const char *py[] = {"*.py"}, *all[] = {"*"};
    (void)state;
    assert_int_equal(chosen(f, N, &(HubRule){0}), 2);
    assert_true(f[0].chosen && f[1].chosen);
    assert_int_equal(chosen(f, N, &(HubRule){.quant = STR("Q8_0")}), 1);
    assert_int_equal(chosen(f, N, &(HubRule){.include = py, .n_include = 1}), 1);
    assert_int_equal(chosen(f, N, &(HubRule){.exclude = all, .n_exclude = 1}), 0);
}

static void headers(void **state) {
    HubHead h = {.linked_size = UINT64_MAX};
    (void)state;
    hub_head_line(&h, STR("HTTP/1.1 302 Found\r\n"));
    hub_head_line(&h, STR("X-Linked-Etag: W/\"abc\"\r\n"));
    hub_head_line(&h, STR("x-linked-size: 77\r\n"));
    hub_head_line(&h, STR("HTTP/2 206\r\n"));
    hub_head_line(&h, STR("Content-Range: bytes 5-9/77\r\n"));
    hub_head_line(&h, STR("Retry-After: 99999999\r\n"));
    assert_int_equal(h.status, 206);
    assert_string_equal(h.linked_etag, "abc");
    assert_true(h.linked_size == 77 && h.from == 5 && h.retry_after_s == 3600);
    hub_head_line(&h, STR("HTTP/"));
    assert_true(h.status == 0 && h.from == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names),  cmocka_unit_test(folders),
                                       cmocka_unit_test(files),  cmocka_unit_test(globs),
                                       cmocka_unit_test(quants), cmocka_unit_test(choices),
                                       cmocka_unit_test(headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
