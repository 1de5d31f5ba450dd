/* .npy files: every type of elements and both orders come out as NumPy would show them, what the
 * writer writes is read back, headers are held to Python's spelling and files to their lengths. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/ckpt_fixture.h"
#include "cli/npy_read.h"
#include "cli/npy_write.h"

static char dir[] = "/tmp/mlxcel_npy_XXXXXX";

static void put_file(const char *path, int version, const char *header, const void *data,
                     size_t n) {
    Buf b = {0};
    Err err = {0};
    size_t len = strlen(header);
    const char lead[8] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', (char)version, 0};
    buf_put(&b, (Str){lead, 8});
    buf_putc(&b, (char)len);
    buf_putc(&b, (char)(len >> 8));
    if (version > 1) buf_put(&b, (Str){"\0", 2});
    buf_put(&b, str_c(header));
    buf_put(&b, (Str){data, n});
    if (!os_write_file(path, buf_str(&b), &err)) fail_msg("%s", err.msg);
    buf_deinit(&b);
}

static mlxcel_tensor read_file(Arena *a, const char *path) {
    mlxcel_tensor t = {.name = "t"};
    Err err = {0};
    if (!npy_read(path, a, &t, &err)) fail_msg("%s", err.msg);
    return t;
}

static void assert_dims(const mlxcel_tensor *t, uint32_t n, const uint64_t *dims) {
    assert_int_equal(t->n_dims, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(t->dims[i], dims[i]);
}

/* Two elements of every type: the smallest and a middling one. */
static void every_type(void **state) {
    (void)state;
    static const struct {
        const char *descr, *bytes;
        size_t n;
        double want[2];
    } TYPES[] = {
        {"<f4", "\x00\x00\x80\xbf\x00\x00\x20\x40", 8, {-1, 2.5}},
        {"<f2", "\x00\xc0\x00\x3e", 4, {-2, 1.5}},
        {"<f8",
         "\x00\x00\x00\x00\x00\x00\xf0\xff\x00\x00\x00\x00\x00\x00\x04\x40",
         16,
         {-INFINITY, 2.5}},
        {"<i8",
         "\x00\x00\x00\x00\x00\x00\x00\x80\x02\x01\x00\x00\x00\x00\x00\x00",
         16,
         {-0x1p63, 258}},
        {"<i4", "\xff\xff\xff\xff\x02\x01\x00\x00", 8, {-1, 258}},
        {"<i2", "\xff\xff\x02\x01", 4, {-1, 258}},
        {"|i1", "\xff\x07", 2, {-1, 7}},
        {"<u8",
         "\xff\xff\xff\xff\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00",
         16,
         {4294967295.0, 5}},
        {"<u4", "\xff\xff\xff\xff\x02\x01\x00\x00", 8, {4294967295.0, 258}},
        {"<u2", "\xff\xff\x02\x01", 4, {65535, 258}},
        {"|u1", "\xff\x07", 2, {255, 7}},
        {"|b1", "\x00\x01", 2, {0, 1}},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        Arena a = {0};
        char header[100];
        const char *path = fx_path(dir, "a.npy");
        bool is_float = TYPES[i].descr[1] == 'f';
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }\n", TYPES[i].descr);
        put_file(path, 1 + (int)i % 3, header, TYPES[i].bytes, TYPES[i].n);
        mlxcel_tensor t = read_file(&a, path);
        assert_dims(&t, 1, (const uint64_t[]){2});
        assert_int_equal(t.type, is_float ? MLXCEL_F32 : MLXCEL_I64);
        for (int k = 0; k < 2; k++) {
            double got = is_float ? (double)((const float *)t.data)[k]
                                  : (double)((const int64_t *)t.data)[k];
            if (got != TYPES[i].want[k])
                fail_msg("%s: %g instead of %g", TYPES[i].descr, got, TYPES[i].want[k]);
        }
        arena_deinit(&a);
    }
}

