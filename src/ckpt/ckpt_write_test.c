/* The writers: what they write is what the readers of this folder read; a file that is not complete
 * never appears, and names or sizes that a format cannot hold are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ckpt/checkpoint.h"
#include "ckpt/ckpt_fixture.h"
#include "ckpt/gguf_write.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_write.h"

static char dir[64];

static CkptTensor tensor(const char *name, DType t, uint64_t rows, uint64_t columns) {
    CkptTensor c = {.name = str_c(name), .dtype = t};
    if (rows) c.shape[c.n_dims++] = rows;
    c.shape[c.n_dims++] = columns;
    return c;
}

static void put_keys(GgufOut *o) {
    static const Str words[] = {{"a", 1}, {"", 0}, {"\xC3\xA9", 2}};
    static const int32_t ints[] = {-1, 7};
    static const float floats[] = {0.5f, -2};
    static const bool flags[] = {true, false, true};
    gguf_write_u32(o, "t.u32", 4000000000u);
    gguf_write_f32(o, "t.f32", 1.25f);
    gguf_write_bool(o, "t.bool", true);
    gguf_write_str(o, "t.str", STR("text"));
    gguf_write_strs(o, "t.strs", words, 3);
    gguf_write_i32s(o, "t.i32s", ints, 2);
    gguf_write_f32s(o, "t.f32s", floats, 2);
    gguf_write_bools(o, "t.bools", flags, 3);
}

static void check_keys(const Gguf *g, Arena *a) {
    int64_t i;
    double f;
    bool b;
    Str s;
    size_t n;
    Err err = {0};
    const Str *words;
    const int64_t *ints;
    const float *floats;
    assert_true(gguf_int(gguf_get(g, "t.u32"), &i) && i == 4000000000);
    assert_true(gguf_float(gguf_get(g, "t.f32"), &f) && f == 1.25);
    assert_true(gguf_bool(gguf_get(g, "t.bool"), &b) && b);
    assert_true(gguf_str(gguf_get(g, "t.str"), &s) && str_eqc(s, "text"));
    assert_true(gguf_strs(gguf_get(g, "t.strs"), a, &words, &n, &err));
    assert_true(n == 3 && str_eqc(words[0], "a") && !words[1].n && str_eqc(words[2], "\xC3\xA9"));
    assert_true(gguf_ints(gguf_get(g, "t.i32s"), a, &ints, &n, &err));
    assert_true(n == 2 && ints[0] == -1 && ints[1] == 7);
    assert_true(gguf_f32s(gguf_get(g, "t.f32s"), a, &floats, &n, &err));
    assert_true(n == 2 && floats[0] == 0.5f && floats[1] == -2);
    assert_true(gguf_ints(gguf_get(g, "t.bools"), a, &ints, &n, &err));
    assert_true(n == 3 && ints[0] == 1 && ints[1] == 0 && ints[2] == 1);
}

static void a_gguf_is_read_back(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    GgufOut o, again;
    Gguf *g;
    const char *path = fx_path(dir, "a.gguf");
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const uint8_t blocks[34] = {1, 2, 3};
    uint8_t got[34];
    gguf_write_init(&o, &a);
    put_keys(&o);
    const CkptTensor t[2] = {tensor("m.weight", DTYPE_F32, 2, 3), tensor("q", DTYPE_Q8_0, 0, 32)};
    for (int i = 0; i < 2; i++) assert_true(gguf_write_tensor(&o, &t[i], &err));
    assert_true(gguf_write_open(&o, path, &err));
    assert_false(os_exists(path)); /* not before it is complete */
    assert_true(gguf_write_put(&o, 1, 0, blocks, 34, &err));
    assert_true(gguf_write_put(&o, 0, 12, x + 3, 12, &err)); /* in any order */
    assert_true(gguf_write_put(&o, 0, 0, x, 12, &err));
    assert_true(gguf_write_finish(&o, &err));
    gguf_write_drop(&o);
    if (!gguf_open(path, &g, &err)) fail_msg("%s", err.msg);
    check_keys(g, &a);
    const CkptTensor *m = gguf_tensor(g, STR("m.weight")), *q = gguf_tensor(g, STR("q"));
    assert_true(m && q && m->n_dims == 2 && m->shape[0] == 2 && m->shape[1] == 3);
    assert_true(os_file_read_at(&g->file, m->offset, got, 24, &err));
    assert_memory_equal(got, x, 24);
    assert_true(os_file_read_at(&g->file, q->offset, got, 34, &err));
    assert_memory_equal(got, blocks, 34);
    /* keys of another file, as they are */
    gguf_write_init(&again, &a);
    for (size_t i = 0; i < g->n_keys; i++) gguf_write_value(&again, &g->keys[i]);
    gguf_close(g);
    assert_true(gguf_write_open(&again, fx_path(dir, "b.gguf"), &err));
    assert_true(gguf_write_finish(&again, &err));
    gguf_write_drop(&again);
    if (!gguf_open(fx_path(dir, "b.gguf"), &g, &err)) fail_msg("%s", err.msg);
    check_keys(g, &a);
    gguf_close(g);
    arena_deinit(&a);
}

