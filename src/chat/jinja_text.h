/* jinja_text.h: the string algorithms behind Python's str methods and Jinja's text filters. All
 * keep who wrote which byte; where that cannot be told (case mapping that changes lengths in a
 * mixed string) the result is the user's. */
#ifndef MLXCEL_CHAT_JINJA_TEXT_H
#define MLXCEL_CHAT_JINJA_TEXT_H

#include "chat/jinja_str.h"

typedef enum JCase {
    JCASE_LOWER,
    JCASE_UPPER,
    JCASE_TITLE,
    JCASE_CAPITALIZE,
    JCASE_SWAP,
    JCASE_FOLD
} JCase;

bool jtext_case(JRun *r, JStr *s, JCase kind, JVal *out);
bool jtext_strip(JRun *r, JStr *s, const JStr *chars, bool left, bool right,
                 JVal *out); /* chars NULL: white space */
bool jtext_replace(JRun *r, JStr *s, const JStr *old, const JStr *with, int64_t count,
                   JVal *out); /* count < 0: all */
bool jtext_split(JRun *r, JStr *s, const JStr *sep, int64_t max, bool from_right,
                 JVal *out); /* sep NULL: white space */
bool jtext_lines(JRun *r, JStr *s, bool keep_ends, JList **out);
bool jtext_pad(JRun *r, JStr *s, int64_t width, const JStr *fill, int align,
               JVal *out); /* align -1 left, 0 centre, 1 right */
size_t jtext_rfind(JRun *r, Str s, Str needle);
bool jtext_is_word(uint32_t cp); /* \w */
bool jtext_is_alnum(uint32_t cp);
bool jtext_is_digit(uint32_t cp); /* str.isdigit of one character: decimals and superscripts */

#endif
