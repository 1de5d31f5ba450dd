/* Pages, sequences, states and the prefix tree: counts never leak, adopted prefixes are the right
 * ones, shared pages are copied before a write, windows and states are there when they are read, and
 * a random run against a plain model of it finds nothing lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cache/seqcache.h"

enum { N_PAGES = 24, N_GROUPS = 3, N_STATES = 9, WINDOW = 100, CHUNK = 80 };

/* A stand-in for a backend: its planes as one token array per page, its recurrent state as a hash of
 * all tokens so far. */
static uint32_t page_content[N_GROUPS][N_PAGES][PAGE_TOKENS];
static uint64_t state_content[N_STATES];

static void copy_page(BackPlanes *planes, uint32_t group, uint32_t to, uint32_t from) {
    (void)planes;
    memcpy(page_content[group][to], page_content[group][from], sizeof page_content[group][to]);
}

static const BackendApi FAKE = {.name = "fake", .page_copy = copy_page};

/* n_groups 1: all is kept; 3: also a window and chunks. */
static void open_cache(CacheContext *c, uint32_t n_groups, bool recurrent) {
    Err err = {0};
    Program p = {.n_groups = n_groups,
                 .n_states = recurrent,
                 .groups = {{KEEP_ALL, 0}, {KEEP_WINDOW, WINDOW}, {KEEP_CHUNK, CHUNK}}};
    PlanesAsk ask = {.n_pages = {N_PAGES, N_PAGES, N_PAGES}, .n_states = recurrent ? N_STATES : 0};
    *c = (CacheContext){.api = &FAKE};
    assert_true(cachepools_init(&c->pools, &p, &ask, &err));
    assert_non_null(c->tree = prefix_new(&c->pools, N_PAGES + 8, &err));
}

static uint32_t n_free(const CacheContext *c) { return c->pools.pages[0].n_free; }

static void close_cache(CacheContext *c) {
    prefix_free(c->tree);
    for (uint32_t g = 0; g < c->pools.n_groups; g++) /* every page came back */
        assert_int_equal(c->pools.pages[g].n_free, N_PAGES);
    assert_int_equal(c->pools.states.n_free, c->pools.states.n_pages);
    cachepools_deinit(&c->pools);
}

static uint64_t hashed(uint64_t state, uint32_t token) {
    return (state ^ token) * 0x9e3779b97f4a7c15u + 1;
}

/* What the row at `slot` reads is what the sequence's tokens say. */
static void check_reads(const SeqCache *s, const uint32_t *tokens, uint32_t slot) {
    for (uint32_t g = 0; g < s->ctx->pools.n_groups; g++)
        for (uint32_t i = cachepools_first_read(&s->ctx->pools, g, slot); i < slot; i++) {
            uint32_t page = s->pages[g][i / PAGE_TOKENS];
            assert_true(page < N_PAGES);
            assert_int_equal(page_content[g][page][i % PAGE_TOKENS], tokens[i]);
        }
}

/* Extends a sequence as the engine does: room first, then rows written and states moved on; of every
 * mark_each-th length (0: none) the state is kept. */
static bool grow_marked(SeqCache *s, const uint32_t *tokens, uint32_t n, uint32_t mark_each) {
    Err err = {0};
    uint32_t at = s->n_tokens;
    if (!seqcache_extend(s, n, &err)) return false;
    uint64_t state = 0;
    if (s->ctx->pools.recurrent && at) state = state_content[seqcache_state_from(s)];
    check_reads(s, tokens, at);
    for (; at < s->n_tokens; at++) {
        for (uint32_t g = 0; g < s->ctx->pools.n_groups; g++) {
            uint32_t page = s->pages[g][at / PAGE_TOKENS];
            /* never into a page that somebody else reads */
            assert_int_equal(s->ctx->pools.pages[g].refs[page], 1);
            page_content[g][page][at % PAGE_TOKENS] = tokens[at];
        }
        state = hashed(state, tokens[at]);
        if (!mark_each || (at + 1) % mark_each) continue;
        uint32_t slot = seqcache_mark(s, at + 1);
        if (slot != STEP_NO_MARK) state_content[slot] = state;
    }
    if (s->ctx->pools.recurrent) state_content[s->state] = state;
    return true;
}

