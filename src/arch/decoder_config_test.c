/* Sizes that config.json leaves out: wrappers' text sections do, and mean what the reference's classes
 * assume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "ckpt/ckpt_fixture.h"
#include "ckpt/safetensors_write.h"

static char dir[] = "/tmp/mlxcel_decoder_config_XXXXXX";

typedef struct Shape {
    const char *name;
    uint64_t dims[2]; /* the second 0: a vector */
} Shape;

static void checkpoint_make(const char *config, const Shape *shapes, size_t n) {
    Err err = {0};
    Arena a = {0};
    SafetensorsOut out = {0};
    CkptTensor *list = arena_array(&a, CkptTensor, n);
    FILE *f = fopen(fx_path(dir, "config.json"), "w");
    assert_non_null(f);
    fputs(config, f);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < n; i++) {
        int n_dims = shapes[i].dims[1] ? 2 : 1;
        list[i] = (CkptTensor){.name = str_c(shapes[i].name), .dtype = DTYPE_F32, .n_dims = n_dims};
        for (int k = 0; k < n_dims; k++) list[i].shape[k] = shapes[i].dims[k];
    }
    bool ok = safetensors_write_open(&out, dir, list, n, UINT64_MAX, &a, &err);
    for (size_t i = 0; ok && i < n; i++) {
        size_t bytes = (size_t)out.tensors[i].n_bytes;
        void *zeros = arena_alloc_n(&a, bytes, 1);
        ok = safetensors_write_put(&out, i, 0, zeros, bytes, &err);
    }
    ok = ok && safetensors_write_finish(&out, &err);
    if (!ok) fail_msg("%s", err.msg);
    safetensors_write_drop(&out);
    arena_deinit(&a);
}

#define LAYER(n) "language_model.model.layers.0." n ".weight"

/* As gemma-3-4b has it: neither heads nor vocabulary nor context. */
static void left_out_sizes_are_the_classes(void **state) {
    (void)state;
    static const Shape SHAPES[] = {
        {"language_model.model.embed_tokens.weight", {48, 32}},
        {"language_model.model.norm.weight", {32, 0}},
        {LAYER("input_layernorm"), {32, 0}},
        {LAYER("post_attention_layernorm"), {32, 0}},
        {LAYER("pre_feedforward_layernorm"), {32, 0}},
        {LAYER("post_feedforward_layernorm"), {32, 0}},
        {LAYER("self_attn.q_proj"), {8 * 256, 32}},
        {LAYER("self_attn.k_proj"), {4 * 256, 32}},
        {LAYER("self_attn.v_proj"), {4 * 256, 32}},
        {LAYER("self_attn.o_proj"), {32, 8 * 256}},
        {LAYER("self_attn.q_norm"), {256, 0}},
        {LAYER("self_attn.k_norm"), {256, 0}},
        {LAYER("mlp.gate_proj"), {16, 32}},
        {LAYER("mlp.up_proj"), {16, 32}},
        {LAYER("mlp.down_proj"), {32, 16}},
    };
    Err err = {0};
    Arena a = {0};
    Checkpoint *ck;
    ArchModel m;
    checkpoint_make(
        "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\","
        "\"hidden_size\": 32, \"intermediate_size\": 16, \"num_hidden_layers\": 1,"
        "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"},"
        "\"sliding_window\": 1024}}",
        SHAPES, sizeof SHAPES / sizeof *SHAPES);
    if (!checkpoint_open(dir, &ck, &err) || !arch_build(ck, &a, &m, &err)) fail_msg("%s", err.msg);
    assert_int_equal(m.vocab, 48);
    assert_int_equal(m.layers[0].n_heads, 8);
    assert_int_equal(m.layers[0].n_kv_heads, 4);
    assert_int_equal(m.layers[0].head_dim, 256);
    assert_int_equal(m.context, 131072);
    assert_null(m.media); /* the file has no tower */
    checkpoint_close(ck);
    arena_deinit(&a);
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    fx_remove_dir(dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(left_out_sizes_are_the_classes)};
    return cmocka_run_group_tests_name("decoder_config", tests, setup, teardown);
}
