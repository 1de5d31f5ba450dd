/* jinja_ast.h: the tree a template is parsed into. One node type serves all kinds; the table says
 * which fields a kind uses. Nodes live in the compiled template's arena and never change after
 * compilation.
 *
 *   kind         a         b        c            items      more       body  orelse  name
 *   OUTPUT                                       pieces
 *   FOR          target    iterable test or 0                          body  else            flag: recursive
 *   IF           test                            elif (IFs)            body  else
 *   MACRO                                        arguments  defaults   body          name
 *   CALLBLOCK    call                            arguments  defaults   body
 *   GENERATION                                                         body
 *   FILTERBLOCK  filter                                                body
 *   WITH                                         targets    values     body
 *   BLOCK                                                              body          name    flag: scoped, op: required
 *   INCLUDE...   template                        names bound
 *   SET          target    value
 *   SETBLOCK     target    filter/0                                    body
 *   AUTOESCAPE   condition                                             body
 *   NAME                                                                             name    op: JCtx
 *   NSREF                                                                            object  value: attribute
 *   CONST, DATA  value
 *   TUPLE, LIST, CONCAT                          items
 *   DICT                                         keys       values
 *   COND         test      then     else or 0
 *   binary       left      right
 *   COMPARE      first                           OPERANDs (op, a)
 *   FILTER, TEST subject   *args    **kwargs     args       KEYWORDs                 name
 *   CALL         callee    *args    **kwargs     args       KEYWORDs
 *   GETATTR      object                                                              attribute
 *   GETITEM      object    subscript
 *   SLICE        start     stop     step         (each may be 0) */
#ifndef MLXCEL_CHAT_JINJA_AST_H
#define MLXCEL_CHAT_JINJA_AST_H

#include "chat/jinja_value.h"

typedef enum JKind {
    JN_OUTPUT,
    JN_DATA,
    JN_FOR,
    JN_IF,
    JN_MACRO,
    JN_CALLBLOCK,
    JN_GENERATION,
    JN_FILTERBLOCK,
    JN_WITH,
    JN_BLOCK,
    JN_EXTENDS,
    JN_INCLUDE,
    JN_IMPORT,
    JN_SET,
    JN_SETBLOCK,
    JN_AUTOESCAPE,
    JN_BREAK,
    JN_CONTINUE,
    JN_NAME,
    JN_NSREF,
    JN_CONST,
    JN_TUPLE,
    JN_LIST,
    JN_DICT,
    JN_COND,
    JN_OR,
    JN_AND,
    JN_NOT,
    JN_NEG,
    JN_POS,
    JN_ADD,
    JN_SUB,
    JN_MUL,
    JN_DIV,
    JN_FLOORDIV,
    JN_MOD,
    JN_POW,
    JN_CONCAT,
    JN_COMPARE,
    JN_OPERAND,
    JN_FILTER,
    JN_TEST,
    JN_CALL,
    JN_KEYWORD,
    JN_GETATTR,
    JN_GETITEM,
    JN_SLICE
} JKind;

typedef enum JCtx { JCTX_LOAD, JCTX_STORE, JCTX_PARAM } JCtx;
typedef enum JOper { JOP_EQ, JOP_NE, JOP_LT, JOP_LE, JOP_GT, JOP_GE, JOP_IN, JOP_NOTIN } JOper;
typedef enum JEsc {
    JESC_OFF,
    JESC_ON,
    JESC_ASK
} JEsc; /* autoescape where a node stands; ASK: known when it runs */

typedef struct JNode JNode;
typedef struct JNodes {
    JNode **p;
    size_t n;
} JNodes;

/* Where a variable lives: `up` function activations outwards, slot there. */
typedef struct JRef {
    uint32_t up, slot;
} JRef;

/* What entering a scope does to its variables (the compiler pass, jinja_scope.h, fills these
 * in). */
typedef enum JLoadKind { JLOAD_PARAM, JLOAD_RESOLVE, JLOAD_ALIAS, JLOAD_UNDEFINED } JLoadKind;
typedef struct JLoad {
    JLoadKind kind;
    uint32_t slot;
    JRef from; /* ALIAS */
    Str name;
} JLoad;
typedef struct JStored { /* for scoped blocks: names that the enclosing scopes have set */
    Str name;
    JRef ref;
} JStored;
typedef struct JScopeInfo {
    JLoad *loads;
    size_t n_loads;
    uint32_t n_slots; /* of the function, where the scope opens one */
    JRef caller, kwargs, varargs, loop, self,
        super; /* slot of the special parameter; .up 1 when absent */
    JStored *stored;
    size_t n_stored;
} JScopeInfo;

struct JNode {
    JKind kind;
    uint8_t op;
    uint8_t esc; /* JEsc */
    bool flag;
    bool toplevel;  /* a SET or MACRO whose names become visible to macros and blocks */
    uint16_t depth; /* height of the tree below */
    int line;
    Str name;
    JVal value;
    JNode *a, *b, *c;
    JNodes items, more, body, orelse;
    JRef ref;           /* NAME, NSREF; MACRO: where the macro is stored */
    JScopeInfo *scope;  /* of the body */
    JScopeInfo *scope2; /* FOR: of the else branch */
    JScopeInfo *scope3; /* FOR: of the test */
    const void *fn;     /* FILTER, TEST: the built-in; NULL if unknown */
};

typedef struct JTree {
    JNodes body;
    JScopeInfo *scope;
    JNode **blocks;
    size_t n_blocks;
} JTree;

#endif
