#include "cache/seqcache.h"

#include <string.h>

#include "base/mem.h"

/* Pages of CROSS groups come and go all at once. */
static bool is_cross(const SeqCache *c, uint32_t group) {
    return c->ctx->pools.group[group].keep == KEEP_CROSS;
}

bool seqcache_init(SeqCache *c, CacheContext *ctx, uint32_t max_tokens, Err *err) {
    *c = (SeqCache){.ctx = ctx,
                    .max_pages = (uint32_t)pages_for(max_tokens),
                    .state = PAGE_NONE,
                    .from = PAGE_NONE};
    for (uint32_t g = 0; g < ctx->pools.n_groups; g++) {
        if (is_cross(c, g)) continue;
        c->pages[g] = mem_calloc(c->max_pages, sizeof *c->pages[g]);
        if (c->pages[g]) continue;
        seqcache_deinit(c);
        return err_nomem(err, "page table");
    }
    return true;
}

/* Gives back the pages [from, to) of a group that are still held. */
static void pages_drop(SeqCache *c, uint32_t group, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        uint32_t *page = &c->pages[group][i];
        if (*page != PAGE_NONE) pagepool_unref(&c->ctx->pools.pages[group], *page);
        *page = PAGE_NONE;
    }
}

static uint32_t cross_pages(const SeqCache *c) { return (uint32_t)pages_for(c->n_cross); }

static void marks_cut(SeqCache *c, uint32_t n_tokens) {
    while (c->n_marks && c->marks[c->n_marks - 1].n_tokens > n_tokens)
        pagepool_unref(&c->ctx->pools.states, c->marks[--c->n_marks].slot);
}

void seqcache_deinit(SeqCache *c) {
    if (!c->ctx) return;
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++) {
        if (c->pages[g]) pages_drop(c, g, 0, is_cross(c, g) ? cross_pages(c) : c->n_pages);
        mem_free(c->pages[g]);
    }
    while (c->n_marks) pagepool_unref(&c->ctx->pools.states, c->marks[--c->n_marks].slot);
    if (c->state != PAGE_NONE) pagepool_unref(&c->ctx->pools.states, c->state);
    *c = (SeqCache){0};
}

static uint32_t page_take(CacheContext *ctx, uint32_t group) {
    uint32_t page = pagepool_take(&ctx->pools.pages[group]);
    if (page == PAGE_NONE && ctx->tree && prefix_evict_page(ctx->tree, group))
        page = pagepool_take(&ctx->pools.pages[group]);
    return page;
}

bool seqcache_take_cross(SeqCache *c, uint32_t n_rows, Err *err) {
    c->n_cross = n_rows;
    uint32_t n = cross_pages(c);
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++) {
        if (!is_cross(c, g)) continue;
        c->pages[g] = mem_calloc((size_t)n + 1, sizeof *c->pages[g]);
        if (!c->pages[g]) return err_nomem(err, "page table");
        for (uint32_t i = 0; i < n; i++) c->pages[g][i] = PAGE_NONE;
        for (uint32_t i = 0; i < n; i++)
            if ((c->pages[g][i] = page_take(c->ctx, g)) == PAGE_NONE)
                return err_set(err, ERR_BUSY, "all cache pages of the encoder's rows are in use");
    }
    return true;
}

uint32_t seqcache_table_pages(const SeqCache *c) {
    uint32_t cross = cross_pages(c);
    return cross > c->n_pages ? cross : c->n_pages;
}

void seqcache_write_table(const SeqCache *c, uint32_t *out) {
    uint32_t n = seqcache_table_pages(c);
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++, out += n) {
        uint32_t held = is_cross(c, g) ? cross_pages(c) : c->n_pages;
        if (held) memcpy(out, c->pages[g], held * sizeof *out);
        for (uint32_t i = held; i < n; i++) out[i] = PAGE_NONE;
    }
}

static uint32_t state_take(CacheContext *ctx) {
    uint32_t slot = pagepool_take(&ctx->pools.states);
    if (slot == PAGE_NONE && ctx->tree && prefix_evict_state(ctx->tree))
        slot = pagepool_take(&ctx->pools.states);
    return slot;
}

