/* DeepSeek-V4 as it is released: matrices of fp8 with one power of two a block in NAME.scale, experts
 * of packed fp4 with one for 32 columns, kv_norm, tensors of a layer of prediction. Written here with
 * the shapes of the golden and made-up codes, and once more as the floats that those codes mean, under
 * the release's names, the library's and MLX's: the logits must be the same. Reads
 * $MLXCEL_GOLDEN_DIR/decoder/deepseek_v4 (tests/data/models.tar.xz). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "base/os.h"
#include "ckpt/checkpoint.h"
#include "ckpt/safetensors_write.h"
#include "golden_run.h"

enum { BLOCK = 32, N_TOKENS = 40, MAX_TENSORS = 1024 };

typedef enum Kind { KIND_RELEASE, KIND_FLOATS, KIND_LIBRARY, KIND_MLX } Kind;
static const char *const KIND_NAMES[] = {"release", "floats", "library", "mlx"};

typedef struct Names { /* parts of a name, the first that occurs of each pair */
    const char *from, *to;
} Names;

static const Names LIBRARY[] = {
    {"embed.weight", "model.embed_tokens.weight"},
    {"head.weight", "lm_head.weight"},
    {"hc_head_", "model.hc_head.hc_"},
    {".attn.indexer.compressor.norm.", ".self_attn.compressor.indexer.kv_norm."},
    {".attn.compressor.norm.", ".self_attn.compressor.kv_norm."},
    {".attn.norm.", ".self_attn.kv_norm."},
    {".attn.indexer.compressor.", ".self_attn.compressor.indexer."},
    {".attn.indexer.weights_proj.", ".self_attn.compressor.indexer.scorer.weights_proj."},
    {".attn.indexer.wq_b.", ".self_attn.compressor.indexer.q_b_proj."},
    {".attn.", ".self_attn."},
    {".ffn.", ".mlp."},
    {".attn_norm.", ".input_layernorm."},
    {".ffn_norm.", ".post_attention_layernorm."},
    {".hc_attn_", ".attn_hc."},
    {".hc_ffn_", ".ffn_hc."},
    {".attn_sink", ".sinks"},
    {".ape", ".position_bias"},
    {".wq_a.", ".q_a_proj."},
    {".wq_b.", ".q_b_proj."},
    {".q_norm.", ".q_a_norm."},
    {".wkv.", ".kv_proj."},
    {".wgate.", ".gate_proj."},
    {".wo_a.", ".o_a_proj."},
    {".wo_b.", ".o_b_proj."},
    {".gate.bias", ".gate.e_score_correction_bias"},
    {".shared_experts.w1.", ".shared_experts.gate_proj."},
    {".shared_experts.w2.", ".shared_experts.down_proj."},
    {".shared_experts.w3.", ".shared_experts.up_proj."},
};
static const Names MLX[] = {
    {"embed.weight", "model.embed_tokens.weight"},
    {"head.weight", "lm_head.weight"},
    {"hc_head_", "model.hc_head."},
    {".attn.norm.", ".attn.kv_norm."},
    {".hc_attn_", ".attn_hc."},
    {".hc_ffn_", ".ffn_hc."},
    {".gate.bias", ".gate.e_score_correction_bias"},
    {".shared_experts.w1.", ".shared_experts.gate_proj."},
    {".shared_experts.w2.", ".shared_experts.down_proj."},
    {".shared_experts.w3.", ".shared_experts.up_proj."},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct Maker {
    const Checkpoint *ck; /* the golden's */
    Arena *a;
    Kind kind;
    CkptTensor tensors[MAX_TENSORS];
    uint8_t *data[MAX_TENSORS];
    size_t n;
} Maker;

static bool has(Str name, const char *part) { return str_find(name, str_c(part), 0) != STR_NPOS; }

static bool is_expert(Str name) { return has(name, ".ffn.experts."); }

/* Rows that are no multiple of 32 long are left to fp8. */
static bool is_fp4(const CkptTensor *t) { return is_expert(t->name) && t->shape[1] % 32 == 0; }

static bool is_fp8(const CkptTensor *t) {
    static const char *const PARTS[] = {".wq_a.", ".wq_b.",           ".attn.wkv.", ".wo_a.",
                                        ".wo_b.", ".shared_experts.", ".experts."};
    for (size_t i = 0; i < COUNT(PARTS); i++)
        if (has(t->name, PARTS[i])) return !is_fp4(t);
    return false;
}

static uint32_t mix(Str name, uint64_t row, uint64_t col) {
    uint64_t h = 1469598103934665603u ^ (row << 20) ^ col;
    for (size_t i = 0; i < name.n; i++) h = (h ^ (uint8_t)name.p[i]) * 1099511628211u;
    h ^= h >> 29;
    return (uint32_t)((h * 0x9E3779B97F4A7C15u) >> 40);
}

/* A code and its scale, 2^-5 to 2^-3. */
static uint8_t code8(Str name, uint64_t row, uint64_t col) {
    return (uint8_t)((mix(name, row, col) & 0x9F) | 0x20);
}
static uint8_t code4(Str name, uint64_t row, uint64_t col) { return mix(name, row, col) & 15; }
static uint8_t scale_of(Str name, uint64_t row, uint64_t col) {
    return (uint8_t)(122 + mix(name, row + 7, col + 3) % 3);
}

static float value_of(const CkptTensor *t, uint64_t row, uint64_t col) {
    if (is_fp4(t))
        return fp_e2m1_to_f32(code4(t->name, row, col)) *
               fp_e8m0_to_f32((uint8_t)(scale_of(t->name, row, col / 32) - 2));
    return fp_e4m3_to_f32(code8(t->name, row, col)) *
           fp_e8m0_to_f32(scale_of(t->name, row / BLOCK, col / BLOCK));
}

static uint8_t *tensor_add(Maker *m, Str name, DType type, int n_dims, const uint64_t *shape) {
    assert_true(m->n < MAX_TENSORS);
    CkptTensor *t = &m->tensors[m->n];
    uint64_t bytes = dtype_info(type)->block_bytes;
    *t = (CkptTensor){.dtype = type, .n_dims = n_dims};
    t->name = str_c(arena_dupz(m->a, name));
    for (int i = 0; i < n_dims; i++) bytes *= t->shape[i] = shape[i];
    return m->data[m->n++] = arena_array(m->a, uint8_t, bytes);
}

/* The name without its last n letters and with others instead. */
static Str renamed(Maker *m, Str name, size_t n, const char *tail) {
    Buf b = {.max = 256};
    buf_put(&b, str_slice(name, 0, name.n - n));
    buf_put(&b, str_c(tail));
    Str out = str_c(arena_dupz(m->a, buf_str(&b)));
    buf_deinit(&b);
    return out;
}

static Str name_of(Maker *m, Str name) {
    const Names *pairs = m->kind == KIND_LIBRARY ? LIBRARY : MLX;
    size_t n = m->kind == KIND_LIBRARY ? COUNT(LIBRARY) : m->kind == KIND_MLX ? COUNT(MLX) : 0;
    Buf b = {.max = 256};
    buf_put(&b, name);
    if (!n && has(name, ".attn.norm.")) { /* the golden's is the library's way of saving */
        buf_clear(&b);
        buf_put(&b, str_slice(name, 0, str_find(name, STR("norm."), 0)));
        buf_put(&b, STR("kv_norm.weight"));
    }
    for (size_t i = 0; i < n; i++) {
        Str whole = str_c(arena_dupz(m->a, buf_str(&b)));
        size_t at = str_find(whole, str_c(pairs[i].from), 0);
        if (at == STR_NPOS || (pairs[i].from[0] != '.' && at)) continue;
        buf_clear(&b);
        buf_put(&b, str_slice(whole, 0, at));
        buf_put(&b, str_c(pairs[i].to));
        buf_put(&b, str_from(whole, at + strlen(pairs[i].from)));
    }
    Str out = str_c(arena_dupz(m->a, buf_str(&b)));
    buf_deinit(&b);
    if (n && (str_starts(out, STR("layers.")) || str_starts(out, STR("norm.")))) {
        Buf p = {.max = 256};
        buf_put(&p, STR("model."));
        buf_put(&p, out);
        out = str_c(arena_dupz(m->a, buf_str(&p)));
        buf_deinit(&p);
    }
    return out;
}

static void add_codes(Maker *m, const CkptTensor *t) {
    uint64_t n = t->shape[0], k = t->shape[1];
    bool fp4 = is_fp4(t);
    Str scale = renamed(m, name_of(m, t->name), strlen("weight"), "scale");
    const uint64_t shape[2] = {n, fp4 ? k / 2 : k};
    const uint64_t blocks[2] = {fp4 ? n : (n + BLOCK - 1) / BLOCK, (k + BLOCK - 1) / BLOCK};
    uint8_t *w = tensor_add(m, name_of(m, t->name), fp4 ? DTYPE_I8 : DTYPE_F8_E4M3, 2, shape);
    for (uint64_t i = 0; i < n * k; i++) {
        uint64_t row = i / k, col = i % k;
        if (!fp4)
            w[i] = code8(t->name, row, col);
        else if (col % 2 == 0)
            w[i / 2] = (uint8_t)(code4(t->name, row, col) | code4(t->name, row, col + 1) << 4);
    }
    uint8_t *s = tensor_add(m, scale, DTYPE_F8_E8M0, 2, blocks);
    for (uint64_t i = 0; i < blocks[0] * blocks[1]; i++)
        s[i] = (uint8_t)(scale_of(t->name, i / blocks[1], i % blocks[1]) - (fp4 ? 2 : 0));
}

static void put_values(const CkptTensor *t, float *out) {
    for (uint64_t i = 0; i < t->shape[0] * t->shape[1]; i++)
        out[i] = value_of(t, i / t->shape[1], i % t->shape[1]);
}

static void add_floats(Maker *m, const CkptTensor *t) {
    put_values(t, (float *)(void *)tensor_add(m, name_of(m, t->name), DTYPE_F32, 2, t->shape));
}

/* Expert 0's tensor stands for those of all: the library has gate and up in one. */
static void add_stack(Maker *m, const CkptTensor *first, size_t n_experts) {
    static const char LEAVES[] = "123";
    static const char *const MLX_NAMES[] = {"gate_proj", "down_proj", "up_proj"};
    size_t at = str_find(first->name, STR("experts.0."), 0), leaf = at + strlen("experts.0.w");
    size_t i_leaf = (size_t)(strchr(LEAVES, first->name.p[leaf]) - LEAVES);
    bool library = m->kind == KIND_LIBRARY, both = library && i_leaf != 1;
    if (both && i_leaf == 2) return;
    char tail[64];
    snprintf(tail, sizeof tail, "%s%s%s", library ? "experts." : "switch_mlp.",
             both ? "gate_up_proj" : MLX_NAMES[i_leaf], library ? "" : ".weight");
    uint64_t n = first->shape[0] * first->shape[1],
             shape[3] = {n_experts, first->shape[0] * (both ? 2 : 1), first->shape[1]};
    Str name = name_of(m, renamed(m, first->name, first->name.n - at, tail));
    float *out = (float *)(void *)tensor_add(m, name, DTYPE_F32, 3, shape);
    for (size_t e = 0; e < n_experts; e++) {
        for (int half = 0; half < (both ? 2 : 1); half++, out += n) {
            char own[128];
            snprintf(own, sizeof own, "%.*sexperts.%zu.w%c.weight", (int)at, first->name.p, e,
                     half ? '3' : LEAVES[i_leaf]);
            const CkptTensor *t = checkpoint_find(m->ck, str_c(own));
            assert_non_null(t);
            put_values(t, out);
        }
    }
}

static void add_tensor(Maker *m, const CkptTensor *t, size_t n_experts) {
    Err err = {0};
    bool stacks = m->kind == KIND_LIBRARY || m->kind == KIND_MLX;
    if (stacks && is_expert(t->name)) {
        if (has(t->name, ".experts.0.")) add_stack(m, t, n_experts);
    } else if (is_fp4(t) || is_fp8(t)) {
        (m->kind == KIND_RELEASE ? add_codes : add_floats)(m, t);
    } else {
        uint8_t *to = tensor_add(m, name_of(m, t->name), t->dtype, t->n_dims, t->shape);
        if (!checkpoint_read(m->ck, t, 0, to, t->n_bytes, &err)) fail_msg("%s", err.msg);
    }
}

static void config_edit(Buf *config, const void *ctx) {
    const Maker *m = ctx;
    Buf out = {0};
    if (m->kind != KIND_RELEASE) return;
    buf_putf(&out,
             "{\"expert_dtype\": \"fp4\", \"quantization_config\": {\"activation_scheme\": "
             "\"dynamic\", \"fmt\": \"e4m3\", \"quant_method\": \"fp8\", \"scale_fmt\": \"ue8m0\", "
             "\"weight_block_size\": [%d, %d]},",
             BLOCK, BLOCK);
    buf_put(&out, str_from(buf_str(config), 1));
    buf_deinit(config);
    *config = out;
}

static void make(Kind kind, const char *from, const char *to) {
    Arena a = {0};
    Err err = {0};
    Checkpoint *ck;
    SafetensorsOut out = {0};
    if (!checkpoint_open(from, &ck, &err)) fail_msg("%s", err.msg);
    Maker *m = arena_new(&a, Maker);
    *m = (Maker){.ck = ck, .a = &a, .kind = kind};
    for (size_t i = 0; i < ck->n_tensors; i++) add_tensor(m, &ck->tensors[i], 8);
    if (kind == KIND_RELEASE) /* of the layer of prediction, which nobody asks for */
        (void)tensor_add(m, STR("mtp.0.e_proj.scale"), DTYPE_F8_E8M0, 2, (uint64_t[]){1, 1});
    if (!golden_copy(from, to, config_edit, m, &err) ||
        !safetensors_write_open(&out, to, m->tensors, m->n, UINT64_MAX, &a, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < m->n; i++)
        if (!safetensors_write_put(&out, i, 0, m->data[i], out.tensors[i].n_bytes, &err))
            fail_msg("%s", err.msg);
    if (!safetensors_write_finish(&out, &err)) fail_msg("%s", err.msg);
    safetensors_write_drop(&out);
    checkpoint_close(ck);
    arena_deinit(&a);
}

static float *logits(const char *path, const char *backend, Arena *a, size_t *n) {
    Model *m = NULL;
    Engine *e = NULL;
    Err err = {0};
    ModelOptions mo = {.backend = backend, .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = PLANE_F32;
    uint32_t ids[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++) ids[i] = (i * 37 + 11) % 250;
    if (!model_open(path, &mo, &m, &err) || !engine_open(m, &eo, &e, &err))
        fail_msg("%s: %s", path, err.msg);
    *n = (size_t)N_TOKENS * m->arch.vocab;
    float *out = arena_array(a, float, *n);
    if (!run_logits(e, m, ids, N_TOKENS, out, &err)) fail_msg("%s: %s", path, err.msg);
    engine_close(e);
    model_close(m);
    return out;
}

static void all_spellings_give_the_same_logits(void **state) {
    (void)state;
    char from[2048], to[COUNT(KIND_NAMES)][64];
    Arena a = {0};
    size_t n, n_floats;
    snprintf(from, sizeof from, "%s/decoder/deepseek_v4", golden_dir());
    for (size_t i = 0; i < COUNT(KIND_NAMES); i++) {
        snprintf(to[i], sizeof to[i], "build/deepseek_release/%s", KIND_NAMES[i]);
        make((Kind)i, from, to[i]);
    }
    const float *want = logits(to[KIND_FLOATS], "ref", &a, &n_floats);
    for (size_t i = 0; i < COUNT(KIND_NAMES); i++) {
        double off = max_over_rms(logits(to[i], "ref", &a, &n), want, n_floats);
        assert_int_equal(n, n_floats);
        if (!(off <= 1e-6)) fail_msg("%s: logits are off by %.2e of rms", KIND_NAMES[i], off);
    }
    /* The cpu rounds what experts of fp4 are given to int8. */
    const float *cpu = logits(to[KIND_RELEASE], "cpu", &a, &n);
    double middle = middle_over_rms(cpu, want, N_TOKENS, n / N_TOKENS, &a);
    if (!(middle <= 0.02)) fail_msg("cpu: the middle row is off by %.2e of rms", middle);
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_spellings_give_the_same_logits)};
    return cmocka_run_group_tests_name("deepseek_release", tests, NULL, NULL);
}
