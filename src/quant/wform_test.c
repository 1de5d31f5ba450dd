/* The weight form where the golden vectors do not reach: older and rarer layouts, expert stacks,
 * odd groups, and parts that lie about each other. Expected values are computed here from the
 * formula, element by element. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "quant/form_check.inc.h"

enum { MAX = 4096 };

typedef struct Parts { /* room for the tensors of one small matrix */
    uint32_t words[MAX];
    uint32_t zeros[MAX];
    uint32_t g_idx[MAX];
    float scales[MAX];
    uint8_t bytes[MAX];
    int8_t zeros8[MAX];
    float got[MAX];
} Parts;

static Parts parts;

static QPart part2(DType t, uint64_t rows, uint64_t cols, const void *data) {
    const uint64_t shape[2] = {rows, cols};
    return qpart_of(t, 2, shape, data, rows * cols * dtype_info(t)->block_bytes);
}

static QPart part1(DType t, uint64_t n, const void *data) {
    return qpart_of(t, 1, &n, data, n * dtype_info(t)->block_bytes);
}

static void decode_and_check_form(const QMatrix *m) {
    Err err = {0};
    if (!decode_matrix(m, 0, m->n, parts.got, &err)) fail_msg("%s", err.msg);
    check_form(qformat_name(m->format), *m, parts.got, 3);
}

static WForm form_of(QMatrix m, Arena *a) {
    Err err = {0};
    WForm wf;
    if (!wform_init(&wf, &m, a, &err)) fail_msg("%s", err.msg);
    return wf;
}

static void put_bits(uint32_t *words, uint64_t bit, unsigned v) {
    words[bit / 32] |= v << bit % 32;
    if (bit % 32 && v >> (32 - bit % 32)) words[bit / 32 + 1] |= v >> (32 - bit % 32);
}

static unsigned code_of(uint64_t n, uint64_t k, unsigned bits) {
    return (unsigned)(n * 7 + k * 5 + k / 9) % (1u << bits);
}

/* compressed-tensors, `per` codes per word (0: dense), scales f32 [n, groups]. */
static QMatrix ct_matrix(uint64_t n, uint64_t k, unsigned bits, unsigned group, unsigned per) {
    memset(&parts, 0, sizeof parts);
    uint64_t words = per ? (k + per - 1) / per : (k * bits + 31) / 32,
             groups = (k + group - 1) / group;
    assert_true(n * words <= MAX && n * groups <= MAX && n * k <= MAX);
    for (uint64_t i = 0; i < n * k; i++) {
        uint64_t r = i / k, c = i % k, bit = per ? c / per * 32 + c % per * bits : c * bits;
        put_bits(parts.words + r * words, bit, code_of(r, c, bits));
    }
    for (uint64_t i = 0; i < n * groups; i++) parts.scales[i] = 0.25f * (float)(i % 13) - 1;
    QMatrix m = {.format = QFORMAT_CT_PACKED, .n = n, .k = k, .bits = bits, .group = group};
    m.part[QPART_WEIGHT] = part2(DTYPE_I32, n, words, parts.words);
    m.part[QPART_SCALE] = part2(DTYPE_F32, n, groups, parts.scales);
    return m;
}

static void expect_ct(const QMatrix *m, const int *zero_of_row) {
    uint64_t groups = (m->k + m->group - 1) / m->group;
    for (uint64_t i = 0; i < m->n * m->k; i++) {
        uint64_t n = i / m->k, k = i % m->k;
        int code = (int)code_of(n, k, m->bits),
            zero = zero_of_row ? zero_of_row[n] : 1 << (m->bits - 1);
        float want = parts.scales[n * groups + k / m->group] * (float)(code - zero);
        if (parts.got[i] != want)
            fail_msg("[%d, %d] is %g, not %g", (int)n, (int)k, (double)parts.got[i], (double)want);
    }
}

