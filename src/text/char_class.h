/* char_class.h: the small sets of characters that the reference's steps use and Unicode has no
 * property for. */
#ifndef MLXCEL_TEXT_CHAR_CLASS_H
#define MLXCEL_TEXT_CHAR_CLASS_H

#include "base/str.h"

bool charclass_is_word(
    uint32_t cp); /* \w of UTS 18: alphabetic, marks, decimal digits, connectors, joiners */
bool charclass_is_bert_punct(uint32_t cp); /* ASCII punctuation and symbols, and P* of Unicode 8 */
bool charclass_is_bert_control(uint32_t cp); /* Cc, Cf, Co of Unicode 8, without \t \n \r */
bool charclass_is_cjk(uint32_t cp);          /* the ideographs that BERT puts blanks around */
bool charclass_is_old_mark(uint32_t cp);     /* Mn of Unicode 8 */
bool charclass_is_combining(uint32_t cp);    /* M* of the data that StripAccents uses */

#endif
