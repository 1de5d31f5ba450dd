/* jinja_scope.h: decides where every variable lives. Jinja compiles templates to Python functions
 * and its scoping rules follow from that: a block of code knows all names it will ever set before
 * it runs, an assignment inside a loop or block makes a new variable there, macros see the
 * variables around them as they are when the macro is called. This pass repeats those rules
 * (jinja2's "symbols"), gives each variable a slot in its function, and checks what can only be
 * checked now: unknown filters and tests, break outside a loop, blocks defined twice. */
#ifndef MLXCEL_CHAT_JINJA_SCOPE_H
#define MLXCEL_CHAT_JINJA_SCOPE_H

#include "chat/jinja_ast.h"

bool jscope_resolve(JRun *r, JTree *tree);

#endif
