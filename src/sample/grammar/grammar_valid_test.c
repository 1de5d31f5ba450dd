/* What random walks over the masks of a schema's grammar finish is valid for the schema, by a
 * validator that knows nothing of grammars: it reads the schema and the value as trees. Patterns
 * and formats are left to grammar_golden_test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "sample/grammar/grammar_run.h"
#include "sample/grammar/grammar_testkit.h"

/* ---- the validator ---- */

static const Json *document;
static bool unsure; /* the value has numbers that doubles cannot judge */

static bool valid(const Json *s, const Json *v);

static double number(const Json *j) {
    double d = 0;
    return json_f64(j, &d) ? d : NAN;
}

static bool same(const Json *a, const Json *b) {
    if (a->type != b->type) return false;
    if (a->type == JSON_NUMBER) return number(a) == number(b);
    if (a->type == JSON_STRING) return str_eq(a->text, b->text);
    if (a->type != JSON_ARRAY && a->type != JSON_OBJECT) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const Json *other = a->type == JSON_ARRAY ? &b->items[i] : json_find(b, a->items[i].key);
        if (!other || !same(&a->items[i], other)) return false;
    }
    return true;
}

static bool is_type(Str type, const Json *v) {
    if (str_eqc(type, "integer")) return v->type == JSON_NUMBER && number(v) == floor(number(v));
    if (str_eqc(type, "boolean")) return v->type == JSON_TRUE || v->type == JSON_FALSE;
    return str_eqc(type, jsontype_name(v->type));
}

static bool valid_kind(const Json *s, const Json *v) {
    const Json *type = json_get(s, "type"), *list = json_get(s, "enum"),
               *one = json_get(s, "const");
    bool ok = !type || (type->type == JSON_STRING && is_type(type->text, v));
    for (size_t i = 0; type && type->type == JSON_ARRAY && i < type->n; i++)
        ok |= is_type(type->items[i].text, v);
    if (!ok || (one && !same(one, v))) return false;
    for (size_t i = 0; list && i < list->n; i++)
        if (same(&list->items[i], v)) return true;
    return !list;
}

static bool within(const Json *s, const char *low, const char *high, double x) {
    const Json *lo = json_get(s, low), *hi = json_get(s, high);
    return (!lo || x >= number(lo)) && (!hi || x <= number(hi));
}

static bool valid_scalar(const Json *s, const Json *v) {
    if (v->type == JSON_STRING)
        return within(s, "minLength", "maxLength", (double)utf8_count(v->text));
    if (v->type != JSON_NUMBER) return true;
    const Json *above = json_get(s, "exclusiveMinimum"), *below = json_get(s, "exclusiveMaximum"),
               *of = json_get(s, "multipleOf");
    double x = number(v);
    if (of && fabs(x) > 1e9) unsure = true; /* beyond what doubles tell */
    if (of && fabs(x / number(of) - round(x / number(of))) > 1e-6) return false;
    return within(s, "minimum", "maximum", x) && (!above || x > number(above)) &&
           (!below || x < number(below));
}

static bool valid_array(const Json *s, const Json *v) {
    const Json *prefix = json_get(s, "prefixItems"), *items = json_get(s, "items"),
               *contains = json_get(s, "contains");
    if (items && items->type == JSON_ARRAY) prefix = items, items = json_get(s, "additionalItems");
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        const Json *sub = prefix && i < prefix->n ? &prefix->items[i] : items;
        if (sub && !valid(sub, &v->items[i])) return false;
        n += contains && valid(contains, &v->items[i]);
    }
    const Json *least = json_get(s, "minContains"), *most = json_get(s, "maxContains");
    if (contains && ((double)n < (least ? number(least) : 1) || (most && (double)n > number(most))))
        return false;
    return within(s, "minItems", "maxItems", (double)v->n);
}

