/* Token masks: equal to trying every token, along random walks over many grammars; whatever a walk
 * over masks finishes is accepted, parses as JSON and can be rolled back; work per mask is
 * bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "sample/grammar/grammar_run.h"
#include "sample/grammar/grammar_testkit.h"

static TestVocab small, large;

static int vocabs_open(void **state) {
    (void)state;
    Err err = {0};
    return testvocab_init(&small, 3000, 3, &err) && testvocab_init(&large, 128000, 1, &err) ? 0
                                                                                            : -1;
}

static int vocabs_close(void **state) {
    (void)state;
    testvocab_deinit(&small);
    testvocab_deinit(&large);
    return 0;
}

static bool may_follow(GrammarState *s, uint32_t id) {
    Err err = {0};
    bool ok;
    if (!grammar_state_accept_token(s, id, &ok, &err)) fail_msg("%s", err.msg);
    if (ok && !grammar_state_rollback(s, 1, &err)) fail_msg("%s", err.msg);
    return ok;
}

static void mask_check(GrammarState *s, const TestVocab *v, const uint64_t *bits,
                       const char *name) {
    for (uint32_t id = 0; id < v->n; id++) {
        bool in = bits[id / 64] >> id % 64 & 1, ok = may_follow(s, id);
        if (in != ok)
            fail_msg("%s: token %u \"%.*s\" is %s the mask but %s", name, id, (int)v->tokens[id].n,
                     v->tokens[id].p, in ? "in" : "not in", ok ? "accepted" : "rejected");
    }
}

typedef struct Walk {
    const TestVocab *v;
    int check_every; /* masks compared with brute force; 0: none */
    int n_free;      /* random tokens before the walk heads for the end */
    bool finished;
    Buf text;
} Walk;

static void walk_run(Grammar *g, Walk *w, uint64_t *seed, const char *name) {
    Err err = {0};
    uint64_t *bits = mem_calloc(w->v->vocab->n_words, sizeof *bits);
    GrammarState *s = grammar_state_new(g, w->v->vocab, NULL, &err);
    assert_non_null(s);
    buf_clear(&w->text);
    w->finished = false;
    for (int i = 0; i < w->n_free + 3000 && !w->finished; i++) {
        bool ok;
        if (!grammar_state_mask(s, bits, &err)) fail_msg("%s: %s", name, err.msg);
        if (w->check_every && i % w->check_every == 0) mask_check(s, w->v, bits, name);
        uint32_t id = i < w->n_free ? testvocab_pick(w->v, bits, seed)
                                    : testvocab_pick_closing(w->v, bits, seed);
        if (id == UINT32_MAX)
            fail_msg("%s: nothing may follow \"%.*s\"", name, (int)w->text.n, w->text.p);
        if (!grammar_state_accept_token(s, id, &ok, &err)) fail_msg("%s: %s", name, err.msg);
        if (!ok)
            fail_msg("%s: a masked-in token is rejected behind \"%.*s\"", name, (int)w->text.n,
                     w->text.p);
        w->finished = id == w->v->eos;
        if (!w->finished) buf_put(&w->text, w->v->tokens[id]);
    }
    grammar_state_free(s);
    mem_free(bits);
}

typedef void GrammarFn(Grammar *g, const char *name, bool json);

static void each_grammar(const char *path, GrammarFn *fn) {
    Buf text = {0};
    Arena arena = {0};
    Err err = {0};
    if (!os_read_file(path, (size_t)64 << 20, &text, &err)) fail_msg("%s", err.msg);
    Str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        Json *c;
        Str id;
        Grammar *g;
        if (!line.n || !json_parse(line, NULL, &arena, &c, &err) ||
            !json_str(json_get(c, "id"), &id))
            continue;
        const Json *schema = json_get(c, "schema"), *gbnf = json_get(c, "grammar"),
                   *regex = json_get(c, "regex");
        bool ok = schema ? grammar_compile_schema_tree(schema, NULL, &g, &err)
                  : gbnf ? grammar_compile_gbnf(gbnf->text, NULL, &g, &err)
                         : grammar_compile_regex(regex->text, NULL, &g, &err);
        if (!ok) continue; /* what may be refused is grammar_golden_test's business */
        fn(g, arena_dupz(&arena, id), schema != NULL);
        grammar_free(g);
    }
    arena_deinit(&arena);
    buf_deinit(&text);
}

static void brute_force_one(Grammar *g, const char *name, bool json) {
    (void)json;
    static uint64_t seed = 11;
    Walk w = {.v = &small, .check_every = 3, .n_free = 12};
    walk_run(g, &w, &seed, name);
    buf_deinit(&w.text);
}

static void masks_equal_brute_force(void **state) {
    (void)state;
    each_grammar("tests/data/grammar/schemas.jsonl", brute_force_one);
    each_grammar("tests/data/grammar/gbnf.jsonl", brute_force_one);
    each_grammar("tests/data/grammar/more.jsonl", brute_force_one);
}

static int n_walks, n_finished;

static void finished_one(Grammar *g, const char *name, bool json) {
    static uint64_t seed = 5;
    Walk w = {.v = &large, .n_free = 60};
    Err err = {0};
    for (int i = 0; i < 6; i++) {
        bool accepted;
        w.n_free = i * 12;
        walk_run(g, &w, &seed, name);
        n_walks++;
        if (!w.finished) continue;
        n_finished++;
        assert_true(grammar_accepts(g, buf_str(&w.text), &accepted, &err));
        if (!accepted)
            fail_msg("%s: finished but not accepted: %.*s", name, (int)w.text.n, w.text.p);
        Arena arena = {0};
        Json *j;
        if (json &&
            !json_parse(buf_str(&w.text), &(JsonOptions){.dup = JSON_DUP_LAST}, &arena, &j, &err))
            fail_msg("%s: %s: %.*s", name, err.msg, (int)w.text.n, w.text.p);
        arena_deinit(&arena);
    }
    buf_deinit(&w.text);
}

