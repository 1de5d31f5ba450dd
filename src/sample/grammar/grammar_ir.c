#include "sample/grammar/grammar_ir.h"

#include <string.h>

/* Plain characters as ranges: everything from U+0020 but the quote, the backslash and U+007F (see
 * grammar_vocab.h). */
static const CpRange plain_ranges[] = {
    {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, 0xD7FF}, {0xE000, SET_MAX_CP}};

/* The smallest `plain` over all successors on plain characters; -1 if some plain character is
 * dead. */
static int plain_successors(const Dfa *d, uint32_t q, const uint8_t *plain, const uint8_t *alive) {
    int least = IR_PLAIN_MAX;
    uint32_t e = d->edge_at[q], end = d->edge_at[q + 1];
    for (size_t r = 0; r < sizeof plain_ranges / sizeof plain_ranges[0]; r++) {
        uint32_t need = plain_ranges[r].lo;
        while (e < end && d->edges[e].hi < need) e++;
        for (uint32_t i = e; need <= plain_ranges[r].hi; i++) {
            if (i >= end || d->edges[i].lo > need) return -1;
            uint32_t to = d->edges[i].to;
            if (alive && !alive[to]) return -1;
            if (plain[to] < least) least = plain[to];
            need = d->edges[i].hi + 1;
            if (need == 0xD800) need = 0xE000;
        }
    }
    return least;
}

bool ir_lexer_analyze(GrammarWork *w, IrLexer *lexer, const uint8_t *alive) {
    const Dfa *d = lexer->dfa;
    lexer->plain = work_array(w, uint8_t, d->n);
    if (!lexer->plain) return false;
    memset(lexer->plain, IR_PLAIN_MAX, d->n);
    /* Greatest fixpoint from above. Values only fall; a state off the fixpoint falls at least one
     * per sweep. */
    for (bool again = true; again;) {
        again = false;
        if (!work_spend(w, d->n + (d->n ? d->edge_at[d->n] : 0))) return false;
        for (uint32_t q = d->n; q-- > 0;) {
            int least = plain_successors(d, q, lexer->plain, alive);
            uint8_t now = (uint8_t)(least < 0               ? 0
                                    : least >= IR_PLAIN_MAX ? IR_PLAIN_MAX
                                                            : least + 1);
            if (now < lexer->plain[q]) {
                lexer->plain[q] = now;
                again = true;
            }
        }
    }
    return true;
}

const IrElement *ir_array_element(const IrArray *a, const IrArrayState *s) {
    return &a->elements[s->index < a->n_prefix ? s->index : a->n_prefix];
}

bool ir_array_may_close(const IrArray *a, const IrArrayState *s) {
    if (s->index < a->min) return false;
    for (uint32_t c = 0; c < a->n_contains; c++)
        if (s->counts[c] < a->contains[c].min) return false;
    return true;
}

bool ir_array_advance(const IrArray *a, const IrArrayState *s, uint32_t choice, IrArrayState *out) {
    *out = *s;
    if (s->index >= a->max || ir_array_element(a, s)->goals[choice] == IR_NONE) return false;
    for (uint32_t c = 0; c < a->n_contains; c++) {
        const IrContains *k = &a->contains[c];
        bool counted = choice >> c & 1;
        if (s->index < k->from) {
            if (counted) return false;
            continue;
        }
        if (!counted) continue;
        if (out->counts[c] >= k->max) return false;
        uint32_t enough = k->max == IR_UNBOUNDED ? k->min : k->max;
        if (out->counts[c] < enough) out->counts[c]++;
    }
    if (out->index < a->clip) out->index++;
    return true;
}

/* Counts stop mattering at this value. */
static uint32_t contains_top(const IrContains *k) {
    return k->max == IR_UNBOUNDED ? k->min : k->max;
}

static size_t array_slot(const IrArray *a, const IrArrayState *s) {
    size_t at = s->index;
    for (uint32_t c = 0; c < a->n_contains; c++)
        at = at * (contains_top(&a->contains[c]) + 1) + s->counts[c];
    return at;
}

bool ir_array_can_finish(const IrArray *a, const IrArrayState *s) {
    if (!a->n_contains) return s->index <= a->max; /* max was cut to what the elements allow */
    return a->finish[array_slot(a, s)] != 0;
}

enum { ARRAY_MAX_SLOTS = 200000 };

static void slot_decode(const IrArray *a, size_t at, IrArrayState *s) {
    *s = (IrArrayState){0};
    for (uint32_t c = a->n_contains; c-- > 0;) {
        uint32_t n = contains_top(&a->contains[c]) + 1;
        s->counts[c] = (uint32_t)(at % n);
        at /= n;
    }
    s->index = (uint32_t)at;
}

bool ir_array_prepare(GrammarWork *w, IrArray *a) {
    a->clip = a->n_prefix > a->min ? a->n_prefix : a->min;
    if (a->max != IR_UNBOUNDED && a->max > a->clip) a->clip = a->max;
    if (!a->n_contains) return true;
    size_t n = (size_t)a->clip + 1;
    for (uint32_t c = 0; c < a->n_contains; c++) {
        n *= (size_t)contains_top(&a->contains[c]) + 1;
        if (n > ARRAY_MAX_SLOTS || a->clip > ARRAY_MAX_SLOTS)
            return work_fail(
                w, ERR_LIMIT,
                "contains with counts this large (more than %d states) cannot be enforced",
                ARRAY_MAX_SLOTS);
    }
    a->finish = work_array(w, uint8_t, n);
    if (!a->finish || !work_spend(w, n << a->n_contains)) return false;
    /* index and counts never fall, so descending order sees every successor first */
    for (size_t at = n; at-- > 0;) {
        IrArrayState s, next;
        slot_decode(a, at, &s);
        a->finish[at] = ir_array_may_close(a, &s);
        for (uint32_t choice = 0; choice < 1u << a->n_contains && !a->finish[at]; choice++)
            if (ir_array_advance(a, &s, choice, &next))
                a->finish[at] = a->finish[array_slot(a, &next)];
    }
    return true;
}
