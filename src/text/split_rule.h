/* split_rule.h: hand-written equivalents of the regular expressions that vocabularies are
 * published with, recognised by their exact text. A rule gives the match that begins at a
 * position, if one does; all of them are tested against Oniguruma. */
#ifndef MLXCEL_TEXT_SPLIT_RULE_H
#define MLXCEL_TEXT_SPLIT_RULE_H

#include "base/str.h"

typedef struct SplitRule SplitRule;

const SplitRule *splitrule_find(Str pattern); /* NULL if the pattern is not a known one */
const SplitRule *splitrule_gpt2(void);
/* End of the match that begins at `at` in valid UTF-8 text, or 0 if none does; at < s.n. Matches
 * are never empty. */
size_t splitrule_match(const SplitRule *r, Str s, size_t at);
size_t splitrule_count(void); /* for tests: the known patterns */
Str splitrule_pattern(size_t i);

#endif
