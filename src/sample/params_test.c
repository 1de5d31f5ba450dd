/* Parameters: names, aliases, ranges named in errors, JSON bodies, generation_config.json; log
 * probabilities. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/logprobs.h"
#include "sample/params_json.h"

static void test_defaults_and_names(void **state) {
    (void)state;
    Err err = {0};
    SampleParams p = params_server();
    assert_true(p.temperature == 0.8 && p.top_k == 40 && p.top_p == 0.95 && p.min_p == 0.05);
    assert_true(params_check(&p, 10, &err));
    p = params_cli();
    assert_true(p.temperature == 0 && p.top_k == 0 && p.top_p == 1 && p.min_p == 0);
    assert_true(params_set(&p, STR("repetition-penalty"), 1.3, &err) && p.repeat_penalty == 1.3);
    assert_true(params_set(&p, STR("temp"), 0.5, &err) && p.temperature == 0.5);
    assert_true(params_set_text(&p, STR("mirostat_lr"), STR("0.25"), &err) &&
                p.mirostat_eta == 0.25);
    assert_true(params_set_text(&p, STR("ignore-eos"), STR("true"), &err) && p.ignore_eos);
    assert_true(params_set_text(&p, STR("seed"), STR("9223372036854775807"), &err) &&
                p.seed == INT64_MAX);
    assert_null(params_find(STR("top")));
    assert_null(params_find(STR("")));
    size_t n;
    const ParamField *f = params_fields(&n);
    for (size_t i = 0; i < n; i++) { /* each field reads back what was set */
        assert_ptr_equal(params_find(str_c(f[i].name)), &f[i]);
        assert_true(params_set_field(&p, &f[i], 1 > f[i].max ? 0.5 : 1, &err));
        assert_true(params_get(&p, &f[i]) == (1 > f[i].max ? 0.5 : 1));
    }
}

