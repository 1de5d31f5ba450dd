/* jinja_str.h: strings of the template engine and the builder that makes them. Positions are bytes
 * inside; what templates see is code points, and the conversions are here. Slices share the bytes
 * of what they were cut from.
 *
 *     JBuild b = {0};
 *     jbuild_put(r, &b, STR("<b>"), false);  text of the template
 *     jbuild_put_jstr(r, &b, s);             keeps who wrote which byte
 *     return jbuild_done(r, &b, out);        the builder's errors are sticky and come out here */
#ifndef MLXCEL_CHAT_JINJA_STR_H
#define MLXCEL_CHAT_JINJA_STR_H

#include "chat/jinja_value.h"

typedef struct JBuild {
    char *p;
    size_t n, cap, max; /* max 0: no limit but the arena's */
    JSeg *segs;
    size_t n_segs, cap_segs;
    unsigned n_puts; /* small pieces cost too: one operation for every few */
    bool failed;     /* the JRun has the error */
} JBuild;

void jbuild_put(JRun *r, JBuild *b, Str s, bool user);
void jbuild_putc(JRun *r, JBuild *b, char c, bool user);
void jbuild_put_cp(JRun *r, JBuild *b, uint32_t cp, bool user);
void jbuild_put_jstr(JRun *r, JBuild *b, const JStr *s);
void jbuild_put_range(JRun *r, JBuild *b, const JStr *s, size_t from,
                      size_t to); /* bytes from..to */
void jbuild_fill(JRun *r, JBuild *b, const JStr *s, size_t times);
void jbuild_mark_user(JRun *r, JBuild *b); /* all of it becomes the user's */
bool jbuild_done(JRun *r, JBuild *b, JVal *out);

JStr *jstr_new(JRun *r, Str s, JOrigin origin); /* borrows the bytes; origin is not MIXED */
bool jstr_make(JRun *r, Str s, bool user, JVal *out);
bool jstr_copy(JRun *r, Str s, bool user, JVal *out); /* copies the bytes */
bool jstr_slice(JRun *r, JStr *s, size_t from, size_t to, JVal *out);
bool jstr_as_markup(JRun *r, JVal v, bool markup, JVal *out); /* v is a string */
bool jstr_has_user(const JStr *s);

size_t jstr_n_cp(JStr *s);
size_t jstr_byte_of(JStr *s, size_t cp); /* byte offset of code point cp; the end if beyond */
size_t jstr_cp_of(JStr *s, size_t byte); /* code points before byte */
uint32_t jstr_next(Str s, size_t *at); /* decodes one code point, lone surrogates too; *at < s.n */
uint32_t jstr_prev(Str s, size_t *at); /* the one that ends at *at; *at > 0 */
size_t jstr_encode(uint32_t cp, char out[4]); /* surrogates too */
bool jstr_is_space(uint32_t cp);              /* str.isspace */
bool jstr_is_line_end(uint32_t cp);           /* str.splitlines */
uint32_t
jstr_only_cp(const JStr *s); /* the code point of a one-character string, else UINT32_MAX */

#endif
