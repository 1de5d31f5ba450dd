/* jinja_format_number.h: numbers with sign, prefix, zero fill and grouping, for both ways of
 * formatting. */
#ifndef MLXCEL_CHAT_JINJA_FORMAT_NUMBER_H
#define MLXCEL_CHAT_JINJA_FORMAT_NUMBER_H

#include "chat/jinja_eval.h"

typedef struct JNumFormat {
    char type;        /* d o x X b, e E f F g G %, or r: repr of a float; n is d or g */
    char sign;        /* '+', ' ' or 0 */
    char grouping;    /* ',' '_' or 0 */
    bool alt;         /* # */
    bool no_neg_zero; /* z */
    int precision;    /* -1: default; for integers the least number of digits */
} JNumFormat;

typedef struct JNumText {
    Str head; /* sign and prefix */
    Str digits;
} JNumText;

bool jnumformat_int(JRun *r, JVal v, const JNumFormat *f, JNumText *out);
bool jnumformat_float(JRun *r, double v, const JNumFormat *f, JNumText *out);
/* Zero fill up to `width` columns, with separators where there are any. */
bool jnumformat_zero_fill(JRun *r, JNumText *t, const JNumFormat *f, int64_t width);

#endif
