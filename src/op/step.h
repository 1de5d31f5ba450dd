/* step.h: what one run of a program works on. A Step is flat bytes: a header and arrays found by
 * offset, no pointers, so it can be copied, sent and stored. The engine fills it; backends read it.
 *
 * A row is one token (or media row) of one sequence. Where it goes in the cache (slot), its rope
 * coordinates (pos) and what it sees (keys lo..hi of its own sequence) are three different things.
 * Rows of one sequence are contiguous and in slot order. */
#ifndef MLXCEL_OP_STEP_H
#define MLXCEL_OP_STEP_H

#include <stddef.h>
#include <stdint.h>

enum { PAGE_TOKENS = 64 };
#define STEP_MEDIA_BIT 0x80000000u /* in source: a row of the media buffer, else a token id */
#define STEP_NO_ADAPTER (-1)
#define STEP_NO_MARK UINT32_MAX
#define STEP_NO_PAGE UINT32_MAX

typedef struct StepRow {
    uint32_t seq;    /* index into the step's sequences */
    uint32_t slot;   /* place in the sequence's planes, counted in tokens */
    int32_t pos[4];  /* rope coordinates; text uses pos[0] */
    uint32_t lo, hi; /* keys it may see: slots lo <= j < hi */
    uint32_t source; /* token id, or STEP_MEDIA_BIT | media row */
    int32_t adapter;
    uint32_t mark; /* state slot that keeps the sequence's state after this row; STEP_NO_MARK */
} StepRow;

typedef struct StepSeq {
    uint32_t first_row, n_rows;
    /* its slice of the page table, for each plane group in turn n_pages entries (STEP_NO_PAGE:
     * given back, never read): page of slot s = pages[first_page + group * n_pages + s / PAGE_TOKENS] */
    uint32_t first_page, n_pages;
    uint32_t length_class; /* rope.h */
    /* Slots of its recurrent state: read from one before its first row (all zero if that row is
     * slot 0), left in the other after its last. They may be the same. */
    uint32_t state_from, state_to;
    uint32_t n_cross; /* rows in its cross planes */
} StepSeq;

typedef struct Step {
    uint32_t n_bytes; /* of the whole step */
    uint32_t n_rows, n_out, n_seqs, n_pages;
    uint32_t rows_at, out_at, seqs_at, pages_at; /* byte offsets from the Step itself */
} Step;

static inline StepRow *step_rows(const Step *s) { return (StepRow *)((uintptr_t)s + s->rows_at); }
/* ascending */
static inline uint32_t *step_out_rows(const Step *s) {
    return (uint32_t *)((uintptr_t)s + s->out_at);
}
static inline StepSeq *step_seqs(const Step *s) { return (StepSeq *)((uintptr_t)s + s->seqs_at); }
static inline uint32_t *step_pages(const Step *s) {
    return (uint32_t *)((uintptr_t)s + s->pages_at);
}

static inline uint32_t step_page(const Step *s, const StepSeq *seq, uint32_t group, uint32_t slot) {
    return step_pages(s)[seq->first_page + group * seq->n_pages + slot / PAGE_TOKENS];
}

/* Bytes of a step with these counts, and its layout in `out` (8-byte aligned, that many bytes). */
size_t step_bytes(uint32_t n_rows, uint32_t n_out, uint32_t n_seqs, uint32_t n_pages);
void step_layout(Step *out, uint32_t n_rows, uint32_t n_out, uint32_t n_seqs, uint32_t n_pages);

#endif