static bool valid_object(const Json *s, const Json *v) {
    const Json *props = json_get(s, "properties"), *rest = json_get(s, "additionalProperties"),
               *required = json_get(s, "required");
    const Json *patterns = json_get(s, "patternProperties"),
               *needs = json_get(s, "dependentRequired"), *then = json_get(s, "dependentSchemas");
    for (size_t i = 0; required && i < required->n; i++)
        if (!json_find(v, required->items[i].text)) return false;
    for (size_t i = 0; i < v->n; i++) {
        Str key = v->items[i].key;
        const Json *sub = props ? json_find(props, key) : NULL,
                   *list = needs ? json_find(needs, key) : NULL;
        const Json *more = then ? json_find(then, key) : NULL;
        if (!sub && !patterns) sub = rest;
        if (sub && !valid(sub, &v->items[i])) return false;
        for (size_t k = 0; list && k < list->n; k++)
            if (!json_find(v, list->items[k].text)) return false;
        if (more && !valid(more, v)) return false;
    }
    return within(s, "minProperties", "maxProperties", (double)v->n);
}

static const Json *target(Str ref) {
    const Json *at = document;
    Str rest = str_from(ref, 1), token;
    if (rest.n) rest = str_from(rest, 1);
    while (at && rest.n && str_split(&rest, '/', &token))
        at = json_find(at, str_eqc(token, "a~1b")   ? STR("a/b")
                           : str_eqc(token, "c~0d") ? STR("c~d")
                                                    : token);
    return at;
}

static bool valid_logic(const Json *s, const Json *v) {
    const Json *all = json_get(s, "allOf"), *any = json_get(s, "anyOf"),
               *one = json_get(s, "oneOf"), *no = json_get(s, "not"), *ref = json_get(s, "$ref");
    const Json *when = json_get(s, "if"), *then = json_get(s, "then"), *other = json_get(s, "else");
    size_t n_any = 0, n_one = 0;
    if (ref && str_starts(ref->text, STR("#")) && !valid(target(ref->text), v)) return false;
    for (size_t i = 0; all && i < all->n; i++)
        if (!valid(&all->items[i], v)) return false;
    for (size_t i = 0; any && i < any->n; i++) n_any += valid(&any->items[i], v);
    for (size_t i = 0; one && i < one->n; i++) n_one += valid(&one->items[i], v);
    if (when && valid(when, v) && then && !valid(then, v)) return false;
    if (when && !valid(when, v) && other && !valid(other, v)) return false;
    return (!any || n_any) && (!one || n_one == 1) && (!no || !valid(no, v));
}

static bool valid(const Json *s, const Json *v) {
    if (!s || s->type == JSON_TRUE || s->type == JSON_FALSE) return s && s->type == JSON_TRUE;
    if (!valid_kind(s, v) || !valid_scalar(s, v) || !valid_logic(s, v)) return false;
    return (v->type != JSON_ARRAY || valid_array(s, v)) &&
           (v->type != JSON_OBJECT || valid_object(s, v));
}

/* ---- the walks ---- */

static TestVocab vocab;
static int n_finished;

