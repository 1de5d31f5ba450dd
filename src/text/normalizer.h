/* normalizer.h: rewrites a text before it is cut into pieces. A Normalizer is a flat list of
 * steps (nested Sequences are unrolled) that are applied in order. */
#ifndef MLXCEL_TEXT_NORMALIZER_H
#define MLXCEL_TEXT_NORMALIZER_H

#include "base/unicode.h"
#include "json/json.h"
#include "text/charsmap.h"
#include "text/tok_regex.h"
#include "text/trie.h"

typedef enum NormKind {
    NORM_UNICODE,
    NORM_LOWERCASE,
    NORM_STRIP,
    NORM_STRIP_ACCENTS,
    NORM_BERT,
    NORM_PRECOMPILED,
    NORM_REPLACE,
    NORM_PREPEND,
    NORM_NMT,
    NORM_BYTE_LEVEL,
    NORM_SENTENCEPIECE
} NormKind;

typedef struct NormStep {
    NormKind kind;
    UnicodeForm form;                              /* UNICODE */
    bool left, right;                              /* STRIP */
    bool clean, chinese, strip_accents, lowercase; /* BERT */
    Charsmap map;                                  /* PRECOMPILED */
    Str text;                                      /* REPLACE: literal pattern; PREPEND */
    Str content;                                   /* REPLACE */
    bool dummy_prefix, squeeze, escape,
        as_suffix; /* SENTENCEPIECE: blank in front, extra blanks removed, blanks as U+2581,
                                                    * blank behind instead of in front */
    bool
        prefix_first; /* SENTENCEPIECE: dummy_prefix only where the text starts, not behind tokens */
    const Trie *kept; /* SENTENCEPIECE: user-defined pieces, which stay as they are; may be NULL */
    TokRegex *regex;  /* REPLACE by a regular expression */
} NormStep;

typedef struct Normalizer {
    NormStep *steps;
    size_t n, cap;
} Normalizer;

/* j is the "normalizer" value (null: none). Strings are copied into the arena. */
bool normalizer_load(Normalizer *nz, const Json *j, Arena *a, Err *err) MUST_CHECK;
bool normalizer_push(Normalizer *nz, NormStep step, Err *err) MUST_CHECK;
/* The new text is a view of text or of one of the two buffers, which take turns. *moved: the
 * first character left is not the first of text any more. starts: nothing stands before text. */
bool normalizer_run(const Normalizer *nz, Str text, bool starts, Buf work[2], Str *out, bool *moved,
                    Err *err) MUST_CHECK;
void normalizer_deinit(Normalizer *nz);

#endif