/* The last page of an adopted prefix is written on: a copy of it. false: no page to be had. */
static bool copy_partial(SeqCache *c, uint32_t group) {
    if (is_cross(c, group)) return true;
    PagePool *pool = &c->ctx->pools.pages[group];
    uint32_t *last = &c->pages[group][c->n_pages - 1], from = *last;
    if (from == PAGE_NONE || pool->refs[from] == 1) return true;
    uint32_t page = page_take(c->ctx, group);
    if (page == PAGE_NONE) return false;
    c->ctx->api->page_copy(c->ctx->planes, group, page, from);
    pagepool_unref(pool, from);
    *last = page;
    return true;
}

static void adopt_state(SeqCache *c, const PrefixHit *hit) {
    pagepool_ref(&c->ctx->pools.states, hit->state);
    c->marks[c->n_marks++] = (StateMark){hit->n_tokens, hit->state};
    c->from = hit->state;
    c->from_is_due = true;
}

uint32_t seqcache_adopt(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n) {
    CachePools *pools = &c->ctx->pools;
    if (!c->ctx->tree || !n) return 0;
    if (n > c->max_pages * PAGE_TOKENS) n = c->max_pages * PAGE_TOKENS;
    PrefixHit hit = prefix_find(c->ctx->tree, key, tokens, n);
    if (!hit.n_tokens) return 0;
    c->n_tokens = hit.n_tokens;
    c->n_pages = (uint32_t)pages_for(hit.n_tokens);
    bool ok = true;
    for (uint32_t g = 0; g < pools->n_groups; g++) {
        if (is_cross(c, g)) continue;
        uint32_t first = cachepools_first_read(pools, g, hit.n_tokens) / PAGE_TOKENS;
        prefix_pages(&hit, g, c->pages[g]);
        for (uint32_t i = 0; i < c->n_pages; i++) {
            if (i < first) c->pages[g][i] = PAGE_NONE;
            if (c->pages[g][i] != PAGE_NONE) pagepool_ref(&pools->pages[g], c->pages[g][i]);
        }
    }
    if (pools->recurrent) adopt_state(c, &hit);
    for (uint32_t g = 0; g < pools->n_groups && hit.n_tokens % PAGE_TOKENS; g++)
        ok = copy_partial(c, g) && ok;
    if (ok) return c->n_tokens;
    /* Nothing to be had for the page that would be written on: stop before it if that is possible,
     * else begin anew. */
    return seqcache_trim(c, pools->recurrent ? 0 : hit.n_tokens / PAGE_TOKENS * PAGE_TOKENS);
}

/* Whether every window that the row at slot n reads is still held. */
static bool windows_held(const SeqCache *c, uint32_t n) {
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++) {
        uint32_t first = cachepools_first_read(&c->ctx->pools, g, n) / PAGE_TOKENS;
        for (uint32_t i = first; !is_cross(c, g) && i < pages_for(n); i++)
            if (c->pages[g][i] == PAGE_NONE) return false;
    }
    return true;
}

/* Pages that no row from c->n_tokens - CACHE_TRIM_TOKENS on will read. */
static void windows_release(SeqCache *c) {
    uint32_t next = c->n_tokens > CACHE_TRIM_TOKENS ? c->n_tokens - CACHE_TRIM_TOKENS : 0;
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++) {
        if (is_cross(c, g)) continue;
        uint32_t first = cachepools_first_read(&c->ctx->pools, g, next) / PAGE_TOKENS;
        for (uint32_t i = first; i-- > 0 && c->pages[g][i] != PAGE_NONE;)
            pages_drop(c, g, i, i + 1);
    }
}

/* The page that the next row goes into must be ours alone. */
static bool unshare_last(SeqCache *c) {
    if (c->n_tokens % PAGE_TOKENS == 0) return true;
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++)
        if (!copy_partial(c, g)) return false;
    return true;
}

/* Pages [from, to) of all groups that grow. */
static void pages_cut(SeqCache *c, uint32_t from, uint32_t to) {
    for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++)
        if (!is_cross(c, g)) pages_drop(c, g, from, to);
}