static bool grow(SeqCache *s, const uint32_t *tokens, uint32_t n) {
    return grow_marked(s, tokens, n, 0);
}

static void check_content(const SeqCache *s, const uint32_t *tokens) {
    check_reads(s, tokens, s->n_tokens);
    if (!s->ctx->pools.recurrent || !s->n_tokens) return;
    uint64_t state = 0;
    for (uint32_t i = 0; i < s->n_tokens; i++) state = hashed(state, tokens[i]);
    assert_true(state_content[s->from_is_due ? s->from : s->state] == state);
}

static void prefixes_are_adopted_whole_and_in_part(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t a[300], b[300];
    open_cache(&c, 1, false);
    for (uint32_t i = 0; i < 300; i++) a[i] = b[i] = i * 7;
    b[150] = 1; /* departs in the third block */
    assert_true(seqcache_init(&s, &c, 300, &err) && grow(&s, a, 200));
    seqcache_store(&s, 5, a, 200, true);
    seqcache_deinit(&s);
    assert_true(seqcache_init(&s, &c, 300, &err));
    assert_int_equal(seqcache_adopt(&s, 6, a, 299), 0); /* another key */
    assert_int_equal(seqcache_adopt(&s, 5, b, 299), 150);
    check_content(&s, b);
    assert_true(grow(&s, b, 100));
    check_content(&s, b);
    seqcache_deinit(&s);
    assert_true(seqcache_init(&s, &c, 300, &err));
    assert_int_equal(seqcache_adopt(&s, 5, a, 299), 200); /* the first one is as it was */
    check_content(&s, a);
    seqcache_deinit(&s);
    close_cache(&c);
}

static void a_full_pool_evicts_stored_prefixes_only(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s, t;
    uint32_t tokens[N_PAGES * PAGE_TOKENS];
    open_cache(&c, 1, false);
    for (uint32_t i = 0; i < N_PAGES * PAGE_TOKENS; i++) tokens[i] = i;
    assert_true(seqcache_init(&s, &c, N_PAGES * PAGE_TOKENS, &err) &&
                grow(&s, tokens, 10 * PAGE_TOKENS));
    seqcache_store(&s, 0, tokens, 10 * PAGE_TOKENS, true);
    seqcache_deinit(&s);
    assert_int_equal(n_free(&c), N_PAGES - 10);
    tokens[0] = 77;
    assert_true(seqcache_init(&s, &c, N_PAGES * PAGE_TOKENS, &err) &&
                grow(&s, tokens, N_PAGES * PAGE_TOKENS));
    assert_int_equal(prefix_n_blocks(c.tree), 0);
    assert_true(seqcache_init(&t, &c, 64, &err));
    assert_false(seqcache_extend(&t, 1, &err));
    assert_int_equal(err.kind, ERR_BUSY);
    check_content(&s, tokens);
    seqcache_deinit(&t);
    seqcache_deinit(&s);
    close_cache(&c);
}

