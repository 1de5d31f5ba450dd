/* Encoders: the bytes of gguf-py and MLX for the same rows (tests/data/encode), exact round trips
 * of what a format can hold, and refusals instead of damage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/decode.h"
#include "quant/quant_encode.h"
#include "quant/vector_file.inc.h"

static const DType block_types[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                                    DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_MXFP4};
enum { N_BLOCK_TYPES = sizeof block_types / sizeof *block_types };

static const float *vector_rows(Golden *g, uint64_t *n, uint64_t *k) {
    QPart rows = golden_part(g, "rows");
    *n = rows.shape[0];
    *k = rows.shape[1];
    float *copy = arena_array(&g->arena, float, *n **k);
    memcpy(copy, rows.data, rows.n_bytes);
    return copy;
}

static void test_blocks_equal_gguf_py(void **state) {
    (void)state;
    Golden g;
    Err err = {0};
    uint64_t n, k;
    golden_open(&g, "tests/data/encode/encode.safetensors");
    const float *rows = vector_rows(&g, &n, &k);
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        char name[32];
        snprintf(name, sizeof name, "gguf.%s", dtype_info(block_types[i])->name);
        QPart want = golden_part(&g, name);
        uint8_t *got = mem_alloc(want.n_bytes);
        if (!encode_rows(block_types[i], rows, n, k, got, want.n_bytes, &err))
            fail_msg("%s: %s", name, err.msg);
        assert_memory_equal(got, want.data, want.n_bytes);
        mem_free(got);
    }
    golden_close(&g);
}

/* "mlx_affine.4.64.BF16.weight" -> EncodeMlx; the values of rows are exact in F16, BF16 rounds
 * them first. */
static bool parse_case(Str name, EncodeMlx *e) {
    static const struct {
        const char *mode;
        QFormat format;
    } modes[] = {{"mlx_affine", QFORMAT_MLX_AFFINE},
                 {"mlx_mxfp4", QFORMAT_MLX_MXFP4},
                 {"mlx_mxfp8", QFORMAT_MLX_MXFP8},
                 {"mlx_nvfp4", QFORMAT_MLX_NVFP4}};
    Str rest = name, mode, bits, group, dtype;
    int64_t b = 0, gr = 0;
    if (!str_ends(name, STR(".weight")) || !str_split(&rest, '.', &mode) ||
        !str_split(&rest, '.', &bits) || !str_split(&rest, '.', &group) ||
        !str_split(&rest, '.', &dtype))
        return false;
    assert_true(str_to_i64(bits, &b) && str_to_i64(group, &gr));
    *e = (EncodeMlx){
        .bits = (unsigned)b, .group = (unsigned)gr, .scale_dtype = dtype_from_safetensors(dtype)};
    for (size_t i = 0; i < 4; i++)
        if (str_eqc(mode, modes[i].mode)) e->format = modes[i].format;
    return e->format != QFORMAT_ROWS;
}

static void check_mlx_case(const Golden *g, Str name, const EncodeMlx *e, const float *rows,
                           uint64_t n, uint64_t k) {
    Err err = {0};
    char base[64], part[80];
    snprintf(base, sizeof base, "%.*s", (int)(name.n - 7), name.p);
    float *x = mem_alloc(n * k * 4);
    for (uint64_t i = 0; i < n * k; i++)
        x[i] = e->scale_dtype == DTYPE_BF16 ? fp_bf16_to_f32(fp_f32_to_bf16(rows[i])) : rows[i];
    uint64_t size[3];
    static const char *const parts[3] = {"weight", "scales", "biases"};
    if (!encode_mlx_bytes(e, k, &size[0], &size[1], &size[2], &err))
        fail_msg("%s: %s", base, err.msg);
    uint8_t *out[3];
    for (int i = 0; i < 3; i++) out[i] = mem_calloc(n, size[i]);
    if (!encode_mlx(e, x, n, k, out[0], out[1], size[2] ? out[2] : NULL, &err))
        fail_msg("%s: %s", base, err.msg);
    for (int i = 0; i < 3; i++) {
        snprintf(part, sizeof part, "%s.%s", base, parts[i]);
        QPart want = golden_part(g, part);
        assert_int_equal(want.n_bytes, n * size[i]);
        if (want.n_bytes && memcmp(out[i], want.data, want.n_bytes) != 0)
            fail_msg("%s differs", part);
        mem_free(out[i]);
    }
    mem_free(x);
}

