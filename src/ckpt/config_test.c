/* The one look-up: alternatives, defaults, ranges and wrong types over JSON; the same Hugging
 * Face names over GGUF keys, with what has to be computed from several of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/ckpt_fixture.h"
#include "ckpt/config.h"

static char dir[] = "/tmp/mlxcel_config_XXXXXX";

static Config over_json(Arena *a, const char *text) {
    Json *doc;
    Err err = {0};
    JsonOptions opt = {.python_numbers = true};
    if (!json_parse(str_c(text), &opt, a, &doc, &err)) fail_msg("%s", err.msg);
    return (Config){.json = doc};
}

static void assert_config_int(const Config *c, const char *key, int64_t want) {
    int64_t v = -99;
    Err err = {0};
    if (!config_int(c, key, CONFIG_REQUIRED, INT64_MIN + 1, INT64_MAX, &v, &err))
        fail_msg("%s: %s", key, err.msg);
    if (v != want) fail_msg("%s is %lld, not %lld", key, (long long)v, (long long)want);
}

static void assert_config_float(const Config *c, const char *key, double want) {
    double v = -99;
    Err err = {0};
    if (!config_float(c, key, CONFIG_REQUIRED_F, -1e30, 1e30, &v, &err))
        fail_msg("%s: %s", key, err.msg);
    if (fabs(v - want) > 1e-12 + 1e-6 * fabs(want)) fail_msg("%s is %g, not %g", key, v, want);
}

static void assert_config_str(const Config *c, const char *key, const char *want) {
    Str s = {0};
    Err err = {0};
    if (!config_str(c, key, NULL, &s, &err)) fail_msg("%s: %s", key, err.msg);
    if (!str_eqc(s, want)) fail_msg("%s is " STR_F, key, STR_A(s));
}

static void json_values_and_defaults(void **state) {
    (void)state;
    Arena a = {0};
    Config c = over_json(&a, "{\"n\":3,\"f\":16.0,\"x\":0.5,\"t\":true,\"s\":\"hi\",\"gone\":null,"
                             "\"list\":[1,2.5],\"inf\":[0,Infinity],"
                             "\"names\":[\"a\",\"b\"],\"ints\":[4,5]}");
    Err err = {0};
    int64_t i;
    double d;
    bool b;
    assert_config_int(&c, "n", 3);
    assert_config_int(&c, "f", 16);
    assert_config_int(&c, "gone|absent|n", 3);
    assert_config_float(&c, "x", 0.5);
    assert_config_float(&c, "n", 3);
    assert_config_str(&c, "s", "hi");
    assert_true(config_has(&c, "n") && config_has(&c, "absent|s") && !config_has(&c, "gone") &&
                !config_has(&c, ".n"));
    assert_true(config_int(&c, "absent", 7, 0, 1, &i, &err) && i == 7);
    assert_true(config_float(&c, "gone", 0.25, 0, 1, &d, &err) && d == 0.25);
    assert_true(config_bool(&c, "t", false, &b, &err) && b &&
                config_bool(&c, "absent", true, &b, &err) && b);
    const double *ds;
    const int64_t *is;
    const Str *ss;
    size_t n;
    assert_true(config_floats(&c, "list", &a, &ds, &n, &err) && n == 2 && ds[1] == 2.5);
    assert_true(config_floats(&c, "x", &a, &ds, &n, &err) && n == 1 && ds[0] == 0.5);
    assert_true(config_floats(&c, "inf", &a, &ds, &n, &err) && n == 2 && isinf(ds[1]));
    assert_true(config_floats(&c, "absent", &a, &ds, &n, &err) && n == 0);
    assert_true(config_ints(&c, "ints", &a, &is, &n, &err) && n == 2 && is[1] == 5);
    assert_true(config_strs(&c, "names", &a, &ss, &n, &err) && n == 2 && str_eqc(ss[1], "b"));
    arena_deinit(&a);
}

static void wrong_json_is_named(void **state) {
    (void)state;
    Arena a = {0};
    Config c = over_json(
        &a, "{\"n\":\"3\",\"b\":true,\"h\":1.5,\"big\":1e30,\"nan\":NaN,\"l\":[1,\"x\"],\"o\":{}}");
    Err err = {0};
    int64_t i;
    double d;
    bool b;
    Str s;
    size_t n;
    const int64_t *is;
    assert_false(config_int(&c, "a|n", 0, 1, 9, &i, &err));
    assert_string_equal(err.msg, "config: n is \"3\", an integer from 1 to 9 is needed");
    assert_int_equal(err.kind, ERR_INPUT);
    assert_false(config_int(&c, "zero", CONFIG_REQUIRED, 1, 9, &i, &err));
    assert_string_equal(err.msg, "config: zero is missing");
    assert_false(config_int(&c, "b", 0, 0, 9, &i, &err) || config_int(&c, "h", 0, 0, 9, &i, &err) ||
                 config_int(&c, "big", 0, 0, 9, &i, &err));
    assert_false(config_float(&c, "nan", 0, 0, 9, &d, &err) ||
                 config_float(&c, "b", 0, 0, 9, &d, &err) ||
                 config_float(&c, "big", 0, 0, 9, &d, &err));
    assert_false(config_bool(&c, "n", 0, &b, &err) || config_str(&c, "b", "", &s, &err) ||
                 config_str(&c, "zero", NULL, &s, &err));
    assert_false(config_ints(&c, "l", &a, &is, &n, &err));
    assert_string_equal(err.msg, "config: l[1] is \"x\", an integer is needed");
    arena_deinit(&a);
}

/* Families ask for some keys and lists once for every layer: how many there are is bounded. */
static void large_sections_are_refused(void **state) {
    (void)state;
    Arena a = {0};
    Buf text = {0};
    Config section;
    buf_put(&text, STR("{\"s\":{\"k\":0"));
    for (int i = 0; i < CONFIG_MAX_KEYS; i++) buf_putf(&text, ",\"k%d\":0", i);
    buf_put(&text, STR("}}"));
    Config c = over_json(&a, buf_cstr(&text));
    Err err = {0};
    assert_false(config_section(&c, "s", &section, &err));
    assert_string_equal(err.msg, "config: s has 4097 keys, at most 4096 are accepted");
    buf_deinit(&text);
    arena_deinit(&a);
}

