/* jinja_symbols.h: the names one scope reads and sets, as jinja2's idtracking has them, and the
 * visitor that collects them. Used by jinja_scope.c only. */
#ifndef MLXCEL_CHAT_JINJA_SYMBOLS_H
#define MLXCEL_CHAT_JINJA_SYMBOLS_H

#include "chat/jinja_ast.h"

/* One activation's worth of slots: the template's root, a block, a macro, a loop's filter, a
 * recursive loop. */
typedef struct JFuncIdent {
    Str name;
    int level;
} JFuncIdent;
typedef struct JFuncInfo {
    int depth;
    JFuncIdent *
        /* index = slot; a name has one slot per nesting level, which sibling scopes share */
        idents;
    size_t n, cap;
} JFuncInfo;

typedef struct JSymbol {
    Str name;
    uint32_t slot;
    bool stored;
    JLoadKind load;
    JFuncInfo *alias_func; /* ALIAS: the outer variable */
    uint32_t alias_slot;
} JSymbol;

typedef struct JSymbols {
    struct JSymbols *parent;
    JFuncInfo *func;
    int level;
    JSymbol *v;
    size_t n, cap;
} JSymbols;

JSymbols *jsymbols_new(JRun *r, JSymbols *parent, JFuncInfo *func);
bool jsymbols_declare(JRun *r, JSymbols *s, Str name); /* a parameter */
const JSymbol *jsymbols_find(JRun *r, const JSymbols *s, Str name,
                             const JSymbols **owner); /* NULL: unknown here */
bool jsymbols_visit(JRun *r, JSymbols *s, JNode *n, bool as_param);
bool jsymbols_visit_all(JRun *r, JSymbols *s, const JNodes *list);

/* Child nodes in jinja2's field order; calls fn on each until it returns false. */
typedef bool JChildFn(void *arg, JNode *child);
bool jnode_children(JNode *n, JChildFn *fn, void *arg);
/* Which of the names (up to 8) are read in these nodes before being set there: a bit per name. */
bool jsymbols_undeclared(JRun *r, const JNodes *body, const char *const *names, unsigned n_names,
                         unsigned *out);

#endif
