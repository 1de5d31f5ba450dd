/* jinja_urlize.h: the urlize filter: addresses in a text become HTML links. */
#ifndef MLXCEL_CHAT_JINJA_URLIZE_H
#define MLXCEL_CHAT_JINJA_URLIZE_H

#include "chat/jinja_eval.h"

bool jurlize_filter(JEval *e, JCall *c, JVal *out);

#endif
