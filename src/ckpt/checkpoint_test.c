/* What lies at a path: shards with and without an index, split GGUF sets, side files,
 * quantization settings; files that are missing, misnumbered or shrink while open; exhausted
 * memory. The malformed directories are ckpt_malformed_test.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/ckpt_fixture.h"

static char dir[] = "/tmp/mlxcel_checkpoint_XXXXXX";

static int fresh(void **state) {
    (void)state;
    fx_remove_dir(dir);
    return mkdir(dir, 0777);
}

static void put(const char *name, const char *text) {
    assert_true(os_write_file(fx_path(dir, name), str_c(text), NULL));
}

static void put_shard(const char *name, const char *tensor) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", tensor);
    assert_true(fx_safetensors_write(fx_path(dir, name), header, 8));
}

static Checkpoint *open_ok(const char *path) {
    Checkpoint *ck = NULL;
    Err err = {0};
    if (!checkpoint_open(path, &ck, &err)) fail_msg("%s", err.msg);
    return ck;
}

static void open_fails(const char *path, ErrKind kind, const char *message) {
    Checkpoint *ck;
    Err err = {0};
    if (checkpoint_open(path, &ck, &err)) fail_msg("%s: opened", path);
    if (err.kind != kind || !strstr(err.msg, message))
        fail_msg("%s: %s", errkind_name(err.kind), err.msg);
}

static void one_file(void **state) {
    (void)state;
    put("config.json", "{\"model_type\":\"llama\",\"hidden_size\":2}");
    put_shard("model.safetensors", "w");
    Checkpoint *ck = open_ok(dir);
    assert_true(ck->kind == CKPT_SAFETENSORS && ck->n_tensors == 1 && ck->n_files == 1 &&
                ck->tensor_bytes == 8);
    assert_true(str_eqc(ck->config.model_type, "llama") && !ck->generation.json &&
                !ck->quantization);
    const CkptTensor *t = checkpoint_find(ck, STR("w"));
    unsigned char bytes[8];
    Err err = {0};
    assert_true(checkpoint_read(ck, t, 2, bytes, 6, &err) && bytes[0] == 2 && bytes[5] == 7);
    assert_false(checkpoint_read(ck, t, 4, bytes, 5, &err) ||
                 checkpoint_read(ck, t, UINT64_MAX, bytes, 2, &err));
    assert_null(checkpoint_find(ck, STR("v")));
    const CkptRange whole = {t->i_file, t->offset, t->n_bytes};
    assert_true(checkpoint_stream_begin(ck, &whole, 1, true, &err));
    assert_true(checkpoint_read(ck, t, 2, bytes, 6, &err) && bytes[0] == 2 && bytes[5] == 7);
    checkpoint_stream_pass(ck, 1);
    checkpoint_drop_cache(ck, &whole);
    checkpoint_close(ck);
}

static void shards_by_index(void **state) {
    (void)state;
    put("config.json", "{}");
    put_shard("model-00001-of-00002.safetensors", "a");
    put_shard("model-00002-of-00002.safetensors", "b");
    put_shard("other.safetensors", "c"); /* not in the index: not read */
    put("model.safetensors.index.json",
        "{\"weight_map\":{\"b\":\"model-00002-of-00002.safetensors\",\"a\":\"model-00001-of-00002."
        "safetensors\"}}");
    Checkpoint *ck = open_ok(dir);
    assert_true(ck->n_files == 2 && ck->n_tensors == 2 && !checkpoint_find(ck, STR("c")));
    assert_true(str_ends(ck->files[checkpoint_find(ck, STR("a"))->i_file],
                         STR("model-00001-of-00002.safetensors")));
    checkpoint_close(ck);
    put("model.safetensors.index.json", "{\"weight_map\":{\"b\":\"model-00002-of-00002."
                                        "safetensors\",\"b\":\"other.safetensors\"}}");
    open_fails(dir, ERR_CORRUPT, "has tensor b twice");
    put("model.safetensors.index.json", "{\"weight_map\":{\"x\":\"other.safetensors\"}}");
    open_fails(dir, ERR_CORRUPT, "tensor x is not in");
    put("model.safetensors.index.json", "{\"weight_map\":{\"x\":\"model-00003.safetensors\"}}");
    open_fails(dir, ERR_NOT_FOUND, "model-00003.safetensors, which is not there");
    static const char *const bad[] = {"../x.safetensors",
                                      "/x.safetensors",
                                      ".x.safetensors",
                                      "a/b.safetensors",
                                      "x.bin",
                                      "a\\\\b.safetensors",
                                      "x\\u0000.safetensors",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"weight_map\":{\"x\":\"%s\"}}", bad[i]);
        put("model.safetensors.index.json", text);
        open_fails(dir, ERR_CORRUPT, "plain *.safetensors name");
    }
    put("model.safetensors.index.json", "[]");
    open_fails(dir, ERR_INPUT, "index at byte 0 is an array");
    put("model.safetensors.index.json", "{\"metadata\":{}}");
    open_fails(dir, ERR_CORRUPT, "weight_map is missing");
}

