/* jinja_eval.h: runs a compiled template: expressions (jinja_eval.c), statements (jinja_exec.c),
 * calls and macros (jinja_call.c), operators (jinja_ops.c), attributes and subscripts
 * (jinja_attr.c). JEval is the state of one rendering. */
#ifndef MLXCEL_CHAT_JINJA_EVAL_H
#define MLXCEL_CHAT_JINJA_EVAL_H

#include "chat/jinja_ast.h"
#include "chat/jinja_builtin.h"
#include "chat/jinja_macro.h"
#include "chat/jinja_str.h"
#include "chat/jinja_time.h"

enum {
    JEVAL_MAX_CALLS = 230
}; /* nested macros, blocks and recursive loops; Python gives up at about as many */

typedef enum JJump { JJUMP_NONE, JJUMP_BREAK, JJUMP_CONTINUE } JJump;

typedef struct JEval {
    JRun *r;
    const JTree *tree;
    const JDict *input; /* the variables given to the template */
    const JTime *now;
    JScope *scope;
    JBuild *out;
    JJump jump;
    int n_calls;
    bool autoescape;
} JEval;

bool jeval_expr(JEval *e, const JNode *n, JVal *out);
bool jeval_filter_on(JEval *e, const JNode *n, JVal subject,
                     JVal *out); /* a filter whose subject is a block's text */

bool jexec_body(JEval *e, const JNodes *body);
bool jexec_template(JEval *e);
bool jexec_assign(JEval *e, const JNode *target, JVal v);
bool jexec_enter(JEval *e, const JScopeInfo *info);
void jexec_leave(JEval *e, const JScopeInfo *info);
bool jexec_loop(JEval *e, const JNode *n, JVal over,
                int64_t depth0); /* one run of a for statement */
JVal *jexec_slot(const JEval *e, JRef ref);
bool jexec_resolve(JEval *e, Str name,
                   JVal *out); /* from the context and the globals; J_MISSING if nowhere */
bool jexec_put(JEval *e, JVal v, JEsc esc); /* prints a value */
static inline bool jexec_escapes(const JEval *e, JEsc esc) {
    return esc == JESC_ASK ? e->autoescape : esc == JESC_ON;
}

bool jcall_value(JEval *e, JVal callee, const JVal *args, size_t n_args, const JDict *kwargs,
                 JVal *out);
bool jcall_node(JEval *e, const JNode *n, JVal *caller, JVal *out); /* CALL; caller may be NULL */
bool jcall_args(JEval *e, const JNode *n, JVal *caller, JVal **args, size_t *n_args,
                JDict **kwargs);
bool jcall_macro(JEval *e, const JMacro *m, const JVal *args, size_t n_args, const JDict *kwargs,
                 JVal *out);
bool jcall_block(JEval *e, const JNode *block, JContext *ctx); /* prints it */
bool jcall_filter(JEval *e, Str name, JVal subject, const JVal *args, size_t n, const JDict *kwargs,
                  JVal *out);
bool jcall_test(JEval *e, Str name, JVal subject, const JVal *args, size_t n, const JDict *kwargs,
                bool *out);

bool jops_binary(JEval *e, JKind op, JVal a, JVal b, JVal *out);
bool jops_unary(JEval *e, JKind op, JVal a, JVal *out);
bool jops_compare(JEval *e, JOper op, JVal a, JVal b, bool *out);

bool jattr_get(JEval *e, JVal obj, Str name, JVal *out);  /* obj.name */
bool jattr_item(JEval *e, JVal obj, JVal key, JVal *out); /* obj[key] */
bool jattr_slice(JEval *e, JVal obj, const JSlice *s, JVal *out);
bool jattr_own(JEval *e, JVal obj, Str name, JVal *out,
               bool *found); /* an attribute, not an item */

#endif