static void test_ranges_are_named(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double value;
    } bad[] = {{"temperature", -1},
               {"temperature", NAN},
               {"temperature", INFINITY},
               {"top_p", 1.01},
               {"min_p", -0.1},
               {"repeat_penalty", 0},
               {"top_k", 1.5},
               {"top_k", 3e9},
               {"mirostat", 3},
               {"adaptive_decay", 1},
               {"dry_base", 0.5},
               {"seed", -2},
               {"ignore_eos", 2},
               {"presence_penalty", -1000},
               {"n_probs", 1e6}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Err err = {0};
        SampleParams p = params_server();
        assert_false(params_set(&p, str_c(bad[i].name), bad[i].value, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        assert_non_null(strstr(err.msg, bad[i].name));
        assert_non_null(strstr(err.msg, "accepted"));
    }
    Err err = {0};
    SampleParams p = params_server();
    assert_false(params_set(&p, STR("tempature"), 1, &err));
    assert_non_null(strstr(err.msg, "tempature"));
    assert_false(params_set_text(&p, STR("top_k"), STR("forty"), &err));
    assert_non_null(strstr(err.msg, "forty"));
    p.top_p = 7; /* filled by hand */
    assert_false(params_check(&p, 10, &err));
    p = params_server();
    p.mirostat = 2;
    p.adaptive_target = 0.5;
    assert_false(params_check(&p, 10, &err));
}

static bool encode_ab(const void *ctx, Str text, Arena *a, uint32_t **ids, size_t *n, Err *err) {
    (void)ctx;
    if (text.n == 0) return err_set(err, ERR_INPUT, "empty text");
    *ids = arena_array(a, uint32_t, text.n);
    if (!*ids) return err_nomem(err, "ids");
    for (size_t i = 0; i < text.n; i++) (*ids)[i] = (uint32_t)(text.p[i] - 'a');
    *n = text.n;
    return true;
}

static bool from_text(const char *json, SampleParams *p, const BiasText *text, Arena *a, Err *err) {
    Json *doc;
    if (!json_parse(str_c(json), NULL, a, &doc, err)) fail_msg("%s", err->msg);
    *p = params_server();
    return params_from_json(p, doc, text, a, err);
}

static void test_json(void **state) {
    (void)state;
    Err err = {0};
    Arena a = {0};
    BiasText text = {encode_ab, NULL};
    SampleParams p;
    assert_true(
        from_text("{\"temp\":0.3,\"top_k\":null,\"model\":\"x\",\"seed\":12,\"ignore_eos\":true,"
                  "\"dry_sequence_breakers\":[\"ab\"],\"logit_bias\":[[5,-1.5],[\"bc\",false]]}",
                  &p, &text, &a, &err));
    assert_true(p.temperature == 0.3 && p.top_k == 40 && p.seed == 12 && p.ignore_eos);
    assert_int_equal(p.n_dry_breakers, 1);
    assert_true(str_eqc(p.dry_breakers[0], "ab"));
    assert_int_equal(p.n_bias, 3);
    assert_true(p.bias[0].token == 5 && p.bias[0].bias == -1.5f);
    assert_true(p.bias[2].token == 2 && p.bias[2].bias == -INFINITY);
    assert_true(params_check(&p, 6, &err));
    assert_false(params_check(&p, 5, &err));
    assert_non_null(strstr(err.msg, "token 5"));
    assert_true(from_text("{\"logit_bias\":{\"7\":1,\"a\":2}}", &p, &text, &a, &err));
    assert_true(p.n_bias == 2 && p.bias[0].token == 7 && p.bias[1].token == 0);
    static const char *const bad[] = {
        "{\"temperature\":\"hot\"}",
        "{\"temperature\":true}",
        "{\"ignore_eos\":1}",
        "{\"top_k\":1.5}",
        "{\"seed\":-5}",
        "{\"seed\":1e30}",
        "{\"dry_sequence_breakers\":\"x\"}",
        "{\"dry_sequence_breakers\":[1]}",
        "{\"logit_bias\":3}",
        "{\"logit_bias\":[3]}",
        "{\"logit_bias\":[[3]]}",
        "{\"logit_bias\":[[3,true]]}",
        "{\"logit_bias\":[[-3,1]]}",
        "{\"logit_bias\":[[1.5,1]]}",
        "{\"logit_bias\":[[1,1e60]]}",
        "{\"logit_bias\":[[\"\",1]]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (Err){0};
        if (from_text(bad[i], &p, &text, &a, &err)) fail_msg("%s was accepted", bad[i]);
        assert_int_equal(err.kind, ERR_INPUT);
    }
    assert_false(from_text("{\"logit_bias\":[[\"ab\",1]]}", &p, NULL, &a, &err));
    arena_deinit(&a);
}

static void test_generation_config(void **state) {
    (void)state;
    Err err = {0};
    Arena a = {0};
    Json *doc;
    SampleParams p = params_server();
    assert_true(json_parse(
        STR("{\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"top_p\":0.9,\"min_p\":null,"
            "\"repetition_penalty\":1.05,\"bos_token_id\":1}"),
        NULL, &a, &doc, &err));
    assert_true(params_from_generation_config(&p, doc, &err));
    assert_true(p.temperature == 0.6 && p.top_k == 20 && p.top_p == 0.9 && p.min_p == 0.05 &&
                p.repeat_penalty == 1.05);
    assert_true(json_parse(STR("{\"do_sample\":false,\"temperature\":0.6}"), NULL, &a, &doc, &err));
    assert_true(params_from_generation_config(&p, doc, &err));
    assert_true(p.temperature == 0);
    assert_true(json_parse(STR("{\"top_p\":3}"), NULL, &a, &doc, &err));
    assert_false(params_from_generation_config(&p, doc, &err));
    assert_non_null(strstr(err.msg, "generation_config.json: top_p"));
    arena_deinit(&a);
}

static void test_samplers_keep_their_order(void **state) {
    (void)state;
    Err err = {0};
    SampleParams p = params_server(), full = p;
    assert_true(params_set_samplers(&p, STR(PARAMS_SAMPLERS), &err));
    assert_memory_equal(&p, &full, sizeof p);
    assert_true(params_set_samplers(&p, STR("top_k;temperature"), &err));
    assert_true(p.top_k == 40 && p.temperature == 0.8);
    assert_true(p.top_p == 1 && p.min_p == 0 && p.repeat_last_n == 0);
    p = full;
    assert_false(params_set_samplers(&p, STR("top_p;top_k"), &err));
    assert_non_null(strstr(err.msg, "\"top_k\""));
    assert_memory_equal(&p, &full, sizeof p); /* refused: nothing changed */
    assert_false(params_set_samplers(&p, STR("top_k;top_k"), &err));
    assert_false(params_set_samplers(&p, STR("top_x"), &err));
    Arena a = {0};
    assert_true(from_text("{\"samplers\":[\"min_p\"],\"temperature\":0.1}", &p, NULL, &a, &err));
    assert_true(p.min_p == 0.05 && p.temperature == 1 && p.top_k == 0);
    assert_false(from_text("{\"samplers\":[1]}", &p, NULL, &a, &err));
    assert_false(from_text("{\"samplers\":{}}", &p, NULL, &a, &err));
    arena_deinit(&a);
}

static void test_random_seeds(void **state) {
    (void)state;
    SampleParams p = params_server(), q = p;
    params_fix_seed(&p);
    params_fix_seed(&q);
    assert_true(p.seed >= 0 && q.seed >= 0);
    p.seed = 4294967295;
    params_fix_seed(&p);
    assert_true(p.seed != 4294967295);
    p.seed = 17;
    params_fix_seed(&p);
    assert_int_equal(p.seed, 17);
}

static void test_logprobs(void **state) {
    (void)state;
    float x[2000];
    double sum = 0;
    for (int i = 0; i < 2000; i++) sum += exp((double)(x[i] = sinf((float)i * 12.9898f) * 8));
    x[7] = x[90] = 9; /* a tie at the top */
    sum +=
        2 * exp(9) - exp((double)(sinf(7 * 12.9898f) * 8)) - exp((double)(sinf(90 * 12.9898f) * 8));
    TokenLogprob top[5], chosen = {.token = 1234};
    assert_int_equal(logprobs_top(x, 2000, 5, top, &chosen), 5);
    assert_int_equal(top[0].token, 7);
    assert_int_equal(top[1].token, 90);
    assert_true(fabs(top[0].logprob - (9 - log(sum))) < 1e-12);
    assert_true(fabs(chosen.logprob - ((double)x[1234] - log(sum))) < 1e-12);
    for (int i = 1; i < 5; i++) assert_true(top[i].logprob <= top[i - 1].logprob);
    x[3] = -INFINITY;
    chosen.token = 3;
    assert_int_equal(logprobs_top(x, 4, 5, top, &chosen), 4);
    assert_true(chosen.logprob == -INFINITY && top[3].logprob == -INFINITY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_names),
        cmocka_unit_test(test_ranges_are_named),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_samplers_keep_their_order),
        cmocka_unit_test(test_random_seeds),
        cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
