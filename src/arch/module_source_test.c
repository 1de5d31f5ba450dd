/* From tensors and settings to sources: what decides the format, what is inferred, what must agree,
 * and that every refusal names the tensor. Checkpoints are written here; their bytes do not
 * matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/module_source.h"
#include "ckpt/ckpt_fixture.h"

typedef struct Case {
    const char *quantization; /* the config's section, or NULL */
    const char *tensors;      /* of module "m.p": "weight U32 64 16, scales F16 64 2" */
    QFormat format;
    unsigned bits, group; /* of the form; 0: not looked at */
    const char *error;    /* a piece of the message; NULL: accepted */
} Case;

#define MLX(rest) "{\"bits\":4,\"group_size\":64" rest "}"
#define GPTQ(rest) "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64" rest "}"
#define AWQ(rest) "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64" rest "}"
#define CT(targets, weights)                                                                       \
    "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"g\":{\"targets\":" targets      \
    ",\"weights\":" weights "}}}"
#define INT4_64 "{\"num_bits\":4,\"type\":\"int\",\"strategy\":\"group\",\"group_size\":64}"
#define INT8_ROW "{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"channel\"}"

#define AFFINE4 "weight U32 64 16, scales F16 64 2, biases F16 64 2"
#define AFFINE8 "weight U32 64 32, scales F16 64 2, biases F16 64 2"
#define GPTQ4 "qweight I32 16 64, qzeros I32 2 8, scales F16 2 64"
#define PACKED4 "weight_packed I32 64 16, weight_scale BF16 64 2"

