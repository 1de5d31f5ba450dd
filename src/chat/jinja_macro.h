/* jinja_macro.h: macros and `caller` as values, and the activations they run in. */
#ifndef MLXCEL_CHAT_JINJA_MACRO_H
#define MLXCEL_CHAT_JINJA_MACRO_H

#include "chat/jinja_ast.h"
#include "chat/jinja_iter.h"

typedef struct JContext { /* names set at the top level, as macros and blocks see them */
    struct JContext *parent;
    JDict *vars;
} JContext;

typedef struct JScope { /* one activation of a function: its variables */
    struct JScope *parent;
    JVal *slots;
    JContext *ctx;
} JScope;

struct JMacro {
    const JNode *node; /* MACRO, CALLBLOCK or GENERATION */
    JScope *closure;
    Str name; /* empty: anonymous */
};

struct JBlockRef {
    const JNode *node;
    JContext *ctx;
};

#endif
