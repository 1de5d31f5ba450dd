/* Every op of the cpu backend, at every instruction-set level of the machine: against plain loops
 * or ref, and bit for bit against itself over row counts, threads, page orders and cuts of a prompt
 * (DESIGN.md section 5). */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu_linear_check.inc.h"
#include "quant/vector_file.inc.h"

/* ---- linear ---- */

static void test_linear_rows(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q4_0, DTYPE_Q4_1,
                                  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_MXFP4};
    static const uint32_t SHAPES[][2] = {{64, 64}, {48, 576}, {1, 32},  {7, 96},
                                         {33, 32}, {70, 160}, {24, 24}, {5, 1}};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
            uint32_t n = SHAPES[s][0], k = SHAPES[s][1];
            if (k % dtype_info(TYPES[t])->block_elements) continue;
            float *v = rig_matrix(s, (size_t)n * k);
            RigWeight w;
            char what[64];
            snprintf(what, sizeof what, "%s %ux%u", dtype_info(TYPES[t])->name, n, k);
            rig_weight_rows(&w, TYPES[t], v, n, k);
            check_linear(what, &w, true);
            check_embed(what, &w);
            rig_weight_close(&w);
            mem_free(v);
        }
    }
}

static void test_linear_mlx(void **state) {
    (void)state;
    static const unsigned BITS[] = {1, 2, 3, 4, 5, 6, 8}, GROUPS[] = {32, 64, 128};
    static const DType SCALES[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    for (int b = 0; b < 7; b++) {
        for (int g = 0; g < 3; g++) {
            uint32_t n = 34, k = 384;
            float *v = rig_matrix(3, (size_t)n * k);
            RigWeight w;
            char what[64];
            snprintf(what, sizeof what, "mlx %u bits, groups of %u", BITS[b], GROUPS[g]);
            rig_weight_mlx(&w, BITS[b], GROUPS[g], SCALES[(b + g) % 3], v, n, k);
            check_linear(what, &w, true);
            check_embed(what, &w);
            rig_weight_close(&w);
            mem_free(v);
        }
    }
}

/* ---- the vectors of quant/ as weights: every format a checkpoint can have ---- */

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
    if (json_get(g->header, "data")) {
        QPart data = golden_part(g, "data");
        const uint64_t shape[2] = {m.n, m.k};
        m.part[QPART_WEIGHT] =
            qpart_of(dtype_from_ggml(meta_uint(g, "ggml_type")), 2, shape, data.data, data.n_bytes);
    }
    return m;
}

static bool finite_weight(const RigWeight *w) {
    float *d = rig_decoded(w);
    bool ok = true;
    for (size_t i = 0; i < (size_t)w->source.n * w->source.k; i++) ok = ok && fabsf(d[i]) < 1e20f;
    mem_free(d);
    return ok;
}

static void test_linear_formats(void **state) {
    (void)state;
    DIR *dir = opendir("tests/data/quant");
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        size_t len = strlen(e->d_name);
        if (len < 12 || strcmp(e->d_name + len - 12, ".safetensors") != 0) continue;
        snprintf(path, sizeof path, "tests/data/quant/%s", e->d_name);
        Golden g;
        golden_open(&g, path);
        QPart reference = golden_part(&g, "reference");
        /* A table of code values and grids are no matrices. */
        if (reference.dtype != DTYPE_NONE && !json_get(g.header, "codes") &&
            !meta_is(&g, "format", "E2M1")) {
            RigWeight w;
            rig_weight_open(&w, golden_matrix(&g, &reference));
            if (finite_weight(&w)) {
                check_linear(e->d_name, &w, true);
                n++;
            }
            check_embed(e->d_name, &w);
            rig_weight_close(&w);
        }
        golden_close(&g);
    }
    closedir(dir);
    print_message("%d formats\n", n);
    assert_true(n >= 40);
}

/* ---- row-wise ops, against ref ---- */

typedef struct ElemArg {
    int kind, fn;
    WeightId w, b;
    uint32_t group;
} ElemArg;

