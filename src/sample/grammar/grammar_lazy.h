/* grammar_lazy.h: watches an output for the trigger that makes a lazy grammar active. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_LAZY_H
#define MLXCEL_SAMPLE_GRAMMAR_LAZY_H

#include "base/buf.h"
#include "sample/grammar/grammar.h"
#include "sample/grammar/grammar_regex.h"

typedef struct LazyTrigger {
    GrammarTriggerKind kind;
    Str text;
    uint32_t token;
    Dfa *find;          /* PATTERN: anything, then the pattern; PATTERN_FULL: the pattern */
    Dfa *before, *rest; /* the pattern cut at its first group; before NULL without one */
    bool anchored;      /* the pattern begins with ^ */
} LazyTrigger;

typedef struct LazyRules { /* shared by a state and its clones */
    Arena arena;
    LazyTrigger *triggers;
    size_t n, n_refs;
    uint32_t *risky; /* tokens that may complete a trigger and then go on */
    uint32_t n_risky, cap_risky;
} LazyRules;

LazyRules *lazy_rules_new(const GrammarLazy *lazy, const GrammarVocab *vocab,
                          Err *err); /* vocab may be NULL */
void lazy_rules_release(LazyRules *r);

/* Looks for a trigger that ends in text[seen..]; *at is where the grammar begins, STR_NPOS if none
 * is there. The earliest end wins. seen: bytes of text that were looked at before. */
bool lazy_rules_find(const LazyRules *r, Str text, size_t seen, size_t *at, Err *err) MUST_CHECK;
const LazyTrigger *lazy_rules_token(const LazyRules *r,
                                    uint32_t token); /* NULL if the token triggers nothing */

#endif
