/* What a stream gives are the file's bytes, whatever the order, size and overlap of what is asked,
 * and from whichever thread; what it does not have it leaves to its caller, and it never hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/os_direct.h"
#include "base/rng.h"
#include "ckpt/ckpt_stream.h"

enum { FILE_BYTES = (3 << 20) + 1234, SLOT = 128 << 10, N_THREADS = 4 };

typedef struct Rig {
    char path[2][64];
    unsigned char *bytes[2];
    OsFile file[2];
    const OsFile *files[2];
} Rig;

static void rig_open(Rig *r) {
    for (int f = 0; f < 2; f++) {
        r->bytes[f] = mem_alloc(FILE_BYTES);
        for (size_t i = 0; i < FILE_BYTES; i++)
            r->bytes[f][i] = (unsigned char)((i * 2654435761u >> 13) + (size_t)f);
        snprintf(r->path[f], sizeof r->path[f], "/tmp/mlxcel_stream_XXXXXX");
        int fd = mkstemp(r->path[f]);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, r->bytes[f], FILE_BYTES), FILE_BYTES);
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
        Err err = {0};
        if (!os_file_open(&r->file[f], r->path[f], &err)) fail_msg("%s", err.msg);
        r->files[f] = &r->file[f];
    }
}

static void rig_close(Rig *r) {
    for (int f = 0; f < 2; f++) {
        os_file_close(&r->file[f]);
        unlink(r->path[f]);
        mem_free(r->bytes[f]);
    }
}

/* Can this file system be read past the cache, and is the cache empty? Else streams only advise. */
static bool direct_works(const Rig *r) {
    OsDirect d;
    if (!os_direct_open(&d, &r->file[0])) return false;
    unsigned char *p = mem_alloc(2 * OS_DIRECT_ALIGN),
                  *at = p + (-(uintptr_t)p & (OS_DIRECT_ALIGN - 1));
    bool ok = !os_direct_is_cached(&d, 0, FILE_BYTES) &&
              os_direct_read(&d, 0, at, OS_DIRECT_ALIGN) == OS_DIRECT_ALIGN;
    mem_free(p);
    os_direct_close(&d);
    return ok;
}

static CkptStream *stream_new(const Rig *r, const CkptRange *ranges, size_t n, bool never_direct) {
    const CkptStreamOptions opt = {.slot_bytes = SLOT, .never_direct = never_direct};
    Err err = {0};
    CkptStream *s = ckpt_stream_new(r->files, 2, ranges, n, &opt, &err);
    if (!s) fail_msg("%s", err.msg);
    return s;
}

/* Takes one range in pieces of a size of their own; gives how many bytes came. */
static size_t take_all(CkptStream *s, const Rig *r, const CkptRange *range, size_t step) {
    unsigned char *got = mem_alloc(step);
    size_t sum = 0;
    for (uint64_t at = range->at, end = at + range->n; at < end;) {
        size_t n = end - at < step ? (size_t)(end - at) : step;
        if (ckpt_stream_take(s, range->i_file, at, got, n)) {
            assert_memory_equal(got, r->bytes[range->i_file] + at, n);
            sum += n;
        }
        at += n;
    }
    mem_free(got);
    return sum;
}

/* Neighbours, gaps, a jump back, another file, one that overlaps and one at the file's end. */
static const CkptRange RANGES[] = {
    {0, 1, 100},          {0, 200, 300000},    {0, 300200, 77},
    {0, 2000000, 500000}, {1, 5000, SLOT},     {1, 0, 5000},
    {0, 500000, 1000000}, {0, 400000, 150000}, {1, FILE_BYTES - 70000, 70000},
};
enum { N_RANGES = sizeof RANGES / sizeof *RANGES };

static void in_order(void **state) {
    (void)state;
    static const size_t STEPS[] = {7, 4096, 50000, 200000, 1 << 20};
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        for (int never = 0; never < 2; never++) {
            Rig r;
            rig_open(&r);
            bool direct = direct_works(&r) && !never;
            CkptStream *s = stream_new(&r, RANGES, N_RANGES, never);
            size_t sum = 0, want = 0;
            for (size_t k = 0; k < N_RANGES; k++) {
                sum += take_all(s, &r, &RANGES[k], STEPS[i]);
                want += RANGES[k].n;
                ckpt_stream_pass(s, k + 1);
            }
            /* All but what two ranges share, when the window is larger than what is asked at once. */
            if (direct && STEPS[i] <= 200000) assert_true(sum + 150000 + 200000 >= want);
            if (never) assert_int_equal(sum, 0);
            ckpt_stream_free(s);
            rig_close(&r);
        }
}

/* Two ranges that have nearly the same bytes, as matrices whose rows alternate: the page cache gets
 * them, once, and no piece of the window is spent on them. */
