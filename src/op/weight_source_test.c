/* Sources: rows come out as the reference decode has them, in any order and through row maps, and
 * the file is read in few large pieces: a part that every call needs whole once, rows in order
 * ahead of the caller, within a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "op/weight_source.h"

typedef struct File { /* the reader's ctx: a matrix in memory, and what was asked of it */
    QMatrix m;
    WForm form;
    Arena arena;
    WeightSource source;
    size_t n_calls, n_bytes, largest;
} File;

static bool fetch(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out, Err *err) {
    File *f = ctx;
    const QPart *p = &f->m.part[part];
    if (from > p->n_bytes || n_bytes > p->n_bytes - from)
        return err_set(err, ERR_INTERNAL, "outside the part");
    memcpy(out, p->data + from, n_bytes);
    f->n_calls++;
    f->n_bytes += n_bytes;
    if (n_bytes > f->largest) f->largest = n_bytes;
    return true;
}

static uint8_t *random_bytes(Arena *a, size_t n, uint64_t seed) {
    uint8_t *p = arena_array(a, uint8_t, n);
    assert_non_null(p);
    uint64_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        p[i] = (uint8_t)(x >> 56);
    }
    return p;
}

static void part_put(File *f, QPartId id, DType t, uint64_t rows, uint64_t cols) {
    const uint64_t shape[2] = {rows, cols};
    size_t n = (size_t)(rows * cols) * dtype_info(t)->block_bytes;
    uint8_t *data = random_bytes(&f->arena, n, (uint64_t)id + 1);
    if (t == DTYPE_F16) /* no infinities or NaN */
        for (size_t i = 1; i < n; i += 2) data[i] &= 0xBB;
    f->m.part[id] = qpart_of(t, 2, shape, data, n);
}

static void file_open(File *f) {
    Err err = {0};
    if (!wform_init(&f->form, &f->m, &f->arena, &err)) fail_msg("%s", err.msg);
    f->source = (WeightSource){.n = (uint32_t)f->form.n,
                               .k = (uint32_t)f->form.k,
                               .m = f->m,
                               .form = &f->form,
                               .fetch = fetch,
                               .ctx = f,
                               .name = "w"};
    for (int i = 0; i < QPART_COUNT; i++) f->source.m.part[i].data = NULL;
}

static void file_floats(File *f, uint64_t n, uint64_t k) {
    *f = (File){.m = {.format = QFORMAT_ROWS, .n = n, .k = k}};
    part_put(f, QPART_WEIGHT, DTYPE_F16, n, k);
    file_open(f);
}

static void file_gptq(File *f, uint64_t n, uint64_t k) {
    *f = (File){.m = {.format = QFORMAT_GPTQ, .n = n, .k = k, .bits = 4, .group = 32}};
    part_put(f, QPART_WEIGHT, DTYPE_I32, k / 8, n);
    part_put(f, QPART_SCALE, DTYPE_F16, k / 32, n);
    part_put(f, QPART_ZERO, DTYPE_I32, k / 32, n / 8);
    file_open(f);
}

/* Rows [n0, n1) through the source must be the reference decode's. */
static void check_rows(File *f, uint32_t n0, uint32_t n1, WeightScratch *sc) {
    Err err = {0};
    size_t k = f->source.k;
    float *got = mem_calloc((size_t)(n1 - n0) * k, sizeof *got),
          *want = mem_calloc(k, sizeof *want);
    assert_true(got && want);
    if (!wsource_f32(&f->source, n0, n1, got, sc, &err)) fail_msg("%s", err.msg);
    for (uint32_t n = n0; n < n1; n++) {
        uint64_t row = f->source.row_map ? f->source.row_map[n] : f->source.row0 + n;
        if (!decode_with(&f->form, &f->m, row, row + 1, want, &err)) fail_msg("%s", err.msg);
        assert_memory_equal(got + (n - n0) * k, want, k * sizeof *want);
    }
    mem_free(got);
    mem_free(want);
}

static void any_order_gives_the_same_rows(void **state) {
    (void)state;
    static const uint32_t STARTS[] = {0, 16, 32, 48, 96, 40, 0, 112, 8, 24, 40, 56};
    uint32_t map[128];
    for (uint32_t i = 0; i < 128; i++) map[i] = i / 32 * 32 + i % 2 * 16 + i % 32 / 2;
    for (int kind = 0; kind < 2; kind++) {
        File f;
        WeightScratch sc = {0};
        if (kind == 0)
            file_floats(&f, 128, 64);
        else
            file_gptq(&f, 128, 64);
        for (int mapped = 0; mapped < 2; mapped++) {
            f.source.row_map = mapped ? map : NULL;
            for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
                check_rows(&f, STARTS[i], STARTS[i] + 16, &sc);
        }
        wsource_scratch_deinit(&sc);
        arena_deinit(&f.arena);
    }
}