static void test_ct_widths_layouts_and_groups(void **state) {
    (void)state;
    for (unsigned bits = 2; bits <= 8; bits++)
        for (unsigned per = 0; per <= 32 / bits; per += 32 / bits) {
            QMatrix m = ct_matrix(5, 192, bits, 64, per);
            decode_and_check_form(&m);
            expect_ct(&m, NULL);
        }
    static const struct {
        unsigned k, group, kernel_group;
    } groups[] = {{192, 48, 16}, {192, 96, 96}, {1024, 512, 512},
                  {100, 32, 32}, {200, 64, 64}, {192, 192, 192}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        QMatrix m = ct_matrix(3, groups[i].k, 4, groups[i].group, 0);
        decode_and_check_form(&m);
        expect_ct(&m, NULL);
        Arena a = {0};
        assert_int_equal(form_of(m, &a).group, groups[i].kernel_group);
        arena_deinit(&a);
    }
}

/* Groups no kernel takes: a scale for each column. */
static void test_groups_of_no_kernel(void **state) {
    (void)state;
    static const unsigned GROUPS[] = {1, 8, 24, 40, 63};
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        QMatrix m = ct_matrix(4, 64, 4, GROUPS[i], 0);
        Arena a = {0};
        WForm wf = form_of(m, &a);
        assert_int_equal(wf.kind, WFORM_CODES);
        assert_int_equal(wf.group, 0);
        assert_int_equal(wf.n_scales, (64 + GROUPS[i] - 1) / GROUPS[i]);
        decode_and_check_form(&m);
        expect_ct(&m, NULL);
        arena_deinit(&a);
    }
}

static void test_ct_zero_points_in_both_types(void **state) {
    (void)state;
    for (unsigned bits = 3; bits <= 8; bits++) {
        int zeros[8];
        QMatrix m = ct_matrix(8, 128, bits, 64, 0);
        for (int n = 0; n < 8; n++) {
            zeros[n] = (n * 3 + 1) % (1 << bits);
            for (int g = 0; g < 2; g++)
                parts.zeros8[n * 2 + g] = (int8_t)(zeros[n] - (1 << (bits - 1)));
        }
        m.part[QPART_ZERO] = part2(DTYPE_I8, 8, 2, parts.zeros8);
        decode_and_check_form(&m);
        expect_ct(&m, zeros);
        uint64_t rows = (8 * bits + 31) / 32;
        for (uint64_t n = 0; n < 8;
             n++) { /* down the columns: word w of group g at zeros[w * 2 + g] */
            uint32_t column[3] = {0};
            put_bits(column, n * bits, (unsigned)zeros[n]);
            for (uint64_t w = 0; w < rows; w++)
                for (int g = 0; g < 2; g++) parts.zeros[w * 2 + (uint64_t)g] |= column[w];
        }
        m.part[QPART_ZERO] = part2(DTYPE_I32, rows, 2, parts.zeros);
        decode_and_check_form(&m);
        expect_ct(&m, zeros);
    }
}

static void set_g_idx(QMatrix *m) { m->part[QPART_G_IDX] = part1(DTYPE_I32, m->k, parts.g_idx); }

