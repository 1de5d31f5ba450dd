/* GGUF: every value type comes out as it went in, long metadata is read in growing pieces, what
 * is cut anywhere is refused, and running out of memory anywhere is an error. The malformed
 * files are ckpt_malformed_test.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/ckpt_fixture.h"

static char dir[] = "/tmp/mlxcel_gguf_XXXXXX";

static Gguf *open_fixture(GgufFixture *f) {
    Gguf *g = NULL;
    Err err = {0};
    assert_true(fx_gguf_write(f, fx_path(dir, "a.gguf")));
    if (!gguf_open(fx_path(dir, "a.gguf"), &g, &err)) fail_msg("%s", err.msg);
    return g;
}

static void assert_int(const Gguf *g, const char *key, int64_t want) {
    int64_t v = 0;
    if (!gguf_int(gguf_get(g, key), &v) || v != want) fail_msg("%s is %lld", key, (long long)v);
}

static void scalars_of_every_width(void **state) {
    (void)state;
    GgufFixture f = {0};
    uint64_t ones = UINT64_MAX, half = INT64_MAX;
    double d = -2.5;
    float x = 1.5f;
    fx_key(&f, "u8", GGUF_U8, &ones, 1);
    fx_key(&f, "i8", GGUF_I8, &ones, 1);
    fx_key(&f, "u16", GGUF_U16, &ones, 2);
    fx_key(&f, "i16", GGUF_I16, &ones, 2);
    fx_key(&f, "u32", GGUF_U32, &ones, 4);
    fx_key(&f, "i32", GGUF_I32, &ones, 4);
    fx_key(&f, "u64", GGUF_U64, &half, 8);
    fx_key(&f, "i64", GGUF_I64, &ones, 8);
    fx_key(&f, "wide", GGUF_U64, &ones, 8);
    fx_key(&f, "f32", GGUF_F32, &x, 4);
    fx_key(&f, "f64", GGUF_F64, &d, 8);
    fx_key(&f, "true", GGUF_BOOL, "\1", 1);
    fx_key(&f, "odd", GGUF_BOOL, "\7", 1);
    fx_key(&f, "one", GGUF_U8, "\1", 1);
    fx_key_str(&f, "text", "hi\n");
    Gguf *g = open_fixture(&f);
    assert_int(g, "u8", 255);
    assert_int(g, "i8", -1);
    assert_int(g, "u16", 65535);
    assert_int(g, "i16", -1);
    assert_int(g, "u32", UINT32_MAX);
    assert_int(g, "i32", -1);
    assert_int(g, "u64", INT64_MAX);
    assert_int(g, "i64", -1);
    int64_t i;
    double v;
    bool b = false;
    Str s;
    assert_false(gguf_int(gguf_get(g, "wide"), &i) || gguf_int(gguf_get(g, "f32"), &i) ||
                 gguf_int(gguf_get(g, "true"), &i));
    assert_false(gguf_int(NULL, &i) || gguf_float(NULL, &v) || gguf_bool(NULL, &b) ||
                 gguf_str(NULL, &s));
    assert_true(gguf_float(gguf_get(g, "f32"), &v) && v == 1.5);
    assert_true(gguf_float(gguf_get(g, "f64"), &v) && v == -2.5);
    assert_true(gguf_float(gguf_get(g, "i8"), &v) && v == -1);
    assert_true(gguf_float(gguf_get(g, "wide"), &v) && v == 18446744073709551616.0);
    assert_true(gguf_bool(gguf_get(g, "true"), &b) && b && gguf_bool(gguf_get(g, "odd"), &b) && b &&
                gguf_bool(gguf_get(g, "one"), &b) && b);
    assert_false(gguf_bool(gguf_get(g, "u8"), &b) || gguf_bool(gguf_get(g, "text"), &b) ||
                 gguf_float(gguf_get(g, "text"), &v));
    assert_true(gguf_str(gguf_get(g, "text"), &s) && str_eqc(s, "hi\n"));
    assert_null(gguf_get(g, "none"));
    assert_int_equal(g->n_keys, 15);
    assert_true(str_eqc(g->keys[14].key, "text"));
    gguf_close(g);
}

static void arrays_of_every_kind(void **state) {
    (void)state;
    static const int32_t ints[] = {1, -2, 3};
    static const float floats[] = {0.5f, -1.0f};
    GgufFixture f = {0};
    Buf strs = {0}, nested = {0};
    fx_text(&strs, "a");
    fx_text(&strs, "");
    fx_text(&strs, "long one");
    fx_u32(&nested, GGUF_I32);
    fx_u64(&nested, 3);
    fx_put(&nested, ints, sizeof ints);
    fx_key_array(&f, "i32", GGUF_I32, 3, ints, sizeof ints);
    fx_key_array(&f, "f32", GGUF_F32, 2, floats, sizeof floats);
    fx_key_array(&f, "str", GGUF_STRING, 3, strs.p, strs.n);
    fx_key_array(&f, "bool", GGUF_BOOL, 2, "\1\0", 2);
    fx_key_array(&f, "nested", GGUF_ARRAY, 1, nested.p, nested.n);
    fx_key_array(&f, "none", GGUF_F64, 0, NULL, 0);
    fx_key_u32(&f, "one", 7);
    Gguf *g = open_fixture(&f);
    Arena a = {0};
    Err err = {0};
    const int64_t *i;
    const double *d;
    const float *x;
    const Str *s;
    size_t n;
    assert_true(gguf_ints(gguf_get(g, "i32"), &a, &i, &n, &err) && n == 3 && i[0] == 1 &&
                i[1] == -2 && i[2] == 3);
    assert_true(gguf_floats(gguf_get(g, "i32"), &a, &d, &n, &err) && n == 3 && d[1] == -2);
    assert_true(gguf_floats(gguf_get(g, "f32"), &a, &d, &n, &err) && n == 2 && d[0] == 0.5);
    assert_true(gguf_f32s(gguf_get(g, "f32"), &a, &x, &n, &err) && n == 2 && x[1] == -1.0f);
    assert_true(gguf_strs(gguf_get(g, "str"), &a, &s, &n, &err) && n == 3 && str_eqc(s[0], "a") &&
                !s[1].n && str_eqc(s[2], "long one"));
    assert_true(gguf_ints(gguf_get(g, "bool"), &a, &i, &n, &err) && n == 2 && i[0] == 1 &&
                i[1] == 0);
    assert_true(gguf_ints(gguf_get(g, "one"), &a, &i, &n, &err) && n == 1 && i[0] == 7);
    assert_true(gguf_strs(gguf_get(g, "none"), &a, &s, &n, &err) && n == 0);
    assert_false(gguf_strs(gguf_get(g, "i32"), &a, &s, &n, &err));
    assert_string_equal(err.msg, "key i32 holds an array of i32, strings are needed");
    assert_false(gguf_ints(gguf_get(g, "f32"), &a, &i, &n, &err) ||
                 gguf_f32s(gguf_get(g, "i32"), &a, &x, &n, &err));
    assert_false(gguf_ints(gguf_get(g, "nested"), &a, &i, &n, &err));
    GgufValue e;
    GgufIter it = gguf_iter(gguf_get(g, "str"));
    assert_true(gguf_next(&it, &e) && str_eqc(e.bytes, "a") && gguf_next(&it, &e) &&
                gguf_next(&it, &e) && str_eqc(e.bytes, "long one"));
    assert_false(gguf_next(&it, &e));
    it = gguf_iter(gguf_get(g, "nested"));
    assert_false(gguf_next(&it, &e));
    arena_deinit(&a);
    buf_deinit(&strs);
    buf_deinit(&nested);
    gguf_close(g);
}

static void tensors_are_placed(void **state) {
    (void)state;
    GgufFixture f = {0};
    fx_key_str(&f, "general.architecture", "llama");
    fx_tensor(&f, "m", 3, 4, 10);
    fx_tensor(&f, "v", 0, 5, 100);
    Gguf *g = open_fixture(&f);
    const CkptTensor *m = gguf_tensor(g, STR("m")), *v = gguf_tensor(g, STR("v"));
    assert_true(m->n_dims == 2 && m->shape[0] == 3 && m->shape[1] == 4 && m->n_bytes == 48 &&
                m->dtype == DTYPE_F32);
    assert_true(v->n_dims == 1 && v->shape[0] == 5 && v->n_bytes == 20);
    assert_null(gguf_tensor(g, STR("w")));
    float x;
    assert_true(os_file_read_at(&g->file, v->offset, &x, 4, NULL) && x == 100);
    char shape[64];
    assert_string_equal(ckpt_shape_text(m, shape, sizeof shape), "[3, 4]");
    gguf_close(g);
}

static void long_metadata_grows(void **state) {
    (void)state;
    enum { N = 60000 };
    GgufFixture f = {0};
    Buf strs = {0};
    for (int i = 0; i < N; i++) {
        char text[64];
        snprintf(text, sizeof text, "token number %d with some length", i);
        fx_text(&strs, text);
    }
    fx_key_array(&f, "tokens", GGUF_STRING, N, strs.p, strs.n);
    fx_key_u32(&f, "after", 5);
    fx_tensor(&f, "t", 0, 8, 0);
    assert_true(strs.n > 2 << 20);
    Gguf *g = open_fixture(&f);
    Arena a = {0};
    const Str *s;
    size_t n;
    assert_true(gguf_strs(gguf_get(g, "tokens"), &a, &s, &n, NULL) && n == N);
    assert_true(str_eqc(s[0], "token number 0 with some length") &&
                str_eqc(s[N - 1], "token number 59999 with some length"));
    assert_int(g, "after", 5);
    assert_non_null(gguf_tensor(g, STR("t")));
    arena_deinit(&a);
    buf_deinit(&strs);
    gguf_close(g);
}

static void small_file(GgufFixture *f) {
    fx_key_str(f, "general.architecture", "llama");
    fx_key_u32(f, "general.alignment", 32);
    fx_key_array(f, "a", GGUF_BOOL, 2, "\1\0", 2);
    fx_tensor(f, "m", 2, 4, 0);
    fx_tensor(f, "v", 0, 8, 0);
}

static void cut_anywhere_is_refused(void **state) {
    (void)state;
    GgufFixture f = {0};
    Buf whole = {0};
    Gguf *g = NULL;
    small_file(&f);
    fx_gguf_bytes(&f, &whole);
    for (size_t n = 0; n < whole.n; n++) {
        Err err = {0};
        assert_true(
            os_write_file(fx_path(dir, "cut.gguf"), str_slice(buf_str(&whole), 0, n), NULL));
        if (gguf_open(fx_path(dir, "cut.gguf"), &g, &err))
            fail_msg("accepted %zu of %zu bytes", n, whole.n);
        assert_int_equal(err.kind, ERR_CORRUPT);
    }
    assert_true(fx_gguf_write(&f, fx_path(dir, "cut.gguf")) &&
                gguf_open(fx_path(dir, "cut.gguf"), &g, NULL));
    gguf_close(g);
    buf_deinit(&whole);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    GgufFixture f = {0};
    small_file(&f);
    assert_true(fx_gguf_write(&f, fx_path(dir, "m.gguf")));
    bool ok = false;
    for (int n = 0; !ok; n++) {
        Gguf *g;
        Err err = {0};
        assert_true(n < 100);
        mem_fail_after(n);
        ok = gguf_open(fx_path(dir, "m.gguf"), &g, &err);
        mem_fail_after(-1);
        if (ok)
            gguf_close(g);
        else
            assert_int_equal(err.kind, ERR_NOMEM);
    }
}

static void holes_are_refused(void **state) {
    (void)state;
    GgufFixture f = {0};
    Gguf *g;
    Err err = {0};
    fx_tensor(&f, "a", 0, 8, 0);
    for (int i = 0; i < 32; i++) buf_putc(&f.data, 0);
    fx_tensor(&f, "b", 0, 8, 0);
    assert_true(fx_gguf_write(&f, fx_path(dir, "hole.gguf")));
    assert_false(gguf_open(fx_path(dir, "hole.gguf"), &g, &err));
    assert_non_null(strstr(err.msg, "tensor b has offset 64, the one before it ends at 32"));
}

static void names_have_a_limit(void **state) {
    (void)state;
    GgufFixture f = {0};
    Gguf *g = NULL;
    Err err = {0};
    char *name = mem_calloc(GGUF_MAX_KEY + 2, 1);
    memset(name, 'x', GGUF_MAX_KEY + 1);
    fx_key_u32(&f, name, 1);
    assert_true(fx_gguf_write(&f, fx_path(dir, "long.gguf")));
    assert_false(gguf_open(fx_path(dir, "long.gguf"), &g, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    name[GGUF_MAX_KEY] = 0;
    fx_key_u32(&f, name, 1);
    assert_true(fx_gguf_write(&f, fx_path(dir, "long.gguf")) &&
                gguf_open(fx_path(dir, "long.gguf"), &g, &err));
    gguf_close(g);
    name[GGUF_MAX_NAME + 1] = 0;
    fx_tensor(&f, name, 0, 8, 0);
    assert_true(fx_gguf_write(&f, fx_path(dir, "long.gguf")));
    assert_false(gguf_open(fx_path(dir, "long.gguf"), &g, &err));
    assert_non_null(strstr(err.msg, "tensor name has 64 bytes, at most 63"));
    mem_free(name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_of_every_width),  cmocka_unit_test(arrays_of_every_kind),
        cmocka_unit_test(tensors_are_placed),      cmocka_unit_test(long_metadata_grows),
        cmocka_unit_test(cut_anywhere_is_refused), cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(holes_are_refused),       cmocka_unit_test(names_have_a_limit),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
