/* regex_classes.h: rewrites a regular expression so that \p{L}, \w, \d and the like are our own
 * tables' sets, spelled out: what a pattern matches must not depend on the Unicode version of
 * the host's Oniguruma. */
#ifndef MLXCEL_TEXT_REGEX_CLASSES_H
#define MLXCEL_TEXT_REGEX_CLASSES_H

#include "base/buf.h"

/* Appends the rewritten pattern, or the pattern as it is where spelling sets out could change
 * its meaning: under (?i), where Oniguruma folds sets but not properties. */
void regexclasses_put(Str pattern, Buf *out);

#endif
