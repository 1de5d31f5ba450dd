/* unicode.h: character properties, case mapping, normalization and terminal width from our own
 * tables (unicode_*_tab.c, written by tools/gen_unicode.py), so that token ids never depend on
 * the host's library.
 *
 * Versions differ on purpose. Categories are Unicode 16 (what the reference's regex engine has);
 * unicode_is_numeric and case mappings are Unicode 17; normalization and scripts are the older
 * data that the reference tokenizers use.
 *
 *     size_t n = unicode_lower(cp, out);             1..3 code points
 *     unicode_put_lower(&buf, text);                 whole strings, with final sigma as Python does it
 *     unicode_normalize(UNICODE_NFC, text, &buf);    errors are the Buf's (sticky)
 *
 * Strings are UTF-8; a byte that is not part of a valid sequence is copied as it is. */
#ifndef MLXCEL_BASE_UNICODE_H
#define MLXCEL_BASE_UNICODE_H

#include "base/buf.h"

typedef enum UnicodeCategory {
    UNICODE_CN,
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
    UNICODE_CATEGORY_COUNT
} UnicodeCategory;

/* Sets of categories as bit masks: UNICODE_IN(cp, UNICODE_LETTERS). */
#define UNICODE_BIT(cat) (1u << (cat))
#define UNICODE_LETTERS (0x1Fu << UNICODE_LU)
#define UNICODE_MARKS (0x7u << UNICODE_MN)
#define UNICODE_NUMBERS (0x7u << UNICODE_ND)
#define UNICODE_PUNCTS (0x7Fu << UNICODE_PC)
#define UNICODE_SYMBOLS (0xFu << UNICODE_SM)
#define UNICODE_SEPARATORS (0x7u << UNICODE_ZS)
#define UNICODE_IN(cp, mask) ((UNICODE_BIT(unicode_category(cp)) & (mask)) != 0)

UnicodeCategory unicode_category(uint32_t cp); /* CN above U+10FFFF */
static inline bool unicode_is_letter(uint32_t cp) { return UNICODE_IN(cp, UNICODE_LETTERS); }
static inline bool unicode_is_mark(uint32_t cp) { return UNICODE_IN(cp, UNICODE_MARKS); }
static inline bool unicode_is_number(uint32_t cp) { return UNICODE_IN(cp, UNICODE_NUMBERS); }
static inline bool unicode_is_punct(uint32_t cp) { return UNICODE_IN(cp, UNICODE_PUNCTS); }
static inline bool unicode_is_symbol(uint32_t cp) { return UNICODE_IN(cp, UNICODE_SYMBOLS); }
static inline bool unicode_is_decimal(uint32_t cp) { return unicode_category(cp) == UNICODE_ND; }
bool unicode_is_space(uint32_t cp);   /* the White_Space property */
bool unicode_is_numeric(uint32_t cp); /* Nd, Nl, No of Unicode 17 */
bool unicode_is_lower(uint32_t cp);   /* Ll, and Lm/So/Nl with the Lowercase property */
bool unicode_is_upper(uint32_t cp);   /* Lu, and So/Nl with the Uppercase property */

bool unicode_is_cased(uint32_t cp); /* has the Cased property */
bool unicode_is_old(uint32_t cp);   /* exists in Unicode 8.0 */

/* Full case mappings of one code point: 1..3 code points into out. No context (final sigma)
 * here. */
size_t unicode_lower(uint32_t cp, uint32_t out[3]);
size_t unicode_upper(uint32_t cp, uint32_t out[3]);
size_t unicode_title(uint32_t cp, uint32_t out[3]);

/* Whole strings as Python's str.lower, upper, title and capitalize. */
void unicode_put_lower(Buf *out, Str s);
void unicode_put_upper(Buf *out, Str s);
void unicode_put_title(Buf *out, Str s);
void unicode_put_capitalized(Buf *out, Str s);

typedef enum UnicodeForm { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } UnicodeForm;
void unicode_normalize(UnicodeForm form, Str s, Buf *out); /* appends */
bool unicode_is_plain(UnicodeForm form, Str s); /* quick check: surely unchanged by that form */
uint8_t unicode_combining_class(uint32_t cp);

/* Script as the reference's UnicodeScripts pre-tokenizer knows it: equal numbers, equal scripts. */
enum {
    UNICODE_SCRIPT_ANY = 0,
    UNICODE_SCRIPT_COMMON = 1,
    UNICODE_SCRIPT_INHERITED = 2,
    UNICODE_SCRIPT_HAN = 3
};
uint8_t unicode_script(uint32_t cp);

/* The end of the extended grapheme cluster (UAX 29) that begins at `at`; at < s.n. */
size_t unicode_grapheme_end(Str s, size_t at);

int unicode_width(uint32_t cp); /* terminal columns: 0 (marks, format, control), 1 or 2 */

#endif