static void finished_walks_parse(void **state) {
    (void)state;
    each_grammar("tests/data/grammar/schemas.jsonl", finished_one);
    each_grammar("tests/data/grammar/more.jsonl", finished_one);
    each_grammar("tests/data/grammar/gbnf.jsonl", finished_one);
    assert_true(n_finished * 10 >
                n_walks * 8); /* nearly all end; those that do not are long, not stuck */
}

/* Rolling back gives the same masks as never having gone on, and clones do not disturb each
 * other. */
static void rollback_and_clones(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g;
    uint64_t seed = 9, *before = mem_calloc(small.vocab->n_words, 8),
             *after = mem_calloc(small.vocab->n_words, 8);
    assert_true(grammar_compile_json_object(NULL, &g, &err));
    GrammarState *s = grammar_state_new(g, small.vocab, NULL, &err), *c;
    for (int i = 0; i < 60; i++) {
        bool ok;
        assert_true(grammar_state_mask(s, before, &err));
        c = grammar_state_clone(s, &err);
        assert_non_null(c);
        size_t n = 0;
        for (; n < 5 && !grammar_state_is_done(s); n++) {
            assert_true(grammar_state_mask(s, after, &err));
            assert_true(
                grammar_state_accept_token(s, testvocab_pick(&small, after, &seed), &ok, &err) &&
                ok);
        }
        assert_true(grammar_state_rollback(s, n, &err));
        assert_true(grammar_state_mask(s, after, &err));
        assert_memory_equal(before, after, small.vocab->n_words * 8);
        assert_true(grammar_state_mask(c, after, &err));
        assert_memory_equal(before, after, small.vocab->n_words * 8);
        assert_false(grammar_state_rollback(c, 1, &err)); /* a clone has no past */
        grammar_state_free(c);
        uint32_t id = testvocab_pick(&small, before, &seed);
        if (id == small.eos) break;
        assert_true(grammar_state_accept_token(s, id, &ok, &err) && ok);
    }
    grammar_free(g); /* the state holds it */
    assert_true(grammar_state_mask(s, after, &err));
    grammar_state_free(s);
    mem_free(before);
    mem_free(after);
}

/* Work is bounded by counts: a mask looks at few trie nodes on average, and a second walk over the
 * same text at none. */
static void masks_are_cached(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g;
    bool ok;
    uint64_t *bits = mem_calloc(large.vocab->n_words, 8);
    static const char text[] =
        "{\"name\": \"some long text that goes on\", \"list\": [1, 2, {\"a\": \"text\"}]}";
    assert_true(grammar_compile_json_object(NULL, &g, &err));
    uint64_t walked[2];
    for (int round = 0; round < 2; round++) {
        uint64_t from = g->masks.n_walked;
        GrammarState *s = grammar_state_new(g, large.vocab, NULL, &err);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            assert_true(grammar_state_mask(s, bits, &err));
            assert_true(grammar_state_accept_bytes(s, (Str){text + i, 1}, &ok, &err) && ok);
        }
        assert_true(grammar_state_is_done(s));
        grammar_state_free(s);
        walked[round] = g->masks.n_walked - from;
    }
    assert_true(walked[0] < 12 * (uint64_t)large.n);
    assert_int_equal(walked[1], 0);
    grammar_free(g);
    mem_free(bits);
}

/* A long output stays within the memory given: states are collected, and go on as before. */
static void long_outputs_are_collected(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g;
    bool ok;
    char key[64];
    assert_true(
        grammar_compile_schema(STR("{\"type\":\"object\",\"additionalProperties\":{\"type\":"
                                   "\"array\",\"items\":{\"type\":\"string\",\"maxLength\":9}}}"),
                               &(GrammarLimits){.max_run_bytes = 8 << 20}, &g, &err));
    uint64_t *bits = mem_calloc(small.vocab->n_words, 8);
    GrammarState *s = grammar_state_new(g, small.vocab, NULL, &err);
    assert_true(grammar_state_accept_bytes(s, STR("{\"first\":[]"), &ok, &err) && ok);
    for (int i = 0; i < 4000; i++) {
        snprintf(key, sizeof key, ",\"key%d\":[\"v%d\",\"\\u%04x\"]", i, i, i % 4000 + 32);
        if (!grammar_state_accept_bytes(s, str_c(key), &ok, &err)) fail_msg("%s", err.msg);
        assert_true(ok);
        if (i % 50 == 0) assert_true(grammar_state_mask(s, bits, &err));
        assert_true(machine_bytes(&g->machine) <= 8 << 20);
    }
    assert_true(grammar_state_rollback(s, 100, &err));
    assert_true(grammar_state_accept_bytes(s, STR("}"), &ok, &err) && ok &&
                grammar_state_is_done(s));
    grammar_state_free(s);
    grammar_free(g);
    mem_free(bits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_equal_brute_force),    cmocka_unit_test(finished_walks_parse),
        cmocka_unit_test(rollback_and_clones),        cmocka_unit_test(masks_are_cached),
        cmocka_unit_test(long_outputs_are_collected),
    };
    return cmocka_run_group_tests(tests, vocabs_open, vocabs_close);
}