static void test_g_idx(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    QMatrix m = ct_matrix(3, 128, 4, 32, 0);
    memset(parts.g_idx, 0xFF, sizeof parts.g_idx); /* -1 throughout: no order */
    set_g_idx(&m);
    decode_and_check_form(&m);
    expect_ct(&m, NULL);
    assert_null(form_of(m, &a).perm);

    for (uint32_t k = 0; k < 128; k++) parts.g_idx[k] = (k * 37 + 11) % 128 / 32;
    decode_and_check_form(&m);
    WForm wf = form_of(m, &a);
    assert_non_null(wf.perm);
    assert_int_equal(wf.group, 32);
    for (uint64_t p = 0; p < 128; p++) /* what the columns multiply is their own group's scale */
        assert_true(parts.got[128 + wf.perm[p]] ==
                    parts.scales[4 + p / 32] * (float)((int)code_of(1, wf.perm[p], 4) - 8));

    for (uint32_t k = 0; k < 128; k++)
        parts.g_idx[k] = k < 48 ? 2 : k < 64 ? 0 : 3; /* uneven, one group empty */
    decode_and_check_form(&m);
    assert_int_equal(form_of(m, &a).group, 16);
    for (uint32_t k = 0; k < 128; k++) parts.g_idx[k] = k < 33 ? 1 : 0; /* no run of 16 */
    wf = form_of(m, &a);
    assert_int_equal(wf.group, 0);
    assert_null(wf.perm);
    assert_int_equal(wform_scale_of(&wf, 32), 1);
    decode_and_check_form(&m);
    assert_true(parts.got[40] == parts.scales[0] * (float)((int)code_of(0, 40, 4) - 8));

    parts.g_idx[77] = 4;
    QMatrix copy = m;
    assert_false(wform_init(&wf, &copy, &a, &err));
    assert_int_equal(err.kind, ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "column 77 is in group 4"));
    parts.g_idx[77] = (uint32_t)-5;
    assert_false(decode_matrix(&m, 0, 3, parts.got, &err));
    arena_deinit(&a);
}

/* GPTQ v1 stores zero - 1: all ones read as 2^bits. */
static void test_gptq_zero_points(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    for (int i = 0; i < 32; i++) parts.scales[i] = 1;
    for (int v2 = 0; v2 < 2; v2++) {
        QMatrix m = {.format = QFORMAT_GPTQ, .n = 8, .k = 32, .bits = 4, .gptq_v2 = v2};
        parts.zeros[0] = 0xF7F07777;
        m.part[QPART_WEIGHT] = part2(DTYPE_I32, 4, 8, parts.words);
        m.part[QPART_ZERO] = part2(DTYPE_I32, 1, 1, parts.zeros);
        m.part[QPART_SCALE] = part2(DTYPE_F32, 1, 8, parts.scales);
        decode_and_check_form(&m);
        assert_true(parts.got[0] == (v2 ? -7 : -8));
        assert_true(parts.got[7 * 32] == (v2 ? -15 : -16));
        assert_true(parts.got[4 * 32] == (v2 ? 0 : -1));
    }
}

static void test_fp8_stacks_and_power_of_two_scales(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    for (int i = 0; i < 2 * 10 * 24; i++) parts.bytes[i] = 0x38; /* 1.0 */
    for (int i = 0; i < 2 * 2 * 3; i++) parts.scales[i] = (float)(i + 1);
    const uint64_t shape[3] = {2, 10, 24}, blocks[3] = {2, 2, 3};
    QMatrix m = {.format = QFORMAT_FP8, .n = 20, .k = 24, .block_n = 8, .block_k = 8};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_F8_E4M3, 3, shape, parts.bytes, 480);
    m.part[QPART_SCALE] = qpart_of(DTYPE_F32, 3, blocks, parts.scales, 48);
    Err err = {0};
    assert_true(decode_matrix(&m, 0, 20, parts.got, &err));
    for (int n = 0; n < 20; n++) /* blocks start anew with each expert: rows 0-7, 8-9 */
        for (int k = 0; k < 24; k++)
            assert_true(parts.got[n * 24 + k] == parts.scales[n / 10 * 6 + n % 10 / 8 * 3 + k / 8]);
    m.block_n = 8;
    m.block_k = 16; /* a form exists, the last group is partial */
    const uint64_t blocks16[3] = {2, 2, 2};
    m.part[QPART_SCALE] = qpart_of(DTYPE_F32, 3, blocks16, parts.scales, 32);
    decode_and_check_form(&m);
    uint8_t powers[8] = {127, 128, 126, 130, 120, 127, 0, 255};
    m.part[QPART_SCALE] = qpart_of(DTYPE_U8, 3, blocks16, powers, 8);
    decode_and_check_form(&m);
    assert_true(parts.got[16] == 2 && parts.got[8 * 24] == 0.5f && isnan(parts.got[19 * 24 + 23]));
    m.block_n = m.block_k = 128; /* what the config says of the others */
    m.part[QPART_SCALE] = part1(DTYPE_F32, 20, parts.scales);
    decode_and_check_form(&m);
    assert_true(parts.got[3 * 24] == parts.scales[3]);
    m.block_n = m.block_k = 0; /* one scale per expert */
    m.part[QPART_SCALE] = part1(DTYPE_F32, 2, parts.scales);
    decode_and_check_form(&m);
    assert_true(parts.got[9 * 24] == 1 && parts.got[10 * 24] == 2);
}

