/* Pages, sequences and the prefix tree: counts never leak, adopted prefixes are the right ones,
 * shared pages are copied before a write, and a random run against a plain model of it finds
 * nothing lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cache/seqcache.h"

enum { N_PAGES = 24 };

/* A stand-in for a backend: what page_copy did, as one token array per page. */
static uint32_t page_content[N_PAGES][PAGE_TOKENS];

static void copy_page(BackPlanes *planes, uint32_t to, uint32_t from) {
    (void)planes;
    memcpy(page_content[to], page_content[from], sizeof page_content[to]);
}

static const BackendApi FAKE = {.name = "fake", .page_copy = copy_page};

static void open_cache(CacheContext *c) {
    Err err = {0};
    *c = (CacheContext){.api = &FAKE};
    assert_true(pagepool_init(&c->pool, N_PAGES, &err));
    assert_non_null(c->tree = prefix_new(&c->pool, N_PAGES + 8, &err));
}

static void close_cache(CacheContext *c) {
    prefix_free(c->tree);
    assert_int_equal(c->pool.n_free, N_PAGES); /* every page came back */
    pagepool_deinit(&c->pool);
}

/* Extends a sequence as the engine does: room first, then rows written. */
static bool grow(SeqCache *s, const uint32_t *tokens, uint32_t n) {
    Err err = {0};
    uint32_t at = s->n_tokens;
    if (!seqcache_extend(s, n, &err)) return false;
    for (; at < s->n_tokens; at++) {
        uint32_t page = s->pages[at / PAGE_TOKENS];
        /* never into a page that somebody else reads */
        assert_int_equal(s->ctx->pool.refs[page], 1);
        page_content[page][at % PAGE_TOKENS] = tokens[at];
    }
    return true;
}

static void check_content(const SeqCache *s, const uint32_t *tokens) {
    for (uint32_t i = 0; i < s->n_tokens; i++)
        assert_int_equal(page_content[s->pages[i / PAGE_TOKENS]][i % PAGE_TOKENS], tokens[i]);
}

static void prefixes_are_adopted_whole_and_in_part(void **state) {
    (void)state;
    Err err = {0};
    CacheContext c;
    SeqCache s;
    uint32_t a[300], b[300];
    open_cache(&c);
    for (uint32_t i = 0; i < 300; i++) a[i] = b[i] = i * 7;
    b[150] = 1; /* departs in the third block */
    assert_true(seqcache_init(&s, &c, 300, &err) && grow(&s, a, 200));
    seqcache_store(&s, 5, a, 200);
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
    open_cache(&c);
    for (uint32_t i = 0; i < N_PAGES * PAGE_TOKENS; i++) tokens[i] = i;
    assert_true(seqcache_init(&s, &c, N_PAGES * PAGE_TOKENS, &err) &&
                grow(&s, tokens, 10 * PAGE_TOKENS));
    seqcache_store(&s, 0, tokens, 10 * PAGE_TOKENS);
    seqcache_deinit(&s);
    assert_int_equal(c.pool.n_free, N_PAGES - 10);
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
    open_cache(&c);
    assert_true(seqcache_init(&s, &c, 300, &err) && grow(&s, tokens, 300));
    assert_int_equal(c.pool.n_free, N_PAGES - 5);
    seqcache_trim(&s, 65);
    assert_int_equal(c.pool.n_free, N_PAGES - 2);
    assert_true(grow(&s, tokens, 1));
    assert_int_equal(s.n_tokens, 66);
    assert_false(seqcache_extend(&s, 300, &err));
    assert_int_equal(err.kind, ERR_LIMIT);
    seqcache_deinit(&s);
    close_cache(&c);
}

/* Few distinct tokens, so that prefixes collide, depart and grow in every way. */
static void random_life(void **state) {
    (void)state;
    enum { N_SEQS = 4, MAX_TOKENS = 400, N_STEPS = 4000 };
    Err err = {0};
    CacheContext c;
    SeqCache s[N_SEQS] = {0};
    uint32_t tokens[N_SEQS][MAX_TOKENS], draw = 0;
    open_cache(&c);
    for (int step = 0; step < N_STEPS; step++) {
        uint32_t i = rng_u32(1, 0, draw++, 0) % N_SEQS, r = rng_u32(1, 0, draw++, 0);
        if (!s[i].ctx) {
            for (uint32_t k = 0; k < MAX_TOKENS; k++)
                tokens[i][k] = k % 50 == 49 ? rng_u32(1, 0, draw++, 0) % 2 : k;
            assert_true(seqcache_init(&s[i], &c, MAX_TOKENS, &err));
            seqcache_adopt(&s[i], 0, tokens[i], 1 + r % (MAX_TOKENS - 1));
        } else if (r % 8 == 0) {
            seqcache_store(&s[i], 0, tokens[i], s[i].n_tokens);
            seqcache_deinit(&s[i]);
            s[i].ctx = NULL;
            continue;
        } else if (r % 8 == 1) {
            seqcache_trim(&s[i], s[i].n_tokens / 2);
        } else if (s[i].n_tokens < MAX_TOKENS) {
            uint32_t n = 1 + r / 8 % 90;
            grow(&s[i], tokens[i], n < MAX_TOKENS - s[i].n_tokens ? n : MAX_TOKENS - s[i].n_tokens);
        }
        check_content(&s[i], tokens[i]);
    }
    for (int i = 0; i < N_SEQS; i++)
        if (s[i].ctx) seqcache_deinit(&s[i]);
    close_cache(&c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_adopted_whole_and_in_part),
        cmocka_unit_test(a_full_pool_evicts_stored_prefixes_only),
        cmocka_unit_test(trimming_gives_pages_back),
        cmocka_unit_test(random_life),
        cmocka_unit_test(failing_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
