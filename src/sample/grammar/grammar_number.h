/* grammar_number.h: sets of numbers as automata over their decimal spelling:
 * -?(0|[1-9][0-9]*)(\.[0-9]+)?, called plain. All spellings of a value are in or out together (1,
 * 1.0, 1.00; -0 is 0). Exponents are left out: whether 1e5 and 0.01e7 are in a set is not regular;
 * numbers with exponents are only allowed where nothing constrains the value. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_NUMBER_H
#define MLXCEL_SAMPLE_GRAMMAR_NUMBER_H

#include "sample/grammar/grammar_dfa.h"

typedef enum NumberCompare { NUMBER_LESS = 1, NUMBER_EQUAL = 2, NUMBER_GREATER = 4 } NumberCompare;

/* text: a JSON number, exponents included. what names the keyword in messages. */
Dfa *number_compare(GrammarWork *w, Str text, unsigned accept,
                    const char *what); /* accept: mask of NumberCompare */
Dfa *number_multiple(GrammarWork *w, Str text);
Dfa *number_integer(GrammarWork *w);
Dfa *number_plain(GrammarWork *w); /* all plain numbers */
Dfa *number_any(GrammarWork *w);   /* all JSON numbers, with exponents */
/* For writing: integers as 5 or 5.0; a finite set of values in finitely many spellings. A subset
 * with the same values. */
const Dfa *number_tidy(GrammarWork *w, const Dfa *d);
bool number_is_zero_or_less(Str text);

#endif
