#include "op/step.h"

static size_t align8(size_t n) { return (n + 7) & ~(size_t)7; }

size_t step_bytes(uint32_t n_rows, uint32_t n_out, uint32_t n_seqs, uint32_t n_pages) {
    return align8(sizeof(Step)) + align8((size_t)n_rows * sizeof(StepRow)) +
           align8((size_t)n_out * sizeof(uint32_t)) + align8((size_t)n_seqs * sizeof(StepSeq)) +
           align8((size_t)n_pages * sizeof(uint32_t));
}

void step_layout(Step *out, uint32_t n_rows, uint32_t n_out, uint32_t n_seqs, uint32_t n_pages) {
    *out = (Step){.n_rows = n_rows, .n_out = n_out, .n_seqs = n_seqs, .n_pages = n_pages};
    size_t at = align8(sizeof(Step));
    out->rows_at = (uint32_t)at;
    at += align8((size_t)n_rows * sizeof(StepRow));
    out->out_at = (uint32_t)at;
    at += align8((size_t)n_out * sizeof(uint32_t));
    out->seqs_at = (uint32_t)at;
    at += align8((size_t)n_seqs * sizeof(StepSeq));
    out->pages_at = (uint32_t)at;
    out->n_bytes = (uint32_t)(at + align8((size_t)n_pages * sizeof(uint32_t)));
}
