/* Grammars and schemas against the golden texts: every accepted text is accepted, every rejected
 * one rejected, every prefix stays alive, and what has to be refused is refused with a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/os.h"
#include "sample/grammar/grammar_run.h"
#include "sample/grammar/grammar_testkit.h"

static Arena arena;
static int n_checked, n_refused;

static void each_case(const char *path, void (*check)(const Json *c, Str id)) {
    Buf text = {0};
    Err err = {0};
    if (!os_read_file(path, (size_t)64 << 20, &text, &err)) fail_msg("%s", err.msg);
    Str rest = buf_str(&text), line;
    int n = 0;
    while (str_split(&rest, '\n', &line)) {
        Json *c;
        Str id;
        if (!line.n) continue;
        if (!json_parse(line, NULL, &arena, &c, &err)) fail_msg("%s: %s", path, err.msg);
        if (!json_str(json_get(c, "id"), &id)) continue; /* the meta line */
        check(c, id);
        n++;
    }
    assert_true(n > 0);
    buf_deinit(&text);
    arena_reset(&arena);
}

static bool case_compile(const Json *c, Grammar **g, Err *err) {
    const Json *schema = json_get(c, "schema"), *gbnf = json_get(c, "grammar"),
               *regex = json_get(c, "regex");
    if (schema) return grammar_compile_schema_tree(schema, NULL, g, err);
    return gbnf ? grammar_compile_gbnf(gbnf->text, NULL, g, err)
                : grammar_compile_regex(regex->text, NULL, g, err);
}

static void texts_check(Grammar *g, Str id, const Json *c, const char *field, bool want) {
    const Json *list = json_get(c, field);
    Err err = {0};
    for (size_t i = 0; list && i < list->n; i++, n_checked++) {
        bool got;
        if (!grammar_accepts(g, list->items[i].text, &got, &err))
            fail_msg("%.*s: %s", (int)id.n, id.p, err.msg);
        if (got != want)
            fail_msg("%.*s: %s %.*s is %s", (int)id.n, id.p, field, (int)list->items[i].text.n,
                     list->items[i].text.p, got ? "accepted" : "rejected");
    }
}

static void prefixes_check(Grammar *g, Str id, const Json *c) {
    const Json *list = json_get(c, "prefix");
    Err err = {0};
    for (size_t i = 0; list && i < list->n; i++, n_checked++) {
        bool alive;
        GrammarState *s = grammar_state_new(g, NULL, NULL, &err);
        assert_non_null(s);
        assert_true(grammar_state_accept_bytes(s, list->items[i].text, &alive, &err));
        if (!alive)
            fail_msg("%.*s: prefix %.*s is dead", (int)id.n, id.p, (int)list->items[i].text.n,
                     list->items[i].text.p);
        grammar_state_free(s);
    }
}

static void case_check(const Json *c, Str id) {
    static const char *const yes[] = {"accept", "valid", "valid_spaced", "valid_reordered",
                                      "valid_loose"};
    Grammar *g;
    Err err = {0};
    Str level = STR_NONE;
    json_str(json_get(c, "level"), &level);
    if (!case_compile(c, &g, &err)) {
        if (!str_eqc(level, "ext")) fail_msg("%.*s: %s", (int)id.n, id.p, err.msg);
        assert_true(err.msg[0] != 0);
        n_refused++;
        return;
    }
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) texts_check(g, id, c, yes[i], true);
    texts_check(g, id, c, "reject", false);
    texts_check(g, id, c, "invalid", false);
    prefixes_check(g, id, c);
    grammar_free(g);
}

static void refusal_check(const Json *c, Str id) {
    Grammar *g;
    Err err = {0};
    Str names = STR_NONE;
    if (case_compile(c, &g, &err)) fail_msg("%.*s is accepted", (int)id.n, id.p);
    assert_true(err.kind == ERR_INPUT || err.kind == ERR_UNSUPPORTED || err.kind == ERR_LIMIT);
    assert_true(err.msg[0] != 0);
    if (json_str(json_get(c, "names"), &names) && str_find(str_c(err.msg), names, 0) == STR_NPOS)
        fail_msg("%.*s: the message does not name %.*s: %s", (int)id.n, id.p, (int)names.n, names.p,
                 err.msg);
    n_checked++;
}

static void golden_texts(void **state) {
    (void)state;
    each_case("tests/data/grammar/schemas.jsonl", case_check);
    each_case("tests/data/grammar/gbnf.jsonl", case_check);
    each_case("tests/data/grammar/more.jsonl", case_check);
    assert_true(n_refused <= 2); /* back references cannot be enforced */
}

static void golden_refusals(void **state) {
    (void)state;
    each_case("tests/data/grammar/schemas_refused.jsonl", refusal_check);
    each_case("tests/data/grammar/gbnf_refused.jsonl", refusal_check);
    each_case("tests/data/grammar/more_refused.jsonl", refusal_check);
}

/* The full set, where it is at hand. */
static void golden_full_set(void **state) {
    (void)state;
    const char *dir = getenv("MLXCEL_GOLDEN");
    char path[600];
    if (!dir) return;
    static const struct {
        const char *name;
        void (*check)(const Json *c, Str id);
    } files[] = {{"schema/schemas.jsonl", case_check},
                 {"schema/refused.jsonl", refusal_check},
                 {"gbnf/cases.jsonl", case_check},
                 {"gbnf/refused.jsonl", refusal_check}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        if (os_is_file(path)) each_case(path, files[i].check);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_texts),
        cmocka_unit_test(golden_refusals),
        cmocka_unit_test(golden_full_set),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_deinit(&arena);
    return failed;
}