static void trimming_gives_pages_back(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t tokens[300] = {0};
    open_cache(&c, 1, false);
    assert_true(seqcache_init(&s, &c, 300, &err) && grow(&s, tokens, 300));
    assert_int_equal(n_free(&c), N_PAGES - 5);
    seqcache_trim(&s, 65);
    assert_int_equal(n_free(&c), N_PAGES - 2);
    assert_true(grow(&s, tokens, 1));
    assert_int_equal(s.n_tokens, 66);
    assert_false(seqcache_extend(&s, 300, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    seqcache_deinit(&s);
    close_cache(&c);
}

static void windows_give_pages_back(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t tokens[1000], last;
    open_cache(&c, 3, false);
    for (uint32_t i = 0; i < 1000; i++) tokens[i] = i;
    assert_true(seqcache_init(&s, &c, 1000, &err));
    for (uint32_t n = 0; n < 1000; n += 50) assert_true(grow(&s, tokens, 50));
    assert_int_equal(n_free(&c), N_PAGES - 16);
    /* the window, what may be trimmed, the rows of a step, and pages begun */
    assert_true(c.pools.pages[1].n_free >= N_PAGES - 6);
    assert_true(c.pools.pages[2].n_free >= N_PAGES - 5);
    last = seqcache_trim(&s, 1000 - CACHE_TRIM_TOKENS);
    assert_int_equal(last, 1000 - CACHE_TRIM_TOKENS); /* a few rows can be dropped */
    check_content(&s, tokens);
    assert_int_equal(seqcache_trim(&s, 300), 0); /* but no way back past the windows */
    seqcache_deinit(&s);
    close_cache(&c);
}

static void prefixes_end_where_windows_and_states_are(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t a[700], b[700];
    open_cache(&c, 3, true);
    for (uint32_t i = 0; i < 700; i++) a[i] = b[i] = i * 3;
    b[420] = 1;
    assert_true(seqcache_init(&s, &c, 700, &err));
    for (uint32_t n = 0; n < 400; n += 40) assert_true(grow_marked(&s, a, 40, 390));
    seqcache_store(&s, 1, a, 400, false); /* the prompt's end: the state at 390 is kept */
    for (uint32_t n = 400; n < 700; n += 50) assert_true(grow(&s, a, 50));
    seqcache_store(&s, 1, a, 700, true);
    seqcache_deinit(&s);
    assert_true(seqcache_init(&s, &c, 700, &err));
    assert_int_equal(seqcache_adopt(&s, 1, b, 699), 390); /* departs at 420 */
    check_content(&s, b);
    assert_true(grow(&s, b, 100));
    check_content(&s, b);
    seqcache_deinit(&s);
    assert_true(seqcache_init(&s, &c, 700, &err));
    assert_int_equal(seqcache_adopt(&s, 1, a, 380), 0); /* no state there */
    assert_int_equal(seqcache_adopt(&s, 1, a, 700), 700);
    check_content(&s, a);
    seqcache_deinit(&s);
    close_cache(&c);
}

static void recurrent_sequences_go_back_to_a_mark(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t tokens[300];
    open_cache(&c, 1, true);
    for (uint32_t i = 0; i < 300; i++) tokens[i] = i + 5;
    assert_true(seqcache_init(&s, &c, 300, &err) && grow_marked(&s, tokens, 100, 30));
    assert_int_equal(seqcache_trim(&s, 100), 100);
    assert_int_equal(seqcache_trim(&s, 95), 90);
    check_content(&s, tokens);
    assert_true(grow(&s, tokens, 50));
    check_content(&s, tokens);
    assert_int_equal(seqcache_trim(&s, 29), 0);
    assert_true(grow(&s, tokens, 10));
    check_content(&s, tokens);
    seqcache_deinit(&s);
    close_cache(&c);
}

/* Few distinct tokens, so that prefixes collide, depart and grow in every way. */
static void live(uint32_t n_groups, bool recurrent) {
    enum { N_SEQS = 4, MAX_TOKENS = 400, N_STEPS = 4000 };
    Err err = {0};
    CacheContext c;
    SeqCache s[N_SEQS] = {0};
    uint32_t tokens[N_SEQS][MAX_TOKENS], draw = 0, n_adopted = 0;
    open_cache(&c, n_groups, recurrent);
    for (int step = 0; step < N_STEPS; step++) {
        uint32_t i = rng_u32(1, 0, draw++, 0) % N_SEQS, r = rng_u32(1, 0, draw++, 0);
        if (!s[i].ctx) {
            for (uint32_t k = 0; k < MAX_TOKENS; k++)
                tokens[i][k] = k % 50 == 49 ? rng_u32(1, 0, draw++, 0) % 2 : k;
            assert_true(seqcache_init(&s[i], &c, MAX_TOKENS, &err));
            n_adopted += seqcache_adopt(&s[i], 0, tokens[i], 1 + r % (MAX_TOKENS - 1)) > 0;
        } else if (r % 8 == 0) {
            seqcache_store(&s[i], 0, tokens[i], s[i].n_tokens, true);
            seqcache_deinit(&s[i]);
            s[i].ctx = NULL;
            continue;
        } else if (r % 8 == 1) {
            uint32_t to = s[i].n_tokens - s[i].n_tokens % 70;
            assert_true(seqcache_trim(&s[i], to) <= to);
        } else if (r % 8 == 2) {
            seqcache_store(&s[i], 0, tokens[i], s[i].n_tokens, false);
        } else if (s[i].n_tokens < MAX_TOKENS) {
            uint32_t n = 1 + r / 8 % 90, left = MAX_TOKENS - s[i].n_tokens;
            grow_marked(&s[i], tokens[i], n < left ? n : left, 23);
        }
        check_content(&s[i], tokens[i]);
    }
    assert_true(n_adopted > 20);
    for (int i = 0; i < N_SEQS; i++)
        if (s[i].ctx) seqcache_deinit(&s[i]);
    close_cache(&c);
}

static void random_life(void **state) {
    (void)state;
    live(1, false);
    live(3, false);
    live(1, true);
    live(3, true);
}

static void failing_memory_is_an_error(void **state) {
    (void)state;
    Err err = {0};
    PagePool pool;
    for (int at = 0; at < 2; at++) {
        mem_fail_after(at);
        assert_false(pagepool_init(&pool, 8, &err));
        mem_fail_after(-1);
        assert_int_equal(err.kind, ERR_NOMEM);
    }
}

/* Pages of CROSS planes are taken once, stay as the sequence grows and is trimmed, and come back at
 * its end; the table of a step has room for whichever has more. */
static void cross_pages_stay(void **state) {
    (void)state;
    enum { ROWS = 3 * PAGE_TOKENS + 1 };
    Err err = {0};
    CacheContext c = {.api = &FAKE};
    SeqCache s, t;
    Program p = {.n_groups = 2, .groups = {{KEEP_ALL, 0}, {KEEP_CROSS, 0}}};
    PlanesAsk ask = {.n_pages = {N_PAGES, 6}};
    uint32_t table[2 * N_PAGES], first[4];
    assert_true(cachepools_init(&c.pools, &p, &ask, &err));
    assert_true(seqcache_init(&s, &c, 700, &err) && seqcache_take_cross(&s, ROWS, &err));
    assert_true(seqcache_extend(&s, 65, &err));
    assert_int_equal(seqcache_table_pages(&s), 4);
    seqcache_write_table(&s, table);
    for (int i = 0; i < 8; i++) assert_true((table[i] == PAGE_NONE) == (i == 2 || i == 3));
    memcpy(first, table + 4, sizeof first);
    assert_true(seqcache_extend(&s, 600, &err));
    assert_int_equal(seqcache_table_pages(&s), 11);
    assert_int_equal(seqcache_trim(&s, 10), 10);
    assert_int_equal(seqcache_table_pages(&s), 4);
    seqcache_write_table(&s, table);
    assert_memory_equal(first, table + 4, sizeof first);
    /* two pages are left where four are asked for */
    assert_true(seqcache_init(&t, &c, 64, &err));
    assert_false(seqcache_take_cross(&t, ROWS, &err));
    assert_int_equal(err.kind, ERR_BUSY);
    seqcache_deinit(&t);
    assert_int_equal(c.pools.pages[1].n_free, 2);
    seqcache_deinit(&s);
    assert_int_equal(c.pools.pages[0].n_free, N_PAGES);
    assert_int_equal(c.pools.pages[1].n_free, 6);
    cachepools_deinit(&c.pools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_pages_stay),
        cmocka_unit_test(prefixes_are_adopted_whole_and_in_part),
        cmocka_unit_test(a_full_pool_evicts_stored_prefixes_only),
        cmocka_unit_test(trimming_gives_pages_back),
        cmocka_unit_test(windows_give_pages_back),
        cmocka_unit_test(prefixes_end_where_windows_and_states_are),
        cmocka_unit_test(recurrent_sequences_go_back_to_a_mark),
        cmocka_unit_test(random_life),
        cmocka_unit_test(failing_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