/* numpy.arange(24).reshape(2, 3, 4) saved as it is and as the transpose of its transpose. */
static void fortran_order(void **state) {
    (void)state;
    Arena a = {0};
    unsigned char bytes[24];
    const char *path = fx_path(dir, "f.npy");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                bytes[i + 2 * j + 6 * k] = (unsigned char)(12 * i + 4 * j + k);
    put_file(path, 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", bytes, 24);
    mlxcel_tensor t = read_file(&a, path);
    assert_dims(&t, 3, (const uint64_t[]){2, 3, 4});
    for (int64_t i = 0; i < 24; i++) assert_int_equal(((const int64_t *)t.data)[i], i);
    arena_deinit(&a);
}

static void one_number_and_none(void **state) {
    (void)state;
    Arena a = {0};
    const char *path = fx_path(dir, "s.npy");
    put_file(path, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': ()}", "\x09", 1);
    mlxcel_tensor t = read_file(&a, path);
    assert_int_equal(t.n_dims, 0);
    assert_int_equal(*(const int64_t *)t.data, 9);
    put_file(path, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2)}", "", 0);
    t = read_file(&a, path);
    assert_dims(&t, 3, (const uint64_t[]){3, 0, 2});
    assert_non_null(t.data);
    arena_deinit(&a);
}

static void written_is_read(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    static const int64_t INTS[6] = {1, -2, INT64_MAX, INT64_MIN, 0, 7};
    static const float FLOATS[6] = {0.5f, -1, 3e38f, 1e-40f, 0, 2};
    const char *path = fx_path(dir, "w.npy");
    for (int i = 0; i < 2; i++) {
        mlxcel_tensor t = {.type = i ? MLXCEL_I64 : MLXCEL_F32,
                           .n_dims = 2,
                           .dims = {2, 3},
                           .data = i ? (const void *)INTS : FLOATS};
        if (!npy_write(path, &t, &a, &err)) fail_msg("%s", err.msg);
        mlxcel_tensor got = read_file(&a, path);
        assert_int_equal(got.type, t.type);
        assert_dims(&got, 2, t.dims);
        assert_memory_equal(got.data, t.data, i ? sizeof INTS : sizeof FLOATS);
    }
    NpyIn in;
    float row[3];
    assert_false(npy_open(&in, path, &err)); /* int64 */
    mlxcel_tensor t = {.type = MLXCEL_F32, .n_dims = 2, .dims = {2, 3}, .data = FLOATS};
    assert_true(npy_write(path, &t, &a, &err) && npy_open(&in, path, &err));
    assert_true(in.rows == 2 && in.cols == 3 && npy_row(&in, 1, row, &err));
    assert_memory_equal(row, FLOATS + 3, sizeof row);
    npy_close(&in);
    arena_deinit(&a);
}

static void headers_as_python_writes_them(void **state) {
    (void)state;
    static const char *const GOOD[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }",
        "{\"shape\":(3,5,),\"fortran_order\":False,\"descr\":\"<f4\"}   \n",
        " { 'fortran_order' : False , 'shape' : ( 3 , 5 ) , 'descr' : '<f4' } ",
    };
    static const char *const BAD[] = {
        "",
        "{}",
        "{,}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)} x",
        "{'descr': '<f4', 'fortran_order': False 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5),, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 05)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 5]}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 99999999999999999999)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), 'more': 1}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 5)}",
    };
    NpyHeader h;
    Err err;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        if (!npy_parse_header(str_c(GOOD[i]), &h, &err)) fail_msg("%s: %s", GOOD[i], err.msg);
        assert_true(h.n_dims == 2 && h.dims[0] == 3 && h.dims[1] == 5 && h.n == 15 && !h.fortran);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        err = (Err){0};
        if (npy_parse_header(str_c(BAD[i]), &h, &err)) fail_msg("accepted: %s", BAD[i]);
        assert_true(err.kind == ERR_CORRUPT || err.kind == ERR_UNSUPPORTED ||
                    err.kind == ERR_LIMIT);
    }
}

static void assert_refused(const char *path, ErrKind kind, const char *word) {
    Arena a = {0};
    mlxcel_tensor t;
    Err err = {0};
    assert_false(npy_read(path, &a, &t, &err));
    if (err.kind != kind || !strstr(err.msg, word) || !strstr(err.msg, path))
        fail_msg("%s: %s", errkind_name(err.kind), err.msg);
    arena_deinit(&a);
}

static void files_that_lie(void **state) {
    (void)state;
    static const char HEADER[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    const double large[2] = {1, 1e39};
    const uint64_t past[1] = {(uint64_t)1 << 63};
    const char *path = fx_path(dir, "l.npy");
    put_file(path, 1, HEADER, "abcdefg", 7);
    assert_refused(path, ERR_CORRUPT, "has 7 bytes of data, its shape and type need 8");
    put_file(path, 1, HEADER, "abcdefghi", 9);
    assert_refused(path, ERR_CORRUPT, "has 9 bytes");
    put_file(path, 4, HEADER, "abcdefgh", 8);
    assert_refused(path, ERR_UNSUPPORTED, "version 4.0");
    put_file(path, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", large, 16);
    assert_refused(path, ERR_INPUT, "element 1 is 1e+39");
    put_file(path, 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", past, 8);
    assert_refused(path, ERR_INPUT, "element 0 is 9223372036854775808");
    assert_true(os_write_file(path, STR("\x93NUMPY\x01\0\xff\x00{'de"), NULL));
    assert_refused(path, ERR_CORRUPT, "ends within its header");
    assert_true(os_write_file(path, STR("\x93NUMPY\x02\0\xff\xff\xff\xff{'de"), NULL));
    assert_refused(path, ERR_CORRUPT, "ends within its header");
    assert_true(os_write_file(path, STR("no array at all"), NULL));
    assert_refused(path, ERR_CORRUPT, "is no .npy file");
    assert_refused(fx_path(dir, "none.npy"), ERR_NOT_FOUND, "cannot open");
}

static void memory_may_end_anywhere(void **state) {
    (void)state;
    const char *path = fx_path(dir, "m.npy");
    put_file(path, 1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 1)}", "\1\0\2\0", 4);
    bool ok = false;
    for (int n = 0; !ok; n++) {
        Arena a = {0};
        Err err = {0};
        mlxcel_tensor t;
        mem_fail_after(n);
        ok = npy_read(path, &a, &t, &err);
        mem_fail_after(-1);
        if (!ok) assert_int_equal(err.kind, ERR_NOMEM);
        if (n == 0) assert_false(ok);
        arena_deinit(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(fortran_order),
        cmocka_unit_test(one_number_and_none),
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(headers_as_python_writes_them),
        cmocka_unit_test(files_that_lie),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests_name("npy_read", tests, NULL, NULL);
    fx_remove_dir(dir);
    return failed;
}
