/* Every vector of tests/data/quant (and of $MLXCEL_GOLDEN/quant where that is set): the reference
 * decode gives the stated values bit for bit, and so does the weight form when it is evaluated as
 * wform.h says. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "base/mem.h"
#include "quant/decode.h"
#include "quant/form_check.inc.h"
#include "quant/vector_file.inc.h"

static bool meta_is(const Golden *g, const char *key, const char *value) {
    Str s;
    return json_str(json_get(g->meta, key), &s) && str_eqc(s, value);
}

static unsigned meta_uint(const Golden *g, const char *key) {
    int64_t v;
    return json_i64(json_get(g->meta, key), &v) && v > 0 ? (unsigned)v : 0;
}

static QFormat golden_format(const Golden *g) {
    static const struct {
        const char *key, *value;
        QFormat format;
    } table[] = {
        {"format", "mlx_affine", QFORMAT_MLX_AFFINE},
        {"format", "mlx_mxfp4", QFORMAT_MLX_MXFP4},
        {"format", "mlx_mxfp8", QFORMAT_MLX_MXFP8},
        {"format", "mlx_nvfp4", QFORMAT_MLX_NVFP4},
        {"format", "gptq", QFORMAT_GPTQ},
        {"format", "awq", QFORMAT_AWQ},
        {"kind", "pack-quantized", QFORMAT_CT_PACKED},
        {"kind", "int-quantized", QFORMAT_CT_INT},
        {"kind", "nvfp4-pack-quantized", QFORMAT_CT_NVFP4},
        {"kind", "mxfp4-pack-quantized", QFORMAT_CT_MXFP4},
        {"kind", "NVFP4", QFORMAT_MODELOPT_NVFP4},
        {"format", "fp8", QFORMAT_FP8},
        {"format", "fp8 e5m2, no scale", QFORMAT_FP8},
        {"format", "gpt_oss mxfp4", QFORMAT_GPTOSS_MXFP4},
        {"format", "bitnet", QFORMAT_BITNET},
        {"format", "bitsandbytes nf4", QFORMAT_BNB_NF4},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (meta_is(g, table[i].key, table[i].value)) return table[i].format;
    return QFORMAT_ROWS;
}

/* From the file's tensors and parameters to a QMatrix. n and k are those of the reference, as a
 * loader knows them. */
static QMatrix golden_matrix(const Golden *g, const QPart *reference) {
    QMatrix m = {.format = golden_format(g),
                 .bits = meta_uint(g, "bits"),
                 .group = meta_uint(g, "group_size")};
    m.k = reference->shape[reference->n_dims - 1];
    m.n = reference->n_bytes / 4 / m.k;
    m.gptq_v2 = meta_is(g, "checkpoint_format", "gptq_v2");
    m.bitnet_multiplies = meta_is(g, "linear_class", "autobitlinear");
    int64_t block;
    if (json_i64(json_at(json_get(g->meta, "weight_block_size"), 0), &block))
        m.block_n = m.block_k = (unsigned)block;
    for (int id = 0; id < QPART_COUNT; id++) {
        const char *name = qpart_name(m.format, (QPartId)id);
        if (name) m.part[id] = golden_part(g, name);
    }
    if (m.format == QFORMAT_FP8 && m.block_n)
        m.part[QPART_SCALE] = golden_part(g, "weight_scale_inv");
    if (m.format == QFORMAT_GPTOSS_MXFP4) {
        m.part[QPART_WEIGHT] = golden_part(g, "gate_up_proj_blocks");
        m.part[QPART_SCALE] = golden_part(g, "gate_up_proj_scales");
    }
    if (json_get(g->header, "codes")) m.part[QPART_WEIGHT] = golden_part(g, "codes");
    if (json_get(g->header, "data")) { /* GGUF rows */
        QPart data = golden_part(g, "data");
        const uint64_t shape[2] = {m.n, m.k};
        DType type = dtype_from_ggml(meta_uint(g, "ggml_type"));
        assert_int_not_equal(type, DTYPE_NONE);
        m.part[QPART_WEIGHT] = qpart_of(type, 2, shape, data.data, data.n_bytes);
    }
    return m;
}

