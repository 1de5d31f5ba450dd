/* jinja_html.h: HTML escaping and the filters around it. */
#ifndef MLXCEL_CHAT_JINJA_HTML_H
#define MLXCEL_CHAT_JINJA_HTML_H

#include "chat/jinja_str.h"

bool jhtml_escape(JRun *r, JVal v, JVal *out); /* markupsafe.escape(v): a Markup string */
bool jhtml_put_escaped(JRun *r, JBuild *b, const JStr *s);
bool jhtml_unescape(JRun *r, const JStr *s, JVal *out); /* html.unescape */

typedef struct JHtmlEntity {
    const char *name, *text;
} JHtmlEntity;
extern const JHtmlEntity jhtml_entities[]; /* sorted by name, bytewise */
extern const size_t jhtml_n_entities;

#endif
