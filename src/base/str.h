/* str.h: a borrowed piece of text, pointer and length, passed by value. Not NUL-terminated; may
 * hold NULs.
 *
 *     Str key = STR("model_type");
 *     if (str_starts(line, STR("data: "))) line = str_from(line, 6);
 *     err_set(err, ERR_INPUT, "bad key " STR_F, STR_A(key)); */
#ifndef MLXCEL_BASE_STR_H
#define MLXCEL_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Str {
    const char *p; /* may be NULL when n == 0 */
    size_t n;      /* bytes */
} Str;

#define STR(lit) ((Str){("" lit), sizeof(lit) - 1})
#define STR_NONE ((Str){0})
#define STR_F "%.*s"
#define STR_A(s) (int)((s).n > 200 ? 200 : (s).n), (s).p ? (s).p : ""
#define STR_NPOS ((size_t)-1)

Str str_c(const char *z); /* NULL gives an empty Str */
bool str_eq(Str a, Str b);
bool str_eqc(Str a, const char *z);
bool str_ieq(Str a, Str b); /* ASCII case folded */
int str_cmp(Str a, Str b);  /* bytewise; <0, 0, >0 */
bool str_starts(Str s, Str prefix);
bool str_ends(Str s, Str suffix);
Str str_slice(Str s, size_t from, size_t to); /* clamped */
Str str_from(Str s, size_t from);
size_t str_find(Str s, Str needle, size_t from); /* STR_NPOS if absent */
size_t str_rfind(Str s, Str needle);
size_t str_find_char(Str s, char c, size_t from);
Str str_trim(Str s);                            /* ASCII white space at both ends */
bool str_split(Str *rest, char sep, Str *part); /* takes the next part off rest; false at the end */

/* Whole-string numbers: false unless all of s is one number in range. No locale, no leading blanks
 * or plus sign. */
bool str_to_i64(Str s, int64_t *out);
bool str_to_u64(Str s, uint64_t *out);
/* decimal with exponent; correctly rounded; "inf"/"nan" refused */
bool str_to_f64(Str s, double *out);

uint64_t str_hash(Str s, uint64_t seed);

#endif