static void test_bitnet_rows_not_in_fours(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    float scale = 4;
    for (unsigned n = 0; n < 6; n++) /* ceil(6 / 4) = 2 packed rows of 3 columns */
        for (unsigned k = 0; k < 3; k++)
            parts.bytes[n % 2 * 3 + k] |= (uint8_t)((n + k) % 3 << 2 * (n / 2));
    QMatrix m = {.format = QFORMAT_BITNET, .n = 6, .k = 3};
    m.part[QPART_WEIGHT] = part2(DTYPE_U8, 2, 3, parts.bytes);
    m.part[QPART_SCALE] = part1(DTYPE_F32, 1, &scale);
    decode_and_check_form(&m);
    for (int n = 0; n < 6; n++)
        for (int k = 0; k < 3; k++)
            assert_true(parts.got[n * 3 + k] == (float)((n + k) % 3 - 1) / 4);
}

static void test_bnb_double_quantization_and_wide_blocks(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    float table[16], nested_table[256], nested[2] = {2, 4};
    uint8_t absmax[8];
    for (int i = 0; i < 16; i++) table[i] = (float)i / 16 - 0.5f;
    for (int i = 0; i < 256; i++) nested_table[i] = (float)i / 256;
    for (int i = 0; i < 8; i++) absmax[i] = (uint8_t)(i * 30);
    for (int i = 0; i < 256; i++) parts.bytes[i] = (uint8_t)(i * 7);
    /* a block spans two rows, one, half a row; it ends within a row, also where no kernel's group does */
    static const unsigned WIDTHS[] = {32, 64, 128, 96, 100};
    for (size_t w = 0; w < sizeof WIDTHS / sizeof *WIDTHS; w++) {
        unsigned k = WIDTHS[w], n = 512 / k;
        QMatrix m = {.format = QFORMAT_BNB_NF4,
                     .n = n,
                     .k = k,
                     .bnb_nested_block = 4,
                     .bnb_nested_offset = 0.5f};
        m.part[QPART_WEIGHT] = part2(DTYPE_U8, n * k / 2, 1, parts.bytes);
        m.part[QPART_SCALE] = part1(DTYPE_U8, 8, absmax);
        m.part[QPART_TABLE] = part1(DTYPE_F32, 16, table);
        m.part[QPART_NESTED_SCALE] = part1(DTYPE_F32, 2, nested);
        m.part[QPART_NESTED_TABLE] = part1(DTYPE_F32, 256, nested_table);
        decode_and_check_form(&m);
        for (unsigned i = 0; i < n * k; i++) {
            float s = nested_table[absmax[i / 64]] * nested[i / 256] + 0.5f;
            assert_true(parts.got[i] == s * table[parts.bytes[i / 2] >> (i % 2 ? 0 : 4) & 15]);
        }
    }
}