static void shards_without_index(void **state) {
    (void)state;
    put("config.json", "{}");
    put_shard("weights.safetensors", "z");
    put_shard("adapter_model.safetensors", "lora");
    Checkpoint *ck = open_ok(dir);
    assert_true(ck->n_tensors == 1 && checkpoint_find(ck, STR("z")));
    checkpoint_close(ck);
    put_shard("model-00001-of-00002.safetensors", "a");
    open_fails(dir, ERR_NOT_FOUND, "has 1 of the 2 files");
    put_shard("model-00002-of-00002.safetensors", "b");
    ck = open_ok(dir);
    assert_true(ck->n_tensors == 2 && checkpoint_find(ck, STR("b")));
    checkpoint_close(ck);
    put_shard("model-00002-of-00002.safetensors", "a");
    open_fails(dir, ERR_CORRUPT, "tensor a is both in");
}

static void nothing_to_open(void **state) {
    (void)state;
    open_fails(fx_path(dir, "absent"), ERR_NOT_FOUND, "absent");
    open_fails(dir, ERR_NOT_FOUND, "has no config.json");
    put("config.json", "{}");
    put("pytorch_model.bin", "");
    open_fails(dir, ERR_NOT_FOUND, "pytorch_model.bin is not read");
    open_fails(fx_path(dir, "config.json"), ERR_INPUT, "give the directory");
    put("config.json", "{\"a\":1,\"a\":2}");
    open_fails(dir, ERR_INPUT, "config.json: JSON object has the name \"a\" twice");
    put("config.json", "7");
    open_fails(dir, ERR_INPUT, "the outermost value is a number, an object is needed");
}

static void hub_links_are_followed(void **state) {
    (void)state;
    assert_int_equal(mkdir(fx_path(dir, "blobs"), 0777), 0);
    assert_int_equal(mkdir(fx_path(dir, "snapshots"), 0777), 0);
    assert_int_equal(mkdir(fx_path(dir, "snapshots/1"), 0777), 0);
    put("blobs/c", "{\"model_type\":\"x\"}");
    put_shard("blobs/w", "t");
    assert_int_equal(symlink("../../blobs/c", fx_path(dir, "snapshots/1/config.json")), 0);
    assert_int_equal(symlink("../../blobs/w", fx_path(dir, "snapshots/1/model-1.safetensors")), 0);
    put("snapshots/1/model.safetensors.index.json",
        "{\"weight_map\":{\"t\":\"model-1.safetensors\"}}");
    Checkpoint *ck = open_ok(fx_path(dir, "snapshots/1"));
    assert_true(checkpoint_find(ck, STR("t")) && str_eqc(ck->config.model_type, "x"));
    checkpoint_close(ck);
}