static void test_mlx_equals_mlx(void **state) {
    (void)state;
    Golden g;
    uint64_t n, k;
    int n_cases = 0;
    golden_open(&g, "tests/data/encode/encode.safetensors");
    const float *rows = vector_rows(&g, &n, &k);
    for (size_t i = 0; i < g.header->n; i++) {
        EncodeMlx e;
        if (!parse_case(g.header->items[i].key, &e)) continue;
        check_mlx_case(&g, g.header->items[i].key, &e, rows, n, k);
        n_cases++;
    }
    assert_int_equal(n_cases, 34);
    golden_close(&g);
}

/* Random rows: the error of a round trip is at most half a step (a whole one at Q4_0's and Q5_0's
 * clipped end). */
static void test_round_trip_error_is_bounded(void **state) {
    (void)state;
    enum { K = 256 };
    static const float steps[N_BLOCK_TYPES] = {8, 15, 16, 31, 127, 2}; /* per magnitude or range */
    float x[K], y[K];
    uint8_t bytes[K * 4];
    Err err = {0};
    for (uint32_t seed = 0; seed < 50; seed++)
        for (int t = 0; t < N_BLOCK_TYPES; t++) {
            for (uint32_t i = 0; i < K; i++) x[i] = (float)(rng_uniform(seed, 0, i, 0) * 2 - 1);
            uint64_t n_bytes;
            assert_true(dtype_bytes(block_types[t], K, K, &n_bytes, &err));
            assert_true(encode_rows(block_types[t], x, 1, K, bytes, n_bytes, &err));
            assert_true(decode_rows(block_types[t], bytes, n_bytes, 1, K, y, &err));
            float step =
                (block_types[t] == DTYPE_Q4_1 || block_types[t] == DTYPE_Q5_1 ? 2 : 1) / steps[t];
            for (int i = 0; i < K; i++) assert_true(fabsf(x[i] - y[i]) <= step * 1.01f);
        }
}

/* K-quants: on normal rows the error, relative to the rows, is no more than the format's own tool
 * leaves (measured: 0.2932, 0.1492, 0.0704, 0.0357, 0.0175); zeros and constants come back. */
static void test_k_quants_are_near(void **state) {
    (void)state;
    enum { K = 256, N = 64 };
    static const struct {
        DType type;
        double worst;
    } kinds[] = {{DTYPE_Q2_K, 0.2932},
                 {DTYPE_Q3_K, 0.1492},
                 {DTYPE_Q4_K, 0.0704},
                 {DTYPE_Q5_K, 0.0357},
                 {DTYPE_Q6_K, 0.0175}};
    static float x[N * K], y[N * K];
    static uint8_t bytes[N * 210];
    Err err = {0};
    for (uint32_t i = 0; i < N * K; i++) {
        double sum = -6;
        for (uint32_t j = 0; j < 12; j++) sum += rng_uniform(7, j, i, 0);
        x[i] = (float)(sum * 0.02);
    }
    for (size_t t = 0; t < sizeof kinds / sizeof *kinds; t++) {
        uint64_t n_bytes;
        double wrong = 0, all = 0;
        assert_true(dtype_bytes(kinds[t].type, N * K, K, &n_bytes, &err));
        assert_true(encode_rows(kinds[t].type, x, N, K, bytes, n_bytes, &err));
        assert_true(decode_rows(kinds[t].type, bytes, n_bytes, N, K, y, &err));
        for (int i = 0; i < N * K; i++) {
            wrong += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
            all += (double)x[i] * x[i];
        }
        assert_true(sqrt(wrong / all) <= kinds[t].worst);
        assert_true(sqrt(wrong / all) >= kinds[t].worst / 2);
        for (int k = 0; k < 3; k++) {
            float flat[K], back[K];
            for (int i = 0; i < K; i++) flat[i] = (float)(k - 1) * 0.75f;
            n_bytes /= N;
            assert_true(encode_rows(kinds[t].type, flat, 1, K, bytes, n_bytes, &err));
            assert_true(decode_rows(kinds[t].type, bytes, n_bytes, 1, K, back, &err));
            for (int i = 0; i < K; i++) assert_true(fabsf(flat[i] - back[i]) < 1e-3f);
            n_bytes *= N;
        }
    }
}

static void mlx_round_trip(const EncodeMlx *e, const float *x, uint64_t k, float *y) {
    Err err = {0};
    uint8_t w[512], s[64], b[64];
    uint64_t nw, ns, nb;
    assert_true(encode_mlx_bytes(e, k, &nw, &ns, &nb, &err));
    assert_true(nw <= sizeof w && ns <= sizeof s);
    assert_true(encode_mlx(e, x, 1, k, w, s, nb ? b : NULL, &err));
    QMatrix m = {.format = e->format, .n = 1, .k = k, .bits = e->bits, .group = e->group};
    DType st = nb ? e->scale_dtype : DTYPE_U8;
    const uint64_t ws[2] = {1, nw / 4}, ss[2] = {1, ns / dtype_info(st)->block_bytes};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_U32, 2, ws, w, nw);
    m.part[QPART_SCALE] = qpart_of(st, 2, ss, s, ns);
    if (nb) m.part[QPART_ZERO] = qpart_of(st, 2, ss, b, nb);
    if (!decode_matrix(&m, 0, 1, y, &err)) fail_msg("%s", err.msg);
}

