/* jinja_float.h: floats as Python prints, reads and rounds them. */
#ifndef MLXCEL_CHAT_JINJA_FLOAT_H
#define MLXCEL_CHAT_JINJA_FLOAT_H

#include "chat/jinja_run.h"

enum { JFLOAT_REPR_MAX = 40, JFLOAT_MAX_PRECISION = 10000 };

size_t jfloat_repr(
    double f,
    char out[JFLOAT_REPR_MAX]); /* shortest text that reads back the same; "1.0", "1e+16", "nan" */
bool jfloat_parse(Str s, double *out); /* float(str): blanks, underscores, inf and nan allowed */
double jfloat_round(double f,
                    int n_digits); /* round(f, n_digits), half to even on the exact value */
/* type is one of e E f F g G; alt as '#'. The sign is left out. */
bool jfloat_format(JRun *r, double f, char type, int precision, bool alt, Str *out);

#endif
