/* grammar_re.h: the syntax tree shared by regular expressions and GBNF rules, and its compilation
 * to a Dfa.
 *
 * Trees are built bottom-up in the work arena by the two parsers (grammar_regex.c, grammar_gbnf.c).
 * re_compile() lays the tree out as an NFA (Thompson 1968) and determinizes it. Zero-width
 * assertions (^ $ \b \B) are resolved during determinization: a subset remembers what kind of
 * character came before, and each of its transitions knows what comes next. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_RE_H
#define MLXCEL_SAMPLE_GRAMMAR_RE_H

#include "sample/grammar/grammar_dfa.h"

#define RE_INFINITE UINT32_MAX

typedef enum ReKind { RE_EMPTY, RE_SET, RE_CAT, RE_ALT, RE_REPEAT, RE_CALL, RE_ASSERT } ReKind;
typedef enum ReAssert { RE_BEGIN, RE_END, RE_WORD_EDGE, RE_NOT_WORD_EDGE } ReAssert;

typedef struct Re {
    ReKind kind;
    CpSet set;        /* RE_SET, normalized */
    struct Re **kids; /* RE_CAT, RE_ALT: n of them; RE_REPEAT: one */
    uint32_t n, cap;
    uint32_t min, max;  /* RE_REPEAT */
    uint32_t rule;      /* RE_CALL */
    ReAssert assertion; /* RE_ASSERT */
    bool group;         /* a capturing group's body */
} Re;

Re *re_new(GrammarWork *w, ReKind kind);
bool re_add(GrammarWork *w, Re *parent, Re *kid);
Re *re_set(GrammarWork *w, uint32_t lo, uint32_t hi);
Re *re_repeat(GrammarWork *w, Re *kid, uint32_t min, uint32_t max);

Dfa *re_compile(GrammarWork *w, const Re *re); /* whole strings: anchored at both ends */

#endif