/* Values on a format's own lattice come back bit for bit. */
static void test_lattice_is_exact(void **state) {
    (void)state;
    enum { K = 128 };
    float x[K], y[K];
    for (unsigned bits = 2; bits <= 8; bits++) {
        if (bits == 7) continue;
        EncodeMlx e = {
            .format = QFORMAT_MLX_AFFINE, .bits = bits, .group = 64, .scale_dtype = DTYPE_F16};
        for (unsigned i = 0; i < K; i++)
            x[i] = 0.5f * (float)(i % (1u << bits)) - (float)(1u << bits) * 0.25f;
        x[0] = x[64] = -0.25f * (float)(1u << bits);
        x[1] = x[65] = -x[0] - 0.5f;
        mlx_round_trip(&e, x, K, y);
        assert_memory_equal(x, y, sizeof x);
    }
    static const QFormat fp4[] = {QFORMAT_MLX_MXFP4, QFORMAT_MLX_NVFP4, QFORMAT_MLX_MXFP8};
    for (int f = 0; f < 3; f++) {
        EncodeMlx e = {.format = fp4[f], .scale_dtype = DTYPE_F32};
        for (unsigned i = 0; i < K; i++)
            x[i] = fp_e2m1_to_f32((uint8_t)(i % 15 == 8 ? 7 : i % 15)) * 4 + 0.0f;
        for (unsigned i = 0; i < K; i += 16) x[i] = 24; /* every group reaches the top */
        mlx_round_trip(&e, x, K, y);
        assert_memory_equal(x, y, sizeof x);
    }
}

static void expect_refusal(DType t, const float *x, ErrKind kind) {
    uint8_t out[256];
    uint64_t n_bytes;
    Err err = {0};
    assert_true(dtype_bytes(t, 32, 32, &n_bytes, &err));
    assert_false(encode_rows(t, x, 1, 32, out, n_bytes, &err));
    assert_int_equal(err.kind, kind);
}

static void test_refusals(void **state) {
    (void)state;
    float x[256] = {0};
    uint8_t out[1024], scales[64];
    Err err = {0};
    for (int t = 0; t < N_BLOCK_TYPES; t++) {
        x[31] = NAN;
        expect_refusal(block_types[t], x, ERR_INPUT);
        x[31] = -INFINITY;
        expect_refusal(block_types[t], x, ERR_INPUT);
        x[31] = 1e30f;
        if (block_types[t] != DTYPE_MXFP4) expect_refusal(block_types[t], x, ERR_INPUT);
    }
    expect_refusal(DTYPE_F16, x, ERR_INPUT);
    x[31] = 0;
    assert_false(encode_rows(DTYPE_Q1_0, x, 1, 256, out, 36, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
    x[200] = NAN;
    assert_false(encode_rows(DTYPE_Q6_K, x, 1, 256, out, 210, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    x[200] = 1e30f;
    assert_false(encode_rows(DTYPE_Q6_K, x, 1, 256, out, 210, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    x[200] = 0;
    assert_false(encode_rows(DTYPE_Q8_0, x, 1, 33, out, 34, &err));
    assert_false(encode_rows(DTYPE_Q8_0, x, 1, 32, out, 33, &err));
    EncodeMlx e = {.format = QFORMAT_MLX_AFFINE, .bits = 7, .group = 64, .scale_dtype = DTYPE_F16};
    assert_false(encode_mlx(&e, x, 1, 64, out, scales, scales, &err));
    e.bits = 4;
    assert_false(encode_mlx(&e, x, 1, 96, out, scales, scales, &err));
    e.group = 48;
    assert_false(encode_mlx(&e, x, 1, 96, out, scales, scales, &err));
    e = (EncodeMlx){.format = QFORMAT_MLX_NVFP4, .scale_dtype = DTYPE_F32};
    x[5] = 2800; /* above 464 * 6: would be cut to 2688 */
    assert_false(encode_mlx(&e, x, 1, 16, out, scales, NULL, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    e.format = QFORMAT_GPTQ;
    assert_false(encode_mlx(&e, x, 1, 32, out, scales, NULL, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_equal_gguf_py),
        cmocka_unit_test(test_mlx_equals_mlx),
        cmocka_unit_test(test_round_trip_error_is_bounded),
        cmocka_unit_test(test_k_quants_are_near),
        cmocka_unit_test(test_lattice_is_exact),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
