/* jinja_parse.h: tokens -> tree, by recursive descent, with Jinja's grammar and its quirks (unary
 * minus binds tighter than **, tests take one bare argument, ...). Expressions are in
 * jinja_parse_expr.c, statements in jinja_parse.c; this header is what the two share, and
 * jparse_run. */
#ifndef MLXCEL_CHAT_JINJA_PARSE_H
#define MLXCEL_CHAT_JINJA_PARSE_H

#include "chat/jinja_ast.h"
#include "chat/jinja_lex.h"

enum {
    JPARSE_MAX_DEPTH = 150, /* nested brackets and blocks */
    JPARSE_MAX_HEIGHT = 900 /* of the tree; long chains of operators and filters make it high */
};

typedef struct JParser {
    JRun *r;
    const JToken *t; /* current token */
    int depth;
} JParser;

bool jparse_run(JRun *r, const JTokens *tokens, JNodes *body);

/* What both halves use. */
JNode *jparse_node(JParser *p, JKind kind); /* NULL: no memory */
bool jparse_adopt(JParser *p, JNode *parent,
                  const JNode *child); /* keeps depths; fails when the tree is too high */
bool jparse_push(JParser *p, JNode *parent, JNodes *list, JNode *child);
bool jparse_is_name(const JParser *p, const char *name); /* the current token is this word */
bool jparse_skip(JParser *p, JTok type);                 /* takes it if it is there */
bool jparse_skip_name(JParser *p, const char *name);
bool jparse_expect(JParser *p, JTok type);
bool jparse_expect_name(JParser *p, const char *name);
bool jparse_fail_token(JParser *p, const char *expected); /* false */
bool jparse_enter(JParser *p); /* one level deeper; pair with p->depth-- */

/* Expressions. Flags of tuples: */
enum {
    JTUPLE_NO_COND = 1,
    JTUPLE_PARENS = 2,
    JTUPLE_TARGET = 4,
    JTUPLE_NSREF = 8,
    JTUPLE_STOP_IN = 16,
    JTUPLE_STOP_RECURSIVE = 32
};
bool jparse_expression(JParser *p, bool with_cond, JNode **out);
bool jparse_tuple(JParser *p, unsigned flags, JNode **out);
bool jparse_primary(JParser *p, bool with_nsref, JNode **out);
bool jparse_filter(JParser *p, JNode *subject, bool start_inline,
                   JNode **out); /* zero or more filters */
bool jparse_target(JParser *p, unsigned flags, JNode **out);
bool jparse_target_name(JParser *p, JCtx ctx, JNode **out);

#endif
