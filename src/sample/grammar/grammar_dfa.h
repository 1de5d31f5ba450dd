/* grammar_dfa.h: deterministic automata over code points, the common currency of this folder.
 * Regexes, GBNF rules, string constraints, numbers and member names all become one. Transitions are
 * sorted ranges; an accepting state carries a label (0 unless several answers are told apart, as
 * for member names). GBNF rules also have call edges to other rules.
 *
 * All automata are trimmed: every state can still reach acceptance, so a walk that is alive can
 * always be completed. Immutable after construction; everything lives in the work arena. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_DFA_H
#define MLXCEL_SAMPLE_GRAMMAR_DFA_H

#include "sample/grammar/grammar_set.h"

#define DFA_DEAD UINT32_MAX

typedef struct DfaEdge {
    uint32_t lo, hi, to;
} DfaEdge;

typedef struct DfaCall {
    uint32_t rule, to;
} DfaCall;

typedef struct Dfa {
    uint32_t n, start; /* n == 0: the empty language */
    uint32_t *edge_at; /* n + 1 */
    DfaEdge *edges;    /* sorted within a state */
    uint32_t *call_at; /* n + 1; NULL without calls */
    DfaCall *calls;
    int32_t *label; /* -1: not accepting */
} Dfa;

/* Builds a Dfa state by state; states are finished in order. */
typedef struct DfaBuilder {
    GrammarWork *w;
    uint32_t n, n_edges, n_calls, cap, cap_edges, cap_calls;
    uint32_t *edge_at, *call_at;
    DfaEdge *edges;
    DfaCall *calls;
    int32_t *label;
} DfaBuilder;

bool dfabuild_edge(DfaBuilder *b, uint32_t lo, uint32_t hi,
                   uint32_t to); /* ascending; adjacent equal targets merge */
bool dfabuild_call(DfaBuilder *b, uint32_t rule, uint32_t to);
bool dfabuild_state(DfaBuilder *b, int32_t label); /* ends the current state */
Dfa *dfabuild_finish(DfaBuilder *b, uint32_t start);

uint32_t dfa_next(const Dfa *d, uint32_t q, uint32_t cp); /* DFA_DEAD if none */
Dfa *dfa_trim(GrammarWork *w, const Dfa *d,
              const bool *rule_live); /* rule_live NULL: calls count as live */
bool dfa_is_productive(GrammarWork *w, const Dfa *d,
                       const bool *rule_live); /* can it finish, given those rules can */
Dfa *dfa_minimize(GrammarWork *w, const Dfa *d);
Dfa *dfa_empty(GrammarWork *w);
Dfa *dfa_any(GrammarWork *w);                                /* every string */
Dfa *dfa_length(GrammarWork *w, uint64_t min, uint64_t max); /* UINT64_MAX: no maximum */
Dfa *dfa_words(GrammarWork *w, const Str *words, size_t n,
               bool rest);                  /* label = index; rest: others get label n */
Dfa *dfa_not(GrammarWork *w, const Dfa *d); /* label 0; calls not allowed */
Dfa *dfa_and(GrammarWork *w, const Dfa *a, const Dfa *b); /* label of a */
Dfa *dfa_or(GrammarWork *w, const Dfa *a, const Dfa *b);  /* label 0 */
bool dfa_is_finite(GrammarWork *w, const Dfa *d);
bool dfa_matches(const Dfa *d, Str utf8);

/* Product that keeps both answers: each reached pair (label of a, is in b) gets a label of its own.
 * pairs[label] = {a, b}. */
typedef struct DfaPair {
    int32_t a;
    bool in_b;
} DfaPair;
Dfa *dfa_split(GrammarWork *w, const Dfa *a, const Dfa *b, DfaPair **pairs, uint32_t *n_pairs);

#endif
