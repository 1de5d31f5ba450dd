#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/os_direct.h"

static char dir[] = "/tmp/mlxcel_os_XXXXXX";

static const char *in_dir(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static void files_round_trip(void **state) {
    (void)state;
    Err err = {0};
    Buf b = {0};
    assert_true(os_write_file(in_dir("a"), STR("hello"), &err));
    assert_true(os_read_file(in_dir("a"), 100, &b, &err));
    assert_true(str_eq(buf_str(&b), STR("hello")));
    assert_false(os_read_file(in_dir("a"), 4, &b, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    OsFile f;
    char two[2];
    assert_true(os_file_open(&f, in_dir("a"), &err));
    assert_true(os_file_read_at(&f, 3, two, 2, &err) && two[0] == 'l' && two[1] == 'o');
    assert_false(os_file_read_at(&f, 4, two, 2, &err));
    assert_int_equal(err.kind, ERR_CORRUPT);
    os_file_close(&f);
    buf_deinit(&b);
}

/* A pipe without a writer would block an ordinary open for ever. */
static void only_regular_files_open(void **state) {
    (void)state;
    Err err = {0};
    OsFile f;
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_false(os_file_open(&f, in_dir("pipe"), &err));
    assert_non_null(strstr(err.msg, "is a pipe"));
    assert_false(os_file_open(&f, dir, &err));
    assert_non_null(strstr(err.msg, "is a directory"));
    assert_false(os_file_open(&f, in_dir("none"), &err));
    assert_int_equal(err.kind, ERR_NOT_FOUND);
}

static void directories_are_listed_sorted(void **state) {
    (void)state;
    Err err = {0};
    Arena a = {0};
    Str *names;
    size_t n;
    assert_true(os_make_dirs(in_dir("x/y/z"), &err));
    assert_true(os_is_dir(in_dir("x/y/z")));
    assert_true(os_write_file(in_dir("x/b"), STR(""), &err) &&
                os_write_file(in_dir("x/a"), STR(""), &err));
    assert_true(os_list_dir(in_dir("x"), &a, &names, &n, &err));
    assert_int_equal(n, 3);
    assert_true(str_eqc(names[0], "a") && str_eqc(names[1], "b") && str_eqc(names[2], "y"));
    arena_deinit(&a);
}

/* To who may only read a file the kernel says that all of it is cached, whether it is or not. */
static void what_is_cached_is_not_made_up(void **state) {
    (void)state;
    enum { BYTES = 64 << 10, NOBODY = 65534 };
    static char bytes[BYTES];
    Err err = {0};
    OsFile f;
    assert_true(os_write_file(in_dir("b"), (Str){bytes, BYTES}, &err));
    assert_int_equal(chmod(in_dir("b"), 0644), 0);
    assert_true(os_file_open(&f, in_dir("b"), &err));
    fsync(f.fd);
    os_file_drop_cache(&f, 0, BYTES);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* as somebody else, where we may */
        OsDirect d;
        bool other = setuid(NOBODY) == 0;
        _exit(other && os_direct_open(&d, &f) && os_direct_is_cached(&d, 0, BYTES));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    os_file_close(&f);
}

static void the_machine_answers(void **state) {
    (void)state;
    assert_true(os_n_cpus() >= 1 && os_n_cores() >= 1 && os_n_cores() <= os_n_cpus());
    assert_true(os_rss_bytes() > 100000 && os_rss_peak_bytes() >= os_rss_bytes() / 2);
    assert_true(os_memory_available_bytes() > 1 << 20);
    uint64_t t = os_now_ns();
    assert_true(os_now_ns() >= t);
    assert_true(os_random_u64() != os_random_u64());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_round_trip),
        cmocka_unit_test(only_regular_files_open),
        cmocka_unit_test(directories_are_listed_sorted),
        cmocka_unit_test(what_is_cached_is_not_made_up),
        cmocka_unit_test(the_machine_answers),
    };
    return cmocka_run_group_tests_name("os", tests, make_dir, NULL);
}
