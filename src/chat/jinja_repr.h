/* jinja_repr.h: values as text: str(), repr(), json.dumps and pprint as Python has them. Text made
 * from a list or dict that holds anything of the user's counts as the user's, all of it. */
#ifndef MLXCEL_CHAT_JINJA_REPR_H
#define MLXCEL_CHAT_JINJA_REPR_H

#include "chat/jinja_str.h"

bool jrepr_str(JRun *r, JVal v, JVal *out); /* str(v); a Markup string becomes plain */
bool jrepr_soft(JRun *r, JVal v,
                JVal *out); /* strings stay what they are, everything else str(v) */
bool jrepr_repr(JRun *r, JVal v, JVal *out);
bool jrepr_ascii(JRun *r, JVal v, JVal *out); /* repr with everything above ASCII escaped */
void jrepr_put(JRun *r, JBuild *b, JVal v);   /* repr, into a builder */

typedef struct JJsonStyle {
    bool ascii, sort_keys;
    bool indented;
    JVal indent;            /* a string, when indented */
    JVal item_sep, key_sep; /* strings */
} JJsonStyle;
bool jrepr_json(JRun *r, JVal v, const JJsonStyle *style, JVal *out);
bool jrepr_pretty(JRun *r, JVal v, JVal *out); /* pprint.pformat */

#endif