static bool grow(SeqCache *c, uint32_t want) {
    for (; c->n_pages < want; c->n_pages++) {
        bool ok = true;
        for (uint32_t g = 0; g < c->ctx->pools.n_groups; g++) {
            if (is_cross(c, g)) continue;
            c->pages[g][c->n_pages] = ok ? page_take(c->ctx, g) : PAGE_NONE;
            ok = ok && c->pages[g][c->n_pages] != PAGE_NONE;
        }
        if (ok) continue;
        pages_cut(c, c->n_pages, c->n_pages + 1);
        return false;
    }
    return true;
}

bool seqcache_extend(SeqCache *c, uint32_t n, Err *err) {
    uint32_t want = (uint32_t)pages_for(c->n_tokens + n), had = c->n_pages;
    if (want > c->max_pages)
        return err_set(err, ERR_LIMIT, "%u tokens where the context holds %u", c->n_tokens + n,
                       c->max_pages * PAGE_TOKENS);
    if (c->ctx->pools.recurrent && c->state == PAGE_NONE &&
        (c->state = state_take(c->ctx)) == PAGE_NONE)
        return err_set(err, ERR_BUSY, "all %u recurrent states are in use",
                       c->ctx->pools.states.n_pages);
    windows_release(c);
    if (!unshare_last(c) || !grow(c, want)) {
        pages_cut(c, had, c->n_pages);
        c->n_pages = had;
        return err_set(err, ERR_BUSY, "all cache pages are in use");
    }
    if (!c->from_is_due) c->from = PAGE_NONE;
    c->from_is_due = false;
    c->n_tokens += n;
    return true;
}

uint32_t seqcache_mark(SeqCache *c, uint32_t n_tokens) {
    if (!c->ctx->pools.recurrent) return STEP_NO_MARK;
    uint32_t slot = state_take(c->ctx);
    if (slot == PAGE_NONE) return STEP_NO_MARK;
    if (c->n_marks == CACHE_MAX_MARKS) { /* the oldest that no step reads */
        uint32_t i = c->marks[0].slot == c->from;
        pagepool_unref(&c->ctx->pools.states, c->marks[i].slot);
        for (c->n_marks--; i < c->n_marks; i++) c->marks[i] = c->marks[i + 1];
    }
    c->marks[c->n_marks++] = (StateMark){n_tokens, slot};
    return slot;
}

uint32_t seqcache_trim(SeqCache *c, uint32_t n_tokens) {
    uint32_t n = n_tokens < c->n_tokens ? n_tokens : c->n_tokens;
    bool cut = n < c->n_tokens;
    marks_cut(c, n);
    if (c->ctx->pools.recurrent && cut) {
        while (c->n_marks && !windows_held(c, c->marks[c->n_marks - 1].n_tokens))
            marks_cut(c, c->marks[c->n_marks - 1].n_tokens - 1);
        n = c->n_marks ? c->marks[c->n_marks - 1].n_tokens : 0;
        c->from = c->n_marks ? c->marks[c->n_marks - 1].slot : PAGE_NONE;
        c->from_is_due = c->n_marks > 0;
    } else if (cut && !windows_held(c, n)) {
        n = 0;
    }
    uint32_t keep = (uint32_t)pages_for(n);
    pages_cut(c, keep, c->n_pages);
    if (keep < c->n_pages) c->n_pages = keep;
    return c->n_tokens = n;
}

void seqcache_store(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n, bool whole) {
    if (!c->ctx->tree || n > c->n_tokens) return;
    StateMark marks[CACHE_MAX_MARKS + 1];
    uint32_t n_marks = 0;
    for (uint32_t i = 0; i < c->n_marks && c->marks[i].n_tokens <= n; i++)
        marks[n_marks++] = c->marks[i];
    if (whole && n == c->n_tokens && c->state != PAGE_NONE && !c->from_is_due &&
        (!n_marks || marks[n_marks - 1].n_tokens < n))
        marks[n_marks++] = (StateMark){n, c->state};
    prefix_store(c->ctx->tree, key, tokens, n, c->pages, marks, n_marks);
}