static void walk_check(Grammar *g, const Json *schema, Str id, int n_free, uint64_t *seed) {
    uint64_t *bits = mem_calloc(vocab.vocab->n_words, sizeof *bits);
    Err err = {0};
    Buf text = {0};
    Arena arena = {0};
    GrammarState *s = grammar_state_new(g, vocab.vocab, NULL, &err);
    assert_non_null(s);
    bool ended = false;
    for (int i = 0; i < n_free + 2000 && !ended; i++) {
        bool ok;
        if (!grammar_state_mask(s, bits, &err)) fail_msg("%s", err.msg);
        uint32_t token = i < n_free ? testvocab_pick(&vocab, bits, seed)
                                    : testvocab_pick_closing(&vocab, bits, seed);
        if (token == UINT32_MAX)
            fail_msg("%.*s: nothing may follow %.*s", (int)id.n, id.p, (int)text.n, text.p);
        if (!grammar_state_accept_token(s, token, &ok, &err) || !ok)
            fail_msg("%.*s: a token of the mask is rejected", (int)id.n, id.p);
        ended = token == vocab.eos;
        if (!ended) buf_put(&text, vocab.tokens[token]);
    }
    Json *value;
    if (ended) {
        if (!json_parse(buf_str(&text), &(JsonOptions){.dup = JSON_DUP_LAST}, &arena, &value, &err))
            fail_msg("%.*s: %s: %.*s", (int)id.n, id.p, err.msg, (int)text.n, text.p);
        document = schema;
        unsure = false;
        if (!valid(schema, value) && !unsure)
            fail_msg("%.*s: not valid: %.*s", (int)id.n, id.p, (int)text.n, text.p);
        n_finished++;
    }
    grammar_state_free(s);
    arena_deinit(&arena);
    buf_deinit(&text);
    mem_free(bits);
}

static void walks_are_valid(const char *path) {
    Buf text = {0};
    Arena arena = {0};
    Err err = {0};
    uint64_t seed = 21;
    if (!os_read_file(path, (size_t)64 << 20, &text, &err)) fail_msg("%s", err.msg);
    Str rest = buf_str(&text), line, id;
    while (str_split(&rest, '\n', &line)) {
        Json *c;
        Grammar *g;
        if (!line.n || !json_parse(line, NULL, &arena, &c, &err) ||
            !json_str(json_get(c, "id"), &id) || !json_get(c, "schema"))
            continue;
        if (!grammar_compile_schema_tree(json_get(c, "schema"), NULL, &g, &err)) continue;
        for (int i = 0; i < 25; i++) walk_check(g, json_get(c, "schema"), id, i * 2, &seed);
        grammar_free(g);
    }
    arena_deinit(&arena);
    buf_deinit(&text);
}

/* The validator itself agrees with the golden texts, or it would prove nothing. */
static void validator_agrees_with_goldens(void **state) {
    (void)state;
    Buf text = {0};
    Arena arena = {0};
    Err err = {0};
    int n = 0, n_caught = 0;
    assert_true(os_read_file("tests/data/grammar/schemas.jsonl", (size_t)64 << 20, &text, &err));
    Str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        Json *c, *v;
        if (!line.n || !json_parse(line, NULL, &arena, &c, &err) || !json_get(c, "schema"))
            continue;
        document = json_get(c, "schema");
        const Json *yes = json_get(c, "valid"), *no = json_get(c, "invalid");
        for (size_t i = 0; i < yes->n; i++) {
            assert_true(json_parse(yes->items[i].text, NULL, &arena, &v, &err));
            if (!valid(document, v))
                fail_msg("%.*s", (int)yes->items[i].text.n, yes->items[i].text.p);
        }
        for (size_t i = 0; i < no->n; i++, n++)
            n_caught +=
                !json_parse(no->items[i].text, NULL, &arena, &v, &err) || !valid(document, v);
    }
    assert_true(n_caught * 10 > n * 8); /* the others need patterns, formats or unevaluated... */
    arena_deinit(&arena);
    buf_deinit(&text);
}

static void finished_outputs_are_valid(void **state) {
    (void)state;
    walks_are_valid("tests/data/grammar/schemas.jsonl");
    walks_are_valid("tests/data/grammar/more.jsonl");
    assert_true(n_finished > 3000);
}

static int vocab_open(void **state) {
    (void)state;
    Err err = {0};
    return testvocab_init(&vocab, 3000, 8, &err) ? 0 : -1;
}

static int vocab_close(void **state) {
    (void)state;
    testvocab_deinit(&vocab);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validator_agrees_with_goldens),
        cmocka_unit_test(finished_outputs_are_valid),
    };
    return cmocka_run_group_tests(tests, vocab_open, vocab_close);
}