/* All of a [64, 128] matrix. */
static const Case CASES[] = {
    {NULL, "weight F16 64 128", QFORMAT_ROWS, 0, 0, NULL},
    {NULL, "weight F16 64 64", 0, 0, 0,
     "tensor m.p.weight has shape [64, 64], the config asks for [64, 128]"},
    {NULL, "weight I64 64 128", 0, 0, 0, "tensor m.p.weight has type I64"},
    {NULL, "other F16 64 128", 0, 0, 0, "tensor m.p.weight is missing"},
    /* MLX */
    {MLX(""), AFFINE4, QFORMAT_MLX_AFFINE, 4, 64, NULL},
    {MLX(""), AFFINE8, QFORMAT_MLX_AFFINE, 8, 64, NULL}, /* an odd module without an entry */
    {NULL, AFFINE4, QFORMAT_MLX_AFFINE, 4, 64, NULL},    /* the tensors decide */
    {MLX(",\"m.p\":false"), AFFINE4, QFORMAT_MLX_AFFINE, 4, 64, NULL},
    {MLX(",\"m.p\":{\"bits\":8,\"group_size\":64}"), AFFINE8, QFORMAT_MLX_AFFINE, 8, 64, NULL},
    {MLX(",\"m.p\":{\"bits\":8,\"group_size\":64}"), AFFINE4, 0, 0, 0,
     "tensor m.p.weight: the config says mlx affine, 8 bits"},
    {MLX(",\"m.p\":{\"bits\":4,\"group_size\":32}"), AFFINE4, 0, 0, 0,
     "tensor m.p.weight: the config says mlx affine, 4 bits, groups of 32"},
    {MLX(",\"m.p\":{\"bits\":4,\"group_size\":32}"), "weight U32 64 16, scales U8 64 4", 0, 0, 0,
     "the config says mlx affine"},
    {MLX(",\"m.p\":{\"mode\":\"mxfp4\"}"), "weight U32 64 16, scales U8 64 4", QFORMAT_MLX_MXFP4, 4,
     32, NULL},
    {MLX(",\"mode\":\"affine\""), "weight U32 64 16, scales U8 64 8", QFORMAT_MLX_NVFP4, 4, 16,
     NULL},
    {MLX(""), "weight U32 64 32, scales U8 64 4", QFORMAT_MLX_MXFP8, 8, 32, NULL},
    {MLX(""), "weight U32 64 32, scales U8 64 8", 0, 0, 0,
     "tensor m.p.weight: 32 words and 8 scales"},
    {MLX(""), "weight U32 64 16, scales F16 64 2", 0, 0, 0, "biases is missing"},
    {MLX(""), "weight U32 64 16, scales F16 64 1, biases F16 64 2", 0, 0, 0,
     "tensor m.p.weight: mlx"},
    {MLX(""), "weight U32 64 28, scales F16 64 2, biases F16 64 2", 0, 0, 0,
     "tensor m.p.weight: mlx: 7 bits"},
    {MLX(""), "weight U32 64 16", 0, 0, 0, "tensor m.p.weight has type U32"},
    {"{\"bits\":7,\"group_size\":64}", "weight F16 64 128", 0, 0, 0, "bits is 7"},
    {"{\"bits\":4,\"group_size\":48}", "weight F16 64 128", 0, 0, 0, "group_size is 48"},
    {"{\"bits\":4,\"group_size\":32,\"mode\":\"x\"}", "weight F16 64 128", 0, 0, 0,
     "mode is \"x\""},
    {"{\"bits\":4,\"group_size\":32,\"m.q\":{\"bits\":9}}", "weight F16 64 128", 0, 0, 0,
     "quantization: m.q: bits is 9"},
    /* GPTQ */
    {GPTQ(""), GPTQ4, QFORMAT_GPTQ, 4, 64, NULL},
    {GPTQ(",\"checkpoint_format\":\"marlin\""), GPTQ4, 0, 0, 0, "checkpoint_format is \"marlin\""},
    {GPTQ(",\"is_marlin_format\":true"), GPTQ4, 0, 0, 0, "is_marlin_format is true"},
    {GPTQ(",\"dynamic\":{\"+:m\\\\.[pq]$\":{\"bits\":8}}"),
     "qweight I32 32 64, qzeros I32 2 16, scales F16 2 64", QFORMAT_GPTQ, 8, 64, NULL},
    {GPTQ(",\"dynamic\":{\"m\\\\.[pq]$\":{\"bits\":8}}"), GPTQ4, 0, 0, 0,
     "tensor m.p.qweight (8 bits by m\\.[pq]$)"},
    {GPTQ(",\"dynamic\":{\"-:m.p\":{}}"), "weight F16 64 128", QFORMAT_ROWS, 0, 0, NULL},
    {GPTQ(",\"dynamic\":{\"(\":{\"bits\":8}}"), GPTQ4, 0, 0, 0, "pattern \"(\""},
    {GPTQ(""), "qweight I32 32 64, qzeros I32 2 16, scales F16 2 64", 0, 0, 0,
     "tensor m.p.qweight (4 bits by quantization_config)"},
    {"{\"quant_method\":\"gptq\",\"bits\":5,\"group_size\":64}", GPTQ4, 0, 0, 0, "bits is 5"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1}",
     "qweight I32 16 64, qzeros I32 1 8, scales F16 1 64", QFORMAT_GPTQ, 4, 128, NULL},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1}", GPTQ4, 0, 0, 0,
     "tensor m.p.qweight"},
    {NULL, GPTQ4, 0, 0, 0, "tensor m.p.qweight: the quantization method of the config is none"},
    {GPTQ(""), "qweight I32 16 64, qzeros I32 2 8", 0, 0, 0, "scales is missing"},
    /* AWQ */
    {AWQ(",\"version\":\"gemm\""), "qweight I32 128 8, qzeros I32 2 8, scales F16 2 64",
     QFORMAT_AWQ, 4, 64, NULL},
    {AWQ(",\"version\":\"gemv\""), "qweight I32 128 8, qzeros I32 2 8, scales F16 2 64", 0, 0, 0,
     "version is \"gemv\""},
    {AWQ(",\"format\":\"gemv_fast\""), "qweight I32 128 8, qzeros I32 2 8, scales F16 2 64", 0, 0,
     0, "format is \"gemv_fast\""},
    {AWQ(""), "qweight I32 128 8, qzeros I32 4 8, scales F16 4 64", 0, 0, 0, "tensor m.p.qweight"},
    {"{\"quant_method\":\"awq\",\"w_bit\":8}", "weight F16 64 128", 0, 0, 0, "bits is 8"},
    /* compressed-tensors */
    {CT("[\"Linear\"]", INT4_64), PACKED4, QFORMAT_CT_PACKED, 4, 64, NULL},
    {CT("[\"Linear\"]", INT4_64), PACKED4 ", weight_shape I64 2", 0, 0, 0,
     "tensor m.p.weight_shape holds"},
    {CT("[\"re:.*\\\\.q$\"]", INT4_64), "weight_packed I32 64 32, weight_scale BF16 64 1",
     QFORMAT_CT_PACKED, 8, 128, NULL},
    {CT("[\"Linear\"]", INT4_64), "weight_packed I32 64 32, weight_scale BF16 64 1", 0, 0, 0,
     "tensor m.p.weight_packed (4 bits by g)"},
    {CT("[\"m.p\"]", INT8_ROW), "weight I8 64 128, weight_scale BF16 64 1", QFORMAT_CT_INT, 8, 128,
     NULL},
    {CT("[\"m.p\"]", INT4_64), "weight I8 64 128, weight_scale BF16 64 2", QFORMAT_CT_INT, 8, 64,
     NULL},
    {"{\"quant_method\":\"compressed-tensors\",\"format\":\"mxfp8-quantized\"}",
     "weight F8_E4M3 64 128, weight_scale U8 64 4", QFORMAT_FP8, 8, 32, NULL},
    {CT("[\"m.p\"]", INT4_64), "weight F8_E4M3 64 128, weight_scale BF16 64 1", 0, 0, 0,
     "tensor m.p.weight has type F8_E4M3, the config says 4 bits"},
    {CT("[\"Linear\"]",
        "{\"num_bits\":4,\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32}"),
     "weight_packed U8 64 64, weight_scale U8 64 4", QFORMAT_CT_MXFP4, 4, 32, NULL},
    {CT("[\"Linear\"]",
        "{\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":16}"),
     "weight_packed U8 64 64, weight_scale F8_E4M3 64 8, weight_global_scale F32 1",
     QFORMAT_CT_NVFP4, 4, 16, NULL},
    {"{\"quant_method\":\"compressed-tensors\",\"format\":\"marlin-24\"}", "weight F16 64 128", 0,
     0, 0, "format is \"marlin-24\""},
    {"{\"quant_method\":\"compressed-tensors\",\"sparsity_config\":{\"format\":\"sparse-bitmask\"}"
     "}",
     "weight F16 64 128", 0, 0, 0, "sparsity_config: format"},
    {CT("7", INT4_64), "weight F16 64 128", 0, 0, 0, "targets is number"},
    /* fp8, ModelOpt, BitNet, bitsandbytes */
    {NULL, "weight F8_E4M3 64 128", QFORMAT_FP8, 8, 0, NULL},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[48,64]}",
     "weight F8_E4M3 64 128, weight_scale_inv F32 2 2", QFORMAT_FP8, 8, 64, NULL},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32]}",
     "weight F8_E4M3 64 128, weight_scale_inv F32 2 2", 0, 0, 0, "tensor m.p.weight: fp8"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,64]}", "weight F16 64 128", 0, 0, 0,
     "weight_block_size is array"},
    {"{\"quant_method\":\"fp8\"}", "weight F8_E4M3 64 128, weight_scale F32, input_scale F32",
     QFORMAT_FP8, 8, 128, NULL},
    {"{\"quant_method\":\"fp8\",\"scale_fmt\":\"ue8m0\",\"weight_block_size\":[32,32]}",
     "weight F8_E4M3 64 128, scale F8_E8M0 2 4", QFORMAT_FP8, 8, 32, NULL},
    {"{\"quant_method\":\"fp8\"}", "weight F8_E4M3 64 128, weight_scale_inv F32 64 1", QFORMAT_FP8,
     8, 128, NULL}, /* blocks of 128 unless the scales say otherwise */
    {"{\"quant_method\":\"fp8\"}", "weight I8 64 64, scale F8_E8M0 64 4", QFORMAT_CT_MXFP4, 4, 32,
     NULL},
    {MLX(""), "weight I8 64 64, scale F8_E8M0 64 4", 0, 0, 0, "tensor m.p.weight has"},
    {"{\"quant_method\":\"fp8\"}",
     "weight F8_E4M3 64 128, qscale_weight F32, qscale_act F32, activation_scale F32", QFORMAT_FP8,
     8, 128, NULL},
    {"{\"quant_method\":\"fp8\",\"weight_scale_semantics\":\"inverse\"}", "weight F16 64 128", 0, 0,
     0, "weight_scale_semantics is \"inverse\""},
    {"{\"quant_algo\":\"FP8_PB_WO\"}", "weight F8_E4M3 64 128, weight_scale F32 1 1 1 1",
     QFORMAT_FP8, 8, 128, NULL},
    {"{\"quant_algo\":\"NVFP4\"}", "weight U8 64 64, weight_scale F8_E4M3 64 8, weight_scale_2 F32",
     QFORMAT_MODELOPT_NVFP4, 4, 16, NULL},
    {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8_AWQ\"}", "weight F16 64 128", 0, 0, 0,
     "quant_algo is \"W4A8_AWQ\""},
    {"{\"quant_method\":\"bitnet\"}", "weight U8 16 128, weight_scale BF16 1", QFORMAT_BITNET, 2,
     128, NULL},
    {"{\"quant_method\":\"bitnet\",\"linear_class\":\"x\"}", "weight F16 64 128", 0, 0, 0,
     "linear_class is \"x\""},
    {MLX(""), "weight U8 16 128, weight_scale BF16 1", 0, 0, 0, "tensor m.p.weight has type U8"},
    {"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}",
     "weight I8 64 128, SCB F32 64, weight_format U8", QFORMAT_BNB_INT8, 8, 128, NULL},
    {"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}", "weight I8 64 128, SCB F32 32", 0,
     0, 0, "tensor m.p.weight: bitsandbytes int8: SCB has 32"},
    {"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}",
     "weight I8 64 128, SCB F32 64, weight_format I32 1", 0, 0, 0, "m.p.weight_format"},
    {"{\"quant_method\":\"bitsandbytes\"}",
     "weight U8 4096 1, weight.absmax F32 128, weight.quant_map F32 16", QFORMAT_BNB_NF4, 4, 64,
     NULL},
    {"{\"quant_method\":\"bitsandbytes\"}",
     "weight U8 4096 1, weight.absmax F32 64, weight.quant_map F32 16", 0, 0, 0,
     "tensor m.p.weight: bitsandbytes"},
    {"{\"quant_method\":\"nonesuch\"}", "weight F16 64 128", 0, 0, 0,
     "quant_method is \"nonesuch\""},
    {"{\"quant_method\":7}", "weight F16 64 128", 0, 0, 0, "quant_method is 7"},
    {"{}", "weight F16 64 128", 0, 0, 0, "has no quant_method"},
};

