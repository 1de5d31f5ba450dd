/* jinja_wrap.h: Python's textwrap.wrap, as the wordwrap filter uses it. */
#ifndef MLXCEL_CHAT_JINJA_WRAP_H
#define MLXCEL_CHAT_JINJA_WRAP_H

#include "chat/jinja_str.h"

typedef struct JWrap {
    int64_t width;
    bool break_long, break_hyphens;
    JVal newline; /* a string */
} JWrap;

bool jwrap_text(JRun *r, JStr *s, const JWrap *w, JVal *out);

#endif