/* W4A8: codes of 4 bits, a byte each. DeepSeek's experts: fp4 in bytes with a sign. */
static void test_few_bits_in_signed_bytes(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    const float scale[2] = {0.5f, 3};
    const uint8_t powers[2] = {126, 129};
    for (int i = 0; i < 64; i++) parts.bytes[i] = (uint8_t)(i % 16 - 8);
    QMatrix m = {.format = QFORMAT_CT_INT, .n = 2, .k = 32, .bits = 4};
    m.part[QPART_WEIGHT] = part2(DTYPE_I8, 2, 32, parts.bytes);
    m.part[QPART_SCALE] = part2(DTYPE_F32, 2, 1, scale);
    decode_and_check_form(&m);
    for (int i = 0; i < 64; i++)
        assert_true(parts.got[i] == scale[i / 32] * (float)(int8_t)parts.bytes[i]);
    for (int i = 0; i < 32; i++) parts.bytes[i] = (uint8_t)(i * 29 + 3);
    m = (QMatrix){.format = QFORMAT_CT_MXFP4, .n = 2, .k = 32};
    m.part[QPART_WEIGHT] = part2(DTYPE_I8, 2, 16, parts.bytes);
    m.part[QPART_SCALE] = part2(DTYPE_F8_E8M0, 2, 1, powers);
    decode_and_check_form(&m);
    for (int i = 0; i < 64; i++)
        assert_true(parts.got[i] == fp_e8m0_to_f32(powers[i / 32]) *
                                        fp_e2m1_to_f32(parts.bytes[i / 2] >> (i % 2 ? 4 : 0) & 15));
}

/* The formula of LLM.int8(): the row's largest magnitude over 127, times the code. */
static void test_bnb_int8(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    const float scb[3] = {127, 2.54f, 0};
    for (int i = 0; i < 3 * 5; i++) parts.bytes[i] = (uint8_t)(i * 37 + 130);
    QMatrix m = {.format = QFORMAT_BNB_INT8, .n = 3, .k = 5};
    m.part[QPART_WEIGHT] = part2(DTYPE_I8, 3, 5, parts.bytes);
    m.part[QPART_SCALE] = part1(DTYPE_F32, 3, scb);
    decode_and_check_form(&m);
    for (int n = 0; n < 3; n++)
        for (int k = 0; k < 5; k++) {
            double want = (int8_t)parts.bytes[n * 5 + k] * ((double)scb[n] / 127);
            assert_true(fabs(parts.got[n * 5 + k] - want) <= 1e-6 * fabs(want));
        }
}

static void test_gguf_nvfp4_second_scale_per_expert(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    float second[2] = {3, 5};
    for (int b = 0; b < 4; b++) { /* 2 experts of 2 rows of one block; scales 1.0, codes 2 = 1.0 */
        memset(parts.bytes + 36 * b, 0x38, 4);
        memset(parts.bytes + 36 * b + 4, 0x22, 32);
    }
    const uint64_t shape[3] = {2, 2, 64};
    QMatrix m = {.format = QFORMAT_ROWS, .n = 4, .k = 64};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_NVFP4, 3, shape, parts.bytes, 144);
    m.part[QPART_GLOBAL] = part1(DTYPE_F32, 2, second);
    decode_and_check_form(&m);
    assert_true(parts.got[0] == 3 && parts.got[127] == 3 && parts.got[128] == 5);
    parts.bytes[0] = 0x7F; /* ggml's reading: 0; 0xFF, 0xB8: the sign is ignored */
    parts.bytes[1] = 0xFF;
    parts.bytes[2] = 0xB8;
    decode_and_check_form(&m);
    assert_true(parts.got[0] == 0 && parts.got[16] == 0 && parts.got[32] == 3);
}

/* Blocks with a d of their own have no second scale: taken for one, it would give d another shape.
 * (Found by fuzzing.) */
static void test_second_scale_only_for_nvfp4(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_Q4_K, DTYPE_MXFP4, DTYPE_Q4_0, DTYPE_F16, DTYPE_F8_E4M3};
    float one = 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const uint64_t shape[2] = {2, 256};
        QMatrix m = {.format = QFORMAT_ROWS, .n = 2, .k = 256};
        m.part[QPART_WEIGHT] = qpart_of(types[i], 2, shape, parts.bytes, 0);
        m.part[QPART_GLOBAL] = part1(DTYPE_F32, 1, &one);
        Arena a = {0};
        Err err = {0};
        WForm wf;
        assert_false(wform_init(&wf, &m, &a, &err));
        assert_int_equal(err.kind, ERR_UNSUPPORTED);
        arena_deinit(&a);
    }
}