static void shared_bytes_come_by_the_cache(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, APART = 1440 };
    static const CkptRange ranges[] = {
        {0, 4096, BYTES}, {0, 4096 + APART, BYTES}, {0, 2 << 20, SLOT}};
    Rig r;
    OsDirect d;
    unsigned char *got = mem_alloc(SLOT);
    rig_open(&r);
    if (direct_works(&r) && os_direct_open(&d, &r.file[0])) {
        CkptStream *s = stream_new(&r, ranges, 3, false);
        for (size_t k = 0; k < 2; k++) {
            for (uint64_t at = ranges[k].at; at < 4096 + BYTES; at += APART)
                assert_false(ckpt_stream_take(s, 0, at, got, 1));
            ckpt_stream_pass(s, k + 1);
        }
        assert_true(ckpt_stream_take(s, 0, 2 << 20, got, SLOT));
        assert_memory_equal(got, r.bytes[0] + (2 << 20), SLOT);
        for (int wait = 0; wait < 3000 && !os_direct_is_cached(&d, 4096, BYTES); wait++)
            usleep(10000); /* until the kernel has read what it was asked for */
        assert_true(os_direct_is_cached(&d, 4096, BYTES));
        ckpt_stream_free(s);
        os_direct_close(&d);
    }
    mem_free(got);
    rig_close(&r);
}

/* Backwards, twice, never passed: pieces stay in the window, the rest is the caller's. */
static void against_the_order(void **state) {
    (void)state;
    Rig r;
    unsigned char byte;
    rig_open(&r);
    CkptStream *s = stream_new(&r, RANGES, N_RANGES, false);
    for (int round = 0; round < 2; round++)
        for (size_t k = N_RANGES; k-- > 0;) take_all(s, &r, &RANGES[k], 10000);
    assert_false(ckpt_stream_take(s, 0, 1600000, &byte, 1)); /* in no range */
    assert_false(ckpt_stream_take(s, 1, FILE_BYTES, &byte, 1));
    ckpt_stream_free(s);
    s = stream_new(&r, RANGES, 0, false);
    assert_false(ckpt_stream_take(s, 0, 0, &byte, 1));
    ckpt_stream_pass(s, 0);
    ckpt_stream_free(s);
    rig_close(&r);
}

typedef struct Taker {
    CkptStream *s;
    const Rig *r;
    unsigned i;
} Taker;

static void *taker_main(void *arg) {
    const Taker *t = arg;
    unsigned char *got = mem_alloc(100000);
    for (uint64_t k = 0; k < 400; k++) {
        uint64_t x = rng_u32(t->i, 0, k, 0) | (uint64_t)rng_u32(t->i, 1, k, 0) << 32;
        const CkptRange *range = &RANGES[x % N_RANGES];
        uint64_t at = range->at + (x >> 8) % range->n, n = (x >> 40) % 100000;
        if (n > range->at + range->n - at) n = range->at + range->n - at;
        if (ckpt_stream_take(t->s, range->i_file, at, got, (size_t)n) &&
            memcmp(got, t->r->bytes[range->i_file] + at, (size_t)n) != 0)
            return arg;
        if (k % 100 == 99) ckpt_stream_pass(t->s, (size_t)(k / 100 * 2));
    }
    mem_free(got);
    return NULL;
}

static void by_many_threads(void **state) {
    (void)state;
    Rig r;
    rig_open(&r);
    CkptStream *s = stream_new(&r, RANGES, N_RANGES, false);
    pthread_t threads[N_THREADS];
    Taker takers[N_THREADS];
    for (unsigned i = 0; i < N_THREADS; i++) {
        takers[i] = (Taker){s, &r, i};
        assert_int_equal(pthread_create(&threads[i], NULL, taker_main, &takers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    ckpt_stream_free(s);
    rig_close(&r);
}

/* A file that has become shorter since it was opened: what is gone is not taken. */
static void a_file_that_shrinks(void **state) {
    (void)state;
    Rig r;
    rig_open(&r);
    assert_int_equal(truncate(r.path[1], FILE_BYTES - 60000), 0);
    CkptStream *s = stream_new(&r, RANGES, N_RANGES, false);
    unsigned char *got = mem_alloc(70000);
    assert_false(ckpt_stream_take(s, 1, FILE_BYTES - 70000, got, 70000));
    mem_free(got);
    ckpt_stream_free(s);
    rig_close(&r);
}

/* Stopped at any time, with readers under way. */
static void ends_early(void **state) {
    (void)state;
    for (size_t k = 0; k <= N_RANGES; k++) {
        Rig r;
        rig_open(&r);
        CkptStream *s = stream_new(&r, RANGES, N_RANGES, false);
        for (size_t i = 0; i < k; i++) take_all(s, &r, &RANGES[i], 30000);
        ckpt_stream_free(s);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(shared_bytes_come_by_the_cache),
        cmocka_unit_test(against_the_order),
        cmocka_unit_test(by_many_threads),
        cmocka_unit_test(a_file_that_shrinks),
        cmocka_unit_test(ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