static Val build_elem(ProgBuilder *b, Val x, uint32_t cols, const ElemArg *a) {
    switch (a->kind) {
    case 0:
        return prog_act(b, x, (Act)a->fn, a->fn == ACT_SOFTCAP ? 3.0f : 0);
    case 1:
        return prog_glu(b, prog_view(b, x, 0, cols / 2), prog_view(b, x, cols / 2, cols / 2),
                        (Act)a->fn);
    case 2:
        return prog_add(b, x, prog_scale(b, x, 0.3f), -1.7f);
    case 3:
        return prog_mul(b, x, prog_view(b, x, 3, 1));
    case 4:
        return prog_mul(b, x, prog_scale(b, x, 0.9f));
    case 5:
        return prog_rms_norm(b, x, a->w, a->group, 1e-5f, 0);
    case 6:
        return prog_rms_norm(b, x, a->w, a->group, 1e-6f, 1.0f);
    case 7:
        return prog_layer_norm(b, x, a->w, a->b, a->group, 1e-5f, 0);
    case 8:
        return prog_rms_norm(b, x, W_NONE, a->group, 1e-5f, 0);
    default:
        return prog_select(b, prog_scale(b, x, 2.0f));
    }
}

static void check_elem(const ElemArg *arg, uint32_t cols, double limit) {
    float *x = rig_matrix(9, (size_t)N_ROWS * cols), *ws = rig_matrix(10, cols),
          *bs = rig_matrix(11, cols);
    for (size_t i = 0; i < (size_t)N_ROWS * cols; i++) x[i] *= i % 7 == 0 ? 20 : 3;
    uint32_t w_cols = arg->group && arg->group < cols && arg->fn == 0 ? arg->group : cols;
    RigWeight w, b;
    rig_weight_rows(&w, DTYPE_F32, ws, 1, w_cols);
    rig_weight_rows(&b, DTYPE_F32, bs, 1, w_cols);
    ElemArg a = *arg;
    Case c;
    Val in = case_begin(&c, x, N_ROWS, cols);
    a.w = case_weight(&c, WEIGHT_VECTOR, &w);
    a.b = case_weight(&c, WEIGHT_VECTOR, &b);
    Val y = build_elem(c.b, in, cols, &a);
    uint32_t out_cols = a.kind == 1 ? cols / 2 : cols;
    case_end(&c, y);
    size_t n = (size_t)N_ROWS * out_cols;
    float *want = mem_alloc(n * sizeof *want), *got = mem_alloc(n * sizeof *got);
    RigOptions o = options(NULL, 1);
    run_all(&c, &o, N_ROWS, want);
    for (int i = 0; i < N_ISAS; i++) {
        o = options(ISAS[i], 1);
        run_all(&c, &o, N_ROWS, got);
        for (size_t j = 0; j < n; j++)
            if (!(fabs((double)got[j] - (double)want[j]) <=
                  limit * fmax(fabs((double)want[j]), 0.5)))
                fail_msg("op %d fn %d, %s, %u columns: element %zu is %.9g, %.9g is right", a.kind,
                         a.fn, ISAS[i], cols, j, (double)got[j], (double)want[j]);
        if (a.kind != 9) check_same_rows(&c, "row-wise op", ISAS[i], got, out_cols);
    }
    case_close(&c);
    rig_weight_close(&w);
    rig_weight_close(&b);
    mem_free(want);
    mem_free(got);
    mem_free(x);
    mem_free(ws);
    mem_free(bs);
}

static void test_elementwise(void **state) {
    (void)state;
    static const uint32_t COLS[] = {8, 24, 64, 576, 602};
    for (size_t i = 0; i < sizeof COLS / sizeof *COLS; i++) {
        for (int fn = 0; fn < ACT_COUNT; fn++) {
            check_elem(&(ElemArg){.kind = 0, .fn = fn}, COLS[i], 4e-6);
            check_elem(&(ElemArg){.kind = 1, .fn = fn}, COLS[i], 4e-6);
        }
        for (int kind = 2; kind < 5; kind++) check_elem(&(ElemArg){.kind = kind}, COLS[i], 1e-6);
        check_elem(&(ElemArg){.kind = 9}, COLS[i], 1e-6);
        for (int kind = 5; kind < 9; kind++) {
            check_elem(&(ElemArg){.kind = kind, .group = COLS[i]}, COLS[i], 2e-6);
            if (COLS[i] % 8 == 0) check_elem(&(ElemArg){.kind = kind, .group = 8}, COLS[i], 2e-6);
            if (COLS[i] % 8 == 0)
                check_elem(&(ElemArg){.kind = kind, .group = 8, .fn = 1}, COLS[i], 2e-6);
        }
    }
}

/* ---- rope and attention, against ref ---- */

typedef struct AttnCase {
    uint32_t heads, kv_heads, dim, v_dim, window;
    float softcap;
    bool sinks, interleaved;
    PlaneType kv;
    uint32_t ctx; /* longest sequence; rows of each sequence in the table */
} AttnCase;