static void side_files(void **state) {
    (void)state;
    put("config.json",
        "{\"quantization\":null,\"quantization_config\":{\"quant_method\":\"gptq\"}}");
    put("generation_config.json", "{\"temperature\":0.5}");
    put("tokenizer.json", "{}");
    assert_int_equal(mkdir(fx_path(dir, "1_Pooling"), 0777), 0);
    put("1_Pooling/config.json", "{ }");
    put_shard("model.safetensors", "w");
    Checkpoint *ck = open_ok(dir);
    Buf text = {0};
    Err err = {0};
    double d = 0;
    assert_true(config_float(&ck->generation, "temperature", 1, 0, 2, &d, &err) && d == 0.5);
    assert_true(str_eqc(json_get(ck->quantization, "quant_method")->text, "gptq"));
    assert_true(checkpoint_read_file(ck, "tokenizer.json", 100, &text, &err) &&
                str_eqc(buf_str(&text), "{}"));
    assert_true(checkpoint_read_file(ck, "1_Pooling/config.json", 100, &text, &err));
    assert_false(checkpoint_read_file(ck, "none", 100, &text, &err));
    assert_int_equal(err.kind, ERR_NOT_FOUND);
    assert_false(checkpoint_read_file(ck, "tokenizer.json", 1, &text, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    static const char *const outside[] = {"../x", "/etc/passwd", "a/../../x", "..", ""};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_false(checkpoint_read_file(ck, outside[i], 100, &text, &err));
        assert_int_equal(err.kind, ERR_INPUT);
    }
    checkpoint_close(ck);
    buf_deinit(&text);
    put("generation_config.json", "{");
    open_fails(dir, ERR_INPUT, "generation_config.json");
}

static void quantization_settings_are_found(void **state) {
    (void)state;
    put_shard("model.safetensors", "w");
    put("quantize_config.json", "{\"bits\":4}");
    put("config.json", "{}");
    Checkpoint *ck = open_ok(dir);
    assert_true(json_get(ck->quantization, "bits") &&
                !strcmp(ck->quantization_file, "quantize_config.json"));
    checkpoint_close(ck);
    put("hf_quant_config.json", "{\"producer\":{},\"quantization\":{\"quant_algo\":\"FP8\"}}");
    ck = open_ok(dir);
    assert_non_null(json_get(ck->quantization, "quant_algo"));
    checkpoint_close(ck);
    put("config.json", "{\"text_config\":{\"quantization\":{\"bits\":8}}}");
    ck = open_ok(dir);
    assert_true(!strcmp(ck->quantization_file, "config.json") &&
                json_get(ck->quantization, "bits"));
    checkpoint_close(ck);
    put("config.json", "{\"quantization\":\"4bit\"}");
    open_fails(dir, ERR_INPUT, "config: quantization is a string, an object is needed");
}

static void put_part(const char *name, uint16_t no, uint16_t count, int32_t n_tensors,
                     const char *tensor) {
    GgufFixture f = {0};
    if (no == 0) fx_key_str(&f, "general.architecture", "llama");
    fx_key(&f, "split.no", GGUF_U16, &no, 2);
    fx_key(&f, "split.count", GGUF_U16, &count, 2);
    fx_key(&f, "split.tensors.count", GGUF_I32, &n_tensors, 4);
    fx_tensor(&f, tensor, 0, 4, (float)no * 10);
    assert_true(fx_gguf_write(&f, fx_path(dir, name)));
}

static void split_gguf(void **state) {
    (void)state;
    char first[512];
    snprintf(first, sizeof first, "%s/m-00001-of-00003.gguf", dir);
    put_part("m-00001-of-00003.gguf", 0, 3, 3, "a");
    put_part("m-00002-of-00003.gguf", 1, 3, 3, "b");
    open_fails(first, ERR_NOT_FOUND, "m-00003-of-00003.gguf");
    put_part("m-00003-of-00003.gguf", 2, 3, 3, "output.weight");
    Checkpoint *ck = open_ok(first);
    float x[4];
    bool tied;
    assert_true(ck->kind == CKPT_GGUF && ck->n_files == 3 && ck->n_tensors == 3 &&
                str_eqc(ck->config.model_type, "llama"));
    assert_true(checkpoint_read(ck, checkpoint_find(ck, STR("b")), 0, x, 16, NULL) && x[0] == 10 &&
                x[3] == 13);
    assert_true(config_bool(&ck->config, "tie_word_embeddings", true, &tied, NULL) && !tied);
    checkpoint_close(ck);
    ck = open_ok(dir); /* a directory that holds just this set */
    assert_int_equal(ck->n_tensors, 3);
    checkpoint_close(ck);
    open_fails(fx_path(dir, "m-00002-of-00003.gguf"), ERR_INPUT,
               "part 2 of 3, the first part is needed");
    put("config.json", "{}"); /* one beside it says nothing about safetensors */
    put("mmproj-m.gguf", "");
    ck = open_ok(dir);
    checkpoint_close(ck);
    put("other.gguf", "");
    open_fails(dir, ERR_INPUT, "several models, m-00001-of-00003.gguf and other.gguf");
    put_part("m-00002-of-00003.gguf", 2, 3, 3, "b");
    open_fails(first, ERR_CORRUPT, "says it is part 3 of 3, by its name it is part 2");
    put_part("m-00002-of-00003.gguf", 1, 3, 3, "a");
    open_fails(first, ERR_CORRUPT, "tensor a is both in");
    put_part("m-00002-of-00003.gguf", 1, 3, 3, "b");
    put_part("m-00001-of-00003.gguf", 0, 3, 4, "a");
    open_fails(first, ERR_CORRUPT, "split.tensors.count is 4, the parts hold 3");
    put_part("m.gguf", 0, 3, 3, "a");
    open_fails(fx_path(dir, "m.gguf"), ERR_INPUT, "should end in -00001-of-00003.gguf");
    put_part("n-00001-of-00001.gguf", 0, 1, 1, "a");
    ck = open_ok(fx_path(dir, "n-00001-of-00001.gguf"));
    checkpoint_close(ck);
    put_part("big.gguf", 0, 65535, 1, "a");
    open_fails(fx_path(dir, "big.gguf"), ERR_LIMIT, "split.count is 65535");
}

static void shrinking_file_is_an_error(void **state) {
    (void)state;
    put("config.json", "{}");
    put_shard("model.safetensors", "w");
    Checkpoint *ck = open_ok(dir);
    unsigned char bytes[8];
    Err err = {0};
    assert_int_equal(truncate(fx_path(dir, "model.safetensors"), 20), 0);
    assert_false(checkpoint_read(ck, &ck->tensors[0], 0, bytes, 8, &err));
    assert_int_equal(err.kind, ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "tensor w"));
    checkpoint_close(ck);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    put("config.json", "{\"model_type\":\"x\",\"quantization\":{\"bits\":4}}");
    put("generation_config.json", "{\"a\":[1]}");
    put_shard("model-1.safetensors", "a");
    put_shard("model-2.safetensors", "b");
    put("model.safetensors.index.json",
        "{\"weight_map\":{\"b\":\"model-2.safetensors\",\"\\u0061\":\"model-1.safetensors\"}}");
    put_part("m-00001-of-00002.gguf", 0, 2, 2, "a");
    put_part("m-00002-of-00002.gguf", 1, 2, 2, "b");
    const char *paths[] = {dir, fx_path(dir, "m-00001-of-00002.gguf")};
    for (int k = 0; k < 2; k++) {
        bool ok = false;
        for (int n = 0; !ok; n++) {
            Checkpoint *ck;
            Err err = {0};
            assert_true(n < 300);
            mem_fail_after(n);
            ok = checkpoint_open(paths[k], &ck, &err);
            mem_fail_after(-1);
            if (ok)
                checkpoint_close(ck);
            else
                assert_int_equal(err.kind, ERR_NOMEM);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_file, fresh),
        cmocka_unit_test_setup(shards_by_index, fresh),
        cmocka_unit_test_setup(shards_without_index, fresh),
        cmocka_unit_test_setup(nothing_to_open, fresh),
        cmocka_unit_test_setup(hub_links_are_followed, fresh),
        cmocka_unit_test_setup(side_files, fresh),
        cmocka_unit_test_setup(quantization_settings_are_found, fresh),
        cmocka_unit_test_setup(split_gguf, fresh),
        cmocka_unit_test_setup(shrinking_file_is_an_error, fresh),
        cmocka_unit_test_setup(no_memory_is_an_error, fresh),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
