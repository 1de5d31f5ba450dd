#include "text/char_class.h"

#include "base/unicode.h"

bool charclass_is_word(uint32_t cp) {
    if (cp < 0x80) return (cp >= '0' && cp <= '9') || (cp | 0x20) - 'a' < 26u || cp == '_';
    if (UNICODE_IN(cp, UNICODE_LETTERS | UNICODE_MARKS | UNICODE_BIT(UNICODE_ND) |
                           UNICODE_BIT(UNICODE_NL) | UNICODE_BIT(UNICODE_PC)))
        return true;
    /* Circled and squared letters are symbols with the Alphabetic property. */
    return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
           (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C ||
           cp == 0x200D;
}

bool charclass_is_bert_punct(uint32_t cp) {
    if (cp < 0x80)
        return (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) ||
               (cp >= 123 && cp <= 126);
    return (unicode_is_punct(cp) && unicode_is_old(cp)) || cp == 0x166D ||
           cp == 0x111C9; /* were Po in Unicode 8 */
}

bool charclass_is_bert_control(uint32_t cp) {
    if (cp == '\t' || cp == '\n' || cp == '\r') return false;
    return UNICODE_IN(cp, UNICODE_BIT(UNICODE_CC) | UNICODE_BIT(UNICODE_CF) |
                              UNICODE_BIT(UNICODE_CO)) &&
           unicode_is_old(cp);
}

bool charclass_is_cjk(uint32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
           (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B73F) ||
           (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
           (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

bool charclass_is_old_mark(uint32_t cp) {
    if (cp == 0x1734 || cp == 0x1171E) return true; /* have become Mc since */
    if (cp == 0x1885 || cp == 0x1886 || cp == 0xA9BD || cp == 0x111C9)
        return false; /* have become Mn since */
    return unicode_category(cp) == UNICODE_MN && unicode_is_old(cp);
}

/* The scripts' data is of the same age as that of StripAccents, so a mark without a script is
 * too young. */
bool charclass_is_combining(uint32_t cp) {
    if (cp == 0x1CF2 || cp == 0x1CF3) return true;
    return unicode_is_mark(cp) && unicode_script(cp) != UNICODE_SCRIPT_ANY && cp != 0x111C9;
}
