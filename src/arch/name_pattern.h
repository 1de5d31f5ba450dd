/* name_pattern.h: the regular expressions in quantization configs ("re:.*self_attn\\.(q|k)_proj$"),
 * matched against module names as Python's re.match does: from the start of the name, not
 * necessarily to its end.
 *
 *     if (!namepattern_match(STR("model\\.layers\\.\\d+\\.mlp"), module, &yes, err)) return false;
 *
 * Characters, . [...] \d \w \s and their opposites, \b, ^ $, groups, alternatives, (?= (?! (?:, and
 * * + ? {m,n}, lazy ones too. Anything else is ERR_UNSUPPORTED naming the pattern. Work is bounded:
 * ERR_LIMIT. */
#ifndef MLXCEL_ARCH_NAME_PATTERN_H
#define MLXCEL_ARCH_NAME_PATTERN_H

#include "base/err.h"
#include "base/str.h"

bool namepattern_match(Str pattern, Str name, bool *matched, Err *err) MUST_CHECK;

#endif
