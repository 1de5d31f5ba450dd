#include "engine/budget.h"

#include "base/os.h"
#include "cache/pages.h"

/* Beside the table: code, tokenizer, allocator slack. */
enum { PROCESS_BYTES = 24 << 20, MIN_CTX = 512, DYNAMIC_CTX = 32768 };

static bool fill(const Model *m, const BudgetAsk *ask, uint64_t n_ctx, Budget *b, Err *err) {
    const Program *p = m->arch.text;
    uint64_t page = m->be->api->page_bytes(m->be, p, ask->k, ask->v),
             n_pages = pages_for(n_ctx) +
                       ask->n_seqs; /* each sequence may have a page begun, and one copied */
    if (n_pages >= UINT32_MAX || (page && n_pages > UINT64_MAX / 2 / page))
        return err_set(err, ERR_LIMIT, "a context of %llu tokens is too large",
                       (unsigned long long)n_ctx);
    b->n_ctx = n_ctx;
    b->n_pages = (uint32_t)n_pages;
    b->kv_bytes = n_pages * page;
    b->kv_bytes_per_token = page / PAGE_TOKENS;
    b->total_bytes = b->weight_bytes + b->kv_bytes + b->scratch_bytes + b->other_bytes;
    return true;
}

bool budget_make(const Model *m, const BudgetAsk *ask, Budget *b, Err *err) {
    *b = (Budget){.weight_bytes = m->weight_bytes, .other_bytes = PROCESS_BYTES};
    b->scratch_bytes =
        m->be->api->exec_bytes(m->be, m->arch.text, ask->max_rows, ask->max_out) +
        (uint64_t)m->arch.vocab * 8 * sizeof(float); /* logits and the sampler's lists */
    b->available_bytes = os_memory_available_bytes();
    uint64_t n_ctx = ask->n_ctx ? ask->n_ctx : m->arch.context ? m->arch.context : DYNAMIC_CTX;
    if (!fill(m, ask, n_ctx, b, err)) return false;
    while (!ask->n_ctx && b->total_bytes > b->available_bytes && n_ctx > MIN_CTX) {
        n_ctx = n_ctx / 2 > MIN_CTX ? n_ctx / 2 : MIN_CTX;
        if (!fill(m, ask, n_ctx, b, err)) return false;
    }
    return true;
}

static double gib(uint64_t bytes) { return (double)bytes / (1 << 30); }

bool budget_check(const Budget *b, Err *err) {
    if (b->total_bytes <= b->available_bytes) return true;
    return err_set(err, ERR_LIMIT,
                   "needs %.2f GiB (weights %.2f, cache of %llu tokens %.2f, scratch %.2f) where "
                   "%.2f GiB are available; a "
                   "smaller --ctx-size or --force are accepted",
                   gib(b->total_bytes), gib(b->weight_bytes), (unsigned long long)b->n_ctx,
                   gib(b->kv_bytes), gib(b->scratch_bytes), gib(b->available_bytes));
}