/* Every way in which one part can be wrong, for a valid matrix of each format: an error, no crash,
 * and a message. */
static void expect_bad(const QMatrix *m, const char *what) {
    Err err = {0};
    if (decode_matrix(m, 0, m->n, parts.got, &err))
        fail_msg("%s, %s: accepted", qformat_name(m->format), what);
    assert_true(err.kind == ERR_CORRUPT || err.kind == ERR_UNSUPPORTED || err.kind == ERR_LIMIT);
    assert_true(err.msg[0] != 0);
}

static void spoil_part(const QMatrix *good, int id, bool optional) {
    QMatrix m = *good;
    QPart *p = &m.part[id];
    p->data = NULL;
    expect_bad(&m, "no bytes behind the length");
    m = *good;
    if (!optional) {
        p->dtype = DTYPE_NONE;
        expect_bad(&m, "part missing");
    }
    m = *good;
    p->n_bytes--;
    expect_bad(&m, "one byte short");
    m = *good;
    p->n_bytes++;
    expect_bad(&m, "more bytes than the shape");
    m = *good;
    p->from = 1;
    expect_bad(&m, "starts late");
    m = *good;
    p->dtype = DTYPE_F64;
    p->n_bytes = 0;
    expect_bad(&m, "wrong type");
    for (int d = 0; d < p->n_dims; d++) {
        static const uint64_t odd[] = {0, 1000003, (uint64_t)1 << 33, UINT64_MAX};
        for (int i = 0; i < 4; i++) {
            m = *good;
            p->shape[d] = odd[i];
            p->n_bytes = 0;
            expect_bad(&m, "odd dimension");
        }
    }
    m = *good;
    p->n_dims = 7;
    expect_bad(&m, "seven dimensions");
}

static QMatrix gptq_matrix(void) {
    QMatrix m = {.format = QFORMAT_GPTQ, .n = 16, .k = 64, .bits = 4, .group = 32};
    m.part[QPART_WEIGHT] = part2(DTYPE_I32, 8, 16, parts.words);
    m.part[QPART_ZERO] = part2(DTYPE_I32, 2, 2, parts.zeros);
    m.part[QPART_SCALE] = part2(DTYPE_F32, 2, 16, parts.scales);
    for (uint32_t k = 0; k < 64; k++) parts.g_idx[k] = k % 2;
    set_g_idx(&m);
    return m;
}

static QMatrix awq_matrix(void) {
    QMatrix m = {.format = QFORMAT_AWQ, .n = 16, .k = 64, .bits = 4, .group = 32};
    m.part[QPART_WEIGHT] = part2(DTYPE_I32, 64, 2, parts.words);
    m.part[QPART_ZERO] = part2(DTYPE_I32, 2, 2, parts.zeros);
    m.part[QPART_SCALE] = part2(DTYPE_F32, 2, 16, parts.scales);
    return m;
}

static QMatrix mlx_matrix(void) {
    QMatrix m = {.format = QFORMAT_MLX_AFFINE, .n = 16, .k = 64, .bits = 4, .group = 32};
    m.part[QPART_WEIGHT] = part2(DTYPE_U32, 16, 8, parts.words);
    m.part[QPART_ZERO] = part2(DTYPE_F32, 16, 2, parts.scales);
    m.part[QPART_SCALE] = part2(DTYPE_F32, 16, 2, parts.scales);
    return m;
}

static QMatrix nvfp4_matrix(void) {
    QMatrix m = {.format = QFORMAT_CT_NVFP4, .n = 16, .k = 64};
    m.part[QPART_WEIGHT] = part2(DTYPE_U8, 16, 32, parts.bytes);
    m.part[QPART_SCALE] = part2(DTYPE_F8_E4M3, 16, 4, parts.bytes);
    m.part[QPART_GLOBAL] = part1(DTYPE_F32, 1, parts.scales);
    return m;
}

