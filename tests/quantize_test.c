/* Converting: every golden decoder into the two forms that lose nothing, and back through the
 * engine: the reference's logits, or a refusal that says why; one dense model and one of experts in
 * every form, within a band of the float logits; quantized inputs; and what is there after a failure.
 * Reads $MLXCEL_GOLDEN_DIR (tests/data/models.tar.xz, tests/data/quantized.tar.xz). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "ckpt/ckpt_fixture.h"
#include "golden_run.h"
#include "npy.h"
#include "quantize_run.h"

/* ---- nothing is lost where nothing need be ---- */

typedef struct Tally {
    size_t n_same, n_refused, n_bad;
} Tally;

/* band: of the largest difference between what is written and what it was written from. */
static void lossless(const char *dir, Str name, const ConvertOptions *o, double band, Tally *t) {
    char file[2400];
    Arena a = {0};
    QuantizeRun r = {0}, want = {0};
    Err err = {0};
    size_t n;
    snprintf(file, sizeof file, "%s/golden.json", dir);
    const Json *golden = json_of(file, &a, &err);
    const uint32_t *ids = ids_of(json_at(json_get(golden, "tokens"), 0), &a, &n);
    const char *out = quantize_out(o->kind == CONVERT_GGUF ? "all.gguf" : "all");
    if (!quantize_convert(dir, out, o, &err)) {
        bool refused = err.kind == ERR_UNSUPPORTED;
        t->n_refused += refused;
        t->n_bad += !refused;
        if (!refused || getenv("MLXCEL_SHOW"))
            print_message("%.*s: %s\n", (int)name.n, name.p, err.msg);
    } else {
        bool ok =
            quantize_logits(dir, ids, n, &want, &err) && quantize_logits(out, ids, n, &r, &err);
        double off = ok && r.n == want.n ? max_over_rms(r.logits, want.logits, want.n) : INFINITY;
        bool same = ok && off <= band;
        t->n_same += same;
        t->n_bad += !same;
        if (!same)
            print_error("%.*s as %s: off by %.2e %s\n", (int)name.n, name.p, out, off, err.msg);
    }
    arena_deinit(&r.a);
    arena_deinit(&want.a);
    arena_deinit(&a);
}

