/* json_scan.h: the inner loops of the JSON reader: runs of plain string bytes, white space, and
 * the checks of a finished number or string. No state, no errors: positions only. */
#ifndef MLXCEL_JSON_JSON_SCAN_H
#define MLXCEL_JSON_JSON_SCAN_H

#include "base/str.h"

/* First index >= i (n if none) of a byte that cannot stand in a string as it is: quote,
 * backslash, below 0x20. *high is set if a byte above 0x7F was passed. */
size_t json_scan_string(const char *p, size_t i, size_t n, bool *high);
/* First index that is not white space, cannot belong to a number, is not a letter or digit. */
size_t json_scan_space(const char *p, size_t i, size_t n);
size_t json_scan_number(const char *p, size_t i, size_t n);
size_t json_scan_word(const char *p, size_t i, size_t n);

bool json_number_valid(Str s);
/* Index of the first byte that is not UTF-8, STR_NPOS if all is well. */
size_t json_utf8_bad(Str raw);
/* Index of the first escape that is not one, or (if lone_is_bad) is half a surrogate pair;
 * STR_NPOS if all is well. */
size_t json_escape_bad(Str raw, bool lone_is_bad);
int json_hex4(const char *p); /* -1 if not four hex digits */

#endif