static void test_parts_that_lie(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    const QMatrix all[] = {gptq_matrix(), awq_matrix(), mlx_matrix(), nvfp4_matrix()};
    Err err = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!decode_matrix(&all[i], 0, 16, parts.got, &err)) fail_msg("%s", err.msg);
        for (int id = 0; id < QPART_COUNT; id++)
            if (all[i].part[id].dtype != DTYPE_NONE) spoil_part(&all[i], id, id == QPART_G_IDX);
        QMatrix m = all[i];
        m.k += 32;
        expect_bad(&m, "another k");
        m = all[i];
        m.n += 8;
        expect_bad(&m, "another n");
        m = all[i];
        m.group = 16 + 32 * (m.format == QFORMAT_CT_NVFP4);
        expect_bad(&m, "another group");
        m = all[i];
        m.bits = 5;
        expect_bad(&m, "another width");
        assert_false(decode_matrix(&all[i], 0, 17, parts.got, &err)); /* more rows than there are */
    }
    assert_false(decode_rows(DTYPE_Q4_0, parts.bytes, 17, 1, 32, parts.got, &err));
    assert_false(decode_rows(DTYPE_Q4_0, parts.bytes, 18, 1, 31, parts.got, &err));
    assert_false(decode_rows(DTYPE_Q4_0, parts.bytes, 18, UINT64_MAX, 32, parts.got, &err));
    assert_false(decode_rows(DTYPE_NONE, parts.bytes, 0, 1, 32, parts.got, &err));
    assert_true(decode_rows(DTYPE_Q4_0, NULL, 0, 0, 32, NULL, &err));
}

/* What was left 0 is inferred from the shapes. */
static void test_inference(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    Arena a = {0};
    QMatrix all[] = {gptq_matrix(), awq_matrix(), mlx_matrix(), nvfp4_matrix()};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        QMatrix m = all[i];
        m.group = 0;
        if (m.format == QFORMAT_MLX_AFFINE)
            m.k = 0;
        else
            m.bits = 0;
        m.n = 0;
        if (m.format == QFORMAT_CT_NVFP4 || m.format == QFORMAT_AWQ) m.k = 0;
        WForm wf = form_of(m, &a);
        assert_int_equal(wf.n, 16);
        assert_int_equal(wf.k, 64);
        assert_int_equal(wf.bits, 4);
        assert_int_equal(wf.group, m.format == QFORMAT_CT_NVFP4 ? 16 : 32);
    }
    arena_deinit(&a);
}

static void test_out_of_memory_is_an_error(void **state) {
    (void)state;
    memset(&parts, 0, sizeof parts);
    QMatrix m = gptq_matrix();
    bool done = false;
    for (int i = 0; !done && i < 50; i++) {
        Err err = {0};
        mem_fail_after(i);
        done = decode_matrix(&m, 0, 16, parts.got, &err);
        mem_fail_after(-1);
        if (!done) assert_int_equal(err.kind, ERR_NOMEM);
    }
    assert_true(done);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ct_widths_layouts_and_groups),
        cmocka_unit_test(test_groups_of_no_kernel),
        cmocka_unit_test(test_ct_zero_points_in_both_types),
        cmocka_unit_test(test_g_idx),
        cmocka_unit_test(test_gptq_zero_points),
        cmocka_unit_test(test_fp8_stacks_and_power_of_two_scales),
        cmocka_unit_test(test_bitnet_rows_not_in_fours),
        cmocka_unit_test(test_bnb_double_quantization_and_wide_blocks),
        cmocka_unit_test(test_few_bits_in_signed_bytes),
        cmocka_unit_test(test_bnb_int8),
        cmocka_unit_test(test_gguf_nvfp4_second_scale_per_expert),
        cmocka_unit_test(test_second_scale_only_for_nvfp4),
        cmocka_unit_test(test_parts_that_lie),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("wform", tests, NULL, NULL);
}
