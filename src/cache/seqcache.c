#include "cache/seqcache.h"

#include "base/mem.h"

bool seqcache_init(SeqCache *c, CacheContext *ctx, uint32_t max_tokens, Err *err) {
    *c = (SeqCache){.ctx = ctx, .max_pages = (uint32_t)pages_for(max_tokens)};
    c->pages = mem_calloc(c->max_pages, sizeof *c->pages);
    return c->pages || err_nomem(err, "page table");
}

void seqcache_deinit(SeqCache *c) {
    seqcache_trim(c, 0);
    mem_free(c->pages);
    *c = (SeqCache){0};
}

static uint32_t page_take(CacheContext *ctx) {
    uint32_t page = pagepool_take(&ctx->pool);
    if (page == PAGE_NONE && ctx->tree && prefix_evict(ctx->tree, 1))
        page = pagepool_take(&ctx->pool);
    return page;
}

uint32_t seqcache_adopt(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n) {
    if (!c->ctx->tree || !n) return 0;
    if (n > c->max_pages * PAGE_TOKENS) n = c->max_pages * PAGE_TOKENS;
    PrefixHit hit = prefix_find(c->ctx->tree, key, tokens, n, c->pages);
    c->n_pages = hit.n_pages;
    c->n_tokens = hit.n_pages * PAGE_TOKENS;
    if (hit.partial_page == PAGE_NONE) return c->n_tokens;
    /* The partial page must survive an eviction that our own need for a page may cause. */
    pagepool_ref(&c->ctx->pool, hit.partial_page);
    uint32_t page = page_take(c->ctx);
    if (page != PAGE_NONE) {
        c->ctx->api->page_copy(c->ctx->planes, page, hit.partial_page);
        c->pages[c->n_pages++] = page;
        c->n_tokens += hit.partial_tokens;
    }
    pagepool_unref(&c->ctx->pool, hit.partial_page);
    return c->n_tokens;
}

/* The page that the next row goes into must be ours alone. */
static bool unshare_last(SeqCache *c) {
    if (c->n_tokens % PAGE_TOKENS == 0) return true;
    uint32_t *last = &c->pages[c->n_tokens / PAGE_TOKENS];
    if (c->ctx->pool.refs[*last] == 1) return true;
    uint32_t page = page_take(c->ctx);
    if (page == PAGE_NONE) return false;
    c->ctx->api->page_copy(c->ctx->planes, page, *last);
    pagepool_unref(&c->ctx->pool, *last);
    *last = page;
    return true;
}

bool seqcache_extend(SeqCache *c, uint32_t n, Err *err) {
    uint32_t want = (uint32_t)pages_for(c->n_tokens + n), had = c->n_pages;
    if (want > c->max_pages)
        return err_set(err, ERR_LIMIT, "%u tokens where the context holds %u", c->n_tokens + n,
                       c->max_pages * PAGE_TOKENS);
    bool ok = unshare_last(c);
    while (ok && c->n_pages < want) {
        uint32_t page = page_take(c->ctx);
        if (page == PAGE_NONE)
            ok = false;
        else
            c->pages[c->n_pages++] = page;
    }
    if (ok) {
        c->n_tokens += n;
        return true;
    }
    while (c->n_pages > had) pagepool_unref(&c->ctx->pool, c->pages[--c->n_pages]);
    return err_set(err, ERR_BUSY, "all %u cache pages are in use", c->ctx->pool.n_pages);
}

void seqcache_trim(SeqCache *c, uint32_t n_tokens) {
    if (n_tokens < c->n_tokens) c->n_tokens = n_tokens;
    uint32_t keep = (uint32_t)pages_for(c->n_tokens);
    while (c->n_pages > keep) pagepool_unref(&c->ctx->pool, c->pages[--c->n_pages]);
}

void seqcache_store(SeqCache *c, uint64_t key, const uint32_t *tokens, uint32_t n) {
    if (c->ctx->tree && n <= c->n_tokens) prefix_store(c->ctx->tree, key, tokens, n, c->pages);
}