enum { CTX = 1100, SHORT = 150, PAGES = (CTX + 63) / 64, N_TEST_SEQS = 3 };

static uint32_t scattered(uint32_t seq, uint32_t page) {
    return (seq * PAGES + page) * 37 % (N_TEST_SEQS * PAGES);
}
static uint32_t in_order(uint32_t seq, uint32_t page) { return seq * PAGES + page; }

static void attn_program(Case *c, const AttnCase *a, const float *x, const RigWeight *sinks) {
    uint32_t q = a->heads * a->dim, k = a->kv_heads * a->dim, v = a->kv_heads * a->v_dim;
    Val in = case_begin(c, x, N_TEST_SEQS * a->ctx, q + k + v);
    WeightId sw = a->sinks ? case_weight(c, WEIGHT_VECTOR, sinks) : W_NONE;
    uint32_t rot = a->dim >= 32 ? a->dim / 2 : a->dim;
    RopeSpec spec = {.kind = ROPE_PLAIN, .rot_dim = rot, .freq_dim = rot, .theta = 10000};
    uint32_t rope = prog_rope_spec(c->b, spec);
    PlaneId pk = prog_plane(c->b, (ProgPlane){.heads = a->kv_heads,
                                              .head_cols = a->dim,
                                              .use = PLANE_KEY,
                                              .keep = a->window ? KEEP_WINDOW : KEEP_ALL,
                                              .span = a->window});
    PlaneId pv = prog_plane(c->b, (ProgPlane){.heads = a->kv_heads,
                                              .head_cols = a->v_dim,
                                              .use = PLANE_VALUE,
                                              .keep = a->window ? KEEP_WINDOW : KEEP_ALL,
                                              .span = a->window});
    Val xq = prog_rope(c->b, prog_view(c->b, in, 0, q), rope, a->heads, a->dim, a->dim - rot,
                       a->interleaved);
    Val xk =
        prog_rope(c->b, prog_view(c->b, in, q, k), rope, a->kv_heads, a->dim, 0, a->interleaved);
    prog_kv_write(c->b, xk, pk);
    prog_kv_write(c->b, prog_view(c->b, in, q + k, v), pv);
    OpAttn p = {.n_heads = a->heads,
                .n_kv_heads = a->kv_heads,
                .head_dim = a->dim,
                .v_dim = a->v_dim,
                .window = a->window,
                .scale = 1.7f / sqrtf((float)a->dim),
                .softcap = a->softcap};
    case_end(c, prog_attn(c->b, xq, pk, pv, sw, p));
}

/* Feeds the sequences in steps of at most `chunk` rows each, collects all rows:
 * out[seq][row][cols]. Token ids: the table row of sequence s, position i is s * ctx + i, so steps
 * are one sequence each unless `together`. */
static void attn_feed(const Case *c, const RigOptions *o, const uint32_t *lengths, uint32_t chunk,
                      bool together, uint32_t (*page_of)(uint32_t, uint32_t), uint32_t cols,
                      uint32_t ctx, float *out) {
    Rig r;
    rig_open(&r, o, c->program, c->sources);
    float *part = mem_alloc((size_t)N_TEST_SEQS * ctx * cols * sizeof *part);
    uint32_t done[N_TEST_SEQS] = {0};
    for (bool more = true; more;) {
        RigSeq seqs[N_TEST_SEQS];
        uint32_t which[N_TEST_SEQS], n = 0;
        more = false;
        for (uint32_t s = 0; s < N_TEST_SEQS; s++) {
            uint32_t left = lengths[s] - done[s];
            if (!left || (n && !together)) continue;
            which[n] = s;
            seqs[n++] = (RigSeq){done[s], left < chunk ? left : chunk};
        }
        if (!n) break;
        Step *step = rig_step(seqs, n, 0, PAGES, NULL);
        for (uint32_t i = 0; i < n; i++) {
            const StepSeq *q = &step_seqs(step)[i];
            for (uint32_t p = 0; p < q->n_pages; p++)
                step_pages(step)[q->first_page + p] = page_of(which[i], p);
            for (uint32_t k = 0; k < q->n_rows; k++)
                step_rows(step)[q->first_row + k].source = which[i] * ctx + done[which[i]] + k;
        }
        rig_run(&r, step, part);
        for (uint32_t i = 0; i < n; i++) {
            const StepSeq *q = &step_seqs(step)[i];
            memcpy(out + ((size_t)which[i] * ctx + done[which[i]]) * cols,
                   part + (size_t)q->first_row * cols, (size_t)q->n_rows * cols * sizeof *out);
            done[which[i]] += q->n_rows;
            more = true;
        }
        mem_free(step);
    }
    mem_free(part);
    rig_close(&r);
}

