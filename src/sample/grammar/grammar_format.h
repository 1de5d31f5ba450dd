/* grammar_format.h: the string formats of JSON Schema as regular expressions. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_FORMAT_H
#define MLXCEL_SAMPLE_GRAMMAR_FORMAT_H

#include "sample/grammar/grammar_dfa.h"

typedef enum FormatKind {
    FORMAT_UNKNOWN,
    FORMAT_NOTE,   /* an annotation (password, byte ...): constrains nothing */
    FORMAT_STRING, /* *dfa says which strings */
    FORMAT_INT32,  /* the number formats of OpenAPI */
    FORMAT_INT64,
    FORMAT_UINT32,
    FORMAT_UINT64
} FormatKind;

FormatKind format_find(GrammarWork *w, Str name, Dfa **dfa); /* *dfa NULL with w->failed on error */
void format_names(char *out, size_t n);                      /* the enforced ones, for messages */

#endif
