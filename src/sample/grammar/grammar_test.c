/* The library as its callers see it: lazy triggers, token references, limits, every kind of refusal
 * naming its cause, failing allocations, and the automata underneath. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/grammar/grammar_format.h"
#include "sample/grammar/grammar_number.h"
#include "sample/grammar/grammar_regex.h"
#include "sample/grammar/grammar_run.h"
#include "sample/grammar/grammar_testkit.h"

static TestVocab vocab;

static int vocab_open(void **state) {
    (void)state;
    Err err = {0};
    return testvocab_init(&vocab, 1500, 4, &err) ? 0 : -1;
}

static int vocab_close(void **state) {
    (void)state;
    testvocab_deinit(&vocab);
    return 0;
}

static Grammar *gbnf(const char *text) {
    Grammar *g;
    Err err = {0};
    if (!grammar_compile_gbnf(str_c(text), NULL, &g, &err)) fail_msg("%s", err.msg);
    return g;
}

static bool takes(GrammarState *s, const char *text) {
    bool ok;
    Err err = {0};
    if (!grammar_state_accept_bytes(s, str_c(text), &ok, &err)) fail_msg("%s", err.msg);
    return ok;
}

/* ---- lazy grammars ---- */

static void a_word_activates(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g = gbnf("root ::= \"<call>\" [0-9]+ \"</call>\"");
    GrammarTrigger t = {.kind = GRAMMAR_TRIGGER_WORD, .text = STR("<call>")};
    GrammarState *s = grammar_state_new(g, vocab.vocab, &(GrammarLazy){&t, 1}, &err);
    uint64_t *bits = mem_calloc(vocab.vocab->n_words, 8);
    assert_false(grammar_state_is_active(s));
    assert_true(grammar_state_may_end(s));
    assert_true(grammar_state_mask(s, bits, &err));
    for (uint32_t i = 0; i < vocab.n; i++)
        assert_true(bits[i / 64] >> i % 64 & 1); /* nothing is constrained yet */
    assert_true(takes(s, "I will <ca"));
    assert_true(takes(s, "ll >")); /* not the word */
    assert_false(grammar_state_is_active(s));
    assert_true(takes(s, " <cal"));
    assert_false(takes(
        s,
        "l>x")); /* completes the word, but goes on against the grammar: refused, nothing changed */
    assert_false(grammar_state_is_active(s));
    assert_true(grammar_state_mask(s, bits, &err)); /* a mask knows such tokens */
    for (uint32_t i = 0; i < vocab.n; i++) {
        bool ok;
        assert_true(grammar_state_accept_token(s, i, &ok, &err));
        assert_int_equal(ok, bits[i / 64] >> i % 64 & 1);
        if (ok) assert_true(grammar_state_rollback(s, 1, &err));
    }
    assert_true(takes(s, "l>1"));
    assert_true(grammar_state_is_active(s));
    assert_false(takes(s, "a"));
    assert_true(takes(s, "2</call>"));
    assert_true(grammar_state_is_done(s));
    assert_true(grammar_state_rollback(s, 2, &err)); /* back before the trigger */
    assert_false(grammar_state_is_active(s));
    assert_true(takes(s, "l>7"));
    assert_true(grammar_state_is_active(s));
    mem_free(bits);
    grammar_state_free(s);
    grammar_free(g);
}

/* A token that completes the trigger and then breaks the grammar is not in the mask. */
static void masks_before_a_trigger(void **state) {
    (void)state;
    Err err = {0};
    Str tokens[] = {STR("l>"),      STR("l>x"),      STR("l>1"), STR("a"),
                    STR("<call>y"), STR("x<call>1"), STR("")};
    uint32_t eos = 6;
    uint64_t bits;
    GrammarVocab *v = grammar_vocab_new(tokens, 7, &eos, 1, NULL, &err);
    Grammar *g = gbnf("root ::= \"<call>\" [0-9]+");
    GrammarTrigger t = {.kind = GRAMMAR_TRIGGER_WORD, .text = STR("<call>")};
    GrammarState *s = grammar_state_new(g, v, &(GrammarLazy){&t, 1}, &err);
    assert_true(grammar_state_mask(s, &bits, &err));
    assert_int_equal(bits, 0x6F); /* all but <call>y */
    assert_true(takes(s, "<cal"));
    assert_true(grammar_state_mask(s, &bits, &err));
    assert_int_equal(bits, 0x6D); /* l>x neither */
    grammar_state_free(s);
    grammar_free(g);
    grammar_vocab_free(v);
}