static Tally all_decoders(const ConvertOptions *o, double band) {
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n;
    Tally t = {0};
    char dir[2200];
    const char *root = quantize_golden("decoder");
    if (!os_list_dir(root, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(dir, sizeof dir, "%s/%.*s", root, (int)names[i].n, names[i].p);
        if (golden_known(dir, NULL)) lossless(dir, names[i], o, band, &t);
    }
    arena_deinit(&a);
    print_message("%zu the same, %zu refused, %zu bad\n", t.n_same, t.n_refused, t.n_bad);
    return t;
}

static void gguf_of_floats_loses_nothing(void **state) {
    (void)state;
    Tally t = all_decoders(&(ConvertOptions){.kind = CONVERT_GGUF, .gguf_type = "F32"}, 1e-3);
    assert_int_equal(t.n_bad, 0);
    assert_true(t.n_same >= 40);
}

static void mlx_of_floats_loses_nothing(void **state) {
    (void)state;
    Tally t = all_decoders(
        &(ConvertOptions){.kind = CONVERT_MLX, .plain = true, .dtype = DTYPE_F32}, 1e-5);
    assert_int_equal(t.n_bad, 0);
    assert_int_equal(t.n_refused, 0);
    assert_true(t.n_same >= 50);
}

/* ---- every form ---- */

typedef struct Form {
    const char *name;
    ConvertOptions o;
    double
        band; /* rms of the difference over the rms of the float logits: dense, twice it: experts */
} Form;

#define MLX(bits_, band)                                                                           \
    { "mlx " #bits_, {.bits = bits_, .group = 32, .mode = QFORMAT_MLX_AFFINE}, band }
#define MODE(mode_, band)                                                                          \
    { #mode_, {.mode = mode_ }, band }
#define PREDICATE(p, band)                                                                         \
    { p, {.mode = QFORMAT_MLX_AFFINE, .group = 32, .predicate = p}, band }
#define GGUF(type, band)                                                                           \
    { type, {.kind = CONVERT_GGUF, .gguf_type = type}, band }

/* Bands: measured on llama, rounded up by a half. One and two bits are noise on random weights. */
static const Form FORMS[] = {
    MLX(1, 20),
    MLX(2, 2),
    MLX(3, 1),
    MLX(4, 0.5),
    MLX(5, 0.25),
    MLX(6, 0.13),
    MLX(8, 0.05),
    MODE(QFORMAT_MLX_MXFP4, 0.6),
    MODE(QFORMAT_MLX_MXFP8, 0.06),
    MODE(QFORMAT_MLX_NVFP4, 0.5),
    PREDICATE("mixed_2_6", 2),
    PREDICATE("mixed_3_4", 1),
    PREDICATE("mixed_3_6", 1),
    PREDICATE("mixed_4_6", 0.5),
    GGUF("F16", 0.002),
    GGUF("BF16", 0.002),
    GGUF("Q8_0", 0.04),
    GGUF("Q5_0", 0.3),
    GGUF("Q5_1", 0.3),
    GGUF("Q4_0", 0.5),
    GGUF("Q4_1", 0.5),
    GGUF("MXFP4", 0.6),
    GGUF("Q2_K", 1),
    GGUF("Q3_K_S", 1),
    GGUF("Q3_K_M", 1),
    GGUF("Q3_K_L", 1),
    GGUF("Q4_K_S", 0.5),
    GGUF("Q4_K_M", 0.5),
    GGUF("q4_k", 0.5),
    GGUF("Q5_K_S", 0.3),
    GGUF("Q5_K_M", 0.3),
    GGUF("Q6_K", 0.04),
};

static void check_form(const char *dir, const Form *f, double times, const uint32_t *ids, size_t n,
                       const float *want) {
    QuantizeRun r = {0};
    Err err = {0};
    const char *out = quantize_out(f->o.kind == CONVERT_GGUF ? "form.gguf" : "form");
    if (!quantize_convert(dir, out, &f->o, &err) || !quantize_logits(out, ids, n, &r, &err))
        fail_msg("%s: %s", f->name, err.msg);
    double off = quantize_rms(r.logits, want, r.n);
    if (getenv("MLXCEL_SHOW"))
        print_message("%s: %.4f, band %.4f\n", f->name, off, f->band * times);
    if (!(off <= f->band * times))
        fail_msg("%s: logits are off by %.3f (rms), %.3f is the band", f->name, off,
                 f->band * times);
    arena_deinit(&r.a);
}

static void every_form_is_near(void **state) {
    (void)state;
    static const char *const MODELS[] = {"decoder/llama", "decoder/mixtral"};
    for (size_t k = 0; k < 2; k++) {
        Arena a = {0};
        Err err = {0};
        Npy want;
        char dir[2200], file[2400];
        size_t n;
        snprintf(dir, sizeof dir, "%s", quantize_golden(MODELS[k]));
        snprintf(file, sizeof file, "%s/golden.json", dir);
        const Json *golden = json_of(file, &a, &err);
        const uint32_t *ids = ids_of(json_at(json_get(golden, "tokens"), 0), &a, &n);
        snprintf(file, sizeof file, "%s/logits.npy", dir);
        if (!npy_load(file, &want, &err)) fail_msg("%s", err.msg);
        /* a row that a near tie sends to other experts is far off whatever the bits */
        double times = k ? 2 : 1;
        for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
            if (!k || FORMS[i].band >= 0.3) check_form(dir, &FORMS[i], times, ids, n, want.data);
        npy_free(&want);
        arena_deinit(&a);
    }
}

/* ---- quantized inputs ---- */

static const uint32_t TOKENS[] = {5, 17, 99, 3, 42, 7, 120, 11};
enum { N_TOKENS = sizeof TOKENS / sizeof *TOKENS };

static void same_logits(const char *a, const char *b, double band) {
    QuantizeRun x = {0}, y = {0};
    Err err = {0};
    char first[2200];
    snprintf(first, sizeof first, "%s", a); /* quantize_golden() has one place */
    if (!quantize_logits(first, TOKENS, N_TOKENS, &x, &err) ||
        !quantize_logits(b, TOKENS, N_TOKENS, &y, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(x.n, y.n);
    double off = quantize_rms(y.logits, x.logits, x.n);
    if (!(off <= band)) fail_msg("%s and %s differ by %.2e, %.2e is the band", first, b, off, band);
    arena_deinit(&x.a);
    arena_deinit(&y.a);
}

/* Whatever the storage form, its decoded weights give the same logits; so do they as a GGUF. */
static void quantized_inputs_are_decoded(void **state) {
    (void)state;
    static const char *const INPUTS[] = {"gptq_4bit_g128_sym",
                                         "gptq_4bit_g32_asym_actorder",
                                         "awq_g64",
                                         "ct_int4_g32_asym",
                                         "ct_nvfp4",
                                         "fp8_block128",
                                         "mlx_3bit_g64",
                                         "mlx_mxfp4",
                                         "modelopt_nvfp4"};
    for (size_t i = 0; i < sizeof INPUTS / sizeof *INPUTS; i++) {
        char name[128], in[2200];
        Err err = {0};
        ConvertReport r;
        snprintf(name, sizeof name, "quantized/%s", INPUTS[i]);
        snprintf(in, sizeof in, "%s", quantize_golden(name));
        const ConvertOptions plain = {
            .kind = CONVERT_MLX, .plain = true, .dtype = DTYPE_F32, .force = true};
        if (!convert_checkpoint(in, quantize_out("plain"), &plain, &r, &err))
            fail_msg("%s", err.msg);
        assert_true(r.was_quantized);
        assert_int_equal(r.n_quantized, 0);
        same_logits(in, quantize_out("plain"), 1e-5);
        const ConvertOptions gguf = {.kind = CONVERT_GGUF, .gguf_type = "F32"};
        if (!quantize_convert(in, quantize_out("plain.gguf"), &gguf, &err)) fail_msg("%s", err.msg);
        same_logits(in, quantize_out("plain.gguf"), 1e-5);
    }
}

/* A GGUF becomes another; a finer type loses nothing of a coarser one's values. */
static void ggufs_are_converted_again(void **state) {
    (void)state;
    Err err = {0};
    ConvertReport r;
    char in[2200], first[256];
    snprintf(in, sizeof in, "%s", quantize_golden("decoder/llama"));
    snprintf(first, sizeof first, "%s", quantize_out("first.gguf"));
    ConvertOptions o = {.kind = CONVERT_GGUF, .gguf_type = "Q4_0"};
    if (!quantize_convert(in, first, &o, &err)) fail_msg("%s", err.msg);
    o.gguf_type = "F32";
    o.force = true;
    if (!convert_checkpoint(first, quantize_out("again.gguf"), &o, &r, &err))
        fail_msg("%s", err.msg);
    assert_true(r.was_quantized);
    same_logits(first, quantize_out("again.gguf"), 1e-6);
}

/* ---- a GGUF becomes an MLX checkpoint ---- */

/* Every decoder that GGUF files can hold, there and back: the reference's logits, though the layout
 * of rows, the names, the norms' offsets and the config are of another kind in between. */
static void mlx_of_ggufs_loses_nothing(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_same = 0;
    char dir[2200], first[256];
    const ConvertOptions gguf = {.kind = CONVERT_GGUF, .gguf_type = "F32"},
                         mlx = {.kind = CONVERT_MLX, .plain = true};
    if (!os_list_dir(quantize_golden("decoder"), &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(dir, sizeof dir, "%s/%.*s", quantize_golden("decoder"), (int)names[i].n,
                 names[i].p);
        snprintf(first, sizeof first, "%s", quantize_out("there.gguf"));
        if (!golden_known(dir, NULL) || !quantize_convert(dir, first, &gguf, &err)) continue;
        if (!quantize_convert(first, quantize_out("back"), &mlx, &err)) {
            if (err.kind != ERR_UNSUPPORTED) fail_msg("%s: %s", dir, err.msg);
            if (getenv("MLXCEL_SHOW")) print_message("%s\n", err.msg);
            err = (Err){0};
            continue;
        }
        same_logits(first, quantize_out("back"), 1e-6);
        n_same++;
    }
    print_message("%zu the same\n", n_same);
    assert_true(n_same >= 20);
    arena_deinit(&a);
}

static void expect_file_has(const char *name, const char *text) {
    Buf b = {0};
    Err err = {0};
    if (!os_read_file(fx_path(quantize_out("mlx"), name), 1 << 26, &b, &err))
        fail_msg("%s", err.msg);
    if (str_find(buf_str(&b), str_c(text), 0) == STR_NPOS) fail_msg("%s has no %s", name, text);
    buf_deinit(&b);
}

/* Quantized ones with their vocabularies: dequantized the logits stay, quantized they are near, and
 * the files that other programs look for are there. */
static void mlx_of_quantized_ggufs(void **state) {
    (void)state;
    static const char *const INPUTS[] = {
        "llama_small_q4_k_m", "llama_mix_q2_k",      "llama_tq1_0",       "qwen2_small_q8_0",
        "qwen3_small_q8_0",   "qwen3moe_small_q8_0", "gemma3_small_q8_0", "phi3_small_q8_0"};
    const ConvertOptions plain = {.kind = CONVERT_MLX, .plain = true, .dtype = DTYPE_F32},
                         eight = {.mode = QFORMAT_MLX_AFFINE, .bits = 8, .group = 32};
    for (size_t i = 0; i < sizeof INPUTS / sizeof *INPUTS; i++) {
        char in[2300];
        Err err = {0};
        snprintf(in, sizeof in, "%s/gguf_%s/model.gguf", quantize_golden("quantized"), INPUTS[i]);
        if (!quantize_convert(in, quantize_out("mlx"), &plain, &err))
            fail_msg("%s: %s", in, err.msg);
        same_logits(in, quantize_out("mlx"), 1e-5);
        expect_file_has("config.json", "\"torch_dtype\": \"float32\"");
        expect_file_has("tokenizer.json", "\"type\":\"BPE\"");
        expect_file_has("tokenizer_config.json", "PreTrainedTokenizerFast");
        expect_file_has("generation_config.json", "{");
        if (!quantize_convert(in, quantize_out("mlx"), &eight, &err))
            fail_msg("%s: %s", in, err.msg);
        same_logits(in, quantize_out("mlx"), 0.08);
        expect_file_has("config.json", "\"quantization\"");
    }
}

/* Rows of 256 columns: K-quants as they are meant, not the types that stand in for them; what was
 * Q2_K before is found again. A split set is read as one. */
static void k_quants_of_whole_blocks(void **state) {
    (void)state;
    static const Form K_FORMS[] = {GGUF("Q2_K", 0.01),   GGUF("Q3_K_S", 0.5),  GGUF("Q3_K_M", 0.5),
                                   GGUF("Q3_K_L", 0.5),  GGUF("Q4_K_S", 0.3),  GGUF("Q4_K_M", 0.3),
                                   GGUF("Q5_K_S", 0.12), GGUF("Q5_K_M", 0.12), GGUF("Q6_K", 0.06)};
    char in[2200], base[256];
    Err err = {0};
    QuantizeRun r = {0};
    snprintf(in, sizeof in, "%s", quantize_golden("quantized/gguf_llama_split"));
    snprintf(base, sizeof base, "%s", quantize_out("base.gguf"));
    const ConvertOptions plain = {.kind = CONVERT_GGUF, .gguf_type = "F32"};
    if (!quantize_convert(in, base, &plain, &err)) fail_msg("%s", err.msg);
    same_logits(in, base, 1e-6);
    snprintf(in, sizeof in, "%s/model.gguf", quantize_golden("quantized/gguf_llama_mix_q2_k"));
    if (!quantize_convert(in, base, &plain, &err)) fail_msg("%s", err.msg);
    if (!quantize_logits(base, TOKENS, N_TOKENS, &r, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof K_FORMS / sizeof *K_FORMS; i++)
        check_form(base, &K_FORMS[i], 1, TOKENS, N_TOKENS, r.logits);
    arena_deinit(&r.a);
}

/* ---- files ---- */

static void shards_have_an_index(void **state) {
    (void)state;
    Err err = {0};
    char in[2200];
    snprintf(in, sizeof in, "%s", quantize_golden("decoder/llama"));
    ConvertOptions o = {.kind = CONVERT_MLX, .plain = true, .shard_bytes = 20000};
    const char *out = quantize_out("shards");
    if (!quantize_convert(in, out, &o, &err)) fail_msg("%s", err.msg);
    assert_true(os_is_file(fx_path(out, "model.safetensors.index.json")));
    assert_false(os_exists(fx_path(out, "model.safetensors")));
    same_logits(in, quantize_out("shards"), 0);
    /* over them: what was there goes, what others put there stays */
    if (!os_write_file(fx_path(out, "notes.md"), STR("mine"), &err)) fail_msg("%s", err.msg);
    o.shard_bytes = 0;
    o.plain = false;
    o.group = 32;
    if (!quantize_convert(in, quantize_out("shards"), &o, &err)) fail_msg("%s", err.msg);
    Arena a = {0};
    Str *names;
    size_t n, n_weights = 0;
    if (!os_list_dir(quantize_out("shards"), &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) n_weights += str_ends(names[i], STR(".safetensors"));
    assert_int_equal(n_weights, 1);
    assert_true(os_is_file(fx_path(quantize_out("shards"), "notes.md")));
    assert_false(os_exists(fx_path(quantize_out("shards"), "model-00001-of-00002.safetensors")));
    arena_deinit(&a);
}

static bool stop_halfway(void *ctx, Str tensor, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)tensor;
    return done * 2 < total;
}

static void expect_refusal(const ConvertOptions *o, ErrKind kind, const char *word) {
    Err err = {0};
    ConvertReport r;
    char in[2200];
    const char *out = quantize_out(o->kind == CONVERT_GGUF ? "new/refused.gguf" : "new/refused");
    snprintf(in, sizeof in, "%s", quantize_golden("decoder/llama"));
    assert_false(convert_checkpoint(in, out, o, &r, &err));
    if (err.kind != kind || !strstr(err.msg, word)) fail_msg("%s: wanted \"%s\"", err.msg, word);
    assert_false(os_exists(out));
}

/* Nothing is there after a failure, neither the result nor a part of it. */
static void failures_leave_nothing(void **state) {
    (void)state;
    Arena a = {0};
    Str *names;
    size_t n;
    Err err = {0};
    assert_int_equal(mkdir(quantize_out("new"), 0777), 0);
    const ConvertOptions stopped[] = {
        {.kind = CONVERT_MLX, .progress = stop_halfway},
        {.kind = CONVERT_GGUF, .gguf_type = "Q8_0", .progress = stop_halfway}};
    for (size_t i = 0; i < 2; i++) expect_refusal(&stopped[i], ERR_CANCELLED, "stopped");
    const struct {
        ConvertOptions o;
        const char *word;
    } WRONG[] = {
        {{.mode = QFORMAT_MLX_AFFINE, .bits = 7}, "7 bits"},
        {{.mode = QFORMAT_MLX_AFFINE, .bits = 9}, "9 bits"},
        {{.mode = QFORMAT_MLX_AFFINE, .group = 48}, "group size 48"},
        {{.mode = QFORMAT_MLX_MXFP4, .bits = 8}, "8 bits"},
        {{.mode = QFORMAT_MLX_NVFP4, .group = 32}, "group size 32"},
        {{.mode = QFORMAT_MLX_AFFINE, .predicate = "mixed_9_9"}, "mixed_9_9"},
        {{.mode = QFORMAT_MLX_MXFP8, .predicate = "mixed_3_6"}, "affine"},
        {{.mode = QFORMAT_MLX_AFFINE, .bits = 4, .predicate = "mixed_3_6"}, "bits"},
        {{.kind = CONVERT_GGUF, .gguf_type = "Q9_9"}, "Q9_9"},
        {{.kind = CONVERT_GGUF, .gguf_type = "IQ2_XS"}, "IQ2_XS"},
        {{.kind = CONVERT_GGUF, .gguf_type = ""}, "\"\""},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        ConvertOptions o = WRONG[i].o;
        expect_refusal(&o, ERR_INPUT, WRONG[i].word);
    }
    if (!os_list_dir(quantize_out("new"), &a, &names, &n, &err)) fail_msg("%s", err.msg);
    if (n) fail_msg("%.*s was left behind", (int)names[0].n, names[0].p);
    arena_deinit(&a);
}

static void what_is_there_is_kept(void **state) {
    (void)state;
    Err err = {0};
    ConvertReport r;
    char in[2200];
    snprintf(in, sizeof in, "%s", quantize_golden("decoder/llama"));
    assert_int_equal(mkdir(quantize_out("full"), 0777), 0);
    const char *file = fx_path(quantize_out("full"), "mine.gguf");
    if (!os_write_file(file, STR("mine"), &err)) fail_msg("%s", err.msg);
    ConvertOptions o = {.kind = CONVERT_MLX, .mode = QFORMAT_MLX_AFFINE};
    assert_false(convert_checkpoint(in, quantize_out("full"), &o, &r, &err));
    assert_non_null(strstr(err.msg, "not empty"));
    o = (ConvertOptions){.kind = CONVERT_GGUF, .gguf_type = "Q8_0"};
    assert_false(convert_checkpoint(in, file, &o, &r, &err));
    assert_non_null(strstr(err.msg, "is there already"));
    assert_false(convert_checkpoint(in, quantize_out("full"), &o, &r, &err));
    assert_non_null(strstr(err.msg, "is a directory"));
    Buf text = {0};
    if (!os_read_file(file, 100, &text, &err)) fail_msg("%s", err.msg);
    assert_true(str_eqc(buf_str(&text), "mine"));
    buf_deinit(&text);
    /* into a directory that is empty, or not there yet */
    assert_int_equal(mkdir(quantize_out("empty"), 0777), 0);
    o = (ConvertOptions){.kind = CONVERT_MLX, .mode = QFORMAT_MLX_AFFINE, .group = 32};
    if (!convert_checkpoint(in, quantize_out("empty"), &o, &r, &err)) fail_msg("%s", err.msg);
    if (!convert_checkpoint(in, quantize_out("a/b/c/"), &o, &r, &err)) fail_msg("%s", err.msg);
    assert_true(os_is_file(quantize_out("a/b/c/model.safetensors")));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gguf_of_floats_loses_nothing),
                                       cmocka_unit_test(mlx_of_floats_loses_nothing),
                                       cmocka_unit_test(every_form_is_near),
                                       cmocka_unit_test(quantized_inputs_are_decoded),
                                       cmocka_unit_test(ggufs_are_converted_again),
                                       cmocka_unit_test(mlx_of_ggufs_loses_nothing),
                                       cmocka_unit_test(mlx_of_quantized_ggufs),
                                       cmocka_unit_test(k_quants_of_whole_blocks),
                                       cmocka_unit_test(shards_have_an_index),
                                       cmocka_unit_test(failures_leave_nothing),
                                       cmocka_unit_test(what_is_there_is_kept)};
    return cmocka_run_group_tests_name("quantize", tests, quantize_begin, quantize_end);
}
