/* Pieces in any order are written in order, each byte once; what broke goes on where it broke. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hub/hub_chunks.h"

enum { SIZE = 10007, CHUNK = 512, SLOTS = 6 };

typedef struct Out {
    unsigned char bytes[SIZE];
    size_t n;
} Out;

static unsigned char byte_at(uint64_t i) { return (unsigned char)(i * 131 + i / 251); }

static bool sink(void *ctx, Str bytes, Err *err) {
    Out *o = ctx;
    if (o->n + bytes.n > SIZE) return err_set(err, ERR_INTERNAL, "too much");
    memcpy(o->bytes + o->n, bytes.p, bytes.n);
    o->n += bytes.n;
    return true;
}

static void check(const Out *o) {
    for (size_t i = 0; i < o->n; i++)
        if (o->bytes[i] != byte_at(i)) fail_msg("byte %zu is wrong", i);
}

/* Some bytes of a busy slot. */
static void feed(HubChunks *c, int slot, uint64_t most) {
    char piece[CHUNK];
    uint64_t from, n;
    Err err = {0};
    hub_chunks_range(c, slot, &from, &n);
    if (n > most) n = most;
    for (uint64_t i = 0; i < n; i++) piece[i] = (char)byte_at(from + i);
    assert_true(hub_chunks_data(c, slot, (Str){piece, n}, &err));
}

static void any_order(void **state) {
    uint32_t seed = 7;
    (void)state;
    for (int round = 0; round < 200; round++) {
        Out o = {.n = round % 3 ? 777 : 0};
        HubChunks c;
        int busy[SLOTS], n_busy = 0;
        for (size_t i = 0; i < o.n; i++) o.bytes[i] = byte_at(i);
        hub_chunks_init(&c, SIZE, o.n, CHUNK, SLOTS, sink, &o);
        while (!hub_chunks_done(&c)) {
            seed = seed * 1664525u + 1013904223u;
            int slot = n_busy < SLOTS && seed >> 30 ? hub_chunks_take(&c) : -1;
            if (slot >= 0) busy[n_busy++] = slot;
            if (!n_busy) continue;
            int k = (int)((seed >> 8) % (uint32_t)n_busy);
            feed(&c, busy[k], (seed >> 12) % 300);
            uint64_t from, left;
            hub_chunks_range(&c, busy[k], &from, &left);
            /* a connection ends when it has all, or breaks */
            if (left == 0 || (seed >> 20) % 8 == 0) {
                hub_chunks_release(&c, busy[k], left == 0);
                busy[k] = busy[--n_busy];
            }
            assert_true(c.written == o.n);
        }
        assert_int_equal(o.n, SIZE);
        check(&o);
        hub_chunks_deinit(&c);
    }
}

static void ends(void **state) {
    Out o = {0};
    HubChunks c;
    Err err = {0};
    (void)state;
    hub_chunks_init(&c, UINT64_MAX, 0, CHUNK, SLOTS, sink,
                    &o); /* of unknown size: one connection */
    assert_int_equal(hub_chunks_take(&c), 0);
    assert_int_equal(hub_chunks_take(&c), -1);
    feed(&c, 0, 100);
    assert_true(hub_chunks_release(&c, 0, true));
    assert_true(hub_chunks_done(&c) && o.n == 100);
    hub_chunks_deinit(&c);
    o.n = 0;
    hub_chunks_init(&c, 10, 0, CHUNK, SLOTS, sink, &o);
    int slot = hub_chunks_take(&c);
    assert_true(slot >= 0);
    assert_false(
        hub_chunks_data(&c, slot, STR("eleven bytes"), &err)); /* more than was asked for */
    assert_int_equal(err.kind, ERR_CORRUPT);
    hub_chunks_release(&c, slot, false);
    hub_chunks_restart(&c, true);
    assert_int_equal(hub_chunks_take(&c), 0);
    feed(&c, 0, 10);
    assert_true(hub_chunks_release(&c, 0, true) && hub_chunks_done(&c));
    hub_chunks_deinit(&c);
    hub_chunks_init(&c, 0, 0, CHUNK, SLOTS, sink, &o);
    assert_true(hub_chunks_done(&c) && hub_chunks_take(&c) == -1);
    hub_chunks_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_order), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
