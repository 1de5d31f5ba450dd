/* mem, arena, buf and map: caps, overflow, and every allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"

static void sizes_are_checked(void **state) {
    (void)state;
    size_t n;
    assert_false(size_mul(SIZE_MAX / 2, 3, &n));
    assert_false(size_add(SIZE_MAX, 1, &n));
    assert_null(mem_calloc(SIZE_MAX / 2, 4));
    assert_null(mem_resize_array(NULL, SIZE_MAX / 2, 4));
    assert_null(mem_alloc_pages(SIZE_MAX - 5));
}

/* Small requests share huge pages; they are zero and apart from each other, also after others were
 * freed. */
static void pages_are_zeroed_and_shared(void **state) {
    (void)state;
    enum { N = 300, BYTES = 300000 };
    unsigned char *p[N];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            p[i] = mem_alloc_pages(BYTES);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 256, 0);
            for (size_t k = 0; k < BYTES; k += 1000) assert_int_equal(p[i][k], 0);
            memset(p[i], i + 1, BYTES);
        }
        for (int i = 0; i < N; i++) {
            assert_int_equal(p[i][0], (unsigned char)(i + 1));
            assert_int_equal(p[i][BYTES - 1], (unsigned char)(i + 1));
            mem_free_pages(p[i], BYTES);
        }
    }
    uintptr_t a = (uintptr_t)mem_alloc_pages(5000), b = (uintptr_t)mem_alloc_pages(5000);
    assert_true((a > b ? a - b : b - a) < 65536);
    mem_free_pages((void *)a, 5000);
    mem_free_pages((void *)b, 5000);
}

/* Asking for huge pages changes nothing but speed: large blocks are zero where promised, keep their
 * contents as they grow and shrink across the size from which pages are asked for. */
static void large_blocks_keep_their_contents(void **state) {
    (void)state;
    enum { N = 9 };
    static const size_t sizes[N] = {1 << 20,  4 << 20, (4 << 20) + 1, 9 << 20, 33 << 20,
                                    70 << 20, 5 << 20, 100,           6 << 20};
    unsigned char *p = NULL;
    size_t kept = 0;
    for (int i = 0; i < N; i++) {
        p = mem_realloc(p, sizes[i]);
        assert_non_null(p);
        if (kept > sizes[i]) kept = sizes[i];
        for (size_t k = 0; k < kept; k += 997) assert_int_equal(p[k], (unsigned char)(k / 997));
        for (size_t k = 0; k < sizes[i]; k += 997) p[k] = (unsigned char)(k / 997);
        kept = sizes[i];
    }
    mem_free(p);
    for (int round = 0; round < 2; round++) {
        p = mem_calloc(9 << 10, 1 << 10);
        assert_non_null(p);
        for (size_t k = 0; k < (size_t)9 << 20; k += 997) assert_int_equal(p[k], 0);
        memset(p, 0xFF, (size_t)9 << 20);
        mem_free(p);
    }
}

static void arena_is_zeroed_aligned_and_capped(void **state) {
    (void)state;
    Arena a = {.max_bytes = 10000};
    for (int i = 0; i < 50; i++) {
        unsigned char *p = arena_alloc(&a, 33);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (int k = 0; k < 33; k++) assert_int_equal(p[k], 0);
        memset(p, 0xFF, 33);
    }
    assert_null(arena_alloc(&a, 10000));
    assert_null(arena_array(&a, uint64_t, SIZE_MAX / 4));
    arena_reset(&a);
    unsigned char *again = arena_alloc(&a, 64);
    for (int k = 0; k < 64; k++) assert_int_equal(again[k], 0);
    arena_deinit(&a);
}

static void buf_stops_at_its_maximum(void **state) {
    (void)state;
    Err err = {0};
    Buf b = {.max = 100};
    for (int i = 0; i < 30; i++) buf_putf(&b, "%03d,", i);
    assert_true(b.failed);
    assert_int_equal(b.n, 100);
    assert_false(buf_check(&b, "reply", &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    buf_clear(&b);
    buf_put_utf8(&b, 0x1F600);
    assert_string_equal(buf_cstr(&b), "\xF0\x9F\x98\x80");
    buf_deinit(&b);
}

static void buf_reports_exhausted_memory(void **state) {
    (void)state;
    Err err = {0};
    Buf b = {0};
    mem_fail_after(0);
    buf_put(&b, STR("x"));
    mem_fail_after(-1);
    assert_false(buf_check(&b, "reply", &err));
    assert_int_equal(err.kind, ERR_NOMEM);
    buf_deinit(&b);
}

static void map_keeps_order_and_replaces(void **state) {
    (void)state;
    enum { N = 5000 };
    static char keys[N][8];
    Map m = {0};
    for (int i = 0; i < N; i++) {
        Buf b = {0};
        buf_putf(&b, "k%d", i);
        memcpy(keys[i], b.p, b.n);
        buf_deinit(&b);
        assert_true(map_put(&m, str_c(keys[i]), (uint64_t)i));
    }
    assert_true(map_put(&m, STR("k17"), 99));
    assert_int_equal(m.n, N);
    uint64_t v = 0;
    assert_true(map_get(&m, STR("k17"), &v) && v == 99);
    assert_true(map_get(&m, STR("k4999"), &v) && v == 4999);
    assert_false(map_get(&m, STR("k5000"), &v));
    assert_string_equal(m.entries[123].key.p, "k123");
    map_deinit(&m);
}

static void map_survives_failing_allocations(void **state) {
    (void)state;
    static const char *const KEYS[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                       "j", "k", "l", "m", "n", "o", "p", "q"};
    for (int at = 0; at < 6; at++) {
        Map m = {0};
        uint64_t v;
        mem_fail_after(at);
        size_t n = 0;
        while (n < 17 && map_put(&m, str_c(KEYS[n]), n)) n++;
        mem_fail_after(-1);
        for (size_t i = 0; i < n; i++) assert_true(map_get(&m, str_c(KEYS[i]), &v) && v == i);
        map_deinit(&m);
    }
}

static void guard_counts_allocations(void **state) {
    (void)state;
#ifndef MLXCEL_DEBUG
    mem_guard_begin();
    mem_free(mem_alloc(8));
    assert_int_equal(mem_guard_end(), 1);
#endif
    mem_guard_begin();
    assert_int_equal(mem_guard_end(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(pages_are_zeroed_and_shared),
        cmocka_unit_test(large_blocks_keep_their_contents),
        cmocka_unit_test(arena_is_zeroed_aligned_and_capped),
        cmocka_unit_test(buf_stops_at_its_maximum),
        cmocka_unit_test(buf_reports_exhausted_memory),
        cmocka_unit_test(map_keeps_order_and_replaces),
        cmocka_unit_test(map_survives_failing_allocations),
        cmocka_unit_test(guard_counts_allocations),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