static void patterns_and_tokens_activate(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g = gbnf("root ::= \"{\" [a-z]* \"}\"");
    GrammarTrigger t[] = {{.kind = GRAMMAR_TRIGGER_PATTERN, .text = STR("answer:\\s*(\\{)")},
                          {.kind = GRAMMAR_TRIGGER_PATTERN_FULL, .text = STR("[0-9]+(\\{)")},
                          {.kind = GRAMMAR_TRIGGER_TOKEN, .token = 300, .text = STR("{a")}};
    GrammarLazy lazy = {t, 3};
    GrammarState *s = grammar_state_new(g, vocab.vocab, &lazy, &err);
    assert_true(takes(s, "{}{ the answer:  "));
    assert_false(grammar_state_is_active(s));
    assert_true(takes(s, "{ab"));
    assert_true(grammar_state_is_active(s)); /* from the group on: the brace is the grammar's */
    assert_true(takes(s, "c}") && grammar_state_is_done(s));
    grammar_state_free(s);
    s = grammar_state_new(g, vocab.vocab, &lazy, &err);
    assert_true(takes(s, "12"));
    assert_true(takes(s, "3{"));
    assert_true(grammar_state_is_active(s) && takes(s, "}"));
    grammar_state_free(s);
    s = grammar_state_new(g, vocab.vocab, &lazy, &err);
    bool ok;
    assert_true(grammar_state_accept_token(s, 300, &ok, &err) && ok);
    assert_true(grammar_state_is_active(s) && takes(s, "b}") && grammar_state_is_done(s));
    grammar_state_free(s);
    t[0].text = STR("(");
    assert_null(grammar_state_new(g, vocab.vocab, &lazy, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    grammar_free(g);
}

/* ---- tokens ---- */

static void tokens_by_number(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g = gbnf("root ::= <[40]> !<[41]> \"x\"");
    GrammarState *s = grammar_state_new(g, vocab.vocab, NULL, &err);
    uint64_t *bits = mem_calloc(vocab.vocab->n_words, 8);
    bool ok;
    assert_true(grammar_state_mask(s, bits, &err));
    for (uint32_t i = 0; i < vocab.n; i++) assert_int_equal(bits[i / 64] >> i % 64 & 1, i == 40);
    assert_true(grammar_state_accept_token(s, 40, &ok, &err) && ok);
    assert_true(grammar_state_mask(s, bits, &err));
    for (uint32_t i = 0; i < vocab.n; i++)
        assert_int_equal(bits[i / 64] >> i % 64 & 1, i != 41 && i != vocab.eos);
    assert_true(grammar_state_accept_token(s, 41, &ok, &err) && !ok);
    assert_true(grammar_state_accept_token(s, 99, &ok, &err) && ok);
    assert_true(grammar_state_accept_token(s, vocab.eos, &ok, &err) && !ok);
    assert_true(grammar_state_accept_token(s, 'x', &ok, &err) && ok);
    assert_true(grammar_state_accept_token(s, vocab.eos, &ok, &err) && ok);
    assert_true(grammar_state_is_done(s));
    assert_true(grammar_state_mask(s, bits, &err));
    for (uint32_t i = 0; i < vocab.vocab->n_words; i++)
        assert_int_equal(bits[i], 0); /* the text has ended */
    mem_free(bits);
    grammar_state_free(s);
    grammar_free(g);
}

/* Special tokens never match by their text, even where it would fit; twins are both allowed. */
static void special_and_twin_tokens(void **state) {
    (void)state;
    Err err = {0};
    Str tokens[] = {STR("a"), STR("<s>"), STR("a"), STR("b"), STR("")};
    bool special[] = {false, true, false, false, false}, ok;
    uint32_t eos = 4;
    GrammarVocab *v = grammar_vocab_new(tokens, 5, &eos, 1, special, &err);
    Grammar *g = gbnf("root ::= (\"a\" | \"<s>\")+");
    GrammarState *s = grammar_state_new(g, v, NULL, &err);
    uint64_t bits = 0;
    assert_true(grammar_state_mask(s, &bits, &err));
    assert_int_equal(bits, 0x5);
    assert_true(grammar_state_accept_token(s, 1, &ok, &err) && !ok);
    assert_true(grammar_state_accept_token(s, 2, &ok, &err) && ok);
    assert_true(grammar_state_mask(s, &bits, &err));
    assert_int_equal(bits, 0x15);
    grammar_state_free(s);
    grammar_free(g);
    grammar_vocab_free(v);
}

/* ---- limits ---- */

static void refuses_as(const char *text, const GrammarLimits *limits, ErrKind kind) {
    Grammar *g;
    Err err = {0};
    if (grammar_compile_gbnf(str_c(text), limits, &g, &err)) fail_msg("accepted: %.60s", text);
    if (err.kind != kind)
        fail_msg("%.60s: %s instead of %s: %s", text, errkind_name(err.kind), errkind_name(kind),
                 err.msg);
}

static void limits_end_in_errors(void **state) {
    (void)state;
    refuses_as("root ::= \"aaaa\"", &(GrammarLimits){.max_text_bytes = 5}, ERR_LIMIT);
    refuses_as("root ::= \"a\"{1000}", &(GrammarLimits){.max_states = 100}, ERR_LIMIT);
    refuses_as("root ::= \"a\"{1000}", &(GrammarLimits){.max_operations = 1000}, ERR_LIMIT);
    refuses_as("root ::= \"a\"{1000}", &(GrammarLimits){.max_compile_bytes = 10000}, ERR_LIMIT);
    refuses_as("root ::= ((((\"a\"{1000}){1000}){1000}){1000})", NULL, ERR_LIMIT);
    Buf b = {0};
    for (int i = 0; i < 20000; i++) buf_putf(&b, "r%d ::= r%d \"a\" | \"b\"\n", i, i + 1);
    buf_putc(&b, 0);
    refuses_as(b.p, NULL, ERR_LIMIT);
    buf_deinit(&b);
}

/* 2^n ways to read n letters cost no more than n positions. */
static void ambiguity_is_shared(void **state) {
    (void)state;
    Err err = {0};
    bool ok;
    Grammar *g = gbnf("root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" s | \"x\"");
    GrammarState *s = grammar_state_new(g, NULL, NULL, &err);
    for (int i = 0; i < 400; i++) assert_true(takes(s, "a"));
    assert_true(takes(s, "x"));
    for (int i = 0; i < 400; i++) assert_true(takes(s, i % 3 ? "b" : "c"));
    assert_true(g->machine.stacks.n < 5000 && g->machine.states.n < 5000);
    assert_true(grammar_state_may_end(s));
    assert_true(grammar_state_accept_bytes(s, STR("b"), &ok, &err) && !ok);
    grammar_state_free(s);
    grammar_free(g);
}

/* Nesting is bounded: an opening bracket is refused where a closing one could not follow any more,
 * never a dead end. */
static void nesting_is_bounded(void **state) {
    (void)state;
    Err err = {0};
    Grammar *g;
    assert_true(grammar_compile_schema(STR("{}"), NULL, &g, &err));
    GrammarState *s = grammar_state_new(g, vocab.vocab, NULL, &err);
    uint64_t *bits = mem_calloc(vocab.vocab->n_words, 8);
    int depth = 0;
    while (depth < 1000 && takes(s, "[")) depth++;
    assert_in_range(depth, 100, 127);
    assert_true(grammar_state_mask(s, bits, &err));
    assert_false(bits['[' / 64] >> '[' % 64 & 1);
    for (; depth; depth--) assert_true(takes(s, "]"));
    assert_true(grammar_state_is_done(s));
    mem_free(bits);
    grammar_state_free(s);
    grammar_free(g);
}

/* ---- failing allocations ---- */

static bool compile_and_run(Err *err) {
    Grammar *g;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"string\",\"pattern\":"
        "\"^a+$\"},{\"type\":\"integer\",\"minimum\":3}]},"
        "\"b\":{\"type\":\"array\",\"contains\":{\"const\":1}}},\"required\":[\"a\"],"
        "\"unevaluatedProperties\":false}";
    if (!grammar_compile_schema(str_c(schema), NULL, &g, err)) return false;
    uint64_t bits[1500 / 64 + 1];
    bool ok = false;
    GrammarTrigger t = {.kind = GRAMMAR_TRIGGER_PATTERN, .text = STR("x(\\{)")};
    GrammarState *s = grammar_state_new(g, vocab.vocab, &(GrammarLazy){&t, 1}, err);
    GrammarState *c = s ? grammar_state_clone(s, err) : NULL;
    bool done = c && grammar_state_accept_bytes(c, STR("x{\"a\":"), &ok, err) && ok &&
                grammar_state_mask(c, bits, err) &&
                grammar_state_accept_bytes(c, STR("7,\"b\":[0,1]}"), &ok, err) && ok &&
                grammar_state_is_done(c);
    grammar_state_free(c);
    grammar_state_free(s);
    grammar_free(g);
    return done;
}

static void failing_allocations(void **state) {
    (void)state;
    Err err = {0};
    bool done = false;
    int n, n_failed = 0;
    for (n = 0; n < 700;
         n++) { /* one failure each; a few are made up for (a shorter path in a message) */
        err = (Err){0};
        mem_fail_after(n);
        done = compile_and_run(&err);
        mem_fail_after(-1);
        n_failed += !done;
        if (!done && err.kind != ERR_NOMEM)
            fail_msg("allocation %d: %s: %s", n, errkind_name(err.kind), err.msg);
    }
    assert_true(done && n_failed > 50);
    for (n = 0, done = false; n < 2000 && !done; n++) {
        mem_fail_after(n);
        GrammarVocab *v = grammar_vocab_new(vocab.tokens, vocab.n, &vocab.eos, 1, NULL, &err);
        mem_fail_after(-1);
        done = v != NULL;
        assert_true(done || err.kind == ERR_NOMEM);
        grammar_vocab_free(v);
    }
    assert_true(done);
}

/* ---- automata ---- */

static void numbers_compare_exactly(void **state) {
    (void)state;
    Arena arena = {0};
    Err err = {0};
    GrammarWork w = {&arena, 100000000, 20000, &err, false};
    static const char *const bounds[] = {"0",   "-0.0",   "1",     "-1",     "9.99",
                                         "10",  "-10.5",  "0.001", "-0.001", "123456",
                                         "1e2", "2.5e-3", "-7E+1"};
    uint64_t seed = 1;
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        Dfa *less = number_compare(&w, str_c(bounds[b]), NUMBER_LESS, "minimum");
        Dfa *same = number_compare(&w, str_c(bounds[b]), NUMBER_EQUAL, "minimum");
        Dfa *more = number_compare(&w, str_c(bounds[b]), NUMBER_GREATER, "minimum");
        double bound = strtod(bounds[b], NULL);
        for (int i = 0; i < 3000; i++) {
            char text[40];
            int digits = (int)(test_random(&seed) % 4);
            int64_t whole = (int64_t)(test_random(&seed) % (i % 3 ? 12 : 130000));
            snprintf(text, sizeof text, digits ? "%s%lld.%0*llu" : "%s%lld", i % 2 ? "-" : "",
                     (long long)whole, digits, (unsigned long long)(test_random(&seed) % 1000));
            if (i % 7 == 0)
                snprintf(text, sizeof text, "%.*s", 30, bounds[b][0] == '-' ? "-10.500" : "10.00");
            double v = strtod(text, NULL);
            assert_int_equal(dfa_matches(less, str_c(text)), v < bound);
            assert_int_equal(dfa_matches(same, str_c(text)), v == bound);
            assert_int_equal(dfa_matches(more, str_c(text)), v > bound);
        }
    }
    assert_false(w.failed);
    arena_deinit(&arena);
}

static void boolean_operations(void **state) {
    (void)state;
    Arena arena = {0};
    Err err = {0};
    GrammarWork w = {&arena, 100000000, 20000, &err, false};
    Dfa *a = regex_dfa(&w, STR("^(ab|c)*$"), REGEX_SEARCH),
        *b = regex_dfa(&w, STR("b.?c"), REGEX_SEARCH);
    static const char *const texts[] = {"",   "ab",  "abc",  "abcab", "c",        "cc",
                                        "bc", "bxc", "abxc", "a",     "\xC3\xA9", "ababcabc"};
    Dfa *both = dfa_and(&w, a, b), *any = dfa_or(&w, a, b), *not_a = dfa_not(&w, a),
        *again = dfa_not(&w, not_a);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        Str t = str_c(texts[i]);
        bool in_a = dfa_matches(a, t), in_b = dfa_matches(b, t);
        assert_int_equal(dfa_matches(both, t), in_a && in_b);
        assert_int_equal(dfa_matches(any, t), in_a || in_b);
        assert_int_equal(dfa_matches(not_a, t), !in_a);
        assert_int_equal(dfa_matches(again, t), in_a);
    }
    assert_int_equal(again->n, a->n); /* minimal both times */
    assert_int_equal(dfa_and(&w, a, not_a)->n, 0);
    assert_true(dfa_is_finite(&w, dfa_length(&w, 0, 3)));
    assert_false(dfa_is_finite(&w, a));
    arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_before_a_trigger),       cmocka_unit_test(a_word_activates),
        cmocka_unit_test(patterns_and_tokens_activate), cmocka_unit_test(tokens_by_number),
        cmocka_unit_test(special_and_twin_tokens),      cmocka_unit_test(limits_end_in_errors),
        cmocka_unit_test(ambiguity_is_shared),          cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(failing_allocations),          cmocka_unit_test(numbers_compare_exactly),
        cmocka_unit_test(boolean_operations),
    };
    return cmocka_run_group_tests(tests, vocab_open, vocab_close);
}
