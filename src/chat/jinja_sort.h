/* jinja_sort.h: sorted() as Python has it: stable, comparing with <, failing on types that cannot
 * be compared. */
#ifndef MLXCEL_CHAT_JINJA_SORT_H
#define MLXCEL_CHAT_JINJA_SORT_H

#include "chat/jinja_value.h"

/* Sorts v[0..n) by keys[0..n) (both are rearranged; keys may be v itself). */
bool jsort_by(JRun *r, JVal *v, JVal *keys, size_t n, bool reverse);
bool jsort_dict_items(JRun *r, const JDict *d, JList **out); /* (key, value) tuples, by key */

#endif
