/* safetensors: the table says what the header says, odd but valid headers are taken, cut files
 * and exhausted memory are errors. The malformed files are ckpt_malformed_test.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/ckpt_fixture.h"
#include "ckpt/safetensors.h"

static char dir[] = "/tmp/mlxcel_safetensors_XXXXXX";

static bool open_text(const char *header, size_t n, Safetensors **st, Err *err) {
    assert_true(fx_safetensors_write(fx_path(dir, "a.safetensors"), header, n));
    return safetensors_open(fx_path(dir, "a.safetensors"), st, err);
}

static void table_says_what_the_header_says(void **state) {
    (void)state;
    Safetensors *st;
    Err err = {0};
    if (!open_text(
            "{\"b\":{\"shape\":[2,3],\"x\":[{}],\"data_offsets\":[4,16],\"dtype\":\"BF16\"},\"__"
            "metadata__\":{\"format\":\"p\\u0074\"},"
            "\"\\u00e9\":{\"dt\\u0079pe\":\"F\\u0033\\u0032\",\"shape\":[],\"data_offsets\":[0,4]},"
            "\"none\":{\"dtype\":\"I64\",\"shape\":[0,9],\"data_offsets\":[16,16]}}   ",
            16, &st, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(st->n_tensors, 3);
    const CkptTensor *t = st->tensors;
    assert_true(str_eqc(t[0].name, "b") && t[0].dtype == DTYPE_BF16 && t[0].n_dims == 2 &&
                t[0].shape[1] == 3 && t[0].n_bytes == 12);
    assert_true(str_eqc(t[1].name, "\xC3\xA9") && t[1].dtype == DTYPE_F32 && t[1].n_dims == 0 &&
                t[1].n_bytes == 4);
    assert_true(t[2].n_bytes == 0 && t[2].shape[1] == 9);
    assert_int_equal(t[0].offset, st->data_offset + 4);
    unsigned char first;
    assert_true(os_file_read_at(&st->file, t[0].offset, &first, 1, &err) && first == 4);
    assert_int_equal(st->n_metadata, 1);
    assert_true(str_eqc(st->metadata[0].key, "format") && str_eqc(st->metadata[0].value, "pt"));
    safetensors_close(st);
    if (!open_text("{\"__metadata__\":null}", 0, &st, &err)) fail_msg("%s", err.msg);
    assert_int_equal(st->n_metadata, 0);
    safetensors_close(st);
}

static void refusals_name_the_tensor(void **state) {
    (void)state;
    static const struct {
        const char *header, *message;
        size_t n;
    } table[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
         "tensor a: dtype is there twice", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
         "more than 8 dimensions", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}",
         "more bytes than 64 bits", 0},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}",
         "dtype \"F4\" is not supported", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", "data_offsets", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}",
         "shape at byte 27 is a number, not an array", 4},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "twice", 0},
        {"{\"__metadata__\":[]}", "__metadata__", 0},
        {"{\"a\":null}", "tensor a: its entry at byte 5 is null, not an object", 0},
        {"{}", "the file has 1 bytes of data", 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        Safetensors *st;
        Err err = {0};
        if (open_text(table[i].header, table[i].n, &st, &err))
            fail_msg("accepted %s", table[i].header);
        if (!strstr(err.msg, table[i].message)) fail_msg("%s gives %s", table[i].header, err.msg);
        assert_true(err.kind == ERR_CORRUPT || err.kind == ERR_LIMIT ||
                    err.kind == ERR_UNSUPPORTED);
    }
}

static void pointer_files_are_named(void **state) {
    (void)state;
    Safetensors *st;
    Err err = {0};
    assert_true(os_write_file(
        fx_path(dir, "p"), STR("version https://git-lfs.example/spec/v1\noid sha256:00\nsize 5\n"),
        NULL));
    assert_false(safetensors_open(fx_path(dir, "p"), &st, &err));
    assert_non_null(strstr(err.msg, "Git LFS pointer"));
    assert_false(safetensors_open(fx_path(dir, "absent"), &st, &err));
    assert_int_equal(err.kind, ERR_NOT_FOUND);
}

static const char small[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                            "\"\\u0062\":{\"dtype\":\"U8\",\"shape\":[3],"
                            "\"data_offsets\":[8,11]},\"__metadata__\":{\"k\":\"v\\n\"}}";

static void cut_anywhere_is_refused(void **state) {
    (void)state;
    Buf whole = {0};
    Safetensors *st;
    assert_true(fx_safetensors_write(fx_path(dir, "w"), small, 11));
    assert_true(os_read_file(fx_path(dir, "w"), 4096, &whole, NULL));
    for (size_t n = 0; n < whole.n; n++) {
        Err err = {0};
        assert_true(os_write_file(fx_path(dir, "w"), str_slice(buf_str(&whole), 0, n), NULL));
        if (safetensors_open(fx_path(dir, "w"), &st, &err))
            fail_msg("accepted %zu of %zu bytes", n, whole.n);
        assert_int_equal(err.kind, ERR_CORRUPT);
    }
    buf_deinit(&whole);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    assert_true(fx_safetensors_write(fx_path(dir, "m"), small, 11));
    bool ok = false;
    for (int n = 0; !ok; n++) {
        Safetensors *st;
        Err err = {0};
        assert_true(n < 100);
        mem_fail_after(n);
        ok = safetensors_open(fx_path(dir, "m"), &st, &err);
        mem_fail_after(-1);
        if (ok)
            safetensors_close(st);
        else
            assert_int_equal(err.kind, ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_says_what_the_header_says),
        cmocka_unit_test(refusals_name_the_tensor),
        cmocka_unit_test(pointer_files_are_named),
        cmocka_unit_test(cut_anywhere_is_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