/* "weight U32 64 16, ..." to a safetensors header; the data is 0, 1, 2, ... */
static void tensors_write(const char *path, const char *tensors) {
    Buf header = {0};
    uint64_t at = 0;
    Str rest = str_c(tensors), one;
    buf_putc(&header, '{');
    while (str_split(&rest, ',', &one)) {
        Str words = str_trim(one), name = STR_NONE, type = STR_NONE, dim;
        uint64_t bytes, n;
        assert_true(str_split(&words, ' ', &name) && str_split(&words, ' ', &type));
        DType t = dtype_from_safetensors(type);
        assert_int_not_equal(t, DTYPE_NONE);
        bytes = dtype_info(t)->block_bytes;
        buf_putf(&header, "%s\"m.p.%.*s\":{\"dtype\":\"%.*s\",\"shape\":[", at ? "," : "",
                 (int)name.n, name.p, (int)type.n, type.p);
        for (bool first = true; str_split(&words, ' ', &dim); first = false) {
            assert_true(str_to_u64(dim, &n));
            bytes *= n;
            buf_putf(&header, "%s%llu", first ? "" : ",", (unsigned long long)n);
        }
        buf_putf(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                 (unsigned long long)(at + bytes));
        at += bytes;
    }
    buf_putc(&header, '}');
    assert_true(fx_safetensors_write(path, buf_cstr(&header), at));
    buf_deinit(&header);
}

