/* grammar_set.h: sets of code points as sorted, disjoint ranges. Surrogates are never members.
 * Numbers above U+10FFFF stand for whole tokens (SET_TOKEN_BASE + id), which lets token references
 * of GBNF travel through the same automata. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_SET_H
#define MLXCEL_SAMPLE_GRAMMAR_SET_H

#include "sample/grammar/grammar_work.h"

enum { SET_MAX_CP = 0x10FFFF, SET_TOKEN_BASE = 0x110000, SET_TOKEN_MAX = 0x2FFFFFFF };

typedef struct CpRange {
    uint32_t lo, hi; /* inclusive */
} CpRange;

typedef struct CpSet {
    CpRange *r; /* in the work arena */
    uint32_t n, cap;
} CpSet;

bool cpset_add(GrammarWork *w, CpSet *s, uint32_t lo, uint32_t hi);
bool cpset_add_set(GrammarWork *w, CpSet *s, const CpSet *other);
bool cpset_add_property(GrammarWork *w, CpSet *s, Str name,
                        bool *known);           /* \p{name} by our Unicode tables */
bool cpset_normalize(GrammarWork *w, CpSet *s); /* sort, merge, drop surrogates */
bool cpset_negate(GrammarWork *w, const CpSet *s,
                  CpSet *out); /* over all scalar values; s normalized */

#endif