static void check_bits(const char *path, const QPart *reference, const float *got) {
    size_t bad = 0;
    for (size_t i = 0; i < reference->n_bytes / 4; i++) {
        float want;
        memcpy(&want, reference->data + 4 * i, 4);
        if (same_bits(want, got[i])) continue;
        if (bad++ == 0) print_error("%s: element %zu is %a, %a is stated\n", path, i, got[i], want);
    }
    if (bad) fail_msg("%s: %zu elements differ", path, bad);
}

/* Reading only the bytes that wform_span names gives the same rows. */
static void check_pieces(const char *path, QMatrix m, const float *want) {
    Err err = {0};
    Arena a = {0};
    WForm wf;
    assert_true(wform_init(&wf, &m, &a, &err));
    float *out = mem_alloc(5 * wf.k * sizeof *out);
    for (uint64_t n0 = 0; n0 < wf.n; n0 += 5) {
        uint64_t n1 = n0 + 5 < wf.n ? n0 + 5 : wf.n;
        QMatrix piece = m;
        void *copies[QPART_COUNT] = {0};
        for (int id = 0; id < QPART_COUNT; id++) {
            QPart *p = &piece.part[id];
            uint64_t from, n_bytes;
            wform_span(&wf, &m, (QPartId)id, n0, n1, &from, &n_bytes);
            assert_true(from + n_bytes <= p->n_bytes);
            copies[id] =
                mem_alloc(n_bytes); /* its own allocation: a sanitizer sees a read outside */
            if (n_bytes) memcpy(copies[id], p->data + from, n_bytes);
            p->data = copies[id];
            p->from = from;
            p->n_bytes = n_bytes;
        }
        if (!decode_with(&wf, &piece, n0, n1, out, &err)) fail_msg("%s: %s", path, err.msg);
        for (uint64_t i = 0; i < (n1 - n0) * wf.k; i++)
            assert_true(same_bits(out[i], want[n0 * wf.k + i]));
        for (int id = 0; id < QPART_COUNT; id++) mem_free(copies[id]);
    }
    mem_free(out);
    arena_deinit(&a);
}

static void check_file(const char *path) {
    Golden g;
    Err err = {0};
    golden_open(&g, path);
    QPart reference = golden_part(&g, "reference");
    if (reference.dtype == DTYPE_NONE) { /* the table of grids */
        golden_close(&g);
        return;
    }
    QMatrix m = golden_matrix(&g, &reference);
    float *out = mem_alloc(reference.n_bytes);
    if (meta_is(&g, "format",
                "E2M1")) { /* one code per byte, which no format stores: the scalar alone */
        for (uint64_t i = 0; i < m.k; i++) out[i] = fp_e2m1_to_f32(m.part[QPART_WEIGHT].data[i]);
        check_bits(path, &reference, out);
        mem_free(out);
        golden_close(&g);
        return;
    }
    if (!decode_matrix(&m, 0, m.n, out, &err)) fail_msg("%s: %s", path, err.msg);
    check_bits(path, &reference, out);
    if (m.format == QFORMAT_ROWS) {
        memset(out, 0xAA, reference.n_bytes);
        assert_true(
            decode_rows(m.part[0].dtype, m.part[0].data, m.part[0].n_bytes, m.n, m.k, out, &err));
        check_bits(path, &reference, out);
    }
    check_form(path, m, out, 7);
    check_pieces(path, m, out);
    mem_free(out);
    golden_close(&g);
}

static int check_folder(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[4096];
        size_t len = strlen(e->d_name);
        if (len < 12 || strcmp(e->d_name + len - 12, ".safetensors") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        check_file(path);
        n++;
    }
    closedir(dir);
    return n;
}

static void test_own_vectors(void **state) {
    (void)state;
    int n = check_folder("tests/data/quant");
    print_message("%d vectors\n", n);
    assert_true(n >= 118);
}

static void test_shared_vectors(void **state) {
    (void)state;
    const char *golden = getenv("MLXCEL_GOLDEN");
    char path[4000];
    if (!golden) skip();
    snprintf(path, sizeof path, "%s/quant", golden);
    assert_true(check_folder(path) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_vectors),
        cmocka_unit_test(test_shared_vectors),
    };
    return cmocka_run_group_tests_name("quant golden", tests, NULL, NULL);
}