static bool take(const Checkpoint *ck, const QuantConfig *q, Arena *a, WeightSource *out,
                 Err *err) {
    const ModuleFinder f = {
        .ck = ck, .config = q, .used = arena_array(a, bool, ck->n_tensors + 1), .a = a};
    if (!modsource_matrix(&f, STR("m.p"), false, 1, 64, 128, out, err)) return false;
    for (size_t i = 0; i < ck->n_tensors; i++)
        if (!f.used[i]) fail_msg(STR_F " was not taken", STR_A(ck->tensors[i].name));
    /* The parts can be read. */
    float *rows = arena_array(a, float, 64 * 128);
    WeightScratch sc = {0};
    bool ok = wsource_f32(out, 0, 64, rows, &sc, err);
    wsource_scratch_deinit(&sc);
    return ok;
}

static void check_case(const char *dir, const Case *c) {
    Arena a = {0};
    Err err = {0};
    Checkpoint *ck;
    QuantConfig q;
    WeightSource s;
    Buf config = {0};
    buf_putf(&config, "{\"model_type\":\"llama\"%s%s}",
             c->quantization ? ",\"quantization_config\":" : "",
             c->quantization ? c->quantization : "");
    assert_true(os_write_file(fx_path(dir, "config.json"), buf_str(&config), &err));
    buf_deinit(&config);
    tensors_write(fx_path(dir, "model.safetensors"), c->tensors);
    if (!checkpoint_open(dir, &ck, &err)) fail_msg("%s", err.msg);
    bool ok = quantconfig_read(&q, ck, &a, &err) && take(ck, &q, &a, &s, &err);
    if (ok != !c->error)
        fail_msg("%s | %s: %s", c->quantization ? c->quantization : "", c->tensors,
                 ok ? "accepted" : err.msg);
    if (!ok && !strstr(err.msg, c->error))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, c->error);
    if (ok) {
        assert_int_equal(s.m.format, c->format);
        if (c->bits) assert_int_equal(s.form->bits, c->bits);
        if (c->group) assert_int_equal(s.form->group, c->group);
    }
    checkpoint_close(ck);
    arena_deinit(&a);
}

