/* budget.h: what a model will take before anything large is allocated (promise P5): packed weights,
 * KV pages, scratch. */
#ifndef MLXCEL_ENGINE_BUDGET_H
#define MLXCEL_ENGINE_BUDGET_H

#include "engine/model.h"

typedef struct BudgetAsk {
    /* tokens of the cache in all; 0: the model's context, as far as memory goes */
    uint64_t n_ctx;
    uint32_t n_seqs; /* sequences at once */
    uint32_t max_rows, max_out;
    uint32_t n_logits; /* rows of logits that a step will fill, at most max_out */
    PlaneType k, v;
} BudgetAsk;

typedef struct Budget {
    /* state: of recurrent layers; other: tokenizer, tables, the process */
    uint64_t weight_bytes, kv_bytes, state_bytes, scratch_bytes, other_bytes, total_bytes;
    uint64_t available_bytes;    /* now */
    uint64_t n_ctx;              /* resolved */
    PlanesAsk planes;            /* pages per group, states */
    uint64_t kv_bytes_per_token; /* of planes that keep all */
} Budget;

/* Resolves n_ctx (with 0: shrinks it until it fits, not below 512) and fills the table. */
bool budget_make(const Model *m, const BudgetAsk *ask, Budget *out, Err *err) MUST_CHECK;
/* Beside weights, caches and scratch: code, stacks, tables, tokenizer, and what loading takes beyond
 * later_bytes, the caches and scratch that are only there when it is over. */
uint64_t budget_other_bytes(const Model *m, uint64_t later_bytes);
/* ERR_LIMIT with the numbers when total exceeds what is available. */
bool budget_check(const Budget *b, Err *err) MUST_CHECK;

#endif
