/* grammar_regex.h: regular expressions of ECMA-262 (the dialect of JSON Schema's `pattern`) to
 * automata.
 *
 * Enforced: literals, classes, . \d \w \s and their negations, \p{..} by general category, groups,
 * alternation, greedy and lazy quantifiers (the same language), ^ $ \b \B, and lookaheads that
 * stand at the front of an alternative. Refused by name: back references, lookbehind, other
 * lookaheads, inline flags. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_REGEX_H
#define MLXCEL_SAMPLE_GRAMMAR_REGEX_H

#include "sample/grammar/grammar_re.h"

typedef enum RegexMode {
    REGEX_WHOLE,  /* the whole string has to match */
    REGEX_SEARCH, /* a match anywhere will do, as in JSON Schema */
    REGEX_PREFIX, /* a match at the front will do */
    REGEX_SUFFIX, /* a match at the end will do */
} RegexMode;

/* NULL after setting w->err: ERR_INPUT (not a regex) or ERR_UNSUPPORTED (names the construct and
 * its place). */
Dfa *regex_dfa(GrammarWork *w, Str pattern, RegexMode mode);

/* For triggers: the pattern cut in front of its first capturing group, both parts as whole-string
 * automata; *before is NULL if there is no group at the top level, *rest then is the whole
 * pattern. */
bool regex_cut_at_group(GrammarWork *w, Str pattern, Dfa **before, Dfa **rest) MUST_CHECK;

#endif
