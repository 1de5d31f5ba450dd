/* tok_regex.h: regular expressions of tokenizer files, through Oniguruma with its own syntax and
 * UTF-8, as the reference uses it, with a limit on retries so that no pattern can hang. Compiled
 * once; searching is thread-safe.
 *
 *     TokRegex *r;
 *     if (!tokregex_new(pattern, &r, err)) ...
 *     TokMatches m;
 *     tokmatches_begin(&m, r, text);
 *     while ((got = tokmatches_next(&m, &from, &to, err)) > 0) ...   1 found, 0 no more, -1 error
 *     tokmatches_end(&m); */
#ifndef MLXCEL_TEXT_TOK_REGEX_H
#define MLXCEL_TEXT_TOK_REGEX_H

#include "base/err.h"
#include "base/str.h"

typedef struct TokRegex TokRegex;

typedef struct TokMatches {
    const TokRegex *regex;
    Str text;
    size_t at;            /* where the next search starts */
    size_t last_end;      /* of the last match, or SIZE_MAX */
    void *region, *param; /* Oniguruma's */
} TokMatches;

bool tokregex_new(Str pattern, TokRegex **out, Err *err) MUST_CHECK;
void tokregex_free(TokRegex *r);
void tokmatches_begin(TokMatches *m, const TokRegex *r, Str text);
/* Matches from left to right; an empty match directly after the last match is passed over. */
int tokmatches_next(TokMatches *m, size_t *from, size_t *to, Err *err);
void tokmatches_end(TokMatches *m);

#endif