static void tensors_decide_and_config_agrees(void **state) {
    (void)state;
    char dir[] = "/tmp/mlxcel_modules_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) check_case(dir, &CASES[i]);
    fx_remove_dir(dir);
}

/* A stack of two [32, 128] that is a parameter, with a scale for each, for blocks, for all. */
static void stacks_of_fp8_have_their_scales_beside_them(void **state) {
    (void)state;
    static const char *const SCALES[] = {"e_scale_inv F32 2 1 1", "e_scale_inv BF16 2 2 4",
                                         "e_scale F32", "e_scale_inv F32 3"};
    char dir[] = "/tmp/mlxcel_modules_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++) {
        Arena a = {0};
        Err err = {0};
        Checkpoint *ck;
        QuantConfig q;
        WeightSource s;
        Buf tensors = {0};
        buf_putf(&tensors, "e F8_E4M3 2 32 128, %s, e_activation_scale F32 2", SCALES[i]);
        assert_true(os_write_file(fx_path(dir, "config.json"),
                                  STR("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_"
                                      "method\":\"fp8\",\"weight_block_size\":[16,32]}}"),
                                  &err));
        tensors_write(fx_path(dir, "model.safetensors"), buf_cstr(&tensors));
        buf_deinit(&tensors);
        if (!checkpoint_open(dir, &ck, &err) || !quantconfig_read(&q, ck, &a, &err))
            fail_msg("%s", err.msg);
        const ModuleFinder f = {.ck = ck, .config = &q, .used = arena_array(&a, bool, 4), .a = &a};
        bool ok = modsource_stack_rows(&f, STR("m.p.e"), false, 2, 32, 128, &s, &err);
        assert_int_equal(ok, i < 3);
        if (ok)
            assert_true(f.used[0] && f.used[1] && f.used[2] && s.m.format == QFORMAT_FP8 &&
                        s.n == 64 && s.form->group == (i == 1 ? 32 : 128));
        else
            assert_non_null(strstr(err.msg, "tensor m.p.e"));
        checkpoint_close(ck);
        arena_deinit(&a);
    }
    fx_remove_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_decide_and_config_agrees),
        cmocka_unit_test(stacks_of_fp8_have_their_scales_beside_them)};
    return cmocka_run_group_tests_name("module_source", tests, NULL, NULL);
}