static void whole_parts_are_read_once(void **state) {
    (void)state;
    File f;
    WeightScratch sc = {0};
    file_gptq(&f, 256, 128);
    for (uint32_t n = 0; n < 256; n += 16) check_rows(&f, n, n + 16, &sc);
    assert_int_equal(f.n_bytes, f.m.part[QPART_WEIGHT].n_bytes + f.m.part[QPART_SCALE].n_bytes +
                                    f.m.part[QPART_ZERO].n_bytes);
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
}

/* GPTQ's qweight is stored [inputs, outputs]: a thread that takes every fourth piece reads and holds
 * that many of its columns, not all. */
static void columns_are_read_in_pieces(void **state) {
    (void)state;
    File f;
    WeightScratch sc = {0};
    file_gptq(&f, 256, 128);
    uint64_t weight = f.m.part[QPART_WEIGHT].n_bytes;
    for (uint32_t n = 0; n < 256; n += 64) check_rows(&f, n, n + 16, &sc);
    assert_int_equal(f.n_bytes,
                     weight / 4 + f.m.part[QPART_SCALE].n_bytes + f.m.part[QPART_ZERO].n_bytes);
    assert_int_equal(sc.n_bytes[QPART_WEIGHT], weight / 16);
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
}

static void rows_in_order_are_read_ahead(void **state) {
    (void)state;
    enum { N = 4096, K = 2048, STEP = 16 }; /* 16 MiB in steps of 64 KiB */
    File f;
    WeightScratch sc = {0};
    file_floats(&f, N, K);
    unsigned char *out = mem_alloc((size_t)STEP * K * 2);
    assert_non_null(out);
    for (uint32_t n = 0; n < N; n += STEP) {
        Err err = {0};
        if (!wsource_plain(&f.source, n, n + STEP, out, &sc, &err)) fail_msg("%s", err.msg);
        assert_memory_equal(out, f.m.part[QPART_WEIGHT].data + (size_t)n * K * 2,
                            (size_t)STEP * K * 2);
    }
    assert_true(f.n_calls <= 12); /* not 256 */
    assert_int_equal(f.n_bytes, (size_t)N * K * 2);
    assert_true(f.largest <= WSOURCE_AHEAD_BYTES);
    mem_free(out);
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
}

/* A thread that gets every fourth piece must not read the other threads' pieces too. */
static void skipping_callers_are_not_read_ahead_for(void **state) {
    (void)state;
    enum { N = 1024, K = 512, STEP = 16 };
    File f;
    WeightScratch sc = {0};
    file_floats(&f, N, K);
    for (uint32_t n = 0; n < N; n += 4 * STEP) check_rows(&f, n, n + STEP, &sc);
    assert_int_equal(f.n_bytes, (size_t)N / 4 * K * 2);
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
}

static void another_source_is_not_mistaken(void **state) {
    (void)state;
    File f, g;
    WeightScratch sc = {0};
    file_floats(&f, 64, 32);
    file_floats(&g, 64, 32);
    for (size_t i = 0; i < g.m.part[QPART_WEIGHT].n_bytes; i++)
        ((uint8_t *)(uintptr_t)g.m.part[QPART_WEIGHT].data)[i] ^= 1;
    check_rows(&f, 0, 16, &sc);
    check_rows(&g, 0, 16, &sc);
    check_rows(&f, 0, 16, &sc);
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
    arena_deinit(&g.arena);
}

static void locate(void *ctx, QPartId part, int *i_file, uint64_t *at) {
    (void)ctx;
    *i_file = (int)part;
    *at = 1000;
}

/* Where the bytes are that a source will read: of a slice, of permuted rows, of a transposed matrix,
 * of several parts. */