static void check_attn(const AttnCase *a) {
    const uint32_t ctx = a->ctx;
    const bool long_context = ctx > 512;
    uint32_t in_cols = a->heads * a->dim + a->kv_heads * (a->dim + a->v_dim),
             cols = a->heads * a->v_dim;
    const uint32_t lengths[N_TEST_SEQS] = {ctx, 65, 13};
    float *x = rig_matrix(21, (size_t)N_TEST_SEQS * ctx * in_cols), *s = rig_matrix(22, a->heads);
    RigWeight sinks;
    rig_weight_rows(&sinks, DTYPE_F32, s, 1, a->heads);
    Case c;
    attn_program(&c, a, x, &sinks);
    size_t bytes = (size_t)N_TEST_SEQS * ctx * cols * sizeof(float);
    float *want = mem_calloc(1, bytes), *got = mem_calloc(1, bytes), *again = mem_calloc(1, bytes);
    RigOptions o = {"ref", NULL, 1, a->kv, N_TEST_SEQS * PAGES, N_TEST_SEQS * ctx};
    attn_feed(&c, &o, lengths, ctx, true, in_order, cols, ctx, want);
    for (int i = 0; i < N_ISAS; i++) {
        o.backend = "cpu";
        o.isa = ISAS[i];
        o.threads = 1;
        attn_feed(&c, &o, lengths, ctx, true, in_order, cols, ctx, got);
        for (size_t j = 0; j < bytes / 4; j++)
            if (!(fabs((double)got[j] - (double)want[j]) <= (a->kv == PLANE_Q4_0   ? 0.1
                                                             : a->kv == PLANE_Q8_0 ? 8e-3
                                                             : a->kv == PLANE_BF16 ? 8e-3
                                                                                   : 2e-3) *
                                                                0.5))
                fail_msg("attention %u/%u heads of %u, %s, %s: element %zu is %.9g, %.9g is right",
                         a->heads, a->kv_heads, a->dim, planetype_name(a->kv), ISAS[i], j,
                         (double)got[j], (double)want[j]);
        static const uint32_t CHUNKS[] = {7, 64, 100, 1};
        for (int k = 0; k < (i == 0 ? 4 : 2); k++) {
            for (o.threads = 1; o.threads <= 3; o.threads++) {
                if (CHUNKS[k] == 1 && long_context && o.threads == 2) continue;
                memset(again, 0, bytes);
                attn_feed(&c, &o, lengths, CHUNKS[k], k % 2 == 0, k % 2 ? scattered : in_order,
                          cols, ctx, again);
                same_bytes("attention in pieces", ISAS[i], again, got, bytes / 4);
            }
        }
    }
    case_close(&c);
    rig_weight_close(&sinks);
    mem_free(want);
    mem_free(got);
    mem_free(again);
    mem_free(x);
    mem_free(s);
}

static void test_attn_shapes(void **state) {
    (void)state;
    static const AttnCase CASES[] = {
        {9, 3, 64, 64, 0, 0, false, false, PLANE_F16, SHORT},
        {4, 4, 16, 16, 0, 0, false, true, PLANE_F32, SHORT},
        {8, 1, 24, 40, 0, 0, true, false, PLANE_F16, SHORT},
        {6, 2, 80, 80, 33, 0, false, false, PLANE_BF16, SHORT},
        {2, 1, 128, 128, 0, 30, false, false, PLANE_F16, SHORT},
        {4, 2, 32, 32, 0, 0, true, false, PLANE_Q8_0, SHORT},
        {4, 2, 48, 48, 0, 0, false, false, PLANE_Q4_0, SHORT},
        {3, 1, 7 * 2, 9, 70, 5, true, false, PLANE_Q8_0, SHORT},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) check_attn(&CASES[i]);
}

static void test_attn_long(void **state) {
    (void)state;
    check_attn(&(AttnCase){3, 1, 32, 32, 0, 0, true, false, PLANE_F16, CTX});
    check_attn(&(AttnCase){2, 2, 16, 16, 600, 0, false, false, PLANE_Q8_0, CTX});
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* "*attn*" */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_linear_rows),
        cmocka_unit_test(test_linear_mlx),  cmocka_unit_test(test_linear_formats),
        cmocka_unit_test(test_attn_shapes), cmocka_unit_test(test_attn_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
