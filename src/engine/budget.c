#include "engine/budget.h"

#include <stdio.h>

#include "base/os.h"
#include "engine/cross.h"
#include "engine/loader.h"

/* LATER: what comes when a model runs: kernels' code, stacks. SLACK_SHARE: of the weights, what whole
 * pages waste. PROCESS_MAX: a process that had more than this before has other models in it.
 * KEPT_STATE_TOKENS: of stored prefixes, per state. */
enum {
    LATER_BYTES = 1 << 20,
    SLACK_SHARE = 64,
    PROCESS_MAX_BYTES = 16 << 20,
    MIN_CTX = 512,
    DYNAMIC_CTX = 32768,
    MAX_KEPT_STATES = 32,
    KEPT_STATE_TOKENS = 1024
};

static const uint64_t KEPT_STATE_BYTES = (uint64_t)128 << 20;

uint64_t budget_other_bytes(const Model *m, uint64_t later_bytes) {
    uint64_t window = loader_bytes(m);
    uint64_t process = m->process_bytes < PROCESS_MAX_BYTES ? m->process_bytes : PROCESS_MAX_BYTES;
    return process + m->open_bytes + LATER_BYTES + m->weight_bytes / SLACK_SHARE +
           (window > later_bytes ? window - later_bytes : 0);
}

/* Pages of a group: for all tokens, each sequence with a page begun and one copied; for windows what
 * the sequences hold at most, and as much again for stored prefixes. */
static uint64_t group_pages(const ProgGroup *g, const Model *m, const BudgetAsk *ask,
                            uint64_t n_ctx) {
    uint64_t all = pages_for(n_ctx) + ask->n_seqs;
    if (g->keep == KEEP_ALL) return all;
    if (g->keep == KEEP_CROSS) return pages_for(m->arch.cross_rows) * ask->n_seqs;
    uint64_t each = pages_for((uint64_t)g->span + ask->max_rows + CACHE_TRIM_TOKENS) + 2,
             some = 2 * each * ask->n_seqs + 16;
    return some < all ? some : all;
}

/* One state a sequence, and slots for what the prefix cache keeps: as many as prefixes of n_ctx
 * tokens have use for, within bounds. */
static uint32_t state_slots(uint64_t state, uint32_t n_seqs, uint64_t n_ctx) {
    if (!state) return 0;
    uint64_t kept = n_seqs + n_ctx / KEPT_STATE_TOKENS, room = KEPT_STATE_BYTES / state,
             least = 2 * (uint64_t)n_seqs;
    if (kept > room) kept = room;
    if (kept > MAX_KEPT_STATES) kept = MAX_KEPT_STATES;
    return n_seqs + (uint32_t)(kept < least ? least : kept);
}

static bool fill(const Model *m, const BudgetAsk *ask, uint64_t n_ctx, Budget *b, Err *err) {
    const Program *p = m->arch.text;
    b->n_ctx = n_ctx;
    b->planes = (PlanesAsk){.k = ask->k, .v = ask->v};
    b->kv_bytes = b->kv_bytes_per_token = 0;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        uint64_t page = m->be->api->page_bytes(m->be, p, g, ask->k, ask->v),
                 n = group_pages(&p->groups[g], m, ask, n_ctx);
        if (n >= UINT32_MAX || (page && n > UINT64_MAX / 16 / page))
            return err_set(err, ERR_LIMIT, "a context of %llu tokens is too large",
                           (unsigned long long)n_ctx);
        b->planes.n_pages[g] = (uint32_t)n;
        b->kv_bytes += n * page;
        if (p->groups[g].keep == KEEP_ALL) b->kv_bytes_per_token += page / PAGE_TOKENS;
    }
    uint64_t state = m->be->api->state_bytes(m->be, p);
    b->planes.n_states = state_slots(state, ask->n_seqs, n_ctx);
    b->state_bytes = state * b->planes.n_states;
    b->other_bytes = budget_other_bytes(m, b->kv_bytes + b->state_bytes + b->scratch_bytes);
    b->total_bytes =
        b->weight_bytes + b->kv_bytes + b->state_bytes + b->scratch_bytes + b->other_bytes;
    return true;
}

bool budget_make(const Model *m, const BudgetAsk *ask, Budget *b, Err *err) {
    *b = (Budget){.weight_bytes = m->weight_bytes};
    const ExecLimits limits = {ask->max_rows, ask->n_logits, ask->n_seqs};
    b->scratch_bytes =
        m->be->api->exec_bytes(m->be, m->arch.text, &limits) +
        (uint64_t)m->arch.vocab * 8 * sizeof(float); /* logits and the sampler's lists */
    b->scratch_bytes += tower_bytes(m) + cross_bytes(m);
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
    char state[48] = "";
    if (b->state_bytes)
        snprintf(state, sizeof state, "recurrent state %.2f, ", gib(b->state_bytes));
    return err_set(err, ERR_LIMIT,
                   "needs %.2f GiB (weights %.2f, cache of %llu tokens %.2f, %sscratch %.2f) where "
                   "%.2f GiB are available; a smaller --ctx-size or --force are accepted",
                   gib(b->total_bytes), gib(b->weight_bytes), (unsigned long long)b->n_ctx,
                   gib(b->kv_bytes), state, gib(b->scratch_bytes), gib(b->available_bytes));
}