static void ggufs_refuse(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    GgufOut o;
    char name[80];
    memset(name, 'x', sizeof name);
    name[64] = 0;
    gguf_write_init(&o, &a);
    CkptTensor t = tensor(name, DTYPE_F32, 0, 4);
    assert_false(gguf_write_tensor(&o, &t, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    t = tensor("rows", DTYPE_Q8_0, 2, 48); /* no whole blocks */
    assert_false(gguf_write_tensor(&o, &t, &err));
    t = tensor("u32", DTYPE_U32, 0, 4); /* no such type there */
    assert_false(gguf_write_tensor(&o, &t, &err));
    assert_int_equal(err.kind, ERR_UNSUPPORTED);
    t = tensor("huge", DTYPE_F32, UINT64_MAX / 2, 8);
    assert_false(gguf_write_tensor(&o, &t, &err));
    t = tensor("t", DTYPE_F32, 0, 4);
    assert_true(gguf_write_tensor(&o, &t, &err));
    assert_true(gguf_write_open(&o, fx_path(dir, "never.gguf"), &err));
    assert_false(gguf_write_put(&o, 0, 12, "12345678", 8, &err)); /* beyond its end */
    assert_true(gguf_write_put(&o, 0, 0, "12345678", 8, &err));
    assert_false(gguf_write_finish(&o, &err)); /* half of it is missing */
    assert_non_null(strstr(err.msg, "tensor t is not complete"));
    gguf_write_drop(&o);
    assert_false(os_exists(fx_path(dir, "never.gguf")));
    gguf_write_init(&o, &a);
    assert_false(gguf_write_open(&o, fx_path(dir, "no/such/dir.gguf"), &err));
    assert_int_equal(err.kind, ERR_IO);
    gguf_write_drop(&o);
    arena_deinit(&a);
}

static void shards_are_read_back(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    SafetensorsOut o;
    Checkpoint *ck;
    const char *out = arena_dupz(&a, str_c(fx_path(dir, "shards")));
    assert_true(os_make_dirs(out, &err));
    const CkptTensor t[4] = {tensor("a", DTYPE_F32, 2, 3), tensor("b", DTYPE_BF16, 0, 5),
                             tensor("c\"\\", DTYPE_U8, 0, 40), /* longer than a file may be */
                             tensor("d", DTYPE_F16, 0, 1)};
    char data[40], got[40];
    for (int i = 0; i < 40; i++) data[i] = (char)i;
    assert_true(safetensors_write_open(&o, out, t, 4, 36, &a, &err));
    assert_int_equal(o.n_files, 3);
    for (size_t i = 4; i-- > 0;)
        assert_true(safetensors_write_put(&o, i, 0, data, (size_t)o.tensors[i].n_bytes, &err));
    assert_true(safetensors_write_finish(&o, &err));
    safetensors_write_drop(&o);
    if (!os_write_file(fx_path(out, "config.json"), STR("{\"model_type\":\"x\"}"), &err))
        fail_msg("%s", err.msg);
    if (!checkpoint_open(out, &ck, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ck->n_tensors, 4);
    assert_int_equal(ck->n_files, 3);
    for (size_t i = 0; i < 4; i++) {
        const CkptTensor *f = checkpoint_find(ck, t[i].name);
        assert_true(f && f->dtype == t[i].dtype && f->n_dims == t[i].n_dims);
        assert_true(checkpoint_read(ck, f, 0, got, (size_t)f->n_bytes, &err));
        assert_memory_equal(got, data, f->n_bytes);
    }
    checkpoint_close(ck);
    /* not complete: nothing there */
    assert_true(os_make_dirs(fx_path(dir, "half"), &err));
    assert_true(safetensors_write_open(&o, fx_path(dir, "half"), t, 1, 100, &a, &err));
    assert_true(safetensors_write_put(&o, 0, 0, data, 20, &err));
    assert_false(safetensors_write_put(&o, 0, 20, data, 20, &err));
    assert_false(safetensors_write_finish(&o, &err));
    safetensors_write_drop(&o);
    assert_false(os_exists(fx_path(dir, "half/model.safetensors")));
    const CkptTensor odd = tensor("q", DTYPE_Q8_0, 0, 32); /* no safetensors type */
    assert_false(safetensors_write_open(&o, fx_path(dir, "half"), &odd, 1, 100, &a, &err));
    safetensors_write_drop(&o);
    arena_deinit(&a);
}

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/mlxcel_write_XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    (void)state;
    fx_remove_dir(dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gguf_is_read_back),
                                       cmocka_unit_test(ggufs_refuse),
                                       cmocka_unit_test(shards_are_read_back)};
    return cmocka_run_group_tests_name("ckpt_write", tests, make_dir, remove_dir);
}