static void long_lists_are_refused(void **state) {
    (void)state;
    Arena a = {0};
    Buf text = {0};
    const int64_t *is;
    const double *ds;
    const Str *ss;
    size_t n;
    buf_put(&text, STR("{\"l\":[0"));
    for (int i = 1; i < CONFIG_MAX_LIST; i++) buf_put(&text, STR(",0"));
    buf_put(&text, STR("],\"m\":[0"));
    for (int i = 0; i < CONFIG_MAX_LIST; i++) buf_put(&text, STR(",0"));
    buf_put(&text, STR("]}"));
    Config c = over_json(&a, buf_cstr(&text));
    Err err = {0};
    assert_true(config_ints(&c, "l", &a, &is, &n, &err) && n == CONFIG_MAX_LIST);
    assert_false(config_ints(&c, "m", &a, &is, &n, &err) ||
                 config_floats(&c, "m", &a, &ds, &n, &err) ||
                 config_strs(&c, "m", &a, &ss, &n, &err));
    assert_string_equal(err.msg, "config: m has 4097 elements, at most 4096 are accepted");
    assert_int_equal(err.kind, ERR_LIMIT);
    buf_deinit(&text);
    arena_deinit(&a);
}

static void json_sections(void **state) {
    (void)state;
    Arena a = {0};
    Config c = over_json(&a, "{\"model_type\":\"outer\",\"text_config\":{\"model_type\":\"inner\","
                             "\"n\":4},\"none\":null,\"bad\":3}"),
           s;
    Err err = {0};
    assert_true(config_section(&c, "absent|text_config", &s, &err));
    assert_config_int(&s, "n", 4);
    assert_true(str_eqc(s.model_type, "inner") && s.parent == &c && !config_has(&s, "text_config"));
    assert_false(config_section(&c, "none", &s, &err) || config_section(&c, "absent", &s, &err));
    assert_int_equal(err.kind, ERR_NONE);
    assert_false(config_section(&c, "bad", &s, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    arena_deinit(&a);
}

static Gguf *llama_like(void) {
    static const uint32_t heads[] = {4, 4}, kv[] = {2, 1};
    GgufFixture f = {0};
    Gguf *g = NULL;
    fx_key_str(&f, "general.architecture", "x");
    fx_key_u32(&f, "x.embedding_length", 64);
    fx_key_u32(&f, "x.block_count", 3);
    fx_key_u32(&f, "x.nextn_predict_layers", 1);
    fx_key_u32(&f, "x.feed_forward_length", 0);
    fx_key_u32(&f, "x.ssm.inner_size", 128);
    fx_key_array(&f, "x.attention.head_count", GGUF_U32, 2, heads, sizeof heads);
    fx_key_array(&f, "x.attention.head_count_kv", GGUF_U32, 2, kv, sizeof kv);
    fx_key_u32(&f, "x.attention.key_length", 24);
    fx_key_u32(&f, "x.rope.dimension_count", 8);
    fx_key_f32(&f, "x.rope.freq_base", 5e5f);
    fx_key_f32(&f, "x.attention.layer_norm_rms_epsilon", 1e-6f);
    fx_key_u32(&f, "x.attention.sliding_window", 0);
    fx_key_u32(&f, "x.expert_gating_func", 2);
    fx_key_str(&f, "x.rope.scaling.type", "yarn");
    fx_key_f32(&f, "x.rope.scaling.factor", 40);
    fx_key_f32(&f, "x.rope.scaling.yarn_log_multiplier", 0.1f);
    fx_key_u32(&f, "x.rope.scaling.original_context_length", 4096);
    fx_key_array(&f, "tokenizer.ggml.tokens", GGUF_BOOL, 5, "\0\0\0\0\0", 5);
    fx_key_u32(&f, "tokenizer.ggml.eos_token_id", 2);
    fx_key_f32(&f, "general.sampling.temp", 0.6f);
    fx_tensor(&f, "token_embd.weight", 2, 4, 0);
    fx_tensor(&f, "blk.0.attn_q.bias", 0, 4, 0);
    assert_true(fx_gguf_write(&f, fx_path(dir, "a.gguf")) &&
                gguf_open(fx_path(dir, "a.gguf"), &g, NULL));
    return g;
}

static void gguf_answers_hugging_face_names(void **state) {
    (void)state;
    Gguf *g = llama_like();
    Config c = {.gguf = g, .model_type = STR("x")};
    Err err = {0};
    int64_t i;
    bool b;
    assert_config_int(&c, "hidden_size", 64);
    assert_config_int(&c, "n_embd|hidden_size", 64);
    assert_config_int(&c, "num_hidden_layers", 2);
    assert_config_int(&c, "num_nextn_predict_layers", 1);
    assert_config_int(&c, "intermediate_size", 128);
    assert_config_int(&c, "num_attention_heads", 4);
    assert_config_int(&c, "head_dim", 24);
    assert_config_int(&c, "qk_rope_head_dim", 8);
    assert_config_int(&c, "qk_nope_head_dim", 16);
    assert_config_int(&c, "vocab_size", 5);
    assert_config_int(&c, "eos_token_id", 2);
    assert_config_int(&c, ".block_count", 3);
    assert_config_int(&c, "x.block_count", 3);
    assert_config_float(&c, "rope_theta", 5e5);
    assert_config_float(&c, "rms_norm_eps", 1e-6);
    assert_config_float(&c, "partial_rotary_factor", 1.0 / 3);
    assert_config_float(&c, "temperature", 0.6);
    assert_config_str(&c, "scoring_func", "sigmoid");
    assert_true(!config_has(&c, "sliding_window") && !config_has(&c, "hidden_act") &&
                !config_has(&c, ".absent"));
    assert_true(config_bool(&c, "tie_word_embeddings", false, &b, &err) && b);
    assert_true(config_bool(&c, "attention_bias", false, &b, &err) && b);
    assert_true(config_bool(&c, "mlp_bias", true, &b, &err) && !b);
    assert_false(config_int(&c, "num_key_value_heads", 1, 1, 8, &i, &err));
    assert_string_equal(err.msg, "GGUF key x.attention.head_count_kv (num_key_value_heads) is of "
                                 "type array, an integer from 1 to 8 is needed");
    Arena a = {0};
    const int64_t *is;
    size_t n;
    assert_true(config_ints(&c, "num_key_value_heads", &a, &is, &n, &err) && n == 2 && is[1] == 1);
    assert_false(config_int(&c, "max_position_embeddings", CONFIG_REQUIRED, 1, 8, &i, &err));
    assert_string_equal(err.msg,
                        "GGUF metadata: context_length (max_position_embeddings) is missing");
    arena_deinit(&a);
    gguf_close(g);
}

static void gguf_rope_scaling_is_a_section(void **state) {
    (void)state;
    Gguf *g = llama_like();
    Config c = {.gguf = g, .model_type = STR("x")}, s;
    Err err = {0};
    assert_true(config_section(&c, "rope_parameters|rope_scaling", &s, &err));
    assert_config_str(&s, "rope_type|type", "yarn");
    assert_config_float(&s, "factor", 40);
    assert_config_float(&s, "mscale_all_dim", 1);
    assert_config_int(&s, "original_max_position_embeddings", 4096);
    assert_false(config_has(&s, "hidden_size") || config_section(&s, "rope_scaling", &s, &err));
    assert_false(config_section(&c, "text_config", &s, &err));
    c.model_type = STR("other"); /* no keys of that name: no scaling */
    assert_false(config_section(&c, "rope_scaling", &s, &err));
    assert_int_equal(err.kind, ERR_NONE);
    gguf_close(g);
}

static void gguf_older_scalings(void **state) {
    (void)state;
    for (int longrope = 0; longrope < 2; longrope++) {
        GgufFixture f = {0};
        Gguf *g = NULL;
        if (longrope)
            fx_tensor(&f, "rope_factors_long.weight", 0, 8, 1);
        else
            fx_key_f32(&f, "x.rope.scale_linear", 4);
        assert_true(fx_gguf_write(&f, fx_path(dir, "b.gguf")) &&
                    gguf_open(fx_path(dir, "b.gguf"), &g, NULL));
        Config c = {.gguf = g, .model_type = STR("x")}, s;
        assert_true(config_section(&c, "rope_scaling", &s, NULL));
        assert_config_str(&s, "rope_type", longrope ? "longrope" : "linear");
        if (!longrope) assert_config_float(&s, "factor", 4);
        gguf_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_values_and_defaults),
        cmocka_unit_test(wrong_json_is_named),
        cmocka_unit_test(large_sections_are_refused),
        cmocka_unit_test(long_lists_are_refused),
        cmocka_unit_test(json_sections),
        cmocka_unit_test(gguf_answers_hugging_face_names),
        cmocka_unit_test(gguf_rope_scaling_is_a_section),
        cmocka_unit_test(gguf_older_scalings),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