static void ranges_are_those_of_its_rows(void **state) {
    (void)state;
    enum { N = 32, K = 64 };
    static const uint32_t MAP[8] = {12, 10, 17, 11, 13, 14, 15, 16};
    WeightRange r[QPART_COUNT];
    File f;
    file_floats(&f, N, K);
    assert_int_equal(wsource_ranges(&f.source, r), 0); /* not in files */
    f.source.locate = locate;
    assert_int_equal(wsource_ranges(&f.source, r), 1);
    assert_true(r[0].i_file == QPART_WEIGHT && r[0].at == 1000 && r[0].n_bytes == N * K * 2);
    f.source.n = 8;
    f.source.row0 = 5;
    assert_int_equal(wsource_ranges(&f.source, r), 1);
    assert_true(r[0].at == 1000 + 5 * K * 2 && r[0].n_bytes == 8 * K * 2);
    f.source.row_map = MAP;
    assert_int_equal(wsource_ranges(&f.source, r), 1);
    assert_true(r[0].at == 1000 + 10 * K * 2 && r[0].n_bytes == 8 * K * 2);
    f.source.transposed = true;
    f.source.k = 3;
    assert_int_equal(wsource_ranges(&f.source, r), 1);
    assert_true(r[0].at == 1000 + 5 * K * 2 && r[0].n_bytes == 3 * K * 2);
    arena_deinit(&f.arena);
    file_gptq(&f, N, K);
    f.source.locate = locate;
    assert_int_equal(wsource_ranges(&f.source, r), 3);
    for (int i = 0; i < 3; i++)
        assert_true(r[i].at == 1000 && r[i].n_bytes == f.m.part[r[i].i_file].n_bytes);
    arena_deinit(&f.arena);
}

/* A convolution's kernel, stored [outputs, inputs, taps]: columns come out tap by tap, from a row map
 * too, as they are stored and decoded. */
static void taps_come_first(void **state) {
    (void)state;
    enum { N = 32, INPUTS = 5, TAPS = 3, K = INPUTS * TAPS };
    static const uint32_t MAP[N] = {7, 3, 31, 0, 12};
    for (int mapped = 0; mapped < 2; mapped++) {
        File f;
        Err err = {0};
        WeightScratch sc = {0};
        float got[4 * K], want[K];
        uint16_t plain[4 * K], stored;
        file_floats(&f, N, K);
        f.source.taps = TAPS;
        f.source.row_map = mapped ? MAP : NULL;
        if (!wsource_f32(&f.source, 1, 5, got, &sc, &err)) fail_msg("%s", err.msg);
        if (!wsource_plain(&f.source, 1, 5, plain, &sc, &err)) fail_msg("%s", err.msg);
        for (uint32_t r = 0; r < 4; r++) {
            uint64_t row = mapped ? MAP[1 + r] : 1 + r;
            if (!decode_with(&f.form, &f.m, row, row + 1, want, &err)) fail_msg("%s", err.msg);
            for (uint32_t i = 0; i < INPUTS; i++)
                for (uint32_t t = 0; t < TAPS; t++) {
                    uint32_t from = i * TAPS + t, to = r * K + t * INPUTS + i;
                    memcpy(&stored, f.m.part[QPART_WEIGHT].data + 2 * (row * K + from), 2);
                    assert_memory_equal(&got[to], &want[from], sizeof(float));
                    assert_int_equal(plain[to], stored);
                }
        }
        wsource_scratch_deinit(&sc);
        arena_deinit(&f.arena);
    }
}

static bool fetch_fails(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out,
                        Err *err) {
    (void)part, (void)from, (void)n_bytes, (void)out;
    int *left = ctx;
    if ((*left)-- > 0) {
        memset(out, 0, n_bytes);
        return true;
    }
    return err_set(err, ERR_IO, "the disk is gone");
}

/* What a failed read left behind is not served later. */
static void failed_reads_are_not_kept(void **state) {
    (void)state;
    File f;
    Err err = {0};
    WeightScratch sc = {0};
    int left = 1;
    float out[16 * 32];
    file_floats(&f, 64, 32);
    f.source.fetch = fetch_fails;
    f.source.ctx = &left;
    assert_true(wsource_f32(&f.source, 0, 16, out, &sc, &err));
    assert_false(wsource_f32(&f.source, 32, 48, out, &sc, &err));
    assert_int_equal(err.kind, ERR_IO);
    assert_false(wsource_f32(&f.source, 32, 48, out, &sc, &err));
    wsource_scratch_deinit(&sc);
    arena_deinit(&f.arena);
}

/* A quantized matrix as floats: its rows are the decoded ones whatever is asked for first, and they
 * can be read as columns. */
