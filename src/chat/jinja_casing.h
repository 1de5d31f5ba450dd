/* jinja_casing.h: str.isupper, islower and istitle: whole strings, where uncased characters do not
 * matter. */
#ifndef MLXCEL_CHAT_JINJA_CASING_H
#define MLXCEL_CHAT_JINJA_CASING_H

#include "base/str.h"

bool jcasing_is_upper(Str s);
bool jcasing_is_lower(Str s);
bool jcasing_is_title(Str s);

#endif
