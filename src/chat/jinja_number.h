/* jinja_number.h: int() and float() of values, as Python converts them. */
#ifndef MLXCEL_CHAT_JINJA_NUMBER_H
#define MLXCEL_CHAT_JINJA_NUMBER_H

#include "chat/jinja_value.h"

/* *ok false: Python would raise TypeError or ValueError; the function itself fails on what Jinja
 * does not catch. */
bool jnumber_int(JRun *r, JVal v, JVal base, JVal *out, bool *ok);
bool jnumber_float(JRun *r, JVal v, double *out, bool *ok);

#endif