static void decoded_matrices_can_be_turned(void **state) {
    (void)state;
    enum { N = 64, K = 96, FIRST = 16, INPUTS = 32 };
    for (int kind = 0; kind < 2; kind++) {
        File f;
        Err err = {0};
        WeightScratch sc = {0};
        WeightSource all;
        float want[N * K], got[N * K], column[INPUTS];
        if (kind == 0)
            file_gptq(&f, N, K);
        else
            file_floats(&f, N, K);
        if (!decode_with(&f.form, &f.m, 0, N, want, &err)) fail_msg("%s", err.msg);
        if (!wsource_decoded(&f.source, &f.arena, &all, &err)) fail_msg("%s", err.msg);
        assert_true(wsource_f32(&all, 40, N, got, &sc, &err));
        assert_memory_equal(got, want + 40 * K, (N - 40) * K * sizeof *got);
        assert_true(wsource_f32(&all, 0, N, got, &sc, &err));
        assert_memory_equal(got, want, sizeof got);
        all.transposed = true;
        all.row0 = FIRST;
        all.n = K;
        all.k = INPUTS;
        for (uint32_t c = 0; c < K; c++) {
            assert_true(wsource_f32(&all, c, c + 1, column, &sc, &err));
            for (uint32_t i = 0; i < INPUTS; i++)
                assert_true(column[i] == want[(FIRST + i) * K + c]);
        }
        wsource_scratch_deinit(&sc);
        arena_deinit(&f.arena);
    }
}

/* Two items [48 inputs, 64 outputs] of one-byte floats; scales of blocks [16, 32], of items, of all, or
 * none at all. Each item's outputs [first, first + n) as rows, in pieces, are the columns as decoded. */
static void check_turned(File *f, uint32_t item, uint32_t first, uint32_t n, bool fits) {
    enum { INPUTS = 48, OUTPUTS = 64 };
    Err err = {0};
    WeightSource turned;
    WeightScratch sc = {0};
    bool done;
    float want[OUTPUTS], got[7 * INPUTS];
    if (!wsource_turned(&f->source, item * INPUTS, first, n, INPUTS, &f->arena, &turned, &done,
                        &err))
        fail_msg("%s", err.msg);
    assert_int_equal(done, fits);
    for (uint32_t r = 0; done && r < n; r += 7) {
        uint32_t end = r + 7 < n ? r + 7 : n;
        if (!wsource_f32(&turned, r, end, got, &sc, &err)) fail_msg("%s", err.msg);
        for (uint32_t c = 0; c < INPUTS; c++) {
            uint32_t row = item * INPUTS + c;
            if (!decode_with(&f->form, &f->m, row, row + 1, want, &err)) fail_msg("%s", err.msg);
            for (uint32_t i = r; i < end; i++)
                assert_memory_equal(&got[(i - r) * INPUTS + c], &want[first + i], sizeof *want);
        }
    }
    wsource_scratch_deinit(&sc);
}

static void bytes_can_be_turned(void **state) {
    (void)state;
    static const struct {
        unsigned block_n, block_k;
        uint64_t rows, cols;
    } SCALES[] = {{16, 32, 2 * 3, 2}, {0, 0, 2, 1}, {0, 0, 1, 1}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++) {
        File f = {.m = {.format = QFORMAT_FP8,
                        .n = 96,
                        .k = 64,
                        .block_n = SCALES[i].block_n,
                        .block_k = SCALES[i].block_k}};
        const uint64_t shape[3] = {2, 48, 64};
        f.m.part[QPART_WEIGHT] =
            qpart_of(DTYPE_F8_E4M3, 3, shape, random_bytes(&f.arena, 96 * 64, 5), 96 * 64);
        if (SCALES[i].rows) part_put(&f, QPART_SCALE, DTYPE_BF16, SCALES[i].rows, SCALES[i].cols);
        file_open(&f);
        for (uint32_t item = 0; item < 2; item++) {
            check_turned(&f, item, 0, 64, true);
            check_turned(&f, item, 32, 32, true);
            check_turned(&f, item, 16, 24, SCALES[i].block_n == 0); /* amid a block */
        }
        arena_deinit(&f.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_same_rows),
        cmocka_unit_test(whole_parts_are_read_once),
        cmocka_unit_test(columns_are_read_in_pieces),
        cmocka_unit_test(rows_in_order_are_read_ahead),
        cmocka_unit_test(skipping_callers_are_not_read_ahead_for),
        cmocka_unit_test(another_source_is_not_mistaken),
        cmocka_unit_test(ranges_are_those_of_its_rows),
        cmocka_unit_test(taps_come_first),
        cmocka_unit_test(failed_reads_are_not_kept),
        cmocka_unit_test(decoded_matrices_can_be_turned),
        cmocka_unit_test(bytes_can_be_turned),
    };
    return cmocka_run_group_tests_name("weight_source", tests, NULL, NULL);
}
