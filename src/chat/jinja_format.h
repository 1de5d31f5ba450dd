/* jinja_format.h: Python's two ways of formatting: "%s" % args and "{}".format(...). */
#ifndef MLXCEL_CHAT_JINJA_FORMAT_H
#define MLXCEL_CHAT_JINJA_FORMAT_H

#include "chat/jinja_eval.h"

enum { JFORMAT_MAX_WIDTH = 1 << 20 };

bool jformat_percent(JEval *e, const JStr *format, JVal args, JVal *out);
bool jformat_braces(JEval *e, const JStr *format, const JVal *args, size_t n_args,
                    const JDict *kwargs, bool has_map, JVal map, JVal *out);
bool jformat_value(JEval *e, JVal v, Str spec, JVal *out); /* format(v, spec) */

#endif
