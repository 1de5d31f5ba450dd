/* jinja_filter_lazy.h: filters that give an iterator (map, select, batch, ...): nothing happens,
 * and nothing fails, before it is drawn from. And the attribute getter they share with sort,
 * groupby and others ("user.name", "0.id"). */
#ifndef MLXCEL_CHAT_JINJA_FILTER_LAZY_H
#define MLXCEL_CHAT_JINJA_FILTER_LAZY_H

#include "chat/jinja_eval.h"
#include "chat/jinja_text.h"

typedef struct JGetter {
    JList *parts;  /* subscripts to apply in turn; NULL: the item itself */
    bool lower;    /* strings are compared without case */
    JVal fallback; /* for undefined; J_MISSING or None: none */
} JGetter;

bool jgetter_init(JRun *r, JVal attribute, JGetter *out); /* None and J_MISSING: the item itself */
bool jgetter_get(JEval *e, const JGetter *g, JVal item, JVal *out);

bool jlazy_items(JEval *e, JCall *c, JVal *out);
bool jlazy_map(JEval *e, JCall *c, JVal *out);
bool jlazy_select(JEval *e, JCall *c, JVal *out);
bool jlazy_reject(JEval *e, JCall *c, JVal *out);
bool jlazy_selectattr(JEval *e, JCall *c, JVal *out);
bool jlazy_rejectattr(JEval *e, JCall *c, JVal *out);
bool jlazy_unique(JEval *e, JCall *c, JVal *out);
bool jlazy_batch(JEval *e, JCall *c, JVal *out);
bool jlazy_slice(JEval *e, JCall *c, JVal *out);

#endif
