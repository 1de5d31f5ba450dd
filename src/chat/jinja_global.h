/* jinja_global.h: the functions every template can call: range, dict, namespace, cycler, joiner,
 * lipsum, raise_exception, strftime_now. */
#ifndef MLXCEL_CHAT_JINJA_GLOBAL_H
#define MLXCEL_CHAT_JINJA_GLOBAL_H

#include "chat/jinja_eval.h"

enum { JGLOBAL_MAX_RANGE = 100000 };

const JFunc *jglobal_find(Str name);
bool jglobal_is_dict(const JFunc *f);

#endif
