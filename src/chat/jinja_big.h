/* jinja_big.h: integers as Python has them, of any size. JVal holds 64-bit ones directly; a JBig is
 * what does not fit. Results are always normalised: whatever fits comes back as J_INT. Sizes are
 * capped at JBIG_MAX_LIMBS (an error).
 *
 * Every function takes J_INT, J_BIG or J_BOOL. */
#ifndef MLXCEL_CHAT_JINJA_BIG_H
#define MLXCEL_CHAT_JINJA_BIG_H

#include "chat/jinja_value.h"

enum { JBIG_MAX_LIMBS = 4096, JBIG_MAX_DIGITS = 4300 /* Python's limit for int <-> str */ };

struct JBig {
    uint32_t *limb; /* least significant first, the last one not zero */
    size_t n;
    bool neg;
};

bool jint_add(JRun *r, JVal a, JVal b, JVal *out);
bool jint_sub(JRun *r, JVal a, JVal b, JVal *out);
bool jint_mul(JRun *r, JVal a, JVal b, JVal *out);
bool jint_divmod(JRun *r, JVal a, JVal b, JVal *quot,
                 JVal *rem); /* floors; fails on zero; quot or rem may be NULL */
bool jint_truediv(JRun *r, JVal a, JVal b, double *out); /* correctly rounded */
bool jint_pow(JRun *r, JVal a, uint64_t e, JVal *out);
bool jint_neg(JRun *r, JVal a, JVal *out);
int jint_cmp(JVal a, JVal b);
int jint_cmp_double(JVal a, double f); /* exact; f is not NaN */
int jint_sign(JVal a);
uint64_t jint_hash(JVal a);
size_t jint_bit_length(JVal a);
bool jint_to_double(JRun *r, JVal a, double *out);   /* fails when too large */
bool jint_from_double(JRun *r, double f, JVal *out); /* truncates; f is finite */
/* digits in base 2..36, no sign or prefix; case of letters ignored. */
bool jint_parse(JRun *r, Str digits, int base, bool neg, JVal *out);
bool jint_format(JRun *r, JVal a, int base, bool upper, Str *out); /* with "-", without prefix */
bool jint_to_i64(JVal a, int64_t *out);                            /* false if it does not fit */
int64_t jint_clamp(JVal a); /* saturated, as slices need it */

#endif
